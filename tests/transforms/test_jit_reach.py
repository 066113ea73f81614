"""What a function under `jit` reaches, and shares with others: nothing of it goes stale, or is changed unseen."""

from __future__ import annotations

import argparse
import collections
import copy
import functools
import itertools
import pickle
import random as python_random
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, jit, nn, no_grad, optim, random
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.transforms.captured import Captured
from tests.engine.test_interrupts import at_line
from tests.interrupts import EXHAUSTIVE, each_line
from tests.near import Near

pytestmark = pytest.mark.filterwarnings("ignore:jit")

Holder = tuple[Callable[[], Any], Callable[[Any], None]]
held: Any = 0.0
OUTER, INNER = types.ModuleType("held_outer"), types.ModuleType("held_outer.inner")


def fixed(*numbers: float) -> Tensor:
    return Tensor(list(numbers), requires_grad=False)


def numbers(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.shape, tree.dtype.name, tree.requires_grad, Near(tree.detach().numpy())
    return [numbers(x) for x in tree] if isinstance(tree, (list, tuple)) else tree


def stepwise(scene: Callable[[Callable[[Any], Any]], Iterator[Any]]) -> None:
    """Run a scene with eager and with compiled functions, and compare what it yields."""
    random.manual_seed(0)
    expected = [numbers(x) for x in scene(lambda f: f)]
    random.manual_seed(0)
    assert [numbers(x) for x in scene(jit)] == expected


# ── where a value can be ─────────────────────────────────────────────────────────────────────────────────────


def _attribute(x: Any, name: str = "held") -> Holder:
    return lambda: getattr(x, name), lambda value: setattr(x, name, value)


def _item(x: Any, key: Any, into: Any = None) -> Holder:
    return lambda: x[key], lambda value: (x if into is None else into).__setitem__(key, value)


def _class(**members: Any) -> Any:
    return type("Made", (), {"__module__": __name__, **members})


def _private_slot() -> Holder:
    class Private:
        __slots__ = ("__held",)

        def read(self) -> Any:
            return self.__held

        def bind(self, value: Any) -> None:
            self.__held = value

    x = Private()
    return x.read, x.bind


def _inherited() -> Holder:
    base: Any = _class(held=None)
    made: Any = type("Derived", (base,), {"__module__": __name__})()
    return lambda: made.held, lambda value: setattr(base, "held", value)


def _bind_global(value: Any) -> None:
    global held
    held = value


def _through(x: Any) -> Holder:
    return x, _bind_global


def _default(name: str) -> Holder:
    def read(held: Any = None, *, other: Any = None) -> Any:
        return held if name == "__defaults__" else other

    return read, lambda value: setattr(read, name, (value,) if name == "__defaults__" else {"other": value})


def _weak() -> Holder:
    x = _class()()
    reference = weakref.ref(x)

    def read() -> Any:
        return reference().held  # type: ignore[union-attr]

    return read, lambda value: setattr(x, "held", value)


def _imported_inside() -> Any:
    from held_outer.inner import held  # type: ignore[import-not-found]

    return held


def _proxy() -> Holder:
    under: dict[str, Any] = {}
    return _item(types.MappingProxyType(under), "held", under)


def _context() -> Holder:
    variable: ContextVar[Any] = ContextVar("held")
    return variable.get, lambda value: (variable.set(value), None)[1]


def _function_attribute() -> Holder:
    def read() -> Any:
        return read.held  # type: ignore[attr-defined]

    return read, lambda value: setattr(read, "held", value)


def _method() -> Holder:
    kind: Any = _class(read=None)
    x = kind()
    return lambda: x.read(), lambda value: setattr(kind, "read", lambda self: value)


HOLDERS: dict[str, Callable[[], Holder]] = {
    "attribute": lambda: _attribute(_class()()),
    "slot": lambda: _attribute(_class(__slots__=("held",))()),
    "private slot": _private_slot,
    "class": lambda: _attribute(_class()),
    "class of an object": _inherited,
    "method": _method,
    "function": _function_attribute,
    "default": lambda: _default("__defaults__"),
    "keyword default": lambda: _default("__kwdefaults__"),
    "property": lambda: _through(partial(getattr, _class(x=property(lambda self: held))(), "x")),
    "static method": lambda: _through(_class(x=staticmethod(lambda: held)).x),
    "class method": lambda: _through(_class(x=classmethod(lambda kind: held)).x),
    "class made inside": lambda: (lambda kind: _through(lambda: kind().x()))(_class(x=lambda self: held)),
    "globals()": lambda: _through(lambda: globals()["held"]),
    "namespace": lambda: _attribute(types.SimpleNamespace()),
    "arguments": lambda: _attribute(argparse.Namespace()),
    "list": lambda: _item([None], 0),
    "deque": lambda: _item(collections.deque([None]), 0),
    "user dict": lambda: _item(collections.UserDict(), "held"),
    "ordered dict": lambda: _item(collections.OrderedDict(), "held"),
    "proxy": _proxy,
    "method of a list": lambda: (lambda x: (partial(x.__getitem__, 0), partial(x.__setitem__, 0)))([None]),
    "weak reference": _weak,
    "context": _context,
    "module": lambda: _attribute(INNER),
    "module in a module": lambda: (lambda: OUTER.inner.held, partial(setattr, INNER, "held")),
    "module in a dict": lambda: (lambda d: (lambda: d["m"].held, partial(setattr, INNER, "held")))({"m": INNER}),
    "import inside": lambda: (_imported_inside, partial(setattr, INNER, "held")),
}


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OUTER, "inner", INNER, raising=False)
    monkeypatch.setitem(sys.modules, "held_outer", OUTER)
    monkeypatch.setitem(sys.modules, "held_outer.inner", INNER)


@pytest.mark.parametrize("name", HOLDERS)
def test_what_any_holder_holds_is_looked_up(name: str) -> None:
    read, bind = HOLDERS[name]()
    bind(2.0)
    f = jit(lambda x: x * read())
    x = fixed(1.0, -2.0, 3.0)
    for value in (2.0, 3.0, 0.0, -0.0, fixed(4.0), fixed(5.0), Tensor([6.0, 7.0, 8.0]), 2):
        bind(value)
        for _ in range(2):
            assert repr(numbers(f(x))) == repr(numbers(x * value))
        if isinstance(value, Tensor):
            traces = f.traces
            value.data = value.detach() * 2
            assert numbers(f(x)) == numbers(x * value)
            assert f.traces == traces, "numbers of a tensor are looked up"


@pytest.mark.parametrize("name", [name for name in HOLDERS if name not in ("default", "method", "import inside")])
def test_what_a_function_counts_is_refused_and_put_back(name: str) -> None:
    read, bind = HOLDERS[name]()
    bind(2.0)

    def f(x: Any) -> Any:
        bind(read() + 1)
        return x * read()

    with pytest.raises(TraceError, match="jit: the function"):
        jit(f)(fixed(1.0))
    assert name == "context" or read() == 2.0


def test_functions_of_this_package_are_looked_into_where_they_hold_what_is_the_users() -> None:
    """A call has nothing to look at for the sake of what functions of the op table close over."""
    assert Captured([mg.gelu, mg.Tensor.sum, mg.layer_norm]).guards == []
    scale = Tensor([2.0])
    for wrapper in (mg.grad, no_grad(), jit, mg.vmap, mg.amp.autocast("float16"), mg.custom_gradient):
        (found,) = Captured([wrapper(lambda x: (x * scale).sum())]).tensors.values()
        assert found is scale


@pytest.mark.parametrize("name", ["sin", "relu"])
def test_a_users_function_that_wraps_an_operation_is_looked_into(name: str) -> None:
    """`functools.wraps` gives it the operation's module."""
    factor, factors, operation = 1.0, [2.0], getattr(mg, name)

    @functools.wraps(operation)
    def wrapper(x: Any) -> Any:
        return operation(x) * factor * factors[0]

    f, x = jit(wrapper), Tensor([1.0])
    f(x)
    factor = 3.0
    assert f(x).item() == pytest.approx(wrapper(x).item(), rel=1e-6)
    factors[0] = 5.0
    assert f(x).item() == pytest.approx(wrapper(x).item(), rel=1e-6)


def test_arrays_of_other_libraries_are_looked_at() -> None:
    for array in (np.array([1.0, 2.0], "f4"), bytearray(b"\1\2"), np.arange(8)[::2], np.float64(3.0)):
        f = jit(lambda x, array=array: x * float(array if array is np.float64 else np.asarray(array).ravel()[0]))
        for value in (1, 5):
            if not isinstance(array, np.generic):
                array[0] = value  # type: ignore[index]
            assert f(fixed(2.0)).tolist() == [2.0 * float(np.asarray(array).ravel()[0])]


def test_random_numbers_of_others_are_refused_and_not_drawn() -> None:
    rng = np.random.default_rng(0)
    for draw in (python_random.random, lambda: float(np.random.rand()), lambda: float(rng.random())):
        before = repr((python_random.getstate(), np.random.get_state(), rng.bit_generator.state))
        with pytest.raises(TraceError, match="draw with micrograd_core.random"):
            jit(lambda x, draw=draw: x * draw())(fixed(1.0))
        assert before == repr((python_random.getstate(), np.random.get_state(), rng.bit_generator.state))


def test_iterators_are_refused() -> None:
    for made in (itertools.count(1), iter([1, 2, 3]), (i for i in range(3)), enumerate([1, 2])):
        with pytest.raises(TraceError, match="jit: the function"):
            jit(lambda x, made=made: x * int(next(made) is not None))(fixed(1.0))


# ── what is shared ───────────────────────────────────────────────────────────────────────────────────────────


def _kinds_of_sharing() -> Iterator[tuple[Tensor, Tensor]]:
    for order in itertools.product(range(3), repeat=3):
        for each in order:
            base = fixed(1.0, 2.0, 3.0)
            yield (base, base[1:]) if each == 0 else (base, base) if each == 1 else (base, fixed(5.0, 6.0))


def test_arguments_that_share_memory_now_and_not_then() -> None:
    def write(b: Any, v: Any) -> Any:
        v[0] = 9.0
        return b * 1, v * 1

    f = jit(write)
    for b, v in _kinds_of_sharing():
        other, related = (b.copy(), v.copy()), v._storage is not None and v._storage is b._storage
        shared = (other[0], other[0]) if b is v else (other[0], other[0][1:]) if related else other
        assert numbers(f(b, v)) == numbers(write(*shared))
        assert numbers([b, v]) == numbers(shared)


def test_gradients_are_written_read_and_shared() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        p, q = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])

        def scaled(g: Any) -> Any:
            p.grad *= 2.0
            g[0] = 7.0
            return q.grad * 1.0, p.grad * 1.0

        f = wrap(scaled)
        for order in itertools.product(range(3), repeat=2):
            for each in order:
                g = fixed(0.5, 0.25)
                q.grad = fixed(5.0, 6.0)
                p.grad = (g, q.grad, fixed(8.0, 9.0))[each]
                kept = p.grad
                yield f(g)
                yield [p.grad, q.grad, g, kept is p.grad]
        given = wrap(lambda g: setattr(p, "grad", g))
        for _ in range(2):
            g = fixed(1.0, 1.0)
            given(g)
            yield p.grad is g

    stepwise(scene)


def test_a_gradient_that_was_something_else_then_is_read_where_it_is() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        p, c = Tensor([1.0, 2.0]), fixed(5.0, 6.0)
        f = wrap(lambda x: (p * c * x).sum().backward())
        for given in (True, False, False, True, False):
            if given:
                p.grad = c
            f(fixed(1.0, 0.5))
            yield [p.grad, c]

    stepwise(scene)


def test_arguments_that_are_leaves_keep_their_gradients() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        w = Tensor([3.0, 4.0])
        f = wrap(lambda x: (x * x * w).sum().backward())
        g = wrap(lambda x: (x * w).sum())
        for x in (Tensor([1.0, 2.0]), Tensor([5.0, 6.0]), w, Tensor([7.0, 8.0])):
            for _ in range(3):
                f(x)
                yield [x.grad, w.grad]
        for wanted in (False, True, False):
            w.requires_grad = wanted
            yield g(fixed(1.0, 2.0)), w.grad

    stepwise(scene)


def test_a_hook_that_comes_later_is_not_passed_over() -> None:
    p = Tensor([1.0, 2.0])
    f = jit(lambda x: (p * x).sum().backward())
    f(fixed(1.0, 2.0))
    f(fixed(1.0, 2.0))
    handle = p.register_hook(lambda g: g * 10)
    with pytest.raises(TraceError, match="has hooks"):
        f(fixed(1.0, 2.0))
    handle.remove()
    f(fixed(1.0, 2.0))
    assert p.grad is not None
    assert p.grad.tolist() == [3.0, 6.0]


def test_what_was_saved_of_a_closure_is_not_written_unnoticed() -> None:
    c, p = fixed(3.0, 4.0), Tensor([1.0, 2.0])
    out = jit(lambda x: (x * p * c).sum())(fixed(1.0, 2.0))
    c[0] = 100.0
    with pytest.raises(GraphError, match="written in place"):
        out.backward()


def test_a_parameter_can_be_written_after_a_trace() -> None:
    p = Tensor([1.0, 2.0])
    out = jit(lambda x: (x * p * p).sum())(fixed(1.0, 2.0))
    with no_grad():
        p[0] = 100.0
    out.backward()
    assert p.grad is not None
    assert p.grad.tolist() == [2.0, 8.0]


def test_draws_come_from_the_generator_of_each_call() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        f = wrap(lambda x: x + random.uniform((2,)))
        own = random.Generator(7)
        both = wrap(lambda x: x + random.uniform((2,), generator=own) + random.uniform((2,)))
        for seed in (1, 2, 1, own, 3, own):
            with random.use_generator(seed):
                yield f(fixed(0.0))
                yield both(fixed(0.0))
            yield own.state, random.default_generator().state
            yield both(fixed(0.0))

    stepwise(scene)


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────


def test_results_are_one_tensor_leaves_or_used_up_as_they_were() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        a, b = wrap(lambda x: [x + 1] * 2)(fixed(1.0))
        yield a is b
        p = Tensor([1.0, 2.0])

        def swept(x: Any) -> Any:
            loss = (p * x).sum()
            loss.backward()
            return loss

        yield wrap(swept)(fixed(1.0, 1.0)).requires_grad
        made = wrap(lambda: Tensor([1.0, 2.0]))
        for _ in range(2):
            leaf = made()
            (leaf * leaf).sum().backward()
            yield leaf, leaf.grad

    stepwise(scene)


def test_dicts_and_keywords_come_as_they_are() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        named = wrap(lambda **given: list(given))
        yield named(a=fixed(1.0), b=fixed(1.0))
        yield named(b=fixed(1.0), a=fixed(1.0))
        kind = wrap(lambda d: [type(d).__name__, [x * 2 for x in d.values()]])
        yield kind({"a": fixed(1.0)})
        yield kind(collections.OrderedDict(a=fixed(1.0)))
        yield kind(collections.defaultdict(list, a=fixed(1.0)))

    stepwise(scene)


@jit
def doubled(x: Any) -> Any:
    return x * 2


class Model(nn.Module):
    def __init__(self) -> None:
        with random.use_generator(0):
            self.linear = nn.Linear(2, 2)
        self.compiled = jit(self.run)

    def run(self, x: Any) -> Any:
        return self.linear(x) * 2

    def forward(self, x: Any) -> Any:
        return self.compiled(x)


def test_copies_of_compiled_functions_are_of_their_own_model() -> None:
    model, x = Model(), fixed(1.0, 2.0)
    before = numbers(model(x))
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    model.linear.weight.data = model.linear.weight.detach() * 3
    for each in copies:
        assert numbers(each(x)) == before
        each.linear.weight.data = each.linear.weight.detach() * 0
        assert numbers(each(x)) == numbers(each.run(x)) != before
    assert numbers(model(x)) == numbers(model.run(x))
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_an_optimiser_is_found_wherever_it_is() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        for rule in (partial(optim.SGD, momentum=0.5), optim.Adam):
            p = Tensor([1.0, 2.0])
            place = argparse.Namespace(rule=rule([p], 0.1))

            def step(x: Any, p: Any = p, place: Any = place) -> Any:
                place.rule.zero_grad()
                loss = (p * p * x).sum()
                loss.backward()
                place.rule.step()
                return loss

            f = wrap(step)
            for i in range(6):
                place.rule.lr = 0.1 * (i + 1)
                if i == 4:
                    place.rule = rule([p], 0.1)
                yield f(fixed(1.0, 1.0))
                yield [p, *mg_state(place.rule)]

    stepwise(scene)


def mg_state(rule: Any) -> list[Any]:
    return [x for _, x in sorted(rule.state_dict().items())]


def test_a_write_is_refused_where_it_is_not_known_who_would_see_it() -> None:
    base = fixed(1.0, 2.0, 3.0)
    a, b = base[:2], base[1:]

    def f(x: Any) -> Any:
        a[...] = x
        return b * 1

    line = f.__code__.co_firstlineno + 1
    for function in (f, lambda x: (b.__setitem__(0, x[0]), a * 1)):
        with pytest.raises(TraceError, match=r"not the tensor of which they are views; pass that one too"):
            jit(function)(fixed(5.0, 6.0))
    with pytest.raises(TraceError, match=rf"in .*test_jit_reach.py, line {line}\)"):
        jit(f)(fixed(5.0, 6.0))
    assert base.tolist() == [1.0, 2.0, 3.0]
    assert mg.default_device() == a.device
    assert jit(lambda x: a * x + b)(fixed(1.0, 1.0)).tolist() == [3.0, 5.0], "reading them is fine"
    b = base[2:]
    jit(f)(fixed(5.0, 6.0))
    assert base.tolist() == [5.0, 6.0, 3.0], "what is apart is, too"


def test_what_is_bound_anew_leaves_what_looked_at_the_old_memory() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        box = [fixed(1.0, 2.0, 3.0)]
        view, detached = box[0][1:], box[0].detach()

        def decay(x: Any) -> Any:
            box[0] = box[0] * 0.5 + x
            return box[0] * 1

        f = wrap(decay)
        for _ in range(3):
            yield f(fixed(1.0, 1.0, 1.0))
            yield [box[0], view, detached]

    stepwise(scene)


def test_what_is_bound_anew_may_be_bound_elsewhere_too() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        p, box = Tensor([2.0]), [fixed(1.0), fixed(2.0)]
        box.append(box[1])
        p.grad = box[0]

        def rebind(x: Any, i: int, j: int) -> Any:
            found = box[j]
            box[i] = box[i] * 2 + 0 * p.detach()
            return found

        f = wrap(rebind)
        for x, i, j in itertools.product((0, 1, 2, None), range(3), range(3)):
            for _ in range(2):
                yield f(fixed(1.0) if x is None else box[x], i, j)
                yield [*box, p.grad, *(a is b for a in (*box, p.grad) for b in box)]

    stepwise(scene)


def test_an_argument_that_is_written_is_no_obstacle_to_other_gradients() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        p = Tensor([1.0, 2.0])

        def f(x: Any, y: Any) -> Any:
            y[0] = x[1]
            return (p * x).sum()

        g = wrap(f)
        for _ in range(2):
            y = fixed(0.0, 0.0)
            g(fixed(3.0, 4.0), y).backward()
            yield [y, p.grad]

    stepwise(scene)


def test_foreign_random_numbers_are_put_back_when_the_function_fails() -> None:
    def f(x: Any) -> Any:
        np.random.rand()
        raise KeyError

    before = repr(np.random.get_state())
    with pytest.raises(KeyError):
        jit(f)(fixed(1.0))
    assert repr(np.random.get_state()) == before


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_interrupt_leaves_all_of_a_step_or_nothing(calls: int) -> None:
    def made() -> tuple[Any, Any]:
        with random.use_generator(0):
            model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        rule = optim.Adam(model.parameters(), 0.1)
        rates = optim.Schedule(rule, optim.step_decay(2, 0.5))

        def step(x: Any) -> Any:
            rule.zero_grad()
            (model(x) ** 2).sum().backward()
            rule.step()
            rates.step()

        f = jit(step)
        for _ in range(calls):
            f(x)
        return f, lambda: repr(numbers([*model.state_dict().values(), *mg_state(rule), rule.lr, rates.count]))

    def interrupt() -> None:
        raise KeyboardInterrupt

    x = mg.asarray([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]])
    f, state = made()
    before = state()
    f(x)
    after = state()
    for number in itertools.count(0, 1 if EXHAUSTIVE else (12_007, 16_033, 97)[calls]):  # a trace runs many lines
        f, state = made()
        with at_line(number, interrupt) as reached, suppress(KeyboardInterrupt):
            f(x)
        if not reached:
            break
        found = state()
        assert found in (before, after), reached
        if found == before:
            f(x)
            assert state() == after, reached
    assert number > (200 if calls < 2 else 60), "there were lines to interrupt at"


def test_an_interrupt_of_a_printed_call_leaves_all_of_a_step_or_nothing() -> None:
    def made() -> tuple[Any, Any, Any]:
        with random.use_generator(0):
            model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        rule = optim.Adam(model.parameters(), 0.01)
        rates = optim.Schedule(rule, optim.step_decay(1, 0.99))
        weight = model.layers[0].weight

        def step(x: Any) -> Any:
            rule.zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            rule.step()
            rates.step()
            return loss

        return jit(step), lambda: [*model.state_dict().values(), *mg_state(rule), rule.lr, rates.count], weight

    x = mg.asarray([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]])
    f, now, _ = made()
    states = [repr(numbers(now()))]
    for _ in range(400):
        f(x)
        states.append(repr(numbers(now())))
    assert f.traces == 2

    f, now, weight = made()
    steps, found = 3, set[str]()
    for _ in range(steps):
        f(x)
    for _shared in (None, weight.detach()):  # where memory is shared, assignments are no longer one line
        for number in itertools.count():
            reached: list[str] = []
            lines = itertools.count()

            def react(frame: Any, number: int = number, reached: list[str] = reached, lines: Any = lines) -> None:
                if next(lines) == number:
                    reached.append(f"line {frame.f_lineno} of {frame.f_code.co_name}")
                    raise KeyboardInterrupt

            before = steps
            with each_line(react, lambda frame: frame.f_code.co_filename == "<jit>"), suppress(KeyboardInterrupt):
                f(x)
            state = repr(numbers(now()))
            assert state in states[steps : steps + 2], reached
            steps += state != states[steps]
            if not reached:
                break
            found.add("before" if steps == before else "after")
        assert number > 30
    assert found == {"before", "after"}
    assert f.traces <= 3


# ── calls in turns ───────────────────────────────────────────────────────────────────────────────────────────


def test_calls_of_all_kinds_in_turns_are_told_apart() -> None:
    def f(tree: Any, scale: Any = 2.0, *, more: Any = None) -> Any:
        parts = [*tree.values()] if isinstance(tree, dict) else [*tree]
        total = parts[0]
        for i, x in enumerate(parts[1:], 2):
            total = total * i - x
        words = [type(tree).__name__, type(scale).__name__, [*tree] if isinstance(tree, dict) else "", more]
        return total * scale, total @ total if total.ndim == 2 else total, words

    rng = python_random.Random(0)

    def tensor(shape: Any, dtype: str, records: bool) -> Tensor:
        values = np.reshape([rng.randint(-3, 3) for _ in range(int(np.prod(shape)))], shape)
        return Tensor(values.tolist(), dtype=dtype, requires_grad=records)

    def tree() -> Any:
        shape = rng.choice([(2, 2), (3, 3), (2,), (3,)])
        dtype = rng.choice(["float32", "float64"])
        x, y = (tensor(shape, dtype, rng.random() < 0.5) for _ in range(2))
        pair = rng.choice([(x, y), (x, x), (y, x, y)])
        names = rng.choice([("a", "b", "c"), ("b", "a", "c")])
        return rng.choice([pair, list(pair), dict(zip(names, pair, strict=False))])

    compiled = jit(f)
    for _ in range(300 if EXHAUSTIVE else 12):
        trees = [tree() for _ in range(3)]
        for _ in range(4):
            args = [rng.choice(trees), *rng.choice([[], [1], [1.0], [0.0], [-0.0], [2.0]])]
            kwargs = rng.choice([{}, {"more": None}, {"more": "x"}, {"more": ("x", 1)}, {"more": ["x", 1]}])
            with rng.choice([no_grad(), mg.enable_grad()]):
                expected, found = f(*args, **kwargs), compiled(*args, **kwargs)
            assert numbers(found) == numbers(expected), (args, kwargs)


def test_what_is_given_by_default_and_the_end_of_a_list_are_looked_at() -> None:
    def scene(wrap: Any) -> Iterator[Any]:
        held = [fixed(1.0)]

        def inner(x: Any, n: float = 2.0, *, m: float = 3.0) -> Any:
            return x * n + m + sum(held, fixed(0.0))

        f = wrap(lambda x: inner(x))
        x = fixed(1.0)
        yield f(x)
        yield f(x)
        inner.__defaults__ = (5.0,)
        yield f(x)
        inner.__kwdefaults__["m"] = 7.0
        yield f(x)
        inner.__kwdefaults__ = {"m": 8.0}
        yield f(x)
        held.append(fixed(10.0))
        yield f(x)
        held.pop()
        yield f(x)
        held.clear()
        yield f(x)

    stepwise(scene)


def test_calls_that_differ_in_one_thing_are_told_apart() -> None:
    def f(x: Any, y: Any, n: Any = 1) -> Any:
        return x * n - y, y.sum() + n

    def tensor(*shape: int, dtype: str = "float32", records: bool = False) -> Tensor:
        return Tensor(np.arange(np.prod(shape)).reshape(shape).tolist(), dtype=dtype, requires_grad=records)

    x, y = tensor(2, 3), tensor(2, 3) * 2
    others = {
        "dtype": (tensor(2, 3, dtype="float64"), y),
        "the other's dtype": (x, tensor(2, 3, dtype="float64")),
        "shape": (tensor(1, 3), y),
        "records": (tensor(2, 3, records=True), y),
        "one": (x, x),
        "another one, of that kind": (y, y),
        "number": (x, y, 2),
        "kind of number": (x, y, 1.0),
    }
    compiled = jit(f)
    for name, other in others.items():
        for args in ((x, y), other, (x, y), other, other, (x, y)):
            assert numbers(compiled(*args)) == numbers(f(*args)), name
    assert compiled.traces == len(others), "one for (x, y), and two are of one kind"


def test_what_a_compiled_function_keeps_is_not_copied_to_what_is_made_of_it() -> None:
    """`vmap` and its like take over attributes, as `functools.wraps` does; programs are not among them."""
    inner = jit(lambda x: x * 2)
    inner(fixed(1.0))
    assert [name for name in vars(mg.vmap(inner)) if not name.startswith("__")] == []
    outer = jit(lambda x: mg.vmap(inner)(x).sum())
    outer(fixed(1.0, 2.0))
    (replay,) = outer._programs
    assert len(replay.guards) < 20
