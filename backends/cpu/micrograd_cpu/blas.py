"""Products of matrices by the BLAS that NumPy brings with it, called from compiled code."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

ROW_MAJOR: Final = 101
PLAIN, TRANSPOSED = 111, 112
LETTERS: Final = {"float32": "s", "float64": "d"}


@cache
def routines(name: str) -> dict[str, int]:
    """Where ``gemm`` and ``gemv`` with integers of 64 bits are, of a dtype; empty where NumPy has another BLAS."""
    letter = LETTERS.get(name, "")
    folder = Path(np.__file__).resolve().parent
    for path in [*folder.parent.glob("numpy.libs/*openblas64_*"), *folder.glob(".dylibs/*openblas64_*")]:
        try:
            library = ctypes.CDLL(str(path))
            found: Any = {kind: getattr(library, f"scipy_cblas_{letter}{kind}64_") for kind in ("gemm", "gemv")}
        except (OSError, AttributeError):
            continue
        if letter and _is_right(found["gemm"], np.dtype(name)):
            return {kind: ctypes.cast(each, ctypes.c_void_p).value or 0 for kind, each in found.items()}
    return {}


def _is_right(function: Any, dtype: Any) -> bool:
    """Whether it multiplies as NumPy does."""
    number = ctypes.c_float if dtype.itemsize == 4 else ctypes.c_double
    x, y = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(12, dtype=dtype).reshape(4, 3)
    made = np.zeros((2, 4), dtype)
    sizes = [ctypes.c_int64(n) for n in (2, 4, 3)]
    width, out = ctypes.c_int64(3), ctypes.c_int64(4)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, y, made)]
    function.restype = None
    function(
        ROW_MAJOR, PLAIN, TRANSPOSED, *sizes, number(1), pointers[0], width, pointers[1], width, number(0), pointers[2],
        out,
    )  # fmt: skip
    return bool((made == x @ y.T).all())
