"""Which of the generated cases of a test run: never none, and of each operation at least one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any
from zlib import crc32

FEW = 300
"""So many cases of a test run all, as where somebody has chosen an operation."""
EACH = int(os.environ.get("MICROGRAD_SAMPLE", "1"))
"""One of so many cases of any test that has more than `CASES`."""
CASES = 3


def left(items: Iterable[Any]) -> list[Any]:
    """What does not run: of tests that are `sampled` about half, of all others all but one of `EACH`.

    The first case of a test, and of an operation in it, is never among them.
    """
    if os.environ.get("MICROGRAD_EXHAUSTIVE") == "1":
        return []
    items, met, found = list(items), set[Any](), list[Any]()
    counts = Counter(map(_test, items))
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        family, each = (_test(item), repr(params.get("op"))), EACH if counts[_test(item)] > CASES else 1
        if item.get_closest_marker("sampled") and counts[_test(item)] > FEW:
            each = max(each, 2)
        if family in met and crc32(item.nodeid.encode()) % each:
            found.append(item)
        met.add(family)
    return found


def leave_out(those: list[Any], config: Any, items: list[Any]) -> None:
    """Take them from the items that run."""
    if those:
        config.hook.pytest_deselected(items=those)
        gone = set(map(id, those))
        items[:] = [item for item in items if id(item) not in gone]


def _test(item: Any) -> str:
    return f"{item.path.name} {getattr(item, 'originalname', '')}"
