"""Floats as integers: towards 0, what is beyond the range as the nearest integer there is, NaN as 0.

NumPy leaves what is out of range to the processor, and that to whether a number stands in a vector. So conversions are
nests, with the instructions of `jit`; without a compiler they are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import DTYPES
from micrograd_cpu import eager
from micrograd_cpu.half import as_half, wide


def checked(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of NumPy, and raises FloatingPointError where a result is not defined."""
    with np.errstate(invalid="raise"):
        return function(*args)


def _composed(k: Any, x: Any, *, dtype: Any) -> Any:
    return k.astype(x, dtype=DTYPES[dtype.name])


def saturated(x: Any, *, dtype: Any) -> Any:
    """The conversion written out."""
    facts = np.iinfo(dtype)
    high = x.dtype.type(float(facts.max // 2 + 1) * 2)  # a power of 2, which is beyond
    above, below = np.greater_equal(x, high), np.less_equal(x, x.dtype.type(facts.min))
    inside = np.logical_not(np.logical_or(above, np.logical_or(below, np.isnan(x))))
    result = np.where(inside, x, x.dtype.type(0)).astype(dtype)
    np.copyto(result, facts.max, where=above)
    np.copyto(result, facts.min, where=below)
    return result


_to_integers: Final = eager.compiled(_composed, saturated, always=True)


def astype(x: Any, *, dtype: Any) -> Any:
    """Always fresh."""
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        return _to_integers(wide(x), dtype=dtype)
    result = x.astype(dtype)
    return result if dtype.itemsize != 2 else as_half(result)
