"""Interrupts: what Ctrl-C, a lack of memory, or a signal handler finds and leaves, wherever it comes."""

from __future__ import annotations

import ast
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import (
    Tensor,
    Value,
    autocast,
    checkpoint,
    detect_anomaly,
    device,
    enable_grad,
    is_grad_enabled,
    no_grad,
    random,
    vmap,
)
from micrograd_core.engine import backward, modes as grad_modes, sweep
from micrograd_core.scalar import bridge, sweep as scalar_sweep
from micrograd_core.support import context
from micrograd_core.support.open_devices import OPENING
from tests.interrupts import EXHAUSTIVE, each_line

HOME = str(Path(mg.__file__).parent)

Reaction = Callable[[], None]


@cache
def blocks(file: str) -> dict[int, range]:
    """The lines of each block under a ``with``, by the line of the ``with``."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    found = [each for each in ast.walk(tree) if isinstance(each, ast.With)]
    return {each.lineno: range(each.body[0].lineno, (each.end_lineno or 0) + 1) for each in found}


@cache
def calm(file: str) -> set[int]:
    """The lines that begin without a call before: of each ``try``, and the first of each ``finally``."""
    tries = [each for each in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))) if isinstance(each, ast.Try)]
    return {each.lineno for each in tries} | {each.finalbody[0].lineno for each in tries if each.finalbody}


@contextmanager
def at_line(number: int, react: Reaction, file: str = HOME) -> Iterator[list[str]]:
    """At the `number`th line that runs in the library inside the block, call `react` in its place; which one it was.

    Left out are places where Python reports a line, but handles no signal: `calm` lines; and the line of a ``with``,
    which it reports once more when the block ends, before it calls ``__exit__``.
    """
    reached: list[str] = []
    last: dict[FrameType, int] = {}
    seen = 0

    def count(frame: FrameType) -> None:
        nonlocal seen
        if reached:
            return
        name, line = frame.f_code.co_filename, frame.f_lineno
        if line not in calm(name) and last.get(frame) not in blocks(name).get(line, ()):
            if seen == number:
                reached.append(f"{name}:{line} {frame.f_code.co_name}")
                react()
            seen += 1
        last[frame] = line

    with each_line(count, lambda frame: frame.f_code.co_filename.startswith(file)):
        yield reached


def raising(error: type[BaseException]) -> Reaction:
    def react() -> None:
        raise error("here")

    return react


def every_line(work: Callable[[], Any], react: Reaction, file: str = HOME) -> Iterator[str]:
    """Run `work` over and over, with `react` at another line each time, until it runs to its end undisturbed."""
    number = 0
    while True:
        with at_line(number, react, file) as reached, suppress(KeyboardInterrupt, MemoryError):
            work()
        if not reached:
            return
        yield reached[0]
        number += 1


def everything() -> dict[str, Any]:
    """All that a mode may leave on, and whether a lock is held."""
    return {
        **{name: each.get(None) for name, each in vars(context).items() if isinstance(each, ContextVar)},
        "profiler": sys.getprofile(),
        "underway": list(scalar_sweep.underway),
        "locked": [
            each for each in (random._lock, backward._deposit, scalar_sweep.sweeping, OPENING) if each._is_owned()
        ],
    }


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────────

MODES: dict[str, Callable[[], Any]] = {
    "no_grad": no_grad,
    "enable_grad": enable_grad,
    "recording": lambda: grad_modes.recording(False, 1),
    "autocast": lambda: autocast("bfloat16"),
    "suspended": grad_modes.suspended,
    "use_device": lambda: mg.use_device("cpu"),
    "use_generator": lambda: random.use_generator(5),
    "saving_states": lambda: random.saving_states({}),
    "detect_anomaly": detect_anomaly,
}


def look() -> tuple[Any, ...]:
    return is_grad_enabled(), random.default_generator(), mg.default_device()


def entered_twice(make: Callable[[], Any]) -> None:
    mode = make()
    with mode, mode:
        look()


def decorated(make: Callable[[], Any]) -> None:
    make()(look)()


def on_a_stack(make: Callable[[], Any]) -> None:
    with ExitStack() as stack:
        stack.enter_context(make())
        stack.enter_context(make())
        look()


def nested(outer: Callable[[], Any], inner: Callable[[], Any]) -> None:
    with outer():
        look()
        with inner():
            look()
        look()


USES: dict[str, Callable[[], Any]] = {
    **{f"{name} twice": partial(entered_twice, make) for name, make in MODES.items()},
    **{f"{name} decorating": partial(decorated, make) for name, make in MODES.items()},
    **{f"{name} on a stack": partial(on_a_stack, make) for name, make in MODES.items()},
    **{f"{outer} {inner}": partial(nested, MODES[outer], MODES[inner]) for outer in MODES for inner in MODES},
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_interrupt_at_any_line_leaves_no_mode_on(use: Callable[[], Any], error: type[BaseException]) -> None:
    use()
    before = everything()
    lines = 0
    for line in every_line(use, raising(error)):
        assert everything() == before, line
        lines += 1
    assert lines >= 10


# ── sweeps, draws and what else there is ─────────────────────────────────────────────────────────────────────


def two_leaves() -> tuple[Tensor, Tensor]:
    return Tensor([1.0, 2.0]), Tensor([3.0, 4.0])


@pytest.mark.parametrize("grown", [False, True])
def test_an_interrupted_sweep_adds_to_all_leaves_or_to_none(grown: bool) -> None:
    x, y = two_leaves()
    x.register_hook(lambda g: g * 1)

    def work() -> None:
        (x * y).sum().backward()

    for _ in range(100):  # kernels that are new are looked at: there would be fewer lines each time
        work()
    x.grad = y.grad = None
    if grown:
        work()
    before, first, found = everything(), (x.grad, y.grad), set()
    for line in every_line(work, raising(KeyboardInterrupt)):
        assert everything() == before, line
        moved = x.grad is not first[0], y.grad is not first[1]
        assert moved[0] == moved[1], line
        found.add(moved[0])
        x.grad, y.grad = first
    assert found == {False, True}


def test_an_interrupted_deposit_of_many_gradients_is_all_or_none() -> None:
    leaves = [Tensor(float(i)) for i in range(5)]
    (sum(leaves[1:], leaves[0]) * 2).backward()
    for line in every_line(
        lambda: (sum(leaves[1:], leaves[0]) * 2).backward(), raising(MemoryError), backward.__file__
    ):
        assert {x.grad.item() for x in leaves} in ({2.0}, {4.0}), line
        for x in leaves:
            x.grad = Tensor(2.0).detach()


def recording_step() -> None:
    x, y = two_leaves()
    (x * y).sum().backward(create_graph=True)


def functional() -> None:
    x, y = two_leaves()
    mg.grad(lambda a, b: (a * b).sum(), (0, 1))(x, y)


def batched() -> None:
    x, y = two_leaves()
    vmap(mg.grad(lambda a, b: a * b))(x, y)


def recomputed() -> None:
    x, _ = two_leaves()
    checkpoint(lambda a: a * random.uniform(2), x).sum().backward()


def on_values() -> None:
    a, b = Value(2.0), Value(3.0)
    (a * b + a).backward()


def across() -> None:
    a = Value(2.0)
    bridge.unstack(bridge.stack([a, a * 2]).sum()).backward()


def drawn() -> None:
    random.uniform(3)
    random.Generator(1).split()


def hooked() -> None:
    x, _ = two_leaves()
    y = x * 2
    handle = y.register_hook(lambda g: g * 2)
    y.sum().backward()
    handle.remove()


def under_modes() -> None:
    x, y = two_leaves()
    with autocast("bfloat16"), detect_anomaly():
        z = x.reshape(1, 2) @ y
    z.sum().backward()


@pytest.mark.parametrize(
    "work", [recording_step, functional, batched, recomputed, on_values, across, drawn, hooked, under_modes]
)
def test_an_interrupt_at_any_line_leaves_nothing_on_and_nothing_locked(work: Callable[[], None]) -> None:
    work()
    work()
    before = everything()
    reached = number = 0
    while True:
        with at_line(number, raising(KeyboardInterrupt)) as line, suppress(KeyboardInterrupt):
            work()
        if not line:
            break
        assert everything() == before, line
        reached += 1
        number += 1 if EXHAUSTIVE else 7
    work()
    assert reached >= 5


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────


class Interrupted(Exception):
    """What the handler raises, as Python's own raises KeyboardInterrupt."""


@contextmanager
def handled_by(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt(*_: Any) -> None:
    raise Interrupted


def empty() -> None:
    with no_grad():
        pass


def long_product() -> None:
    x = 3
    with no_grad():
        x**5000  # an interrupt waits for its end, and comes as the block ends


def nested_modes() -> None:
    with autocast("bfloat16"), no_grad(), enable_grad(), random.use_generator(0), mg.use_device("cpu"):
        is_grad_enabled()


MODE = no_grad()


def a_mode_entered_twice() -> None:
    with MODE, MODE:
        is_grad_enabled()


@pytest.mark.parametrize("work", [empty, long_product, nested_modes, a_mode_entered_twice])
def test_a_signal_leaves_no_mode_on(work: Callable[[], None]) -> None:
    work()
    before, delay = everything(), Random(0)
    with handled_by(interrupt):
        for _ in range(2000 if EXHAUSTIVE else 200):
            with suppress(Interrupted):
                # A second time, as Python drops what is raised in a finalizer, and there would be no end.
                signal.setitimer(signal.ITIMER_REAL, delay.uniform(5e-5, 2e-3), 0.5)
                while True:
                    work()
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert everything() == before


@pytest.mark.parametrize("shared", [True, False])
def test_a_handler_may_sweep_at_any_line_of_a_deposit(shared: bool) -> None:
    x, y = two_leaves()
    other = y if shared else Tensor([0.0, 0.0])

    def handler(*_: Any) -> None:
        (other * 10).sum().backward()

    with handled_by(handler):
        number = 0
        while True:
            x.grad = y.grad = other.grad = None
            loss = (x * 2 + y).sum()
            with at_line(number, lambda: signal.raise_signal(signal.SIGALRM), backward.__file__) as line:
                loss.backward()
            if not line:
                break
            assert x.grad.tolist() == [2.0, 2.0], line
            assert y.grad.tolist() == ([11.0, 11.0] if shared else [1.0, 1.0]), line
            assert other.grad.tolist()[0] >= 10.0, line
            number += 1
    assert number > 20


def test_a_handler_may_draw_at_any_line_of_a_draw() -> None:
    def words() -> tuple[int, ...]:
        return tuple(random.randint(4, 0, 1 << 62).tolist())

    drawn: list[tuple[int, ...]] = []
    with handled_by(lambda *_: drawn.append(words())):
        number = 0
        while True:
            with at_line(number, lambda: signal.raise_signal(signal.SIGALRM), random.__file__) as line:
                drawn.append(words())
            if not line:
                break
            number += 1
    assert number > 10
    assert len(set(drawn)) == len(drawn)


def test_a_handler_may_do_everything_at_any_time() -> None:
    x, y, value = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Value(2.0)
    drawn: list[int] = []
    calls = 0

    def handler(*_: Any) -> None:
        nonlocal calls
        calls += 1
        z = x * 1
        z.register_hook(lambda g: None)
        z.sum().backward()
        other = Value(1.0)
        (other * other).backward()
        drawn.append(random.randint((), 0, 1 << 62).item())
        device.Device.forget("cpu:0")
        mg.Device("cpu:0")

    delay, rounds = Random(0), 0
    with handled_by(handler):
        for _ in range(1000 if EXHAUSTIVE else 100):
            signal.setitimer(signal.ITIMER_REAL, delay.uniform(5e-5, 2e-3))
            seen = calls
            while calls == seen:
                rounds += 1
                (x * y).sum().backward()
                (value * value + value).backward()
                drawn.append(random.randint((), 0, 1 << 62).item())
    assert y.grad.tolist() == [1.0 * rounds, 2.0 * rounds]
    assert x.grad.tolist() == [3.0 * rounds + calls, 4.0 * rounds + calls]
    assert value.grad == 5.0 * rounds
    assert len(set(drawn)) == len(drawn)


def test_a_handler_may_register_a_hook_at_any_line_of_a_sweep() -> None:
    number = 0
    hooked: list[Tensor] = []

    def react() -> None:
        with suppress(mg.errors.GraphError):  # freed already
            for x in reversed(hooked):
                x.register_hook(lambda g: None)

    while True:
        x, y = two_leaves()
        hooked[:] = [x * 2, y * 3]
        hooked.append(hooked[0] * hooked[1])
        loss = (hooked[2] + hooked[0]).sum()
        with at_line(number, react, sweep.__file__) as line:
            loss.backward()
        if not line:
            break
        assert x.grad.tolist() == [20.0, 26.0], line
        assert y.grad.tolist() == [6.0, 12.0], line
        number += 1
    assert number > 40


def test_a_hook_may_register_another_further_down_the_same_sweep() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        z = y * 3
        z.register_hook(lambda g: y.register_hook(lambda g: g * 10) and None)
        return z.sum()

    x, _ = two_leaves()
    f(x).backward()
    assert x.grad.tolist() == mg.grad(f)(x).tolist() == [60.0, 60.0]


def test_a_hook_that_frees_the_graph_of_the_sweep_around_it_is_told() -> None:
    x, _ = two_leaves()
    shared = x * 2
    y = shared * 3
    y.register_hook(lambda g: shared.sum().backward())
    with pytest.raises(mg.errors.GraphError, match="already swept"):
        y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
