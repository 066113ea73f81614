"""What a function under `jit` rebinds or writes, and what others hold of it meanwhile: all as without `jit`.

The products of what is changed, who holds it, how it changes and who calls run whole with ``MICROGRAD_EXHAUSTIVE=1``.
"""

from __future__ import annotations

import collections
import itertools
import pickle
from collections.abc import Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, jit, nn, no_grad, optim, random
from micrograd_core.errors import GraphError
from tests.interrupts import EXHAUSTIVE

pytestmark = pytest.mark.filterwarnings("ignore:jit")

GLOBAL: Any = None
VARIABLE: ContextVar[Any] = ContextVar("state")


def fixed(*numbers: float) -> Tensor:
    return Tensor(list(numbers), requires_grad=False)


def numbers(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.shape, x.dtype.name, x.requires_grad, np.asarray(x.detach().tolist())
    return x


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            same(x, y)
    else:
        assert found == expected


# ── places where a state can be ──────────────────────────────────────────────────────────────────────────────

Holder = tuple[Callable[[], Any], Callable[[Any], None]]


def _attribute(x: Any, name: str = "h") -> Holder:
    return lambda: getattr(x, name), lambda value: setattr(x, name, value)


def _item(x: Any, key: Any) -> Holder:
    return lambda: x[key], lambda value: x.__setitem__(key, value)


def _cell() -> Holder:
    held: Any = None

    def bind(value: Any) -> None:
        nonlocal held
        held = value

    return lambda: held, bind


def _global() -> Holder:
    def bind(value: Any) -> None:
        global GLOBAL
        GLOBAL = value

    return lambda: GLOBAL, bind


def _made(**members: Any) -> Any:
    return type("Made", (), {"__module__": __name__, **members})


def _buffer() -> Holder:
    module = nn.Sequential(nn.Linear(1, 1))
    return _attribute(module.layers[0], "kept")


PLACES: dict[str, Callable[[], Holder]] = {
    "attribute": lambda: _attribute(_made()()),
    "slot": lambda: _attribute(_made(__slots__=("h",))()),
    "class attribute": lambda: _attribute(_made(h=None)),
    "namespace in an attribute": lambda: (lambda x: _attribute(x.inner))(SimpleNamespace(inner=SimpleNamespace())),
    "dict": lambda: _item({}, "h"),
    "dict by a number": lambda: _item({}, 3),
    "ordered dict": lambda: _item(collections.OrderedDict(), "h"),
    "default dict": lambda: _item(collections.defaultdict(int), "h"),
    "list": lambda: _item([None, None], 1),
    "deque": lambda: _item(collections.deque([None, None]), 1),
    "list in a dict in a list": lambda: (lambda x: _item(x[0]["a"], 0))([{"a": [None]}]),
    "closure": _cell,
    "global": _global,
    "context": lambda: (VARIABLE.get, lambda value: (VARIABLE.set(value), None)[1]),
    "buffer of a module": _buffer,
}


# ── what is done to a state ──────────────────────────────────────────────────────────────────────────────────


class State:
    """`step` changes what `now` gives."""

    def __init__(self, step: Callable[[Any], Any], now: Callable[[], list[Any]]) -> None:
        self.step, self.now = step, now


def rebound(change: Callable[[Any, Any], Any]) -> Callable[[str], State]:
    def make(place: str) -> State:
        read, bind = PLACES[place]()
        bind(fixed(1.0, 2.0, 3.0))

        def step(x: Any) -> Any:
            bind(change(read(), x))
            return read() * 2.0

        return State(step, lambda: [read()])

    return make


P = Tensor([0.5, 0.25, 2.0])


def _in_place(h: Any, x: Any) -> Any:
    h += x
    return h


def _through_a_view(h: Any, x: Any) -> Any:
    h[1:][...] = x[1:] + h[:2]
    h[0] *= 2.0
    return h


def _data(h: Any, x: Any) -> Any:
    h.data = h.data * 0.5 + x
    return h


def _whole(h: Any, x: Any) -> Any:
    h[...] = h * 0.5 + x
    return h


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "another tensor": lambda h, x: h + x,
    "another tensor that records": lambda h, x: h * 0.5 + P * x,
    "another shape": lambda h, x: mg.concat([h, x]) if h.shape[0] < 9 else h[:3] * 1.0,
    "another dtype": lambda h, x: (h + x.astype(h.dtype)).astype("float64" if h.dtype is mg.float32 else "float32"),
    "the argument": lambda h, x: x,
    "itself": lambda h, x: h,
    "in place": _in_place,
    "written": _whole,
    "written through views": _through_a_view,
    "data": _data,
}


def _swap(place: str) -> State:
    read, bind = PLACES[place]()
    other = SimpleNamespace(h=fixed(5.0, 6.0, 7.0))
    bind(fixed(1.0, 2.0, 3.0))

    def step(x: Any) -> Any:
        before = read()
        bind(other.h)
        other.h = before + x
        return before

    return State(step, lambda: [read(), other.h])


def _previous(place: str) -> State:
    read, bind = PLACES[place]()
    bind(fixed(1.0, 2.0, 3.0))
    log = SimpleNamespace(before=read(), same=read())

    def step(x: Any) -> Any:
        log.before = read()
        bind(read() * 0.5 + x)
        log.same = read()
        return log.same

    return State(step, lambda: [read(), log.before, log.same])


def _first_none(place: str) -> State:
    read, bind = PLACES[place]()
    bind(None)

    def step(x: Any) -> Any:
        bind(x * 1.0 if read() is None else read() + x)
        return read() * 2.0

    return State(step, lambda: [read()])


def _norm(kind: Callable[[], Any]) -> State:
    model = kind()

    def step(x: Any) -> Any:
        return model(mg.stack([x, x * 2.0, x - 1.0]))

    return State(step, lambda: list(model.buffers()))


def _recurrent(kind: type, records: bool) -> State:
    with random.use_generator(0):
        cell = kind(3, 3)
    state = SimpleNamespace(h=None, c=None)

    def step(x: Any) -> Any:
        h = (None if state.h is None else (state.h, state.c)) if kind is nn.LSTM else state.h
        out, h = cell(x[None, None], h)
        h, c = h if kind is nn.LSTM else (h, h)
        state.h, state.c = (h, c) if records else (h.detach(), c.detach())
        return out

    return State(step, lambda: [state.h, state.c])


def _trained(kind: Callable[[Any], Any]) -> State:
    with random.use_generator(0):
        model = nn.Linear(3, 2)
    rule = kind(model.parameters())

    def step(x: Any) -> Any:
        rule.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        rule.step()
        return loss

    def now() -> list[Any]:
        kept = [x for name, x in sorted(rule.state_dict().items()) if isinstance(x, Tensor)]
        return [model.weight, model.bias, model.weight.grad, *kept]

    return State(step, now)


def _gradients(how: str) -> State:
    w = Tensor([1.0, 2.0, 3.0])

    def step(x: Any) -> Any:
        if how == "cleared":
            w.grad = None
        (w * w * x).sum().backward()
        if how == "scaled":
            w.grad = w.grad * 0.5  # type: ignore[operator]
        if how == "scaled in place":
            w.grad *= 0.5  # type: ignore[operator]
        if how == "descended":
            with no_grad():
                w.data = w.data - 0.1 * w.grad  # type: ignore[operator]
        if how == "descended in place":
            with no_grad():
                w.data -= 0.1 * w.grad  # type: ignore[operator]
        return w * 1.0

    return State(step, lambda: [w, w.grad])


def _drawn() -> State:
    state = SimpleNamespace(h=fixed(0.0, 0.0, 0.0), generator=random.Generator(3))

    def step(x: Any) -> Any:
        state.h = state.h + random.normal((3,), generator=state.generator) * x
        return state.h

    return State(step, lambda: [state.h])


OTHERS: dict[str, Callable[[], State]] = {
    "running mean": lambda: _norm(lambda: nn.BatchNorm1d(3)),
    "LSTM": lambda: _recurrent(nn.LSTM, False),
    "GRU": lambda: _recurrent(nn.GRU, False),
    "LSTM that records": lambda: _recurrent(nn.LSTM, True),
    "RNN that records": lambda: _recurrent(nn.RNN, True),
    "SGD": lambda: _trained(lambda p: optim.SGD(p, 0.1)),
    "momentum": lambda: _trained(lambda p: optim.SGD(p, 0.1, momentum=0.9)),
    "Adam": lambda: _trained(lambda p: optim.Adam(p, 0.1)),
    **{f"gradients, {how}": lambda how=how: _gradients(how) for how in (  # type: ignore[misc]
        "added", "cleared", "scaled", "scaled in place", "descended", "descended in place")},
    "generator": _drawn,
}  # fmt: skip
MAKERS: dict[str, Callable[[str], State]] = {
    **{name: rebound(change) for name, change in CHANGES.items()},
    "two that swap": _swap, "what it was before": _previous, "none at first": _first_none,
}  # fmt: skip


# ── who holds what ───────────────────────────────────────────────────────────────────────────────────────────


def _graph(x: Tensor) -> Callable[[], Any]:
    """A graph that saved the tensor."""
    p = Tensor(2.0, dtype=x.dtype)
    out = (p * x * x.detach()).sum()

    def read() -> Any:
        try:
            out.backward(retain_graph=True)  # a program frees for itself what operations free together
        except GraphError:
            return "refused"
        return p.grad.tolist()  # type: ignore[union-attr]

    return read


HOLDERS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "itself": lambda x: lambda: numbers(x),
    "a view": lambda x: (lambda view: lambda: numbers(view))(x[1:]),
    "a reshaped view": lambda x: (lambda view: lambda: numbers(view))(x.reshape(-1, 1)),
    "all of it": lambda x: (lambda view: lambda: numbers(view))(x[...]),
    "detached": lambda x: (lambda view: lambda: numbers(view))(x.detach()),
    "memory": lambda x: (lambda view: lambda: view.copy())(x.detach().numpy()),
    "a pickle": lambda x: (lambda file: lambda: numbers(pickle.loads(file)))(pickle.dumps(x.detach())),
    "a graph": _graph,
}
ORDERS = {"all under jit": [1] * 5, "in turns": [0, 1] * 3, "jit first": [1, 1, 0, 1, 0, 1, 1]}


def observed(make: Callable[[], State], holder: str, order: list[int], compiled: bool) -> list[Any]:
    """Numbers, identities and what was held, over several calls, as many as are not refused."""
    random.manual_seed(0)
    state = make()
    functions = state.step, jit(state.step) if compiled else state.step
    found, held = [], []
    before: list[Any] = []
    with mg.enable_grad():
        for i, which in enumerate(order):
            try:
                result = functions[which](fixed(1.0, float(i), 0.5))
            except GraphError:  # a tensor that records is written to while somebody holds a view of it
                assert not compiled
                break
            now = state.now()
            known = [*before, *now, result]
            found.append([numbers(x) for x in (*now, result)])
            found.append([[x is y for y in known] for x in known if x is not None])
            before = now
            held += [HOLDERS[holder](x) for x in now if x is not None and (x.ndim or "view" not in holder)]
    return [found, [read() for read in held]]


def compare(make: Callable[[], State], holder: str, order: str) -> None:
    expected = observed(make, holder, ORDERS[order], False)
    calls = len(expected[0]) // 2
    same(observed(make, holder, ORDERS[order][:calls], True), expected)


PRODUCT = [
    each for each in itertools.product(MAKERS, PLACES, HOLDERS, ORDERS)
    if each[:2] != ("another tensor that records", "buffer of a module")  # inside a trace that is a parameter
]  # fmt: skip
SAMPLE = PRODUCT if EXHAUSTIVE else PRODUCT[::29]
REST = list(itertools.product(OTHERS, HOLDERS, ORDERS))


@pytest.mark.parametrize(("change", "place", "holder", "order"), SAMPLE)
def test_what_is_bound_anew_is_as_without_jit(change: str, place: str, holder: str, order: str) -> None:
    compare(lambda: MAKERS[change](place), holder, order)


@pytest.mark.parametrize(("state", "holder", "order"), REST if EXHAUSTIVE else REST[::7])
def test_what_layers_and_optimisers_keep_is_as_without_jit(state: str, holder: str, order: str) -> None:
    compare(OTHERS[state], holder, order)


# ── memory that tensors share ────────────────────────────────────────────────────────────────────────────────

VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:3],
    "row": lambda x: x[1],
    "steps": lambda x: x[::-2, 1:],
    "transposed": lambda x: x.T,
    "reshaped": lambda x: x.reshape(-1),
    "flipped": mg.flip,
    "an axis more": lambda x: mg.expand_dims(x, axis=1),
    "detached": lambda x: x.detach(),
    "turned": mg.rot90,
    "diagonal": lambda x: mg.linalg.diagonal(x),
    "view of a view": lambda x: x.T[1:].reshape(2, -1)[:, 1:],
    "view of a view that is held": lambda x: x[1:].detach()[:, 1],
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda x, a: x.__setitem__(..., x * 2.0 + a),
    "a part": lambda x, a: x.__setitem__(0, a),
    "by a mask": lambda x, a: x.__setitem__(x < 3.0, a),
    "augmented": lambda x, a: x.__iadd__(a),
    "data": lambda x, a: setattr(x, "data", x * a),
}
FORMS = ("both outside", "both arguments", "the view inside")
SHARED = list(itertools.product(VIEWS, WRITES, ("base", "view"), FORMS, ("cpu", "rawbuffer:0")))


@pytest.mark.parametrize(("view", "write", "target", "form", "device"), SHARED if EXHAUSTIVE else SHARED[::7])
def test_writes_among_views_are_as_without_jit(view: str, write: str, target: str, form: str, device: str) -> None:
    def scene(compiled: bool) -> list[Any]:
        base = mg.asarray(np.arange(16, dtype="f4").reshape(4, 4), device=device)
        seen = VIEWS[view](base)
        outside = [base[...], base[1:, 2], VIEWS[view](base)]

        def act(base: Any, seen: Any, a: Any) -> Any:
            before = seen.sum()
            WRITES[write](base if target == "base" else seen, a)
            after = seen * 1.0, base[1] * 1.0
            WRITES[write](seen if target == "base" else base, a * 2.0)
            return before, *after, seen.sum(), base * 1.0

        def call(a: Any) -> Any:
            return act(base, seen if form == "both outside" else VIEWS[view](base), a)

        f: Any = act if form == "both arguments" else call
        f, found = jit(f) if compiled else f, []
        for i in range(3):
            a = mg.asarray(np.float32(i + 1), device=device)
            found.append([numbers(x) for x in (f(base, seen, a) if form == "both arguments" else f(a))])
            found.append([numbers(x) for x in (base, seen, *outside)])
        return found

    try:
        expected = scene(False)
    except (GraphError, TypeError) as error:
        with pytest.raises(type(error)):
            scene(True)
        return
    same(scene(True), expected)


def test_arguments_lie_in_memory_as_when_the_function_was_traced() -> None:
    def write(base: Any, view: Any) -> Any:
        view[0] = 9.0
        return base * 1.0

    f = jit(write)
    for key in (slice(1, 3), slice(0, 2), slice(None, None, -1), slice(1, 3), slice(2, None)):
        base, other = fixed(1.0, 2.0, 3.0, 4.0), fixed(1.0, 2.0, 3.0, 4.0)
        assert f(base, base[key]).tolist() == write(other, other[key]).tolist()


# ── memory that is a recorded tensor's, too ─────────────────────────────────────────────────────────────────────

ALIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda w: w.detach(),
    "part of it": lambda w: w.detach()[:1],
    "of a part": lambda w: w[:1].detach(),
    "reshaped": lambda w: w.reshape(2, 1).detach(),
    "data": lambda w: w.data,
    "itself": lambda w: w,
    "part": lambda w: w[:1],
}


@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("alias", ALIASES)
def test_a_write_through_an_alias_is_seen_by_whom_it_aliases(alias: str, records: bool, argument: bool) -> None:
    """Of a tensor that the function does not reach; or it is refused, where it would not be."""

    def numbers(compiled: bool) -> Any:
        w = Tensor(np.zeros(2, "float32"), requires_grad=records)
        v, s = ALIASES[alias](w), mg.asarray(2.0)

        def write(v: Tensor, s: Tensor) -> None:
            with mg.no_grad():
                v[...] = v * s + 1

        f: Any = write if argument else lambda s: write(v, s)
        f = mg.jit(f) if compiled else f
        for _ in range(2):
            f(v, s) if argument else f(s)
        return w.tolist(), v.tolist()

    if alias == "part" and records:
        with pytest.raises(GraphError, match="shares memory with another tensor"):
            numbers(True)
    else:
        assert numbers(True) == numbers(False)


def test_a_write_that_an_alias_would_not_see_is_refused_as_without_jit() -> None:
    for wrapped in (mg.jit, lambda f: f):
        w = Tensor(np.zeros(2, "float32"))
        alias = w.detach()

        def write(w: Tensor) -> None:
            with mg.no_grad():
                w[...] = w + 1

        with pytest.raises(GraphError, match="could not see the write"):
            wrapped(write)(w)
        assert alias.tolist() == w.tolist() == [0, 0]
