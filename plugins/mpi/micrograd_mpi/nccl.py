"""NVIDIA's collectives, through CuPy: each works on GPU memory, in the order of the current stream."""

from __future__ import annotations

import importlib
import math
from functools import cache
from typing import TYPE_CHECKING, Any

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


class Communicator:
    """The ranks of a world as NCCL knows them."""

    def __init__(self, world: World, unique: Any) -> None:
        nccl = _library()
        self._nccl, self._rank, self._size = nccl, world.rank, world.size
        self._comm = nccl.NcclCommunicator(world.size, unique, world.rank)

    @staticmethod
    def is_possible() -> bool:
        """Whether CuPy has NCCL."""
        return _library() is not None

    @staticmethod
    def of(world: World) -> Communicator:
        """Made by all ranks together; each must have a GPU of its own."""
        return Communicator(world, world.on_first(_library().get_unique_id))

    def run(self, call: Call, send: Any, receive: Any) -> None:
        """Put a collective on the current stream."""
        stream = importlib.import_module("cupy").cuda.get_current_stream().ptr
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
            for to, source in self._turns(call):
                comm.send(given + (part * to) % size, part, nccl.NCCL_UINT8, to, stream)
                comm.recv(made + (part * source) % size, part, nccl.NCCL_UINT8, source, stream)
            nccl.groupEnd()

    def _turns(self, call: Call) -> list[tuple[int, int]]:
        """To whom is sent and from whom received, one after the other."""
        if call.kind == "shift":
            return [((self._rank + call.place) % self._size, (self._rank - call.place) % self._size)]
        return [(other, other) for other in range(self._size)]
