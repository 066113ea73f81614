"""Images at other sizes and other places: `interpolate`, `grid_sample`, `affine_grid`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.functional.common import T


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """(batch, channels, *spatial) at another `size`, or `scale_factor` times as large.

    Parameters
    ----------
    input : Tensor
    size, scale_factor : number, or one for each spatial axis
        One of the two.
    mode : str
        ``'nearest'``, ``'nearest-exact'``, ``'area'``; ``'linear'``, ``'bilinear'`` or ``'trilinear'`` by the number of
        spatial axes; ``'bicubic'``.
    align_corners : bool, optional
        Whether the first and last elements keep their places, rather than the edges of the image.
    recompute_scale_factor : bool, optional
        Whether elements are as far apart as the sizes say, rather than `scale_factor`.
    antialias : bool
        Whether, of ``'bilinear'`` and ``'bicubic'``, all elements of a larger input count.

    Raises
    ------
    ShapeError, ValueError
        When both or neither of size and scale are given, or the mode is not for so many axes.
    """
    return T["interpolate"](input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Tensor:
    """`interpolate`, by its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by straight lines, with the corners aligned."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Where the elements of an output of `size` come from: (batch, 2, 3) to (batch, height, width, 2), or 3-d alike."""
    return T["affine_grid"](theta, size, align_corners)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Elements of (batch, channels, *spatial) at the places of a grid (batch, *output, 2 or 3), between -1 and 1.

    Parameters
    ----------
    input, grid : Tensor
        The last axis of the grid counts the last spatial axis first.
    mode : str
        ``'bilinear'`` (of three axes too), ``'nearest'`` or, of two axes, ``'bicubic'``.
    padding_mode : str
        What is outside: ``'zeros'``, ``'border'`` or ``'reflection'``.
    align_corners : bool, optional
        Whether -1 and 1 are the places of the first and last elements, rather than the edges of the image.

    Raises
    ------
    ShapeError, ValueError
        When input and grid do not fit, or a mode is another word.
    """
    return T["grid_sample"](input, grid, mode, padding_mode, align_corners)
