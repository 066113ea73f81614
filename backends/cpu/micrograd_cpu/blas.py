"""The BLAS that NumPy brings with it, and its products of matrices for compiled code."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any, Final

ROW_MAJOR: Final = 101
PLAIN, TRANSPOSED = 111, 112
LETTERS: Final = {"float32": "s", "float64": "d"}


@cache
def library() -> Any:
    """NumPy's own, which has the symbols of what it is linked to, but on Windows; ``None`` where it is not found."""
    try:
        return ctypes.PyDLL(str(import_module("numpy._core._multiarray_umath").__file__))
    except (ImportError, OSError):
        return None


@cache
def routines(name: str) -> dict[str, int]:
    """Where ``gemm`` and ``gemv`` with integers of 64 bits are, of a dtype; empty where NumPy has another BLAS."""
    letter = LETTERS.get(name)
    found = {kind: getattr(library(), f"scipy_cblas_{letter}{kind}64_", None) for kind in ("gemm", "gemv")}
    return {kind: ctypes.cast(each, ctypes.c_void_p).value or 0 for kind, each in found.items() if each}
