"""What is wrong with data, in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from micrograd_core.errors import MicrogradError, MissingExtra
from micrograd_core.support.escaping import printable


class DataError(MicrogradError, ValueError):
    """Data that cannot be learned from as they are. The message says where they are wrong, and what to do.

    Examples
    --------
    >>> from micrograd_core.data import DataError
    >>> print(DataError("row 3 has no label"))
    row 3 has no label
    """


class NoLength(DataError, TypeError):
    """Batches of an iterable are not counted before they have come."""


def numpy_for(what: str) -> Any:
    """NumPy, or the error that says that `what` needs it."""
    try:
        import numpy
    except ModuleNotFoundError:
        raise MissingExtra(what, "numpy", "cpu") from None
    return numpy


def listed(names: Iterable[Any], most: int = 12) -> str:
    """``a, b and c``: some of the names, where there are many."""
    shown = [printable(name) for name in names]
    if len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most:,} more"]
    *head, last = shown or [""]
    return f"{', '.join(head)} and {last}" if head else last
