"""Nothing waits for ever, and nothing stays slow: every lock × a fork, a signal handler, an interrupt, Python's end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, jit
from micrograd_core.adapters.compiled import BUILDING
from micrograd_core.engine import backward
from micrograd_core.scalar import sweep as scalar_sweep
from micrograd_core.support.open_devices import OPENING
from micrograd_core.transforms import jit as jit_module
from micrograd_cpu import entries, products, threads
from micrograd_cpu.objects import COMPILING, PLANNING, library
from tests.engine.test_fork import all_of_it, in_child
from tests.interrupts import lines

ROOT = Path(mg.__file__).parents[1]
LOCKS: dict[str, Any] = {
    "backward": backward._deposit,
    "sweep of values": scalar_sweep.sweeping,
    "generators": mg.random._lock,
    "opening": OPENING,
    "tracing": jit_module._tracing,
    "compiling": COMPILING,
    "planning": PLANNING,
    "building": BUILDING,
}


def compile_something() -> None:
    """Something that was never compiled in this process."""
    compile_something.count += 1  # type: ignore[attr-defined]
    factor = compile_something.count + 0.5  # type: ignore[attr-defined]
    x = asarray(np.ones((3, 4)))
    jit(lambda x: (x * factor).sin().sum() * factor)(x)
    mg.softmax(asarray(np.ones((64, 80), "float32")), axis=-1)


compile_something.count = 0  # type: ignore[attr-defined]


def compile_code() -> None:
    """The same without tracing: what a handler computes while its thread traces would be part of that program."""
    compile_something.count += 1  # type: ignore[attr-defined]
    library(f"define i64 @number() {{\n  ret i64 {compile_something.count}\n}}\n", ["number"])  # type: ignore[attr-defined]


def multiply() -> None:
    """A product that one thread computes."""
    x = asarray(np.ones((80, 80)))
    (x @ x).sum()


def everything() -> str:
    all_of_it()
    compile_something()
    multiply()
    Tensor(np.ones((300, 400), "float32")).exp().sum().backward()
    return "done"


def test_these_are_all_locks() -> None:
    made = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for folder in ("micrograd_core", "backends/cpu/micrograd_cpu")
        for file in (ROOT / folder).rglob("*.py")
        for line in file.read_text().splitlines()
        if re.search(r"= lock\(|threading\.R?Lock\(\)|[^.]\bR?Lock\(\)", line)
    ]
    homes = {each.partition(":")[0] for each in made}
    assert homes == {
        "micrograd_core/support/locks.py", "micrograd_core/support/open_devices.py", "micrograd_core/random.py",
        "micrograd_core/engine/backward.py", "micrograd_core/scalar/sweep.py", "micrograd_core/transforms/jit.py",
        "backends/cpu/micrograd_cpu/objects.py", "micrograd_core/adapters/compiled.py",
    }, made  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_a_fork_while_a_thread_has_it(lock: Any) -> None:
    everything()
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(lambda: lock.acquire(timeout=5) and everything()) == "done"
    finally:
        thread.join()
    assert everything() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_while_threads_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")
    everything()
    done = False

    def loop() -> None:
        while not done:
            compile_something()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for _ in range(4):
            time.sleep(0.01)
            assert in_child(everything) == "done"
    finally:
        done = True
        thread.join()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signal")
@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_a_signal_handler_that_computes_while_its_thread_has_it(lock: Any) -> None:
    """In a process of its own, which is ended where it gets stuck."""
    everything()

    def handled() -> str:
        found: list[str] = []
        signal.signal(signal.SIGUSR1, lambda *_: found.append(everything()))
        with lock:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)
        return "".join(found)

    assert in_child(handled) == "done"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timer")
def test_signal_handlers_that_compute_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")
    everything()

    def interrupted() -> str:
        count = 0

        def handler(*_: Any) -> None:
            nonlocal count
            count += 1
            multiply()
            compile_something()
            signal.setitimer(signal.ITIMER_REAL, 0.003)

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            multiply()
            compile_code()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return "done" if count > 3 else f"{count} signals"

    assert in_child(interrupted) == "done"


# ── an interrupt at each line ───────────────────────────────────────────────────────────────────────────────────


def after_interrupts(act: Any, check: Any) -> int:
    """How many lines `act` was interrupted at; `check` holds after each, once the next call is over."""
    act()
    came = 0
    for stop in range(len(lines(act))):
        try:
            lines(act, stop, KeyboardInterrupt)
        except KeyboardInterrupt:  # how many lines it runs through depends on what helpers do meanwhile
            came += 1
        act()
        check(stop)
    return came


def test_interrupts_leave_openblas_the_threads_that_it_had() -> None:
    told = [4]
    single = products.Alone(lambda: told[-1], told.append)
    x = np.ones((80, 80))

    def check(stop: int) -> None:
        assert (told[-1], single.inside) == (4, {}), stop

    count = after_interrupts(lambda: single(x.dot, x), check)
    assert count > 8
    for stop in range(count):  # a large product mends it, too
        with pytest.raises(KeyboardInterrupt):
            lines(lambda: single(x.dot, x), stop, KeyboardInterrupt)
        single.whole(x.dot, x)
        check(stop)


def test_interrupts_leave_the_helpers_to_whoever_comes_next() -> None:
    """Who was interrupted may have some still, which go on with what it has left."""

    def job() -> list[int]:
        left, found = deque(range(5)), list[int]()

        def take() -> None:
            with suppress(IndexError):
                while True:
                    found.append(left.popleft())

        threads.by_threads(take, 3)
        return found

    def check(stop: int) -> None:
        assert sorted(job()) == [*range(5)], stop

    assert after_interrupts(job, check) > 8


ONES = """
define void @ones(i64 %begin, i64 %end, ptr %x) {
entry:
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr double, ptr %x, i64 %i
  %before = load double, ptr %at
  %after = fadd double %before, 1.0
  store double %after, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""


def test_interrupts_leave_loops_of_machine_code_to_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.Threads, "count", 2)
    share = entries.function_of_share(library(entries.share("share", "ones", 1) + ONES, ["share"]), "share")

    def job() -> np.ndarray[Any, Any]:
        x = np.zeros(1000)
        threads.together(share, 1000, 4, x)
        return x

    def check(stop: int) -> None:
        assert job().sum() == 1000, stop

    assert after_interrupts(job, check) > 8


# ── the end of Python ───────────────────────────────────────────────────────────────────────────────────────────


def test_python_ends_while_daemon_threads_are_inside() -> None:
    script = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from tests.engine.test_locks import compile_something, everything, multiply
everything()
def loop():
    while True:
        compile_something(); multiply()
threading.Thread(target=loop, daemon=True).start()
time.sleep(0.3)
"""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", script, str(ROOT)], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
