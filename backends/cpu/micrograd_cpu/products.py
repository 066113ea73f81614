"""Matrix products: NumPy's, of which those that are too small to share get one thread of OpenBLAS.

Two threads wait for each other at the end of each product. Where another program has one of the cores that takes a
slice of the scheduler's time, thousands of times as long as a small product. So for as long as small ones are computed
OpenBLAS is told to use one thread, and then what it was told before. NumPy with another library is left as it is.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from functools import cache, partial
from threading import get_ident
from typing import Any, Final

import numpy as np

from micrograd_cpu.blas import library

TINY: Final = 512
"""Elements of the first operand below which nothing is looked at."""
ALONE: Final = (1 << 18, 1 << 20)
"""Multiplications between which one thread computes a product: for fewer OpenBLAS itself takes one."""
PACKED: Final = 1 << 20
"""Multiplications from which on OpenBLAS copies the matrices first."""
FEW: Final = 4
"""Rows, or columns, up to which that copy takes longer than products with one vector after the other."""
SPELLINGS: Final = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


class Alone:
    """Computes products with one thread of OpenBLAS, in however many threads of Python.

    `inside` has how many threads OpenBLAS was told before, by the thread of Python that told it one. Nothing is locked:
    whoever finds one thread leaves it so, and what an interrupt left behind is undone by that thread's next product.
    """

    def __init__(self, told: Callable[[], int], tell: Callable[[int], None]) -> None:
        self.told, self.tell = told, tell
        self.inside: dict[int, int] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def __call__(self, product: Callable[..., Any], *operands: Any) -> Any:
        """Calls `product`, and tells OpenBLAS afterwards what it was told before."""
        thread = get_ident()
        before = self.inside.get(thread) or self.told()
        if before == 1:
            return product(*operands)
        try:
            self.inside[thread] = before
            self.tell(1)
            return product(*operands)
        finally:
            self.tell(before)
            self.inside.pop(thread, None)

    def whole(self, product: Callable[..., Any], *operands: Any) -> Any:
        """Calls `product` with all threads that OpenBLAS was told to use."""
        if self.inside and (before := self.inside.pop(get_ident(), 0)):
            self.tell(before)
        return product(*operands)

    def threads(self) -> int:
        """How many OpenBLAS was told to use, by whoever is not here."""
        return max(self.inside.values(), default=0) or self.told()

    def forget(self) -> None:
        """In a forked child, in which none of the other threads goes on."""
        if self.inside:
            self.tell(max(self.inside.values()))
            self.inside.clear()


@cache
def alone() -> Alone | None:
    """For OpenBLAS; ``None`` where NumPy's products are another library's."""
    for each in SPELLINGS:
        if hasattr(library(), each.format("set_num_threads")):
            told, tell = (getattr(library(), each.format(f"{verb}_num_threads")) for verb in ("get", "set"))
            told.argtypes, tell.argtypes, tell.restype = [], [ctypes.c_int], None
            return Alone(told, tell)
    return None


def matmul(x: Any, y: Any) -> Any:
    """``ndarray.dot`` has less overhead where it means the same; many matrices times one are one product."""
    if x.ndim == 2 == y.ndim and x.size < TINY:
        return x.dot(y)
    if y.ndim == 2 < x.ndim and x.flags.c_contiguous:
        return matmul(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[1])
    if x.size < TINY or x.ndim < 2 or y.ndim < 2:
        return np.matmul(x, y)
    product = x.dot if x.ndim == 2 == y.ndim else partial(np.matmul, x)
    work = x.shape[-1] * x.shape[-2] * y.shape[-1]
    if work <= ALONE[0] or (single := alone()) is None:
        return product(y)
    if work > PACKED and 1 < x.shape[-2] <= FEW and x.ndim == 2 == y.ndim:
        return single(np.matmul, x[:, None], y)[:, 0]
    return single(product, y) if work <= ALONE[1] else single.whole(product, y)
