"""Sums, differences, products and quotients of two large arrays, by all threads.

NumPy computes these by one thread. To ask in Python whether arrays are large takes an eighth of a small product's time,
so that a function of machine code asks, in a hundredth of it, and calls NumPy's or `large`. It needs LLVM, which most
programs need not wait for: `fronts` are made once there is other machine code.

What NumPy warns of, an overflow say, sets flags of the processor. Where one is set NumPy computes again, and warns.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from micrograd_cpu import entries
from micrograd_cpu.entries import DATA, FLOATS, NDIM, SHAPE, STRIDES, TYPE, compiles
from micrograd_cpu.target import PLAIN
from micrograd_cpu.threads import Threads, ranges_of, together

PAIRS: Final = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
BYTES: Final = 1 << 20
"""Of an array from which on threads are worth it: less takes NumPy a fiftieth of a millisecond."""
FLAGS, UNDERFLOW = {"x86_64": (1 | 4 | 8, 16), "aarch64": (1 | 2 | 4, 8), "arm64": (1 | 2 | 4, 8)}.get(
    platform.machine(), (0, 0)
)
"""An invalid operation, a division by zero and an overflow, as C's ``fenv.h`` numbers them here; 0 where unknown."""


@cache
def _function(name: str, dtype: str, repeated: tuple[bool, bool]) -> Any:
    """What computes some elements, of operands of which one may be a number for all, and adds flags to a last array."""
    from micrograd_cpu.objects import library, source

    type, indices = FLOATS[dtype], ["0" if each else "%i" for each in repeated]
    text = source("pairs", type=type, x=indices[0], y=indices[1], both=PAIRS[name], flags=FLAGS | UNDERFLOW)
    held = library(text + entries.share("pair", "watched", 4), ["pair"])
    return entries.function_of_share(held, "pair")


def large(name: str, ufunc: Any) -> Callable[[Any, Any], Any]:
    """A function of two arrays, large or not, by threads if they lie in order and have one shape and dtype."""
    dtypes = [np.dtype(each) for each in FLOATS]

    def both(x: Any, y: Any) -> Any:
        if not x.size or x.shape != y.shape or x.dtype is not y.dtype or x.dtype not in dtypes:
            return ufunc(x, y)
        repeated = not any(x.strides), not any(y.strides)
        for each, operand in zip(repeated, (x, y), strict=True):
            if not each and not (operand.flags.c_contiguous and operand.flags.aligned):
                return ufunc(x, y)
        out, raised = np.empty(x.shape, x.dtype), np.zeros(1, "int32")
        together(_function(name, x.dtype.name, repeated), x.size, ranges_of(x.size), x, y, out, raised)
        told = int(raised[0])
        return ufunc(x, y) if told & FLAGS or (told and np.geterr()["under"] != "ignore") else out

    return both


def front(ufunc: Any, large: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function of Python's that calls `large` where one of two operands is an array of so many bytes."""
    from micrograd_cpu.objects import library, source

    text = source("front", data=DATA, type=TYPE, ndim=NDIM, shape=SHAPE, strides=STRIDES, large=BYTES)
    machine = library(text, ["front"])
    vectorcall = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value or 0
    held = np.array([id(ufunc), id(large), id(np.ndarray), vectorcall], "uint64").view(entries.Addresses)
    held.library = machine, ufunc, large
    made: Callable[..., Any] = entries.callable_of(held, ufunc.__name__, machine["front"])
    return made


@cache
def fronts() -> dict[str, Callable[..., Any]]:
    """Kernels by name; none where threads or flags are not there."""
    if {"pairs", "calls"} & PLAIN or Threads.count < 2 or not FLAGS or not compiles():
        return {}
    return {name: front(getattr(np, name), large(name, getattr(np, name))) for name in PAIRS}
