"""The first call of everything that the README times under `jit`: compiled, and from the disk's cache.

python benchmarks/benchmark_first_calls.py

Each figure is of a process of its own, imports and inputs not counted. `--markdown` prints the README's table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import report
from benchmarks.cases import CASES
from benchmarks.readme import TABLES
from benchmarks.report import ROOT
from benchmarks.run import RESULTS

GPT = "gpt-of-values"
ABOUT = "step of a GPT on `Value`s, 1 block 16 wide, 6 tokens"
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Variables by which a user tells OpenBLAS to take the processor for another."""

CALL = """
import time
import numpy
from benchmarks.cases import CASES
from benchmarks.peers import PEERS
case = CASES[{name!r}]
run = PEERS["micrograd-jit"]().prepare(case, case.arrays()).run
"""
VALUES = """
import time
from benchmarks.gpt import training
run = training()
"""
TIMED = """
start, cpu = time.perf_counter(), time.thread_time()
run()
print(time.perf_counter() - start, time.thread_time() - cpu)
"""

Figures = dict[str, float]


def names() -> list[str]:
    """The rows of the README's table of compilers, and the GPT on Values."""
    groups, *_ = TABLES["compilers"]
    return [*(case.name for case in CASES.values() if case.name in groups or case.group in groups), GPT]


def seconds(name: str, cache: str) -> tuple[float, float]:
    """The first call in a process of its own: seconds until it returns, and those that its thread kept a core busy."""
    program = (VALUES if name == GPT else CALL.format(name=name)) + TIMED
    environment = {key: value for key, value in os.environ.items() if key not in UNSET}
    environment |= {"MICROGRAD_CACHE": cache, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    waited, busy = done.stdout.split()
    return float(waited), float(busy)


def measure(name: str, repeat: int) -> Figures:
    """Medians over fresh caches, each of which serves two processes."""
    cold, kept = [], []
    for _ in range(repeat):
        with TemporaryDirectory() as folder:
            cache = os.path.join(folder, "kept")
            cold.append(seconds(name, cache))
            kept.append(seconds(name, cache))
    figures: Figures = {}
    for kind, found in (("cold", cold), ("kept", kept)):
        waited, busy = (statistics.median(each) for each in zip(*found, strict=True))
        figures |= {f"{kind}_s": round(waited, 3), f"{kind}_cpu_s": round(busy, 3)}
    return figures


def table(cases: report.Result) -> str:
    """As Markdown: the processor's seconds, which other processes and waiting threads disturb less."""
    rows = [["processor's seconds of the first call", "compiled", "from the disk"]]
    rows += [[each["about"], f"{each['cold_cpu_s']:.2f}", f"{each['kept_cpu_s']:.2f}"] for each in cases.values()]
    return report.in_markdown(rows).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(prog="benchmark_first_calls", description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="processes for each figure; default: %(default)s")
    parser.add_argument("--cases", nargs="+", choices=names(), default=names(), metavar="CASE", help="default: all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON; default: %(default)s")
    parser.add_argument("--markdown", action="store_true", help="print the README's table")
    chosen = parser.parse_args(arguments)
    cases: report.Result = {}
    for name in chosen.cases:
        about = ABOUT if name == GPT else CASES[name].about
        cases[name] = {"about": about, **measure(name, chosen.repeat)}
        print(name, *(f"{key} {value}" for key, value in cases[name].items() if key != "about"), sep="  ", flush=True)
    result = {"cases": cases, "environment": report.environment(), "settings": {"repeat": chosen.repeat}}
    print(f"written to {report.write(result, chosen.out, 'first-calls')}", file=sys.stderr)
    if chosen.markdown:
        print(table(cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
