"""Images at other sizes and other places: `interpolate`, `grid_sample`, `affine_grid`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.functional.common import T, publish


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """An image (batch, channels, *spatial) at another `size`, or `scale_factor` times as large.

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial).
    size, scale_factor : number, or one for each spatial axis
        The lengths of the result, or how many times as large it is: give one of the two.
    mode : str
        ``'nearest'``, ``'nearest-exact'``, ``'area'``; ``'linear'``, ``'bilinear'`` or ``'trilinear'`` by the number of
        spatial axes; ``'bicubic'``.
    align_corners : bool, optional
        Whether the first and last elements keep their places, rather than the edges of the image.
    recompute_scale_factor : bool, optional
        Whether the distance between elements follows from the lengths, rather than from `scale_factor`.
    antialias : bool
        Whether ``'bilinear'`` and ``'bicubic'`` average over all elements of a larger input.

    Returns
    -------
    Tensor
        (batch, channels, *lengths).

    Raises
    ------
    ShapeError, ValueError
        When both or neither of size and scale are given, or the mode is not for so many axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.interpolate(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return T["interpolate"](input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Tensor:
    """`interpolate`, by its old name.

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial).
    size : number, or one for each axis, optional
        Lengths of the spatial axes; give this or `scale_factor`.
    scale_factor : number, or one for each axis, optional
        How many times as large; give this or `size`.
    mode : str
        As in `interpolate`.
    align_corners : bool, optional
        As in `interpolate`.

    Returns
    -------
    Tensor
        (batch, channels, *sizes).

    Raises
    ------
    ShapeError, ValueError
        As in `interpolate`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.upsample(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest element.

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial).
    size : number, or one for each axis, optional
        Lengths of the spatial axes; give this or `scale_factor`.
    scale_factor : number, or one for each axis, optional
        How many times as large; give this or `size`.

    Returns
    -------
    Tensor
        (batch, channels, *sizes).

    Raises
    ------
    ShapeError, ValueError
        As in `interpolate`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.upsample_nearest(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by straight lines, with the corners aligned.

    Parameters
    ----------
    input : Tensor
        (batch, channels, height, width).
    size : number, or one for each axis, optional
        Height and width; give this or `scale_factor`.
    scale_factor : number, or one for each axis, optional
        How many times as large; give this or `size`.

    Returns
    -------
    Tensor
        (batch, channels, *sizes).

    Raises
    ------
    ShapeError, ValueError
        As in `interpolate`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.upsample_bilinear(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Where the elements of an output of `size` come from: (batch, 2, 3) to (batch, height, width, 2), or 3-d alike.

    Parameters
    ----------
    theta : Tensor
        (batch, 2, 3), or (batch, 3, 4) for three axes.
    size : sequence of int
        The shape of the output: (batch, channels, *spatial).
    align_corners : bool, optional
        Whether -1 and 1 are the places of the first and last elements, rather than of the edges.

    Returns
    -------
    Tensor
        (batch, height, width, 2), or (batch, depth, height, width, 3).

    Raises
    ------
    ShapeError
        When `theta` does not fit `size`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> theta = mg.asarray([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> y = F.affine_grid(theta, (1, 1, 2, 3), align_corners=False)
    >>> y.shape
    (1, 2, 3, 2)
    """
    return T["affine_grid"](theta, size, align_corners)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The elements of an image at the places of a grid, interpolated.

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial), with two or three spatial axes.
    grid : Tensor
        (batch, *output, 2 or 3): places between -1 and 1, the last spatial axis first.
    mode : str
        ``'bilinear'`` (for three axes too), ``'nearest'`` or, for two axes, ``'bicubic'``.
    padding_mode : str
        What lies outside of the input: ``'zeros'``, ``'border'`` or ``'reflection'``.
    align_corners : bool, optional
        Whether -1 and 1 are the places of the first and last elements, rather than of the edges of the image.

    Returns
    -------
    Tensor
        (batch, channels, *output).

    Raises
    ------
    ShapeError, ValueError
        When input and grid do not fit, or a mode is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, grid = mg.ones((1, 1, 4, 4)), mg.zeros((1, 2, 3, 2))
    >>> y = F.grid_sample(x, grid, align_corners=False)
    >>> y.shape
    (1, 1, 2, 3)
    """
    return T["grid_sample"](input, grid, mode, padding_mode, align_corners)


publish(globals())
