"""What a table shows: which columns are numbers and which categories, and which task a target sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from micrograd_core.data.columns import (
    Category,
    Cell,
    Number,
    Target,
    coded,
    kind,
    number,
    numbers,
    ordered,
    plain,
    refuse_absent,
    spread,
    told,
)
from micrograd_core.data.errors import DataError, needed
from micrograd_core.data.reading import place

FEW = 20
"""So many different integers, each twice or more on average, are taken for classes; more texts may be names."""


@dataclass(frozen=True)
class Settings:
    """What was asked for, and how a column is taken then."""

    encoding: str
    missing: str
    indicator: bool
    standardize: bool
    rows: Any

    def column(self, table: Any, name: str, chosen: bool) -> Number | Category | str:
        """How a column becomes numbers; or why it is left out."""
        found = kind(table[name].type)
        chosen = chosen or needed("pyarrow.types", "a table").is_dictionary(table[name].type)
        if found not in ("number", "truth", "text", "date", "nothing"):
            raise DataError(
                f"the column {name!r} holds {found}; a feature is a number, a text, a truth value or a date. "
                f"Leave it out with ignore=[{name!r}]"
            )
        if plain(table[name]).null_count == table.num_rows:
            raise DataError(f"the column {name!r} holds nothing, in any row; leave it out with ignore=[{name!r}]")
        if chosen or found in ("truth", "text"):
            return self._category(table, name, found, chosen)
        return self._number(table, name, found == "date")

    def _number(self, table: Any, name: str, dates: bool) -> Number | str:
        np = needed("numpy", "a table")
        every = numbers(table, name, dates)
        absent = np.isnan(every)
        values = every[self.rows][~absent[self.rows]]
        if not len(values):
            where = "any row" if absent.all() else "any row to train on"
            raise DataError(f"the column {name!r} holds nothing, in {where}; leave it out with ignore=[{name!r}]")
        center, scale = spread(values)
        only = values.min() == values.max()
        if only and not absent.any():
            where = "all rows" if len(self.rows) == table.num_rows else "all rows to train on"
            return f"it is {values[0]:g} in {where}"
        fill = float(values[0]) if only else center if self.missing == "mean" else float(np.median(values))
        if only:
            center, scale = fill, 1.0
        if not self.standardize:
            center, scale = 0.0, 1.0
        if scale == 0:  # of the smallest numbers there are
            scale = 1.0
        return Number(name, dates, fill, center, scale, bool(self.indicator and absent.any()))

    def _category(self, table: Any, name: str, found: str, chosen: bool) -> Category | str:
        type_ = {"date": "text"}.get(found, found)
        held, codes = coded(table, name, type_)
        values = ordered(held)
        absent = None in held and bool((codes == held.index(None)).any())
        if not values:
            raise DataError(f"the column {name!r} holds nothing, in any row; leave it out with ignore=[{name!r}]")
        present = int((codes != held.index(None)).sum()) if None in held else len(codes)
        if type_ == "text" and not chosen:
            refuse_mixed(table, name, held, codes)
            if len(values) > FEW and 2 * len(values) > present:
                return (
                    f"it has {len(values):,} different texts in {present:,} rows, as names have, and nothing is "
                    f"learned from those{_hint(values)}; categories=[{name!r}] takes it in"
                )
        if len(values) == 1 and not absent:
            return f"it is {values[0]!r} in all rows"
        return Category(name, type_, values, absent, self.encoding)


HINTS = (
    (r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b.*", "are those dates? They are understood as 2024-05-31"),
    (r"[^\w.,+-]*[+-]?[\d.,' ]*\d[\d.,' ]*\s*[^\w.,]{0,3}", "are those numbers? They are understood as 1234.5"),
)
"""Of texts that look so, what is said of them."""


def _hint(values: Sequence[Cell]) -> str:
    """What texts that almost all look alike probably are."""
    for pattern, question in HINTS:
        if 20 * sum(re.fullmatch(pattern, str(each)) is not None for each in values) > 19 * len(values):
            return f" ({question}, without anything beside it, and here is {str(values[0])!r})"
    return ""


def counting(table: Any, column: Number | Category) -> str:
    """What is said of numbers that only count the rows; nothing of others."""
    if isinstance(column, Category) or column.dates or table.num_rows < FEW:
        return ""
    values = numbers(table, column.name, False)
    if not (values[1:] - values[:-1] == 1).all():
        return ""
    return (
        f"the column {column.name!r} counts the rows, from {values[0]:g} to {values[-1]:g}; if it is nothing but their "
        f"number, leave it out with ignore=[{column.name!r}]"
    )


def refuse_mixed(table: Any, name: str, held: list[Any], codes: Any) -> None:
    """Text among numbers: more likely a slip than a category."""
    np = needed("numpy", "a table")
    numeric = np.array([each is not None and number(each) is not None for each in held])
    text = np.array([each is not None and number(each) is None for each in held])
    count = int(numeric[codes].sum())
    if not text[codes].any() or 2 * count <= int((numeric | text)[codes].sum()):
        return
    row = int(np.flatnonzero(text[codes])[0])
    raise DataError(
        f"{place(table, row, name)}: the text {held[codes[row]]!r} stands where a number belongs, as {count:,} other "
        f"rows have one; mend it, leave the cell empty, or take the column as categories=[{name!r}]"
    )


def decided(table: Any, name: str, task: str | None, rows: Any, standardize: bool) -> Target:
    """What is to be learned of a column, and whether those are classes or numbers.

    Raises
    ------
    DataError
        When there is nothing to learn.
    """
    column = plain(table[name])
    found = kind(column.type)
    if found == "nothing" or column.null_count == len(column):
        raise DataError(f"the target {name!r} holds nothing, in any row")
    if found not in ("number", "truth", "text"):
        raise DataError(f"the target {name!r} holds {told(found)}; a target is numbers, text or truth values")
    held, codes = coded(table, name, found)
    refuse_absent(name, [each is None for each in held], codes)
    values = ordered(held)
    integers = found == "number" and all(isinstance(each, int) for each in values)
    whole = integers and not needed("pyarrow", "a table").types.is_floating(column.type)
    if found == "text":
        why = "holds text"
    elif found == "truth":
        why = "holds truth values"
    elif whole:
        why = f"holds integers, of which {len(values):,} {'are' if len(values) > 1 else 'is'} different"
    else:
        why = "holds numbers"
    classes = found != "number" or (whole and len(values) <= FEW and 2 * len(values) <= len(codes))
    chosen = task or ("classification" if classes else "regression")
    reason = f"the target {name!r} {why}: {chosen}" + (", as was asked for" if task else "")
    if len(values) == 1:
        raise DataError(f"the target {name!r} is {values[0]!r} in all rows; there is nothing to learn")
    if chosen == "classification":
        return Target(name, chosen, reason, found, values, 0.0, 1.0)
    if found == "text":
        refuse_mixed(table, name, held, codes)
    chosen_rows = numbers(table, name, False)[rows]
    if chosen_rows.min() == chosen_rows.max():
        raise DataError(f"the target {name!r} is {chosen_rows[0]:g} in all rows to train on; there is nothing to learn")
    center, scale = spread(chosen_rows)
    return Target(name, chosen, reason, found, (), *((center, scale) if standardize else (0.0, 1.0)))
