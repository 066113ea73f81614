"""Layers under autocast to bfloat16, weights in float32: with kept casts, with casts at each call, and torch.

    python benchmarks/benchmark_half_weights.py
    python benchmarks/benchmark_half_weights.py --device cuda:0

A few rows through linear layers without gradients, as where text is written word by word; and steps with Adam. Every
program has its turn in each round; ratios are medians of those within rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

import micrograd_core as mg
from benchmarks import report
from benchmarks.run import RESULTS
from benchmarks.timing import Disturbance, interleave
from micrograd_core.transforms import replay

LAYERS = 2
CASES = [(rows, width, trains) for width in (1024, 2048) for rows in (1, 8, 64) for trains in (False, True)]
KEPT, EACH, TORCH = "micrograd-jit", "micrograd-jit, casts at each call", "torch"


def ours(rows: int, width: int, trains: bool, device: str, least: int) -> Callable[[], Any]:
    """Casts are kept of weights of `least` elements, or more."""
    weights, given = drawn(rows, width)
    x = mg.asarray(given, device=device)
    layers = [mg.Tensor(w, device=device) for w in weights]
    rule = mg.optim.Adam(layers, lr=1e-5)

    def forward() -> Any:
        y = x
        with mg.autocast("bfloat16"):
            for w in layers:
                y = mg.relu(mg.linear(y, w))
        return y

    def step() -> Any:
        rule.zero_grad()
        loss = (forward().astype("float32") ** 2).mean()
        loss.backward()
        rule.step()
        return loss

    def value() -> Any:
        with mg.no_grad():
            return forward()

    jitted, place = mg.jit(step if trains else value), mg.Device(device)
    before, replay.LARGE = replay.LARGE, least  # type: ignore[misc]
    try:
        for _ in range(3):  # the optimiser's state is new, and casts are
            jitted()
    finally:
        replay.LARGE = before  # type: ignore[misc]

    def run() -> None:
        jitted()
        place.synchronize()

    return run


def theirs(rows: int, width: int, trains: bool, device: str) -> Callable[[], Any]:
    """The same in torch, eager, with its fused Adam."""
    import torch

    weights, given = drawn(rows, width)
    x, kind = torch.tensor(given, device=device), device.partition(":")[0]
    layers = [torch.tensor(w, device=device, requires_grad=True) for w in weights]
    rule = torch.optim.Adam(layers, lr=1e-5, fused=True)

    def forward() -> Any:
        y = x
        with torch.autocast(kind, torch.bfloat16):
            for w in layers:
                y = torch.relu(torch.nn.functional.linear(y, w))
        return y

    def run() -> None:
        if trains:
            rule.zero_grad()
            (forward().float() ** 2).mean().backward()
            rule.step()
        else:
            with torch.no_grad():
                forward()
        if kind == "cuda":
            torch.cuda.synchronize()

    return run


def drawn(rows: int, width: int) -> tuple[list[Any], Any]:
    """Weights, and rows."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, width**-0.5, (width, width)).astype("float32") for _ in range(LAYERS)]
    return weights, rng.normal(size=(rows, width)).astype("float32")


def main(arguments: list[str] | None = None) -> None:
    """Measure all, print a table, and keep a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case and program; default: %(default)s")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON; default: %(default)s")
    chosen = parser.parse_args(arguments)
    found, device = dict[str, Any](), chosen.device
    print(f"| rows, width | {KEPT}, ms | ÷ casts at each call | ÷ torch |\n|---|---:|---:|---:|")
    for rows, width, trains in CASES:
        runs = {KEPT: ours(rows, width, trains, device, replay.LARGE), EACH: ours(rows, width, trains, device, 1 << 62)}
        with suppress(ImportError):
            runs[TORCH] = theirs(rows, width, trains, device)
        with Disturbance() as others:
            timings = interleave(runs, repeat=15, seconds=chosen.seconds)
        ratios = {name: round(timings[KEPT].ratio(timings[name]), 2) for name in (EACH, TORCH) if name in timings}
        name = f"{'step of' if trains else 'without gradients,'} {rows}, {width}"
        medians = {each: round(timing.quartiles[1], 1) for each, timing in timings.items()}
        found[name] = {"microseconds": medians, "ratios": ratios, "cores_of_others": others.cores}
        cells = f"{medians[KEPT] / 1e3:.2f}", *(f"{ratios.get(each, float('nan')):.2f}" for each in (EACH, TORCH))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    about = {"environment": report.environment(), "device": device, "layers": LAYERS}
    print(report.write({**about, "half_weights": found}, chosen.out, f"half-weights-{device.partition(':')[0]}"))


if __name__ == "__main__":
    main()
