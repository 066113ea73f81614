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

from micrograd_core.ground.warning import WITHHELD
from micrograd_cpu import entries
from micrograd_cpu.compiled import _Threads, available, ranges_of, together
from micrograd_cpu.entries import DATA, FLOATS
from micrograd_cpu.target import PLAIN

__warningregistry__ = WITHHELD

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
    from micrograd_cpu.objects import library

    type, indices = FLOATS[dtype], ["0" if each else "%i" for each in repeated]
    text = f"""
declare i32 @feclearexcept(i32)
declare i32 @fetestexcept(i32)

define internal void @loop(i64 %begin, i64 %end, ptr noalias %x, ptr noalias %y, ptr noalias %out) noinline {{
entry:
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %xs = getelementptr inbounds {type}, ptr %x, i64 {indices[0]}
  %ys = getelementptr inbounds {type}, ptr %y, i64 {indices[1]}
  %outs = getelementptr inbounds {type}, ptr %out, i64 %i
  %left = load {type}, ptr %xs
  %right = load {type}, ptr %ys
  %both = {PAIRS[name]} {type} %left, %right
  store {type} %both, ptr %outs
  %next = add nuw nsw i64 %i, 1
  br label %head
done:
  ret void
}}

define internal void @watched(i64 %begin, i64 %end, ptr %x, ptr %y, ptr %out, ptr %raised) {{
  %cleared = call i32 @feclearexcept(i32 {FLAGS | UNDERFLOW})
  call void @loop(i64 %begin, i64 %end, ptr %x, ptr %y, ptr %out)
  %set = call i32 @fetestexcept(i32 {FLAGS | UNDERFLOW})
  %before = atomicrmw or ptr %raised, i32 %set monotonic
  ret void
}}

{entries.share("pair", "watched", 4)}"""
    return entries.function_of_share(library(text, ["pair", "pair.part", "pair.job"]), "pair", 4, ctypes.c_int64)


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
    from micrograd_cpu.objects import library

    looks = "".join(_look(i) for i in range(2))
    text = f"""
define ptr @front(ptr %self, ptr %arguments, i64 %number) nounwind {{
  %helds = getelementptr i8, ptr %self, i64 {DATA}
  %held = load ptr, ptr %helds
  %kinds = getelementptr ptr, ptr %held, i64 2
  %kind = load ptr, ptr %kinds
  %calls = getelementptr ptr, ptr %held, i64 3
  %call = load ptr, ptr %calls
  %two = icmp eq i64 %number, 2
  br i1 %two, label %look0, label %small
{looks}
size:
  %huge0 = icmp sge i64 %size0, {BYTES}
  %huge1 = icmp sge i64 %size1, {BYTES}
  %huge = or i1 %huge0, %huge1
  %which = zext i1 %huge to i64
  br label %go
small:
  br label %go
go:
  %chosen = phi i64 [ %which, %size ], [ 0, %small ]
  %functions = getelementptr ptr, ptr %held, i64 %chosen
  %function = load ptr, ptr %functions
  %result = tail call ptr %call(ptr %function, ptr %arguments, i64 %number, ptr null)
  ret ptr %result
}}
"""
    machine = library(text.replace("label %look2", "label %size"), ["front"])
    vectorcall = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value or 0
    held = np.array([id(ufunc), id(large), id(np.ndarray), vectorcall], "uint64").view(entries.Addresses)
    held.library = machine, ufunc, large
    made: Callable[..., Any] = entries.callable_of(held, ufunc.__name__, machine.address("front"))
    return made


def _look(i: int) -> str:
    """How many bytes operand `i` has, if it is an array that lies in order: the length of its first axis, in bytes."""
    return f"""
look{i}:
  %x{i}s = getelementptr ptr, ptr %arguments, i64 {i}
  %x{i} = load ptr, ptr %x{i}s
  %type{i}s = getelementptr i8, ptr %x{i}, i64 {entries.TYPE}
  %type{i} = load ptr, ptr %type{i}s
  %plain{i} = icmp eq ptr %type{i}, %kind
  br i1 %plain{i}, label %axes{i}, label %small
axes{i}:
  %ndim{i}s = getelementptr i8, ptr %x{i}, i64 {entries.NDIM}
  %ndim{i} = load i32, ptr %ndim{i}s
  %some{i} = icmp ne i32 %ndim{i}, 0
  br i1 %some{i}, label %bytes{i}, label %small
bytes{i}:
  %shape{i}s = getelementptr i8, ptr %x{i}, i64 {entries.SHAPE}
  %shape{i} = load ptr, ptr %shape{i}s
  %length{i} = load i64, ptr %shape{i}
  %strides{i}s = getelementptr i8, ptr %x{i}, i64 {entries.STRIDES}
  %strides{i} = load ptr, ptr %strides{i}s
  %stride{i} = load i64, ptr %strides{i}
  %size{i} = mul i64 %length{i}, %stride{i}
  br label %look{i + 1}
"""


@cache
def fronts() -> dict[str, Callable[..., Any]]:
    """Kernels by name; none where threads or flags are not there."""
    if PLAIN or _Threads.count < 2 or not FLAGS or not available():
        return {}
    return {name: front(getattr(np, name), large(name, getattr(np, name))) for name in PAIRS}
