"""Threads that share a loop: each takes ranges of it, for as long as some are left.

Helpers wait for work, each in a queue of its own. Whoever asked does its own part meanwhile, and waits only for helpers
that have begun: one that begins later finds nothing left. Results do not depend on who computes what.

To wake a thread takes as long as a loop over 100,000 numbers. So a helper that was given a loop of machine code looks
for the next one for a while, without Python, whose lock another may have: each has a slot, some words of memory, where
the thread that leads writes the address of a job. The plain way (`target.PLAIN`) is the queue alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
from array import array
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import count as count_from
from queue import SimpleQueue
from typing import Any, ClassVar, Final

from micrograd_cpu.entries import words
from micrograd_cpu.products import alone
from micrograd_cpu.target import PLAIN

ALIGNED: Final = 64
"""Ranges of threads begin at multiples of this, where there are enough units: no two write to one cache line."""
RANGES: Final = 8
"""For each thread, at most: one that comes late, because another program has its core, takes fewer."""
GRAIN: Final = 300_000
"""What is worth a range of its own, weighed as `compiled.LARGE` is."""
SLOTS: Final = 256
"""Helpers at most."""
WORDS: Final = 16
"""Words of a slot, two lines of cache. The first is 0 while its helper looks for work, 1 while it works, 2 while it
waits in the queue, or the address of a job that it shall begin; the second is not 0 where its queue has work."""
ASLEEP: Final = 2
TURNS: Final = 1000
"""How often one looks before one sleeps: some tenths of a millisecond, in which Python comes to the next loop."""
PAUSE: Final = 50
"""Microseconds that the thread that leads sleeps between two looks, after as many turns."""


class Threads:
    """The helpers of this process. A forked process starts its own."""

    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs: ClassVar = list[SimpleQueue[Any]]()  # of each helper; a signal handler may use one while its thread does
    slots: Slots | None = None

    @classmethod
    def forget(cls) -> None:
        """In a forked child, in which none of the helpers goes on."""
        cls.jobs, cls.slots = [], None

    @classmethod
    def reserve(cls, count: int) -> int:
        """Have so many helpers, or more; how many there are, which may be fewer where the system gives no more."""
        while len(cls.jobs) < min(count, SLOTS):
            jobs, number = SimpleQueue[Any](), len(cls.jobs)
            name = f"micrograd_{number + 1}"
            helper = threading.Thread(target=_serve, args=(jobs,), name=name, daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the system gives no more, or Python is about to end
                break
            cls.jobs.append(jobs)
        return min(len(cls.jobs), count)


class Slots:
    """The memory where helpers look for loops of machine code, and the functions that look and lead."""

    def __init__(self) -> None:
        from micrograd_cpu.objects import library, source

        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        self.memory = (integer * (SLOTS * WORDS + WORDS))()
        self.first = -(-ctypes.addressof(self.memory) // (8 * WORDS)) * 8 * WORDS
        self.states = (integer * (SLOTS * WORDS)).from_address(self.first)
        self.states[::WORDS] = [ASLEEP] * SLOTS
        text = source("helpers", asleep=ASLEEP, other=~ASLEEP, words=WORDS, turns=TURNS, pause=PAUSE)
        self.held = library(text, ["serve", "lead"])
        self.serve: Any = ctypes.CFUNCTYPE(None, pointer, integer)(self.held["serve"])
        self.lead: Any = ctypes.CFUNCTYPE(None, pointer, integer, pointer)(self.held["lead"])
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # helpers look at it until the process is gone


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Threads.forget)


def _serve(jobs: SimpleQueue[Any]) -> None:
    """A helper: an integer in its queue is the number of its slot, where it looks for loops."""
    while True:
        job = jobs.get()
        if job.__class__ is int:
            slots = Threads.slots
            if slots is not None:
                slots.serve(slots.first + 8 * WORDS * job, job + 1)
                slots.states[job * WORDS + 1] = 0
            continue
        take, begun = job
        done = SimpleQueue[Any]()
        begun.append(done)
        error = None
        try:
            take()
        except BaseException as found:
            error = found
        done.put(error)
        del job, take, begun, done, error  # nothing is kept alive while it waits


def by_threads(take: Callable[[], Any], threads: int) -> None:
    """Call `take`, which works for as long as there is work left, in this thread and in helpers."""
    begun, slots = list[SimpleQueue[Any]](), Threads.slots
    for i, jobs in enumerate(Threads.jobs[: Threads.reserve(threads - 1)]):
        jobs.put((take, begun))
        if slots is not None and slots.states[i * WORDS] != ASLEEP:
            slots.states[i * WORDS + 1] = 1
    take()
    for done in tuple(begun):  # one that begins from now on finds nothing left, and is no sign that another is done
        error = done.get()
        if error is not None:
            raise error


def ranges_of(work: int) -> int:
    """Into how many ranges a nest is divided for each thread."""
    return max(1, min(RANGES, work // (GRAIN * Threads.count)))


def _step(count: int, threads: int, ranges: int) -> int:
    step = -(-count // (threads * ranges if threads > 1 else 1))
    return -(-step // ALIGNED) * ALIGNED if step > ALIGNED else step


@lru_cache(maxsize=1024)
def _begins(count: int, ranges: int, threads: int) -> tuple[int, ...]:
    """What a job begins with after its function; `entries.share` says what each word is."""
    part = _step(count, threads, 1)
    firsts = range(0, count, part)
    return 0, count, part, -(-part // ranges), len(firsts), *firsts


def together(share: Any, count: int, ranges: int, *given: Any, most: int = 0) -> None:
    """All units of a nest, whose function is `share`, by all threads, or so many at `most`.

    Each begins with a part of its own, the same at each call, which is in its core's cache; then it helps the others.
    """
    begins = _begins(count, ranges, min(most or Threads.count, count))
    job = array("q", (share.address, *begins, *words(given)))
    address, threads = job.buffer_info()[0], begins[4]
    if "threads" in PLAIN:
        numbers = count_from(0)

        def take(_: Any = (job, given)) -> None:  # which late helpers read, and those that an interrupt left at work
            share(address, next(numbers))

        by_threads(take, threads)
        return
    helpers = Threads.reserve(threads - 1)
    slots = Threads.slots
    if slots is None:
        slots = Threads.slots = Slots()
    for i, jobs in enumerate(Threads.jobs[:helpers]):
        if slots.states[i * WORDS] == ASLEEP and jobs.empty():
            jobs.put(i)
    slots.lead(slots.first, helpers, address)


def multiplied(share: Any, count: int, *given: Any) -> None:
    """Run the shares of a stack of products on no more threads than OpenBLAS may use; each thread calls it."""
    single = alone()
    if single is None:
        together(share, count, 1, *given)
    else:
        single(lambda: together(share, count, 1, *given, most=min(Threads.count, single.threads())))


def shared(part: Callable[[int, int], Any], count: int) -> None:
    """Run the shares of a Python function, ``part(begin, end)``."""
    step = _step(count, min(Threads.count, count), RANGES)
    left = deque(range(0, count, step))

    def take() -> None:
        while True:
            try:
                begin = left.popleft()
            except IndexError:
                return
            part(begin, min(begin + step, count))

    by_threads(take, min(Threads.count, len(left)))
