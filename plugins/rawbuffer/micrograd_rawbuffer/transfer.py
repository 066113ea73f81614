"""Transfer: bytes between host and buffer, and Python numbers between bytes and arithmetic.

Arithmetic is done in Python's int and float (which is a float64); what a dtype makes of a result is decided here.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable
from typing import Any, Final

from micrograd_core.dtypes import DType, bfloat16, integer_range, pack, unpack

BITS: Final = "H"
"""Of bfloat16, which the struct module does not know: the upper half of a float32, as an integer."""


def copy_in(buffer: bytearray, data: Any) -> None:
    """Copy the C-order bytes of `data`, any object with the buffer protocol, to the start of `buffer`."""
    source = memoryview(data)
    if source.nbytes:  # a view without elements cannot be cast
        memoryview(buffer)[: source.nbytes] = source.cast("B")


def copy_out(buffer: bytearray | memoryview) -> bytes:
    """All bytes of `buffer`, or of a part of one: a copy, which later writes do not change."""
    return bytes(buffer)


def load(buffer: bytearray, positions: Iterable[int], dtype: DType) -> list[Any]:
    """The numbers at `positions`, which count elements."""
    form = struct.Struct(dtype.format or BITS)
    found = [form.unpack_from(buffer, position * form.size)[0] for position in positions]
    return unpack(array(BITS, found), dtype) if dtype is bfloat16 else found


def store(buffer: bytearray, positions: Iterable[int], values: Iterable[Any], dtype: DType) -> None:
    """Put one value at each of `positions`, as a number of `dtype`."""
    form = struct.Struct(dtype.format or BITS)
    for position, value in zip(positions, values, strict=False):  # a number in place of an array repeats without end
        bits = memoryview(pack((value,), dtype)).cast(BITS)[0] if dtype is bfloat16 else fit(value, dtype)
        form.pack_into(buffer, position * form.size, bits)


def fit(value: Any, dtype: DType) -> Any:
    """`value` as a number that `dtype` holds: integers wrap, floats round and overflow to infinity.

    A float loses its fraction on the way to an integer; NaN and the infinities become 0, since no integer is right.
    """
    if dtype.kind == "bool":
        return bool(value)
    if dtype.is_integer:
        low, high = integer_range(dtype)
        whole = int(value) if math.isfinite(value) else 0
        return (whole - low) % (high - low + 1) + low
    if dtype is bfloat16:
        return unpack(pack((value,), dtype), dtype)[0]
    if dtype.bits == 64:
        return float(value)
    try:
        return struct.unpack(dtype.format, struct.pack(dtype.format, float(value)))[0]
    except OverflowError:  # the struct module's answer for float16; for float32 it gives the infinity itself
        return math.copysign(math.inf, value)
