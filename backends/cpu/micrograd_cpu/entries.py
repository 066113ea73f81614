"""How Python calls compiled code: as one of its own functions, which gets arrays as objects.

A call through ctypes takes ten times as long, and to ask an array for its address from Python as long again. So what
is printed here has the signature of ``METH_FASTCALL``, and looks into the objects. What it needs of this process, such
as functions and types of Python and NumPy, is in an array of addresses that Python hands it as ``self``.

The plain way (`target.PLAIN`) is ctypes: Python looks into the objects, and code takes addresses of elements.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.fusion import Run
from micrograd_core.layout import Layout
from micrograd_cpu import blas
from micrograd_cpu.lines import Lines
from micrograd_cpu.objects import source
from micrograd_cpu.segments import Product, Segment, count, empty
from micrograd_cpu.target import PLAIN

DATA: Final = object.__basicsize__
"""Where in an array's object the address of its elements stands: right after what all objects begin with."""
TYPE: Final = DATA - 8
NDIM, SHAPE, STRIDES, DTYPE = DATA + 8, DATA + 16, DATA + 24, DATA + 40
"""Where the number of axes, their lengths, the steps in bytes, and the dtype stand."""
HEAVY: Final = 100_000
"""Elements, weighed, from which on other threads of Python may run meanwhile."""
STACK: Final = 1 << 14
"""Bytes of an arena that is on the stack."""

_PYTHON: Final = ("Py_IncRef", "_Py_NoneStruct", "_Py_TrueStruct", "PyEval_SaveThread", "PyEval_RestoreThread")
FLOATS: Final = {"float32": "float", "float64": "double"}
_BLAS: Final = tuple((name, kind) for name in FLOATS for kind in ("gemm", "gemv"))
_INPUTS: Final = len(_PYTHON) + len(_BLAS)
FASTCALL: Final = 0x80


class Definition(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


class Addresses(np.ndarray):
    """What compiled code refers to; with attributes for what must live as long as it does."""

    library: Any
    definition: Definition


@cache
def compiles() -> bool:
    """Whether programs can be compiled: llvmlite is there, and arrays and functions look as they should."""
    return find_spec("llvmlite") is not None and available()


def available() -> bool:
    """Whether arrays and functions look as they should, which the plain way need not know."""
    if "calls" in PLAIN:
        return True
    probe = np.zeros((3, 5), "float32")[:, ::2]
    facts = probe.__array_interface__["data"][0], id(np.ndarray), id(probe.dtype)
    found = tuple(ctypes.c_void_p.from_address(id(probe) + at).value for at in (DATA, TYPE, DTYPE))
    return found == facts and ctypes.c_int.from_address(id(probe) + NDIM).value == 2


def function(library: Any, name: str, inputs: Sequence[tuple[type, Any]], layouts: Sequence[Layout]) -> Any:
    """An entry as a function of Python, for inputs of these types, dtypes and layouts."""
    addresses = [ctypes.cast(getattr(ctypes.pythonapi, each), ctypes.c_void_p).value or 0 for each in _PYTHON]
    addresses += [blas.routines(name).get(kind, 0) for name, kind in _BLAS]
    addresses += [id(each) for pair in inputs for each in pair]
    held = np.array(addresses, "uint64").view(Addresses)
    held.library = library
    if "calls" not in PLAIN:
        return callable_of(held, name, library[name])
    code = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library[name])
    start, expected = held.ctypes.data, [(*each, layout) for each, layout in zip(inputs, layouts, strict=False)]

    def call(*arguments: Any) -> Any:
        if any(not _is(x, *each) for x, each in zip(arguments, expected, strict=False)):
            return True
        pointers = np.array([*map(_address, arguments)], "uint64")
        code(start, _address(pointers), len(arguments))
        return None

    call.held = held  # type: ignore[attr-defined]  # the code lives as long as who calls it
    return call


def _is(x: Any, kind: Any, dtype: Any, layout: Layout) -> bool:
    """Whether an argument is what code was made for."""
    if x.__class__ is not kind:
        return False
    steps = [s for s, n in zip(x.strides, x.shape, strict=True) if n != 1]
    wanted = [s * x.itemsize for s, n in zip(layout.strides, layout.shape, strict=True) if n != 1]
    return bool(x.dtype == dtype) and x.shape == layout.shape and (0 in x.shape or steps == wanted)


def _address(x: Any) -> Any:
    """Where the elements of an array are, or a number; ``x.ctypes`` would leave a cycle of references."""
    return x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else ctypes.addressof(x)


def callable_of(held: Any, name: str, address: int) -> Any:
    """The code at an address as a function of Python, with `held` for what it is a method of."""
    definition = Definition(name.encode(), address, FASTCALL, None)
    _DEFINITIONS.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), held, None)


_DEFINITIONS: Final[list[Definition]] = []
"""All of them, for ever: a function looks at its own while it is freed, when what it holds may be empty already."""


def arrays(step: Run | Product) -> int:
    """How many a nest takes; a product takes two, a result, and before them the address of BLAS."""
    return len(step.inputs) + len(step.outputs) + isinstance(step, Product)


def ranged(name: str, step: Product) -> str:
    """The IR of ``@name(begin, end, blas, left, right, result)``: a range of the pairs of a stack.

    `blas` is the address of the address of its function.
    """
    c = Lines()
    function = c.emit("load ptr, ptr %blas")
    c.loop("%begin", "%end", lambda i: _pair(c, function, step, i))
    return c.defined(f"define void @{name}(i64 %begin, i64 %end, ptr %blas, ptr %x, ptr %y, ptr %made)")


def _pair(c: Lines, function: str, step: Product, i: str) -> None:
    """One pair of a stack."""
    m, n, _ = step.sizes
    places = [str(step.left.offset), str(step.right.offset), c.emit(f"mul i64 {i}, {m * n}")]
    for axis, counter in enumerate(c.unravelled(i, step.stack)):
        for side, each in enumerate((step.left, step.right)):
            further = c.emit(f"mul i64 {counter}, {each.jumps[axis]}")
            places[side] = c.emit(f"add i64 {places[side]}, {further}")
    multiplication(c, function, step, (m, n), _addresses(c, step, places))


def _addresses(c: Lines, step: Product, places: Sequence[str]) -> list[str]:
    """Of the elements of both operands and the result from which on BLAS is to work."""
    type = FLOATS[step.types[0].dtype.name]
    return [c.at(x, type, at) for x, at in zip(("%x", "%y", "%made"), places, strict=True)]


def multiplication(
    c: Lines, function: str, step: Product, sizes: tuple[int | str, int | str], matrices: Sequence[str]
) -> None:
    """Calls of BLAS, for so many rows and columns of matrices from these addresses on."""
    (m, n), k, (left, right, result) = sizes, step.sizes[2], matrices
    type, width = FLOATS[step.types[0].dtype.name], step.sizes[1]

    def form(transposed: bool) -> str:
        return f"i32 {blas.TRANSPOSED if transposed else blas.PLAIN}"

    if step.routine == "gemm":
        c.do(
            f"call void {function}(i32 {blas.ROW_MAJOR}, {form(step.left.transposed)}, {form(step.right.transposed)}, "
            f"i64 {m}, i64 {n}, i64 {k}, {type} 1.0, ptr {left}, i64 {step.left.step}, ptr {right}, "
            f"i64 {step.right.step}, {type} 0.0, ptr {result}, i64 {width})"
        )
        return
    rows = step.sizes[0] <= width  # of the left are the vectors; else columns of the right
    vectors, x, matrix, y = (step.left, left, step.right, right) if rows else (step.right, right, step.left, left)
    apart, along = (1, vectors.step) if vectors.transposed is rows else (vectors.step, 1)  # vectors, their numbers
    turned = matrix.transposed is not rows
    high, wide = (k, n if rows else m) if turned else (n if rows else m, k)
    for i in range(min(step.sizes[:2])):
        vector, made = c.at(x, type, i * apart), c.at(result, type, i * (width if rows else 1))
        c.do(
            f"call void {function}(i32 {blas.ROW_MAJOR}, {form(turned)}, i64 {high}, i64 {wide}, {type} 1.0, ptr {y}, "
            f"i64 {matrix.step}, ptr {vector}, i64 {along}, {type} 0.0, ptr {made}, i64 {1 if rows else width})"
        )


def part(name: str, function: str, count: int, more: str = "") -> str:
    """The IR of ``@name(begin, end, arrays)``, for a range of what a function of addresses computes.

    `more` is a pointer that both take before them, such as ``, ptr %sizes``.
    """
    objects = "".join(f", ptr %o{n}" for n in range(count))
    addresses = "".join(
        f"  %f{n} = getelementptr i8, ptr %o{n}, i64 {DATA}\n  %d{n} = load ptr, ptr %f{n}\n" for n in range(count)
    )
    given = objects if "calls" in PLAIN else "".join(f", ptr %d{n}" for n in range(count))
    return (
        f"define void @{name}(i64 %begin, i64 %end{more}{objects}) {{\n{addresses}"
        f"  call void @{function}(i64 %begin, i64 %end{more}{given})\n  ret void\n}}\n"
    )


def share(name: str, function: str, count: int, more: str = "") -> str:
    """The IR of ``@name(job, number)``: ranges of a function, from the part of that number on, while some are left.

    Words of a `job` are its function and how many helpers are done, of which `threads` knows; how many units there
    are, how many a part and a range have, how many parts there are, where the next range of each begins, and then
    `more` and arrays.
    """
    names = [*more.split()[-1:], *(f"%o{n}" for n in range(count))]
    loads = [
        f"  {x}.at = getelementptr ptr, ptr %given, i64 {n}\n  {x} = load ptr, ptr {x}.at\n"
        for n, x in enumerate(names)
    ]
    given = "".join(f", ptr {each}" for each in names)
    return part(f"{name}.part", function, count, more) + source("share", name=name, given=given, loads="".join(loads))


def function_of_range(library: Any, name: str, count: int, *more: Any) -> Any:
    """A part as a function of Python, during which other threads run; `more` are types between."""
    arrays = [ctypes.c_void_p if "calls" in PLAIN else ctypes.py_object] * count
    made: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, *more, *arrays)(library[name])
    if "calls" in PLAIN:
        code = made

        def made(*given: Any) -> None:
            code(*[_address(x) if isinstance(x, np.ndarray) else x for x in given])

    made.library = library  # the code lives as long as who calls it
    return made


def function_of_share(library: Any, name: str) -> Any:
    """A share as a function of Python, of a job's address and a number; its `address` is what jobs begin with."""
    made: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library[name])
    made.library, made.address = library, library[name]
    return made


def words(given: Sequence[Any]) -> list[int]:
    """What a share takes of arrays, and of addresses that are numbers already."""
    look: Any = _address if "calls" in PLAIN else id
    return [x if x.__class__ is int else look(x) for x in given]


class SegmentEntry(Lines):
    """The IR of ``@name(self, arguments, their number)``, which returns None, or True where inputs differ.

    Arguments are the inputs that it is to look at, the values that it is given, its results, and the arena, if any.
    """

    def __init__(self, name: str, segment: Segment, looked_at: Sequence[Layout], itemsizes: Sequence[int]) -> None:
        super().__init__()
        self.name = name
        self.addresses = "%self" if "calls" in PLAIN else self.load("ptr", "%self", DATA)
        for i, layout in enumerate(looked_at):
            self.look(i, layout, itemsizes[i])
        self.segment, start = segment, len(looked_at)
        self.pointers = {n: self.elements(i) for i, n in enumerate((*segment.inputs, *segment.outputs), start)}
        if segment.places:
            if segment.size > STACK:
                count = start + len(self.pointers)
                arena = self.elements(count)
            else:
                arena = self.emit(f"alloca [{max(segment.size, 1)} x i8], align 64")
            self.pointers |= {n: self.moved(arena, place) for n, place in segment.places.items()}

    def moved(self, pointer: str, offset: int) -> str:
        """An address so many bytes further."""
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer

    def load(self, type: str, pointer: str, offset: int) -> str:
        """What stands so many bytes after an address."""
        return self.emit(f"load {type}, ptr {self.moved(pointer, offset)}")

    def known(self, i: int) -> str:
        """An address of this process."""
        return self.load("ptr", self.addresses, 8 * i)

    def look(self, i: int, layout: Layout, itemsize: int) -> None:
        """Go elsewhere where an input has another type, dtype, shape, or lies in another way."""
        if "calls" in PLAIN:  # `function` has looked
            return
        x = self.load("ptr", "%arguments", 8 * i)
        self.expect("ptr", self.load("ptr", x, TYPE), self.known(_INPUTS + 2 * i))
        self.expect("ptr", self.load("ptr", x, DTYPE), self.known(_INPUTS + 2 * i + 1))
        self.expect("i32", self.load("i32", x, NDIM), str(len(layout.shape)))
        shape, strides = (self.load("ptr", x, at) if layout.shape else "" for at in (SHAPE, STRIDES))
        for axis, (length, stride) in enumerate(zip(layout.shape, layout.strides, strict=True)):
            self.expect("i64", self.load("i64", shape, 8 * axis), str(length))
            if length != 1 and 0 not in layout.shape:
                self.expect("i64", self.load("i64", strides, 8 * axis), str(stride * itemsize))

    def elements(self, i: int) -> str:
        """Where those of an array are, however it lies."""
        x = self.load("ptr", "%arguments", 8 * i)
        return x if "calls" in PLAIN else self.load("ptr", x, DATA)

    def expect(self, type: str, x: str, y: str) -> None:
        """Go elsewhere unless two values are equal."""
        same = self.emit(f"icmp eq {type} {x}, {y}")
        self.do(f"br i1 {same}, label %next{self.count}, label %differs")
        self.label(f"next{self.count}")

    def answer(self, i: int) -> str:
        """An object of Python's to return; nothing on the plain way, on which no object may be touched."""
        if "calls" in PLAIN:
            return "ptr null"
        found = self.known(i)
        self.do(f"call void {self.known(0)}(ptr {found})")
        return f"ptr {found}"

    def text(self, names: dict[int, str], work: int) -> str:
        """The whole; `names` has, by the identity of a nest or a stack of products, that of its function."""
        # ctypes lets other threads run in any case
        thread = self.emit(f"call ptr {self.known(3)}()") if work >= HEAVY and "calls" not in PLAIN else ""
        for step in self.segment.steps:
            if isinstance(step, Product) and not step.stack:
                self.product(step)
            elif not empty(step):
                pointers = [self.pointers[n] for n in (*step.inputs, *step.outputs)]
                if isinstance(step, Product):
                    pointers.insert(0, self.moved(self.addresses, 8 * _place(step)))
                given = "".join(f", ptr {each}" for each in pointers)
                self.do(f"call void @{names[id(step)]}(i64 0, i64 {count(step)}{given})")
        if thread:
            self.do(f"call void {self.known(4)}(ptr {thread})")
        self.do(f"ret {self.answer(1)}")
        self.label("differs")
        head = f"define ptr @{self.name}(ptr %self, ptr %arguments, i64 %number) nounwind"
        return self.defined(head, self.answer(2))

    def product(self, step: Product) -> None:
        """Calls of BLAS."""
        size = step.types[0].dtype.itemsize
        x, y = (self.moved(self.pointers[each.value], each.offset * size) for each in (step.left, step.right))
        matrices = x, y, self.pointers[step.outputs[0]]
        multiplication(self, self.known(_place(step)), step, step.sizes[:2], matrices)


def _place(step: Product) -> int:
    """Of the function of BLAS among the addresses."""
    return len(_PYTHON) + _BLAS.index((step.types[0].dtype.name, step.routine))
