"""What is kept of a run, and how it is shown."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.peers import PEERS, Peer
from benchmarks.timing import Timing

ROOT = Path(__file__).parent.parent
VARIABLES = ("MKL_", "OMP_", "OPENBLAS_", "XLA_")
"""Prefixes of the environment variables that change what is measured."""
BASELINES = ("c", "products", "numpy", "torch", "torch-compile", "jax-jit", "micrograd")
"""Whom everyone is divided by in the record."""
SHOWN = (
    ("micrograd", "numpy"), ("micrograd", "torch"), ("micrograd-jit", "torch"), ("micrograd-jit", "jax-jit"),
    ("micrograd-jit", "products"),
)  # fmt: skip
"""Whose ratios to whom the table shows."""

Result = dict[str, Any]


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────────


def environment() -> Result:
    """Where and on what it ran: nothing that identifies a person or a machine."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "commit": _git("rev-parse", "--short", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
        "variables": {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)},
        "threads": _threads(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def _git(*command: str) -> str:
    try:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _threads() -> Result:
    """Nothing is pinned; this is what the libraries chose."""
    threads: Result = {}
    if "torch" in sys.modules:
        threads["torch"] = sys.modules["torch"].get_num_threads()
    try:
        pools = import_module("threadpoolctl").threadpool_info()
    except ImportError:
        return threads
    kept = ("version", "num_threads", "architecture")
    for pool in pools:
        threads[pool["prefix"]] = {key: pool[key] for key in kept if pool.get(key)}
    return threads


def measured(case: Case, timings: Mapping[str, Timing], others: float | None) -> Result:
    """One case of the record; `others` is how many cores other processes kept busy meanwhile."""
    peers = {}
    for name, timing in timings.items():
        low, middle, high = (round(value, 3) for value in timing.quartiles)
        ratios = {base: round(timing.ratio(timings[base]), 3) for base in BASELINES if base in timings and base != name}
        peers[name] = {"q1_us": low, "median_us": middle, "q3_us": high, "inner": timing.inner, "ratio_to": ratios}
    return {"about": case.about, "group": case.group, "kind": case.kind, "busy_elsewhere": others, "peers": peers}


def record(cases: Result, peers: Mapping[str, Peer], left_out: Mapping[str, str], about: Result) -> Result:
    """All that is kept of a run; `about` is its environment and settings."""
    described = {
        name: {"version": peer.version(), "notes": peer.notes, "without": peer.without} for name, peer in peers.items()
    }
    return {"cases": cases, "peers": described, "left_out": dict(left_out), **about}


def write(result: Result, folder: Path, label: str) -> Path:
    """As JSON that differs in few lines from the JSON of another run; the path it is at."""
    about = result["environment"]
    commit = (about["commit"] or "unversioned") + ("-dirty" if about["dirty"] else "")
    path = folder / f"{about['date'][:10]}-{label}-{commit}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────

UNSTEADY = 0.2
"""A cell is marked when the quartiles lie further apart than this part of the median."""


def table(result: Result, *, markdown: bool = False) -> str:
    """Medians in microseconds, one row a case and one column a peer; then the ratios that are `SHOWN`."""
    cases = {name: result["cases"][name] for name in CASES if name in result["cases"]}
    peers = {name: result["peers"][name] for name in PEERS if any(name in case["peers"] for case in cases.values())}
    shown = [(one, base) for one, base in SHOWN if one in peers and base in peers]
    rows = [["µs", *peers, *(f"{one} ÷ {base}" for one, base in shown)]]
    for case in cases.values():
        medians = [cell(case["peers"].get(name), case["kind"] in peer["notes"]) for name, peer in peers.items()]
        ratios = [case["peers"].get(one, {}).get("ratio_to", {}).get(base) for one, base in shown]
        rows.append([case["about"], *medians, *("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)])
    kinds = {case["kind"] for case in cases.values()}
    notes = []
    for name, peer in peers.items():
        notes += [f"* {name}, {kind}: {note}" for kind, note in peer["notes"].items() if kind in kinds]
        notes += [f"– {name}, {case}: {reason}" for case, reason in peer["without"].items() if case in cases]
    if any("~" in cell for row in rows[1:] for cell in row):
        notes.append(f"~ unsteady: the quartiles lie more than {UNSTEADY:.0%} of the median apart")
    return (in_markdown if markdown else _plain)(rows, notes)


def cell(timing: Result | None, noted: bool) -> str:
    """A median: marked where it is unsteady, or noted to be of other work."""
    if timing is None:
        return "–"
    value = timing["median_us"]
    digits = 2 if value < 10 else 1 if value < 100 else 0
    unsteady = timing["q3_us"] - timing["q1_us"] > UNSTEADY * value
    return f"{'~' if unsteady else ''}{value:,.{digits}f}{'*' if noted else ''}"


def _plain(rows: list[list[str]], notes: list[str]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:], "", *notes])


def in_markdown(rows: list[list[str]], notes: Sequence[str] = ()) -> str:
    """A table, and the notes below it."""
    head, *body = [f"| {' | '.join(row)} |".replace("*", "\\*").replace("~", "\\~") for row in rows]
    rule = "|---|" + "---:|" * (len(rows[0]) - 1)
    return "\n".join([head, rule, *body, "", *(f"\\{note}  " if note[0] in "*~" else f"{note}  " for note in notes)])
