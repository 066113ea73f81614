"""Powers of floats that are quicker, and at most an ulp or two further off, as products, quotients and roots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final


def _square(k: Any, x: Any) -> Any:
    return k.multiply(x, x)


def _root(k: Any, x: Any) -> Any:
    """``x ** 0.5``, which differs from the root at -0.0 and at minus infinity."""
    return k.where(k.equal(x, -math.inf), math.inf, k.add(k.sqrt(x), 0.0))


POWERS: Final[dict[complex, Callable[[Any, Any], Any]]] = {
    2: _square,
    3: lambda k, x: k.multiply(k.multiply(x, x), x),
    4: lambda k, x: _square(k, _square(k, x)),
    -1: lambda k, x: k.divide(1, x),
    -2: lambda k, x: _square(k, k.divide(1, x)),
    -3: lambda k, x: POWERS[3](k, k.divide(1, x)),
    0.5: _root,
    -0.5: lambda k, x: k.divide(1, _root(k, x)),
}
"""By exponent, of a table of kernels and an array; NumPy is such a table."""
