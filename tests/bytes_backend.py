"""A backend in pure Python: memory is a ``bytearray``, kernels are loops. It drives `StridedBackend` in the tests."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from micrograd_core.adapters.strided import Strided, StridedBackend
from micrograd_core.dtypes import DTYPES, DType, integer_range
from micrograd_core.plugins import hookimpl

NAMES = ("bool", "int8", "int32", "int64", "uint8", "float32", "float64")


def _guarded(function: Callable[[float], float]) -> Callable[[float], float]:
    """IEEE results where Python raises."""

    def guarded(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return -math.inf if x == 0 else math.nan

    return guarded


def _divide(x: float, y: float) -> float:
    if y:
        return x / y
    return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)


def _pow(x: float, n: float) -> float:
    try:
        return math.pow(x, n) if isinstance(x, float) or isinstance(n, float) else x**n
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if x == 0 else math.nan


def _maximum(x: Any, y: Any) -> Any:
    return x if x != x or x > y else y


MAPS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "divide": _divide,
    "pow": _pow,
    "maximum": _maximum,
    "less": operator.lt,
    "equal": operator.eq,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "exp": _guarded(math.exp),
    "log": _guarded(math.log),
    "sin": _guarded(math.sin),
    "sqrt": _guarded(math.sqrt),
    "floor": lambda x: x if isinstance(x, int) or not math.isfinite(x) else float(math.floor(x)),
    "where": lambda c, x, y: x if c else y,
    "copy": lambda x: x,
}


def _fit(value: Any, dtype: DType) -> Any:
    """A number as one of `dtype`: integers wrap, float32 overflows to infinity."""
    if dtype.is_integer:
        low, high = integer_range(dtype)
        return (int(value) - low) % (high - low + 1) + low
    if dtype.kind == "bool":
        return bool(value)
    limit = 3.4028235677973366e38
    return math.copysign(math.inf, value) if dtype.bits == 32 and abs(value) >= limit else float(value)


class BytesBackend(StridedBackend):
    """Counts its buffers, so that tests can see what is kept alive."""

    def __init__(self, address: str) -> None:
        super().__init__(f"bytes:{address or 0}", {name: DTYPES[name] for name in NAMES})
        self.allocated = 0

    def alloc(self, count: int, dtype: DType) -> memoryview:
        self.allocated += 1
        return memoryview(bytearray(count * dtype.itemsize)).cast(dtype.format)

    def write(self, buffer: memoryview, data: Any) -> None:
        if len(buffer):
            buffer.cast("B")[:] = memoryview(data).cast("B")

    def read(self, buffer: memoryview) -> bytes:
        return buffer.tobytes()

    def map(self, op: str, out: Strided, *operands: Any) -> None:
        function = MAPS[op]
        values = [
            [x.buffer[i] for i in x.layout.indices()] if isinstance(x, Strided) else [x] * out.layout.size
            for x in operands
        ]
        for i, row in zip(out.layout.indices(), zip(*values, strict=True), strict=True):
            out.buffer[i] = _fit(function(*row), out.dtype)

    def reduce(self, op: str, out: Strided, x: Strided) -> None:
        values = [x.buffer[i] for i in x.layout.indices()]
        count = len(values) // out.layout.size if out.layout.size else 0
        for i, target in enumerate(out.layout.indices()):
            row = values[i * count : (i + 1) * count]
            if op == "sum":
                total = math.fsum(row) if out.dtype.is_floating and all(map(math.isfinite, row)) else sum(row)
            else:
                total = row[0]
                for value in row[1:]:
                    total = _maximum(total, value)
            out.buffer[target] = _fit(total, out.dtype)


class Plugin:
    """What the tests register under the name ``bytes``; two devices, ``bytes:0`` and ``bytes:1``."""

    @hookimpl
    def micrograd_open(self, address: str) -> BytesBackend:
        return BytesBackend(address)

    @hookimpl
    def micrograd_addresses(self) -> list[str]:
        return ["0", "1"]

    @hookimpl
    def micrograd_priority(self) -> int:
        return -1
