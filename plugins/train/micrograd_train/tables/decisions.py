"""What a table shows: which columns are numbers and which categories, and which task a target sets."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from micrograd_core.data.errors import DataError, listed
from micrograd_train.notices import DataWarning
from micrograd_train.tables.columns import (
    Category,
    Number,
    Target,
    coded,
    kind,
    merged,
    numbers,
    ordered,
    plain,
    refuse_absent,
    spread,
    told,
)
from micrograd_train.tables.reading import place
from micrograd_train.tables.written import Written, best, number

FEW = 20
"""So many different integers, each twice or more on average, are taken for classes; more texts may be names."""
MOST_CATEGORIES = 256
"""Of a column that was not asked for as categories: the commonest have a feature each, and all others one together."""


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
        kinds = chosen or pa.types.is_dictionary(table[name].type)
        if found not in ("number", "truth", "text", "date", "nothing"):
            raise DataError(
                f"the column {name!r} holds {found}; a feature is a number, a text, a truth value or a date. "
                f"Leave it out with ignore=[{name!r}]"
            )
        if plain(table[name]).null_count == table.num_rows:
            raise DataError(f"the column {name!r} holds nothing, in any row; leave it out with ignore=[{name!r}]")
        if kinds or found in ("truth", "text"):
            return self._category(table, name, found, kinds, chosen)
        return self._number(table, name, found == "date")

    def _number(self, table: Any, name: str, dates: bool, written: Written | None = None) -> Number | str:
        every = numbers(table, name, dates, written)
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
        indicator = bool(self.indicator and absent.any())
        return Number(name, dates, fill, center, scale, indicator, *(written or ()))

    def _category(self, table: Any, name: str, found: str, kinds: bool, chosen: bool) -> Category | Number | str:
        type_ = {"date": "text"}.get(found, found)
        held, codes = coded(table, name, type_)
        folded = type_ == "text" and not kinds
        said = ""
        if type_ == "text" and not kinds:
            written, said = spelled(table, name, held, codes)
            if written is not None:
                _say(said)
                return self._number(table, name, written.dates, written)
        if folded:
            held, codes = merged(held, codes)
        values = ordered(held)
        absent = None in held and bool((codes == held.index(None)).any())
        if not values:
            raise DataError(f"the column {name!r} holds nothing, in any row; leave it out with ignore=[{name!r}]")
        present = int((codes != held.index(None)).sum()) if None in held else len(codes)
        if type_ == "text" and not kinds and len(values) > FEW and 2 * len(values) > present:
            return (
                f"it has {len(values):,} different texts in {present:,} rows, as names have, and nothing is "
                f"learned from those{f' ({said})' if said else ''}; categories=[{name!r}] takes it in"
            )
        if len(values) == 1 and not absent:
            return f"it is {values[0]!r} in all rows"
        _say(said and f"the column {name!r} is taken as text: {said}")
        if folded:
            _say(_several_ways(table, name, f"categories=[{name!r}] keeps them apart"))
        others = not chosen and self.encoding == "one-hot" and len(values) > MOST_CATEGORIES
        if others:
            counts = dict(zip(held, np.bincount(codes, minlength=len(held)), strict=True))
            _say(
                f"the column {name!r} has {len(values):,} different texts: the {MOST_CATEGORIES} commonest have an "
                f"input each, and all others one together; categories=[{name!r}] gives each its own, and "
                f"ignore=[{name!r}] leaves the column out"
            )
            values = ordered([*sorted(values, key=lambda each: -counts[each])[:MOST_CATEGORIES]])
        return Category(name, type_, values, absent, self.encoding, folded, others)


def _say(sentence: str) -> None:
    if sentence:
        warnings.warn(sentence, DataWarning, stacklevel=5)


def _several_ways(table: Any, name: str, remedy: str) -> str:
    """What is said of texts that differ in spaces and the case of letters only; nothing of others."""
    groups: dict[str, list[str]] = {}
    for each in plain(table[name]).unique().to_pylist():
        if isinstance(each, str) and each.strip():
            groups.setdefault(each.strip().casefold(), []).append(each)
    several = [repr(each) for group in groups.values() if len(group) > 1 for each in sorted(group)]
    if not several:
        return ""
    return f"the column {name!r} writes the same in several ways, taken as one: {listed(several, 6)}; {remedy}"


def spelled(table: Any, name: str, held: list[Any], codes: Any) -> tuple[Written | None, str]:
    """The way in which the numbers or dates of a column of text are written, if they are; and what is said of it.

    Text that is nothing but digits stays text: it was meant as such, or has zeros in front, as postal codes have.

    Raises
    ------
    DataError
        For text among numbers: more likely a slip than a category.
    """
    counts = np.bincount(codes, minlength=len(held)).tolist()
    rows = {each: count for each, count in zip(held, counts, strict=True) if each is not None and count}
    found, most = best([*rows], [*rows.values()])
    bare = [each for each in rows if number(each) is not None]
    total, count = sum(rows.values()), sum(rows[each] for each in bare)
    zeros = [each for each in bare if re.fullmatch(r"0\d+", each)]
    if zeros and 2 * count > total:
        return None, f"{zeros[0]!r} begins with a zero, which a number would lose"
    if count == total or 2 * max(most, count) <= total:
        return None, ""
    if most == total:
        if found is None:
            unclear = next(iter(rows))
            return None, f"{unclear!r} can be read in two ways; write dates as 2024-05-31, and numbers as 1234.5"
        example = next((each for each in rows if number(each) is None), "")
        said = f"the column {name!r} is read as {found.kind}: {example!r} is {found.told(example)}"
        return found, f"{said}; categories=[{name!r}] keeps the texts"
    is_wrong = [each is not None and (number if found is None else found.parse)(each) is None for each in held]
    row = int(np.flatnonzero(np.array(is_wrong)[codes])[0])
    if 2 * count <= total:
        meant = "date" if found is not None and found.dates else "number"
        return None, f"{place(table, row, name)}: {held[codes[row]]!r} is no {meant}, and most others are one"
    raise DataError(
        f"{place(table, row, name)}: the text {held[codes[row]]!r} stands where a number belongs, as {count:,} other "
        f"rows have one; mend it, leave the cell empty, or take the column as categories=[{name!r}]"
    )


def counting(table: Any, column: Number | Category) -> str:
    """What is said of numbers that only count the rows; nothing of others."""
    if isinstance(column, Category) or column.dates or table.num_rows < FEW:
        return ""
    values = column.read(table)
    if not (values[1:] - values[:-1] == 1).all():
        return ""
    return (
        f"the column {column.name!r} counts the rows, from {values[0]:g} to {values[-1]:g}; if it is nothing but their "
        f"number, leave it out with ignore=[{column.name!r}]"
    )


def decided(table: Any, name: str, task: str | None, rows: Any, standardize: bool, kinds: bool) -> Target:
    """What is to be learned of a column, and whether those are classes or numbers.

    Texts are classes as they are, the case of letters included, where `kinds` says so.

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
    written: Written | None = None
    folded = found == "text" and not kinds
    if folded and task != "classification":
        written, said = spelled(table, name, held, codes)
        _say(said if written is not None and not written.dates else "")
        written = None if written is not None and written.dates else written
    if folded and written is None:
        held, codes = merged(held, codes)
    values = ordered(held)
    integers = found == "number" and all(isinstance(each, int) for each in values)
    whole = integers and not pa.types.is_floating(column.type)
    if written is not None:
        why = f"holds {written.kind}"
    elif found == "text":
        why = "holds text"
    elif found == "truth":
        why = "holds truth values"
    elif whole:
        why = f"holds integers, of which {len(values):,} {'are' if len(values) > 1 else 'is'} different"
    else:
        why = "holds numbers"
    few = whole and len(values) <= FEW and 2 * len(values) <= len(codes)
    classes = written is None and (found != "number" or few)
    chosen = task or ("classification" if classes else "regression")
    reason = f"the target {name!r} {why}: {chosen}" + (", as was asked for" if task else "")
    if len(values) == 1:
        raise DataError(f"the target {name!r} is {values[0]!r} in all rows; there is nothing to learn")
    if chosen == "classification":
        _say(_several_ways(table, name, f"categories=[{name!r}] keeps them apart") if folded else "")
        return Target(name, chosen, reason, found, values, 0.0, 1.0, folded=folded)
    chosen_rows = numbers(table, name, False, written)[rows]
    if chosen_rows.min() == chosen_rows.max():
        raise DataError(f"the target {name!r} is {chosen_rows[0]:g} in all rows to train on; there is nothing to learn")
    center, scale = spread(chosen_rows) if standardize else (0.0, 1.0)
    return Target(name, chosen, reason, found, (), center, scale, *(written or ()))
