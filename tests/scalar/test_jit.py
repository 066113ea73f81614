"""jit of scalars: the numbers and gradients of the function itself, and an error for what a trace cannot hold."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from micrograd_core import MLP, Tensor, Value, jit, no_grad
from micrograd_core.errors import GraphError, TraceError


def readme(a: Any, b: Any) -> Any:
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    return g


def test_the_readme_expression() -> None:
    compiled = jit(readme)
    for _ in range(2):
        a, b = Value(-4.0), Value(2.0)
        g = compiled(a, b)
        g.backward()
        assert (f"{g.data:.4f}", f"{a.grad:.4f}", f"{b.grad:.4f}") == ("24.7041", "138.8338", "645.5773")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: (x + y) * (x - y) / (x * y) - -x + 2 * y - x / 3 + 1 / y + (1 - y),
    "powers": lambda x, y: x**y + 2**x + y**2 + x**-1 + x**0.5 + y**0 + x**1 + y**3 + x**2.5,
    "exponentials": lambda x, y: x.exp() * y.log() + x.expm1() + y.log1p(),
    "trigonometry": lambda x, y: x.sin() * y.cos() + (x * y).tanh() + (x - y).sigmoid(),
    "others": lambda x, y: abs(x - y) + abs(y - x) * 2 + (x - y).relu() + (y - x).relu() * x + x.sqrt() + y.square(),
    "shared": lambda x, y: sum([x * y + i for i in range(4)], x) * (x * y),
    "data is a constant": lambda x, y: x * x.data + (y * y).data * y + Value(x.data) * y,
    "constant": lambda x, y: x * 0 + 3,
    "one argument unused": lambda x, y: x * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("numbers", [(0.7, 1.3), (2.0, 0.25)])
def test_numbers_and_gradients_are_the_functions_own(name: str, numbers: tuple[float, float]) -> None:
    f = FUNCTIONS[name]
    compiled = jit(f)
    compiled(Value(1.0), Value(1.0))  # traced on other numbers
    found = []
    for function in (f, compiled):
        x, y = (Value(each) for each in numbers)
        out = function(x, y)
        (out * 3).backward()
        found.append((out.data, x.grad, y.grad))
    assert found[1] == pytest.approx(found[0], rel=1e-12)


def test_where_python_raises_a_replay_answers_as_the_function_does() -> None:
    cases: list[tuple[Callable[[Any], Any], float]] = [
        (lambda x: 1 / x, 0.0),
        (lambda x: x.log(), -1.0),
        (lambda x: x.exp(), 1000.0),
        (lambda x: x**0.5, -1.0),
        (lambda x: x.sqrt(), 0.0),
        (lambda x: x**-1, 0.0),
        (lambda x: x.relu(), math.nan),
    ]
    for f, at in cases:
        compiled = jit(f)
        compiled(Value(0.5))
        for _ in range(2):
            a, b = Value(at), Value(at)
            out, expected = compiled(a), f(b)
            out.backward()
            expected.backward()
            assert out.data == pytest.approx(expected.data, nan_ok=True)
            assert a.grad == pytest.approx(b.grad, nan_ok=True)


def test_results_of_every_shape() -> None:
    @jit
    def f(x: Any, pair: Any, c: float, *, flag: bool) -> Any:
        u, v = pair
        return [x * u * c, (v + x, "fixed", flag)], x.data * 2

    x, u, v = Value(2.0), Value(3.0), Value(4.0)
    (first, (second, word, flag)), number = f(x, [u, v], 10.0, flag=True)
    assert (first.data, second.data, word, flag, number, type(number)) == (60.0, 6.0, "fixed", True, 4.0, float)
    (first * second).backward()
    assert (x.grad, u.grad, v.grad) == (60 + 30 * 6, 20 * 6, 60.0)
    assert f(x, [u, v], 1.0, flag=False)[0][1][2] is False  # another kind of arguments


class Pair(NamedTuple):
    left: Any
    right: Any


def test_results_and_arguments_with_names() -> None:
    f = jit(lambda pair, c: {"product": pair.left * pair.right, "rest": [Pair(pair.left * c, None)]})
    for x in (2.0, 5.0):
        a, b = Value(x), Value(3.0)
        out = f(Pair(a, b), 10.0)
        (out["product"] * out["rest"][0].left).backward()
        assert (out["product"].data, out["rest"]) == (3 * x, [Pair(10 * x, None)])
        assert (a.grad, b.grad) == (60 * x, 10 * x**2)


@pytest.mark.parametrize("make", [iter, set, np.array, Value.stack], ids=["iterator", "set", "array", "tensor"])
def test_a_result_that_would_be_that_of_the_first_call_for_ever_is_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=f"lists, tuples and dicts of them; what is in a {type(make([])).__name__}"):
        jit(lambda a: make([a * a]))(Value(2.0))


def test_a_result_can_be_part_of_a_larger_graph() -> None:
    compiled = jit(lambda x, y, z: x * y * z)
    a = Value(2.0)
    b = a * 3
    out = compiled(b, a, a) + b
    out.backward()
    assert (out.data, a.grad) == (30.0, 3 * 3 * 4.0 + 3)


def test_values_a_function_closes_over_are_read_at_each_call() -> None:
    w = Value(2.0)
    compiled = jit(lambda x: (w * x) * w)
    assert compiled(Value(3.0)).data == 12.0
    w.data = 5.0
    x = Value(3.0)
    out = compiled(x)
    out.backward()
    assert (out.data, x.grad, w.grad) == (75.0, 25.0, 30.0)


def step(model: Any, x: Any, y: Any, rate: Any) -> Any:
    loss = (model(x) - y) ** 2 + 1e-3 * sum(p * p for p in model.parameters())
    model.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.data -= rate * p.grad
    return loss.data


def test_a_whole_training_step() -> None:
    ours, theirs = (MLP(2, [4, 3, 1], generator=random.Random(7)) for _ in range(2))
    compiled = jit(lambda x, y, rate: step(ours, x, y, rate))
    rng = random.Random(1)
    for i in range(8):
        x, y = [Value(rng.uniform(-1, 1)) for _ in range(2)], rng.uniform(-1, 1)
        rate = 0.1 / (i + 1)
        assert compiled(x, y, rate) == pytest.approx(step(theirs, x, y, rate), rel=1e-9)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert p.data == pytest.approx(q.data, rel=1e-9)
            assert p.grad == pytest.approx(q.grad, rel=1e-9, abs=1e-12)


def test_a_step_on_plain_values_accumulates_and_assigns() -> None:
    w, b = Value(0.5), Value(0.0)

    @jit
    def forward_and_backward(x: Any, t: float) -> float:
        loss = (w * x + b - t) ** 2
        loss.backward()
        return loss.data

    x = Value(2.0)
    first = forward_and_backward(x, 3.0)
    assert (first, w.grad, b.grad, x.grad) == (4.0, -8.0, -4.0, -2.0)
    forward_and_backward(x, 3.0)
    assert (w.grad, b.grad, x.grad) == (-16.0, -8.0, -4.0)

    @jit
    def update(rate: float) -> None:
        for p in (w, b):
            p.data -= rate * p.grad
            p.grad = 0.0

    assert update(0.25) is None
    assert (w.data, w.grad, b.data, b.grad) == (4.5, 0.0, 2.0, 0.0)


@pytest.mark.parametrize("power", [lambda x, z: x * x * x, lambda x, z: x**z, lambda x, z: x.exp() * z])
def test_a_gradient_that_is_read_is_a_number(power: Callable[[Any, Any], Any]) -> None:
    def slope_times_x(x: Value, z: Value) -> Any:
        power(x, z).backward()
        slope = x.grad
        x.grad = z.grad = 0.0
        return slope * x

    found = []
    for f in (slope_times_x, jit(slope_times_x)):
        x, z = Value(2.0), Value(3.0)
        out = f(x, z)
        out.backward()
        found.append((out.data, x.grad, z.grad))
    assert found[0] == pytest.approx(found[1], rel=1e-15)


@pytest.mark.parametrize("base", [2.0, 0.0, -0.0, -1.5, math.inf, -math.inf, math.nan, 5e-324])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, -1.0, 0.5, math.inf, math.nan])
def test_powers_have_the_slopes_of_values(base: float, exponent: float) -> None:
    found = []
    for f in (lambda x, y: x**y, jit(lambda x, y: x**y)):
        x, y = Value(base), Value(exponent)
        out = f(x, y)
        out.backward()
        found.append((out.data, x.grad, y.grad))
    assert found[0] == pytest.approx(found[1], rel=1e-15, nan_ok=True)


def test_a_replay_makes_no_garbage_and_no_nodes() -> None:
    model = MLP(2, [3, 1], generator=random.Random(7))
    compiled = jit(lambda x, y, rate: step(model, x, y, rate))
    x = [Value(0.5), Value(-0.5)]
    compiled(x, 1.0, 0.1)
    gc.collect()
    gc.disable()
    try:
        before = sum(issubclass(type(each), Value) for each in gc.get_objects())
        found = []
        for _ in range(3):  # of which another thread may make some
            for _ in range(10):
                compiled(x, 1.0, 0.1)
            found.append(gc.collect())
        assert sum(issubclass(type(each), Value) for each in gc.get_objects()) == before
        assert 0 in found, found
    finally:
        gc.enable()


def test_long_functions_do_not_recurse() -> None:
    @jit
    def chain(x: Any) -> Any:
        y = x
        for _ in range(3000):
            y = y * 0.999 + x
        return y

    x = Value(1.0)
    y = chain(x)
    y.backward()
    assert x.grad == pytest.approx(y.data)


DECISIONS: dict[str, Callable[[Any], Any]] = {
    r"> of a Value": lambda x: x if x > 0 else -x,
    r"bool\(\) of a Value": lambda x: x if x.data else -x,
    r"float\(\) of a Value": lambda x: x * math.exp(x),
    r"< of a Value|> of a Value": lambda x: max(x, x * 2, key=lambda y: y),
    r"format\(\) of a Value": lambda x: x * len(f"{x:.2f}"),
    r"== of a Value": lambda x: x if x.data == 1.0 else 2 * x,
}


@pytest.mark.parametrize("words", DECISIONS)
def test_a_decision_that_depends_on_a_number_is_refused(words: str) -> None:
    with pytest.raises(TraceError, match=rf"jit: .*{words}|jit: ({words})"):
        jit(DECISIONS[words])(Value(1.0))
    assert Value(2.0) > 1  # the trace is over


def test_what_a_trace_cannot_hold_is_refused() -> None:
    w, x = Value(2.0), Tensor(1.0, dtype="float64")

    def twice(a: Any) -> Any:
        w.data = w.data - a
        return w * a

    def quiet(a: Any) -> Any:
        with no_grad():
            return a * 2

    def inner(a: Any) -> Any:
        b = a * 2
        b.backward()
        return b.grad

    with pytest.raises(TraceError, match="used after its data was assigned"):
        jit(twice)(Value(1.0))
    with pytest.raises(TraceError, match="no_grad"):
        jit(quiet)(Value(1.0))
    with pytest.raises(TraceError, match="only leaves have a .grad"):
        jit(inner)(Value(1.0))
    with pytest.raises(TraceError, match="this one came from 'tensor'"):
        jit(lambda a: a * Value.unstack(x * 2))(Value(1.0))
    made = jit(lambda a: a * a)(w)
    with pytest.raises(TraceError, match="this one came from 'jit'. Pass it as an argument"):
        jit(lambda a: a * made)(Value(1.0))
    assert jit(lambda a, b: a * b)(Value(1.0), made).data == 4.0
    with pytest.raises(TypeError, match="gets Values and Tensors"):
        jit(lambda a, b: a * b)(Value(1.0), x)
    with pytest.raises(TypeError, match="got a DeviceValue on rawbuffer:0"):
        jit(lambda a: a)(Value(1.0, "rawbuffer:0"))
    with pytest.raises(TypeError, match="jit takes a function; got int 3"):
        jit(3)  # type: ignore[arg-type]
    assert w.data == 2.0


def test_a_backward_inside_does_not_stop_at_a_computed_argument() -> None:
    @jit
    def f(a: Any) -> None:
        (a * a).backward()

    f(Value(1.0))
    with pytest.raises(GraphError, match="argument number 0 was computed"):
        f(Value(1.0) * 2)


def test_equal_arguments_of_different_types_are_different_kinds() -> None:
    f = jit(lambda x, way: x * 2 if way is True else x * 3 if way is False else x * 5)
    assert [f(Value(1.0), way).data for way in (1, True, 0, False)] == [5.0, 2.0, 5.0, 3.0]


def test_floats_of_numpy_are_floats() -> None:
    f = jit(lambda a, b, c: a * b + c)
    for b in (np.float64(3.0), 4.0, np.float64(5.0)):
        a = Value(2.0)
        out = f(a, b, Value(10.0))
        out.backward()
        assert (out.data, a.grad) == (10 + 2 * b, b)
        assert type(out.data) is float
    assert len(f._programs) == 1  # type: ignore[attr-defined]


def test_what_is_assigned_to_has_one_name() -> None:
    w = Value(3.0)
    backwards = jit(lambda a, b: (a * b).backward())
    around = jit(lambda a: (a * w).backward())
    updates = jit(lambda a, x: setattr(w, "data", w.data - x) or a * 2)
    v = Value(3.0)
    with pytest.raises(GraphError, match="argument number 1 is also argument number 0, and the function assigns"):
        backwards(v, v)
    with pytest.raises(GraphError, match="argument number 0 is also a Value that the function closes over"):
        around(w)
    with pytest.raises(GraphError, match="also a Value that the function closes over"):
        updates(w, 1.0)
    assert (v.grad, w.grad, w.data) == (0.0, 0.0, 3.0)
    updates(v, 1.0)
    backwards(v, w)
    around(v)
    assert (v.grad, w.grad, w.data) == (4.0, 6.0, 2.0)
    assert jit(lambda a, b: a * b)(v, v).data == 9.0  # nothing is assigned
    assert jit(lambda a, b, c: setattr(c, "data", 1.0) or a * b)(v, v, w).data == 9.0


def test_a_gradient_that_is_only_read_is_not_assigned() -> None:
    v = Value(2.0)
    v.grad = 3.0
    assert jit(lambda a, b: a.grad + b.grad * 2.0)(v, v) == 9.0
    assert v.grad == 3.0


def test_without_grad_mode_the_result_records_nothing() -> None:
    compiled = jit(lambda a: a * a)
    with no_grad():
        assert compiled(Value(3.0))._prev == set()
    assert compiled(Value(3.0))._prev != set()


def test_a_compiled_function_inside_another_is_part_of_its_trace() -> None:
    inner = jit(lambda a: a * a)
    outer = jit(lambda a: inner(a) + 1)
    a = Value(3.0)
    b = outer(a)
    b.backward()
    assert (b.data, a.grad) == (10.0, 6.0)
    assert "+ 1.0" in outer.source  # type: ignore[attr-defined]
