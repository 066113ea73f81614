"""A `Runtime` on the host: the sources of the cuda backend, compiled by g++, on NumPy arrays.

What runs here is what runs on a GPU, all but two things: `host.h` plays the threads, and NumPy plays cuBLAS.
Compiled units are kept in the temporary folder, under a name that is their content's.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from micrograd_cuda import biased, units
from micrograd_cuda.cudnn import Convolved
from micrograd_cuda.gemm import Product
from micrograd_cuda.plans import Plans
from micrograd_cuda.runtime import Remembered
from micrograd_cuda.units import FAMILIES, Unit

COMPILER = shutil.which("g++")
FOLDER = Path(tempfile.gettempdir()) / f"micrograd-units-{os.getuid() if hasattr(os, 'getuid') else 0}"
HEADER = (Path(__file__).parent / "host.h").read_text(encoding="utf-8")
FLAGS = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-w", "-shared", "-fPIC"]

BEYOND = b"\xab" * 64
BARRIERS = frozenset({"rows", "reductions", "channels", "global_norm"})  # files and families whose threads wait


def compile_text(text: str) -> ctypes.CDLL:
    """A shared library of some C++; compiled once."""
    assert COMPILER is not None
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{hashlib.sha256(f'{FLAGS}{text}'.encode()).hexdigest()[:32]}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=FOLDER) as work:
            source, made = Path(work) / "unit.cpp", Path(work) / "unit.so"
            source.write_text(text, encoding="utf-8")
            done = subprocess.run([COMPILER, *FLAGS, "-o", made, source], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[:4000]
            made.replace(path)
    return ctypes.PyDLL(str(path))  # one thread at a time: what plays threads is there once


def host_text(found: list[Unit]) -> str:
    """The translation unit of several units of one family, each with a way in."""
    common = units.source(FAMILIES[found[0].family].file)
    common = re.sub(r"(struct Bfloat16 \{[^\n]*\n)", r"\1MICROGRAD_HOST_HALF\n", common, count=1)
    parts = [HEADER, common]
    for number, unit in enumerate(found):
        name = f"kernel{number}"
        barriers = str(not BARRIERS.isdisjoint((unit.family, FAMILIES[unit.family].file))).lower()
        parts.append(units.text(unit, name, with_source=False))
        parts.append(
            f"static void call{number}(void** values) {{ host::call(&{name}, values); }}\n"
            f'extern "C" void launch{number}(const unsigned* grid, unsigned block, void** values) '
            f"{{ host::launch(&call{number}, grid, block, values, {barriers}); }}\n"
            f'extern "C" void sizes{number}(unsigned* to) {{ host::sizes(&{name}, to); }}\n'
        )
    return "\n".join(parts)


def siblings(unit: Unit) -> list[Unit]:
    """What is compiled together: a unit of an elementwise function with all others that differ in the function only."""
    if unit.family not in ("unary", "binary"):
        return [unit]
    truth = unit.arguments[2] == "Bool"
    if unit.family == "unary" and truth:
        kinds = ["PREDICATE"]
    elif unit.family == "unary":
        kinds = ["UNARY"] if unit.arguments[1] == unit.arguments[2] else []
    else:
        kinds = ["RELATION" if truth else "BINARY"]
    functors = {unit.arguments[0], *(name for name, kind in units.FUNCTORS.items() if kind in kinds)}
    return [unit._replace(arguments=(each, *unit.arguments[1:])) for each in sorted(functors)]


def native(dtype: str) -> Any:
    """NumPy's dtype of a core dtype's name."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


class Struct(bytes):
    """What is passed by value."""


class HostRuntime:
    """Arrays are NumPy's. Every launch checks the number and the sizes of its arguments."""

    capability = 0  # there are no tensor cores

    def __init__(self) -> None:
        self._bound: dict[Unit, Callable[..., None]] = {}
        self._recent: deque[tuple[Any, int]] = deque(maxlen=8)  # memory, and where its array ends
        self.launched: list[Unit] = []
        self.remembered = Remembered()
        self._counter = np.zeros(1, np.uint32)
        self.products: list[Product] = []
        self.array, self.owners = np.ndarray, {}
        self.address = attrgetter("ctypes.data")
        self.plans = Plans(self)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Aligned to 16 bytes, and filled with what no kernel should leave; so is what lies beyond its end."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=int)) * dtype.itemsize
        memory = np.full(size + 16 + len(BEYOND), 0xAB, np.uint8)
        start = -memory.ctypes.data % 16
        self._recent.append((memory, start + size))
        return memory[start : start + size].view(dtype).reshape(shape)

    def captures(self) -> bool:
        return False

    def counter(self) -> Any:
        assert not self._counter.any(), "a launch has left its counter as it was"
        return self._counter

    def struct(self, numbers: Sequence[int], index: str) -> Struct:
        return Struct(np.array(numbers, np.int32 if index == "int" else np.int64).tobytes())

    def bind(self, unit: Unit) -> Callable[..., None]:
        if unit not in self._bound:
            together = siblings(unit)
            library = compile_text(host_text(together))
            for number, each in enumerate(together):
                self._bound[each] = self._function(each, library, number)
        return self._bound[unit]

    def _function(self, unit: Unit, library: ctypes.CDLL, number: int) -> Callable[..., None]:
        sizes = (ctypes.c_uint * 32)()
        getattr(library, f"sizes{number}")(sizes)
        wanted = list(sizes)[: list(sizes).index(0)]
        types = [part.rsplit(" ", 1)[0] for part in unit.parameters]

        def launch(grid: tuple[int, int], arguments: tuple[Any, ...]) -> None:
            self.launched.append(unit)
            assert len(arguments) == len(wanted), f"{unit} takes {types}"
            values = [self._value(x, size, kind) for x, size, kind in zip(arguments, wanted, types, strict=True)]
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
            getattr(library, f"launch{number}")((ctypes.c_uint * 2)(*grid), unit.block, pointers)
            for memory, end in [*self._recent]:  # to which other threads add
                assert memory[end : end + len(BEYOND)].tobytes() == BEYOND, f"{unit} wrote beyond the end of an array"

        return launch

    def _value(self, x: Any, size: int, kind: str) -> Any:
        if isinstance(x, np.ndarray):
            assert kind.endswith("*"), f"an array where {kind} is expected"
            element = kind.removeprefix("const ").rstrip("*")
            known = {"float": 4, "double": 8, "Half": 2, "Bfloat16": 2, "Long": 8, "Bool": 1}.get(element)
            assert known in (None, x.dtype.itemsize), f"{x.dtype} where {kind} is expected"
            return ctypes.c_void_p(self.address(x))
        if isinstance(x, Struct):
            assert len(x) == size, f"a struct of {len(x)} bytes where {kind} has {size}"
            return (ctypes.c_char * size).from_buffer_copy(x)
        if x.__class__ is float:
            assert kind == "double", f"{x!r} where {kind} is expected"
            return ctypes.c_double(x)
        assert x.__class__ is int, f"{x!r} where {kind} is expected"
        assert kind == "Long" or kind.endswith("*"), f"{x!r} where {kind} is expected"  # a pointer, of a plan
        return ctypes.c_longlong(x)

    def view(self, x: Any, offset: int, shape: Any, strides: Any) -> Any:
        flat = np.lib.stride_tricks.as_strided(x, (x.nbytes // x.itemsize,), (x.itemsize,)).view(np.uint8)[offset:]
        return np.lib.stride_tricks.as_strided(flat[: x.itemsize].view(x.dtype), shape, strides)

    def gemm(self, call: Product, dtype: str, compute: int) -> Callable[[Any, Any, Any], None]:
        return lambda x, y, out: self._multiply(call, *map(self._address_of, (x, y, out)), *[native(dtype)] * 2)

    def _address_of(self, x: Any) -> int:
        return x if x.__class__ is int else self.address(x)

    def _multiply(self, call: Product, x: int, y: int, out: int, dtype: Any, result: Any) -> None:
        """By cublasGemmStridedBatchedEx's definition: column-major matrices by address and leading dimension."""
        self.products.append(call)
        accumulate = np.result_type(dtype, np.float32)

        def memory(address: int, dtype: Any, start: int, needed: int) -> Any:
            place = (ctypes.c_char * (needed * dtype.itemsize)).from_address(address + start * dtype.itemsize)
            return np.ndarray((needed,), dtype, place)

        def seen(address: int, operand: Any, start: int, rows: int, columns: int) -> Any:
            stored = (columns, rows) if operand.transposed else (rows, columns)
            strides = (operand.batch, 1, operand.leading)
            needed = (call.batches - 1) * operand.batch + (stored[1] - 1) * operand.leading + stored[0]
            flat = memory(address, dtype, start, needed)
            found = np.lib.stride_tricks.as_strided(
                flat, (call.batches, *stored), tuple(stride * dtype.itemsize for stride in strides)
            )
            return (found.swapaxes(1, 2) if operand.transposed else found).astype(accumulate)

        for first, second, to in call.starts:
            product = seen(y, call.first, first, call.m, call.k) @ seen(x, call.second, second, call.k, call.n)
            written = np.lib.stride_tricks.as_strided(
                memory(out, result, to, (call.batches - 1) * call.apart + call.n * call.m),
                (call.batches, call.n, call.m),
                tuple(stride * result.itemsize for stride in (call.apart, call.m, 1)),
            )
            written[...] = product.swapaxes(1, 2)

    def biased_gemm(self, call: Product, dtype: str, compute: int, added: bool) -> Callable[..., bool] | None:
        """By cublasLtMatmul's definition, in the wide type: a bias for each row of the matrix that cuBLAS stores."""
        if dtype not in biased.TYPES or call.batches != 1 or not added:
            return None
        narrow = native(dtype)
        wide = np.result_type(narrow, np.float32)

        def run(*arrays: Any) -> bool:
            x, y, bias, out = map(self._address_of, arrays)
            total = np.empty((call.n, call.m), wide)
            self._multiply(call, x, y, self.address(total), narrow, wide)
            added, to = (
                np.ndarray(shape, narrow, (ctypes.c_char * (math.prod(shape) * narrow.itemsize)).from_address(at))
                for at, shape in ((bias, (call.m,)), (out, (call.n, call.m)))
            )
            to[...] = total + added.astype(wide)
            return True

        return run

    def convolve(self, call: Convolved) -> None:
        """There is no cuDNN here: patches are what is played."""


class Arrays:
    """NumPy's array API namespace, except that 0-d results are arrays, as CuPy's are."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if not callable(found) or isinstance(found, type):
            return found

        def function(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return np.asarray(result) if isinstance(result, np.generic) else result

        return function
