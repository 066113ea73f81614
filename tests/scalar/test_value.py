"""Scalars: micrograd's contract, on the cpu and on other devices."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import random
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import micrograd_core
from micrograd_core import Device, Neuron, Tensor, Value, draw, jit, no_grad, use_device
from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, ShapeError
from micrograd_core.scalar import sweep as scalar_sweep
from micrograd_core.scalar.sweep import reachable

DEVICES = ("cpu", "rawbuffer:0", "strict:0")


@pytest.fixture(params=DEVICES)
def place(request: pytest.FixtureRequest) -> Device:
    return Device(request.param)


def readme(value: Callable[[float], Any]) -> tuple[Any, Any, Any]:
    """The expression of micrograd's README."""
    a = value(-4.0)
    b = value(2.0)
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
    g.backward()
    return g, a, b


# ── micrograd's contract ─────────────────────────────────────────────────────────────────────────────────────


def test_the_readme_expression_gives_its_numbers(place: Device) -> None:
    g, a, b = readme(lambda x: Value(x, device=place))
    assert f"{g.data:.4f}" == "24.7041"
    assert f"{a.grad:.4f}" == "138.8338"
    assert f"{b.grad:.4f}" == "645.5773"


def test_every_node_agrees_with_micrograd() -> None:
    peer = pytest.importorskip("micrograd.engine").Value

    def nodes(make: Callable[[float], Any]) -> list[Any]:
        a, b = make(1.5), make(-0.5)
        c = a * b - b / a
        d = (c + 2.0) ** 3
        e = (d - c).relu() * a
        e.backward()
        return [a, b, c, d, e]

    for ours, theirs in zip(nodes(Value), nodes(peer), strict=True):
        assert (ours.data, ours.grad) == (pytest.approx(theirs.data), pytest.approx(theirs.grad))


def test_the_expressions_of_micrograds_tests_agree_with_torch() -> None:
    torch = pytest.importorskip("torch")

    def expression(x: Any) -> Any:
        z = 2 * x + 2 + x
        q = z.relu() + z * x
        h = (z * z).relu()
        return h + q + q * x

    x = Value(-4.0)
    y = expression(x)
    y.backward()
    other = torch.tensor([-4.0], dtype=torch.float64, requires_grad=True)
    expected = expression(other)
    expected.backward()
    assert (y.data, x.grad) == (expected.item(), other.grad.item())


def test_a_graph_can_be_walked_as_micrograds_can(place: Device) -> None:
    a, b = Value(2.0, place), Value(3.0, place)
    c = a * b
    assert c._prev == {a, b}
    assert c._op == "*"
    assert (c.relu()._op, (c**3)._op, (c**0.5)._op, (1 - c)._op, a._op) == ("ReLU", "**3", "**0.5", "-", "")
    assert a._prev == set()
    assert (c**3)._prev == {c}
    (constant,) = (c + 7)._prev - {c}
    assert constant.data == 7.0
    nodes, edges = set(), set()

    def build(v: Any) -> None:  # the function in micrograd's notebook
        if v not in nodes:
            nodes.add(v)
            for child in v._prev:
                edges.add((child, v))
                build(child)

    build((c + a).relu())
    assert len(nodes) == 5
    assert len(edges) == 5


def test_the_repr_shows_data_grad_and_device(place: Device) -> None:
    a = Value(3.5, place)
    (a * 2).backward()
    assert repr(a) == f"Value(data=3.5, grad=2.0, device={place})"


def test_numbers_of_any_kind_become_float64() -> None:
    for x in (3, 3.0, True + 2, Fraction(3), np.float32(3), np.int64(3), np.array(3)):
        assert type(Value(x).data) is float
        assert Value(x).data == 3.0
    a = Value(2.0)
    a.data = np.float32(0.5)
    a.grad = 1
    assert (type(a.data), a.data, type(a.grad), a.grad) == (float, 0.5, float, 1.0)


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "**": lambda x, y: x**y,
}
UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[float], float], float]] = {
    "exp": (lambda x: x.exp(), math.exp, 0.3),
    "expm1": (lambda x: x.expm1(), math.expm1, 0.3),
    "log": (lambda x: x.log(), math.log, 0.3),
    "log1p": (lambda x: x.log1p(), math.log1p, 0.3),
    "sqrt": (lambda x: x.sqrt(), math.sqrt, 0.3),
    "square": (lambda x: x.square(), lambda x: x * x, -0.3),
    "sin": (lambda x: x.sin(), math.sin, 0.3),
    "cos": (lambda x: x.cos(), math.cos, 0.3),
    "tanh": (lambda x: x.tanh(), math.tanh, 0.3),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + math.exp(-x)), -0.3),
    "abs": (abs, abs, -0.3),
    "relu": (lambda x: x.relu(), lambda x: max(x, 0.0), 0.3),
    "negative": (lambda x: -x, lambda x: -x, 0.3),
    "positive": (lambda x: +x * 1, lambda x: x, 0.3),
}


def slope(f: Callable[[float], float], x: float) -> float:
    """The derivative by central differences."""
    h = 1e-6
    return (f(x + h) - f(x - h)) / (2 * h)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("x", "y"), [(1.5, 0.7), (0.25, -2.0)])
def test_both_operands_of_every_operator(name: str, x: float, y: float, place: Device) -> None:
    f = BINARY[name]
    for left, right in ((True, True), (True, False), (False, True)):
        a, b = Value(x, place) if left else x, Value(y, place) if right else y
        out = f(a, b)
        out.backward()
        assert out.data == pytest.approx(f(x, y), rel=1e-12)
        if left:
            assert a.grad == pytest.approx(slope(lambda each: f(each, y), x), rel=1e-6, abs=1e-8)
        if right:
            assert b.grad == pytest.approx(slope(lambda each: f(x, each), y), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", UNARY)
def test_every_function(name: str, place: Device) -> None:
    ours, function, at = UNARY[name]
    for x in (at, 2 * at):
        a = Value(x, place)
        out = ours(a)
        out.backward()
        assert out.data == pytest.approx(function(x), rel=1e-12)
        assert a.grad == pytest.approx(slope(function, x), rel=1e-6)


def test_integers_are_operands_too(place: Device) -> None:
    a = Value(3.0, place)
    assert [x.data for x in (2**a, a**2, 2 * a, 7 - a, 6 / a, a - 1, np.float64(2) * a, True + a)] == pytest.approx(
        [8.0, 9.0, 6.0, 4.0, 2.0, 2.0, 6.0, 4.0]
    )


def test_comparisons_compare_the_numbers(place: Device) -> None:
    a, b = Value(1.0, place), Value(2.0, place)
    assert a < b
    assert a <= b
    assert b > a
    assert b >= 2
    assert a == 1.0
    assert a != b
    assert a != "1"
    assert max(a, b) is b
    assert sorted([b, a])[0] is a
    with no_grad():  # where gradients are recorded, float(b) warns
        assert (float(b), int(b), bool(Value(0.0, place)), f"{b:.2f}") == (2.0, 2, False, "2.00")
    with pytest.raises(TypeError):
        a < "2"  # noqa: B015
    assert len({Value(1.0), Value(1.0)}) == 2  # hashed by identity: graphs are kept in sets


def test_where_python_raises_ieee_754_answers(place: Device) -> None:
    zero, one = Value(0.0, place), Value(1.0, place)
    with np.errstate(all="ignore"):
        assert (one / zero).data == math.inf
        assert (-1 / zero).data == -math.inf
        assert math.isnan((zero / zero).data)
        assert (zero**-1).data == math.inf
        assert math.isnan(((one * -8) ** (1 / 3)).data)
        assert zero.log().data == -math.inf
        assert math.isnan((-one).log().data)
        assert math.isnan((-one).sqrt().data)
        assert (one * 1000).exp().data == math.inf
        assert (Value(1e200, place) ** 3).data == math.inf
        assert (Value(-1e200, place) ** 3).data == -math.inf


def test_a_gradient_that_does_not_exist_is_not_a_number_and_spreads(place: Device) -> None:
    a, b = Value(0.0, place), Value(2.0, place)
    with np.errstate(all="ignore"):
        ((a / a) * b).backward()
    assert math.isnan(a.grad)
    assert math.isnan(b.grad)
    assert (Value(0.0, place) ** 0).data == 1.0
    c = Value(0.0, place)
    (c**0 + c**1 + c**2 + c.relu() + abs(c)).backward()
    assert c.grad == 1.0


# ── backward ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_backward_again_adds_up_at_leaves_and_nowhere_else(place: Device) -> None:
    a = Value(2.0, place)
    b = a * a
    c = b * a + b
    for times in (1, 2, 3):
        c.backward()
        assert (a.grad, b.grad, c.grad) == (times * 16.0, 3.0, 1.0)
    b.backward()
    assert (a.grad, b.grad) == (52.0, 1.0)
    a.zero_grad()
    assert a.grad == 0.0


def test_a_value_used_many_times_gets_the_sum(place: Device) -> None:
    a = Value(3.0, place)
    x = a
    for _ in range(20):
        x = x + x  # 2 ** 20 paths, 21 nodes
    x.backward()
    assert a.grad == 2.0**20
    b = Value(3.0, place)
    y = b
    y += 1
    y *= b
    y -= y / 2
    y.backward()
    assert (y.data, b.grad) == (6.0, 3.5)


def test_backward_on_a_leaf_adds_one(place: Device) -> None:
    a = Value(2.0, place)
    a.backward()
    a.backward()
    assert a.grad == 2.0


def test_assigning_data_leaves_what_was_recorded_alone(place: Device) -> None:
    a, b = Value(2.0, place), Value(3.0, place)
    c = a * b
    a.data = 100.0
    c.backward()
    assert (a.grad, b.grad, c.data, (a * b).data) == (3.0, 2.0, 6.0, 300.0)


def test_nothing_is_recorded_without_grad_mode(place: Device) -> None:
    a = Value(2.0, place)
    with no_grad():
        results = [a + a, a - a, a * 2, a / 2, a**2, a.relu(), a.exp(), -a, 1 - a, 1 / a, Value.unstack(Value.stack(a))]
    assert all(x._prev == set() and x._op == "" for x in results)
    (results[0] * a).backward()
    assert a.grad == 4.0


def test_a_chain_of_a_million_nodes_is_swept_and_freed() -> None:
    x, w = Value(1.0), Value(0.999999)
    y = x
    for _ in range(500_000):
        y = y * w + x
    y.backward()
    assert y.data == pytest.approx(sum(0.999999**i for i in range(500_001)), rel=1e-9)
    assert x.grad == pytest.approx(y.data, rel=1e-9)
    last = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert last() is None
    finally:
        gc.enable()


def test_a_graph_has_no_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        a = Value(2.0)
        b = (a * a).exp()
        c = Value.unstack(Value.stack([b, a]) * 2)[0]
        c.backward()
        nodes = [weakref.ref(each) for each in (b, c)]
        del b, c
        assert all(node() is None for node in nodes)
    finally:
        gc.enable()


def test_threads_may_sweep_graphs_that_share_leaves() -> None:
    a = Value(1.0)
    graphs = [sum((a * i for i in range(50)), Value(0.0)) for _ in range(40)]

    def work(part: list[Any]) -> None:
        for graph in part:
            graph.backward()

    threads = [threading.Thread(target=work, args=(graphs[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert a.grad == 40 * sum(range(50))


def test_threads_may_sweep_a_node_and_what_was_computed_from_it() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            a = inner = Value(1.0)
            for _ in range(20):
                inner = inner * 1.0
            outer = inner * 2.0
            roots = (inner, outer, inner)
            threads = [threading.Thread(target=lambda y=y: [y.backward() for _ in range(40)]) for y in roots]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert a.grad == 40 * 4.0
    finally:
        sys.setswitchinterval(interval)


def test_a_hook_may_use_values_while_values_are_swept() -> None:
    a, x = Value(3.0), Tensor([1.0, 2.0], dtype="float64")
    doubled = x * 2
    seen = []

    def hook(g: Tensor) -> None:
        h = a * a
        h.backward()
        seen.append((h._op, len(draw(h).nodes), g.tolist()))

    doubled.register_hook(hook)
    u, v = Value.unstack(doubled * 1)
    (u * v * a).backward()
    assert seen == [("*", 2, [12.0, 6.0])]
    assert (a.grad, x.grad.tolist()) == (6.0 + 8.0, [24.0, 12.0])


def test_a_hook_may_not_disturb_the_sweep_that_called_it(place: Device) -> None:
    a = Value(2.0, place)
    b = a * 3
    neuron = Neuron(1, nonlin=False, device=place)
    neuron.w[0].data = 1.0
    out = neuron([b])
    stacked = Value.stack([b, out])
    asked: list[Callable[[], Any]] = []

    def hook(g: Tensor) -> None:
        for ask in asked:
            ask()

    stacked.register_hook(hook)
    y = Value.unstack(stacked.sum()) + b
    for ask, words in (
        (b.backward, r"called backward\(\) on Values that a backward\(\) which has not returned"),
        (lambda: out._prev, "asked for the operands of Values"),
    ):
        asked[:] = [ask]
        with pytest.raises(GraphError, match=words):
            y.backward()
    asked.clear()
    a.zero_grad()
    y.backward()
    assert (a.grad, b.grad) == (9.0, 3.0)


def test_an_interrupted_sweep_leaves_a_graph_that_can_be_swept() -> None:
    x = Tensor(3.0, dtype="float64")
    t = x * 3
    w = Value.unstack(t)
    a = Value(2.0)
    c = a * 2
    t.backward()  # frees the tensor's graph
    for y in (w + c * c, c * c + w, c * c - w):
        with pytest.raises(GraphError, match="already swept"):
            y.backward()
        assert a.grad == 0.0
    (c * c).backward()
    assert (a.grad, c.grad) == (16.0, 8.0)


def test_a_sweep_that_is_interrupted_twice_leaves_a_graph_that_can_be_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Value(2.0)
    stacked = Value.stack([a * 3, a])
    pressed = iter([KeyboardInterrupt("once"), KeyboardInterrupt("twice")])

    def hook(g: Tensor) -> None:
        for interrupt in pressed:
            raise interrupt

    def interrupted(root: Any) -> Iterator[Any]:
        for node in reachable(root):
            yield node
            hook(stacked)

    stacked.register_hook(hook)
    y = Value.unstack(stacked.sum()) * 1.0
    monkeypatch.setattr(scalar_sweep, "reachable", interrupted)
    with pytest.raises(KeyboardInterrupt, match="twice"):
        y.backward()
    y.backward()
    assert a.grad == 4.0


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ("2", TypeError, "a real number; got str '2'"),
        (None, TypeError, "got NoneType None"),
        ([1.0], TypeError, "got list"),
        (1j, TypeError, "got complex 1j. "),
        (np.complex64(1j), TypeError, "Take .real, .imag or abs"),
        (np.zeros(2), TypeError, r"one number; got ndarray of shape \(2,\)"),
        (10**400, OverflowError, "this int has about 401 digits"),
        (Fraction(10**400), OverflowError, "this Fraction has about 401 digits"),
        (Value(1.0), TypeError, "cut it with .data"),
        (Neuron(1).b, TypeError, "got a Parameter, which .* cut it with .data"),
        (Tensor(1.0), TypeError, "Value.unstack"),
    ],
)
def test_what_is_not_one_real_number_is_refused(data: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Value(data)
    a = Value(1.0)
    with pytest.raises(error, match=words):
        a.data = data
    with pytest.raises(error):
        a.grad = data
    assert a.data == 1.0


@pytest.mark.parametrize("name", BINARY)
def test_operands_that_do_not_mix(name: str, place: Device) -> None:
    f, a = BINARY[name], Value(2.0, place)
    other = Value(2.0, "rawbuffer:0" if place.is_cpu() else "cpu")
    for x, y in ((a, other), (other, a)):
        with pytest.raises(DeviceMismatch, match=r"different devices.*move one of them"):
            f(x, y)
    for bad in ("2", 1j, None, [1.0]):
        with pytest.raises(TypeError):
            f(a, bad)
        with pytest.raises(TypeError):
            f(bad, a)
    with pytest.raises(TypeError, match=rf"^{re.escape(name)}: a Value and a Tensor do not mix; write Value.stack"):
        f(a, Tensor(1.0, device=place))
    with pytest.raises(TypeError, match=rf"^{re.escape(name)}: a Value and a Tensor do not mix; write Value.stack"):
        f(Tensor(1.0, device=place), a)
    with pytest.raises(OverflowError):
        f(a, 10**400)


def test_an_operand_that_is_no_float_is_named_by_the_operator_that_was_written(place: Device) -> None:
    with pytest.raises(OverflowError, match=r"^an operand of \*\* holds a float64"):
        (10**400) ** Value(2.0, place)


def test_comparing_across_devices_is_refused() -> None:
    with pytest.raises(DeviceMismatch, match="<: the operands are on different devices"):
        Value(2.0, "rawbuffer:0") < Value(1.0)  # noqa: B015


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_results_stay_on_the_device(place: Device) -> None:
    a = Value(2.0, device=place)
    assert all(x.device is place for x in (a, a + 1, 1 - a, a**2, a.relu(), a.exp(), -a, 2**a))
    assert type(a.data) is float
    assert isinstance(a, Value)


def test_moves_are_in_the_graph(place: Device) -> None:
    a = Value(3.0)
    b = a.to(place)
    c = (b * b).cpu() * a
    c.backward()
    assert (c.device, c.data, a.grad) == (Device("cpu"), 27.0, 27.0)
    assert c.to("cpu") is c
    assert b.to(place) is b
    assert b.to("strict:0").data == 3.0


def test_values_are_made_where_the_context_says() -> None:
    with use_device("rawbuffer:0"):
        assert Value(1.0).device is Device("rawbuffer:0")
        assert Value(1.0, "cpu").device is Device("cpu")
    assert Value(1.0).device is Device("cpu")


def test_cuda_without_cuda_says_so() -> None:
    if not Device.is_cuda_available():
        with pytest.raises(micrograd_core.MicrogradError, match="cuda"):
            Value(1.0).cuda()


# ── tensors ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_values_stack_into_a_tensor_and_back(place: Device) -> None:
    a, b = Value(2.0, place), Value(-3.0, place)
    t = Value.stack([[a, b], [a * b, 1]])
    assert (t.shape, t.tolist(), str(t.dtype), t.device) == ((2, 2), [[2.0, -3.0], [-6.0, 1.0]], "float64", place)
    (t * t).sum().backward()
    assert (a.grad, b.grad) == (2 * 2.0 + 2 * -6.0 * -3.0, 2 * -3.0 + 2 * -6.0 * 2.0)
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=place)
    values = Value.unstack(x * 2)
    (values[0][0] * values[1][1] + values[0][1] ** 2).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[16.0, 16.0], [0.0, 4.0]]
    assert Value.unstack(x[0, 1]).data == 2.0


def test_graphs_that_change_sides_often_have_the_right_gradients(place: Device) -> None:
    rng = random.Random(3)
    start = [rng.uniform(-1, 1) for _ in range(3)]

    def run(x: list[Any], stack: Callable[[Any], Any], unstack: Callable[[Any], Any]) -> Any:
        a, b, c = x
        h = a * b
        for _ in range(3):
            u, v = unstack(stack([h, c]).tanh() * 2)
            h, c = u * a + h, v - b * c
        return h * c + h

    def plain(numbers: list[float]) -> float:
        a, b, c = numbers
        h = a * b
        for _ in range(3):
            u, v = (2 * math.tanh(each) for each in (h, c))
            h, c = u * a + h, v - b * c
        return h * c + h

    values = [Value(x, place) for x in start]
    out = run(values, Value.stack, Value.unstack)
    out.backward()
    assert out.data == pytest.approx(plain(start), rel=1e-12)
    for i, value in enumerate(values):
        expected = slope(lambda each, i=i: plain([*start[:i], each, *start[i + 1 :]]), start[i])
        assert value.grad == pytest.approx(expected, rel=1e-6)


def test_an_intermediate_value_gets_its_whole_gradient_across_tensors() -> None:
    a = Value(2.0)
    h = a * 3
    y = Value.unstack(Value.stack([h, h]).sum() * 5) + h
    y.backward()
    assert (h.grad, a.grad) == (11.0, 33.0)


def test_what_values_cannot_follow_is_refused() -> None:
    a = Value(2.0)
    with pytest.raises(GraphError, match=r"Value.stack.*create_graph"):
        Value.stack([a]).sum().backward(create_graph=True)
    with pytest.raises(GraphError, match="leads into Values"):
        micrograd_core.grad(lambda x: Value.stack([Value.unstack(x) * 2]).sum())(Tensor(1.0))
    with pytest.raises(DTypeError, match="the tensor is int64"):
        Value.unstack(micrograd_core.arange(3))
    with pytest.raises(DTypeError, match="the tensor is complex64. Use real"):
        Value.unstack(Tensor([1j]))
    with pytest.raises(TypeError, match="unstack takes a Tensor; got float"):
        Value.unstack(1.0)  # type: ignore[arg-type]
    with pytest.raises(DeviceMismatch, match="stack: "):
        Value.stack([a, Value(1.0, "rawbuffer:0")])
    with pytest.raises(ShapeError, match="ragged"):
        Value.stack([[a], [a, a]])


def test_values_survive_copy_and_pickle(place: Device) -> None:
    a = Value(2.0, place)
    (a * a).backward()
    for twin in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert (twin.data, twin.grad, twin.device) == (2.0, 4.0, place)
        assert twin is not a


def test_arrays_of_values_work_as_with_micrograd() -> None:
    a, b = Value(2.0), Value(3.0)
    both = np.array([a, b]) * np.array([10.0, 100.0])
    total = both.sum() * np.float64(2)
    total.backward()
    assert (total.data, a.grad, b.grad) == (640.0, 20.0, 200.0)


# ── long chains ──────────────────────────────────────────────────────────────────────────────────────────────


def chain(length: int, place: str = "cpu") -> tuple[Any, Any, Any]:
    """The end of a long chain, and its leaves."""
    x, w = Value(1.0, place), Value(0.99, place)
    y = x
    for _ in range(length // 2):
        y = y * w + x
    return y, x, w


@pytest.mark.parametrize("place", ["cpu", "rawbuffer:0", "strict:0"])
def test_a_chain_on_any_device_has_its_gradients(place: str) -> None:
    y, x, w = chain(600, place)
    y.backward()
    assert all(node.device == Device(place) for node in y._prev)
    assert x.grad == pytest.approx(sum(0.99**i for i in range(301)))
    assert w.grad == pytest.approx(sum(i * 0.99 ** (i - 1) for i in range(301)))


def test_a_chain_can_be_walked_back_to_its_start() -> None:
    y, x, w = chain(2_000)
    y.backward()
    node, ops, slope = y, [], 1.0
    while node is not None:
        assert node.grad == pytest.approx(slope)
        ops.append(node._op)
        slope *= 0.99 if node._op == "*" else 1.0
        last, node = node, next((each for each in node._prev if each._op), None)
    assert ops == ["+", "*"] * 1000
    assert last._prev == {x, w}


def test_a_traced_function_follows_a_chain() -> None:
    y, x, _ = chain(1_000)
    scaled = jit(lambda a: a * y)
    a = Value(3.0)
    scaled(a).backward()
    assert a.grad == pytest.approx(y.data)
    x.data = 2.0
    assert scaled(a).data == pytest.approx(3.0 * 2.0 * y.data)
