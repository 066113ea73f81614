"""How many threads the BLAS library gets.

OpenBLAS starts all its threads for every product, and they wait by spinning. For the small products of small networks,
that takes longer than the product as soon as a core is shared with somebody else: a training took from 0.3 to 20 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from micrograd_core.nn import Module

ENOUGH = 1 << 26
"""Multiplications in a product from which more than one thread pays: about a millisecond's work of one core."""


def chosen(model: Module, rows: int) -> int:
    """The number of threads for a network whose largest product has so many rows; 0 is as many as the library likes."""
    largest = max((p.size for p in model.parameters() if p.ndim > 1), default=0)
    return 1 if largest * rows < ENOUGH else 0


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let BLAS libraries use that many, until the end; where threadpoolctl is not installed, nothing changes."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        threads = 0
    if not threads:
        yield
        return
    with threadpool_limits(limits=threads, user_api="blas"):
        yield
