"""How one column of a table becomes numbers: what is kept of the rows it was made from, and what it does to others.

Each kind is a frozen dataclass of plain values, so that it is written to JSON and read again as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from micrograd_core.data.errors import DataError, listed
from micrograd_train.notices import nearest
from micrograd_train.tables.reading import place
from micrograd_train.tables.written import Written, day, number

Cell = str | bool | int | float
"""A category: what a cell holds."""


def kind(type_: Any) -> str:
    """What a column of a pyarrow type holds: ``number``, ``truth``, ``text``, ``date``, ``nothing``; or the type."""
    types = pa.types
    if types.is_dictionary(type_):
        return kind(type_.value_type)
    for word, tests in (
        ("number", "is_integer is_floating is_decimal"),
        ("truth", "is_boolean"),
        ("text", "is_string is_large_string is_string_view"),
        ("date", "is_temporal"),
        ("nothing", "is_null"),
    ):
        if any(getattr(types, test)(type_) for test in tests.split()):
            return word
    return str(type_)


def plain(column: Any) -> Any:
    """A column as one array, without a dictionary, in types that everything is made for."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind(column.type) == "text":
        column = column.cast(pa.large_string())
    if pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float64())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


# ── numbers and dates ────────────────────────────────────────────────────────────────────────────────────────


def numbers(table: Any, name: str, dates: bool, written: Written | None = None) -> Any:
    """A column as float64, NaN where nothing is; dates as days since 1970; texts as they are `written`.

    Raises
    ------
    DataError
        For text, and for what is infinite.
    """
    column = plain(table[name])
    found = kind(column.type)
    if found == "text":
        values = _parsed(np, table, name, column, written or (Written("ymd") if dates else None))
    elif found == "date" and dates:
        values = _days(np, pa, column)
    elif found in ("number", "truth", "nothing") and not (dates and found != "nothing"):
        if found == "truth":
            column = column.cast(pa.int8())
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        meant = "dates" if dates else "numbers"
        raise DataError(f"the column {name!r} holds {told(found)}, and {meant} belong there")
    values = np.asarray(values, dtype="float64")
    endless = np.flatnonzero(np.isinf(values))
    if len(endless):
        raise DataError(f"{place(table, int(endless[0]), name)}: {values[endless[0]]} is no number to learn from")
    return values


def told(found: str) -> str:
    """What `kind` says, for errors."""
    return {"number": "numbers", "truth": "truth values", "text": "text", "date": "dates"}.get(found, found)


def _parsed(np: Any, table: Any, name: str, column: Any, written: Written | None) -> Any:
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    parse = number if written is None else written.parse
    found = [parse(text) if text.strip() else math.nan for text in texts]
    places = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(np.array([each is None for each in found] + [False])[places])
    if len(wrong):
        row = int(wrong[0])
        meant = "date" if written is not None and written.dates else "number"
        raise DataError(
            f"{place(table, row, name)}: the text {texts[places[row]]!r} stands where a {meant} belongs"
            + (f", written as those that were learned from, in {written.unit}" if written and written.unit else "")
        )
    return np.array([*found, math.nan])[places]


def _days(np: Any, pa: Any, column: Any) -> Any:
    types = pa.types
    if types.is_time(column.type):
        unit = column.type.unit
        whole = column.cast(pa.int32() if types.is_time32(column.type) else pa.int64())
    elif types.is_duration(column.type) or types.is_timestamp(column.type):
        unit, whole = column.type.unit, column.cast(pa.int64())
    elif types.is_date32(column.type):
        return column.cast(pa.int32()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    elif types.is_date64(column.type):
        unit, whole = "ms", column.cast(pa.int64())
    else:
        raise DataError(f"dates of type {column.type} are not turned into numbers")
    days = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit] * 86400
    return whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / days


@dataclass(frozen=True)
class Number:
    """A column of numbers, or of dates: ``(x - center) / scale``, and `fill` where nothing is."""

    name: str
    dates: bool
    fill: float
    center: float
    scale: float
    indicator: bool
    """Whether a second feature says that nothing was there."""
    written: str = ""
    """How texts are written, where the column held such: see `Written`."""
    unit: str = ""

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return [self.name, f"{self.name} is missing"][: 1 + self.indicator]

    def features(self, table: Any, unseen: str) -> Iterator[Any]:
        """The features of a table, each one array."""
        values = self.read(table)
        absent = np.isnan(values)
        yield standardised(table, self.name, np.where(absent, self.fill, values), self.center, self.scale)
        if self.indicator:
            yield absent.astype("float32")

    @property
    def sample(self) -> float | str:
        """What may stand in a cell."""
        return day(self.fill) if self.dates else float(f"{self.fill:.4g}")

    def read(self, table: Any) -> Any:
        """The column as float64, NaN where nothing is."""
        return numbers(table, self.name, self.dates, as_written(self))


def as_written(column: Number | Target) -> Written | None:
    """How the texts of a column are written; None where it held none."""
    return Written(column.written, column.unit) if column.written else None


def standardised(table: Any, name: str, values: Any, center: float, scale: float) -> Any:
    """``(values - center) / scale`` as float32.

    Raises
    ------
    DataError
        For what float32 does not hold.
    """
    with np.errstate(over="ignore"):
        found = ((values - center) / scale).astype("float32")
    at = np.flatnonzero(np.isinf(found))
    if len(at):
        raise DataError(
            f"{place(table, int(at[0]), name)}: {values[at[0]]:g} is too large beside what was learned from; float32 "
            "does not hold it"
        )
    return found


def spread(values: Any) -> tuple[float, float]:
    """Mean and standard deviation, without overflow."""
    most = float(np.abs(values).max()) or 1.0
    scaled = values / most
    mean = float(scaled.mean())
    return mean * most, float(np.sqrt(((scaled - mean) ** 2).mean())) * most


# ── categories ───────────────────────────────────────────────────────────────────────────────────────────────


def category(value: Any, type_: str) -> Cell | None:
    """A cell as a category of text, truth values or numbers; None where nothing is."""
    if value is None or value != value:
        return None
    if type_ == "text":
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return str(value).strip() or None
    if isinstance(value, str):
        text = value.strip()
        if type_ == "truth":
            return {"true": True, "false": False}.get(text.lower(), text)
        found = number(text)
        return text if found is None else found
    return int(value) if isinstance(value, float) and value.is_integer() else value


def coded(table: Any, name: str, type_: str) -> tuple[list[Cell | None], Any]:
    """The categories that a column holds, in no order; and for each row the place of its own in that list."""
    column = plain(table[name])
    if kind(column.type) == "nothing":
        return [None], np.zeros(len(column), dtype="int64")
    encoded = column.dictionary_encode()
    found: dict[Cell | None, int] = {}
    told = [found.setdefault(category(each, type_), len(found)) for each in encoded.dictionary.to_pylist()]
    nothing = found.setdefault(None, len(found))
    codes = np.array([*told, nothing])
    places = encoded.indices.fill_null(len(told)).to_numpy(zero_copy_only=False).astype("int64")
    return [*found], codes[places]


def key(value: Cell | None, folded: bool) -> Cell | None:
    """What tells a category from others: not the case of its letters, where it is `folded`."""
    return value.casefold() if folded and isinstance(value, str) else value


def merged(held: list[Cell | None], codes: Any) -> tuple[list[Cell | None], Any]:
    """Categories that differ in the case of letters as one, which is called as most rows call it."""
    counts = np.bincount(codes, minlength=len(held)).tolist()
    groups: dict[Cell | None, list[int]] = {}
    for i, each in enumerate(held):
        groups.setdefault(key(each, True), []).append(i)
    renamed = np.empty(len(held), dtype="int64")
    for new, old in enumerate(groups.values()):
        renamed[old] = new
    return [held[min(old, key=lambda i: (-counts[i], str(held[i])))] for old in groups.values()], renamed[codes]


def ordered(values: list[Cell | None]) -> tuple[Cell, ...]:
    """Categories in order, without that of nothing."""
    return tuple(sorted(each for each in values if each is not None))


@dataclass(frozen=True)
class Category:
    """A column of categories: a feature for each of them, or one that is a place in a list.

    Where there are `others`, they have a feature together, and so has what was never seen.
    """

    name: str
    type: str
    values: tuple[Cell, ...]
    missing: bool
    """Whether nothing is a category of its own."""
    encoding: str
    folded: bool = False
    """Whether the case of letters tells nothing."""
    others: bool = False

    @property
    def names(self) -> list[str]:
        """Of the features."""
        if self.encoding == "index":
            return [self.name]
        more = [f"{self.name} is missing"] * self.missing + [f"{self.name} is another"] * self.others
        return [*(f"{self.name}={each}" for each in self.values), *more]

    @property
    def sample(self) -> Cell:
        """What may stand in a cell."""
        return self.values[0]

    def features(self, table: Any, unseen: str) -> Iterator[Any]:
        """The features of a table, each one array."""
        places = self.places(table, unseen)
        if self.encoding == "index":
            yield places.astype("float32")
            return
        for i in range(len(self.values)):
            yield (places == i + 1).astype("float32")
        if self.missing:
            yield (places == 0).astype("float32")
        if self.others:
            yield (places == len(self.values) + 1).astype("float32")

    def places(self, table: Any, unseen: str) -> Any:
        """For each row which category it has, counted from 1; 0 where nothing is, or what was never seen.

        The others, where there are such, are the last one.

        Raises
        ------
        DataError
            For what was never seen, if that is an error.
        """
        known = {key(value, self.folded): i + 1 for i, value in enumerate(self.values)}
        found, codes = coded(table, self.name, self.type)
        keys = [key(each, self.folded) for each in found]
        new = np.array([each not in known and not (self.missing if each is None else self.others) for each in keys])
        at = np.flatnonzero(new[codes])
        if len(at) and unseen == "error":
            each = found[codes[at[0]]]
            more = f" ({len(at):,} rows have such)" if len(at) > 1 else ""
            told = "nothing stands there" if each is None else f"the category {each!r} was never seen"
            near = nearest(str(each), [str(value) for value in self.values]) if each is not None else ""
            raise DataError(
                f"{place(table, int(at[0]), self.name)}: {told}{more}; known are {listed(map(repr, self.values))}"
                f"{near or '.'} With unseen='missing' such rows count as missing"
            )
        other = len(self.values) + 1 if self.others else 0
        return np.array([known.get(each, 0 if each is None else other) for each in keys])[codes]


# ── targets ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Target:
    """What is to be learned: classes in their order, or numbers by their mean and spread."""

    name: str
    task: str
    reason: str
    type: str
    classes: tuple[Cell, ...]
    center: float
    scale: float
    written: str = ""
    unit: str = ""
    folded: bool = False

    def numbers(self, table: Any) -> Any:
        """Classes as int64, or numbers as float32.

        Raises
        ------
        DataError
            Where nothing is, and for a class that was never seen.
        """
        if self.task == "regression":
            return standardised(table, self.name, self.read(table), self.center, self.scale)
        held, codes = coded(table, self.name, self.type)
        refuse_absent(self.name, [each is None for each in held], codes)
        known = {key(value, self.folded): i for i, value in enumerate(self.classes)}
        keys = [key(each, self.folded) for each in held]
        at = np.flatnonzero(np.array([each not in known for each in keys])[codes])
        if len(at):
            raise DataError(
                f"{place(table, int(at[0]), self.name)}: the class {held[codes[at[0]]]!r} was never seen; known are "
                f"{listed(map(repr, self.classes))}"
            )
        return np.array([known.get(each, 0) for each in keys])[codes]

    def read(self, table: Any) -> Any:
        """A column of numbers, of which none may be missing, as float64."""
        values = numbers(table, self.name, False, as_written(self))
        refuse_absent(self.name, [False, True], np.isnan(values).astype("int64"))
        return values

    def inverse(self, y: Any) -> Any:
        """What `numbers` was given for what it gives."""
        if self.task == "regression":
            return y.astype("float64") * self.scale + self.center
        if y.dtype.kind not in "iu" or (y.size and not 0 <= y.min() <= y.max() < len(self.classes)):
            raise DataError(f"classes are integers from 0 to {len(self.classes) - 1}, as argmax gives them")
        return [self.classes[i] for i in y.reshape(-1).tolist()]


def refuse_absent(name: str, absent: list[bool], codes: Any) -> None:
    """Refuse a target that is missing in some rows; `absent` says of which codes they are."""
    rows = np.flatnonzero(np.array(absent)[codes])
    if len(rows):
        raise DataError(
            f"the target {name!r} is missing in {'row' if len(rows) == 1 else f'{len(rows):,} rows:'} "
            f"{listed((row + 1 for row in rows.tolist()), 8)}; fill in what belongs there, or leave such rows out"
        )
