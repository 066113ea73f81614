"""What each of the cpu's clever ways earns: the time with the plain way in its place, over the time with it.

python benchmarks/tricks.py

In each round a process with all clever ways, and one without each of them, take turns. The least time of all rounds
counts: on a machine that others use, too, it is the steadiest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.report import ROOT, in_markdown

TRICKS = ("calls", "linker", "pairs", "pool", "threads")
"""What ``MICROGRAD_CPU_PLAIN`` takes names of."""
CASES = (
    "relu-sum", "mlp-small-sgd", "mlp-large-sgd", "elementwise-1000", "affine-large", "softmax-large",
    "layer-norm-large", "conv2d", "attention", "gpt", "cnn-digits",
)  # fmt: skip
TIMED = """
import json, sys, time
from benchmarks.cases import CASES
from benchmarks.peers import PEERS
from benchmarks.timing import calibrate, time_calls
found = {}
for name in sys.argv[1:]:
    for peer in ("micrograd", "micrograd-jit"):
        case = CASES[name]
        start = time.perf_counter()
        prepared = PEERS[peer]().prepare(case, case.arrays())
        start = time.perf_counter()
        prepared.run()
        found[name, peer, "first"] = time.perf_counter() - start
        count = calibrate(prepared.run, 5e7)
        found[name, peer, ""] = min(time_calls(prepared.run, count) for _ in range(3)) / count / 1e9
print(json.dumps([[*key, value] for key, value in found.items()]))
"""


def times(plain: str, cases: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Seconds of each case in a process, where the named ways are plain."""
    environment = {**os.environ, "MICROGRAD_CPU_PLAIN": plain, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", TIMED, *cases]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return {tuple(key): value for *key, value in json.loads(done.stdout)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser(description="What each of the cpu's clever ways earns.")
    parser.add_argument("--tricks", nargs="+", default=TRICKS)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args(arguments)
    ways = ("0", *chosen.tricks)
    for way in ways:
        times(way, chosen.cases)  # so that all code is on the disk
    least: dict[tuple[str, ...], dict[str, float]] = {}
    for _ in range(chosen.repeat):
        for way in ways:
            for key, value in times(way, chosen.cases).items():
                known = least.setdefault(key, {})
                known[way] = min(value, known.get(way, value))
    rows = [["case", "", "µs", *chosen.tricks]]
    for (name, peer, which), found in least.items():
        about = ("jit" if peer.endswith("jit") else "eager") + (", first call" if which else "")
        ratios = [f"{found[each] / found['0']:.2f}" for each in chosen.tricks]
        rows.append([name, about, f"{found['0'] * 1e6:,.0f}", *ratios])
    print(in_markdown(rows))


if __name__ == "__main__":
    main()
