"""Fourier transforms: the ``fft`` extension of the array API standard, with gradients. See docs/linalg.md.

`fftfreq`, `rfftfreq`, `fftshift` and `ifftshift` work on every device; the transforms need a backend that claims the
capability ``fft``.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.elsewhere import missing
from micrograd_core.errors import ShapeError
from micrograd_core.ops import TABLE


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | Device | None = None) -> Tensor:
    """The frequencies of the elements of `fft`: ``0, 1, …, -2, -1`` divided by ``n d``, in cycles per unit of `d`.

    Raises
    ------
    ShapeError
        When `n` is less than 1.
    """
    if n < 1:
        raise ShapeError(f"fftfreq: there are no frequencies of {n} elements; n is at least 1")
    positions = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return asarray([each / (n * d) for each in positions], dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | Device | None = None) -> Tensor:
    """The frequencies of the elements of `rfft`: ``0, 1, …, n // 2`` divided by ``n d``. Errors as `fftfreq`."""
    if n < 1:
        raise ShapeError(f"rfftfreq: there are no frequencies of {n} elements; n is at least 1")
    return asarray([each / (n * d) for each in range(n // 2 + 1)], dtype=dtype, device=device)


_functions = {name: FUNCTIONS[name] for name, op in TABLE.items() if op.extension == "fft"}
globals().update(_functions)


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)


__all__ = ["fftfreq", "rfftfreq", *_functions]


def __dir__() -> list[str]:
    return sorted(__all__)
