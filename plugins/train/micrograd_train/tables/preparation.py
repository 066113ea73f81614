"""`Preparation`: from a table to the numbers that a network takes, learned from some rows and the same for all others.

It is plain values throughout, is written to JSON with the model, and does the same to a table years later.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from micrograd_core.array.tensor import Tensor
from micrograd_core.data.errors import DataError, listed
from micrograd_train.notices import DataWarning, nearest
from micrograd_train.tables.columns import Category, Cell, Number, Target, plain
from micrograd_train.tables.decisions import Settings, counting, decided
from micrograd_train.tables.reading import read
from micrograd_train.tables.written import WAYS


@dataclass(frozen=True)
class Preparation:
    """How tables become numbers: made by `fit`, applied by `apply`, kept by `to_json`.

    Parameters
    ----------
    columns : tuple
        Of the table, those that features are made of: each a `Number` or a `Category`.
    goal : Target or None
        What is known of the target.
    left_out : dict of str to str
        Columns that nothing is made of, with the reason.
    unseen : str
        What is done with a category that was never seen: ``"error"`` or ``"missing"``.

    Examples
    --------
    >>> from micrograd_train import Preparation
    >>> table = {"cm": [1.0, 2.0, 3.0, None], "kind": ["a", "b", "b", "a"], "sold": [True, False, False, True]}
    >>> preparation = Preparation.fit(table, "sold")
    >>> x, y = preparation.apply(table)
    >>> x.shape, y.tolist(), preparation.inverse(y)
    ((4, 4), [1, 0, 0, 1], [True, False, False, True])
    >>> Preparation.from_json(preparation.to_json()) == preparation
    True
    """

    columns: tuple[Number | Category, ...]
    goal: Target | None
    left_out: dict[str, str]
    unseen: str

    VERSION: ClassVar[int] = 2

    @classmethod
    def fit(
        cls,
        table: Any,
        target: str | None = None,
        *,
        rows: Any = None,
        task: str | None = None,
        categorical: str = "one-hot",
        categories: Iterable[str] = (),
        ignore: Iterable[str] = (),
        missing: str = "mean",
        indicator: bool = True,
        standardize: bool = True,
        unseen: str = "error",
    ) -> Preparation:
        """Look at a table, and decide.

        Texts and truth values are categories; numbers and dates are numbers, standardised. Columns that hold one value,
        or almost as many texts as rows, are left out with a warning.

        Parameters
        ----------
        table
            What `read` takes or gives.
        target : str, optional
            The column to be learned.
        rows : array of int, optional
            Those to train on: means, medians and spreads are theirs alone. Which categories there are all rows say.
        task : {"classification", "regression"}, optional
            By default what the target looks like: texts, truth values and few integers are classes.
        categorical : {"one-hot", "index"}
            A feature for each category; or one that is its index, from 1, for an embedding. 0 is for none.
        categories : iterable of str
            Columns that are categories, though they hold numbers, or almost as many texts as rows.
        ignore : iterable of str
            Columns to leave out.
        missing : {"mean", "median"}
            What stands for a number that is missing. A missing category is a category of its own.
        indicator : bool
            Whether another feature says that a number was missing, in columns where some are.
        standardize : bool
            Whether numbers, and those of a target, are brought to mean 0 and spread 1.
        unseen : {"error", "missing"}
            What `apply` does with a category that was never seen.

        Returns
        -------
        Preparation

        Raises
        ------
        DataError
            When the table, or the target, cannot be learned from: with the row and the column.

        Examples
        --------
        >>> from micrograd_train import Preparation
        >>> table = {"cm": [1.0, 2.0, 3.0, None], "kind": ["a", "b", "b", "a"], "sold": [True, False, False, True]}
        >>> preparation = Preparation.fit(table, "sold")
        >>> preparation.names
        ['cm', 'cm is missing', 'kind=a', 'kind=b']
        >>> x, y = preparation.apply(table)
        >>> x.shape, y.tolist(), preparation.inverse(y)
        ((4, 4), [1, 0, 0, 1], [True, False, False, True])
        """
        for name, given, possible in (
            ("task", task, (None, "classification", "regression")),
            ("categorical", categorical, ("one-hot", "index")),
            ("missing", missing, ("mean", "median")),
            ("unseen", unseen, ("error", "missing")),
        ):
            if given not in possible:
                raise DataError(f"{name} is one of {listed(map(repr, possible))}; got {given!r}")
        table = read(table)
        categories, ignore = _named(table, categories, "categories"), _named(table, ignore, "ignore")
        if target is not None:
            _named(table, [target], "target")
        if target in ignore:
            raise DataError(f"the column {target!r} is the target, and cannot be ignored")
        chosen = np.arange(table.num_rows) if rows is None else np.asarray(rows)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
            raise DataError("rows are the numbers of the rows to train on, as split gives them")
        if chosen.min() < 0 or chosen.max() >= table.num_rows:
            raise DataError(f"rows go from 0 to {table.num_rows - 1}; got {chosen.min()} to {chosen.max()}")
        goal = None if target is None else decided(table, target, task, chosen, standardize, target in categories)
        settings = Settings(categorical, missing, indicator, standardize, chosen)
        columns: list[Number | Category] = []
        left_out = dict.fromkeys(ignore, "it was to be ignored")
        for name in table.column_names:
            if name == target or name in left_out:
                continue
            found = settings.column(table, name, name in categories)
            if isinstance(found, str):
                left_out[name] = found
                warnings.warn(f"the column {name!r} is left out: {found}", DataWarning, stacklevel=2)
            else:
                columns.append(found)
        _refuse_large(table.num_rows, columns)
        if not columns:
            why = listed(f"{name!r} ({reason})" for name, reason in left_out.items()) or "there is only the target"
            raise DataError(f"no column is left to learn from: {why}")
        for said in [counting(table, each) for each in columns if len(columns) > 1]:
            if said:
                warnings.warn(said, DataWarning, stacklevel=2)
        return cls(tuple(columns), goal, left_out, unseen)

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def names(self) -> list[str]:
        """What the features are called, in order, as a list of str."""
        return [name for column in self.columns for name in column.names]

    @property
    def texts(self) -> list[str]:
        """The columns that held text when this was made, as a list of str."""
        found = [column.name for column in self.columns if getattr(column, "type", "") == "text" or _is_written(column)]
        goal = self.goal
        return found if goal is None or goal.type != "text" else [*found, goal.name]

    @property
    def numbers(self) -> list[str]:
        """The columns that held numbers when this was made, as a list of str."""
        numbers = [column for column in self.columns if isinstance(column, Number) and not column.dates]
        found = [column.name for column in numbers if not column.written]
        goal = self.goal
        return found if goal is None or goal.type != "number" else [*found, goal.name]

    @property
    def cardinalities(self) -> dict[str, int]:
        """The number of indices of each feature that is one, as a dict of str to int: the sizes of embeddings."""
        return {
            column.name: len(column.values) + 1
            for column in self.columns
            if isinstance(column, Category) and column.encoding == "index"
        }

    @property
    def target(self) -> str | None:
        """The column that is to be learned, as a str, or None."""
        return None if self.goal is None else self.goal.name

    @property
    def task(self) -> str | None:
        """``"classification"`` or ``"regression"``, as a str; None without a target."""
        return None if self.goal is None else self.goal.task

    @property
    def reason(self) -> str:
        """Why this is the task, as a str: a sentence."""
        return "" if self.goal is None else self.goal.reason

    @property
    def classes(self) -> tuple[Cell, ...]:
        """What the integers of `y` stand for, as a tuple of str, int, float or bool."""
        return () if self.goal is None else self.goal.classes

    def apply(self, table: Any) -> tuple[Any, Any]:
        """The numbers of a table.

        Parameters
        ----------
        table
            What `read` takes or gives. Columns are found by name; others than those that are needed do not matter.

        Returns
        -------
        x : numpy.ndarray
            float32, (rows, features).
        y : numpy.ndarray or None
            Classes as int64, or numbers as float32; None where the table has no target, or nothing in it.

        Raises
        ------
        DataError
            When a column is absent, or holds what was not there before: with the row and the column.
        """
        table = read(table)
        absent = [column.name for column in self.columns if column.name not in table.column_names]
        if absent:
            raise DataError(
                f"the table lacks {'the column' if len(absent) == 1 else 'columns'} {listed(map(repr, absent))}; it "
                f"has {listed(map(repr, table.column_names))}{nearest(absent[0], table.column_names)}"
            )
        _refuse_large(table.num_rows, self.columns)
        x = np.empty((table.num_rows, len(self.names)), dtype="float32")
        for i, each in enumerate(each for column in self.columns for each in column.features(table, self.unseen)):
            x[:, i] = each
        goal = self.goal
        if goal is None or goal.name not in table.column_names:
            return x, None
        if plain(table[goal.name]).null_count == table.num_rows:
            return x, None
        return x, goal.numbers(table)

    def inverse(self, y: Any) -> Any:
        """What stands in the target's column for numbers as `apply` gives them, or a network.

        Parameters
        ----------
        y : array or tensor
            Indices of classes; or standardised numbers.

        Returns
        -------
        list or numpy.ndarray
            Classes; or numbers as float64.

        Raises
        ------
        DataError
            When this preparation has no target.
        """
        if self.goal is None:
            raise DataError("this preparation has no target")
        return self.goal.inverse(np.asarray(y.detach().numpy() if isinstance(y, Tensor) else y))

    # ── as JSON ──────────────────────────────────────────────────────────────────────────────────────────────

    def to_json(self) -> dict[str, Any]:
        """Everything that this is, in what JSON has: ``json.dumps`` of it, and back, is exact.

        Returns
        -------
        dict
        """
        made: list[dict[str, Any]] = [{"kind": type(each).__name__.lower(), **_plain(each)} for each in self.columns]
        goal = None if self.goal is None else _plain(self.goal)
        return {
            "preparation": self.VERSION,
            "columns": made,
            "goal": goal,
            "left_out": dict(self.left_out),
            "unseen": self.unseen,
        }

    @classmethod
    def from_json(cls, given: dict[str, Any] | str) -> Preparation:
        """Make the preparation that `to_json` was called on.

        Parameters
        ----------
        given : dict or str
            What `to_json` returned, or that as JSON.

        Returns
        -------
        Preparation

        Raises
        ------
        DataError
            When it is none, or of a later version.
        """
        try:
            given = json.loads(given) if isinstance(given, str) else given
            version = given["preparation"]
            if version not in range(1, cls.VERSION + 1):
                raise DataError(
                    f"this preparation is of version {version!r}, and {cls.VERSION} is known; upgrade micrograd-core"
                )
            kinds: dict[str, Any] = {"number": Number, "category": Category}
            columns = [
                _made(kinds[each["kind"]], {key: value for key, value in each.items() if key != "kind"})
                for each in given["columns"]
            ]
            goal = None if given["goal"] is None else _made(Target, given["goal"])
            left_out, unseen = given["left_out"], given["unseen"]
            if (
                not columns
                or unseen not in ("error", "missing")
                or not all(isinstance(each, str) for pair in left_out.items() for each in pair)
            ):
                raise ValueError("of its settings")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"this is no preparation as to_json gives it, because of {error}") from error
        return cls(tuple(columns), goal, dict(left_out), unseen)


def most_bytes() -> int:
    """How large the numbers of a table may be: a quarter of the memory, since a training copies them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, OSError, ValueError):  # not on this system
        return 2 << 30


def _refuse_large(rows: int, columns: Iterable[Number | Category]) -> None:
    widths = {column.name: len(column.names) for column in columns}
    inputs, most = sum(widths.values()), most_bytes()
    if (takes := 4 * rows * inputs) > most:
        widest = max(widths, key=lambda name: widths[name])
        raise DataError(
            f"{rows:,} rows of {inputs:,} inputs would take {takes >> 20:,} MiB, and at most {most >> 20:,} MiB, a "
            f"quarter of the memory, are used. The column {widest!r} makes {widths[widest]:,} of them: leave it out "
            f"with ignore=[{widest!r}], or give fewer rows at a time"
        )


def _is_written(column: Number | Category) -> bool:
    return isinstance(column, Number) and bool(column.written)


def _plain(each: Any) -> dict[str, Any]:
    found = dataclasses.asdict(each)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


POSSIBLE = {
    "encoding": ("one-hot", "index"),
    "type": ("text", "truth", "number"),
    "task": ("classification", "regression"),
    "written": ("", *WAYS),
}
"""What may stand in fields of columns and targets."""


def _made(kind_: Any, given: dict[str, Any]) -> Any:
    """A dataclass of plain values, of the types that it has."""
    tests = {
        "str": lambda value: isinstance(value, str),
        "bool": lambda value: isinstance(value, bool),
        "float": lambda value: type(value) in (int, float) and math.isfinite(value),
        "tuple[Cell, ...]": lambda value: (
            isinstance(value, list)
            and all(isinstance(each, (str, bool, int, float)) and each == each for each in value)
        ),
    }
    fields = {field.name: str(field.type) for field in dataclasses.fields(kind_)}
    known = {field.name: field.default for field in dataclasses.fields(kind_)}
    added = {name: default for name, default in known.items() if default is not dataclasses.MISSING}
    given = {**added, **given}  # version 1 has fewer fields
    if given.keys() != fields.keys():
        raise ValueError(f"{listed(sorted(given.keys() ^ fields.keys()))}")
    for name, value in given.items():
        if not tests[fields[name]](value) or value not in POSSIBLE.get(name, (value,)) or (name, value) == ("scale", 0):
            raise ValueError(f"{name}={value!r}")
    return kind_(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _named(table: Any, names: Iterable[str], what: str) -> list[str]:
    chosen = [names] if isinstance(names, str) else [*names]
    for name in chosen:
        if name not in table.column_names:
            raise DataError(
                f"there is no column {name!r} for {what}; there are {listed(map(repr, table.column_names))}"
                f"{nearest(str(name), table.column_names)}"
            )
    return chosen
