"""Pieces and places: splitting, diagonals over any axes, repetition by PyTorch's name."""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.layout import is_integer, resolve_axis

F: Final = FUNCTIONS


def split(x: Any, split_size_or_sections: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces along `axis` of given lengths, as in PyTorch: NumPy's second argument counts pieces.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    split_size_or_sections : int or sequence of int
        The length of each piece, of which the last may be shorter; or the length of every piece.
    axis : int
        The axis to split. Negative ones count from the end.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    ShapeError
        When the lengths do not add up to that of the axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.split(mg.arange(5), 2)
    (Tensor([0, 1]), Tensor([2, 3]), Tensor([4]))
    """
    x = asarray(x)
    at = resolve_axis("split", axis, x.ndim)
    length = x.shape[at]
    if is_integer(split_size_or_sections):
        size = int(split_size_or_sections)
        if size < 1:
            raise ShapeError(f"split: pieces have a length of at least 1; got {size}")
        starts: list[int] = list(range(0, length, size)) or [0]
        bounds = list(zip(starts, [*starts[1:], length], strict=True))
    else:
        sections = [int(each) for each in split_size_or_sections]
        if sum(sections) != length or min(sections, default=0) < 0:
            raise ShapeError(f"split: sections {sections} do not add up to {length}, the length of axis {axis}")
        ends = [sum(sections[: i + 1]) for i in range(len(sections))]
        bounds = [(end - n, end) for end, n in zip(ends, sections, strict=True)]
    return tuple(x.slice(at, start, stop) for start, stop in bounds)


def chunk(x: Any, chunks: int, /, axis: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces along `axis`, of one length except for the last.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    chunks : int
        The greatest number of pieces.
    axis : int
        The axis to split. Negative ones count from the end.

    Returns
    -------
    tuple of Tensor
        Views of `x`.

    Raises
    ------
    ShapeError
        When `chunks` is less than 1, or `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.chunk(mg.arange(5), 2)
    (Tensor([0, 1, 2]), Tensor([3, 4]))
    """
    x = asarray(x)
    if chunks < 1:
        raise ShapeError(f"chunk: there is at least one piece; got {chunks}")
    at = resolve_axis("chunk", axis, x.ndim)
    return split(x, max(-(-x.shape[at] // chunks), 1), at)


def repeat_interleave(x: Any, repeats: Any, /, axis: int | None = None) -> Tensor:
    """Each element, or each slice along `axis`, repeated: PyTorch's name of `repeat`.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    repeats : int or Tensor
        How often to repeat each element; or a number for each, 1-d.
    axis : int, optional
        The axis to repeat along; without one `x` is flattened.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        When the numbers do not fit the axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.repeat_interleave(mg.asarray([1, 2]), 2)
    Tensor([1, 1, 2, 2])
    """
    return F["repeat"](x, repeats, axis=axis)


def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals over two axes.

    Parameters
    ----------
    x : Tensor
        Of any dtype, with at least two axes.
    offset : int
        How far above the main diagonal; negative numbers lie below.
    axis1, axis2 : int
        The two axes. Negative ones count from the end.

    Returns
    -------
    Tensor
        Of the dtype of `x`; the diagonal is its last axis.

    Raises
    ------
    ShapeError
        When the two axes are the same, or `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.diagonal(mg.asarray([[1, 2], [3, 4]]))
    Tensor([1, 4])
    """
    x = asarray(x)
    first, second = (resolve_axis("diagonal", axis, x.ndim) for axis in (axis1, axis2))
    if first == second:
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} are the same")
    return F["diagonal"](F["moveaxis"](x, (first, second), (-2, -1)), offset=offset)


def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of the diagonal over two axes.

    Parameters
    ----------
    x : Tensor
        Of numeric dtype, with at least two axes.
    offset : int
        How far above the main diagonal; negative numbers lie below.
    axis1, axis2 : int
        The two axes. Negative ones count from the end.

    Returns
    -------
    Tensor
        Without the two axes; sums of small integers are int64.

    Raises
    ------
    ShapeError
        When the two axes are the same, or `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.trace(mg.asarray([[1, 2], [3, 4]]))
    Tensor(5)
    """
    return F["sum"](diagonal(x, offset, axis1, axis2), axis=-1)


def flatten(x: Any, /, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim`, merged into one.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    start_dim, end_dim : int
        The first and the last axis to merge. Negative ones count from the end.

    Returns
    -------
    Tensor
        Of the dtype of `x`, in C order; a view where strides allow it.

    Raises
    ------
    ShapeError
        When `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.flatten(mg.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    return asarray(x).flatten(start_dim, end_dim)
