"""Rows to train on, to watch, and to test with."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from micrograd_core.data.errors import DataError, listed


def split(
    n_or_labels: Any,
    fractions: Sequence[float] = (0.7, 0.15, 0.15),
    *,
    seed: int = 0,
    stratify: bool = True,
    column: str | None = None,
) -> tuple[Any, ...]:
    """Indices of the rows of each part, by default of those to train on, to validate and to test with.

    Parameters
    ----------
    n_or_labels : int or sequence
        How many rows there are; or the class of each row: an array, a list, a column of a table.
    fractions : sequence of float
        The size of each part; together they are 1.
    seed : int
        The same seed gives the same parts, with any version of any library.
    stratify : bool
        Whether each part gets its share of each class, where classes are given.
    column : str, optional
        The name of the labels in errors.

    Returns
    -------
    tuple of numpy.ndarray
        int64, ascending; each row is in one part.

    Raises
    ------
    DataError
        When a part would be empty, a label occurs once, or the fractions are not 1 together.

    Examples
    --------
    >>> from micrograd_train import split
    >>> split(10, (0.8, 0.2))[1].tolist()
    [4, 6]
    >>> train, test = split(["cat", "dog", "cat", "dog", "cat", "cat"], (0.5, 0.5))
    >>> train.tolist(), test.tolist()
    ([0, 2, 3], [1, 4, 5])
    """
    shares = [float(each) for each in fractions]
    if not shares or min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise DataError(f"fractions are from 0 to 1, and 1 together; got {listed(fractions)}")
    generator = random.Random(f"split/{operator.index(seed)}")
    groups = _groups(n_or_labels, stratify, column)
    n = sum(map(len, groups))
    parts: list[list[int]] = [[] for _ in shares]
    given = 0
    for rows in groups:
        keys = [generator.random() for _ in rows]  # whose numbers Python promises never to change
        rows = [row for _, row in sorted(zip(keys, rows, strict=True))]
        given += len(rows)
        counts = [math.floor(share * len(rows) + 1e-9) for share in shares]
        for _ in range(len(rows) - sum(counts)):
            lacks = [
                share * given - len(part) - count if share else -math.inf
                for share, part, count in zip(shares, parts, counts, strict=True)
            ]
            first = shares[0] and not counts[0] and len(groups) > 1  # no class without a row to learn it from
            counts[0 if first else lacks.index(max(lacks))] += 1
        for part, count in zip(parts, counts, strict=True):
            part += rows[:count]
            del rows[:count]
    for i, (share, part) in enumerate(zip(shares, parts, strict=True)):
        if share and not part:
            raise DataError(
                f"{n:,} {'row is' if n == 1 else 'rows are'} too few to split by {listed(fractions)}: "
                f"part {i + 1} would be empty"
            )
    return tuple(np.asarray(sorted(part), dtype="int64") for part in parts)


def _groups(n_or_labels: Any, stratify: bool, column: str | None) -> list[list[int]]:
    """The rows of each class, in order of the labels; or all rows together."""
    if hasattr(n_or_labels, "__index__") and not getattr(n_or_labels, "shape", ()):
        n = operator.index(n_or_labels)
        if n < 1:
            raise DataError(f"there are no rows to split: got {n}")
        return [list(range(n))]
    take = next(
        (getattr(n_or_labels, name) for name in ("to_pylist", "tolist", "to_list") if hasattr(n_or_labels, name)), None
    )
    labels = list(n_or_labels) if take is None else take()
    if not labels:
        raise DataError("there are no rows to split: no labels were given")
    if not stratify:
        return [list(range(len(labels)))]
    column = column or getattr(n_or_labels, "name", None)
    named = f" of the column {column!r}" if isinstance(column, str) and column else ""
    groups: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        if label is None or label != label:
            raise DataError(f"row {row + 1} has no label{named}; leave it out, or split with stratify=False")
        if isinstance(label, (list, dict)) or (isinstance(label, float) and not label.is_integer()):
            raise DataError(
                f"labels{named} are classes, and row {row + 1} has {label!r}; to split rows whose targets are numbers, "
                "give how many there are: split(len(y))"
            )
        groups.setdefault(label, []).append(row)
    for label, rows in groups.items():
        if len(rows) == 1:
            raise DataError(
                f"the label {label!r}{named} occurs once, in row {rows[0] + 1}, and cannot be in more than one part; "
                "add rows of it, leave that row out, or split with stratify=False"
            )
    return [groups[label] for label in sorted(groups, key=lambda each: (str(type(each)), each))]
