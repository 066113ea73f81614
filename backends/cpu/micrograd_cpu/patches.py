"""Patches, what a kernel sees at each of its positions, as views; and their gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import lengths_of


def windows(x: Any, kernel: Shape, stride: Shape, dilation: Shape) -> Any:
    """(batch, channels, *spatial) as a view (batch, channels, *kernel, *positions)."""
    spatial = x.strides[2:]
    lengths = lengths_of("patches", x.shape[2:], kernel, stride, (0,) * len(kernel), dilation)
    inner, outer = ([step * n for step, n in zip(spatial, each, strict=True)] for each in (dilation, stride))
    return as_strided(x, (*x.shape[:2], *kernel, *lengths), (*x.strides[:2], *inner, *outer))


def inside(padding: Shape) -> tuple[Any, ...]:
    """The key of what is not padding."""
    return (..., *(slice(p, -p or None) for p in padding))


def padded(x: Any, padding: Shape, fill: float) -> Any:
    """A copy between padding, or `x` where there is none."""
    if not any(padding):
        return x
    shape = (*x.shape[:2], *(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)))
    out = np.full(shape, fill, x.dtype) if fill else np.zeros(shape, x.dtype)
    out[inside(padding)] = x
    return out


def patches(x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, fill: float) -> Any:
    """A copy of the overlapping views."""
    return np.array(windows(padded(x, padding, fill), kernel_size, stride, dilation), order="C")


def patches_gradient(g: Any, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    """For each element of the kernel, all positions at once."""
    total = np.zeros((*g.shape[:2], *(n + 2 * p for n, p in zip(size, padding, strict=True))), g.dtype)
    views = windows(total, kernel_size, stride, dilation)
    for offset in np.ndindex(*kernel_size):
        views[:, :, *offset] += g[:, :, *offset]
    return np.array(total[inside(padding)], order="C") if any(padding) else total


def of_ranks(kernels: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Those for one and two axes, by the names of their operations: ``conv#d`` is `conv1d` and `conv2d`."""
    return {name.replace("#", rank): kernel for rank in "12" for name, kernel in kernels.items()}


PATCHES: Final[dict[str, Callable[..., Any]]] = {"patches": patches, "patches_gradient": patches_gradient}
