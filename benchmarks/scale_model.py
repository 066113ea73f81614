"""What a step of data-parallel training takes on more devices than there are here: a model, and a simulation of it.

``python -m benchmarks.scale_model [benchmarks/results/…-scale-….json]`` compares what the model says of two ranks with
what `benchmarks.scale` measured, and then gives its figures for GPUs that nobody has run this on. Its inputs are
measured (a step without the others, the bytes of its gradients, what a sum of so many bytes takes) or stated below
(networks between GPUs).

**The model.** A step is what a rank computes, then what is sent and was not yet sent while it computed::

    step(N) = alone + max(0, sent(N) - hidden) + last(N)

`alone` has everything but the sending: the network, gathering gradients into buckets, the update, and waiting until all
ranks are there. `sent` is the time of
all buckets but the last. On a GPU these are sent while the rest of the backward goes on, and `hidden` is the time of
that rest; where the processors that compute are those that copy, it is 0. `last` is the bucket that is full when the
backward ends. A ring among N devices sends each byte ``2 (N - 1) / N`` times, in ``2 (N - 1)`` steps; between machines
with a network card for each GPU, parts of the sum go in parallel, in trees of ``2 log2`` steps.

**The simulation** draws what each rank's computing takes: normally distributed by a few per cent, and now and then a
straggler that takes longer. A step waits for the slowest.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
MIB = 1 << 20


MEASURED = RESULTS / "2026-11-26-gpu-networks.json"
GPT = 50304 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768
"""Parameters of a GPT-2 of 124 million."""
STEPS: dict[str, tuple[str, int, int]] = {
    "GPT-2 124M, 8 × 1024, float32": ("step of a GPT (8, 1024, 768, 12, 50304), Adam, float32", GPT, 4),
    "the same, bfloat16": ("step of a GPT (8, 1024, 768, 12, 50304), Adam, bfloat16", GPT, 2),
}
"""Of `MEASURED`, on one H200: the case, its parameters, and the bytes of each gradient as it is sent."""


class Network(NamedTuple):
    """Links between GPUs, as their makers state them, and the share of that which sums are known to reach."""

    within: float = 450e9
    """Bytes a second from a GPU to the others of its machine: NVLink 4, one direction."""
    between: float = 50e9
    """From a GPU to other machines: a card of 400 Gb/s for each."""
    reached: float = 0.8
    step_within: float = 3e-6
    """Seconds of one step of a ring or a tree."""
    step_between: float = 12e-6
    gpus: int = 8
    """In a machine."""


class Step(NamedTuple):
    """A step of one rank."""

    alone: float
    """Seconds without the others."""
    backward: float
    """Of them, those of the backward."""
    sent: float
    """Bytes of gradients."""
    bucket: float = 25 * MIB


def sum_on_gpus(size: float, ranks: int, network: Network) -> float:
    """The seconds of a sum of `size` bytes over GPUs: within machines, and in parts between them."""
    inside = min(ranks, network.gpus)
    machines = math.ceil(ranks / network.gpus)
    seconds = 2 * (inside - 1) / inside * size / (network.within * network.reached)
    seconds += 2 * (inside - 1) * network.step_within
    if machines > 1:
        seconds += 2 * (machines - 1) / machines * (size / inside) / (network.between * network.reached)
        seconds += 2 * math.ceil(math.log2(machines)) * network.step_between
    return seconds


def exposed(step: Step, ranks: int, network: Network) -> float:
    """The seconds of sending that a step waits for."""
    buckets = max(1, math.ceil(step.sent / step.bucket))
    one = sum_on_gpus(step.sent / buckets, ranks, network)
    return max(0.0, (buckets - 1) * one - step.backward * (buckets - 1) / buckets) + one


def simulated(
    step: Step, ranks: int, network: Network, spread: float = 0.02, stragglers: float = 1e-3, slower: float = 1.5,
    steps: int = 200,
) -> float:  # fmt: skip
    """The mean seconds of a step whose ranks differ: by `spread`, and some of them as stragglers."""
    draw = random.Random(0)
    sending = exposed(step, ranks, network)
    found = []
    for _ in range(steps):
        slowest = max(
            max(0.5, draw.gauss(1.0, spread)) * (slower if draw.random() < stragglers else 1.0) for _ in range(ranks)
        )
        found.append(step.alone * slowest + sending)
    return statistics.fmean(found)


# ── what was measured ────────────────────────────────────────────────────────────────────────────────────────


def checked(figures: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Of each measured step of two ranks: what it is, the seconds that the model says, and those that were measured."""
    found = []
    for name, ways in figures["micrograd"].items():
        for way in ("eager", "jit"):
            said = ways[f"{way} of one rank"] + ways["sum"] - ways["sum of one rank"]
            found.append((f"{name}, {way}", said, ways[f"{way} averaged"]))
    return found


def check_table(figures: dict[str, Any]) -> str:
    """What the model says of two ranks, beside what was measured, as Markdown."""
    lines = ["| step of two ranks | the model, ms | measured, ms | ratio |", "|---|---:|---:|---:|"]
    for name, said, measured in checked(figures):
        lines.append(f"| {name} | {1e3 * said:.2f} | {1e3 * measured:.2f} | {said / measured:.2f} |")
    return "\n".join(lines)


def prediction_table() -> str:
    """What the model says of many GPUs, as Markdown."""
    gpu = json.loads(MEASURED.read_text(encoding="utf-8"))
    lines = ["| GPUs | " + " | ".join(STEPS) + " |", "|---:|" + "---|" * len(STEPS)]
    for ranks in (1, 8, 64, 1024):
        cells = []
        for case, parameters, width in STEPS.values():
            alone = gpu["cases"][case]["seconds"]["micrograd-jit"]
            step = Step(alone, alone * 2 / 3, parameters * width)
            seconds = alone + exposed(step, ranks, Network()) if ranks > 1 else alone
            drawn = simulated(step, ranks, Network()) if ranks > 1 else alone
            cells.append(f"{1e3 * seconds:.1f} ms, {alone / seconds:.0%}; with stragglers {alone / drawn:.0%}")
        lines.append(f"| {ranks:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print what the model says of two ranks beside what was measured, and what it says of many GPUs."""
    parser = argparse.ArgumentParser(description=__doc__)
    newest = max(RESULTS.glob("*-scale-*.json"), default=None)
    parser.add_argument(
        "figures", nargs="?", type=Path, default=newest, help="of benchmarks.scale (default: the newest)"
    )
    options = parser.parse_args()
    print(check_table(json.loads(options.figures.read_text(encoding="utf-8"))), prediction_table(), sep="\n\n")


if __name__ == "__main__":
    main()
