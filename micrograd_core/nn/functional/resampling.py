"""Images at other sizes and other places: `interpolate`, `grid_sample`, `affine_grid`."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.functional.common import T, of_operations, publish


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
    return T["interpolate"](input, size, scale_factor, mode, align_corners)


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
    return T["interpolate"](input, size, scale_factor, "nearest")


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
    return T["interpolate"](input, size, scale_factor, "bilinear", True)


of_operations(globals(), "input", "interpolate")
of_operations(globals(), "theta", "affine_grid")
of_operations(globals(), "input grid", "grid_sample")
publish(globals())
