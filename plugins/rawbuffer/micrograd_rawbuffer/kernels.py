"""Kernels: what each operation does to Python numbers. IEEE 754's results stand where Python would raise an error."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, Final


def divide(x: float, y: float) -> float:
    """Dividing by zero is multiplying by an infinity of its sign: 0 and NaN give NaN."""
    return x / y if y else x * math.copysign(math.inf, y)


def power(x: Any, n: Any) -> Any:
    """Integers stay integers; modulo 2**64 no power is too large, and wrapping to fewer bits is still right."""
    if isinstance(x, int):
        if n < 0:
            raise ValueError(f"{x} to the power of {n} is not an integer; convert to a floating dtype first")
        return pow(x, n, 1 << 64)
    try:
        return math.pow(x, n)
    except OverflowError:
        infinite = True
    except ValueError:  # 0 to a negative power, or a negative number to one with a fraction
        infinite = x == 0
    odd = n % 2 == 1
    return (math.copysign(math.inf, x) if odd else math.inf) if infinite else math.nan


def maximum(x: Any, y: Any) -> Any:
    """NaN, the only number unequal to itself, wins from either side."""
    return x if x >= y or x != x else y


def exp(x: float) -> float:
    """Infinite where the result is too large."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def log(x: float) -> float:
    """-inf at zero of either sign, NaN below."""
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def sin(x: float) -> float:
    """NaN at the infinities."""
    return math.sin(x) if math.isfinite(x) else math.nan


def sqrt(x: float) -> float:
    """-0.0 at -0.0, NaN below."""
    return math.sqrt(x) if x >= 0 else math.nan


def floor(x: Any) -> Any:
    """Python's gives an int, which has no infinity and no -0.0."""
    return x if isinstance(x, int) or not math.isfinite(x) else math.copysign(math.floor(x), x)


def total(row: list[Any]) -> Any:
    """The sum, rounded once: the same in any order of the numbers."""
    special = [x for x in row if not math.isfinite(x)]
    if special or not row or isinstance(row[0], int):
        return sum(special or row)  # infinities of one sign, or NaN, whatever else there is
    try:
        return math.fsum(row)
    except OverflowError:  # on the way, though perhaps not at the end
        return math.fsum(x * 2.0**-64 for x in row) * 2.0**64


MAPS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "divide": divide,
    "pow": power,
    "maximum": maximum,
    "less": operator.lt,
    "equal": operator.eq,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "exp": exp,
    "log": log,
    "sin": sin,
    "sqrt": sqrt,
    "floor": floor,
    "where": lambda condition, x, y: x if condition else y,
    "copy": lambda x: x,
}

REDUCTIONS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "sum": total,
    "max": lambda row: functools.reduce(maximum, row),
}
