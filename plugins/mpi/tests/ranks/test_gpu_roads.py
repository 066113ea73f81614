"""What is asked of NCCL and of an MPI that reads GPU memory, with a stand-in that does it in the memory of the host."""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from micrograd_mpi import World, nccl, transport
from micrograd_mpi.transport import Call
from mpi4py import MPI

NAMES = {"INT8": "int8", "UINT8": "uint8", "INT32": "int32", "UINT32": "uint32", "INT64": "int64", "UINT64": "uint64",
         "FLOAT32": "float32", "FLOAT64": "float64"}  # fmt: skip
REDUCTIONS = {"SUM": MPI.SUM, "PROD": MPI.PROD, "MAX": MPI.MAX, "MIN": MPI.MIN}


def memory(pointer: int, count: int, kind: str) -> Any:
    """The numbers at an address."""
    dtype = np.dtype(NAMES[kind])
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(pointer), dtype)


class StandIn:
    """NCCL's communicator as CuPy has it."""

    def __init__(self, size: int, unique: Any, rank: int) -> None:
        assert unique == ("unique", 0)
        self.comm = MPI.COMM_WORLD
        assert (self.comm.size, self.comm.rank) == (size, rank)

    def allReduce(self, given: int, made: int, count: int, kind: str, op: str, stream: int) -> None:  # noqa: N802
        self.comm.Allreduce(memory(given, count, kind), memory(made, count, kind), REDUCTIONS[op])

    def reduceScatter(self, given: int, made: int, count: int, kind: str, op: str, stream: int) -> None:  # noqa: N802
        whole = memory(given, count * self.comm.size, kind)
        self.comm.Reduce_scatter_block(whole, memory(made, count, kind), REDUCTIONS[op])

    def allGather(self, given: int, made: int, count: int, kind: str, stream: int) -> None:  # noqa: N802
        self.comm.Allgather(memory(given, count, kind), memory(made, count * self.comm.size, kind))

    def broadcast(self, given: int, made: int, count: int, kind: str, root: int, stream: int) -> None:
        memory(made, count, kind)[:] = memory(given, count, kind)
        self.comm.Bcast(memory(made, count, kind), root)

    def send(self, given: int, count: int, kind: str, peer: int, stream: int) -> None:
        self.comm.Isend(memory(given, count, kind).copy(), peer).Free()

    def recv(self, made: int, count: int, kind: str, peer: int, stream: int) -> None:
        self.comm.Recv(memory(made, count, kind), peer)


LIBRARY = SimpleNamespace(
    NcclCommunicator=StandIn,
    get_unique_id=lambda: ("unique", 0),
    groupStart=lambda: None,
    groupEnd=lambda: None,
    **{f"NCCL_{kind}": kind for kind in NAMES},
    **{f"NCCL_{op}": op for op in REDUCTIONS},
)

RUNTIME = SimpleNamespace(getDeviceProperties=lambda number: {"uuid": b"1"})
CUPY = SimpleNamespace(cuda=SimpleNamespace(Stream=lambda **kwargs: None, runtime=RUNTIME))


def on_gpu(x: Any) -> Any:
    """An array as CuPy shows it."""
    return SimpleNamespace(data=SimpleNamespace(ptr=x.ctypes.data), shape=x.shape, dtype=x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    ("kind", "reduction", "place"),
    [
        ("all_reduce", "sum", 0),
        ("all_reduce", "max", 0),
        ("reduce_scatter", "sum", 0),
        ("all_gather", "", 0),
        ("broadcast", "", 0),
        ("all_to_all", "", 0),
        ("shift", "", 1),
        ("shift", "", -1),
    ],
)
def test_nccl_is_asked_for_what_mpi_would_do(
    job: World, monkeypatch: pytest.MonkeyPatch, kind: str, reduction: str, place: int, dtype: str
) -> None:
    monkeypatch.setattr(nccl, "_library", lambda: LIBRARY)
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    assert transport.road(job) == "nccl"
    x = (np.arange(2 * job.size * 3).reshape(2 * job.size, 3) * (job.rank + 1)).astype(dtype)
    rows = {"all_gather": len(x) * job.size, "reduce_scatter": 2}.get(kind, len(x))
    call = Call(kind, (rows, 3), reduction, place)
    found, expected = np.zeros((rows, 3), dtype), np.zeros((rows, 3), dtype)
    job.state.nccl.clear()  # whose stand-in is of another test
    nccl.Communicator.of(job, SimpleNamespace(id=0, pci_bus_id=job.rank)).run(call, on_gpu(x), on_gpu(found), 0)
    data = transport.TYPES[dtype] if reduction else MPI.BYTE
    transport.BEGIN[kind](MPI.COMM_WORLD, call, [x, data], [expected, data]).Wait()
    np.testing.assert_array_equal(found, expected)


def test_a_group_of_calls_ends_whatever_happens(job: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called within a group that is open is put off, without an error."""
    calls: list[str] = []

    def refused(*args: Any) -> None:
        raise MemoryError("no room")

    library = SimpleNamespace(
        **vars(LIBRARY) | {each: partial(calls.append, each) for each in ("groupStart", "groupEnd")}
    )
    monkeypatch.setattr(nccl, "_library", lambda: library)
    monkeypatch.setattr(StandIn, "send", refused)
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    job.state.nccl.clear()
    x = on_gpu(np.zeros(3, "float32"))
    with pytest.raises(MemoryError):
        nccl.Communicator.of(job, SimpleNamespace(id=0, pci_bus_id=job.rank)).run(Call("shift", (3,), "", 1), x, x, 0)
    assert calls == ["groupStart", "groupEnd"]


def test_without_nccl_an_mpi_says_whether_it_reads_gpu_memory(job: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "_library", lambda: None)
    assert transport.road(job) == "host"
    monkeypatch.setattr(transport, "kinds_of_memory", lambda world: "system,cuda:device")
    assert transport.road(job) == "mpi"
