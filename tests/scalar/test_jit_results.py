"""jit of scalars with several results: whatever of them is swept, in whatever order, is as without jit.

``MICROGRAD_EXHAUSTIVE=1`` runs all generated programs; otherwise a sample.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from micrograd_core import Tensor, Value, jit
from micrograd_core.errors import TraceError
from micrograd_core.interpreters.expressions import Expressions
from micrograd_core.scalar.sweep import reachable
from micrograd_core.support.pytrees import flatten
from micrograd_core.transforms.jit import KEPT

EXHAUSTIVE = bool(os.environ.get("MICROGRAD_EXHAUSTIVE"))
BATCHES = 400 if EXHAUSTIVE else 8
PROGRAMS = 50
"""Programs in a batch."""

Function = Callable[..., Any]


def same(x: float, y: float, scale: float = 1.0) -> bool:
    return x == y or (x != x and y != y) or math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-11 * scale)


# ── what was seen ────────────────────────────────────────────────────────────────────────────────────────────


def test_only_what_was_swept_takes_part() -> None:
    a = Value(0.0)
    p, _ = jit(lambda a: (a * 2.0, a.sqrt()))(a)
    p.backward()
    assert a.grad == 2.0


def test_what_no_swept_result_depends_on_is_not_visited() -> None:
    def f(u: Any, b: Any) -> Any:
        return b * 3.0, u * b, u * u * b

    a, b = Value(0.0), Value(2.0)
    p, _, _ = jit(f)(a.sqrt(), b)  # the derivative by `a` is infinite
    p.backward()
    assert (a.grad, b.grad) == (0.0, 3.0)


def test_a_derivative_that_is_not_there_is_not_multiplied_by_infinity() -> None:
    a, b = Value(1.0), Value(1.0)
    p, q = jit(lambda a, b: (a * 2.0, b * 3.0))(a, b)
    (p * math.inf + q).backward()
    assert (a.grad, b.grad) == (math.inf, 3.0)


def test_a_result_that_is_there_twice_is_one_object() -> None:
    def f(a: Any) -> Any:
        p = a * a
        return p, [p, a.data]

    p, (q, _) = jit(f)(Value(3.0))
    assert p is q


def test_a_result_whose_data_was_assigned_has_the_new_number() -> None:
    w = Value(3.0)

    def f(a: Any) -> Any:
        a.data = a.data * 2
        w.data = a.data + 1
        return a, w

    for function in (f, jit(f)):
        a = Value(5.0)
        assert [x.data for x in function(a)] == [10.0, 11.0]
        assert (a.data, w.data) == (10.0, 11.0)


def test_data_assigned_to_what_equals_an_argument_does_not_reach_the_argument() -> None:
    def f(a: Any) -> Any:
        b = a + 0.0
        b.data = 7.0
        return b.data

    a = Value(3.0)
    assert (jit(f)(a), a.data) == (7.0, 3.0)


@pytest.mark.parametrize("x", [-1.0, -0.0, 0.0, math.nan, 1.0, math.inf])
@pytest.mark.parametrize("g", [math.inf, -math.inf, math.nan, 3.0])
def test_a_dead_relu_lets_nothing_through(x: float, g: float) -> None:
    values = [Value(x), Value(x), Value(x, device="rawbuffer")]
    (values[0].relu() * g).backward()
    jit(lambda a: a.relu() * g)(values[1]).backward()
    (values[2].relu() * g).backward()
    tensor = Tensor(x, dtype="float64")
    tensor.relu().backward(Tensor(g, dtype="float64"))
    wanted = g if x > 0 else 0.0
    assert all(same(found, wanted) for found in (*(v.grad for v in values), tensor.grad.item()))


def test_a_long_chain_of_dead_relus_lets_nothing_through_either() -> None:
    a = y = Value(-1.0)
    for _ in range(2000):
        y = y.relu() - 1.0
    (y * math.inf).backward()
    assert a.grad == 0.0


# ── by generation ────────────────────────────────────────────────────────────────────────────────────────────

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0)
USUAL = (0.5, 2.0, -3.0, 1.25, 0.75)
UNARY = ("relu", "exp", "expm1", "log", "log1p", "sqrt", "square", "sin", "cos", "tanh", "sigmoid", "abs")
BINARY = ("+", "-", "*", "*", "/", "**", "+c", "*c", "/c", "**c", "c-", "c/", "c**")
"""A c is a constant."""


class Program:
    """A random function of Values, as a list of steps; and what to do with its results."""

    def __init__(self, rng: random.Random) -> None:
        self.special = rng.random() < 0.6
        self.arguments = [self.number(rng) for _ in range(rng.randint(1, 4))]
        self.closed = [self.number(rng) for _ in range(rng.randint(0, 2))]
        count = len(self.arguments) + len(self.closed)
        self.steps: list[tuple[str, int, Any]] = []
        for _ in range(rng.randint(1, 7)):
            i, j, c = rng.randrange(count), rng.randrange(count), self.number(rng)
            name = rng.choice((*UNARY, *BINARY, "data"))
            self.steps.append((name, i, c if "c" in name and name != "cos" else j))
            count += 1
        width = rng.randint(1, 4)
        self.results = [rng.randrange(max(0, count - 5), count) for _ in range(width)]
        self.shape = rng.choice(("tuple", "list", "dict", "nested")) if width > 1 else rng.choice(("value", "list"))
        self.inner = rng.random() < 0.15  # a backward() inside
        factors = (1.0, -2.0, 3.0, *(SPECIAL if self.special and self.shape != "value" else ()))
        self.sweeps = [self.sweep(rng, width, factors) for _ in range(rng.randint(1, 4))]
        self.computed = [not self.inner and rng.random() < 0.3 for _ in self.arguments]

    def number(self, rng: random.Random) -> float:
        return rng.choice(SPECIAL if self.special and rng.random() < 0.5 else USUAL)

    @staticmethod
    def sweep(rng: random.Random, width: int, factors: tuple[float, ...]) -> tuple[str, list[tuple[int, float]]]:
        """Which results are swept together, each times a number; and whether they are added or multiplied."""
        name = "+" if len(factors) == 3 or rng.random() < 0.7 else "*"
        return name, [(rng.randrange(width), rng.choice(factors)) for _ in range(rng.randint(1, 3))]

    def function(self, closed: list[Any]) -> Function:
        def f(*arguments: Any) -> Any:
            values = [*arguments, *closed]
            for name, i, j in self.steps:
                values.append(compute(name, values[i], values[j] if type(j) is int else j))
            if self.inner:
                values[-1].backward()
            out = [values[i] for i in self.results]
            match self.shape:
                case "value":
                    return out[0]
                case "tuple":
                    return tuple(out)
                case "dict":
                    return {"first": out[0], "rest": out[1:], "word": "fixed"}
                case "nested":
                    return [(out[0], None), {"rest": tuple(out[1:])}]
            return out

        return f

    def run(self, compiled: bool) -> tuple[list[float], float]:
        """All numbers that a user can see, and how great the finite ones among them got."""
        closed = [Value(x) for x in self.closed]
        f = self.function(closed)
        f = jit(f) if compiled else f
        if compiled:
            f(*[Value(0.7) for _ in self.arguments])  # traced on other numbers
            for each in closed:
                each.grad = 0.0
        leaves = [Value(x) for x in self.arguments]
        arguments = [x.sqrt() if computed else x for x, computed in zip(leaves, self.computed, strict=True)]
        leaves += closed
        results = [x for x in flatten(f(*arguments))[0] if isinstance(x, Value)]
        seen = [x.data for x in results]
        for name, sweep in self.sweeps:
            parts = [results[i] * factor if factor != 1.0 else results[i] for i, factor in sweep]
            total = parts[0]
            for part in parts[1:]:
                total = compute(name, total, part)
            total.backward()
            seen += [x.grad for x in leaves]
            assert all(each._uses == 0 for each in reachable(total))
        sizes = (abs(x) for node in reachable(*results) for x in numbers_of(node))
        return seen, max((x for x in sizes if x < math.inf), default=1.0)


def numbers_of(node: Any) -> Iterator[float]:
    for name in ("_data", "_da", "_db", "_grad"):
        x = getattr(node, name, None)
        if isinstance(x, (int, float)):
            yield x


def compute(name: str, x: Any, y: Any) -> Any:
    if name in UNARY:
        return abs(x) if name == "abs" else getattr(x, name)()
    if name == "data":
        return x * x.data
    match name.replace("c", ""):
        case "+":
            return x + y
        case "-":
            return y - x if "c" in name else x - y
        case "*":
            return x * y
        case "/":
            return y / x if name == "c/" else x / y
    return y**x if name == "c**" else x**y


@pytest.mark.parametrize("batch", range(BATCHES))
def test_generated_programs_are_as_without_jit(batch: int) -> None:
    for i in range(PROGRAMS):
        program = Program(random.Random(f"{batch}/{i}"))
        (wanted, scale), (found, _) = program.run(False), program.run(True)
        assert len(found) == len(wanted)
        assert all(same(x, y, scale) for x, y in zip(found, wanted, strict=True)), (
            (batch, i), vars(program), found, wanted,
        )  # fmt: skip


def test_generated_programs_reach_the_special_numbers() -> None:
    seen = [x for i in range(PROGRAMS) for x in Program(random.Random(f"0/{i}")).run(True)[0]]
    assert sum(x != x for x in seen) > 20
    assert sum(abs(x) == math.inf for x in seen) > 10
    assert sum(math.isfinite(x) and x != 0 for x in seen) > 100


# ── what is kept, and what is freed ──────────────────────────────────────────────────────────────────────────


def test_the_kinds_that_were_used_last_are_kept() -> None:
    traced: list[int] = []
    f: Any = jit(lambda a, n: traced.append(n) or a * n)
    a = Value(2.0)
    early = f(a, 0)
    for n in range(1, 3 * KEPT):
        assert f(a, n).data == 2.0 * n
        assert f(a, 1).data == 2.0  # never the one that was not used for longest
    assert len(f._programs) == KEPT
    assert traced == list(range(3 * KEPT))
    early.backward()
    assert (early.data, a.grad) == (0.0, 0.0)
    assert f(a, 0).data == 0.0  # compiled again
    assert traced[-1] == 0
    assert str(KEPT) in (jit.__doc__ or "")


def test_source_is_what_ran_last() -> None:
    f: Any = jit(lambda a, n: a * n + n)
    assert f.source == ""
    for n in (5, 6, 5):
        f(Value(1.0), n)
        assert f"* {n}.0" in f.source


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("at", [2.0, -1.0], ids=["usual", "where Python raises"])
@pytest.mark.parametrize("shape", [1, 2, 3])
def test_a_compiled_function_is_freed_by_reference_counts(at: float, shape: int) -> None:
    traced: list[weakref.ref[Any]] = []
    w = Value(3.0)

    def f(a: Any, c: float) -> Any:
        b = a.log() * w * c
        traced.extend(map(weakref.ref, (a, b)))
        (b * b).backward()
        w.data = w.data - w.grad
        return [b, (b * a, c), {"loss": b.data}][:shape]

    compiled: Any = jit(f)
    a = Value(at)
    out = compiled(a, 2.0)
    (program,) = compiled._programs
    held = weakref.ref(compiled), weakref.ref(program)
    assert traced
    assert [each() for each in traced] == [None] * len(traced)  # the program needs none of what was traced
    del compiled, program
    assert [each() for each in held] == [None, None]
    out[0].backward()  # a result can be swept all the same
    del out
    assert gc.collect() == 0


@pytest.mark.usefixtures("without_collector")
def test_a_trace_that_failed_is_freed_by_reference_counts() -> None:
    refused: list[Function] = [
        lambda a: a if a > 0 else -a,
        lambda a: iter([a * a]),
        lambda a: a * Value.unstack(Tensor(1.0) * 2),
        lambda a: 1 / 0,
    ]
    for function in refused:
        traced: list[weakref.ref[Any]] = []

        def f(a: Any, function: Function = function, traced: Any = traced) -> Any:
            b = a * a
            traced.extend(map(weakref.ref, (a, b)))
            return function(b)

        compiled = jit(f)
        with pytest.raises((TraceError, ZeroDivisionError)) as raised:
            compiled(Value(2.0))
        held = weakref.ref(compiled)
        del compiled, raised
        assert [each() for each in (held, *traced)] == [None] * 3
        assert Value(2.0) > 1


def test_all_results_may_be_swept_in_any_order() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return a * b * c, a.sqrt() * b, (c - b).relu(), c.log()

    for order in itertools.permutations(range(4)):
        grads = []
        for function in (f, jit(f)):
            leaves = [Value(0.0), Value(2.0), Value(0.0)]
            results = function(*leaves)
            grads.append([])
            for i in order:
                results[i].backward()
                grads[-1] += [x.grad for x in leaves]
        assert all(same(x, y) for x, y in zip(*grads, strict=True)), (order, grads)


def test_a_hook_may_sweep_another_result_of_the_same_call() -> None:
    a, b = Value(2.0), Value(3.0)
    p, q = jit(lambda a, b: (a * a, b * b))(a, b)
    tensor = Value.stack(p) * 5.0
    tensor.register_hook(lambda g: q.backward())
    Value.unstack(tensor).backward()  # comes to `p` after the hook
    assert (a.grad, b.grad) == (20.0, 6.0)


def test_the_derivatives_of_a_loss_that_is_returned_too_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()
    gradients = Expressions.gradients
    monkeypatch.setattr(Expressions, "gradients", lambda *given: calls.append(1) or gradients(*given))
    w = Value(3.0)

    @jit
    def step(x: Value) -> Value:
        loss = (w * x).tanh()
        w.grad = 0.0
        loss.backward()
        return loss

    loss = step(Value(0.1))
    assert calls == [1]
    assert w.grad == pytest.approx(0.1 * (1 - loss.data**2))
