"""NCCL's collectives between two emulated GPUs: each rank is a thread, which has one of them."""

from __future__ import annotations

import importlib
import os
import random as choices
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from functools import reduce
from importlib.util import find_spec
from operator import and_
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from micrograd_mpi import (
    DataParallel,
    World,
    WorldError,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    reduce_scatter,
    shift,
)
from micrograd_mpi.job import STATE
from mpi4py import MPI

from micrograd_core import Device, Tensor, grad, jit, nn, optim
from micrograd_core.errors import OutOfMemory

RANKS = 2
pytestmark = pytest.mark.skipif(
    find_spec("emulated_cuda") is None, reason="there is no emulated GPU: python backends/cuda/tests/emulated/build.py"
)


class Meeting:
    """Where the threads of a world tell each other something."""

    def __init__(self) -> None:
        self.barrier, self.told = Barrier(RANKS), [None] * RANKS

    def gather(self, rank: int, x: Any) -> list[Any]:
        self.barrier.wait(20)
        self.told[rank] = x
        self.barrier.wait(20)
        return [*self.told]


class Threads(World):
    """A world whose ranks are threads; what a job's processes tell each other through MPI they tell in a meeting."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.checks = rank, RANKS, False
        self._comm = MPI.COMM_SELF.Dup()
        self._comm.Set_attr(STATE, SimpleNamespace(pending={}, nccl={}, told=[0], meeting=meeting, bits=[]))

    def gather(self, x: Any) -> list[Any]:
        return self.state.meeting.gather(self.rank, x)

    def common(self, bits: int) -> int:
        found = reduce(and_, self.gather(bits))
        self.state.bits.append((bits, found))
        return found


@pytest.fixture(scope="module")
def boot() -> Any:
    if importlib.import_module("cupy").cuda.runtime.getDeviceCount() < RANKS:
        pytest.skip("EMULATED_DEVICES=2 makes two")
    return importlib.import_module("emulated_cuda.boot")


def run_on_all(f: Callable[[World, Device], Any]) -> list[Any]:
    """Call a function on all ranks at once, with its world and its GPU."""
    meeting = Meeting()
    worlds = [Threads(rank, meeting) for rank in range(RANKS)]

    def called(rank: int) -> Any:
        try:
            return f(worlds[rank], Device(f"cuda:{rank}"))
        except Exception as error:
            if not isinstance(error, WorldError):  # which all ranks raise
                meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(RANKS) as pool:
        return [each.result() for each in [pool.submit(called, rank) for rank in range(RANKS)]]


@pytest.fixture
def ranks(boot: Any) -> Callable[..., list[Any]]:
    return run_on_all


def numbers(rank: int, gpu: Device, dtype: str = "float32", rows: int = 4) -> Tensor:
    values = np.random.default_rng(rank).integers(1, 9, (rows, 3)).astype(dtype)
    return Tensor(values, device=gpu, requires_grad=False)


COLLECTIVES: dict[str, tuple[Callable[..., Tensor], Callable[[list[Any], int], Any]]] = {
    "sum": (lambda x, job: all_reduce(x, "sum", job), lambda xs, rank: xs[0] + xs[1]),
    "prod": (lambda x, job: all_reduce(x, "prod", job), lambda xs, rank: xs[0] * xs[1]),
    "max": (lambda x, job: all_reduce(x, "max", job), lambda xs, rank: np.maximum(*xs)),
    "min": (lambda x, job: all_reduce(x, "min", job), lambda xs, rank: np.minimum(*xs)),
    "reduce_scatter": (
        lambda x, job: reduce_scatter(x, "sum", job),
        lambda xs, rank: (xs[0] + xs[1])[2 * rank : 2 * rank + 2],
    ),
    "all_gather": (lambda x, job: all_gather(x, job), lambda xs, rank: np.concatenate(xs)),
    "broadcast": (lambda x, job: broadcast(x, 1, job), lambda xs, rank: xs[1]),
    "all_to_all": (
        lambda x, job: all_to_all(x, job),
        lambda xs, rank: np.concatenate([x[2 * rank : 2 * rank + 2] for x in xs]),
    ),
    "shift": (lambda x, job: shift(x, 1, job), lambda xs, rank: xs[1 - rank]),
    "shift back": (lambda x, job: shift(x, -1, job), lambda xs, rank: xs[1 - rank]),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "bool"])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_is_what_its_definition_says(name: str, dtype: str, late: bool, ranks: Any, boot: Any) -> None:
    call, wanted = COLLECTIVES[name]
    if dtype == "bool" and name in ("sum", "prod", "max", "min", "reduce_scatter"):
        pytest.skip("there is no sum of bool")
    expected = [numbers(rank, Device("cpu"), dtype).numpy() for rank in range(RANKS)]

    def run(job: World, gpu: Device) -> Any:
        x = numbers(job.rank, gpu, dtype)
        found = call(x, job)
        kept = x.copy()
        x[...] = numbers(job.rank + 2, gpu, dtype)  # what is sent is what there was
        np.testing.assert_array_equal(kept.numpy(), expected[job.rank])
        return found.numpy()

    with boot.late() if late else nullcontext():
        for rank, found in enumerate(ranks(run)):
            np.testing.assert_array_equal(found, wanted(expected, rank))


def test_what_is_asked_of_nccl(ranks: Any, boot: Any) -> None:
    """Kinds, counts and types, in order; copies and fills aside."""

    def run(job: World, gpu: Device) -> None:
        x = numbers(job.rank, gpu)
        all_reduce(x, "max", job), all_gather(x, job), reduce_scatter(x, "sum", job), broadcast(x, 1, job)
        shift(x, 1, job), all_to_all(x, job)

    lines = boot.recorded(lambda: ranks(run))
    for rank in range(RANKS):
        assert [line.removeprefix(f"NCCL {rank}: ") for line in lines if line.startswith(f"NCCL {rank}")] == [
            "all_reduce 12 float32 max",
            "all_gather 48 uint8",
            "reduce_scatter 6 float32 sum",
            "broadcast 48 uint8 from 1",
            f"a group to {1 - rank}:48 from {1 - rank}:48",
            "a group to 0:24 from 0:24 to 1:24 from 1:24",
        ]


def differ(job: World, gpu: Device) -> None:
    all_reduce(numbers(job.rank, gpu), "sum", job).numpy()
    all_reduce(numbers(job.rank, gpu, rows=4 + job.rank), "sum", job).numpy()


def miss(job: World, gpu: Device) -> None:
    x = all_reduce(numbers(job.rank, gpu), "sum", job)
    if job.rank:
        all_reduce(x, "sum", job).numpy()


WRONG = {
    differ: "rank 0 of 2 calls all_reduce 12 float32 sum, rank 1 of 2 all_reduce 15 float32 sum",
    miss: "all_reduce 12 float32 sum, call 2 of rank 1 of 2, waits for rank 0, which has made 1",
}


def in_a_process(call: str) -> subprocess.CompletedProcess[str]:
    """What leaves a GPU that waits for ever."""
    code = f"import os, test_nccl; print(test_nccl.run_on_all(test_nccl.{call}), flush=True); os._exit(0)"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
        env=os.environ | {"EMULATED_PATIENCE": "3"},
    )  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_go_together_and_who_does_not_come_is_named(case: Any, boot: Any) -> None:
    done = in_a_process(case.__name__)
    assert done.returncode
    assert WRONG[case] in done.stderr


def lack(job: World, gpu: Device) -> int:
    """How often the other ranks are asked in a call for which rank 1 lacks memory."""
    cupy, taken = gpu.kernels.backend.cupy, [0]
    f = jit(lambda x: all_reduce(all_reduce(x * 2.0, "sum", job) * 3.0 + x, "sum", job))
    other, x = jit(lambda x: x + 1.0), numbers(job.rank, gpu)
    for _ in range(6):  # there are graphs that could be dropped
        other(x)

    def allocate(size: int) -> Any:
        taken[0] += 1
        if taken[0] == 1:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0)
        return gpu.kernels.backend.pool.malloc(size)

    f(x)
    asked = len(job.state.bits)
    with ExitStack() as stack:
        if job.rank:
            stack.enter_context(pytest.raises(OutOfMemory))
            stack.enter_context(cupy.cuda.using_allocator(allocate))
        f(x)
    return len(job.state.bits) - asked


def test_what_was_sent_is_not_sent_again_where_memory_runs_out(boot: Any) -> None:
    """Programs without collectives are computed again, with the memory of graphs."""
    done = in_a_process("lack")
    assert done.stdout == "[1, 1]\n", done.stderr


def test_calls_are_compared_before_they_are_made(ranks: Any) -> None:
    """As MICROGRAD_MPI_CHECK=1 has it."""

    def run(job: World, gpu: Device) -> None:
        job.checks = True
        all_reduce(numbers(job.rank, gpu), "sum", job)
        all_reduce(numbers(job.rank, gpu, rows=4 + job.rank), "sum", job)

    with pytest.raises(
        WorldError, match=r"rank 0 has 'all_reduce of 48 bytes, sum of float32'; rank 1 has 'all_reduce of 60"
    ):
        ranks(run)


def test_ranks_that_share_a_gpu_are_told_so(ranks: Any) -> None:
    with pytest.raises(WorldError, match="ranks 0, 1 share theirs; take"):
        ranks(lambda job, gpu: all_reduce(numbers(0, Device("cuda:0")), "sum", job))


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Training:
    """A small network on one rank's half of each batch, or on all of it, with Adam; and one step of it."""

    def __init__(
        self, gpu: Device, job: World | None = None, jitted: bool = True, bucket_mib: float = 3e-4, **options: Any
    ) -> None:
        self.gpu, self.job, self.rng = gpu, job, np.random.default_rng(0)
        inner = [layer for _ in range(3) for layer in (nn.Linear(16, 16), nn.ReLU())]
        layers = nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), *inner, nn.Linear(16, 5)
        self.model = nn.Sequential(*layers).to("cpu")
        for i, p in enumerate(self.model.parameters()):
            p.data = Tensor(np.random.default_rng(i).normal(size=p.shape).astype("float32"), device="cpu")
        self.model = self.model.to(gpu)
        whole = self.model if job is None else DataParallel(self.model, job, bucket_mib=bucket_mib, **options)
        self.rule = optim.Adam(self.model.parameters(), lr=0.01)

        def step(x: Tensor, targets: Tensor) -> Tensor:
            self.rule.zero_grad()
            loss = nn.cross_entropy(whole(x), targets)
            loss.backward()
            self.rule.step()
            return loss

        self.step = jit(step) if jitted else step

    def batch(self) -> tuple[Tensor, Tensor]:
        x, targets = self.rng.normal(size=(8, 6)).astype("float32"), self.rng.integers(5, size=8)
        own = slice(None) if self.job is None else slice(4 * self.job.rank, 4 * self.job.rank + 4)
        return Tensor(x[own], device=self.gpu, requires_grad=False), Tensor(targets[own], device=self.gpu)

    def run(self, steps: int) -> list[Any]:
        for _ in range(steps):
            self.step(*self.batch())
        return [p.detach().numpy() for p in self.model.parameters()]


@pytest.mark.parametrize(
    ("options", "late"),
    [
        ({}, False),
        ({}, True),
        ({"bucket_mib": 25.0}, True),
        ({"overlap": False}, False),
        ({"reduce_dtype": "float16"}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("jitted", [False, True])
def test_two_ranks_train_as_one_does_with_the_whole_batch(
    jitted: bool, options: Any, late: bool, ranks: Any, boot: Any
) -> None:
    expected = Training(Device("cuda:0")).run(12)
    before = boot.count("graph launch")
    with boot.late() if late else nullcontext():
        found = ranks(lambda job, gpu: Training(gpu, job, jitted, **options).run(12))
    assert (boot.count("graph launch") - before > 6) == jitted
    near = {"rtol": 1e-2, "atol": 1e-2} if "reduce_dtype" in options else {"rtol": 1e-4, "atol": 1e-4}
    for own, other, wanted in zip(*found, expected, strict=True):
        np.testing.assert_array_equal(own, other)
        np.testing.assert_allclose(own, wanted, **near)


# ── graphs of all ranks, or none ─────────────────────────────────────────────────────────────────────────────────


class Calls:
    """A jitted function with three collectives, and calls of it by one rank, which does with it as a seed says."""

    def __init__(self, job: World, gpu: Device, seed: int) -> None:
        self.job, self.gpu, self.chance = job, gpu, choices.Random(seed * RANKS + job.rank)
        self.both = choices.Random(seed)  # the same on all ranks
        self.weights = [self.tensor(rows) for rows in (3, 5)]
        self.held: list[Any] = []

        def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            total = all_reduce(x * w, "sum", job)
            return all_reduce(total - w, "max", job), shift(w + x, 1, job)

        self.f = jit(f)

    def tensor(self, rows: int) -> Tensor:
        values = np.full((rows, 2), self.chance.randint(1, 9), "float32")
        return Tensor(values, device=self.gpu, requires_grad=False)

    def call(self) -> None:
        which = self.both.random() < 0.2
        w = self.weights[which]
        if self.chance.random() < 0.2:
            w = self.weights[which] = self.tensor(5 if which else 3)  # lies elsewhere from now on
        if self.chance.random() < 0.1:
            self.gpu.kernels.backend.release_memory()  # with all graphs of this rank
        x = self.tensor(5 if which else 3)
        xs, ws = ([float(each) for each in self.job.gather(y.tolist()[0][0])] for y in (x, w))
        found = self.f(x, w)
        total, other = sum(a * b for a, b in zip(xs, ws, strict=True)), 1 - self.job.rank
        assert found[0].tolist() == [[total - min(ws)] * 2] * x.shape[0]
        self.held.append((found, [found[1].tolist(), [[xs[other] + ws[other]] * 2] * x.shape[0]]))
        while self.held and self.chance.random() < 0.6:  # what is held keeps its numbers
            (_, kept), (was, wanted) = self.held.pop(0)
            assert kept.tolist() == was == wanted


@pytest.mark.parametrize("latest", [511, 1])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_collective_is_in_graphs_that_all_ranks_captured_together_or_in_none(
    seed: int, late: bool, latest: int, ranks: Any, boot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("micrograd_cuda.graphs.LATEST", latest)
    before = boot.count("graph launch")

    def run(job: World, gpu: Device) -> list[tuple[int, int]]:
        calls = Calls(job, gpu, seed)
        for _ in range(60):
            calls.call()
        bits: list[tuple[int, int]] = job.state.bits
        return bits

    with boot.late() if late else nullcontext():
        first, second = ranks(run)
    assert boot.count("graph launch") - before > (20 if latest > 1 else 0)
    assert [common for _, common in first] == [common for _, common in second]
    assert sum(own != common for bits in (first, second) for own, common in bits) > (
        4 if latest > 1 else 0
    )  # one could, and another not


def test_a_capture_that_one_rank_refuses_is_no_graph_of_any(ranks: Any, boot: Any) -> None:
    before = boot.count("graph launch")

    def run(job: World, gpu: Device) -> Any:
        shared = gpu.kernels.backend.shared
        capture = shared.capture

        def refused(*args: Any) -> Any:
            capture(*args)
            raise MemoryError("no room for a graph")

        if job.rank:
            shared.capture = refused
        f, x = jit(lambda x: all_reduce(x * 2.0, "sum", job)), numbers(job.rank, gpu)
        found = [f(x).tolist() for _ in range(8)]
        assert boot.count("graph launch") == before
        job.gather(shared.__dict__.pop("capture", None) is None)
        gpu.kernels.backend.release_memory()  # and is asked again
        return found + [f(x).tolist() for _ in range(3)], x.tolist()

    (found, x), (_, y) = ranks(run)
    assert found == [(2 * np.add(x, y)).tolist()] * 11
    assert boot.count("graph launch") - before == 3 * RANKS


def test_without_nccl_nobody_is_asked(ranks: Any, boot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Threads, "is_on_stream", False)
    before = boot.count("graph launch")

    def run(job: World, gpu: Device) -> Any:
        f, x = jit(lambda x: all_reduce(x, "sum", job)), numbers(job.rank, gpu)
        return [f(x).tolist() for _ in range(6)], job.state.bits

    assert all(bits == [] for _, bits in ranks(run))
    assert boot.count("graph launch") == before


def test_collectives_of_two_groups_are_in_no_graph(ranks: Any, boot: Any) -> None:
    before, meeting = boot.count("graph launch"), Meeting()

    def run(job: World, gpu: Device) -> Any:
        other, x = Threads(job.rank, meeting), numbers(job.rank, gpu)
        f = jit(lambda x: all_reduce(x, "sum", job) + all_reduce(x, "max", other))
        return [f(x).tolist() for _ in range(8)], x.tolist()

    (found, x), (_, y) = ranks(run)
    assert found == [(np.add(x, y) + np.maximum(x, y)).tolist()] * 8
    assert boot.count("graph launch") == before


def test_gradients_in_a_graph_that_are_recorded(ranks: Any, boot: Any) -> None:
    """The gradient of a sum over ranks is another collective; the second derivative, two more."""

    def run(job: World, gpu: Device) -> Any:
        def f(x: Tensor) -> Tensor:
            return (all_reduce(x * x, "sum", job) ** 2).sum()

        second, x = jit(grad(lambda x: grad(f)(x).sum())), numbers(job.rank, gpu)
        return [second(x).tolist() for _ in range(8)], x.numpy().astype("float64")

    before = boot.count("graph launch")
    (first, x), (second, y) = ranks(run)
    assert boot.count("graph launch") - before == RANKS * (8 - 3)
    # The ranks' losses are one sum, L = 2 Σ s², s = x² + y²: its gradient by x is 8 s x, whose own 24 x² + 8 y², and
    # the other rank's, 8 s y, gives 16 x y more.
    np.testing.assert_allclose(first, [24 * x**2 + 8 * y**2 + 16 * x * y] * 8)
    np.testing.assert_allclose(second, [24 * y**2 + 8 * x**2 + 16 * x * y] * 8)


def test_what_nobody_waited_for_keeps_its_memory_until_it_is_done(ranks: Any, boot: Any) -> None:
    """As where an interrupt comes between the beginning of a collective and its end."""
    from micrograd_mpi.transport import Call, begin

    def run(job: World, gpu: Device) -> Any:
        x = Tensor(np.ones(1000, "float32"), device=gpu, requires_grad=False)
        begun = begin(job, gpu.kernels, x._handle, Call("all_reduce", (1000,), "sum"))
        address = begun.result._arrays[1].data.ptr  # type: ignore[attr-defined]
        del begun
        others = [x * float(i) for i in range(8)]
        assert address in [each._handle.data.ptr for each in others]
        gpu.synchronize()
        return [each.tolist() == [float(i)] * 1000 for i, each in enumerate(others)]

    with boot.late():
        assert ranks(run) == [[True] * 8] * RANKS
