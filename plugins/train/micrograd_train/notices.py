"""What is said of data beside errors: a warning of its own, and a question about a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class DataWarning(UserWarning):
    """Something was left out of the data, or is probably not meant.

    Examples
    --------
    >>> import warnings
    >>> from micrograd_train import DataWarning, Preparation
    >>> table = {"cm": [1.0, 2.0, 3.0], "same": [7, 7, 7], "sold": [True, False, True]}
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     preparation = Preparation.fit(table, "sold")
    >>> said[0].category is DataWarning
    True
    """


def nearest(name: str, names: Sequence[str]) -> str:
    """A question that ends a sentence about a name that is not there, where one like it is."""
    low = {each.lower().strip(): each for each in reversed(names)}
    close = difflib.get_close_matches(name.lower().strip(), low, n=1, cutoff=0.6)
    return f". Did you mean {low[close[0]]!r}?" if close else ""
