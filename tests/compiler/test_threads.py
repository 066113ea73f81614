"""Threads that share a loop."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from struct import Struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from micrograd_cpu import compiled, eager, team
from micrograd_cpu.target import PLAIN


def test_threads_of_python_share_loops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One leads the helpers, others find them taken; all get the same bits."""
    monkeypatch.setattr(compiled, "LARGE", 1)
    monkeypatch.setattr(compiled._Threads, "count", 4)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("float32")
    expected, found, begin = kernel(x).tobytes(), list[bool](), threading.Barrier(4)

    def work() -> None:
        begin.wait()
        found.extend(kernel(x).tobytes() == expected for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert found == [True] * 800


def test_who_leads_waits_for_those_who_have_begun() -> None:
    began, done = threading.Event(), list[int]()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def part(job: int, number: int) -> None:
        if number:
            began.set()
            time.sleep(0.05)
            done.append(number)
        else:
            began.wait(60)

    address = ctypes.cast(part, ctypes.c_void_p).value or 0
    for _ in range(3):
        began.clear()
        assert team.do(2, Struct("q"), address)
        assert done == [1]
        done.clear()


def test_a_job_of_more_words_than_a_desk_has_is_nobodys() -> None:
    """So that who asks does it alone."""
    words = [0] * (team.DESK + 1)
    assert not team.do(2, Struct(f"{len(words)}q"), *words)


@pytest.mark.skipif(PLAIN, reason="a pool of threads ends by itself")
def test_a_process_ends_while_helpers_look_for_work() -> None:
    """Python frees what it has; neither their code nor what they look at."""
    script = """
import numpy as np
from micrograd_cpu import compiled, eager, team

compiled.LARGE, compiled._Threads.count = 1, 4
team._IR = team._IR.replace(str(team.TURNS), str(1 << 40))
kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
kernel(np.ones((257, 300), "float32"))
print(team._OfProcess.team.helpers > 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_where_no_thread_can_be_had_one_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(team._OfProcess, "team", None)
    monkeypatch.setattr(compiled._Threads, "count", 4)
    monkeypatch.setattr(compiled, "LARGE", 1)
    x = np.random.default_rng(0).normal(size=(511, 300)).astype("float32")
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    expected = kernel(x).tobytes()
    monkeypatch.setattr(team._OfProcess, "team", None)
    monkeypatch.setattr(compiled._Threads, "pool", None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        assert kernel(x).tobytes() == expected
    assert PLAIN or team._OfProcess.team.helpers == 0  # type: ignore[union-attr]
    assert kernel(x).tobytes() == expected
    assert PLAIN or team._OfProcess.team.helpers > 0  # type: ignore[union-attr]


def test_an_interrupt_while_one_starts_seats_no_two_on_one_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    found, start = team.Team(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            found.hire(1)
    assert found.helpers == 1
    found.hire(1)
    assert found.helpers == 1


def test_a_handler_that_interrupts_the_pool_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler does that computes while its thread holds the pool's lock."""
    monkeypatch.setattr(compiled._Threads, "count", 3)
    pool, done = compiled._Threads.of_process(), list[tuple[int, int]]()
    submit = type(pool).submit

    def interrupted(self: Any, *given: Any) -> Any:
        with pool._shutdown_lock:
            compiled.shared(lambda begin, end: done.append((begin, end)), 10)
        monkeypatch.setattr(type(pool), "submit", submit)
        return submit(self, *given)

    monkeypatch.setattr(type(pool), "submit", interrupted)
    seen = list[int]()
    compiled.shared(lambda begin, end: seen.extend(range(begin, end)), 10)
    assert sorted(i for begin, end in done for i in range(begin, end)) == list(range(10)) == sorted(seen)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process", "ignore:os.fork")
def test_a_process_that_is_forked_off_has_helpers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LARGE", 1)
    monkeypatch.setattr(compiled._Threads, "count", 3)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("float32")
    expected = kernel(x).tobytes()
    child = os.fork()
    if not child:
        os._exit(0 if all(kernel(x).tobytes() == expected for _ in range(20)) else 1)
    assert os.waitpid(child, 0)[1] == 0
