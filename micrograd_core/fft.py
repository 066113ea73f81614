"""Fourier transforms: the ``fft`` extension of the array API standard, with gradients. See docs/linalg.md.

`fftfreq`, `rfftfreq`, `fftshift` and `ifftshift` work on every device; the transforms need a backend that claims the
capability ``fft``.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.errors import ShapeError
from micrograd_core.ops import TABLE
from micrograd_core.suggestions import door


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | Device | None = None) -> Tensor:
    """The frequencies of the elements of `fft`, in cycles per unit of `d`: ``0, 1, …, -2, -1`` divided by ``n d``.

    Parameters
    ----------
    n : int
        The length of the transformed axis.
    d : float
        The distance between two samples.
    dtype : DType or str, optional
        float32 by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.

    Returns
    -------
    Tensor
        Of shape (n,).

    Raises
    ------
    ShapeError
        When `n` is less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.fft.fftfreq(4)
    Tensor([   0.,  0.25,  -0.5, -0.25])
    """
    if n < 1:
        raise ShapeError(f"fftfreq: there are no frequencies of {n} elements; n is at least 1")
    positions = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return asarray([each / (n * d) for each in positions], dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | Device | None = None) -> Tensor:
    """The frequencies of the elements of `rfft`, in cycles per unit of `d`: ``0, 1, …, n // 2`` divided by ``n d``.

    Parameters
    ----------
    n : int
        The length of the transformed axis.
    d : float
        The distance between two samples.
    dtype : DType or str, optional
        float32 by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.

    Returns
    -------
    Tensor
        Of shape (n // 2 + 1,).

    Raises
    ------
    ShapeError
        When `n` is less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.fft.rfftfreq(4)
    Tensor([  0., 0.25,  0.5])
    """
    if n < 1:
        raise ShapeError(f"rfftfreq: there are no frequencies of {n} elements; n is at least 1")
    return asarray([each / (n * d) for each in range(n // 2 + 1)], dtype=dtype, device=device)


_functions = {name: FUNCTIONS[name] for name, op in TABLE.items() if op.extension == "fft"}
globals().update(_functions)


__all__ = ["fftfreq", "rfftfreq", *_functions]

door(globals())
