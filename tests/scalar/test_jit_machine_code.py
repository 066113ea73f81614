"""Long functions of Values under `jit` are machine code, whose arithmetic gives the bits of Python's floats."""

from __future__ import annotations

import copy
import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from micrograd_core import MLP, Value, jit, scalar
from micrograd_core.errors import TraceError
from micrograd_core.scalar import jit as replays

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def _uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")


def in_python(f: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same function, compiled to Python at its first call."""
    compiled = jit(f)

    def call(*args: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(replays, "FEW", math.inf)
            return compiled(*args)

    return call


def outcome(f: Any, numbers: list[float], others: list[Value]) -> list[float]:
    """The result and all gradients."""
    args = [Value(x) for x in numbers]
    for x in others:
        x.grad = 0.0
    out = f(*args)
    out.backward()
    return [out.data, *(x.grad for x in args), *(x.grad for x in others)]


def test_programs_by_generation_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        plan = random.Random(seed)
        closed = [Value(plan.uniform(-2, 2)) for _ in range(2)]
        lines = [(plan.choice("+-*/rnqp3i"), plan.random(), plan.random()) for _ in range(90)]

        def f(x: Value, y: Value, lines: Any = lines, closed: Any = closed) -> Value:
            made = [x, y, *closed]
            for op, i, j in lines:
                a, b = made[int(i * len(made))], made[int(j * len(made))]
                made.append({
                    "+": lambda a=a, b=b: a + b, "-": lambda a=a, b=b: a - b, "*": lambda a=a, b=b: a * b * 0.5,
                    "/": lambda a=a, b=b: a / b, "r": lambda a=a: a.relu(), "n": lambda a=a: -a + 1,
                    "q": lambda a=a: a**2 * 0.1, "p": lambda a=a: 3.0 - a, "3": lambda a=a: a**3 * 0.01,
                    "i": lambda a=a, b=b: (a + 2.5) / b,
                }[op]())  # fmt: skip
            return sum(made[-12:], Value(0.0))

        fast, slow = jit(f), in_python(f, monkeypatch)
        for numbers in ([1.5, -0.25], [0.0, 0.0], [-0.0, 1.0], [math.inf, -1.0], [math.nan, 2.0], [1e300, 1e-300]):
            found, expected = outcome(fast, numbers, closed), outcome(slow, numbers, closed)
            if all(map(math.isfinite, expected)):
                assert repr(found) == repr(expected), (seed, numbers)
            else:  # Python computes powers in another way once a division has failed
                assert found == pytest.approx(expected, rel=1e-9, nan_ok=True), (seed, numbers)
        assert "define" in fast.source


def test_a_network_trains_as_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(compile: Any) -> str:
        random.seed(0)
        model = MLP(4, [6, 5, 2])

        def step(x: list[Value], rate: float) -> Any:
            a, b = model(x)
            loss = (a - 1.0) ** 2 + (b + a * 2.0) ** 2
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data -= rate * p.grad
            return loss.data, a

        step = compile(step)
        rng = random.Random(1)
        found: list[Any] = []
        for i in range(6):
            loss, a = step([Value(rng.uniform(-1, 1)) for _ in range(4)], 0.01 * (i + 1))
            found += [loss, a.data]
            if i == 2:
                model.parameters()[3].data = 0.75
            if i == 3:  # others hold the old numbers
                held = model.tensors()[0].detach()
        return repr([found, held.tolist(), [(p.data, p.grad) for p in model.parameters()]])

    assert trained(jit) == trained(lambda f: in_python(f, monkeypatch))


def test_what_machine_code_does_not_take_runs_as_python() -> None:
    random.seed(0)
    model = MLP(4, [8, 1])
    for p in model.parameters():  # sums of eighths are exact, so the order in which a BLAS adds does not matter
        p.data = round(p.data * 8) / 8
    f = jit(lambda x: model(x))
    x = [Value(0.5) for _ in range(4)]
    expected = model(x).data
    assert f(x).data == expected
    assert "define" in f.source
    weight = model.tensors()[0]
    weight.data = weight.detach().T.copy().T  # its columns one after the other
    assert f(x).data == expected


FUNCTIONS: dict[str, Any] = {
    "exp": lambda x: x.exp(), "expm1": lambda x: x.expm1(), "log": lambda x: x.log(), "log1p": lambda x: x.log1p(),
    "sqrt": lambda x: x.sqrt(), "sin": lambda x: x.sin(), "cos": lambda x: x.cos(), "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(), "abs": abs, "square": lambda x: x.square(), "root": lambda x: x**0.5,
    "inverse root": lambda x: (x * x + 1e-5) ** -0.5, "power": lambda x: x**3.25, "whole power": lambda x: x**-5,
    "of a number": lambda x: 2.5**x, "of itself": lambda x: x**x, "greatest": lambda x: scalar.max(x, 0.5, -x),
    "least": lambda x: scalar.min([x, -x * 2]), "number": lambda x: (x - scalar.max(x.data, -x.data)).exp(),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_derivatives_are_those_of_values(name: str) -> None:
    """Within a few digits of the last, where a result is a number; else it is the same infinity, or NaN."""
    function = FUNCTIONS[name]

    def f(xs: list[Value]) -> Value:
        return sum([function(x) * (i + 1) for i, x in enumerate(xs)], Value(0.0))

    compiled = jit(f)
    for scale in (1.0, -1.0, 1e-3, 30.0, 1000.0):
        given = [[Value(scale * (0.1 + 0.03 * i)) for i in range(60)] for _ in range(2)]
        for x in (0.0, math.inf, math.nan) if scale == 1000 else ():
            for each in given:
                each[7].data = x
        found, expected = compiled(given[0]), f(given[1])
        found.backward()
        expected.backward()
        assert found.data == pytest.approx(expected.data, rel=1e-12, nan_ok=True)
        for x, y in zip(*given, strict=True):
            assert x.grad == pytest.approx(y.grad, rel=1e-11, abs=1e-300, nan_ok=True), (scale, x.data)
    assert "define" in compiled.source


def test_sums_of_products_are_computed_row_by_row() -> None:
    """A product of a matrix and a vector that is written number by number takes runs, not as many steps."""
    from micrograd_core.compiler.runs import needed, runs
    from micrograd_core.interpreters.expressions import Expressions

    n, k = 24, Expressions()
    matrix, vector = (
        [k.input("number", i) for i in range(begin, end)] for begin, end in ((0, n * n), (n * n, n * n + n))
    )
    results = []
    for i in range(n):
        total: Any = 0.0
        for x, y in zip(matrix[i * n : i * n + n], vector, strict=True):
            total = k.add(total, k.multiply(x, y))
        results.append(total)
    places = {x.number: x.number for x in (*matrix, *vector)}
    found = runs(k.steps, needed(k.steps, results), results, places, n * n + n)
    (products,) = [each for each in found.runs if each.op == "dot"]
    assert (products.length, products.terms, [*products.steps]) == (n, n, [0, n, 0])
    assert [*products.strides] == [0, 1, 1]


def sums(plan: random.Random, made: list[Value]) -> Value:
    """A sum of some kind: of products, of numbers, of both, from either end, or a choice."""
    count, step = plan.randrange(1, 12), plan.choice([1, 1, 2, -1])
    starts = plan.sample(range(50), 2)
    first, second = ([made[(start + i * step) % len(made)] for i in range(count)] for start in starts)
    kind = plan.choice(["dot", "dot", "sum", "mixed", "shared", "right", "choice", "square"])
    if kind == "choice":
        choose = plan.choice([scalar.max, scalar.min])
        return choose(x.data for x in first) * second[0]
    products = [x * y for x, y in zip(first, second, strict=True)]
    if kind == "shared":  # with others, which need the products, too
        return sum(products, Value(0.0)) * 0.25 + products[0] * products[-1]
    if kind == "right":
        total = products[-1]
        for each in products[-2::-1]:
            total = each + total
        return total * 0.5
    terms = {"dot": products, "sum": first, "mixed": [*first, *products], "square": [x * x for x in first]}[kind]
    return sum(terms[1:], terms[0]) * 0.5


@pytest.mark.parametrize("seed", range(6))
def test_sums_and_choices_by_generation_give_the_same_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(xs: list[Value], seed: int = seed) -> list[Value]:
        plan, made = random.Random(seed), [*xs]
        for _ in range(40):
            made.append(sums(plan, made))
        loss = made[-1] + sum(made[50:], Value(0.0)) * 0.1
        loss.backward()
        for x in xs[:7]:
            x.data = x.data - 0.1 * x.grad
        return [loss, *made[-3:]]

    numbers = random.Random(-seed)
    given = [numbers.choice([0.0, -0.0, 1.0, numbers.gauss(0, 1), numbers.gauss(0, 1)]) for _ in range(50)]
    given[3] = math.inf if seed == 5 else given[3]
    compiled, found = jit(f), []
    for function in (compiled, in_python(f, monkeypatch), f):
        xs = [Value(x) for x in given]
        results = [x.data for x in function(xs)]
        found.append([results, [x.grad for x in xs] + [x.data for x in xs]])
    assert "define" in compiled.source
    machine, python, eager = found
    assert repr(machine) == repr(python)
    assert repr(machine[0]) == repr(eager[0])
    assert machine[1] == pytest.approx(eager[1], rel=1e-9, abs=1e-12, nan_ok=True)  # added up in another order


def test_many_values_that_a_function_assigns_to_stay_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read and written at once; each keeps its number, its gradient, its place in graphs, and its copies."""
    weights = [Value(0.01 * i) for i in range(200)]
    others = [Value(x.data) for x in weights]
    weights[3].grad = 7.0
    others[3].grad = 7.0
    before, expected = weights[5] * 2 + weights[6], others[5] * 2 + others[6]

    def step(ws: Any, rate: float) -> Value:
        loss = sum([(w - 1.0) ** 2 for w in ws()], Value(0.0))
        loss.backward()
        for w in ws():
            w.data -= rate * w.grad
        return loss

    compiled = jit(lambda rate: step(lambda: weights, rate))
    for _ in range(3):
        found, plain = compiled(0.1), step(lambda: others, 0.1)
        assert found.data == pytest.approx(plain.data, rel=1e-12)
        assert [w.data for w in weights] == pytest.approx([w.data for w in others], rel=1e-12)
        assert [w.grad for w in weights] == pytest.approx([w.grad for w in others], rel=1e-12)
    before.backward()
    expected.backward()
    assert weights[5].grad == pytest.approx(others[5].grad, rel=1e-12)
    assert isinstance(weights[0], Value)
    saved = copy.copy(weights[0]), pickle.loads(pickle.dumps(weights[1]))
    weights[0].data, weights[1].grad = 5.0, -1.0
    assert (weights[0].data, weights[1].grad) == (5.0, -1.0)
    assert [x.data for x in saved] == pytest.approx([others[0].data, others[1].data], rel=1e-12)
    (weights[0] * weights[1]).backward()
    assert weights[1].grad == 4.0


def test_threads_call_one_function_at_once() -> None:
    """Each computes in memory of its own."""
    f = jit(lambda x: sum([(x * i).sin() * i for i in range(1, 200)], Value(0.0)))
    wanted = [f(Value(0.1 * n)).data for n in range(8)]
    assert "define" in f.source
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: f(Value(0.1 * (n % 8))).data, range(400)))
    assert found == wanted * 50


def test_max_and_min_are_pythons_but_for_values_in_a_trace() -> None:
    assert scalar.max(Value(1.0), Value(3.0)).data == 3.0
    assert scalar.min([2, 1, 3]) == 1
    assert scalar.max([], default=7) == 7
    assert scalar.max("ab", "c", key=len) == "ab"
    assert jit(lambda x: x * scalar.max(2, 3))(Value(2.0)).data == 6.0
    with pytest.raises(ValueError, match="empty"):
        scalar.max([])
    with pytest.raises(TraceError, match=r"or max and min of micrograd_core\.scalar"):
        jit(lambda x: max(x, -x))(Value(1.0))
    with pytest.raises(TraceError):
        jit(lambda x: scalar.max(x, -x, key=lambda x: x.data))(Value(1.0))


def test_a_result_is_swept_again_after_the_next_call() -> None:
    random.seed(0)
    model = MLP(3, [9, 1])
    f = jit(lambda x: model(x))
    first, second = ([Value(v) for v in (a, 0.5, -1.0)] for a in (0.25, 4.0))
    early, late = f(first), f(second)
    late.backward()
    grads = [x.grad for x in second]
    early.backward()
    assert [x.grad for x in second] == grads
    plain = [Value(v) for v in (0.25, 0.5, -1.0)]
    model(plain).backward()
    assert [x.grad for x in first] == pytest.approx([x.grad for x in plain], rel=1e-12)
