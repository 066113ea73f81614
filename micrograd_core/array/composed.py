"""Functions that are not one operation: those that give several tensors, and those that take other things than tensors.

Each is a few operations in a row, so that gradients, devices and errors are theirs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from micrograd_core.array.creation import arange, full, linspace
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import bool_, int64
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.layout import broadcast_shapes, resolve_axis

F: Final = FUNCTIONS


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """The operands, each broadcast to their common shape.

    Parameters
    ----------
    arrays : Tensor or number
        Operands whose shapes broadcast.

    Returns
    -------
    tuple of Tensor
        One for each operand, all of the common shape. They are views.

    Raises
    ------
    ShapeError
        When they do not broadcast.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x, y = mg.broadcast_arrays(mg.zeros((3, 1)), mg.zeros(4))
    >>> x.shape, y.shape
    ((3, 4), (3, 4))
    """
    tensors = tuple(map(asarray, arrays))
    shape = broadcast_shapes("broadcast_arrays", *(x.shape for x in tensors))
    return tuple(F["broadcast_to"](x, shape) for x in tensors)


def unstack(x: Tensor, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`, without that axis; `stack` puts them together again.

    Parameters
    ----------
    x : Tensor
        Of at least one axis.
    axis : int
        The axis to take apart. Negative ones count from the end.

    Returns
    -------
    tuple of Tensor
        Views of `x`, each with one axis less.

    Raises
    ------
    ShapeError
        When there is no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.unstack(mg.asarray([[1, 2], [3, 4]]))
    (Tensor([1, 2]), Tensor([3, 4]))
    """
    at = resolve_axis("unstack", axis, x.ndim)
    return tuple(x.select(at, i) for i in range(x.shape[at]))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not 0, in C order.

    Parameters
    ----------
    x : Tensor
        Of any dtype, with at least one axis.

    Returns
    -------
    tuple of Tensor
        int64, one for each axis, of shape (count,). As a key they select the elements.

    Raises
    ------
    ShapeError
        For a 0-d tensor, which has no axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nonzero(mg.asarray([[0, 1], [2, 0]]))
    (Tensor([0, 1]), Tensor([1, 0]))
    """
    x = asarray(x)
    if not x.ndim:
        raise ShapeError("nonzero: a 0-d tensor has no axes to give indices for; reshape it with x.reshape(1)")
    found = F["argwhere"](x)
    return tuple(found[:, axis] for axis in range(x.ndim))


def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along `axis`, taken `n` times.

    Parameters
    ----------
    x : Tensor
        Of numeric dtype, with at least one axis.
    n : int
        How many times differences are taken.
    axis : int
        The axis to compute along. Negative ones count from the end.
    prepend, append : Tensor or number, optional
        Joined to `x` along the axis first. A number stands for a slice that is full of it.

    Returns
    -------
    Tensor
        Of the dtype of `x`; the axis is `n` shorter.

    Raises
    ------
    ShapeError, ValueError
        When `x` has no such axis, `prepend` or `append` does not fit, or `n` is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.diff(mg.asarray([1, 4, 9, 16]))
    Tensor([3, 5, 7])
    """
    x = asarray(x)
    at = resolve_axis("diff", axis, x.ndim)
    slice_shape = tuple(1 if each == at else length for each, length in enumerate(x.shape))
    given = [each for each in (prepend, x, append) if each is not None]
    parts = [each if each is x else F["astype"](asarray(each, device=x.device), x.dtype) for each in given]
    parts = [part if part.ndim else F["broadcast_to"](part, slice_shape) for part in parts]
    return F["diff"](F["concat"](parts, axis=axis) if len(parts) > 1 else x, axis=axis, n=n)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where in the sorted 1-d ``x1`` the elements of ``x2`` would be inserted, as int64.

    Parameters
    ----------
    x1, x2 : Tensor
        Of real dtype. NaN counts as greater than all numbers.
    side : str
        ``'left'``: before equal elements; ``'right'``: after them.
    sorter : Tensor, optional
        Of integers: what sorts ``x1`` if it is not sorted, as from `argsort`.

    Returns
    -------
    Tensor
        int64, of the shape of ``x2``: places from 0 to ``len(x1)``.

    Raises
    ------
    ShapeError, ValueError
        When ``x1`` is not 1-d, or `side` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.searchsorted(mg.asarray([1.0, 3.0, 5.0]), mg.asarray([0.0, 3.0, 9.0]))
    Tensor([0, 1, 3])
    """
    return F["searchsorted"](x1 if sorter is None else F["take"](x1, sorter), x2, side=side)


def einsum(subscripts: str, /, *operands: Any) -> Tensor:
    """Einstein's sum: products of operands whose axes `subscripts` name, summed over those that the result lacks.

    Parameters
    ----------
    subscripts : str
        A letter per axis, a term per operand, such as ``"ij,jk->ik"``. Without ``->`` the result has the letters that
        occur once, in alphabetical order. ``...`` stands for axes that broadcast.
    *operands : Tensor
        Of numeric dtype. Pairs are contracted one after the other by matrix products, cheapest result first.

    Returns
    -------
    Tensor
        Of the dtype that the operands promote to; its axes are those that the subscripts name.

    Raises
    ------
    ShapeError
        When terms do not fit the operands; it names the subscript.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.einsum("ij,jk->ik", mg.ones((2, 3)), mg.ones((3, 4)))
    Tensor([[3., 3., 3., 3.],
            [3., 3., 3., 3.]])
    """
    terms = subscripts.partition("->")[0].count(",") + 1
    if len(operands) == 1 < terms and isinstance(operands[0], (list, tuple)):  # PyTorch takes them in a list, too
        operands = tuple(operands[0])
    return F["einsum"](operands, subscripts=subscripts)


class TopK(NamedTuple):
    """What `topk` gives."""

    values: Tensor
    indices: Tensor


def topk(x: Tensor, /, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> TopK:
    """The `k` largest (or smallest) elements along `axis`, in order, and where they are.

    NaN is taken last. Of equal elements the first is taken first, and receives the gradient.

    Parameters
    ----------
    x : Tensor
        Of real dtype.
    k : int
        How many elements to take.
    axis : int
        The axis to compute along. Negative ones count from the end.
    largest : bool
        Whether the largest are taken, rather than the smallest.
    sorted : bool
        Accepted for PyTorch's sake: the elements are in order either way.

    Returns
    -------
    named tuple of Tensor: values, indices
        The axis has length `k`; the indices are int64.

    Raises
    ------
    ShapeError
        When the axis is shorter than `k`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.topk(mg.asarray([3.0, 9.0, 5.0]), 2)
    TopK(values=Tensor([9., 5.]), indices=Tensor([1, 2]))
    """
    x = asarray(x)
    if not x.ndim:
        return TopK(*(each.reshape(()) for each in topk(x.reshape(1), k, axis, largest)))
    at = resolve_axis("topk", axis, x.ndim)
    if not 0 <= k <= x.shape[at]:
        raise ShapeError(f"topk: k is 0 to {x.shape[at]}, the length of axis {axis} of shape {x.shape}; got {k}")
    indices = F["argsort"](x, axis=at, descending=largest).slice(at, 0, k)
    return TopK(F["take_along_axis"](x, indices, axis=at), indices)


# ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def _unique(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct elements, what sorts the flattened tensor, and where in that order each of them stands first."""
    flat = asarray(x).reshape(-1)
    order = F["argsort"](flat)
    found = F["take"](flat, order)
    new = F["concat"]([F["equal"](found[:1], found[:1]) | True, found[1:] != found[:-1]])
    starts = F["argwhere"](new)[:, 0]
    return F["take"](found, starts), order, starts


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in order.

    NaN is distinct from NaN. The gradient goes to the first of equal elements.

    Parameters
    ----------
    x : Tensor
        Of any dtype and shape; it is flattened.

    Returns
    -------
    Tensor
        Of the dtype of `x`, 1-d.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.unique_values(mg.asarray([3, 1, 3]))
    Tensor([1, 3])
    """
    return _unique(x)[0]


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs.

    Parameters
    ----------
    x : Tensor
        Of any dtype and shape; it is flattened.

    Returns
    -------
    named tuple of Tensor: values, counts
        Both 1-d; counts are int64.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.unique_counts(mg.asarray([3, 1, 3]))
    UniqueCounts(values=Tensor([1, 3]), counts=Tensor([1, 2]))
    """
    values, order, starts = _unique(x)
    return UniqueCounts(values, _counts(order, starts))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements in order, and where each element of `x` is among them.

    Parameters
    ----------
    x : Tensor
        Of any dtype and shape; it is flattened.

    Returns
    -------
    named tuple of Tensor: values, inverse_indices
        The values are 1-d; the indices are int64, of the shape of `x`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.unique_inverse(mg.asarray([3, 1, 3]))
    UniqueInverse(values=Tensor([1, 3]), inverse_indices=Tensor([1, 0, 1]))
    """
    values, order, starts = _unique(x)
    return UniqueInverse(values, _inverse(asarray(x), order, starts))


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements in order, where they are, and how often each occurs.

    Parameters
    ----------
    x : Tensor
        Of any dtype and shape; it is flattened.

    Returns
    -------
    named tuple of Tensor: values, indices, inverse_indices, counts
        Values, where each comes first in the flattened `x`, and counts are 1-d; where each element of `x` is among the
        values has the shape of `x`. All but the values are int64.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> found = mg.unique_all(mg.asarray([3, 1, 3]))
    >>> found.indices, found.counts
    (Tensor([1, 0]), Tensor([1, 2]))
    """
    values, order, starts = _unique(x)
    return UniqueAll(values, F["take"](order, starts), _inverse(asarray(x), order, starts), _counts(order, starts))


def _counts(order: Tensor, starts: Tensor) -> Tensor:
    return diff(starts, append=asarray([order.size], dtype=int64, device=order.device))


def _inverse(x: Tensor, order: Tensor, starts: Tensor) -> Tensor:
    group = searchsorted(starts, arange(x.size, dtype=int64, device=order.device), side="right") - 1
    return F["take"](group, F["argsort"](order)).reshape(x.shape)


# ── with arguments or answers of another library ──────────────────────────────────────────────────────────────


def allclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` says.

    Parameters
    ----------
    x, y : Tensor or number
        Of numeric dtype; their shapes broadcast.
    rtol, atol : float
        The tolerances relative to `y`, and absolute.
    equal_nan : bool
        Whether a NaN is close to another.

    Returns
    -------
    bool
        A Python bool: the answer is read from the device.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.allclose(mg.asarray([1.0, 2.0]), mg.asarray([1.0, 2.0 + 1e-9]))
    True
    """
    return bool(F["isclose"](x, y, rtol, atol, equal_nan).all())


def masked_fill(x: Any, /, mask: Any, value: Any) -> Tensor:
    """`value` where the mask is true, else `x`.

    Parameters
    ----------
    x : Tensor or number
        Of any dtype.
    mask : Tensor
        Of bool dtype; its shape broadcasts with that of `x`.
    value : Tensor or number
        The element where the mask is true; converted to the dtype of `x`.

    Returns
    -------
    Tensor
        Of the dtype of `x`, and the shape that `x` and the mask broadcast to.

    Raises
    ------
    DTypeError
        When the mask does not hold bools.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.masked_fill(mg.asarray([1.0, 2.0]), mg.asarray([True, False]), 0.0)
    Tensor([0., 2.])
    """
    x, mask = asarray(x), asarray(mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_fill: a mask holds bools; got {mask.dtype}. Write mask != 0")
    return F["masked_fill"](x, mask, value.astype(x.dtype) if isinstance(value, Tensor) else value)


def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Sums of the first 1, 2, … elements along `axis`; of the flattened tensor without one.

    Parameters
    ----------
    x : Tensor or number
        Of numeric dtype.
    axis : int, optional
        The axis to compute along; without one `x` is flattened.
    dtype : DType or str, optional
        By default that of `x`; of small integers int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d without an axis.

    Raises
    ------
    ShapeError
        When `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.cumsum(mg.asarray([1, 2, 3, 4]))
    Tensor([ 1,  3,  6, 10])
    """
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_sum"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Products of the first 1, 2, … elements along `axis`; of the flattened tensor without one.

    Parameters
    ----------
    x : Tensor or number
        Of numeric dtype.
    axis : int, optional
        The axis to compute along; without one `x` is flattened.
    dtype : DType or str, optional
        By default that of `x`; of small integers int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d without an axis.

    Raises
    ------
    ShapeError
        When `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.cumprod(mg.asarray([1, 2, 3, 4]))
    Tensor([ 1,  2,  6, 24])
    """
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_prod"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


def norm(x: Any, /, ord: Any = 2, axis: Any = None, keepdims: bool = False, *, p: Any = None) -> Tensor:
    """The length of vectors along `axis`, by default of all elements: PyTorch's ``x.norm(p, dim)``.

    Parameters
    ----------
    x : Tensor
        Of floating dtype.
    ord : number or str
        Which norm: an order such as 1, 2 or ``inf``; ``'fro'`` and ``None`` are 2.
    axis : int or sequence of int, optional
        The axes to compute along; by default all of them.
    keepdims : bool
        Whether the axes stay, with length 1.
    p : number or str, optional
        PyTorch's name of `ord`.

    Returns
    -------
    Tensor
        Of the real dtype that goes with that of `x`.

    Raises
    ------
    ShapeError
        When the order is a word for matrices: `mg.linalg.matrix_norm` takes it.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.norm(mg.asarray([3.0, 4.0]))
    Tensor(5.)
    """
    word = ord if p is None else p
    if word not in ("fro", None) and isinstance(word, str):
        raise ShapeError(f"norm: {word!r} is of matrices; use mg.linalg.matrix_norm(x, ord={word!r})")
    places = tuple(axis) if isinstance(axis, list) else axis
    return F["vector_norm"](x, axis=places, keepdims=keepdims, ord=2 if word in ("fro", None) else word)


# ── histograms ────────────────────────────────────────────────────────────────────────────────────────────────


class Histogram(NamedTuple):
    """What `histogram` gives."""

    hist: Tensor
    bin_edges: Tensor


def histogram(
    x: Any, /, bins: Any = 10, range: Any = None, *, weight: Any = None, weights: Any = None, density: bool = False
) -> Histogram:
    """How many elements lie between neighbouring edges; the last bin has its upper edge too.

    Parameters
    ----------
    x : Tensor
        Of real dtype and any shape.
    bins : int or Tensor
        The number of bins, or their edges, 1-d and sorted.
    range : (float, float), optional
        The first and the last edge; by default the least and the greatest element, which are read.
    weight, weights : Tensor, optional
        How much each element counts: of as many elements as `x`.
    density : bool
        Whether to normalize, so that the sum over bins, times their widths, is 1.

    Returns
    -------
    named tuple of Tensor: hist, bin_edges
        Of shapes (bins,) and (bins + 1,). Counts are int64; weighted sums have the dtype of the weights.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.histogram(mg.asarray([0.0, 1.0, 1.0, 4.0]), 2)
    Histogram(hist=Tensor([3, 1]), bin_edges=Tensor([0., 2., 4.]))
    """
    flat = asarray(x).reshape(-1).detach()
    share = weight if weights is None else weights
    if isinstance(bins, int):
        if range is None:
            low, high = (float(flat.min().item()), float(flat.max().item())) if flat.size else (0.0, 1.0)
        else:
            low, high = float(range[0]), float(range[1])
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        kind = flat.dtype if flat.dtype.is_floating else "float64"
        edges = linspace(low, high, bins + 1, dtype=kind, device=flat.device)
    else:
        edges = asarray(bins)
    count = edges.shape[0] - 1
    values = flat.astype(edges.dtype)
    place = searchsorted(edges, values, side="right") - 1
    place = F["where"](values == edges[-1], count - 1, place)
    inside = (place >= 0) & (place < count) & (values <= edges[-1])
    place = F["where"](inside, place, count)
    amounts: Any = 1 if share is None else asarray(share).reshape(-1)
    kind = "int64" if share is None else amounts.dtype
    hist = F["index_add"](full(count + 1, 0, dtype=kind, device=flat.device), place, amounts, axis=0)[:count]
    if density:
        hist = hist.astype(edges.dtype) if share is None else hist
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return Histogram(hist, edges)
