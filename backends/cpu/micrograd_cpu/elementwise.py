"""Large arrays element by element, by all threads: NumPy's functions, with a look at sizes in front of them.

A small product takes half a microsecond, so that this look must cost nothing: it is machine code. Until something has
been compiled, a function here is a builtin of Python that calls NumPy's; then it is one that looks first. Nobody can
tell which of them ran: only what is rounded once, as NumPy rounds it, is computed here.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.nests import Compute
from micrograd_core.compiler.program import operation
from micrograd_core.dtypes import DTYPES
from micrograd_cpu import eager

Kernel = Callable[..., Any]

LEAST: Final = 500_000
"""Elements from which on a second thread gains more than it takes to start."""
FASTCALL_KEYWORDS: Final = 0x82
_OBJECT: Final = object.__basicsize__
"""Where in a builtin function the address of its definition stands, and right after it what it gets as ``self``."""


class _Definition(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


class _Waiting:
    """A function that calls NumPy's until there is machine code, and all that must live as long as it does."""

    def __init__(self, name: str, ufunc: Any) -> None:
        # Called as a function of a builtin, with NumPy's as ``self``, it does what a call of that does.
        self.call = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value or 0
        self.name, self.ufunc, self.alive = name, ufunc, list[Any]()
        self.words = np.empty(0, "uint64")
        definition = self.definition(self.call)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self.function: Any = make(ctypes.addressof(definition), ufunc, None)
        found = (ctypes.c_void_p * 2).from_address(id(self.function) + _OBJECT)
        self.known = tuple(found) == (ctypes.addressof(definition), id(ufunc))

    def definition(self, address: int) -> _Definition:
        made = _Definition(self.name.encode(), address, FASTCALL_KEYWORDS, None)
        self.alive.append(made)
        return made

    def look(self, address: int) -> None:
        """From now on machine code is called, with the addresses it needs."""
        large = partial(_large, {}, eager.operation(self.name), self.name, self.ufunc)
        self.words = np.array([id(self.ufunc), id(large), self.call, id(np.ndarray), LEAST], "uint64")
        definition = self.definition(address)
        self.alive.append(large)
        both = (ctypes.c_void_p * 2)(ctypes.addressof(definition), id(self.words))
        ctypes.memmove(id(self.function) + _OBJECT, both, ctypes.sizeof(both))  # at once: another thread may call it


_WAITING: Final[list[_Waiting]] = []
_LOCK: Final = threading.Lock()


def kernels(others: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Those that are functions of NumPy's, element by element."""
    if not eager.COMPILES or not hasattr(ctypes.pythonapi, "PyObject_Vectorcall"):
        return {}
    found = [
        _Waiting(name, each)
        for name, each in others.items()
        if isinstance(each, np.ufunc) and operation(name).kind == "elementwise"
    ]
    if not all(each.known for each in found):  # another Python
        return {}
    _WAITING.extend(found)
    return {each.name: each.function for each in found}


def begin() -> None:
    """There is a compiler in this process: from now on sizes are looked at."""
    from micrograd_cpu.compiled import threads
    from micrograd_cpu.objects import library

    with _LOCK:
        if _WAITING and threads() > 1:
            held = library(_LOOK.format(**_PLACES), ["look"])
            while _WAITING:
                each = _WAITING.pop()
                each.alive.append(held)
                _ALIVE.append(each)
                each.look(held.address("look"))


_ALIVE: Final[list[_Waiting]] = []


def _large(runs: dict[Any, Any], compose: Any, name: str, ufunc: Any, *operands: Any) -> Any:
    """A function of NumPy's for operands of which one is large; from its second use on compiled."""
    array = np.ndarray
    key = tuple([(x.shape, x.strides, x.dtype.char) if x.__class__ is array else x.__class__ for x in operands])
    run = runs.get(key)
    if run is None:
        if key not in runs:
            if len(runs) >= eager.KINDS:
                runs.clear()
            found = ufunc(*operands)
            runs[key] = None  # NumPy has not refused them
            return found
        run = runs[key] = _run(compose, name, operands) or ufunc
    return run(*operands)


def _run(compose: Any, name: str, operands: tuple[Any, ...]) -> Kernel | None:
    """What computes arrays that lie as these do, in order, of one dtype."""
    from micrograd_cpu.compiled import ranges_of, together

    dtypes = {x.dtype if x.__class__ is np.ndarray else None for x in operands}
    dtype = dtypes.pop()
    takes = (
        dtype is not None
        and dtype.isnative
        and dtype.name in DTYPES
        and DTYPES[dtype.name].kind in operation(name).accepts
    )
    if dtypes or not takes or all(map(_single, operands)):
        return None
    shape = np.broadcast_shapes(*[x.shape for x in operands])
    if any(not _single(x) and (x.shape != shape or not x.flags.c_contiguous) for x in operands):
        lies = all(x.flags.c_contiguous for x in operands)
        return eager.specialised(compose, operands, {}, exact) if lies else None
    count = math.prod(shape)
    made = eager.flat(compose, [np.empty(() if _single(x) else count, dtype) for x in operands], count)
    if made is None:
        return None
    share, where, result = made
    ranges = ranges_of(count)

    def run(*operands: Any) -> Any:
        out = np.empty(shape, result)
        together(share, count, ranges, where, *operands, out)
        return out

    return run


def _single(x: Any) -> bool:
    """Whether all elements are one number in memory."""
    return x.size > 0 and not any(stride for n, stride in zip(x.shape, x.strides, strict=True) if n > 1)


def exact(nest: Any) -> bool:
    """Whether a nest computes one thing, which has one right answer. The larger of 0 and -0 is either."""
    from micrograd_cpu.mathematics import FUNCTIONS

    lines = [line for part in nest.parts for line in part.lines if isinstance(line, Compute)]
    return len(lines) == 1 and lines[0].op not in (*FUNCTIONS, "maximum", "minimum") and not nest.reduced


_PLACES: Final = {"data": _OBJECT, "type": _OBJECT - 8, "count": _OBJECT + 8, "shape": _OBJECT + 16}
_LOOK: Final = """
define ptr @look(ptr %self, ptr %operands, i64 %number, ptr %names) {{
  %f = getelementptr i8, ptr %self, i64 {data}
  %known = load ptr, ptr %f
  %at1 = getelementptr ptr, ptr %known, i64 1
  %at2 = getelementptr ptr, ptr %known, i64 2
  %at3 = getelementptr ptr, ptr %known, i64 3
  %at4 = getelementptr ptr, ptr %known, i64 4
  %call = load ptr, ptr %at2
  %array = load ptr, ptr %at3
  %least = load i64, ptr %at4
  %named = icmp ne ptr %names, null
  br i1 %named, label %plain, label %operand
operand:
  %i = phi i64 [ 0, %0 ], [ %next, %small ]
  %more = icmp slt i64 %i, %number
  br i1 %more, label %look, label %plain
look:
  %o = getelementptr ptr, ptr %operands, i64 %i
  %x = load ptr, ptr %o
  %t = getelementptr i8, ptr %x, i64 {type}
  %type = load ptr, ptr %t
  %is = icmp eq ptr %type, %array
  br i1 %is, label %sized, label %small
sized:
  %c = getelementptr i8, ptr %x, i64 {count}
  %axes = load i32, ptr %c
  %s = getelementptr i8, ptr %x, i64 {shape}
  %shape = load ptr, ptr %s
  br label %axis
axis:
  %j = phi i32 [ 0, %sized ], [ %after, %length ]
  %size = phi i64 [ 1, %sized ], [ %product, %length ]
  %left = icmp slt i32 %j, %axes
  br i1 %left, label %length, label %whole
length:
  %l = getelementptr i64, ptr %shape, i32 %j
  %n = load i64, ptr %l
  %product = mul i64 %size, %n
  %after = add i32 %j, 1
  br label %axis
whole:
  %far = icmp sge i64 %size, %least
  br i1 %far, label %large, label %small
small:
  %next = add i64 %i, 1
  br label %operand
large:
  %other = load ptr, ptr %at1
  br label %go
plain:
  %usual = load ptr, ptr %known
  br label %go
go:
  %function = phi ptr [ %other, %large ], [ %usual, %plain ]
  %found = tail call ptr %call(ptr %function, ptr %operands, i64 %number, ptr %names)
  ret ptr %found
}}
"""
"""Calls one object where an operand is an array of so many elements, and no argument has a name; else another."""
