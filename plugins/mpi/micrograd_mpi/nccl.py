"""NVIDIA's collectives, through CuPy: each works on GPU memory, on a stream beside the current one.

It waits for what the current one was given before, by an event, and whoever takes a result waits for it, by another:
in between both work. While the current stream is captured, so is the other, as a branch of the graph.

NCCL itself waits without an end for ranks that never come. So from the first call on the host waits for this GPU by
asking again and again, which Ctrl-C interrupts, and looks what the other ranks do.
"""

from __future__ import annotations

import importlib
import math
import platform
import time
from collections import deque
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from micrograd_mpi.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable

    from micrograd_mpi.job import Pending, World
    from micrograd_mpi.transport import Call

TYPES = {
    "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
    "float32": "FLOAT32", "float64": "FLOAT64",
}  # fmt: skip
"""NCCL's names of the dtypes that it computes with; it moves the bytes of all."""
LOOK = 1.0
"""Seconds after which a rank that waits looks what the others do."""
PAUSE = 1e-5
"""Seconds between two questions whether a GPU is done."""
NOT_READY = 600
"""CUDA's answer that it is not: cudaErrorNotReady."""


@cache
def _library() -> Any:
    """CuPy's `nccl`, or ``None`` where there is no CuPy, or it was built without."""
    try:
        found = importlib.import_module("cupy.cuda.nccl")
    except ImportError:
        return None
    return found if getattr(found, "available", True) and hasattr(found, "NcclCommunicator") else None


class Begun:
    """A collective that was begun: its result, once the stream that asks for it waits."""

    def __init__(self, cupy: Any, done: Any, send: Any, receive: Any) -> None:
        self._cupy, self.done, self._arrays = cupy, done, (send, receive)  # which nobody else has meanwhile

    def __call__(self) -> Any:
        """What the ranks made together; the current stream waits for it."""
        done, self.done = self.done, None
        if done is not None:
            with self._arrays[1].device:
                self._cupy.cuda.get_current_stream().wait_event(done)
        return self._arrays[1]

    def __del__(self) -> None:  # nobody waited, as after an interrupt: its memory is free after all
        with suppress(Exception):
            self()


class Communicator:
    """The ranks of a world as NCCL knows them, each with one GPU."""

    def __init__(self, world: World, unique: Any, device: int) -> None:
        nccl, self._cupy = _library(), importlib.import_module("cupy")
        self._nccl, self._world, self._device = nccl, world, device
        self._comm = nccl.NcclCommunicator(world.size, unique, world.rank)
        self._stream = self._cupy.cuda.Stream(non_blocking=True)
        self._begun: deque[tuple[Pending, Any, Any]] = deque(maxlen=1024)  # and when each may begin, and is done
        self._first: Any = None  # of those the one that waits for other ranks only, and since when
        self._error = ""
        _all[id(self)] = self

    @staticmethod
    def is_possible() -> bool:
        """Whether CuPy has NCCL."""
        return _library() is not None

    @staticmethod
    def of(world: World, device: Any, backend: Any) -> Communicator:
        """Made by all ranks together, at the first call for arrays of this GPU."""
        found = world.state.nccl.get(device.id)
        if found is None:
            facts = importlib.import_module("cupy").cuda.runtime.getDeviceProperties(device.id)
            places = world.gather((platform.node(), device.pci_bus_id, facts["uuid"]))  # containers share names
            same = [str(rank) for rank, place in enumerate(places) if places.count(place) > 1]
            if same:
                raise WorldError(
                    f"NCCL wants a GPU for each rank, and ranks {', '.join(same)} share theirs; take "
                    'f"cuda:{job.local_rank}", or start with MICROGRAD_DEVICE=cuda:NUMBER for each'
                )
            unique = world.on_first(_library().get_unique_id)
            found = world.state.nccl[device.id] = Communicator(world, unique, device.id)
            backend.watch = wait
        return found

    @staticmethod
    def begin(world: World, backend: Any, call: Call, told: Callable[[], Pending], send: Any, receive: Any) -> Begun:
        """Begin a collective on arrays in C order, which may be the same if they are alike.

        Raises
        ------
        WorldError
            When one before it has failed.
        """
        with send.device:
            own = Communicator.of(world, send.device, backend)
            own.refuse()
            cupy, event = own._cupy, partial(own._cupy.cuda.Event, disable_timing=True)
            current = cupy.cuda.get_current_stream()
            pending, begun = told(), Begun(cupy, event(), send, receive)
            own._stream.wait_event(current.record(ready := event()))
            try:
                own.run(call, send, receive, own._stream.ptr)
            finally:
                own._stream.record(begun.done)
            if not current.is_capturing():
                own._begun.append((pending, ready, begun.done))
            return begun

    def refuse(self) -> None:
        """Whatever is asked, after an error."""
        if self._error:
            raise WorldError(self._error)

    def forget(self) -> None:
        """What is done."""
        while self._begun and self._begun[0][2].done:
            self._begun.popleft()

    def look(self) -> None:
        """What the other ranks do, where they alone are waited for.

        Raises
        ------
        WorldError
            When waiting for longer is of no use. NCCL gives up what it was given, so that the process can end; what its
            calls should have made is not to be had.
        """
        self.refuse()
        self.forget()
        try:
            self._comm.check_async_error()
            first = self._begun[0] if self._begun and self._begun[0][1].done else None
            if self._first is None or self._first[0] is not first:
                self._first = first, time.monotonic()
            if first is not None:
                self._world.look(first[0], time.monotonic() - self._first[1])
        except (WorldError, self._nccl.NcclError) as error:
            self._error = f"{error}. What was to come of rank {self._world.rank}'s GPU is lost"
            self._comm.abort()
            raise WorldError(self._error) from error

    def run(self, call: Call, send: Any, receive: Any, stream: int) -> None:
        """Put a collective on a stream."""
        given, made, dtype = send.data.ptr, receive.data.ptr, str(send.dtype)
        comm, nccl, size = self._comm, self._nccl, math.prod(send.shape) * send.dtype.itemsize
        ranks = self._world.size
        if call.reduction:
            kind, op = getattr(nccl, f"NCCL_{TYPES[dtype]}"), getattr(nccl, f"NCCL_{call.reduction.upper()}")
            run = comm.allReduce if call.kind == "all_reduce" else comm.reduceScatter
            run(given, made, math.prod(receive.shape), kind, op, stream)
        elif call.kind == "all_gather":
            comm.allGather(given, made, size, nccl.NCCL_UINT8, stream)
        elif call.kind == "broadcast":
            comm.broadcast(given, made, size, nccl.NCCL_UINT8, call.place, stream)
        else:
            part = size if call.kind == "shift" else size // ranks
            nccl.groupStart()
            try:
                for to, source in self._turns(call):
                    comm.send(given + (part * to) % size, part, nccl.NCCL_UINT8, to, stream)
                    comm.recv(made + (part * source) % size, part, nccl.NCCL_UINT8, source, stream)
            finally:
                nccl.groupEnd()

    def _turns(self, call: Call) -> list[tuple[int, int]]:
        """To whom is sent and from whom received, one after the other."""
        rank, ranks = self._world.rank, self._world.size
        if call.kind == "shift":
            return [((rank + call.place) % ranks, (rank - call.place) % ranks)]
        return [(other, other) for other in range(ranks)]


_all: WeakValueDictionary[int, Communicator] = WeakValueDictionary()


def wait(stream: Any) -> None:
    """Until a stream of the current GPU is done.

    Raises
    ------
    WorldError
        When it waits for ranks that have ended, or did not come within their world's timeout; or NCCL failed.
    """
    cupy = importlib.import_module("cupy")
    found = [each() for each in _all.valuerefs()]  # to which another thread may add
    own = [each for each in found if each and each._device == cupy.cuda.Device().id]
    for each in own:
        each.refuse()
    done, looked = stream.record(cupy.cuda.Event(disable_timing=True)), time.monotonic()
    while cupy.cuda.runtime.eventQuery(done.ptr) == NOT_READY:
        time.sleep(PAUSE)
        if time.monotonic() - looked > LOOK:
            looked = time.monotonic()
            for each in own:
                each.look()
    for each in own:
        each.forget()
