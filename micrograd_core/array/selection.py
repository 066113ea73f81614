"""Selection by integers and masks with PyTorch's arguments, the axis first; pieces, diagonals, repetition."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.layout import is_integer, resolve_axis

F: Final = FUNCTIONS


def gather(x: Any, /, dim: int, index: Any) -> Tensor:
    """Along `dim`, the elements that `index` names, place by place: ``out[i][j] = x[index[i][j]][j]`` for `dim` 0.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    dim : int
        The axis to compute along. Negative ones count from the end.
    index : Tensor
        Integers, of as many axes as `x`.

    Returns
    -------
    Tensor
        Of the dtype of `x` and the shape of `index`.

    Raises
    ------
    ShapeError, IndexError
        When the index has other axes than `x`, or points outside of it. See `take_along_axis` for one that broadcasts.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> mg.gather(x, 1, mg.asarray([[0], [1]]))
    Tensor([[1.],
            [4.]])
    """
    x, index = asarray(x), asarray(index)
    if x.ndim:
        return F["gather"](x, index, axis=dim)
    return F["gather"](x.reshape(1), index.reshape(-1), axis=dim).reshape(index.shape)


def index_select(x: Any, /, dim: int, index: Any) -> Tensor:
    """The slices along `dim` that integers name: ``take(x, index, axis=dim)``.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    dim : int
        The axis to compute along. Negative ones count from the end.
    index : Tensor
        Integers, 1-d.

    Returns
    -------
    Tensor
        Of the dtype of `x`; axis `dim` has the length of `index`.

    Raises
    ------
    IndexError
        When an integer lies outside of the axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.index_select(mg.asarray([[1, 2], [3, 4]]), 1, mg.asarray([1]))
    Tensor([[2],
            [4]])
    """
    x = asarray(x)
    found = F["take"](x if x.ndim else x.reshape(1), asarray(index).reshape(-1), axis=dim)
    return found if x.ndim else found.reshape(())


def scatter_reduce(
    x: Any, /, dim: int, index: Any, src: Any, reduce: str = "replace", *, include_self: bool = True
) -> Tensor:
    """A copy of `x` in which the elements that `index` names along `dim` are reduced with those of `src`.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    dim : int
        The axis to compute along. Negative ones count from the end.
    index : Tensor
        Integers, of as many axes as `x`.
    src : Tensor or number
        The other elements, of at least the shape of `index`.
    reduce : str
        ``'sum'``, ``'prod'``, ``'amax'``, ``'amin'`` or ``'mean'``; with ``'replace'`` the last element stays.
    include_self : bool
        Whether the elements of `x` take part.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError, ValueError
        When the index does not fit, or the reduction is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.scatter_reduce(mg.zeros(3), 0, mg.asarray([0, 0, 2]), mg.asarray([1.0, 2.0, 5.0]), "sum")
    Tensor([3., 0., 5.])
    """
    x, index = asarray(x), asarray(index)
    given = {"axis": dim, "reduce": reduce, "include_self": include_self}
    if x.ndim:
        return F["scatter_reduce"](x, index, src, **given)
    src = src if isinstance(src, (bool, int, float)) else asarray(src).reshape(-1)
    return F["scatter_reduce"](x.reshape(1), index.reshape(-1), src, **given).reshape(())


def scatter(
    x: Any, /, dim: Any, index: Any = None, src: Any = None, *, value: Any = None, reduce: str | None = None,
    key: Any = None,
) -> Tensor:  # fmt: skip
    """A copy of `x` with other elements along `dim` where `index` says, or where `key` says.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    dim : int
        The axis to compute along; with `key`, the elements that replace ``x[key]``.
    index : Tensor
        Integers, of as many axes as `x`.
    src : Tensor or number
        The elements that are written.
    value : number, optional
        PyTorch's name of `src` where it is a number.
    reduce : str, optional
        ``'add'`` or ``'multiply'`` combines with the elements of `x`; by default they are replaced.
    key : optional
        As in `x[key]`; `index` is left out then.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError, TypeError
        When the index does not fit, or is missing.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.scatter(mg.zeros(3), 0, mg.asarray([2]), 7.0)
    Tensor([0., 0., 7.])
    >>> mg.scatter(mg.zeros(3), 7.0, key=slice(1))
    Tensor([7., 0., 0.])
    """
    if key is not None:
        return F["scatter"](x, dim, key=key)
    given = src if value is None else value
    if index is None or given is None:
        raise TypeError(
            "scatter: give dim, index and src, as scatter(x, 1, index, src), or scatter(x, values, key=key)"
        )
    word = {"add": "sum", "multiply": "prod"}.get(reduce, reduce) if reduce else "replace"
    return scatter_reduce(x, dim, index, given, word)


def scatter_add(x: Any, /, dim: int, index: Any, src: Any) -> Tensor:
    """A copy of `x` with the elements of `src` added where `index` says along `dim`.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    dim : int
        The axis to compute along. Negative ones count from the end.
    index : Tensor
        Integers, of as many axes as `x`.
    src : Tensor or number
        The elements to add, of at least the shape of `index`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        When the index does not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.scatter_add(mg.zeros(3), 0, mg.asarray([0, 0, 2]), mg.asarray([1.0, 2.0, 5.0]))
    Tensor([3., 0., 5.])
    """
    return scatter_reduce(x, dim, index, src, "sum")


def masked_select(x: Any, /, mask: Any) -> Tensor:
    """The elements where the mask is true, in one row.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    mask : Tensor
        Of bool dtype; its shape broadcasts with that of `x`.

    Returns
    -------
    Tensor
        Of the dtype of `x`, 1-d, in C order.

    Raises
    ------
    ShapeError
        When `x` and the mask do not broadcast.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.masked_select(mg.asarray([1, 2, 3]), mg.asarray([True, False, True]))
    Tensor([1, 3])
    """
    from micrograd_core.array.composed import broadcast_arrays

    wide, chosen = broadcast_arrays(x, mask)
    return wide[chosen]


# ── pieces and places ─────────────────────────────────────────────────────────────────────────────────────────


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
        ends = [*range(size, length, size), length]
    else:
        sections = [int(each) for each in split_size_or_sections]
        if sum(sections) != length or min(sections, default=0) < 0:
            raise ShapeError(f"split: sections {sections} do not add up to {length}, the length of axis {axis}")
        ends = [*accumulate(sections)]
    return tuple(x.slice(at, start, stop) for start, stop in pairwise([0, *ends]))


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
