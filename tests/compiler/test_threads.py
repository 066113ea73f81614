"""Threads that share a loop."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from micrograd_cpu import compiled, eager, target, threads


def test_threads_of_python_share_loops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One leads the helpers, others find them taken; all get the same bits."""
    monkeypatch.setattr(compiled, "LARGE", 1)
    monkeypatch.setattr(threads.Threads, "count", 4)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("float32")
    expected, found, begin = kernel(x).tobytes(), list[bool](), threading.Barrier(4)

    def work() -> None:
        begin.wait()
        found.extend(kernel(x).tobytes() == expected for _ in range(200))

    others = [threading.Thread(target=work) for _ in range(4)]
    for each in others:
        each.start()
    for each in others:
        each.join(60)
    assert found == [True] * 800


def test_whoever_asks_waits_for_those_who_have_begun() -> None:
    began, done = threading.Event(), list[int]()

    def take() -> None:
        if threading.current_thread() is threading.main_thread():
            began.wait(60)
        else:
            began.set()
            time.sleep(0.05)
            done.append(1)

    for _ in range(3):
        began.clear()
        threads.by_threads(take, 2)
        assert done == [1]
        done.clear()


def test_a_helper_that_begins_late_is_not_taken_for_one_that_is_done() -> None:
    """The late one finds nothing left, and is done while the first still works."""
    began, leave, late, done = threading.Event(), threading.Event(), threading.Event(), list[int]()

    def take() -> None:
        if threading.current_thread() is threading.main_thread():
            assert began.wait(60)
            threading.Timer(0.1, leave.set).start()  # the other helper is busy until this one waits
        elif began.is_set():
            late.set()
        else:
            began.set()
            assert late.wait(60)
            time.sleep(0.05)
            done.append(1)

    busy = threading.Event()
    assert threads.Threads.reserve(2) == 2
    threads.Threads.jobs[1].put((lambda: (busy.set(), leave.wait(60)), []))
    assert busy.wait(60)
    threads.by_threads(take, 3)
    assert done == [1]


@pytest.mark.skipif("threads" in target.PLAIN, reason="helpers wait in Python here")
def test_helpers_begin_loops_while_they_look_and_while_they_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops one after the other, and loops after a pause in which the helper goes to sleep: each gets a part."""
    monkeypatch.setattr(threads.Threads, "count", 2)
    takers, function = set[int](), ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)

    def work(job: int, number: int) -> None:
        takers.add(number)
        deadline = time.monotonic() + 60
        while len(takers) < 2 and time.monotonic() < deadline:
            time.sleep(0)

    share: Any = function(work)
    share.address = ctypes.cast(share, ctypes.c_void_p).value
    for pause in (0.0, 0.0, 0.1, 0.0):
        time.sleep(pause)
        takers.clear()
        threads.together(share, 2, 1)
        assert len(takers) == 2
    slots = threads.Threads.slots
    assert slots is not None
    deadline = time.monotonic() + 60
    while any(each != threads.ASLEEP for each in slots.states[:: threads.WORDS]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {*slots.states[:: threads.WORDS]} == {threads.ASLEEP}, "helpers leave the processor when nothing comes"


@pytest.mark.skipif("threads" in target.PLAIN, reason="helpers wait in Python here")
def test_a_job_that_no_helper_began_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.Threads, "count", 2)
    monkeypatch.setattr(compiled, "LARGE", 1)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(129, 300)).astype("float32")
    expected = kernel(x).tobytes()
    monkeypatch.setattr(threads.Threads, "jobs", [SimpleQueue[Any]()])  # which nobody reads: who sleeps sleeps on
    monkeypatch.setattr(threads.Threads, "slots", None)
    for _ in range(50):
        assert kernel(x).tobytes() == expected
    assert threads.Threads.jobs[0].qsize() == 1, "it is called once"


def test_an_error_in_a_helper_is_raised_by_who_asked() -> None:
    began = threading.Event()

    def take() -> None:
        if threading.current_thread() is threading.main_thread():
            began.wait(60)
        else:
            began.set()
            raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        threads.by_threads(take, 2)


def test_where_no_thread_can_be_had_one_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads.Threads, "count", 4)
    monkeypatch.setattr(compiled, "LARGE", 1)
    x = np.random.default_rng(0).normal(size=(511, 300)).astype("float32")
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    expected = kernel(x).tobytes()
    monkeypatch.setattr(threads.Threads, "jobs", [])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        assert kernel(x).tobytes() == expected
    assert not threads.Threads.jobs
    assert kernel(x).tobytes() == expected
    assert threads.Threads.jobs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process", "ignore:os.fork")
def test_a_process_that_is_forked_off_has_helpers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LARGE", 1)
    monkeypatch.setattr(threads.Threads, "count", 3)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("float32")
    expected = kernel(x).tobytes()
    child = os.fork()
    if not child:
        os._exit(0 if all(kernel(x).tobytes() == expected for _ in range(20)) else 1)
    assert os.waitpid(child, 0)[1] == 0
