"""What the records of network operations share: precision, reductions of losses, axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from micrograd_core.dtypes import bfloat16, float16, float32
from micrograd_core.layout import Shape, resolve_axes
from micrograd_core.ops.common import is_scalar

NARROW = (float16, bfloat16)


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A composition or rule that adds up float16 and bfloat16 numbers as float32, and rounds once, at the end."""

    @functools.wraps(function)
    def widened(k: Any, *operands: Any, **params: Any) -> Any:
        dtypes = [None if is_scalar(x) else k.dtype(x) for x in operands]
        narrow = next((dtype for dtype in dtypes if dtype in NARROW), None)
        if narrow is None:
            return function(k, *operands, **params)
        wide = (k.astype(x, dtype=float32) if dtype in NARROW else x for x, dtype in zip(operands, dtypes, strict=True))
        return k.astype(function(k, *wide, **params), dtype=narrow)

    return widened


def axes_of(op: str, x: Any, axis: int | tuple[int, ...] | None) -> Shape:
    """Axes to reduce over as a sorted tuple; ``None`` means all of them."""
    ndim = len(x.shape)
    axes = resolve_axes(op, axis, ndim)
    return tuple(range(ndim)) if axes is None else tuple(sorted(axes))


def along_axis(x: Any, axis: int, ndim: int) -> Shape:
    """The shape that lays a vector along one of `ndim` axes."""
    return tuple(x.shape[0] if each == axis else 1 for each in range(ndim))


def times(k: Any, x: Any, weight: Any) -> Any:
    """``x * weight``, and just `x` for a weight left out."""
    return x if is_scalar(weight) and weight == 1 else k.multiply(x, weight)


def check_reduction(name: str, reduction: str, *more: str) -> None:
    """Refuse a reduction that a loss does not know."""
    if reduction not in ("mean", "sum", "none", *more):
        possible = ", ".join(map(repr, ("mean", "sum", *more)))
        raise ValueError(f"{name}: reduction is {possible} or 'none'; got {reduction!r}")
