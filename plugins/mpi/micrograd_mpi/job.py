"""The processes of a job: who they are, what each waits for, and how an error of one ends all of them.

MPI carries what is sent. A call here starts what MPI does without blocking, and then asks whether it is done: so Ctrl-C
gets through, and a rank that waits in vain can say for whom. For that each rank keeps a few numbers where the others
can read them: how many collectives it has called, and which is the last.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mpi4py import MPI

from micrograd_core.support.context import is_traced
from micrograd_mpi.errors import WorldError
from micrograd_mpi.nccl import Communicator
from micrograd_mpi.starters import started

TIMEOUT = 300.0
"""Seconds that a rank waits for the others in one collective; MICROGRAD_MPI_TIMEOUT sets another number."""
SPINS = 20
"""How often MPI is asked before others may have the core."""
LOOK = 1.0
"""Seconds after which a rank that waits looks whether one of the others has ended."""
PASSED_ON = 0.3
"""Seconds that `mpiexec` has to pass on what a rank wrote, before it ends the job and forgets the rest."""
ANSWER = 2.0
"""Seconds that another rank has to tell where it is."""
CALLS, WAITS, KIND, BYTES, ENDED, FIELDS = 0, 1, 2, 3, 4, 5
"""What a rank tells the others: collectives called, whether it waits in the last, which that is, its bytes, its end."""
KINDS = (
    "nothing", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "shift", "barrier", "gather",
    "common",
)  # fmt: skip
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
STATE = MPI.Comm.Create_keyval()
"""Under which a communicator keeps what changes while it is used: `jit` looks at the attributes of Python's objects."""


class _State:
    """What changes while a world is used."""

    def __init__(self, comm: Any) -> None:
        self.comms = {kind: comm.Dup() for kind in KINDS}  # so that those of two kinds never meet
        self.window = MPI.Win.Allocate(8 * FIELDS, 8, comm=comm)
        self.window.Lock_all(MPI.MODE_NOCHECK)  # each rank writes its own numbers, and the others may read them
        memory: Any = self.window
        self.told = memoryview(memory).cast("B").cast("q")
        self.pending: dict[Any, Any] = {}  # what `begin_all_reduce` began
        self.left: list[Pending] = []  # what an interrupt left: MPI may still write into its memory
        self.nccl: dict[int, Any] = {}  # communicators by GPU
        for field in range(FIELDS):
            self.told[field] = 0


class World:
    """Ranks that call the same collectives in the same order.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        Those that take part, by default all processes of the job. The world works on a duplicate of it.
    timeout : float, optional
        Seconds that a rank waits for the others in one collective before it says for whom, and fails; by default 300,
        or what the environment's ``MICROGRAD_MPI_TIMEOUT`` says.
    checks : bool, optional
        Whether ranks tell each other before each collective what they are about to do, and all fail where it differs.
        That takes another collective each time; by default only where the environment has ``MICROGRAD_MPI_CHECK=1``.

    Attributes
    ----------
    rank, size : int
        The number of this process among them, and how many they are.
    local_rank, local_size : int
        The same among those that share this machine's memory.
    timeout : float

    Raises
    ------
    WorldError
        When the job was started for several processes and each of them is alone, as if by another MPI's ``mpiexec``.

    Examples
    --------
    >>> world = World()
    >>> world.rank, world.size
    (0, 1)
    """

    def __init__(self, comm: Any = None, timeout: float | None = None, checks: bool | None = None) -> None:
        given = MPI.COMM_WORLD if comm is None else comm
        if comm is None:
            _refuse_foreign(given.size)
        self.timeout = _timeout() if timeout is None else float(timeout)
        self.checks = os.environ.get("MICROGRAD_MPI_CHECK", "") == "1" if checks is None else bool(checks)
        self._comm = given.Dup()
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = self._comm.rank, self._comm.size
        near = self._comm.Split_type(MPI.COMM_TYPE_SHARED, self.rank)
        self.local_rank, self.local_size = near.rank, near.size
        near.Free()
        self._comm.Set_attr(STATE, _State(self._comm))
        _live.append(self)
        _end_together()

    @property
    def state(self) -> _State:
        """What changes while the world is used: what its ranks tell each other, and what was begun."""
        found: Any = self._comm.Get_attr(STATE)
        return found  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<world: rank {self.rank} of {self.size}>"

    def __reduce__(self) -> Any:
        raise TypeError("a World belongs to this process; make another one in the other")

    # ── collectives of the host ──────────────────────────────────────────────────────────────────────────────

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.wait(self.start("barrier", 0, lambda comm: comm.Ibarrier()))

    def gather(self, x: Any) -> list[Any]:
        """What each rank gives, an object that pickles, as a list by rank; every rank gets it.

        Pickles come from ranks of the same job only.
        """
        _refuse_in_trace("gather")
        own = pickle.dumps(x)
        lengths = memoryview(bytearray(8 * self.size)).cast("q")
        own_length = memoryview(bytearray(8)).cast("q")
        own_length[0] = len(own)
        self.wait(
            self.start("gather", 8, lambda comm: comm.Iallgather([own_length, MPI.INT64_T], [lengths, MPI.INT64_T]))
        )
        found = bytearray(sum(lengths))
        counts = list(lengths)
        self.wait(
            self.start("gather", len(own), lambda comm: comm.Iallgatherv([own, MPI.BYTE], [found, counts, MPI.BYTE]))
        )
        objects, start = [], 0
        for length in counts:
            objects.append(pickle.loads(found[start : start + length]))
            start += length
        return objects

    @property
    def is_on_stream(self) -> bool:
        """Whether collectives of GPUs are in the order of their work alone, as NCCL's, and can be in CUDA graphs."""
        return self.size > 1 and Communicator.is_possible()

    def common(self, bits: int) -> int:
        """Those bits of a number below 2**512 that all ranks give."""
        found = bytearray(bits.to_bytes(64, "little"))
        self.wait(self.start("common", 64, lambda comm: comm.Iallreduce(MPI.IN_PLACE, [found, MPI.BYTE], MPI.BAND)))
        return int.from_bytes(found, "little")

    def agree(self, **facts: Any) -> None:
        """Make sure that all ranks have the same facts, by name: seeds, settings, shapes.

        Raises
        ------
        WorldError
            On every rank, when one differs: which, and what each rank has.
        """
        found = self.gather(facts)
        for name, own in found[0].items():
            values = [each.get(name) for each in found]
            if any(value != own for value in values):
                told = "; ".join(f"rank {rank} has {value!r}" for rank, value in enumerate(values))
                raise WorldError(f"the ranks do not agree on {name}: {told}. Start all of them with the same")

    def all_finite(self, x: float, what: str) -> None:
        """Make sure that a number is finite on every rank.

        Raises
        ------
        WorldError
            On every rank, when it is not: on which rank it became what.
        """
        values = self.gather(float(x))
        wrong = [f"{value} on rank {rank}" for rank, value in enumerate(values) if not abs(value) < float("inf")]
        if wrong:
            raise WorldError(f"{what} became {', '.join(wrong)}, of {self.size} ranks; look at the data of that rank")

    def on_first(self, f: Callable[[], Any]) -> Any:
        """Call a function on rank 0 alone; all ranks get what it returns, or an error if it raised one.

        Raises
        ------
        WorldError
            On the other ranks, with the words of the error that rank 0 raises.
        """
        error: Exception | None = None
        made = None
        if self.rank == 0:
            try:
                made = f()
            except Exception as caught:
                error = caught
        told, made = self.gather((None if error is None else f"{type(error).__name__}: {error}", made))[0]
        if error is not None:
            raise error
        if told is not None:
            raise WorldError(f"rank 0 failed: {told}")
        return made

    def abort(self, message: str, status: int = 1) -> None:
        """End all ranks at once, with a sentence on stderr that says which rank it is from.

        Parameters
        ----------
        message : str
        status : int
            The exit status of the job.
        """
        _end(f"rank {self.rank} of {self.size}: {message}\n", status)

    def split(self, color: int, key: int | None = None) -> World:
        """The ranks that give the same `color`, as a world of their own, in the order of `key`, by default of rank."""
        return World(self._comm.Split(color, self.rank if key is None else key), self.timeout, self.checks)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, kind: str, size: int, detail: str) -> None:
        """Where ranks check their calls, make sure that all are about to make this one."""
        if self.checks and kind != "gather":
            self.agree(**{f"collective {self.state.told[CALLS] + 1}": f"{kind} of {size:,} bytes{detail}"})

    def start(self, kind: str, size: int, begin: Callable[[Any], Any], held: Any = None, detail: str = "") -> Pending:
        """Begin a collective: `begin` gets the communicator, and returns MPI's request.

        Raises
        ------
        WorldError
            Inside a function that `jit` traces, whose program would not have it.
        """
        _refuse_in_trace(kind)
        self.check(kind, size, detail)
        state = self.state
        told = state.told
        told[CALLS] += 1
        told[KIND], told[BYTES], told[WAITS] = NUMBERS[kind], size, 0
        try:
            return Pending(begin(state.comms[kind]), kind, size, told[CALLS], held)
        except MPI.Exception as error:
            raise self._failed(kind, size, error) from error

    def poll(self) -> None:
        """Let MPI go on with what was begun: it moves when it is asked only."""
        for each in self.state.pending.values():
            if each.pending is not None:
                each.pending.request.Test()

    def wait(self, pending: Pending) -> None:
        """Wait until a collective is done.

        Raises
        ------
        WorldError
            When a rank that it needs has ended, or did not come within the world's timeout; or MPI failed.
        """
        request = pending.request
        try:
            for _ in range(SPINS):
                if request.Test():
                    return
            told = self.state.told
            told[WAITS] = 1
            started = looked = time.monotonic()
            while not request.Test():
                _let_others()
                now = time.monotonic()
                if now - looked > LOOK:
                    looked = now
                    self._look(pending, now - started)
            told[WAITS] = 0
        except MPI.Exception as error:
            raise self._failed(pending.kind, pending.size, error) from error
        except BaseException:
            self.state.left.append(pending)
            raise

    def _failed(self, kind: str, size: int, error: Exception) -> WorldError:
        return WorldError(
            f"{kind} of {size:,} bytes failed on rank {self.rank} of {self.size}: {error}. All ranks must give "
            "arrays of the same shape and dtype, in the same order of calls"
        )

    def _look(self, pending: Pending, waited: float) -> None:
        """Fail where waiting for longer is of no use."""
        late = waited > self.timeout
        others = [(rank, self._told_by(rank)) for rank in range(self.size) if rank != self.rank]
        ended = [rank for rank, told in others if told is not None and told[ENDED] and told[CALLS] < pending.number]
        if not ended and not late:
            return
        where = [
            f"rank {rank} {_place(told, pending)}" for rank, told in others
            if told is None or told[CALLS] < pending.number or told[KIND] != NUMBERS[pending.kind]
            or told[BYTES] != pending.size
        ]  # fmt: skip
        why = "has ended" if ended else f"did not come within {waited:.0f} s"
        raise WorldError(
            f"rank {self.rank} waits in collective {pending.number}, {pending.kind} of {pending.size:,} bytes, and "
            f"{'another rank' if not ended else f'rank {ended[0]}'} {why}: "
            f"{'; '.join(where) or 'all ranks are there, and MPI does not finish'}. Every rank must call the same "
            "collectives, in the same order"
        )

    def _told_by(self, rank: int) -> list[int] | None:
        """What a rank tells of itself; ``None`` where it does not answer."""
        found = memoryview(bytearray(8 * FIELDS)).cast("q")
        request = self.state.window.Rget([found, MPI.INT64_T], rank)
        until = time.monotonic() + ANSWER
        while not request.Test():
            if time.monotonic() > until:
                return None
            _let_others()
        return list(found)


class Pending:
    """A collective that was begun: MPI's `request`, what it is, and what it works on, which it keeps alive."""

    __slots__ = ("held", "kind", "number", "request", "size")

    def __init__(self, request: Any, kind: str, size: int, number: int, held: Any) -> None:
        self.request, self.kind, self.size, self.number, self.held = request, kind, size, number, held


_let_others: Callable[[], Any] = getattr(os, "sched_yield", lambda: time.sleep(0))


def _place(told: Sequence[int] | None, pending: Pending) -> str:
    if told is None:
        return f"has not answered for {ANSWER:.0f} s: it computes, or is gone"
    last = f"collective {told[CALLS]}, {KINDS[told[KIND]]} of {told[BYTES]:,} bytes" if told[CALLS] else "none so far"
    if told[ENDED]:
        return f"has ended after {last}"
    return f"waits in {last}" if told[WAITS] else f"is in code of its own after {last}"


def _refuse_in_trace(name: str) -> None:
    if is_traced():
        raise WorldError(
            f"{name}: a function under jit is being traced, and its program would not have this call; call it outside "
            "of that function. all_reduce(x) and the other operations on tensors are part of programs"
        )


def _timeout() -> float:
    told = os.environ.get("MICROGRAD_MPI_TIMEOUT", str(TIMEOUT))
    try:
        return float(told)
    except ValueError:
        raise WorldError(f"MICROGRAD_MPI_TIMEOUT is a number of seconds; got {told!r}") from None


def _refuse_foreign(size: int) -> None:
    starter, count = started()
    if count > size == 1:
        raise WorldError(
            f"{starter} has started {count} processes, and each of them is alone: it belongs to another MPI than the "
            f"one that mpi4py uses here ({library()}). Start with that one's own mpiexec; of the package mpich it is "
            f"{Path(sys.executable).with_name('mpiexec')}"
        )


def library() -> str:
    """The name and the version of the MPI."""
    return MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")


# ── the end of one is the end of all ─────────────────────────────────────────────────────────────────────────

_live: list[World] = []
_ending: list[bool] = []


def world(timeout: float | None = None) -> World:
    """The world of all processes of the job; it is made at the first call."""
    whole = next((each for each in _live if each.size == MPI.COMM_WORLD.size), None)
    if whole is None:
        whole = World(timeout=timeout)
    elif timeout is not None:
        whole.timeout = float(timeout)
    return whole


def _end_together() -> None:
    """From now on an error that nobody catches ends all ranks, with the traceback of this one on stderr."""
    if _ending:
        return
    _ending.append(True)
    before, process = sys.excepthook, os.getpid()

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != process or MPI.Is_finalized() or MPI.COMM_WORLD.size == 1:  # a forked child is no rank
            before(kind, error, trace)
            return
        text = "".join(traceback.format_exception(kind, error, trace))
        rank = f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size}"
        _end(f"{rank} failed, which ends the job:\n{text}", 130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = ended
    atexit.register(_say_that_it_ended, process)


def _end(message: str, status: int) -> None:
    """Write a message, and end all ranks once `mpiexec` has had the time to pass it on."""
    sys.stderr.write(message)
    sys.stderr.flush()
    if MPI.COMM_WORLD.size > 1:
        time.sleep(PASSED_ON)
        MPI.COMM_WORLD.Abort(status)
    sys.exit(status)


def _say_that_it_ended(process: int) -> None:
    """Ranks that wait for this one find that it has ended; once all have, MPI gets back what it gave."""
    for each in _live if os.getpid() == process else ():
        state = each.state
        state.told[ENDED] = 1
        request = state.comms["nothing"].Ibarrier()
        while not request.Test():
            time.sleep(0.001)
        state.told = memoryview(b"")
        state.window.Unlock_all()
        state.window.Free()
