"""Classes, functions and names that are replaced, or that come to hide others, after a function was traced."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, jit, nn, no_grad, optim, random
from micrograd_core.nn import functional as F  # noqa: N812
from micrograd_core.transforms import guards

pytestmark = pytest.mark.filterwarnings("ignore:jit")

X = Tensor([[1.0, -2.0], [3.0, 4.0]], requires_grad=False)
HELPERS, INSTALLED = types.ModuleType("own_helpers"), types.ModuleType("installed_helpers")
HELPERS.act = INSTALLED.act = lambda x: x * 2.0  # type: ignore[attr-defined]
INSTALLED.__file__ = "/usr/lib/python3/site-packages/installed_helpers.py"
own, installed = HELPERS, INSTALLED

Patch = Callable[[pytest.MonkeyPatch], None]


def _scaled(x: Any, *args: Any, **kwargs: Any) -> Any:
    return x * 7.0


class Base:
    scale = 2.0

    def act(self, x: Any) -> Any:
        return x * self.scale + self.shift

    @property
    def shift(self) -> float:
        return 1.0


def _made(name: str = "Derived", bases: tuple[type, ...] = (Base,), **members: Any) -> Any:
    return type(name, bases, {"__module__": __name__, **members})


class Net(nn.Module):
    def __init__(self) -> None:
        with random.use_generator(0):
            self.layer = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def _of_class(change: Callable[[Any, Any, pytest.MonkeyPatch], None]) -> Callable[[], tuple[Any, Patch]]:
    def make() -> tuple[Any, Patch]:
        middle = _made("Middle")
        kind = _made(bases=(middle,))
        x = kind()
        return lambda y: x.act(y), lambda patch: change(x, kind, patch)

    return make


def _set(name: str, value: Any, of: str = "kind") -> Callable[[], tuple[Any, Patch]]:
    def change(x: Any, kind: Any, patch: pytest.MonkeyPatch) -> None:
        patch.setattr({"kind": kind, "middle": kind.__mro__[1], "object": x}[of], name, value, raising=False)

    return _of_class(change)


def _fixed(call: Callable[[Any], Any], owner: Any, name: str, value: Any) -> Callable[[], tuple[Any, Patch]]:
    return lambda: (call, lambda patch: patch.setattr(owner, name, value, raising=False))


def _of_net(owner: Any, name: str, value: Any) -> Callable[[], tuple[Any, Patch]]:
    def make() -> tuple[Any, Patch]:
        net = Net()
        return lambda x: net(x), lambda patch: patch.setattr(owner or net, name, value, raising=False)

    return make


def _rule(of: str) -> tuple[Any, Patch]:
    p = Tensor([1.0, 2.0])
    rule = optim.SGD([p], 0.5)

    def step(x: Any) -> Any:
        p.data = x
        rule.zero_grad()
        (p * x).sum().backward()
        rule.step()
        return p * 1.0

    replaced: Any = (lambda: None) if of == "object" else lambda self: None
    return step, lambda patch: patch.setattr(rule if of == "object" else optim.SGD, "step", replaced, raising=False)


def _slot_default() -> tuple[Any, Patch]:
    kind = _made(bases=(), __slots__=("h",))
    x = kind()
    x.h = 3.0
    return lambda y: y * x.h, lambda patch: patch.setattr(kind, "h", 5.0)


def _two() -> tuple[Any, Patch]:
    """A class of which nothing but a method is used, through another class's instance."""
    kind = _made()
    return lambda y: kind().act(y), lambda patch: patch.setattr(kind, "shift", 9.0, raising=False)


CASES: dict[str, Callable[[], tuple[Any, Patch]]] = {
    "a method that hides an inherited one": _set("act", lambda self, x: x * 5.0),
    "an attribute that hides an inherited one": _set("scale", 5.0),
    "a property that hides an inherited one": _set("shift", property(lambda self: 5.0)),
    "a class in between": _set("act", lambda self, x: x * 5.0, "middle"),
    "an attribute of the object that hides that of its class": _set("scale", 5.0, "object"),
    "a method of the object": _set("act", lambda x: x * 5.0, "object"),
    "__getattribute__": _set(
        "__getattribute__", lambda self, name: 5.0 if name == "scale" else object.__getattribute__(self, name)
    ),
    "__class__": _of_class(lambda x, kind, patch: patch.setattr(x, "__class__", _made("Other", scale=5.0))),
    "__bases__": _of_class(lambda x, kind, patch: setattr(kind, "__bases__", (_made("Other", scale=5.0),))),
    "a slot": _slot_default,
    "a class that is called": _two,
    "forward of a layer": _of_net(nn.Linear, "forward", lambda self, x: x * 5.0),
    "forward of an own module": _of_net(Net, "forward", lambda self, x: x * 5.0),
    "__call__ of an own module": _of_net(Net, "__call__", lambda self, x: x * 5.0),
    "__call__ of all modules": _of_net(nn.Module, "__call__", lambda self, x: x * 5.0),
    "forward of one module": _of_net(None, "forward", lambda x: x * 5.0),
    "a class of modules": _of_net(None, "__class__", type("Other", (Net,), {"forward": lambda self, x: x * 5.0})),
    "an operator": _fixed(lambda x: x * 2.0, Tensor, "__mul__", lambda x, y: x + y),
    "a method of tensors": _fixed(lambda x: x.exp(), Tensor, "exp", lambda x: x + 1),
    "a function of the package": _fixed(lambda x: mg.relu(x), mg, "relu", _scaled),
    "a function of a module": _fixed(lambda x: F.relu(x), F, "relu", _scaled),
    "a function by a long name": _fixed(lambda x: nn.functional.relu(x), F, "relu", _scaled),
    "a function that a layer calls": (
        lambda: (lambda layer: _fixed(lambda x: layer(x), F, "rms_norm", _scaled)())(nn.RMSNorm(2))
    ),
    "an own helper": _fixed(lambda x: own.act(x), HELPERS, "act", _scaled),
    "an installed helper": _fixed(lambda x: installed.act(x), INSTALLED, "act", _scaled),
    "a helper that is imported inside": _fixed(lambda x: _imported(x), HELPERS, "act", _scaled),
    "a global that hides a builtin": _fixed(
        lambda x: sum([x, x]), sys.modules[__name__], "sum", lambda xs: xs[0] * 5.0
    ),
    "a builtin": _fixed(lambda x: x * divmod(7, 2)[0], builtins, "divmod", lambda x, y: (5.0, 0)),
    "a method of an optimiser": lambda: _rule("object"),
    "a rule of optimisers": lambda: _rule("class"),
}


def _imported(x: Any) -> Any:
    from own_helpers import act  # type: ignore[import-not-found]

    return act(x)


@pytest.fixture(params=["versions of classes", "attributes one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "own_helpers", HELPERS)
    monkeypatch.setitem(sys.modules, "installed_helpers", INSTALLED)
    if request.param != "versions of classes":
        monkeypatch.setattr(guards, "_are_known", lambda: False)
    return str(request.param)


@pytest.mark.parametrize("name", CASES)
def test_what_is_replaced_or_hidden_is_noticed(name: str, way: str) -> None:
    f, change = CASES[name]()
    compiled = jit(f)
    x = X[0] if "optimi" in name else X
    with no_grad() if "optimi" not in name else mg.enable_grad():
        for patched in (False, True, False, True):
            with pytest.MonkeyPatch.context() as patch:
                if patched:
                    change(patch)
                for _ in range(3):
                    expected = f(x).tolist()
                    np.testing.assert_allclose(compiled(x).tolist(), expected, rtol=1e-6)
    assert compiled.traces <= 4, "and what has not changed is not traced again"


def test_what_matters_to_nobody_makes_no_new_trace(way: str) -> None:
    net = Net()
    f = jit(lambda x: net(x))
    f(X)
    for kind in (Net, nn.Linear, nn.Module, Tensor):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "__doc__", "Another text.")
            f(X)
        f(X)
    assert f.traces == 1


def test_versions_of_classes_are_known_here() -> None:
    """Where they are not, all is right, and calls take longer."""
    expected = sys.implementation.name == "cpython" and sys.version_info < (3, 13)
    assert not expected or guards._are_known()
