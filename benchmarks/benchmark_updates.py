"""Eager updates beside torch on one core: optimisers and clipping by the norm, over the parameters of networks.

python benchmarks/benchmark_updates.py

Both have their turn in each of 15 rounds; figures are medians, in microseconds of processor time, and ratios medians of
those within rounds. "Cuts" scales gradients at each call, "leaves" only finds that their norm is small enough.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import micrograd_core as mg
from benchmarks import report
from benchmarks.run import RESULTS

Shape = tuple[int, ...]
BLOCK: list[Shape] = [(252, 84), (252,), (84, 84), *[(84,)] * 5, (336, 84), (336,), (84, 336), (84,)]
WIDE: list[Shape] = [(1152, 384), (384, 384), (384,), (384,), (1536, 384), (384, 1536)]
NETWORKS: dict[str, list[Shape]] = {
    "MLP 64-128-10": [(128, 64), (128,), (10, 128), (10,)],
    "MLP 784-512-256-10": [(512, 784), (512,), (256, 512), (256,), (10, 256), (10,)],
    "100 of (16, 16)": [(16, 16)] * 100,
    "100 of (64, 64)": [(64, 64)] * 100,
    "GPT of 4 blocks, 84 wide": [*BLOCK * 4, (65, 84), (64, 84)],
    "GPT of 6 blocks, 384 wide": [*WIDE * 6, (65, 384)],
    "one (1000, 1000)": [(1000, 1000)],
}
SGD: dict[str, Any] = {"lr": 1e-5, "momentum": 0.9, "nesterov": True}
UPDATES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "SGD with Nesterov": (lambda a: mg.optim.SGD(a, **SGD).step, lambda b: torch.optim.SGD(b, **SGD).step),
    "Adam": (lambda a: mg.optim.Adam(a, lr=1e-5).step, lambda b: torch.optim.Adam(b, lr=1e-5).step),
    "clip_grad_norm, cuts": (
        lambda a: lambda: mg.optim.clip_grad_norm(a, 1e-9),
        lambda b: lambda: torch.nn.utils.clip_grad_norm_(b, 1e-9),
    ),
    "clip_grad_norm, leaves": (
        lambda a: lambda: mg.optim.clip_grad_norm(a, 1e9),
        lambda b: lambda: torch.nn.utils.clip_grad_norm_(b, 1e9),
    ),
}
ROUNDS, SHARE = 15, 20_000


def parameters(shapes: list[Shape]) -> tuple[list[Any], list[Any]]:
    """The same parameters with the same gradients, for both."""
    rng = np.random.default_rng(0)
    ours, theirs = [], []
    for shape in shapes:
        p, g = (rng.normal(size=shape).astype("float32") for _ in range(2))
        ours.append(mg.Tensor(p))
        ours[-1].grad = mg.asarray(g)
        theirs.append(torch.nn.Parameter(torch.tensor(p)))
        theirs[-1].grad = torch.tensor(g)
    return ours, theirs


def timed(f: Callable[[], Any], count: int) -> float:
    """Microseconds of processor time of a call."""
    started = time.thread_time()
    for _ in range(count):
        f()
    return (time.thread_time() - started) / count * 1e6


def row(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    """Medians of both, and of the ratios within rounds."""
    for f in (ours, theirs) * 3:
        f()
    count = max(1, int(SHARE / max(timed(ours, 2), 1)))
    rounds = [(timed(ours, count), timed(theirs, count)) for _ in range(ROUNDS)]
    a, b = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(x / y for x, y in rounds)
    return {"micrograd_us": round(a, 1), "torch_us": round(b, 1), "ratio": round(ratio, 2)}


def main() -> None:
    """Measure all, print a table, and keep a record."""
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with threadpool_limits(1):
        measure()


def measure() -> None:
    """All updates of all networks."""
    found: dict[str, Any] = {}
    print(f"| micrograd ÷ torch | {' | '.join(UPDATES)} |\n|---|{'---:|' * len(UPDATES)}")
    for name, shapes in NETWORKS.items():
        found[name] = {}
        for update, (ours, theirs) in UPDATES.items():
            a, b = parameters(shapes)
            found[name][update] = row(ours(a), theirs(b))
        print(f"| {name} | {' | '.join(format(x['ratio'], '.2f') for x in found[name].values())} |", flush=True)
    about = {"environment": report.environment(), "torch": torch.__version__}
    print(report.write({**about, "updates": found}, RESULTS, "updates"))


if __name__ == "__main__":
    main()
