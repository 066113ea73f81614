"""The command: choose cases and peers, check that the peers agree, time them in turns, show and keep the result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import report
from benchmarks.cases import CASES, GROUPS, Case, select
from benchmarks.check import Disagreement, check
from benchmarks.peers import PEERS, Peer
from benchmarks.timing import Disturbance, interleave

CHOICE = f"of {', '.join(CASES)}, or of the groups {', '.join(GROUPS)}; default: all"
TOLERATED = 0.1
"""Cores that other processes may keep busy without a warning."""
RESULTS = Path(__file__).parent / "results"
OPTIONS: dict[str, dict[str, Any]] = {
    "--peers": {"nargs": "+", "choices": list(PEERS), "help": "default: all that are installed"},
    "--cases": {"nargs": "+", "default": [], "metavar": "CASE", "help": CHOICE},
    "--repeat": {"type": int, "default": 20, "help": "rounds in which every peer has its turn; default: %(default)s"},
    "--seconds": {"type": float, "default": 1.0, "help": "for each peer in each case; default: %(default)s"},
    "--out": {"type": Path, "default": RESULTS, "help": "folder for the JSON; default: %(default)s"},
    "--no-write": {"action": "store_true", "help": "write no JSON"},
    "--markdown": {"action": "store_true", "help": "print the table as Markdown"},
}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Time micrograd and its peers side by side.")
    for flag, facts in OPTIONS.items():
        parser.add_argument(flag, **facts)
    chosen = parser.parse_args(arguments)
    if chosen.repeat < 1 or chosen.seconds <= 0:
        parser.error(f"--repeat and --seconds must be positive; got {chosen.repeat} and {chosen.seconds}")
    try:
        chosen.selected = select(chosen.cases)
    except ValueError as error:
        parser.error(str(error))
    return chosen


def open_peers(names: Sequence[str]) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that can be had, and for the others the reason."""
    peers: dict[str, Peer] = {}
    left_out: dict[str, str] = {}
    for name in names:
        try:
            peers[name] = PEERS[name]()
        except (AttributeError, ImportError, OSError, RuntimeError, SubprocessError) as error:  # missing, or too old
            left_out[name] = str(error)
    return peers, left_out


def measure(case: Case, peers: Mapping[str, Peer], *, repeat: int, seconds: float) -> report.Result:
    """Check one case, then time it.

    Raises
    ------
    Disagreement
        When the peers compute different numbers.
    """
    prepared = {name: peer.prepare(case, case.arrays()) for name, peer in peers.items() if peer.runs(case)}
    check(case, prepared)
    runs = {name: each.run for name, each in prepared.items()}
    with Disturbance() as others:
        timings = interleave(runs, repeat=repeat, seconds=seconds, seed=case.name)
    if others.cores is not None and others.cores > TOLERATED:
        print(
            f"{case.name}: other processes kept {others.cores} cores busy; repeat it on a quiet machine",
            file=sys.stderr,
        )
    return report.measured(case, timings, others.cores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; the exit status."""
    chosen = options(arguments)
    peers, left_out = open_peers(chosen.peers or list(PEERS))
    for name, reason in left_out.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    settings = {"repeat": chosen.repeat, "seconds": chosen.seconds}
    about = {"environment": report.environment(), "settings": settings}
    found: dict[str, report.Result] = {}
    for case in chosen.selected:
        print(f"{case.name} …", file=sys.stderr)
        try:
            found[case.name] = measure(case, peers, **settings)
        except Disagreement as error:
            print(f"stopped: {error}", file=sys.stderr)
            return 1
    result = report.record(found, peers, left_out, about)
    print(report.table(result, markdown=chosen.markdown))
    if not chosen.no_write:
        path = report.write(result, chosen.out, "-".join(chosen.cases) or "all")
        print(f"written to {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
