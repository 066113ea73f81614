"""Sets to learn from that need no download: those of scikit-learn, and some that are made here from a seed.

`load` gives each by its name; `NAMES` are all of them. Those made here may be made in other sizes, by the functions of
their names.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from micrograd_core.data.errors import DataError, listed
from micrograd_core.ops import TABLE
from micrograd_train.dataset import Dataset
from micrograd_train.notices import nearest

Made = Callable[..., Dataset]


def load(name: str, seed: int = 0, **options: Any) -> Dataset:
    """A built-in set by its name.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    seed : int
        For the sets that are made here; the others are what they are.
    **options
        What the function of that name takes besides: ``load("spirals", classes=5)``.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        When no set is called so.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> sets.load("iris")
    <Dataset for classification: 150 examples of 4, 3 classes>
    >>> sets.load("spirals", classes=5).x.shape
    (1000, 2)
    """
    if name in _BUNDLED:
        if options:
            raise DataError(f"{name} is what it is, and takes no {listed(options)}")
        return _bundled(name)
    if name not in _MADE:
        raise DataError(f"no set is called {name!r}; there are {listed(NAMES, 99)}{nearest(str(name), NAMES)}")
    return _MADE[name](seed=operator.index(seed), **options)


# ── scikit-learn's ───────────────────────────────────────────────────────────────────────────────────────────

_BUNDLED = {
    "digits": "1,797 handwritten digits of 8 × 8 pixels, brightness from 0 to 1 (Alpaydin and Kaynak, 1998).",
    "iris": "150 flowers of three species of iris, by the length and width of their leaves in cm (Fisher, 1936).",
    "wine": "178 wines of three growers of one region, by 13 chemical measurements (Forina and others, 1991).",
    "breast_cancer": "569 tumours, malignant or benign, by 30 measurements of cell nuclei (Street and others, 1993).",
    "diabetes": "442 people with diabetes, by 10 measurements; the target is how far the disease went in a year "
    "(Efron and others, 2004).",
}


def _bundled(name: str) -> Dataset:
    found = getattr(import_module("sklearn.datasets"), f"load_{name}")()
    classes = tuple(str(each) for each in getattr(found, "target_names", ()))
    x, shape = found.data, found.data.shape[1:]
    if name == "digits":
        x, shape = x / 16, (1, 8, 8)
    return Dataset(
        x=np.ascontiguousarray(x.reshape(-1, *shape), dtype="float32"),
        y=np.ascontiguousarray(found.target, dtype="int64" if classes else "float32"),
        names=tuple(str(each) for each in found.feature_names),
        classes=classes,
        task="classification" if classes else "regression",
        shape=tuple(shape),
        description=_BUNDLED[name],
        target={"digits": "digit", "iris": "species", "wine": "grower", "breast_cancer": "diagnosis"}.get(
            name, "progression"
        ),
    )


# ── points in the plane ──────────────────────────────────────────────────────────────────────────────────────


def _random(seed: int) -> Any:
    """NumPy's generator whose numbers never change from version to version."""
    return np, np.random.RandomState(operator.index(seed) % 2**32)


def _counted(name: str, value: int, least: int) -> int:
    value = operator.index(value)
    if value < least:
        raise DataError(f"{name} is {least} or more; got {value}")
    return value


def _points(np: Any, random: Any, groups: list[Any], noise: float, description: str) -> Dataset:
    """Points of each class, with noise, in random order."""
    if not noise >= 0:
        raise DataError(f"noise is the spread around the curves, 0 or more; got {noise}")
    x = np.concatenate(groups)
    y = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    x = x + noise * random.standard_normal(x.shape)
    order = random.permutation(len(y))
    return Dataset(
        x=x[order].astype("float32"),
        y=y[order].astype("int64"),
        names=("x", "y"),
        classes=tuple(str(i) for i in range(len(groups))),
        task="classification",
        shape=(2,),
        description=description,
        target="class",
    )


def moons(n: int = 1000, *, noise: float = 0.15, seed: int = 0) -> Dataset:
    """Points on two half circles that reach into each other.

    Parameters
    ----------
    n : int, default 1000
        How many points, 2 or more.
    noise : float, default 0.15
        The spread around the curves.
    seed : int, default 0
        The same seed gives the same points.

    Returns
    -------
    Dataset
        With `x` float32 (n, 2) and two classes.

    Raises
    ------
    DataError
        When a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> sets.moons(100)
    <Dataset for classification: 100 examples of 2, 2 classes>
    """
    np, random = _random(seed)
    n = _counted("n", n, 2)
    upper, lower = (math.pi * random.random_sample(count) for count in (n - n // 2, n // 2))
    groups = [np.stack([np.cos(upper), np.sin(upper)], 1), np.stack([1 - np.cos(lower), 0.5 - np.sin(lower)], 1)]
    return _points(np, random, groups, noise, f"{n:,} points on two half circles that reach into each other.")


def circles(n: int = 1000, *, noise: float = 0.08, inner: float = 0.5, seed: int = 0) -> Dataset:
    """Points on a circle of radius 1, and on one inside it.

    Parameters
    ----------
    n : int, default 1000
        How many points, 2 or more.
    noise : float, default 0.08
        The spread around the curves.
    inner : float, default 0.5
        The radius of the circle inside.
    seed : int, default 0
        The same seed gives the same points.

    Returns
    -------
    Dataset
        With `x` float32 (n, 2) and two classes.

    Raises
    ------
    DataError
        When a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> sets.circles(100)
    <Dataset for classification: 100 examples of 2, 2 classes>
    """
    np, random = _random(seed)
    n = _counted("n", n, 2)
    outside, inside = (2 * math.pi * random.random_sample(count) for count in (n - n // 2, n // 2))
    groups = [np.stack([np.cos(outside), np.sin(outside)], 1), inner * np.stack([np.cos(inside), np.sin(inside)], 1)]
    return _points(np, random, groups, noise, f"{n:,} points on a circle and on one inside it.")


def spirals(n: int = 1000, *, classes: int = 3, turns: float = 1.0, noise: float = 0.02, seed: int = 0) -> Dataset:
    """Points on the arms of a spiral, of which there are as many as classes.

    Parameters
    ----------
    n : int, default 1000
        How many points, at least one for each class.
    classes : int, default 3
        How many arms, 2 or more.
    turns : float, default 1
        How often an arm goes around.
    noise : float, default 0.02
        The spread around the curves.
    seed : int, default 0
        The same seed gives the same points.

    Returns
    -------
    Dataset
        With `x` float32 (n, 2).

    Raises
    ------
    DataError
        When a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> sets.spirals(100, classes=5)
    <Dataset for classification: 100 examples of 2, 5 classes>
    """
    np, random = _random(seed)
    classes = _counted("classes", classes, 2)
    n = _counted("n", n, classes)
    groups = []
    for arm in range(classes):
        radius = np.sqrt(random.random_sample(n // classes + (arm < n % classes)))
        angle = 2 * math.pi * (arm / classes + turns * radius)
        groups.append(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1))
    return _points(np, random, groups, noise, f"{n:,} points on {classes} arms of a spiral.")


# ── sequences ────────────────────────────────────────────────────────────────────────────────────────────────


def _sequences(x: Any, y: Any, classes: tuple[str, ...], description: str, target: str) -> Dataset:
    return Dataset(
        x=x.astype("int64"),
        y=y.astype("int64"),
        names=tuple(f"position {i}" for i in range(x.shape[1])),
        classes=classes,
        task="sequence",
        shape=x.shape[1:],
        description=description,
        target=target,
    )


def _drawn(n: int, length: int, tokens: int, seed: int) -> tuple[Any, tuple[str, ...]]:
    _, random = _random(seed)
    tokens = _counted("tokens", tokens, 2)
    x = random.randint(0, tokens, (_counted("n", n, 1), _counted("length", length, 1)))
    return x, tuple(str(i) for i in range(tokens))


def reverse(n: int = 2000, *, length: int = 10, tokens: int = 10, seed: int = 0) -> Dataset:
    """Sequences of random tokens, to be said backwards.

    Parameters
    ----------
    n : int, default 2000
        How many sequences.
    length, tokens : int, default 10
        The tokens of a sequence, and how many different ones there are.
    seed : int, default 0
        The same seed gives the same sequences.

    Returns
    -------
    Dataset
        With `x` and `y` int64 (n, length).

    Raises
    ------
    DataError
        When a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> pairs = sets.reverse(3, length=4)
    >>> (pairs.y == pairs.x[:, ::-1]).all()
    np.True_
    """
    x, classes = _drawn(n, length, tokens, seed)
    return _sequences(x, x[:, ::-1], classes, f"{n:,} sequences of {length} tokens, to be said backwards.", "backwards")


def copy(n: int = 2000, *, length: int = 10, tokens: int = 10, seed: int = 0) -> Dataset:
    """Sequences of random tokens, to be repeated as they are.

    Parameters
    ----------
    n : int, default 2000
        How many sequences.
    length, tokens : int, default 10
        The tokens of a sequence, and how many different ones there are.
    seed : int, default 0
        The same seed gives the same sequences.

    Returns
    -------
    Dataset
        With `x` and `y` int64 (n, length).

    Raises
    ------
    DataError
        When a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> pairs = sets.copy(3, length=4)
    >>> (pairs.y == pairs.x).all()
    np.True_
    """
    x, classes = _drawn(n, length, tokens, seed)
    return _sequences(x, x.copy(), classes, f"{n:,} sequences of {length} tokens, to be said again.", "again")


def addition(n: int = 5000, *, digits: int = 2, seed: int = 0) -> Dataset:
    """Sums as text, ``12+34=``; the answer stands at the right of as many places, after blanks.

    Parameters
    ----------
    n : int, default 5000
        How many sums.
    digits : int, default 2
        The digits of each summand, from 1 to 9.
    seed : int, default 0
        The same seed gives the same sums.

    Returns
    -------
    Dataset
        With `x` and `y` int64 (n, 2 * digits + 2), of 13 characters.

    Raises
    ------
    DataError
        When a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> sets.addition(10).x.shape
    (10, 6)
    """
    np, random = _random(seed)
    digits = _counted("digits", digits, 1)
    if digits > 9:
        raise DataError(f"digits is 9 or less; got {digits}")
    a, b = random.randint(0, 10**digits, (2, _counted("n", n, 1)))
    alphabet = "0123456789+= "
    length = 2 * digits + 2
    asked = [f"{i:0{digits}}+{j:0{digits}}=" for i, j in zip(a.tolist(), b.tolist(), strict=True)]
    answers = [f"{i + j:>{length}}" for i, j in zip(a.tolist(), b.tolist(), strict=True)]
    x, y = (np.array([[alphabet.index(each) for each in text] for text in texts]) for texts in (asked, answers))
    return _sequences(x, y, tuple(alphabet), f"{n:,} sums of two numbers of {digits} digits, as text.", "answer")


def characters(text: str | None = None, *, length: int = 64, step: int | None = None, seed: int = 0) -> Dataset:
    """Pieces of a text; `y` has at each place the character that follows that of `x`.

    Parameters
    ----------
    text : str, optional
        By default the sentences that describe the operations of this library.
    length : int, default 64
        Characters in a piece.
    step : int, optional
        From one piece to the next; by default `length`, so that each character stands in one.
    seed : int, default 0
        Of the order of the pieces.

    Returns
    -------
    Dataset
        With `x` and `y` int64 (pieces, length).

    Raises
    ------
    DataError
        When the text is too short, or a number is out of range.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> sets.characters("abcabcabc", length=4).classes
    ('a', 'b', 'c')
    """
    np, random = _random(seed)
    length = _counted("length", length, 1)
    step = length if step is None else _counted("step", step, 1)
    if text is None:
        text = "\n\n".join(f"{name}: {op.doc}" for name, op in TABLE.items())
    if len(text) <= length:
        raise DataError(f"a text of {len(text):,} characters has no piece of {length:,} and one that follows it")
    classes = tuple(sorted(set(text)))
    places = {each: i for i, each in enumerate(classes)}
    numbers = np.array([places[each] for each in text])
    starts = random.permutation(np.arange(0, len(text) - length, step))
    windows = starts[:, None] + np.arange(length)
    told = f"{len(starts):,} pieces of {length} characters of a text of {len(text):,}."
    return _sequences(numbers[windows], numbers[windows + 1], classes, told, "next")


_MADE: dict[str, Made] = {
    each.__name__: each for each in (moons, circles, spirals, reverse, copy, addition, characters)
}

NAMES: tuple[str, ...] = (*_BUNDLED, *_MADE)
"""The sets that `load` knows."""

__all__ = ["NAMES", "addition", "characters", "circles", "copy", "load", "moons", "reverse", "spirals"]


def __dir__() -> list[str]:
    return sorted(__all__)
