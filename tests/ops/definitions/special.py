"""What operations of `micrograd_core.ops.standard.special` are, in NumPy."""

from __future__ import annotations

import math
from typing import Any


def _each(function: Any) -> Any:
    """A reference from a function of one Python float."""

    def reference(np: Any, x: Any, **params: Any) -> Any:
        return np.vectorize(lambda v: function(float(v), **params), otypes="d")(x) if x.size else np.zeros(x.shape)

    return reference


def _polygamma_reference(x: float, n: int = 0) -> float:
    """By recursion far up, and there by the first terms of the series; below 0 by reflection, up to n = 1."""
    if x != x or x == -math.inf:
        return math.nan
    if x <= 0 and x == math.floor(x):
        return math.inf if n else -math.copysign(math.inf, x) if x == 0 else math.nan
    if x < 0:
        angle = math.pi * (x - round(x))
        above = _polygamma_reference(1 - x, n)
        return above - math.pi / math.tan(angle) if n == 0 else (math.pi / math.sin(angle)) ** 2 - above
    if n == 0:
        a = x + 3000
        return math.log(a) - 0.5 / a - 1 / (12 * a * a) - math.fsum(1 / (x + i) for i in range(3000))
    try:
        a = x + 3000
        total = math.fsum((x + i) ** -(n + 1) for i in range(3000)) + a**-n / n + a ** -(n + 1) / 2
        return (-1.0) ** (n + 1) * math.factorial(n) * (total + (n + 1) * a ** -(n + 2) / 12)
    except OverflowError:
        return (-1.0) ** (n + 1) * math.inf


def _erfinv_reference(x: float) -> float:
    from statistics import NormalDist

    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    return NormalDist().inv_cdf((x + 1) / 2) / 2**0.5 if abs(x) > 1e-9 else x * math.pi**0.5 / 2


def _i1_reference(x: float) -> float:
    total = term = x / 2
    for i in range(1, 60 + int(min(abs(x), 800.0)) if x == x else 0):
        term *= x / (2 * i) * (x / (2 * (i + 1)))
        total += term
    return total


def _lgamma_reference(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or too large a number
        return math.inf


DEFINITIONS = {
    "lgamma": _each(_lgamma_reference),
    "digamma": _each(_polygamma_reference),
    "polygamma": _each(_polygamma_reference),
    "erfinv": _each(_erfinv_reference),
    "i1": _each(_i1_reference),
}
