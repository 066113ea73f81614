"""NVIDIA's collectives, through CuPy: each works on GPU memory, in the order of the current stream."""

from __future__ import annotations

import importlib
import math
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from micrograd_mpi.transport import Call
    from micrograd_mpi.job import World

TYPES = {
    "bool": "UINT8", "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64",
    "uint64": "UINT64", "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "bfloat16": "BFLOAT16",
}  # fmt: skip
"""NCCL's names of dtypes."""


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
        given, made = send.data.ptr, receive.data.ptr
        count, item = math.prod(send.shape), send.dtype.itemsize
        if call.reduction:
            kind = getattr(self._nccl, f"NCCL_{TYPES[str(send.dtype)]}")
            op = getattr(self._nccl, f"NCCL_{call.reduction.upper()}")
            if call.kind == "all_reduce":
                self._comm.allReduce(given, made, count, kind, op, stream)
            else:
                self._comm.reduceScatter(given, made, math.prod(receive.shape), kind, op, stream)
            return
        size, kind = count * item, self._nccl.NCCL_UINT8
        if call.kind == "all_gather":
            self._comm.allGather(given, made, size, kind, stream)
        elif call.kind == "broadcast":
            self._comm.broadcast(given, made, size, kind, call.place, stream)
        else:
            self._nccl.groupStart()
            for to, source, offset, part in self._turns(call, size):
                self._comm.send(given + offset * (to if part != size else 0), part, kind, to, stream)
                self._comm.recv(made + offset * (source if part != size else 0), part, kind, source, stream)
            self._nccl.groupEnd()

    def _turns(self, call: Call, size: int) -> list[tuple[int, int, int, int]]:
        """What is sent to whom and received from whom, and how many bytes a part has."""
        if call.kind == "shift":
            return [((self._rank + call.place) % self._size, (self._rank - call.place) % self._size, 0, size)]
        return [(other, other, size // self._size, size // self._size) for other in range(self._size)]
