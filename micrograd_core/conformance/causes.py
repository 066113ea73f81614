"""What is likely behind failures: messages of tests, told as the cause and what to do about it."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

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
    found: dict[tuple[str, str], list[Failure]] = {}
    ranks: dict[tuple[str, str], float] = {}
    subjects: dict[str, set[str]] = {}
    for failure in failures:
        subjects.setdefault(cause(failure.message)[1], set()).add(failure.subject)
    for failure in failures:
        rank, words = cause(failure.message)
        spread = len(subjects[words]) if rank == COMPLAINT else 0
        key = f"{spread} operations" if spread > MANY else failure.subject, words
        found.setdefault(key, []).append(failure)
        ranks[key] = rank

    def place(key: tuple[str, str]) -> tuple[Any, ...]:
        subject = key[0]
        borrowed = provided.get(subject, "native") != "native"
        return ranks[key] >= 3, borrowed, ranks[key], -len(found[key]), subject

    return [
        {
            "about": subject,
            "cause": words + _only(found[subject, words], subject, passed),
            "tests": len(found[subject, words]),
            "example": found[subject, words][0].test,
            "names": [failure.test for failure in found[subject, words]],
            "message": found[subject, words][0].message[:300],
        }
        for subject, words in sorted(found, key=place)
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
