"""What came of a run: for each operation native, composed or missing, and how many tests of each level passed."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from micrograd_core import files
from micrograd_core.backend import CAPABILITIES
from micrograd_core.device import Device
from micrograd_core.ops import CORE_KERNELS, TABLE, Op

OUTCOMES: Final = ("passed", "failed", "known failure", "skipped")
LEGEND: Final = {"native": "a kernel of its own", "composed": "made of others", "missing": "neither"}


def facts(device: Device) -> dict[str, Any]:
    """What a matrix says of a device beside its tests, as plain data: the process that prints need not have it."""
    kernels = device.kernels

    def provided(op: Op) -> str:
        if kernels.is_native(op.name):
            return "native"
        return "composed" if kernels.provides(op) and op.compose is not None else "missing"

    return {
        "device": str(device),
        "unclaimed": sorted(set(CAPABILITIES) - device.capabilities),
        "provided": {name: provided(op) for name, op in TABLE.items()},
    }


class Matrix:
    """Counts outcomes by operation and by level."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.by_op: dict[str, Counter[str]] = {name: Counter() for name in TABLE}
        self.by_level: dict[str, Counter[str]] = {}
        self.reasons: list[str] = []

    def count(self, report: Any) -> None:
        """One test, by where the suite's name for it says it belongs."""
        if report.when != "call" and not (report.when == "setup" and report.outcome != "passed"):
            return
        outcome = "known failure" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        subject = report.nodeid.partition("[")[2].rstrip("]")
        op = subject.partition("-")[0]
        if op in self.by_op:
            self.by_op[op][outcome] += 1
            level = TABLE[op].capability or ("core" if op in CORE_KERNELS else "beyond core")
        else:
            level = subject if subject in CAPABILITIES else "the boundary"
        self.by_level.setdefault(level, Counter())[outcome] += 1
        if outcome == "failed":
            lines = [line[1:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
            self.reasons.append(lines[0] if lines else report.nodeid)

    def summary(self) -> dict[str, Any]:
        """Everything, as data."""
        failed = sum(counts["failed"] for counts in self.by_level.values())
        device, unclaimed, provided = self.facts["device"], self.facts["unclaimed"], self.facts["provided"]
        return {
            "device": device,
            "verdict": f"{failed} tests failed: {device} does not conform"
            if failed
            else f"{device} conforms" + (f"; it does not claim {', '.join(unclaimed)}" if unclaimed else ""),
            "levels": {
                name: {each: counts[each] for each in OUTCOMES}
                for name, counts in self.by_level.items()
                if name not in unclaimed
            },
            "operations": {
                name: {"provided": provided[name], **{each: counts[each] for each in OUTCOMES}}
                for name, counts in self.by_op.items()
            },
        }

    def markdown(self) -> str:
        """The matrix as Markdown, for a README."""
        summary = self.summary()
        rows = [["operation", "provided", *OUTCOMES], ["---", "---", *["---:"] * len(OUTCOMES)]]
        rows += [[name, *map(str, facts.values())] for name, facts in summary["operations"].items()]
        rows += [[f"*{name}*", "", *map(str, counts.values())] for name, counts in summary["levels"].items()]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n\n{summary['verdict']}.\n"

    def save(self, json_path: str, markdown_path: str) -> None:
        """To the files that were asked for."""
        texts = {json_path: json.dumps(self.summary(), indent=1) + "\n", markdown_path: self.markdown()}
        files.write({Path(path): text.encode() for path, text in texts.items() if path})

    def text(self, width: int, *, colour: bool = False) -> str:
        """Levels, operations by how they are provided, the first failures, and the verdict; a table with rich."""
        summary = self.summary()
        by_kind: dict[str, list[str]] = {kind: [] for kind in LEGEND}
        for name, facts in summary["operations"].items():
            by_kind[facts["provided"]].append(name)
        levels = summary["levels"]
        body = _table(levels, by_kind, width, colour) if find_spec("rich") else _plain(levels, by_kind)
        return "\n".join([body, *self.reasons[:10], summary["verdict"]])


def _plain(levels: dict[str, dict[str, int]], by_kind: dict[str, list[str]]) -> str:
    lines = [
        f"{name:>21}: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        for name, counts in levels.items()
    ]
    return "\n".join([*lines, *(f"{len(ops)} {kind}: {', '.join(ops)}" for kind, ops in by_kind.items() if ops)])


def _table(levels: dict[str, dict[str, int]], by_kind: dict[str, list[str]], width: int, colour: bool) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console, Group
    from rich.table import Table

    counts = Table("level", box=SIMPLE_HEAD)
    for outcome in OUTCOMES:
        counts.add_column(outcome, justify="right")
    for name, row in levels.items():
        counts.add_row(name, *(str(n or "") for n in row.values()), style="red" if row["failed"] else "")
    operations = Table("operations", "", box=SIMPLE_HEAD)
    for kind, names in by_kind.items():
        if names:
            operations.add_row(f"{len(names)} {kind}\n{LEGEND[kind]}", ", ".join(names))
    console = Console(width=width, force_terminal=colour, highlight=False)
    with console.capture() as captured:
        console.print(Group(counts, operations))
    return captured.get().rstrip()
