"""How one column of a table becomes numbers: what is kept of the rows it was made from, and what it does to others.

Each kind is a frozen dataclass of plain values, so that it is written to JSON and read again as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from micrograd_core.data.errors import DataError, listed, nearest, needed
from micrograd_core.data.reading import place

Cell = str | bool | int | float
"""A category: what a cell holds."""


def kind(type_: Any) -> str:
    """What a column of a pyarrow type holds: ``number``, ``truth``, ``text``, ``date``, ``nothing``; or the type."""
    types = needed("pyarrow.types", "a table")
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
    pa = needed("pyarrow", "a table")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind(column.type) == "text":
        column = column.cast(pa.large_string())
    if pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float64())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def number(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


# ── numbers and dates ────────────────────────────────────────────────────────────────────────────────────────


def numbers(table: Any, name: str, dates: bool) -> Any:
    """A column as float64, NaN where nothing is; dates as days since 1970.

    Raises
    ------
    DataError
        For text, and for what is infinite.
    """
    np, pa = needed("numpy", "a table"), needed("pyarrow", "a table")
    column = plain(table[name])
    found = kind(column.type)
    if found == "text":
        values = np.array([_parsed(table, name, row, each, dates) for row, each in enumerate(column.to_pylist())])
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


def _parsed(table: Any, name: str, row: int, text: str | None, dates: bool) -> float:
    if text is None or not text.strip():
        return math.nan
    found = None if dates else number(text)
    if found is None:
        raise DataError(
            f"{place(table, row, name)}: the text {text!r} stands where a {'date' if dates else 'number'} belongs"
        )
    return found


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

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return [self.name, f"{self.name} is missing"][: 1 + self.indicator]

    def features(self, table: Any, unseen: str) -> Iterator[Any]:
        """The features of a table, each one array."""
        np = needed("numpy", "a table")
        values = numbers(table, self.name, self.dates)
        absent = np.isnan(values)
        yield standardised(table, self.name, np.where(absent, self.fill, values), self.center, self.scale)
        if self.indicator:
            yield absent.astype("float32")


def standardised(table: Any, name: str, values: Any, center: float, scale: float) -> Any:
    """``(values - center) / scale`` as float32.

    Raises
    ------
    DataError
        For what float32 does not hold.
    """
    np = needed("numpy", "a table")
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
    np = needed("numpy", "a table")
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
    np = needed("numpy", "a table")
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


def ordered(values: list[Cell | None]) -> tuple[Cell, ...]:
    """Categories in order, without that of nothing."""
    return tuple(sorted(each for each in values if each is not None))


@dataclass(frozen=True)
class Category:
    """A column of categories: a feature for each of them, or one that is a place in a list."""

    name: str
    type: str
    values: tuple[Cell, ...]
    missing: bool
    """Whether nothing is a category of its own."""
    encoding: str

    @property
    def names(self) -> list[str]:
        """Of the features."""
        if self.encoding == "index":
            return [self.name]
        return [*(f"{self.name}={each}" for each in self.values), *[f"{self.name} is missing"] * self.missing]

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

    def places(self, table: Any, unseen: str) -> Any:
        """For each row which category it has, counted from 1; 0 where nothing is, or what was never seen.

        Raises
        ------
        DataError
            For what was never seen, if that is an error.
        """
        np = needed("numpy", "a table")
        known: dict[Cell | None, int] = {value: i + 1 for i, value in enumerate(self.values)}
        found, codes = coded(table, self.name, self.type)
        new = np.array([each not in known and not (each is None and self.missing) for each in found])
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
        return np.array([known.get(each, 0) for each in found])[codes]


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

    def numbers(self, table: Any) -> Any:
        """Classes as int64, or numbers as float32.

        Raises
        ------
        DataError
            Where nothing is, and for a class that was never seen.
        """
        np = needed("numpy", "a table")
        if self.task == "regression":
            return standardised(table, self.name, complete(table, self.name), self.center, self.scale)
        held, codes = coded(table, self.name, self.type)
        refuse_absent(self.name, [each is None for each in held], codes)
        known: dict[Cell | None, int] = {value: i for i, value in enumerate(self.classes)}
        at = np.flatnonzero(np.array([each not in known for each in held])[codes])
        if len(at):
            raise DataError(
                f"{place(table, int(at[0]), self.name)}: the class {held[codes[at[0]]]!r} was never seen; known are "
                f"{listed(map(repr, self.classes))}"
            )
        return np.array([known.get(each, 0) for each in held])[codes]

    def inverse(self, y: Any) -> Any:
        """What `numbers` was given for what it gives."""
        if self.task == "regression":
            return y.astype("float64") * self.scale + self.center
        if y.dtype.kind not in "iu" or (y.size and not 0 <= y.min() <= y.max() < len(self.classes)):
            raise DataError(f"classes are integers from 0 to {len(self.classes) - 1}, as argmax gives them")
        return [self.classes[i] for i in y.reshape(-1).tolist()]


def complete(table: Any, name: str) -> Any:
    """A column of numbers of which none is missing."""
    np = needed("numpy", "a table")
    values = numbers(table, name, False)
    refuse_absent(name, [False, True], np.isnan(values).astype("int64"))
    return values


def refuse_absent(name: str, absent: list[bool], codes: Any) -> None:
    """Refuse a target that is missing in some rows; `absent` says of which codes they are."""
    np = needed("numpy", "a table")
    rows = np.flatnonzero(np.array(absent)[codes])
    if len(rows):
        raise DataError(
            f"the target {name!r} is missing in {'row' if len(rows) == 1 else f'{len(rows):,} rows:'} "
            f"{listed((row + 1 for row in rows.tolist()), 8)}; fill in what belongs there, or leave such rows out"
        )
