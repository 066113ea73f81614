"""An interrupt at any line of a traced call, a replay or a sweep of scalars leaves nothing behind.

``MICROGRAD_EXHAUSTIVE=1`` interrupts every line each time it runs; otherwise in one scene each line of the core is
interrupted the last time that it runs, and in the others some are.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import micrograd_core
from micrograd_core import Value, is_grad_enabled, jit
from micrograd_core.scalar.bridge import gather
from micrograd_core.scalar.sweep import reachable, sweeping, underway
from micrograd_core.scalar.value import tracing
from micrograd_core.support.pytrees import flatten
from tests.interrupts import EXHAUSTIVE, each_line

HERE = str(Path(micrograd_core.__file__).parent)
Action = Callable[[], Any]


class Interrupt:
    """Counts the lines that run in the core, and raises at one of them."""

    def __init__(self, at: int = -1, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.error, self.lines, self.where = at, error, 0, ""
        self.last: dict[str, int] = {}

    def count(self, frame: FrameType) -> None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if frame.f_code.co_filename != "<jit>":
            self.last[where] = self.lines
        self.lines += 1
        if self.lines == self.at + 1:
            self.where = where
            raise self.error

    def choose(self, every: int) -> list[int]:
        """Which lines to interrupt, after one that was not: of different ones, every so many."""
        return list(range(self.lines)) if EXHAUSTIVE else sorted(self.last.values())[::every]

    def run(self, action: Action) -> bool:
        """Whether it was interrupted."""
        try:
            with each_line(self.count, lambda frame: frame.f_code.co_filename.startswith((HERE, "<jit>"))):
                action()
        except self.error:
            return True
        return False


class Scene:
    """A compiled function, what it is called with, and what it gives when nothing is in the way."""

    def __init__(self, name: str) -> None:
        self.w, self.a, self.b = Value(3.0), Value(0.5), Value(-1.0)
        self.f = jit(getattr(self, name))

    def several(self, a: Any, b: Any) -> Any:
        return a * b + self.w, [(b / a).relu(), {"third": a.log() * self.w * b}]

    def single(self, a: Any, b: Any) -> Any:
        return (a * b + b**3).relu() + a.sigmoid() / b

    def step(self, a: Any, b: Any) -> Any:
        loss = (self.w * a - b) ** 2
        self.w.grad = 0.0
        loss.backward()
        return loss

    def long(self, a: Any, b: Any) -> Any:
        y = a
        for _ in range(300):
            y = y * b + a
        return y, y * self.w

    def call(self) -> Any:
        return self.f(self.a, self.b)

    def results(self) -> list[Any]:
        return [x for x in flatten(self.call())[0] if isinstance(x, Value)]

    def sweep(self, results: list[Any]) -> None:
        for x in results:
            x.backward()
        total = results[0] * 2.0
        for x in results:
            total = total + x * 3.0
        total.backward()

    def numbers(self) -> list[float]:
        for x in (self.a, self.b, self.w):
            x.grad = 0.0
        results = self.results()
        inside = [x.grad for x in (self.a, self.b, self.w)]
        return [*inside, *self.swept(results)]

    def swept(self, results: list[Any]) -> list[float]:
        for x in (self.a, self.b, self.w):
            x.grad = 0.0
        self.sweep(results)
        return [*(x.data for x in results), self.a.grad, self.b.grad, self.w.grad]


def nothing_is_left_behind(scene: Scene) -> None:
    assert tracing.get() is None
    assert is_grad_enabled()
    assert gc.isenabled()
    assert underway == []
    assert Value(2.0) > 1.0
    free: list[bool] = []

    def take() -> None:
        free.append(sweeping.acquire(blocking=False))
        if free[0]:
            sweeping.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert free == [True], "the lock of sweeps is held"


def of(scene: Scene, what: str) -> tuple[Action, list[Any]]:
    """An action, and the nodes that it may leave counts in."""
    if what == "the first call":
        return scene.call, []
    results = scene.results()
    if what == "a replay":
        return scene.call, []
    return lambda: scene.sweep(results), results


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("what", ["the first call", "a replay", "sweeps"])
@pytest.mark.parametrize("name", ["several", "single", "step", "long"])
def test_an_interrupt_at_any_line_leaves_nothing_behind(name: str, what: str, error: type[BaseException]) -> None:
    wanted = Scene(name).numbers()
    assert not Interrupt().run(of(Scene(name), what)[0])  # what a process computes once is there
    count = Interrupt()
    assert not count.run(of(Scene(name), what)[0])
    assert count.lines > 5
    every = 1 if name == "several" and error is KeyboardInterrupt else 120 if name == "long" else 40
    for at in count.choose(every):
        scene = Scene(name)
        action, nodes = of(scene, what)
        interrupt = Interrupt(at, error)
        assert interrupt.run(action), "no line was interrupted"
        nothing_is_left_behind(scene)
        assert all(each._uses == 0 for each in reachable(*nodes)), interrupt.where
        assert scene.numbers() == wanted, interrupt.where
        if nodes:  # what was there before can be swept too
            assert scene.swept(nodes) == wanted[3:], interrupt.where


def test_an_interrupt_while_many_values_become_one_matrix_finds_all_of_them_or_none() -> None:
    def given() -> list[Value]:
        values = [Value(0.5 * i) for i in range(4)]
        values[2].grad = 3.0
        return values

    count = Interrupt()
    gather(given())  # what a process computes once is there
    fresh = given()
    assert not count.run(lambda: gather(fresh))
    inside = [at for where, at in count.last.items() if "bridge.py" in where or "atomic.py" in where]
    assert len(inside) > 8
    for at in inside:
        values = given()
        interrupt = Interrupt(at)
        assert interrupt.run(lambda values=values: gather(values))  # type: ignore[misc]
        assert len({type(x) for x in values}) == 1, interrupt.where
        assert [(x.data, x.grad) for x in values] == [(0.0, 0.0), (0.5, 0.0), (1.0, 3.0), (1.5, 0.0)], interrupt.where
        (values[1] * values[2]).backward()
        assert [x.grad for x in values] == [0.0, 1.0, 3.5, 0.0], interrupt.where
