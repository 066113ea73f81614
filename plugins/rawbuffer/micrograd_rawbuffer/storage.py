"""Storage: which bytes hold tensors, how many there are, and the backend itself.

A buffer is a ``bytearray``. A handle is the adapter's `Strided`: a buffer, the `Layout` that says where the elements
lie in it, and their dtype, for which the core's own `DType` serves.
"""

from __future__ import annotations

import math
from itertools import repeat
from typing import Any, Final

from micrograd_core.adapters.strided import Strided, StridedBackend
from micrograd_core.dtypes import DTYPES as CORE_DTYPES, DType
from micrograd_core.errors import OutOfMemory
from micrograd_rawbuffer.kernels import MAPS, REDUCTIONS
from micrograd_rawbuffer.transfer import copy_in, copy_out, fit, load, store

DTYPES: Final = {
    name: CORE_DTYPES[name]
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64",
    )
}  # fmt: skip


class RawBufferBackend(StridedBackend):
    """One device, with the host's memory and Python's arithmetic."""

    def __init__(self, device: str) -> None:
        super().__init__(device, DTYPES)
        self._in_use = self._peak = 0

    def alloc(self, count: int, dtype: DType) -> bytearray:
        """Zeros, though nobody may rely on it."""
        size = count * dtype.itemsize
        try:
            buffer = bytearray(size)
        except MemoryError:
            raise OutOfMemory(self.device, asked=size, in_use=self._in_use) from None
        self._in_use += size
        self._peak = max(self._peak, self._in_use)
        return buffer

    def free(self, buffer: bytearray) -> None:
        """Python takes the memory back; what is left to do is to count."""
        self._in_use -= len(buffer)

    def write(self, buffer: bytearray, data: Any) -> None:
        """From the host."""
        copy_in(buffer, data)

    def read(self, buffer: bytearray) -> bytes:
        """To the host."""
        return copy_out(buffer)

    def read_range(self, buffer: bytearray, start: int, end: int) -> bytes:
        """Only what is asked for."""
        return copy_out(memoryview(buffer)[start:end])

    def map(self, op: str, out: Strided, *operands: Any) -> None:
        """``out[i] = op(x[i], ...)``. Numbers take the dtype of the arrays beside them first."""
        dtype = next((x.dtype for x in reversed(operands) if isinstance(x, Strided)), out.dtype)
        columns = [_elements(x) if isinstance(x, Strided) else repeat(fit(x, dtype)) for x in operands]
        store(out.buffer, out.layout.indices(), map(MAPS[op], *columns), out.dtype)

    def reduce(self, op: str, out: Strided, x: Strided) -> None:
        """``out[i] = op of x[i, j] over j``: `count` successive elements of `x` make one of `out`."""
        count = math.prod(x.shape[len(out.shape) :])
        elements = _elements(x)
        rows = (elements[i * count : (i + 1) * count] for i in range(out.layout.size))
        store(out.buffer, out.layout.indices(), map(REDUCTIONS[op], rows), out.dtype)

    def memory(self) -> dict[str, int]:
        """Bytes of the buffers that are alive, and the most there have been."""
        return {"in_use": self._in_use, "peak": self._peak}


def _elements(x: Strided) -> list[Any]:
    """All elements as Python numbers, in C order. Taken out before any is written, so `out` may be an operand."""
    return load(x.buffer, x.layout.indices(), x.dtype)
