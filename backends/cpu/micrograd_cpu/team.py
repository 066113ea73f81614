"""Threads that wait for work in machine code: they start on a loop without Python, whose lock another may have.

Each worker has a seat, some words of memory, and two locks. The main thread hands a job to the workers: it writes the
job on their seats, opens the first lock of those that sleep, does its own part, takes back what nobody has begun, and
waits for the others. Sleeping and waking take as long as a loop over 100,000 numbers, so both sides poll the seat for a
while first, and offer their core to others each time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from struct import Struct
from typing import Any, Final

SEATS: Final = 256
"""Helpers at most."""
WORDS: Final = 16
"""Of a seat: two lines of cache. State, wake, done, job and number.

A state is 0 idle, 1 called, 2 at work, 3 asleep, 4 at work for somebody who sleeps until it is done.
"""
TURNS: Final = 1000
"""How often one looks before one sleeps: some tenths of a millisecond, in which Python comes to the next loop."""
HEAD: Final = 5
"""Words of a job before what each thread has taken: function, count, most of a thread, step, threads."""
DESK: Final = HEAD + SEATS + 2048
"""Words of a job at most."""

_IR: Final = """
define void @serve(ptr %acquire, ptr %release, ptr %yield, ptr %seat) {
entry:
  %wakes = getelementptr i64, ptr %seat, i64 1
  %dones = getelementptr i64, ptr %seat, i64 2
  %jobs = getelementptr i64, ptr %seat, i64 3
  %numbers = getelementptr i64, ptr %seat, i64 4
  %wake = load ptr, ptr %wakes
  %done = load ptr, ptr %dones
  br label %wait
wait:
  %turn = phi i64 [ 0, %entry ], [ 0, %sleep ], [ 0, %work ], [ 0, %tell ], [ %turns, %idle ]
  %pair = cmpxchg ptr %seat, i64 1, i64 2 acq_rel acquire
  %called = extractvalue { i64, i1 } %pair, 1
  br i1 %called, label %work, label %none
none:
  %patient = icmp slt i64 %turn, TURNS
  br i1 %patient, label %idle, label %tired
idle:
  %turns = add i64 %turn, 1
  %others = call i32 %yield()
  br label %wait
tired:
  %bed = cmpxchg ptr %seat, i64 0, i64 3 acq_rel acquire
  %asleep = extractvalue { i64, i1 } %bed, 1
  br i1 %asleep, label %sleep, label %idle
sleep:
  %woken = call i32 %acquire(ptr %wake, i32 1)
  br label %wait
work:
  %job = load ptr, ptr %jobs
  %number = load i64, ptr %numbers
  %function = load ptr, ptr %job
  call void %function(ptr %job, i64 %number)
  %before = atomicrmw xchg ptr %seat, i64 0 acq_rel
  %awaited = icmp eq i64 %before, 4
  br i1 %awaited, label %tell, label %wait
tell:
  call void %release(ptr %done)
  br label %wait
}

define void @lead(ptr %known, i64 %helpers, ptr %job) {
entry:
  %acquire = load ptr, ptr %known
  %releases = getelementptr ptr, ptr %known, i64 1
  %release = load ptr, ptr %releases
  %yields = getelementptr ptr, ptr %known, i64 2
  %yield = load ptr, ptr %yields
  %firsts = getelementptr ptr, ptr %known, i64 3
  %seats = load ptr, ptr %firsts
  br label %call
call:
  %i = phi i64 [ 0, %entry ], [ %number, %called ], [ %number, %wake ]
  %some = icmp slt i64 %i, %helpers
  br i1 %some, label %called, label %own
called:
  %number = add i64 %i, 1
  %place = mul i64 %i, WORDS
  %seat = getelementptr i64, ptr %seats, i64 %place
  %wakes = getelementptr i64, ptr %seat, i64 1
  %jobs = getelementptr i64, ptr %seat, i64 3
  %numbers = getelementptr i64, ptr %seat, i64 4
  store ptr %job, ptr %jobs
  store i64 %number, ptr %numbers
  %before = atomicrmw xchg ptr %seat, i64 1 acq_rel
  %slept = icmp eq i64 %before, 3
  br i1 %slept, label %wake, label %call
wake:
  %lock = load ptr, ptr %wakes
  call void %release(ptr %lock)
  br label %call
own:
  %function = load ptr, ptr %job
  call void %function(ptr %job, i64 0)
  br label %back
back:
  %j = phi i64 [ 0, %own ], [ %after, %take ], [ %after, %look ], [ %after, %sleep ], [ %after, %tired ]
  %left = icmp slt i64 %j, %helpers
  br i1 %left, label %take, label %end
take:
  %after = add i64 %j, 1
  %at = mul i64 %j, WORDS
  %its = getelementptr i64, ptr %seats, i64 %at
  %pair = cmpxchg ptr %its, i64 1, i64 0 acq_rel acquire
  %unbegun = extractvalue { i64, i1 } %pair, 1
  br i1 %unbegun, label %back, label %look
look:
  %turn = phi i64 [ 0, %take ], [ %turns, %wait ]
  %state = load atomic i64, ptr %its acquire, align 8
  %working = icmp eq i64 %state, 2
  br i1 %working, label %busy, label %back
busy:
  %patient = icmp slt i64 %turn, TURNS
  br i1 %patient, label %wait, label %tired
wait:
  %turns = add i64 %turn, 1
  %others = call i32 %yield()
  br label %look
tired:
  %bed = cmpxchg ptr %its, i64 2, i64 4 acq_rel acquire
  %told = extractvalue { i64, i1 } %bed, 1
  br i1 %told, label %sleep, label %back
sleep:
  %dones = getelementptr i64, ptr %its, i64 2
  %done = load ptr, ptr %dones
  %finished = call i32 %acquire(ptr %done, i32 1)
  br label %back
end:
  ret void
}
""".replace("WORDS", str(WORDS)).replace("TURNS", str(TURNS))


def job(name: str, count: int, more: bool) -> str:
    """The IR of ``@name.job(job, first)``: ``@name`` of `entries.share` on all parts, beginning with one's own.

    It reads a pointer to sizes, if there are `more`, and to `count` arrays behind what has been taken.
    """
    lines = [f"define void @{name}.job(ptr %job, i64 %first) {{"]
    for word, what in ((1, "count"), (2, "most"), (3, "step"), (4, "threads")):
        lines.append(f"  %w{word} = getelementptr i64, ptr %job, i64 {word}\n  %{what} = load i64, ptr %w{word}")
    lines.append(f"  %taken = getelementptr i64, ptr %job, i64 {HEAD}")
    lines.append("  %rest = getelementptr i64, ptr %taken, i64 %threads")
    given = []
    for i in range(count + more):
        lines.append(f"  %r{i} = getelementptr ptr, ptr %rest, i64 {i}\n  %g{i} = load ptr, ptr %r{i}")
        given.append(f", ptr %g{i}")
    return "\n".join([
        *lines,
        "  br label %head", "head:", "  %t = phi i64 [ 0, %0 ], [ %next, %body ]",
        "  %more = icmp slt i64 %t, %threads", "  br i1 %more, label %body, label %done", "body:",
        "  %sum = add i64 %first, %t", "  %i = urem i64 %sum, %threads", "  %after = add i64 %i, 1",
        "  %until = mul i64 %after, %most", "  %short = icmp slt i64 %count, %until",
        "  %end = select i1 %short, i64 %count, i64 %until", "  %mine = getelementptr i64, ptr %taken, i64 %i",
        f"  call void @{name}(ptr %mine, i64 %end, i64 %step{''.join(given)})", "  %next = add i64 %t, 1",
        "  br label %head", "done:", "  ret void", "}\n",
    ])  # fmt: skip


class Team:
    """The helpers of this process, as many as were ever asked for."""

    def __init__(self) -> None:
        from micrograd_cpu.objects import library

        api, pointer = ctypes.pythonapi, ctypes.c_void_p
        self.allocate = api.PyThread_allocate_lock
        self.allocate.restype = pointer
        self.ways = [ctypes.cast(getattr(api, f"PyThread_{name}_lock"), pointer) for name in ("acquire", "release")]
        windows: Any = getattr(ctypes, "windll", None)  # where the C library has no such function
        offer = windows.kernel32.SwitchToThread if windows else ctypes.CDLL(None).sched_yield
        self.ways.append(ctypes.cast(offer, pointer))
        self.seats = (ctypes.c_int64 * (SEATS * WORDS + WORDS))()
        self.first = -(-ctypes.addressof(self.seats) // (8 * WORDS)) * 8 * WORDS
        self.helpers = 0
        self.words = (pointer * 4)(*self.ways, self.first)
        self.known = ctypes.addressof(self.words)
        self.desk = (ctypes.c_int64 * DESK)()
        self.job = ctypes.addressof(self.desk)
        self.held = library(_IR, ["serve", "lead"])
        self.serve = ctypes.CFUNCTYPE(None, *[pointer] * 4)(self.held.address("serve"))
        self.lead: Any = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, pointer)(self.held.address("lead"))
        api.Py_IncRef(
            ctypes.py_object(self)
        )  # helpers look at their seats, in code of `held`, until the process is gone

    def hire(self, count: int) -> None:
        """There are so many helpers, or more."""
        acquire = ctypes.pythonapi.PyThread_acquire_lock
        acquire.argtypes = [ctypes.c_void_p, ctypes.c_int]
        while self.helpers < count:
            seat = self.first + 8 * WORDS * self.helpers
            wake, done = self.allocate(), self.allocate()
            for each in (wake, done):
                acquire(each, 0)
            (ctypes.c_int64 * WORDS).from_address(seat)[1:3] = [wake, done]
            name = f"micrograd_{self.helpers + 1}"
            self.helpers += 1  # before it starts: an interrupt may leave a seat to nobody, and none to two
            try:
                threading.Thread(target=self.serve, args=(*self.ways, seat), name=name, daemon=True).start()
            except RuntimeError:  # the system gives no more, or Python is about to end
                self.helpers -= 1
                return


class _OfProcess:
    team: Team | None = None
    free = threading.RLock()
    """One job at a time; another thread that finds it taken works alone."""
    leading = False

    @classmethod
    def forget(cls) -> None:
        """A process that is forked off has no helpers."""
        cls.team, cls.free, cls.leading = None, threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OfProcess.forget)


def is_amid(function: Any) -> bool:
    """Whether the caller runs in a signal handler that interrupted a call of `function` further up in its thread."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None


def do(threads: int, layout: Struct, *words: int) -> bool:
    """The job of these words by so many threads; false, and nothing, where they are at work for somebody else."""
    process, free = _OfProcess, _OfProcess.free
    if threads < 2 or layout.size > 8 * DESK or not free.acquire(False):
        return False
    if process.leading and is_amid(do):  # otherwise an interrupt ended an earlier call, and left its mark
        free.release()
        return False
    try:
        process.leading = True
        team = process.team
        if team is None:
            team = process.team = Team()
        if team.helpers < threads - 1:
            team.hire(threads - 1)
        layout.pack_into(team.desk, 0, *words)
        team.lead(team.known, min(threads - 1, team.helpers), team.job)
    finally:
        process.leading = False
        free.release()
    while free._is_owned():  # type: ignore[attr-defined]  # an interrupt ended an earlier call between two lines
        free.release()
    return True
