"""Training on two processes: what it costs to send, beside mpi4py alone and beside torch's DDP.

``python -m benchmarks.scale`` starts the jobs, each with ``mpiexec -n 2`` and one BLAS thread a rank: `collectives`,
`steps` of micrograd and of torch (DistributedDataParallel over gloo, started by the same mpiexec). Within a job what is
compared takes turns, and the figures are medians over rounds. The overhead of a step is its time with gradients that
are averaged, less its time on as many ranks at once with gradients that are not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
SIZES = (1, 1_000, 250_000, 6_250_000)
"""Numbers of float32 in an array: 4 bytes to 25 MB, which is a bucket."""
ROWS, WIDTHS = 64, (784, 1024, 1024, 10)
IMAGES = (32, 1, 28, 28)
ROUNDS = 15


def medians(
    ways: dict[str, Callable[[], Any]], seconds: float, meet: Callable[[], Any], rounds: int
) -> dict[str, float]:
    """The median over rounds of the seconds of a call; in each round all ways have a turn, and ranks begin together."""
    counts = dict[str, int]()
    for name, way in ways.items():
        way()
        way()
        meet()
        started = time.perf_counter()
        way()
        counts[name] = max(1, int(seconds / max(time.perf_counter() - started, 1e-6)))
    counts = meet(counts)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            meet()
            started = time.perf_counter()
            for _ in range(counts[name]):
                way()
            found[name].append((time.perf_counter() - started) / counts[name])
    return {name: statistics.median(times) for name, times in found.items()}


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def collectives(seconds: float) -> dict[str, Any]:
    """Each collective of two ranks, by micrograd and by mpi4py into fresh memory of NumPy."""
    import numpy as np
    from micrograd_mpi import all_gather, all_reduce, all_to_all, broadcast, reduce_scatter, shift, world
    from mpi4py import MPI

    import micrograd_core as mg

    job, comm = world(), MPI.COMM_WORLD
    n, rank = comm.size, comm.rank

    def meet(counts: Any = None) -> Any:
        return comm.bcast(counts) if counts is not None else comm.Barrier()

    def empty(count: int) -> Any:
        return np.empty(count, "float32")

    def done(request: Any, made: Any) -> Any:
        while not request.Test():
            os.sched_yield()
        return made

    found: dict[str, Any] = {}
    for size in SIZES:
        x = np.ones(size + size % n, "float32")
        t = mg.asarray(x)

        def raw_broadcast(x: Any = x) -> Any:
            made = empty(x.size)
            if rank == 0:
                made[:] = x
            return done(comm.Ibcast(made), made)

        pairs: dict[str, tuple[Any, Any]] = {
            "all_reduce": (lambda t=t: all_reduce(t), lambda x=x: done(comm.Iallreduce(x, y := empty(x.size)), y)),
            "all_gather": (lambda t=t: all_gather(t), lambda x=x: done(comm.Iallgather(x, y := empty(n * x.size)), y)),
            "reduce_scatter": (
                lambda t=t: reduce_scatter(t),
                lambda x=x: done(comm.Ireduce_scatter_block(x, y := empty(x.size // n)), y),
            ),
            "broadcast": (lambda t=t: broadcast(t), raw_broadcast),
            "all_to_all": (lambda t=t: all_to_all(t), lambda x=x: done(comm.Ialltoall(x, y := empty(x.size)), y)),
            "shift": (
                lambda t=t: shift(t),
                lambda x=x: done(comm.Isendrecv(x, (rank + 1) % n, 0, y := empty(x.size), (rank - 1) % n, 0), y),
            ),
        }
        for name, (ours, raw) in pairs.items():
            ways = {"micrograd": ours, "mpi4py": raw}
            found[f"{name} {4 * x.size}"] = medians(ways, seconds, meet, ROUNDS)
    job.barrier()
    return found


def _micrograd_models() -> dict[str, Any]:
    from micrograd_core import nn

    wide = [nn.Linear(a, b) for a, b in pairwise(WIDTHS)]
    return {
        "mlp": nn.Sequential(wide[0], nn.ReLU(), wide[1], nn.ReLU(), wide[2]),
        "cnn": nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10),
        ),
    }  # fmt: skip


def micrograd(seconds: float) -> dict[str, Any]:
    """Steps of SGD, eager and under `jit`: gradients averaged with overlap, without, and not averaged.

    Of one rank, all is done but that anything is sent; ranks meet after each step, as sums make them do. The sum of as
    many bytes as a step sends has its turn beside the steps.
    """
    import numpy as np
    from micrograd_mpi import DataParallel, all_reduce, world
    from mpi4py import MPI

    import micrograd_core as mg
    from micrograd_core import optim
    from micrograd_core.nn.functional import cross_entropy

    job, comm = world(), MPI.COMM_WORLD
    alone = job.split(job.rank)

    def meet(counts: Any = None) -> Any:
        return comm.bcast(counts) if counts is not None else comm.Barrier()

    rng = np.random.default_rng(job.rank)
    found: dict[str, Any] = {}
    for name in ("mlp", "cnn"):
        shape = (ROWS, WIDTHS[0]) if name == "mlp" else IMAGES
        x = mg.asarray(rng.normal(size=shape).astype("float32"))
        y = mg.asarray(rng.integers(0, 10, shape[0]))
        ways = {}
        for kind in ("averaged", "without overlap", "of one rank", "not averaged"):
            for way in ("eager", "jit"):
                mg.random.manual_seed(0)
                model: Any = _micrograd_models()[name]
                if kind != "not averaged":
                    group = alone if kind == "of one rank" else job
                    model = DataParallel(model, group, overlap=kind != "without overlap", check_finite=False)
                rule = optim.SGD(model.parameters(), lr=1e-3)

                def step(x: Any, y: Any, model: Any = model, rule: Any = rule) -> Any:
                    rule.zero_grad()
                    loss = cross_entropy(model(x), y)
                    loss.backward()
                    rule.step()
                    return loss

                run: Any = mg.jit(lambda x, y, step=step: step(x, y)) if way == "jit" else step
                met = job.barrier if kind == "of one rank" else int
                ways[f"{way} {kind}"] = lambda run=run, met=met, x=x, y=y: (run(x, y), met())
        flat = mg.ones(sum(p.size for p in model.parameters()))
        ways["sum"] = lambda flat=flat: all_reduce(flat, group=job)
        ways["sum of one rank"] = lambda flat=flat: all_reduce(flat, group=alone)
        found[name] = medians(ways, seconds, meet, ROUNDS) | {"bytes": 4 * flat.size}
    return found


def torch(seconds: float) -> dict[str, Any]:
    """The same steps by torch: averaged by DistributedDataParallel over gloo, and not averaged."""
    import torch
    import torch.distributed as dist
    from torch import nn

    rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['SCALE_MEETING']}", rank=rank, world_size=size)

    def meet(counts: Any = None) -> Any:
        if counts is None:
            return dist.barrier()
        held = [counts]
        dist.broadcast_object_list(held)
        return held[0]

    found: dict[str, Any] = {}
    for name in ("mlp", "cnn"):
        torch.manual_seed(0)
        shape = (ROWS, WIDTHS[0]) if name == "mlp" else IMAGES
        x, y = torch.randn(shape), torch.randint(0, 10, shape[:1])
        ways = {}
        for kind in ("averaged", "not averaged"):
            wide = [nn.Linear(a, b) for a, b in pairwise(WIDTHS)]
            model: Any = (
                nn.Sequential(wide[0], nn.ReLU(), wide[1], nn.ReLU(), wide[2])
                if name == "mlp"
                else nn.Sequential(
                    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10),
                )
            )  # fmt: skip
            if kind == "averaged":
                model = nn.parallel.DistributedDataParallel(model)
            rule = torch.optim.SGD(model.parameters(), lr=1e-3)

            def step(model: Any = model, rule: Any = rule, x: Any = x, y: Any = y) -> Any:
                rule.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                rule.step()
                return loss

            ways[f"eager {kind}"] = step
        found[name] = medians(ways, seconds, meet, ROUNDS)
    dist.barrier()
    return found


JOBS = {"collectives": collectives, "micrograd": micrograd, "torch": torch}


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


def run(name: str, ranks: int, seconds: float, folder: Path) -> dict[str, Any]:
    """The figures of a job."""
    path = folder / f"{name}.json"
    environment = {**os.environ, "SCALE_MEETING": str(folder / f"meeting-{name}-{ranks}"), "PYTHONWARNINGS": "ignore"}
    environment |= dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MICROGRAD_THREADS"), "1"
    )
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = [
        mpiexec,
        "-n",
        ranks,
        sys.executable,
        "-m",
        "benchmarks.scale",
        "--job",
        name,
        path,
        "--seconds",
        seconds,
    ]
    subprocess.run([*map(str, command)], env=environment, check=True)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def main() -> None:
    """Run the jobs, print their figures, and keep them."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each way in each round")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="how often all jobs are run, in turns")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    if options.job:
        name, path = options.job
        found = JOBS[name](options.seconds)
        if int(os.environ["PMI_RANK"]) == 0:
            Path(path).write_text(json.dumps(found))
        return
    from benchmarks import report

    with tempfile.TemporaryDirectory() as folder:
        turns: list[dict[str, Any]] = []
        for _ in range(options.rounds):
            turns.append({})
            for name in JOBS:
                place = Path(folder) / str(len(turns)) / name
                place.mkdir(parents=True)
                turns[-1][name] = run(name, options.ranks, options.seconds, place)
    found = _median(turns)
    print(table(found))
    if not options.no_write:
        about = {"environment": report.environment(), "ranks": options.ranks}
        print(report.write({**about, **found}, RESULTS, "scale"))


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| collective, two ranks | bytes | micrograd, µs | mpi4py, µs | ratio |", "|---|---:|---:|---:|---:|"]
    for name, ways in found["collectives"].items():
        kind, size = name.split()
        ours, raw = ways["micrograd"] * 1e6, ways["mpi4py"] * 1e6
        lines.append(f"| {kind} | {int(size):,} | {ours:,.1f} | {raw:,.1f} | {ours / raw:.2f} |")
    lines += [
        "",
        "| step, ms | not averaged | averaged | overhead | without overlap | torch: not averaged | DDP | overhead |",
    ]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, ways in found["micrograd"].items():
        theirs = found["torch"][name]
        for way in ("eager", "jit"):
            alone, both, plain = (
                1e3 * ways[f"{way} {kind}"] for kind in ("not averaged", "averaged", "without overlap")
            )
            row = [f"{alone:.2f}", f"{both:.2f}", f"{both - alone:.2f}", f"{plain:.2f}"]
            if way == "eager":
                own, ddp = 1e3 * theirs["eager not averaged"], 1e3 * theirs["eager averaged"]
                row += [f"{own:.2f}", f"{ddp:.2f}", f"{ddp - own:.2f}"]
            lines.append(f"| {name}, {way} | {' | '.join(row)} |")
    return "\n".join(lines)


def _median(turns: list[Any]) -> Any:
    """Of the figures of all turns, place by place."""
    if isinstance(turns[0], dict):
        return {name: _median([each[name] for each in turns]) for name in turns[0]}
    return statistics.median(turns)


if __name__ == "__main__":
    main()
