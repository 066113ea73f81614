"""Floats as integers: towards 0, what is beyond the range as the nearest integer there is, NaN as 0.

NumPy leaves what is out of range to the processor, and that to whether a number stands in a vector. Processors note
that a conversion went wrong, so a large one costs hardly more. Of narrow and unsigned integers they note nothing:
small arrays become wider integers first, and large ones go through a nest, with the instructions of `jit`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import DTYPES
from micrograd_cpu import eager
from micrograd_cpu.eager import declines
from micrograd_cpu.half import as_half, wide

_INT32, _INT64 = np.dtype("int32"), np.dtype("int64")


def checked(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of NumPy, and raises FloatingPointError where a result is not defined."""
    with np.errstate(invalid="raise"):
        return function(*args)


def _tells() -> bool:
    try:
        checked(np.array([np.nan, 1.0], "float32").astype, _INT32)
    except FloatingPointError:
        return True
    return False


_TELLS: Final = _tells()
"""Whether processor and NumPy note what goes wrong in a conversion; else each number is looked at."""


def _composed(k: Any, x: Any, *, dtype: Any) -> Any:
    return k.astype(x, dtype=DTYPES[dtype.name])


_large: Final = eager.compiled(_composed, declines)


def saturated(x: Any, dtype: Any) -> Any:
    """The conversion written out."""
    facts = np.iinfo(dtype)
    high = x.dtype.type(float(facts.max // 2 + 1) * 2)  # a power of 2, which is beyond
    above, below = np.greater_equal(x, high), np.less_equal(x, x.dtype.type(facts.min))
    inside = np.logical_not(np.logical_or(above, np.logical_or(below, np.isnan(x))))
    result = np.where(inside, x, x.dtype.type(0)).astype(dtype)
    np.copyto(result, facts.max, where=above)
    np.copyto(result, facts.min, where=below)
    return result


def to_integers(x: Any, dtype: Any) -> Any:
    """An array of floats as one of integers."""
    x = wide(x)
    exact = dtype.kind == "i" and dtype.itemsize >= 4
    if x.size >= eager.SMALL and x.flags.c_contiguous and not (exact and _TELLS):
        found = _large(x, dtype=dtype)
        if found is not NotImplemented:
            return found
    if _TELLS:
        with suppress(FloatingPointError):
            between = checked(x.astype, dtype if exact else _INT32 if dtype.itemsize < 4 else _INT64)
            result = between if exact else between.astype(dtype)
            if exact or (result == between).all():
                return result
    return saturated(x, dtype)


def astype(x: Any, *, dtype: Any) -> Any:
    """Always fresh."""
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        return to_integers(x, dtype)
    result = x.astype(dtype)
    return result if dtype.itemsize != 2 else as_half(result)
