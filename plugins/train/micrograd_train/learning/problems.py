"""What is to be learned: DATA and a target become rows to train on, to validate and to test with."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from micrograd_core.data import DataError
from micrograd_core.data.errors import listed
from micrograd_train import sets
from micrograd_train.dataset import Dataset
from micrograd_train.learning.inputs import Inputs
from micrograd_train.learning.noticed import noticed
from micrograd_train.learning.settings import Settings
from micrograd_train.notices import DataWarning, nearest
from micrograd_train.options import as_options
from micrograd_train.pictures import images as images_of
from micrograd_train.splitting import split
from micrograd_train.tables.preparation import Preparation
from micrograd_train.tables.reading import read

PARTS = ("train", "validation", "test")
MOST_CLASSES = 1000


@dataclass(frozen=True)
class Problem:
    """Numbers to learn from, in three parts, and what is known of them.

    Attributes
    ----------
    name : str
        What the data are called.
    about : str
        A sentence or two on them.
    reason : str
        Why this is the task.
    notes : tuple of str
        What was left out of the data, or is probably not meant.
    inputs : Inputs
    parts : dict
        Inputs and targets by `PARTS`; a part of no rows is absent.
    rows : dict
        Which rows of the data are in each, by number.
    """

    name: str
    about: str
    reason: str
    notes: tuple[str, ...]
    inputs: Inputs
    parts: dict[str, tuple[Any, Any]]
    rows: dict[str, Any]

    def shaped(self, shape: tuple[int, ...]) -> Problem:
        """Give the examples another shape."""
        parts = {name: (x.reshape(-1, *shape), y) for name, (x, y) in self.parts.items()}
        return replace(self, inputs=replace(self.inputs, shape=shape), parts=parts)

    @property
    def identity(self) -> str:
        """A sum of all that is trained on: other rows have another."""
        found = hashlib.sha256()
        for x, y in self.parts.values():
            found.update(repr((x.shape, y.shape)).encode() + x.tobytes() + y.tobytes())
        return found.hexdigest()


def problem(settings: Settings) -> Problem:
    """Read what the settings name.

    Raises
    ------
    DataError
        When it cannot be learned from: with the row and the column.
    MissingExtra
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DataWarning)
        found = _found(settings)
    notes = tuple(
        dict.fromkeys(as_options(str(each.message)) for each in caught if issubclass(each.category, DataWarning))
    )
    return replace(found, notes=notes)


def _found(settings: Settings) -> Problem:
    path = Path(settings.data)
    if settings.data in sets.NAMES:
        dataset = sets.load(settings.data, settings.seed if settings.data in MADE else 0)
        if dataset.task == "sequence" or len(dataset.shape) > 1:
            return _whole(dataset, settings.data, settings)
        return _table(dataset.table(), settings.data, dataset.description, settings.target or dataset.target, settings)
    if path.is_dir():
        return _whole(images_of(path), path.resolve().name, settings)
    if not path.exists() and not path.suffix:
        raise DataError(
            f"there is no file, folder or built-in set {settings.data!r}; built in are {listed(sets.NAMES, 99)}"
            f"{nearest(settings.data, sets.NAMES)}"
        )
    table = read(path)
    if settings.target is None:
        raise DataError(
            f"which column of {path.name} is to be learned? Say --target COLUMN; there are "
            f"{listed(map(repr, table.column_names))}"
        )
    about = f"{table.num_rows:,} rows and {table.num_columns:,} columns of {path.name}."
    return _table(table, path.name, about, settings.target, settings)


MADE = frozenset(sets.NAMES) - {"digits", "iris", "wine", "breast_cancer", "diabetes"}
"""Sets that a seed makes; the others are what they are."""


def _fractions(settings: Settings) -> tuple[float, float, float]:
    return 1 - settings.validation - settings.test, settings.validation, settings.test


def _table(table: Any, name: str, about: str, target: str, settings: Settings) -> Problem:
    fit = partial(Preparation.fit, table, target, ignore=settings.ignore, categories=settings.categories)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        goal = fit(task=settings.task)
    labels: Any = table.num_rows
    if goal.goal is not None and goal.task == "classification":
        if len(goal.classes) > MOST_CLASSES:
            raise DataError(
                f"the target {target!r} holds {len(goal.classes):,} different values, and a network learns at most "
                f"{MOST_CLASSES:,} classes; take a coarser column"
            )
        labels = goal.goal.inverse(goal.goal.numbers(table))
    chosen = dict(zip(PARTS, split(labels, _fractions(settings), seed=settings.seed, column=target), strict=True))
    made = fit(task=goal.task, rows=chosen["train"])
    x, y = made.apply(table)
    for said in noticed(table, made, x, y, chosen):
        warnings.warn(said, DataWarning, stacklevel=2)
    inputs = Inputs("table", str(made.task), target, tuple(made.names), tuple(made.classes), x.shape[1:], made)
    return Problem(name, about, goal.reason, (), inputs, _parts(x, y, chosen), chosen)


def _whole(dataset: Dataset, name: str, settings: Settings) -> Problem:
    """Images and sequences, which come as they are."""
    if settings.task not in (None, dataset.task):
        raise DataError(f"{name} is for {dataset.task}, and --task {settings.task} was asked for; leave it out")
    if settings.target not in (None, dataset.target):
        raise DataError(
            f"what {name} teaches is called {dataset.target!r}, not {settings.target!r}; leave --target out"
        )
    if settings.ignore or settings.categories:
        option = "ignore" if settings.ignore else "categories"
        raise DataError(f"{name} has no columns, and --{option} is for tables; leave it out")
    kind = "tokens" if dataset.task == "sequence" else "pixels" if dataset.names else "images"
    labels = len(dataset) if kind == "tokens" else dataset.y
    chosen = dict(
        zip(PARTS, split(labels, _fractions(settings), seed=settings.seed, column=dataset.target), strict=True)
    )
    image = dataset.shape if kind != "tokens" else ()
    inputs = Inputs(
        kind, dataset.task, dataset.target, dataset.names, dataset.classes, dataset.shape, None, tuple(image)
    )
    reason = f"{name} is a set of {'sequences' if kind == 'tokens' else 'images by class'}: {dataset.task}"
    return Problem(name, dataset.description, reason, (), inputs, _parts(dataset.x, dataset.y, chosen), chosen)


def _parts(x: Any, y: Any, chosen: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (x[rows], y[rows]) for name, rows in chosen.items() if len(rows)}
