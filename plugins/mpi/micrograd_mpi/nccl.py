"""NVIDIA's collectives, through CuPy: each works on GPU memory, on a stream beside the current one.

It waits for what the current one was given before, by an event, and whoever takes a result waits for it, by another:
in between both work. While the current stream is captured, so is the other, as a branch of the graph.
"""

from __future__ import annotations

import importlib
import math
import platform
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from micrograd_mpi.errors import WorldError

if TYPE_CHECKING:
    from micrograd_mpi.job import World
    from micrograd_mpi.transport import Call

TYPES = {
    "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
    "float32": "FLOAT32", "float64": "FLOAT64",
}  # fmt: skip
"""NCCL's names of the dtypes that it computes with; it moves the bytes of all."""


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

    def __init__(self, world: World, unique: Any) -> None:
        nccl, self._cupy = _library(), importlib.import_module("cupy")
        self._nccl, self._rank, self._size = nccl, world.rank, world.size
        self._comm = nccl.NcclCommunicator(world.size, unique, world.rank)
        self._stream = self._cupy.cuda.Stream(non_blocking=True)

    @staticmethod
    def is_possible() -> bool:
        """Whether CuPy has NCCL."""
        return _library() is not None

    @staticmethod
    def of(world: World, device: Any) -> Communicator:
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
            found = world.state.nccl[device.id] = Communicator(world, world.on_first(_library().get_unique_id))
        return found

    @staticmethod
    def begin(world: World, call: Call, send: Any, receive: Any) -> Begun:
        """Begin a collective on arrays in C order, which may be the same if they are alike."""
        with send.device:
            own = Communicator.of(world, send.device)
            cupy, event = own._cupy, partial(own._cupy.cuda.Event, disable_timing=True)
            begun = Begun(cupy, event(), send, receive)
            own._stream.wait_event(cupy.cuda.get_current_stream().record(event()))
            try:
                own.run(call, send, receive, own._stream.ptr)
            finally:
                own._stream.record(begun.done)
            return begun

    def run(self, call: Call, send: Any, receive: Any, stream: int) -> None:
        """Put a collective on a stream."""
        given, made, dtype = send.data.ptr, receive.data.ptr, str(send.dtype)
        comm, nccl, size = self._comm, self._nccl, math.prod(send.shape) * send.dtype.itemsize
        if call.reduction:
            kind, op = getattr(nccl, f"NCCL_{TYPES[dtype]}"), getattr(nccl, f"NCCL_{call.reduction.upper()}")
            run = comm.allReduce if call.kind == "all_reduce" else comm.reduceScatter
            run(given, made, math.prod(receive.shape), kind, op, stream)
        elif call.kind == "all_gather":
            comm.allGather(given, made, size, nccl.NCCL_UINT8, stream)
        elif call.kind == "broadcast":
            comm.broadcast(given, made, size, nccl.NCCL_UINT8, call.place, stream)
        else:
            part = size if call.kind == "shift" else size // self._size
            nccl.groupStart()
            try:
                for to, source in self._turns(call):
                    comm.send(given + (part * to) % size, part, nccl.NCCL_UINT8, to, stream)
                    comm.recv(made + (part * source) % size, part, nccl.NCCL_UINT8, source, stream)
            finally:
                nccl.groupEnd()

    def _turns(self, call: Call) -> list[tuple[int, int]]:
        """To whom is sent and from whom received, one after the other."""
        if call.kind == "shift":
            return [((self._rank + call.place) % self._size, (self._rank - call.place) % self._size)]
        return [(other, other) for other in range(self._size)]
