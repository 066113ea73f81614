"""Transfer: bytes into arrays, arrays into bytes. On the host both are one copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from micrograd_cpu.half import as_half


def from_host(data: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A fresh array with the C-order elements in `data`."""
    array = np.frombuffer(data, dtype=dtype).reshape(shape).copy() if 0 not in shape else np.empty(shape, dtype)
    return as_half(array)


def to_host(x: Any) -> bytes:
    """The C-order bytes of an array or NumPy scalar, whatever its strides."""
    return x.tobytes()  # type: ignore[no-any-return]
