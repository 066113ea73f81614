"""Several assignments that count as one: an interrupt finds all of them done, or none.

What changes state that outlives a call (a model's numbers, an optimiser's moments) first computes everything, which may
fail or be interrupted and then has changed nothing, and hands the results over here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def assign_all(changes: list[tuple[Any, str, Any]]) -> None:
    """Set attributes, given as owner, name and value. An interrupt meanwhile is passed on once the last one is set.

    To be used for assignments that cannot fail of themselves, and may be repeated.
    """

    def assign() -> None:
        for owner, name, value in changes:
            setattr(owner, name, value)

    insist(assign)


def insist(assign: Callable[[], None]) -> None:
    """Carry out assignments that may be repeated; an interrupt is passed on once all are done."""
    try:
        assign()
    except BaseException:
        insist(assign)
        raise
