"""Forked children: they get stuck on nothing that a thread of their parent was doing, and draw numbers of their own."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from micrograd_core import Device, Tensor, Value, random
from micrograd_core.engine import backward
from micrograd_core.scalar import bridge, sweep as scalar_sweep
from micrograd_core.support.context import without_collection
from micrograd_core.support.open_devices import OPENING

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:os.fork"),  # JAX warns of its own threads, where it is installed
]

EXHAUSTIVE = bool(os.environ.get("MICROGRAD_EXHAUSTIVE"))


def in_child(work: Callable[[], str], seconds: float = 30) -> str:
    """What `work` returns in a forked child. One that gets stuck is killed."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        pid = os.fork()
    if not pid:
        said = "the child failed"
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    try:
        if not select.select([reading], [], [], seconds)[0]:
            os.kill(pid, signal.SIGKILL)
            return "the child got stuck"
        return os.read(reading, 1 << 16).decode()
    finally:
        os.waitpid(pid, 0)
        os.close(reading)


def test_garbage_is_collected_where_another_thread_had_stopped_that() -> None:
    """As it does while it traces a function of Values."""
    inside, done = threading.Event(), threading.Event()

    def trace() -> None:
        with without_collection():
            inside.set()
            done.wait(30)

    def collects() -> str:
        return f"{gc.isenabled()}"

    thread = threading.Thread(target=trace)
    thread.start()
    inside.wait(30)
    try:
        assert not gc.isenabled()
        assert in_child(collects) == "True"
    finally:
        done.set()
        thread.join()
    assert gc.isenabled()
    gc.disable()  # as a user may
    try:
        with without_collection():
            pass
        assert in_child(collects) == "False"
    finally:
        gc.enable()


def sweep_tensors() -> None:
    leaves = [Tensor([1.0, 2.0]) for _ in range(20)]
    sum(leaves[1:], leaves[0]).sum().backward()


def sweep_values() -> None:
    x = y = Value(1.0)
    for _ in range(300):
        y = y * 1.0
    y.backward()
    assert x.grad == 1.0


def draw() -> None:
    random.uniform(3)


def open_a_device() -> None:
    Device.forget("cpu:0")
    Device("cpu:0")


WORK = [sweep_tensors, sweep_values, draw, open_a_device]


@contextmanager
def working(work: Callable[[], None]) -> Iterator[None]:
    """Two threads do nothing else meanwhile."""
    all_of_it()  # Python's own locks around imports, which first uses make, stay locked in children
    done = False

    def loop() -> None:
        while not done:
            work()

    threads = [threading.Thread(target=loop) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done = True
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def all_of_it() -> str:
    for work in WORK:
        work()
    return "done"


@pytest.mark.parametrize("work", WORK)
def test_a_child_gets_stuck_on_nothing_that_threads_were_doing(work: Callable[[], None]) -> None:
    with working(work):
        for _ in range(200 if EXHAUSTIVE else 15):
            time.sleep(0.001)
            assert in_child(all_of_it) == "done"


@pytest.mark.parametrize("lock", [backward._deposit, scalar_sweep.sweeping, random._lock, OPENING])
def test_what_a_thread_had_locked_is_free_in_a_child(lock: Any) -> None:
    all_of_it()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            locked.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    try:
        assert in_child(all_of_it) == "done"
        assert not lock.acquire(blocking=False)  # here it is not
    finally:
        done.set()
        thread.join()


def test_a_child_can_sweep_the_graph_that_a_thread_was_sweeping() -> None:
    """With its leaves at zero: it starts anew."""
    x = Value(1.0)
    y = x
    for _ in range(200):
        y = y * 1.0 + y * 0.0
    found = set()

    def again() -> str:
        x.grad = 0.0
        y.backward()
        return str(x.grad)

    with working(y.backward):
        for _ in range(200 if EXHAUSTIVE else 15):
            time.sleep(0.001)
            found.add(in_child(again))
    assert found == {"1.0"}


def test_a_fork_inside_a_hook_lets_both_sweeps_end() -> None:
    x, y = Tensor([1.0, 2.0]), Value(1.0)
    stacked = bridge.stack([y * 1.0, y])
    found: list[str] = []
    inside = False

    def hook(g: Any) -> None:
        nonlocal inside
        if not inside:
            inside = True
            found.append(in_child(all_of_it))

    stacked.register_hook(hook)
    bridge.unstack((stacked * x).sum()).backward()
    assert found == ["done"]
    assert y.grad == 3.0


# ── random numbers ───────────────────────────────────────────────────────────────────────────────────────────


def numbers(generator: Any = None) -> str:
    return str(random.randint(4, 0, 1 << 62, generator=generator).tolist())


def family() -> list[str]:
    """What a parent, two children, a grandchild draw; the parent in between, too."""

    def child_of_child() -> str:
        return in_child(numbers) + in_child(numbers) + numbers()

    return [numbers(), in_child(numbers), in_child(child_of_child), numbers()]


def test_children_draw_numbers_of_their_own() -> None:
    found = str(family()).replace("'", "").replace("][", ", ").replace("[", "").replace("]", "").split(", ")
    assert len(set(found)) == len(found) == 4 * 6


def test_a_seed_determines_what_children_draw() -> None:
    random.manual_seed(7)
    first = family()
    random.manual_seed(7)
    assert family() == first
    random.manual_seed(8)
    assert not set(family()) & set(first)


def test_forks_leave_the_parents_stream_alone() -> None:
    random.manual_seed(7)
    expected = [numbers(), numbers()]
    state = random.default_generator().state
    random.manual_seed(7)
    first = numbers()
    in_child(numbers)
    assert [first, numbers()] == expected
    assert random.default_generator().state == state


def test_a_chosen_default_generator_forks_too() -> None:
    with random.use_generator(3):
        found = [in_child(numbers), in_child(numbers), numbers()]
    assert len(set(found)) == 3
    with random.use_generator(3):
        assert [in_child(numbers), in_child(numbers), numbers()] == found


def test_a_generator_that_is_passed_goes_on_in_the_child_as_in_the_parent() -> None:
    generator = random.Generator(3)
    assert in_child(lambda: numbers(generator)) == numbers(generator)


def drawn(_: int) -> list[int]:
    time.sleep(0.05)  # so that several workers take part
    return random.randint(3, 0, 1 << 62).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_draw_numbers_of_their_own(method: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = [x for each in pool.map_async(drawn, range(6), chunksize=1).get(timeout=120) for x in each]
    assert len(set(found)) == 18
