"""Copies and pickles: nothing is silently left out, and what is copied together stays together."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import MLP, GradScaler, Tensor, Value, asarray, nn, no_grad, optim
from micrograd_core.engine import hooks
from micrograd_core.errors import GraphError
from tests.optim.test_optimizer_interrupts import RULES

WAYS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x, pickle.HIGHEST_PROTOCOL)),
    "old pickle": lambda x: pickle.loads(pickle.dumps(x, 2)),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Each way to get a copy."""
    return WAYS[request.param]


# ── tensors ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("where", ["cpu", "rawbuffer"])
def test_a_leaf_keeps_its_gradient(way: Callable[[Any], Any], dtype: str, where: str) -> None:
    if where == "rawbuffer" and dtype in ("complex64", "complex128"):
        pytest.skip("the device lacks it")
    x = Tensor([[1.0, 2.0]], dtype=dtype, device=where)
    for grad in (None, asarray([[3.0, 4.0]], dtype=dtype, device=where)):
        x.grad = grad
        y = way(x)
        assert (y.tolist(), y.dtype, y.device, y.requires_grad, y.is_leaf) == (
            x.tolist(),
            x.dtype,
            x.device,
            True,
            True,
        )
        assert (None if y.grad is None else y.grad.tolist()) == (None if grad is None else grad.tolist())
        if y.grad is not None:
            assert not mg.shares_memory(y.grad, x.grad)
        (abs(y) if x.dtype.is_complex else y).sum().backward()
        assert (None if x.grad is None else x.grad.tolist()) == (None if grad is None else grad.tolist())


def test_a_leaf_that_records_nothing_stays_one(way: Callable[[Any], Any]) -> None:
    for x in (mg.arange(3), asarray([1.0]), asarray([True]), asarray([1.0, 2.0])[1:]):
        y = way(x)
        assert (y.tolist(), y.dtype, y.requires_grad) == (x.tolist(), x.dtype, False)


def test_a_tensor_that_is_met_twice_is_one_tensor_in_the_copy(way: Callable[[Any], Any]) -> None:
    x = Tensor([1.0])
    y, again = way((x, [x]))
    assert again[0] is y is not x


def computed() -> dict[str, Any]:
    x = Tensor([1.0, 2.0])
    swept, shown = x.exp().sum(), x.exp()
    swept.backward()
    shown.register_hook(lambda g: None)
    return {"a result": x * 2, "a view": x[:1], "freed": swept, "with a hook": shown, "a cast": x.astype("float64")}


@pytest.mark.parametrize("name", computed())
def test_a_computed_tensor_is_refused(way: Callable[[Any], Any], name: str) -> None:
    x = computed()[name]
    for each in (x, [x], {"x": x}):
        with pytest.raises(GraphError, match=r"this tensor was computed, .* take x\.detach\(\) for the numbers alone"):
            way(each)
    assert way(x.detach()).tolist() == x.tolist()
    with no_grad():
        assert way(Tensor([1.0]) * 2).tolist() == [2.0]


def test_a_gradient_that_is_part_of_a_graph_is_refused(way: Callable[[Any], Any]) -> None:
    x = Tensor([1.0, 2.0])
    (x**3).sum().backward(create_graph=True)
    with pytest.raises(GraphError, match=r"the \.grad of this tensor .* was computed, .* take x\.grad\.detach\(\)"):
        way(x)
    assert x.grad is not None
    x.grad = x.grad.detach()
    assert way(x).grad.tolist() == [3.0, 12.0]


def tenfold(g: Tensor) -> Tensor:
    return g * 10


class Noted:
    """A hook that keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, g: Tensor) -> None:
        self.seen.append(g.tolist())


def test_hooks_come_along(way: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, noted = Tensor([1.0, 2.0]), Noted()
    x.register_hook(noted)
    handle = x.register_hook(tenfold)
    monkeypatch.setattr(hooks, "on_leaves", False)  # as in a process where none was registered yet
    y, twin, seen = way((x, handle, noted))
    assert hooks.on_leaves
    assert not {*y._record.hooks} & {*x._record.hooks}  # what another process registers has a key of its own, too
    added = y.register_hook(tenfold)  # takes nobody's place
    for expected in ([100.0, 100.0], [10.0, 10.0], [1.0, 1.0]):
        y.zero_grad()
        y.sum().backward()
        assert y.grad.tolist() == expected
        (added if expected[0] == 100.0 else twin).remove()
    assert len(seen.seen) == 3
    assert not noted.seen
    x.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_hook_that_cannot_be_pickled_is_not_left_out() -> None:
    x = Tensor([1.0])
    handle = x.register_hook(lambda g: g)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(x)
    handle.remove()
    assert pickle.loads(pickle.dumps(x)).tolist() == [1.0]


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────


class Run:
    """All that a training loop has."""

    def __init__(self, rule: Callable[[list[Tensor]], optim.Optimizer], device: str, dtype: str) -> None:
        layers: list[nn.Module] = [nn.Linear(2, 3, generator=random.Random(0), device=device)]
        if dtype != "complex128":
            layers += [nn.Tanh(), nn.Dropout(0.5, generator=mg.random.Generator(1))]
        self.model = nn.Sequential(*layers).to(dtype=dtype)
        self.rule = rule(self.model.parameters())
        self.schedule = optim.Schedule(self.rule, optim.linear_warmup(3, optim.cosine(9, 0.1)))
        self.scaler = GradScaler(4.0, interval=2)
        self.x = asarray([[1.0, 2.0], [3.0, -1.0]], device=device).astype(dtype)

    def go_on(self, steps: int) -> Any:
        for _ in range(steps):
            self.rule.zero_grad()
            y = self.model(self.x)
            loss = abs(y * y).sum() if y.dtype.is_complex else (y * y).sum()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.rule)
            self.scaler.update()
            self.schedule.step()
        numbers = [*self.model.state_dict().values(), *self.rule.state_dict().values()]
        return [x.tolist() for x in numbers], self.rule.lr, self.scaler.factor


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "float32"), ("cpu", "complex128"), ("rawbuffer", "float64")])
@pytest.mark.parametrize("rule", RULES)
def test_a_copy_of_a_run_goes_on_to_the_last_bit(way: Callable[[Any], Any], rule: str, device: str, dtype: str) -> None:
    whole = Run(RULES[rule], device, dtype)
    for _ in range(2):  # before the first step, and after the second
        twin = way(whole)
        assert all(p is q for p, q in zip(twin.model.parameters(), twin.rule.params, strict=True))
        assert twin.schedule.optimizer is twin.rule
        assert not {*map(id, twin.rule.params)} & {*map(id, whole.rule.params)}
        there = twin.go_on(2)
        assert whole.go_on(0) != there
        assert whole.go_on(2) == there


def test_a_deep_copy_of_an_optimiser_alone_moves_its_own_parameters(way: Callable[[Any], Any]) -> None:
    x = Tensor([1.0])
    rule = way(optim.SGD([x], lr=1.0))
    rule.params[0].grad = asarray([1.0])
    rule.step()
    assert (x.tolist(), rule.params[0].tolist()) == ([1.0], [0.0])


def test_kernels_for_many_parameters_are_not_copied(way: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    backend = mg.Device("cpu").kernels.backend
    stepped = []
    kernel = lambda params, grads, states, **hyper: (stepped.append(len(params)) or list(params), states)  # noqa: E731
    monkeypatch.setattr(backend, "kernel", lambda name: kernel if name == "sgd_step" else None)
    rule = optim.SGD([Tensor([1.0])])
    twin = way(rule)
    assert list(twin._together) == list(rule._together) == [mg.Device("cpu").kernels]
    twin.params[0].grad = asarray([1.0])
    twin.step()
    assert stepped == [1]


@pytest.mark.parametrize(
    "factor",
    [
        optim.step_decay(2, 0.5), optim.cosine(5), optim.linear_warmup(3), optim.linear_warmup(3, optim.cosine(4, 0.2)),
        optim.linear_warmup(2, optim.linear_warmup(2, optim.step_decay(1))),
    ],
    ids=range(5),
)  # fmt: skip
def test_factors_of_schedules(way: Callable[[Any], Any], factor: Callable[[int], float]) -> None:
    twin = way(factor)
    assert [twin(i) for i in range(12)] == [factor(i) for i in range(12)]


MODULES: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "Linear": (partial(nn.Linear, 4, 2), (3, 4)),
    "Conv1d": (partial(nn.Conv1d, 2, 2, 2), (1, 2, 4)),
    "Conv2d": (partial(nn.Conv2d, 2, 2, 2, bias=False), (1, 2, 4, 4)),
    "ConvTranspose2d": (partial(nn.ConvTranspose2d, 2, 2, 2), (1, 2, 3, 3)),
    "LayerNorm": (partial(nn.LayerNorm, 4), (3, 4)),
    "RMSNorm": (partial(nn.RMSNorm, 4), (3, 4)),
    "BatchNorm1d": (partial(nn.BatchNorm1d, 4), (3, 4)),
    "BatchNorm2d": (partial(nn.BatchNorm2d, 2), (3, 2, 2, 2)),
    "MultiheadAttention": (partial(nn.MultiheadAttention, 4, 2), (1, 3, 4)),
    "TransformerBlock": (partial(nn.TransformerBlock, 4, 2), (1, 3, 4)),
    "MLP": (partial(MLP, 4, [3, 1]), (3, 4)),
    "LeakyReLU": (partial(nn.LeakyReLU, 0.2), (3, 4)),
    "MaxPool2d": (partial(nn.MaxPool2d, 2), (1, 1, 4, 4)),
    "Dropout": (lambda: nn.Dropout(0.5, generator=mg.random.Generator(3)), (3, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(way: Callable[[Any], Any], name: str) -> None:
    make, shape = MODULES[name]
    model, x = make(), asarray(np.random.default_rng(0).normal(size=shape), dtype="float32")
    x = x.astype("float64") if name == "MLP" else x
    model(x)  # whatever a call leaves in the module
    (model(x) ** 2).sum().backward() if model.parameters() else None
    twin = way(model)
    for p, q in zip(_tensors(model), _tensors(twin), strict=True):
        assert p is not q
        assert p.tolist() == q.tolist()
        assert (p.grad is None) == (q.grad is None)
        assert p.grad is None or p.grad.tolist() == q.grad.tolist()
    assert twin(x).tolist() == model(x).tolist()
    assert twin.state_dict().keys() == model.state_dict().keys()


def _tensors(model: nn.Module) -> list[Tensor]:
    return [x for _, x in model.named_tensors()]


def test_generators_that_are_shared_stay_shared(way: Callable[[Any], Any]) -> None:
    g = mg.random.Generator(5)
    pair = nn.Sequential(nn.Dropout(0.5, generator=g), nn.Dropout(0.5, generator=g))
    twin: Any = way(pair)
    assert twin[0].generator is twin[1].generator is not g
    x = mg.ones((8,))
    assert twin(x).tolist() == pair(x).tolist()
    assert twin[0].generator.state == g.state


# ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["cpu", "rawbuffer:0"])
def test_a_computed_value_is_refused_however_long_its_graph(way: Callable[[Any], Any], where: str) -> None:
    a = Value(2.0, where)
    y = a
    for _ in range(100_000 if where == "cpu" else 10):
        y = y * 1.0 + a
    for each in (y, [y], a * a):
        with pytest.raises(GraphError, match=r"this Value was computed, .* take Value\(x\.data\) for the number alone"):
            way(each)
    assert way(Value(y.data)).data == y.data


def test_values_that_are_leaves_keep_number_gradient_and_identity(way: Callable[[Any], Any]) -> None:
    a, b = Value(2.0), Value(3.0)
    (a * b + a).backward()
    with no_grad():
        c = a * b
    x, y, z, again = way([a, b, c, a])
    assert again is x is not a
    assert (x.data, x.grad, y.data, y.grad, z.data) == (2.0, 4.0, 3.0, 2.0, 6.0)
    (x * y).backward()
    assert (x.grad, a.grad) == (7.0, 4.0)


@pytest.mark.parametrize("where", ["cpu", "rawbuffer"])
def test_scalar_parameters_stay_elements_of_the_model_they_are_copied_with(
    way: Callable[[Any], Any], where: str
) -> None:
    model = MLP(2, [2, 1], generator=random.Random(0), device=where)
    model([1.0, 2.0]).backward()
    before = [(p.data, p.grad) for p in model.parameters()]
    twin, elements = way((model, model.parameters()))
    assert [(p.data, p.grad) for p in elements] == [(p.data, p.grad) for p in twin.parameters()] == before
    for p in elements:
        p.data = 0.5
        p.grad = 2.0
    assert {(p.data, p.grad) for p in twin.parameters()} == {(0.5, 2.0)}
    assert [(p.data, p.grad) for p in model.parameters()] == before
    (elements[0] * 3.0).backward()
    assert twin.parameters()[0].grad == 5.0
    alone = way(model.parameters()[1])
    assert (alone.data, alone.grad) == before[1]


def test_a_module_that_keeps_a_computed_value_or_tensor_says_so(way: Callable[[Any], Any]) -> None:
    model: Any = nn.Linear(2, 1)
    model.last = model(Tensor([[1.0, 2.0]]))
    with pytest.raises(GraphError, match="was computed"):
        way(model)
    model.last = model.last.detach()
    assert way(model).last.tolist() == model.last.tolist()
