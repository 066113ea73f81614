"""What came of a run: for each operation native, composed or missing, and how many of its tests passed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from micrograd_core.device import Device
from micrograd_core.ops import CORE_KERNELS, TABLE

OUTCOMES = ("passed", "failed", "known failure", "skipped")


class Matrix:
    """A pytest plugin that counts outcomes by operation, prints a table last, and can write it to files."""

    def __init__(self, device: str, *, json_path: str = "", markdown_path: str = "") -> None:
        self.device, self.json_path, self.markdown_path = device, json_path, markdown_path
        self.by_op: dict[str, Counter[str]] = {name: Counter() for name in TABLE}
        self.others: Counter[str] = Counter()
        self.reasons: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count one test."""
        if report.when != "call" and not (report.when == "setup" and report.outcome != "passed"):
            return
        outcome = "known failure" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        name = report.nodeid.partition("[")[2].partition("-")[0].rstrip("]")
        self.by_op.get(name, self.others)[outcome] += 1
        if outcome == "failed":
            lines = [line[1:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
            self.reasons.append(lines[0] if lines else report.nodeid)

    def provided(self, op: str) -> str:
        """How the device comes by an operation."""
        kernels = Device(self.device).kernels
        if kernels.is_native(op):
            return "native"
        return "composed" if TABLE[op].compose is not None else "missing"

    def summary(self) -> dict[str, Any]:
        """Everything, as data."""
        levels = {"core": Counter[str](), "beyond core": Counter[str](), "the boundary": self.others}
        for name, counts in self.by_op.items():
            levels["core" if name in CORE_KERNELS else "beyond core"].update(counts)
        failed = sum(counts["failed"] for counts in levels.values())
        return {
            "device": str(Device(self.device)),
            "verdict": f"{failed} tests failed: {Device(self.device)} does not conform"
            if failed
            else f"{Device(self.device)} conforms",
            "levels": {name: {each: counts[each] for each in OUTCOMES} for name, counts in levels.items()},
            "operations": {
                name: {"provided": self.provided(name), **{each: counts[each] for each in OUTCOMES}}
                for name, counts in self.by_op.items()
            },
        }

    def markdown(self) -> str:
        """The matrix as a Markdown table."""
        summary = self.summary()
        head = ["operation", "provided", *OUTCOMES]
        rows = [[name, *map(str, facts.values())] for name, facts in summary["operations"].items()]
        rows += [[f"*{name}*", "", *map(str, counts.values())] for name, counts in summary["levels"].items()]
        lines = [head, ["---", "---", *["---:"] * len(OUTCOMES)], *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{summary['verdict']}\n"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Levels and the verdict; files if asked."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        summary = self.summary()
        provided = Counter(facts["provided"] for facts in summary["operations"].values())
        write = terminalreporter.write_line
        terminalreporter.section(f"conformance of {summary['device']}")
        write("operations: " + ", ".join(f"{count} {how}" for how, count in sorted(provided.items())))
        for name, counts in summary["levels"].items():
            write(f"{name:>13}: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count))
        for reason in self.reasons[:10]:
            write(f"  {reason}")
        write(summary["verdict"])
        if self.json_path:
            Path(self.json_path).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        if self.markdown_path:
            Path(self.markdown_path).write_text(self.markdown(), encoding="utf-8")
