"""What kernels ask of their operands, and the few ways to make them fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from micrograd_core.layout import Shape
from micrograd_cuda.geometry import Place, power_of_two
from micrograd_cuda.runtime import Runtime
from micrograd_cuda.units import ELEMENT

Kernel = Callable[..., Any]


@cache
def name_of(dtype: Any) -> str:
    """Of a dtype; NumPy's own attribute puts it together anew each time, which costs more than a launch."""
    return str(dtype.name)


def of_elements(kernel: Kernel) -> Kernel:
    """A kernel for the dtypes of `ELEMENT`; ``NotImplemented`` for others, which the op table composes."""

    def checked(x: Any, *others: Any, **params: Any) -> Any:
        return kernel(x, *others, **params) if name_of(x.dtype) in ELEMENT else NotImplemented

    return checked


def place(runtime: Runtime, x: Any) -> Place:
    """Where an array lies, for the geometry."""
    itemsize = x.dtype.itemsize
    return Place(x.shape, tuple(stride // itemsize for stride in x.strides), power_of_two(runtime.address(x), 16))


def alignment(runtime: Runtime, *arrays: Any) -> int:
    """Bytes of which the addresses of all arrays are multiples; at most 16."""
    return min(power_of_two(runtime.address(x), 16) for x in arrays)


def is_number(x: Any) -> bool:
    """A Python number that a floating dtype takes."""
    return x.__class__ is float or x.__class__ is int


def contiguous(x: Any) -> Any:
    """`x` itself, or a copy in C order."""
    return x if x.flags.c_contiguous else x.copy()


def last(x: Any, axes: Shape) -> Any:
    """`x`, contiguous, with `axes` last; in their order."""
    ndim = len(x.shape)
    if axes != tuple(range(ndim - len(axes), ndim)):
        x = x.transpose((*(each for each in range(ndim) if each not in axes), *axes))
    return contiguous(x)


def wide(xp: Any, dtype: Any) -> Any:
    """The dtype in which elements of `dtype` are added up."""
    return dtype if name_of(dtype) == "float64" else xp.float32
