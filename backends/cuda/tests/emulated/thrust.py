"""In place of CuPy's module of this name, which is compiled for GPUs: sorting is work for the current stream."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from emulated_cuda import boot

available: Final = True
SORTED: Final = "?bhilqBHILQefdFD"


def get_build_version() -> int:
    return 200600


def _sort(dtype: Any, data: int, indices: int, *sizes: int, moves: bool = True) -> None:
    dtype = np.dtype(dtype)
    if dtype.char not in SORTED:
        raise NotImplementedError(f"Sorting arrays with dtype {dtype} is not supported")
    import cupy

    boot.device.emulated_choose(ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
    numbers = map(ctypes.c_int64, (data, indices, *sizes))
    boot.device.emulated_sort(ctypes.c_char(dtype.kind.encode()), dtype.itemsize, *numbers, moves)


def sort(dtype: Any, data: int, keys: int, shape: Sequence[int]) -> None:
    _sort(dtype, data, 0, math.prod(shape[:-1]), 1, shape[-1])


def argsort(dtype: Any, indices: int, data: int, keys: int, shape: Sequence[int]) -> None:
    _sort(dtype, data, indices, math.prod(shape[:-1]), 1, shape[-1])


def lexsort(dtype: Any, indices: int, keys: int, count: int, length: int) -> None:
    _sort(dtype, keys, indices, 1, count, length, moves=False)
