"""Products of matrices by the BLAS that NumPy brings with it, called from compiled code."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Final

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
            found = {kind: getattr(library, f"scipy_cblas_{letter}{kind}64_") for kind in ("gemm", "gemv")}
        except (OSError, AttributeError):
            continue
        if letter:
            return {kind: ctypes.cast(each, ctypes.c_void_p).value or 0 for kind, each in found.items()}
    return {}
