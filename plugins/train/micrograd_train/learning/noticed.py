"""What to look at before believing a figure: a column that gives the answer away, rare classes, outliers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from micrograd_core.data.errors import listed
from micrograd_train.tables.columns import Number, Target
from micrograd_train.tables.preparation import Preparation
from micrograd_train.tables.reading import place
from micrograd_train.tables.written import day

MOST_ROWS, LEAST_ROWS = 2000, 20
"""Rows that a column is tried on, and without which nothing is said of it."""
GIVEN_AWAY = 0.99
RARE = 0.05


def noticed(table: Any, made: Preparation, x: Any, y: Any, chosen: dict[str, Any]) -> Iterator[str]:
    """A sentence for each thing that was noticed."""
    yield from _rare(made, y)
    yield from _given_away(made, x, y, chosen)
    for column in (*made.columns, made.goal):
        is_number = isinstance(column, Number) or (isinstance(column, Target) and column.task == "regression")
        if is_number and (said := _far(table, column)):
            yield said


def _rare(made: Preparation, y: Any) -> Iterator[str]:
    """Classes under 5 %, unless all are small because there are many."""
    import numpy as np

    if made.task != "classification":
        return
    counts = np.bincount(y, minlength=len(made.classes))
    few = [i for i in np.argsort(counts, kind="stable").tolist() if counts[i] < min(RARE, 0.5 / len(counts)) * len(y)]
    if few:
        told = listed((f"{made.classes[i]!r} ({counts[i]:,}, {counts[i] / len(y):.1%})" for i in few), 6)
        yield (
            f"of {len(y):,} rows few are {told}: accuracy says little of such classes; look at their recall, and "
            "at the balanced accuracy"
        )


def _given_away(made: Preparation, x: Any, y: Any, chosen: dict[str, Any]) -> Iterator[str]:
    """Columns of which a decision tree that sees nothing else knows the answer on rows that it did not learn from."""
    import numpy as np
    from sklearn.metrics import balanced_accuracy_score, r2_score
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    learn, judge = chosen["train"], np.concatenate([chosen["validation"], chosen["test"]])
    if len(judge) < LEAST_ROWS or len(made.columns) < 2:
        return
    learn, judge = (rows[:: -(-len(rows) // MOST_ROWS)] for rows in (learn, judge))
    kind, score = DecisionTreeRegressor, r2_score
    if made.task == "classification":
        kind, score = DecisionTreeClassifier, balanced_accuracy_score
    start = 0
    for column in made.columns:
        part = x[:, start : start + len(column.names)]
        start += len(column.names)
        if score(y[judge], kind(random_state=0).fit(part[learn], y[learn]).predict(part[judge])) >= GIVEN_AWAY:
            yield (
                f"the column {column.name!r} alone gives the answer, on rows that were kept back too; if it is not "
                f"known yet when you predict, leave it out with ignore=[{column.name!r}]"
            )


def _far(table: Any, column: Any) -> str:
    """The outliers of a column: ten times as far from its middle half as that is wide, on a logarithmic scale three."""
    import numpy as np

    values = column.read(table)
    is_far = ~np.isnan(values)
    low = high = 0.0
    for scaled, times in ((np.arcsinh(values), 3), (values, 10)):
        low, high = np.nanquantile(scaled, (0.25, 0.75))
        is_far &= np.maximum(low - scaled, scaled - high) > times * (high - low)
    found = np.flatnonzero(is_far)
    if low == high or not len(found):
        return ""
    row = int(found[np.argmax(np.abs(values[found] - low))])
    told = day if getattr(column, "dates", False) else "{:.6g}".format
    more = f", and so are {len(found) - 1:,} more" if len(found) > 1 else ""
    return (
        f"{place(table, row, column.name)}: {told(values[row])} is far from the others, of which half lie between "
        f"{told(low)} and {told(high)}{more}; if it is a slip, or stands for a missing value, mend or empty it"
    )
