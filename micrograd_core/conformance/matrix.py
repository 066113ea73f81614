"""What came of a run: for each operation native, composed or missing, and how many tests of each level passed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from micrograd_core.backend import CAPABILITIES
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import CORE_KERNELS, TABLE, Op
from micrograd_core.support import files

OUTCOMES: Final = ("passed", "failed", "known failure", "skipped")
SHOWN: Final = 20
"""How many causes of failures are printed."""

LEGEND: Final = {"native": "native", "composed": "composed of others", "missing": "missing"}


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
        "lacks": [name for name in DTYPES if name not in kernels.backend.dtypes],
        "provided": {name: provided(op) for name, op in TABLE.items()},
    }


class Matrix:
    """Counts outcomes by operation and by level."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.by_op: dict[str, Counter[str]] = {name: Counter() for name in TABLE}
        self.by_level: dict[str, Counter[str]] = {}
        self.failures: list[Failure] = []
        self.skips: Counter[str] = Counter()
        self.broken: dict[str, str] = {}
        self.passed: set[str] = set()
        self.seen: set[str] = set()

    def count(self, report: Any) -> None:
        """One test, by where the suite's name for it says it belongs."""
        if report.when != "call" and not (report.when == "setup" and report.outcome != "passed"):
            return
        outcome = "known failure" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        test = report.nodeid.rpartition("::")[2]
        subject = test.partition("[")[2].rstrip("]")
        op = subject.partition("-")[0]
        self.seen.add(test)
        if op in self.by_op:
            self.by_op[op][outcome] += 1
            level = TABLE[op].capability or ("core" if op in CORE_KERNELS else "beyond core")
        else:
            level = subject if subject in CAPABILITIES else "the boundary"
        self.by_level.setdefault(level, Counter())[outcome] += 1
        if outcome == "passed":
            self.passed.add(test)
        elif outcome == "failed":
            self.failures.append(Failure(test, op if op in self.by_op else test, _said(report)))
        elif outcome == "skipped" and level not in self.facts.get("unclaimed", ()):
            self.skips[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1

    def not_run(self) -> dict[str, int]:
        """How many tests were not selected, and how many of the selected ones the run did not come to."""
        selected = max(self.facts["selected"], len(self.seen))
        found = {"deselected": self.facts["tests"] - selected, "not reached": selected - len(self.seen)}
        return {what: count for what, count in found.items() if count > 0}

    def verdict(self) -> str:
        """One sentence. A device conforms only where the whole suite says so; what did not run is always said."""
        device, known = self.facts["device"], sum(counts["known failure"] for counts in self.by_level.values())
        missing = self.not_run()
        part = f"of {self.facts['tests']} tests " + " and ".join(f"{n} were {what}" for what, n in missing.items())
        if self.failures:
            said = f"{_tests(len(self.failures))} failed: {device} does not conform" + (f"; {part}" if missing else "")
        elif missing:
            said = f"{device} passed what was run; {part}"
        else:
            said = f"{device} conforms" + (f" but for {known} known failure{'s' if known > 1 else ''}" if known else "")
        said += f"; it does not claim {', '.join(self.facts['unclaimed'])}" if self.facts["unclaimed"] else ""
        said += f"; it does not have {', '.join(self.facts['lacks'])}" if self.facts["lacks"] else ""
        skips = [f"{_tests(count)} skipped: {reason}" for reason, count in self.skips.most_common(5)]
        skips += [f"{device} beside it is broken: {reason}" for device, reason in self.broken.items()]
        return "; ".join([said, *skips])

    def summary(self) -> dict[str, Any]:
        """Everything, as data."""
        device, unclaimed, provided = self.facts["device"], self.facts["unclaimed"], self.facts["provided"]

        def told(counts: Counter[str]) -> dict[str, int]:
            return {each: counts[each] for each in OUTCOMES}

        return {
            "device": device,
            "verdict": self.verdict(),
            "not run": self.not_run(),
            "skipped": dict(self.skips),
            "broken devices": self.broken,
            "failures": groups(self.failures, self.passed, provided),
            "levels": {name: told(counts) for name, counts in self.by_level.items() if name not in unclaimed},
            "operations": {name: {"provided": provided[name], **told(n)} for name, n in self.by_op.items()},
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

    def text(self) -> str:
        """Levels, operations by how they are provided, and failures by cause."""
        summary = self.summary()
        provided = self.facts["provided"].items()
        by_kind = {kind: [name for name, how in provided if how == kind] for kind in LEGEND}
        lines = [
            f"{name:>21}: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)
            for name, counts in summary["levels"].items()
        ]
        lines += [f"{len(ops)} {LEGEND[kind]}: {', '.join(ops)}" for kind, ops in by_kind.items() if ops]
        told = [
            f"`{each['about']}`: {each['cause']} ({_tests(each['tests'])}, such as {each['example']})\n"
            f"    {each['message']}"
            for each in summary["failures"][:SHOWN]
        ]
        rest = summary["failures"][SHOWN:]
        if rest:
            told.append(
                f"and {len(rest)} more causes of {_tests(sum(each['tests'] for each in rest))}; --json has all, by name"
            )
        return "\n".join([*lines, *told])


def _said(report: Any) -> str:
    """The first line of why a test failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else str(report.longrepr)).strip().splitlines()
    return lines[0] if lines else report.outcome


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


# ── causes ────────────────────────────────────────────────────────────────────────────────────────────────────

# Pattern in a message, rank (the lower, the likelier the cause rather than a consequence), cause with what to do.
CAUSES: Final[tuple[tuple[str, int, str], ...]] = (
    (r"unexpected keyword argument '(\w+)'", 0, r"unexpected keyword: return None for it, or take `\1`"),
    (r"positional arguments? but|required positional argument", 0, "other arguments: take those of docs/protocol.md"),
    (r"missing \d+ required keyword-only arguments?: (.*)", 0, r"it wants \1, which the core does not give"),
    (r"\bhangs: it was", 0, "hangs: look at what it waits for, or make it a known failure, 'not run: …'"),
    (r"XPASS\(strict\)", 4, "passes, though a known failure: take the pattern out"),
    (r"crashed while running", 0, "ends the process: make it a known failure, 'not run: …'"),
    (r"has dtype (\w+), expected (\w+)|dtype (\w+), expected (\w+)", 1, "wrong dtype: see the op table"),
    (r"shape \(.*\), expected \(", 1, "wrong shape"),
    (r"changed its input", 1, "changes an operand: compute into fresh memory"),
    (r"a write to the result changes operand", 1, "returns an operand's memory: return a copy"),
    (r": got .*, expected ", 2, "wrong numbers"),
    (r"the gradient is .*, a finite difference", 3, "wrong gradient"),
    (r"DID NOT RAISE", 3, "accepts what it should refuse"),
)  # fmt: skip


COMPLAINT: Final = 1.5
"""The rank of what a library says in its own words."""

MANY: Final = 5
"""Operations for which such a complaint is told one by one."""


class Failure(NamedTuple):
    """One failed test: its name in the suite, what it is about, and the first line of what it said."""

    test: str
    subject: str
    message: str


def cause(message: str) -> tuple[float, str]:
    """Rank and words; of a message that nobody knows, its own words without what changes from case to case."""
    for pattern, rank, words in CAUSES:
        found = re.search(pattern, message)
        if found:
            return rank, found.expand(words)
    brief = re.sub(r"^\S+-\d+-\w+-\S+: ", "", message)
    brief = re.sub(r"\[.*?\]|\d[\d.e+-]*", "…", brief)
    return 2 if message.startswith(("AssertionError", "assert")) else COMPLAINT, brief[:160]


def groups(failures: list[Failure], passed: set[str], provided: dict[str, str]) -> list[dict[str, Any]]:
    """Failures by operation and cause, the likeliest first.

    First what a device's own kernels do wrong, then what is composed of them; and values before gradients, which follow
    from them. Of two groups alike in that, the larger one.
    """
    found: dict[tuple[str, float, str], list[Failure]] = {}
    subjects: dict[str, set[str]] = {}
    for failure in failures:
        subjects.setdefault(cause(failure.message)[1], set()).add(failure.subject)
    for failure in failures:
        rank, words = cause(failure.message)
        spread = len(subjects[words]) if rank == COMPLAINT else 0
        key = f"{spread} operations" if spread > MANY else failure.subject, rank, words
        found.setdefault(key, []).append(failure)

    def place(group: tuple[tuple[str, float, str], list[Failure]]) -> tuple[Any, ...]:
        (subject, rank, _), alike = group
        borrowed = provided.get(subject, "native") != "native"
        return rank >= 3, borrowed, rank, -len(alike), subject

    return [
        {
            "about": subject,
            "cause": words + _only(alike, subject, passed),
            "tests": len(alike),
            "example": alike[0].test,
            "names": [failure.test for failure in alike],
            "message": alike[0].message[:300],
        }
        for (subject, _, words), alike in sorted(found.items(), key=place)
    ]


def _only(failures: list[Failure], subject: str, passed: set[str]) -> str:
    """In which dtypes and layouts alone, where the same tests pass in others."""
    failed = [_place(failure.test) for failure in failures]
    if None in failed:
        return ""
    functions = {failure.test.partition("[")[0] for failure in failures}
    fine = [_place(name) for name in passed if name.partition("[")[0] in functions and f"[{subject}-" in name]
    words = []
    for part, what in ((0, ""), (1, "the layout ")):
        bad, good = {each[part] for each in failed if each}, {each[part] for each in fine if each}
        if bad and good - bad and not bad & good:
            words.append(what + ", ".join(sorted(bad)))
    return f", only in {' and '.join(words)}" if words else ""


def _place(test: str) -> tuple[str, str] | None:
    """Dtype and layout of ``test_value[add-0-float32-step-1]``."""
    found = re.search(r"\[\w+-\d+-([a-z]+\d*)-([\w-]+)", test)
    return (found[1], found[2]) if found else None
