"""What a process pays once: the first array, the first call of a compiled step, the memory that training adds.

python benchmarks/benchmark_process.py

Each figure is of a process of its own; peers take turns, so that a busy moment meets all of them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import report
from benchmarks.report import ROOT
from benchmarks.run import RESULTS

FIRST = {
    "numpy": "import numpy; numpy.ones(2)",
    "micrograd": "import micrograd_core as mg; mg.Tensor([1.0])",
    "torch": "import torch; torch.tensor([1.0])",
    "jax": "import jax; jax.numpy.ones(2)",
}
"""From the start of the interpreter to the first array."""

CALL = """
import time
from benchmarks.cases import CASES
from benchmarks.peers import PEERS
case = CASES["mlp-deep-adam"]
step, _ = PEERS[{peer!r}]().trainer(case, case.arrays(), 1e-3)
start = time.perf_counter()
step()
print(time.perf_counter() - start)
"""
"""The first call of a step that is compiled as a whole, in seconds, the import not counted."""

MEMORY = """
from benchmarks.cases import CASES
from benchmarks.peers import PEERS
case = CASES["mlp-digits-large-adam"]
step, parameters = PEERS[{peer!r}]().trainer(case, case.arrays(), 1e-3)
def kept(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
before = kept("VmRSS")
for _ in range(5):
    step()
print(kept("VmHWM") - before)
"""
"""The greatest memory of a process in five steps, less what it had before the first, in MiB."""

CALLS = ("micrograd-jit", "micrograd-jit, from the disk", "jax-jit", "torch-compile")
MEMORIES = ("micrograd", "micrograd-jit", "torch", "jax-jit", "autograd", "numpy")


def run(program: str, cache: str) -> str:
    """What a Python program prints, in an interpreter of its own that compiles with this disk cache."""
    environment = {**os.environ, "MICROGRAD_CACHE": cache, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or all that is not installed is compiled anew each time
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def seconds_of(program: str) -> float:
    """How long a program takes, the start of the interpreter included."""
    timed = (
        "import subprocess, sys, time; s = time.perf_counter(); subprocess.run({!r}); print(time.perf_counter() - s)"
    )
    return float(run(timed.format([sys.executable, "-c", program]), "off"))


def figure(kind: str, peer: str, cache: str) -> float:
    """One figure of one peer, in the units of its table."""
    if kind == "first array, ms":
        return 1e3 * seconds_of(FIRST[peer])
    if kind == "memory of the batch-1024 Adam step, MiB":
        return float(run(MEMORY.format(peer=peer), cache))
    name, _, kept = peer.partition(",")
    with TemporaryDirectory() as fresh:  # of torch's compiler, which keeps its results too
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = fresh
        return 1e3 * float(run(CALL.format(peer=name), cache if kept else "off"))


KINDS: dict[str, tuple[str, ...]] = {
    "first array, ms": tuple(FIRST),
    "first call of the small MLP's Adam step, ms": CALLS,
    "memory of the batch-1024 Adam step, MiB": MEMORIES,
}


def main() -> int:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(prog="benchmark_process", description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="rounds in which every peer has its turn; default: 5")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON; default: %(default)s")
    chosen = parser.parse_args()
    cases: report.Result = {}
    with TemporaryDirectory() as cache:
        run(CALL.format(peer="micrograd-jit"), cache)  # so that something is kept
        for kind, peers in KINDS.items():
            figures: dict[str, list[float]] = {peer: [] for peer in peers}
            for _ in range(chosen.repeat):
                for peer in peers:
                    try:
                        figures[peer].append(figure(kind, peer, cache))
                    except subprocess.CalledProcessError as error:
                        print(f"{kind}: {peer} is left out: {error.stderr.splitlines()[-1]}", file=sys.stderr)
            cases[kind] = {peer: round(statistics.median(found), 1) for peer, found in figures.items() if found}
            print(kind, *(f"{peer} {value}" for peer, value in cases[kind].items()), sep="  ")
    result = {"cases": cases, "environment": report.environment(), "settings": {"repeat": chosen.repeat}}
    print(f"written to {report.write(result, chosen.out, 'process')}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
