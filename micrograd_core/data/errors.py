"""What is wrong with data, in sentences; and packages that are imported when they are needed."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from micrograd_core.errors import MicrogradError, MissingExtra
from micrograd_core.ground.printed import printable

EXTRAS = {
    "numpy": ("numpy", "cpu"),
    "pyarrow": ("pyarrow", "train"),
    "sklearn": ("scikit-learn", "train"),
    "PIL": ("pillow", "train"),
}
"""The package, and the extra that installs it, by the module that is imported."""


class DataError(MicrogradError, ValueError):
    """Data that cannot be learned from as they are. The sentence says where, and what to do."""


class NoLength(DataError, TypeError):
    """Batches of an iterable are not counted before they have come."""


class DataWarning(UserWarning):
    """Something was left out of the data, or is probably not meant."""


def needed(module: str, what: str) -> Any:
    """A module of a package beyond the core.

    Raises
    ------
    MissingExtra
        When it is not installed; `what` needs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        root = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != root:
            raise
        raise MissingExtra(what, *EXTRAS[root]) from None


def listed(names: Iterable[Any], most: int = 12) -> str:
    """``a, b and c``: some of the names, where there are many."""
    shown = [printable(name) for name in names]
    if len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most:,} more"]
    *head, last = shown or [""]
    return f"{', '.join(head)} and {last}" if head else last


def nearest(name: str, names: Sequence[str]) -> str:
    """A question that ends a sentence about a name that is not there, where one like it is."""
    low = {each.lower().strip(): each for each in reversed(names)}
    close = difflib.get_close_matches(name.lower().strip(), low, n=1, cutoff=0.6)
    return f". Did you mean {low[close[0]]!r}?" if close else ""
