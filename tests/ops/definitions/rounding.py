"""What operations of `micrograd_core.ops.standard.rounding` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _floor_divide(np: Any, x: Any, y: Any) -> Any:
    """NumPy's, but the standard's where an infinity is involved."""
    result = np.floor_divide(x, y)
    if result.dtype.kind != "f":
        return result
    quotient = np.floor(np.divide(x, y))
    return np.where(np.isfinite(quotient) & np.isfinite(y), result, quotient)


DEFINITIONS = {"floor_divide": _floor_divide}
