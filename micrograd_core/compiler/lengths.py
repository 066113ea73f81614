"""Symbolic lengths: a program that is planned with them gives nests that serve arrays of every size.

A `Length` stands in a shape where an integer would. It is a product of axes: each different length of the inputs is an
`Axis` of its own, with the least and the most that it may be. Shapes, strides and layouts multiply lengths, divide the
products again and compare them, so a nest holds a `Length` wherever a number depends on a size. A printer prints code
that loads these numbers from memory, and the caller of the nest computes them with `actual`.

A `Length` is not an `int` and has no value, so none can leak into a nest. Code that needs a value raises TypeError, as
``n - 1``, ``1.0 / n``, ``range(n)``, ``math.log(n)`` and ``f"{n}"`` do; `repr` is for readers. A comparison is true for
all lengths within the bounds, or false for all, or raises TypeError too. So a composition that uses a length in another
way cannot be planned, and its caller computes it otherwise. A decision that must serve all lengths, such as how much
memory a row needs, is made for the `longest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from numbers import Number
from typing import Any, NamedTuple, NoReturn


class Axis(NamedTuple):
    """A length of at least 2. Axes with different numbers have different lengths."""

    number: int
    least: int
    most: int


class Length:
    """A product of axes, and of an integer other than 0.

    Examples
    --------
    >>> rows, columns = Length([Axis(0, 2, 256)]), Length([Axis(1, 257, 2048)])
    >>> rows * columns, rows * columns // rows, rows > 1, longest(rows * columns), actual(rows * -columns, [5, 300])
    (n0*n1, n1, True, 524288, -1500)
    >>> rows > 100
    Traceback (most recent call last):
    TypeError: how n0 compares with 100 depends on the length
    """

    __slots__ = ("axes", "bounds", "factor")

    def __init__(self, axes: Iterable[Axis], factor: int = 1) -> None:
        self.axes, self.factor = tuple(sorted(axes)), factor
        ends = factor * prod([x.least for x in self.axes]), factor * prod([x.most for x in self.axes])
        self.bounds = ends if factor > 0 else ends[::-1]

    def __repr__(self) -> str:
        return "*".join([*([str(self.factor)] if self.factor != 1 else []), *(f"n{x.number}" for x in self.axes)])

    def __str__(self) -> NoReturn:
        raise TypeError(f"{self!r} is a symbolic length and has no text")

    def __hash__(self) -> int:
        return hash((self.axes, self.factor))

    # ── arithmetic: only what gives products ─────────────────────────────────────────────────────────────────────

    def __mul__(self, other: Any) -> Any:
        if other.__class__ is Length:
            return Length(self.axes + other.axes, self.factor * other.factor)
        if other.__class__ is int:
            return Length(self.axes, self.factor * other) if other else 0
        return NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Length:
        return Length(self.axes, -self.factor)

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if other else self

    def __floordiv__(self, other: Any) -> Any:
        quotient, divisor = _cancelled(self, other)
        return quotient if divisor == 1 else NotImplemented

    def __mod__(self, other: Any) -> Any:
        quotient, divisor = _cancelled(self, other)
        if divisor == 1:
            return 0
        return self if quotient == 1 and divisor > 1 else NotImplemented

    # ── comparisons: only what holds for all lengths ─────────────────────────────────────────────────────────────

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Length, Number)) and self._compared(other, of_axes=1) == 0

    def __lt__(self, other: Any) -> bool:
        return self._compared(other) < 0

    def __gt__(self, other: Any) -> bool:
        return self._compared(other) > 0

    def _compared(self, other: Any, of_axes: int | None = None) -> int:
        """-1, 0 or 1: less, equal or more; `of_axes` where two axes with the same bounds are known to differ."""
        x, y = _cancelled(self, other)
        (least, most), (lowest, highest) = _bounds(x), _bounds(y)
        if most < lowest or least > highest or least == most == lowest == highest:
            return int(least > lowest) - int(least < lowest)
        if of_axes is None or any(each.__class__ is int or len(each.axes) > 1 or each.factor != 1 for each in (x, y)):
            raise TypeError(f"how {self!r} compares with {other!r} depends on the length")
        return of_axes


def _cancelled(x: Any, y: Any) -> tuple[Any, Any]:
    """Two products without the axes and the factor that both have; an integer where no axis is left."""
    (first, ours), (second, theirs) = ((z.factor, [*z.axes]) if z.__class__ is Length else (z, []) for z in (x, y))
    for axis in [*theirs]:
        if axis in ours:
            ours.remove(axis)
            theirs.remove(axis)
    common = gcd(first, second)
    found = [Length(axes, n // common) if axes else n // common for axes, n in ((ours, first), (theirs, second))]
    return found[0], found[1]


def _bounds(x: Any) -> Any:
    """The least and the most that a product or a number may be."""
    return x.bounds if x.__class__ is Length else (x, x)


def longest(x: Any) -> int:
    """The most that a length may be; a number is returned as it is."""
    return int(_bounds(x)[1])


def actual(x: Any, lengths: Sequence[int]) -> int:
    """The value of a length where axis ``i`` is ``lengths[i]``; a number is returned as it is."""
    return int(x.factor * prod([lengths[each.number] for each in x.axes])) if x.__class__ is Length else int(x)
