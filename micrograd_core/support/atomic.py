"""Several assignments that count as one: an interrupt finds all of them done, or none.

What changes state that outlives a call (a model's numbers, an optimiser's moments) first computes everything, which may
fail or be interrupted and then has changed nothing, and hands the results over here.
"""

from __future__ import annotations

from typing import Any


def assign_all(changes: list[tuple[Any, str, Any]]) -> None:
    """Set attributes, given as owner, name and value. An interrupt meanwhile is passed on once the last one is set.

    To be used for assignments that cannot fail of themselves, and may be repeated.
    """
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
    except BaseException:
        assign_all(changes)
        raise
