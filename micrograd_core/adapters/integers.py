"""Integers and truth values in Python's own arithmetic: for devices that keep a dtype and compute nothing in it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

from micrograd_core.dtypes import DType, integer_range


def _power(x: int, y: int) -> int:
    if y < 0:
        raise ValueError(f"{x} to the power of {y} is not an integer; convert to a floating dtype first")
    return pow(x, y, 1 << 64)


COMPUTE: Final[dict[str, dict[str, Callable[..., Any]]]] = {
    "map": {
        "add": operator.add, "multiply": operator.mul, "pow": _power, "maximum": max, "less": operator.lt,
        "equal": operator.eq, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
        "floor": lambda x: x, "where": lambda condition, x, y: x if condition else y,
    },
    "reduce": {"sum": sum, "max": max},
}  # fmt: skip
"""What the host computes in the place of `StridedBackend.map` and `reduce`: of Python numbers, and of lists of them."""


def compute(asked: str, op: str, operands: list[Any], size: int, dtype: DType) -> list[Any]:
    """`size` elements of `dtype`; operands are flat lists, or single numbers beside them."""
    function = COMPUTE[asked][op]
    if asked == "reduce":
        length = len(operands[0]) // size
        found = [function(operands[0][i * length : (i + 1) * length]) for i in range(size)]
    else:
        columns = [x if isinstance(x, list) else repeat(x, size) for x in operands]
        found = [function(*row) for row in zip(*columns, strict=True)]
    if not dtype.is_integer:
        return found
    low = integer_range(dtype)[0]
    return [(x - low) % (1 << dtype.bits) + low for x in found]
