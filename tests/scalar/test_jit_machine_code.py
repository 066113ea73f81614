"""Long functions of Values under `jit` are machine code: the same numbers, bit for bit, as Python's floats give."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from micrograd_core import MLP, Value, jit
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

    g = jit(lambda x: (model(x) * x[0]).tanh())  # an operation whose last digit is another library's
    assert g(x).data == (model(x) * x[0]).tanh().data
    assert "define" not in g.source


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
