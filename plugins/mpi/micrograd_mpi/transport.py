"""From a device's handles to MPI's buffers and back.

Memory of the host goes to MPI as it is, and so does a GPU's where the MPI says that it can read it, or where NCCL is
there; everything else is copied to the host and back.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from mpi4py import MPI

from micrograd_core.dtypes import DType
from micrograd_mpi.job import Pending, World
from micrograd_mpi.nccl import TYPES as COMPUTED, Communicator

TYPES: dict[str, Any] = {
    "bool": MPI.C_BOOL, "int8": MPI.INT8_T, "int16": MPI.INT16_T, "int32": MPI.INT32_T, "int64": MPI.INT64_T,
    "uint8": MPI.UINT8_T, "uint16": MPI.UINT16_T, "uint32": MPI.UINT32_T, "uint64": MPI.UINT64_T,
    "float32": MPI.FLOAT, "float64": MPI.DOUBLE, "complex64": MPI.C_FLOAT_COMPLEX, "complex128": MPI.C_DOUBLE_COMPLEX,
}  # fmt: skip
"""The dtypes that MPI computes with; of others it moves the bytes."""
REDUCTIONS: dict[str, Any] = {"sum": MPI.SUM, "prod": MPI.PROD, "max": MPI.MAX, "min": MPI.MIN}


class Call(NamedTuple):
    """One collective on arrays: which, with what, and the shape of its result."""

    kind: str
    shape: tuple[int, ...]
    reduction: str = ""
    place: int = 0
    """The root of a broadcast; how many ranks further a shift goes."""


def _all_reduce(comm: Any, call: Call, send: Any, receive: Any) -> Any:
    return comm.Iallreduce(send, receive, REDUCTIONS[call.reduction])


def _reduce_scatter(comm: Any, call: Call, send: Any, receive: Any) -> Any:
    return comm.Ireduce_scatter_block(send, receive, REDUCTIONS[call.reduction])


def _broadcast(comm: Any, call: Call, send: Any, receive: Any) -> Any:
    if comm.rank == call.place:
        memoryview(receive[0]).cast("B")[:] = memoryview(send[0]).cast("B")
    return comm.Ibcast(receive, call.place)


def _shift(comm: Any, call: Call, send: Any, receive: Any) -> Any:
    to, source = (comm.rank + call.place) % comm.size, (comm.rank - call.place) % comm.size
    return comm.Isendrecv(send, to, 0, receive, source, 0)


BEGIN: dict[str, Callable[[Any, Call, Any, Any], Any]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": lambda comm, call, send, receive: comm.Iallgather(send, receive),
    "all_to_all": lambda comm, call, send, receive: comm.Ialltoall(send, receive),
    "broadcast": _broadcast,
    "shift": _shift,
}


class Started(NamedTuple):
    """A collective on arrays that was begun, and how its result is had once MPI is done."""

    pending: Pending | None
    result: Callable[[], Any]


def begin(world: World, k: Any, x: Any, call: Call) -> Started:
    """Begin a collective on a handle of the device whose kernel table is `k`."""
    dtype: DType = k.dtype(x)
    size, count = math.prod(x.shape) * dtype.itemsize, math.prod(call.shape)
    if not count or not size:
        made = k.full(shape=call.shape, fill_value=0, dtype=dtype)
        return Started(None, lambda: made)
    data: Any = MPI.BYTE if not call.reduction else TYPES[str(dtype)]
    detail = f", {call.reduction or call.place} of {dtype}" if world.checks else ""
    if hasattr(x, "__cuda_array_interface__"):
        return _of_gpu(world, k, x, call, data, size, detail)
    send, receive, made = _in_host_memory(k, x, call, dtype)
    if made is None:
        send, receive = k.to_host(x), bytearray(count * dtype.itemsize)
    run = BEGIN[call.kind]
    pending = world.start(
        call.kind, size, lambda comm: run(comm, call, [send, data], [receive, data]), (send, receive, x), detail
    )
    return Started(pending, (lambda: made) if made is not None else (lambda: k.upload(receive, call.shape, dtype)))


def _in_host_memory(k: Any, x: Any, call: Call, dtype: DType) -> tuple[Any, Any, Any]:
    """An operand and a fresh result as buffers of the host, and that result, where they are such; else ``None``."""
    try:
        if x.__class__.__module__ == "numpy":  # whose arrays can be had without filling them
            send = x if x.flags.c_contiguous else x.copy()
            made = sys.modules["numpy"].empty(call.shape, x.dtype)
            return send, made, made
        send = memoryview(x)
        send = send if send.c_contiguous else memoryview(k.copy(x))
        made = k.full(shape=call.shape, fill_value=0, dtype=dtype)
        receive = memoryview(made)
    except (TypeError, ValueError, BufferError):
        return None, None, None
    return (send, receive, made) if send.c_contiguous and not receive.readonly else (None, None, None)


def _of_gpu(world: World, k: Any, x: Any, call: Call, data: Any, size: int, detail: str) -> Started:
    """On an NVIDIA GPU: by NCCL; by an MPI that reads its memory; or by copies to the host and back."""
    way = road(world) if world.size > 1 else "host"
    if way == "nccl" and call.reduction and str(k.dtype(x)) not in COMPUTED:
        way = "host"
    if way != "host":
        x = k.copy(x)  # contiguous, and nobody writes to it meanwhile
        same = way == "nccl" and call.kind in ("all_reduce", "broadcast")  # in its own memory
        made = x if same else k.full(shape=call.shape, fill_value=0, dtype=k.dtype(x))
        if way == "nccl":
            world.check(call.kind, size, detail)
            return Started(None, Communicator.begin(world, call, x, made))
        k.backend.synchronize()
        pending = world.start(
            call.kind, size, lambda comm: BEGIN[call.kind](comm, call, [x, data], [made, data]), (x, made), detail
        )
        return Started(pending, lambda: made)
    send, receive, dtype = k.to_host(x), bytearray(math.prod(call.shape) * k.dtype(x).itemsize), k.dtype(x)
    pending = world.start(
        call.kind, size, lambda comm: BEGIN[call.kind](comm, call, [send, data], [receive, data]), (send, receive),
        detail,
    )  # fmt: skip
    return Started(pending, lambda: k.upload(receive, call.shape, dtype))


def road(world: World) -> str:
    """How a GPU's numbers travel: ``"nccl"``, ``"mpi"`` for an MPI that reads its memory, or ``"host"``."""
    if Communicator.is_possible():
        return "nccl"
    return "mpi" if "cuda" in kinds_of_memory(world) else "host"


def kinds_of_memory(world: World) -> str:
    """The kinds of memory that the MPI says it can read and write, as MPI 4.1 names them."""
    return world._comm.Get_info().Get("mpi_memory_alloc_kinds") or ""
