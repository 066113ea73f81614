"""Selection and updates position by position, as PyTorch has them, and what is at a place in the order."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, reduced_shape, resolve_axis
from micrograd_core.ops.batching import composed
from micrograd_core.ops.core.reductions import lane
from micrograd_core.ops.record import ANY, FLOATING, INTEGER, NUMERIC, REAL, SAME, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import chosen, cut, ends_of, is_scalar, positions, to_int64
from micrograd_core.ops.standard.indexing import as_tensor

# ── position by position ─────────────────────────────────────────────────────────────────────────────────────


def _fitting(name: str, x: Any, index: Any, axis: int) -> int:
    """The axis, along which alone the index may be longer than `x`."""
    shape, places = tuple(x.shape), tuple(index.shape)
    at = resolve_axis(name, axis, len(shape))
    if len(places) != len(shape) or any(n > m for i, (n, m) in enumerate(zip(places, shape, strict=True)) if i != at):
        raise ShapeError(
            f"{name}: an index of shape {places} does not fit shape {shape}: it has as many axes, and none is longer "
            f"but axis {at}"
        )
    return at


def _gather_parameters(x: Any, index: Any, /, axis: int) -> dict[str, Any]:
    """Along `axis`, the elements that ``x2`` names, place by place: ``out[i][j] = x1[x2[i][j]][j]`` for axis 0.

    See `take_along_axis` for an index that broadcasts.
    """
    return {"axis": _fitting("gather", x, index, axis)}


def _beginning(k: Table, x: Handle, shape: Shape, but: int = -1) -> Handle:
    """The first elements of `x` along each axis but one, as many as `shape` has."""
    for axis, length in enumerate(shape):
        x = x if axis == but or length == x.shape[axis] else cut(k, x, axis, 0, length)
    return x


UPDATES: Final = {"sum": "index_add", "prod": "index_multiply", "amax": "index_max", "amin": "index_min"}
"""What `scatter_reduce` calls its reductions, and the updates that do them."""
WORDS: Final = (*UPDATES, "mean", "replace")


def _scatter_parameters(
    x: Any, index: Any, src: Any, /, axis: int, reduce: str = "replace", *, include_self: bool = True
) -> dict[str, Any]:
    """A copy of ``x1`` in which the elements that ``x2`` names along `axis` are reduced with those of ``x3``.

    `reduce` is ``'sum'``, ``'prod'``, ``'amax'``, ``'amin'``, ``'mean'``, or ``'replace'``, which keeps the last
    one. `include_self` says whether the element of ``x1`` takes part.
    """
    chosen("scatter_reduce", "reduce", reduce, WORDS)
    at = _fitting("scatter_reduce", x, index, axis)
    given = tuple(getattr(src, "shape", index.shape))
    if len(given) != len(index.shape) or any(n > m for n, m in zip(index.shape, given, strict=True)):
        raise ShapeError(f"scatter_reduce: src of shape {given} has fewer elements than index {tuple(index.shape)}")
    return {"axis": at, "reduce": reduce, "include_self": bool(include_self)}


def _scatter_reduce(k: Table, x: Handle, index: Any, src: Any, *, axis: int, reduce: str, include_self: bool) -> Handle:
    dtype, size = k.dtype(x), math.prod(index.shape)
    values = src if is_scalar(src) else k.reshape(_beginning(k, src, index.shape), shape=(size,))
    values = as_tensor(k, values, x, (size,))
    index = k.astype(index, dtype=int64)
    along = [index if each == axis else positions(k, index, each) for each in range(len(x.shape))]
    flat = k.reshape(x, shape=(math.prod(x.shape),))
    places = k.reshape(k.linear_index(*along, shape=tuple(x.shape)), shape=(size,))
    if reduce == "replace":
        return k.reshape(k.index_set(flat, places, values, axis=0), shape=x.shape)
    if not include_self:
        low, high = ends_of(dtype)
        neutral = {"prod": 1, "amax": low, "amin": high}.get(reduce, 0)
        flat = k.index_set(flat, places, neutral, axis=0)
    if reduce != "mean":
        return k.reshape(getattr(k, UPDATES[reduce])(flat, places, values, axis=0), shape=x.shape)
    total = k.index_add(flat, places, values, axis=0)
    count = k.full(shape=flat.shape, fill_value=int(include_self), dtype=x.dtype)
    count = k.index_add(count, places, 1, axis=0)
    count = k.where(k.equal(count, 0), 1, count)
    mean = k.divide(total, count) if dtype.is_floating else k.floor_divide(total, count)
    return k.reshape(mean, shape=x.shape)


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────


class Ordered(NamedTuple):
    """The elements at a place in the order, and where they are."""

    values: Any
    indices: Any


def _kth_parameters(x: Any, /, k: int, axis: int = -1, keepdims: bool = False) -> dict[str, Any]:
    """The `k`-th smallest element along `axis`, counted from 1, and where it is."""
    at = resolve_axis("kthvalue", axis, len(x.shape))
    if not 1 <= k <= x.shape[at]:
        raise ShapeError(f"kthvalue: k is 1 to {x.shape[at]}, the length of axis {axis} of {tuple(x.shape)}; got {k}")
    return {"rank": int(k), "axis": at, "keepdims": bool(keepdims)}


def _kth(k: Table, x: Handle, *, rank: int, axis: int, keepdims: bool) -> Any:
    place = cut(k, k.argsort(x, axis=axis, descending=False, stable=True), axis, rank - 1, rank)
    found = k.take_along_axis(x, place, axis=axis), place
    shape = reduced_shape(x.shape, (axis,), keepdims)
    return tuple(k.copy(k.reshape(each, shape=shape)) for each in found)


METHODS: Final = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile_parameters(
    x: Any, /, q: Any, axis: int | None = None, keepdims: bool = False, method: str = "linear",
    *, interpolation: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The element at a share `q`, between 0 and 1, of the order along `axis`, or of all elements.

    Several shares stand along a new first axis. `method` says what is between two elements: ``'linear'``,
    ``'lower'``, ``'higher'``, ``'nearest'`` or ``'midpoint'``. NaN if any element is.
    """
    # Shares in a tensor are read.
    word = chosen("quantile", "method", interpolation or method, METHODS)
    given = q.tolist() if hasattr(q, "tolist") else q
    shares = tuple(map(float, given)) if isinstance(given, (list, tuple)) else float(given)
    if any(not 0 <= share <= 1 for share in (shares if isinstance(shares, tuple) else (shares,))):
        raise ValueError(f"quantile: q is between 0 and 1; got {given}")
    return {"q": shares, "axis": lane("quantile", x, axis), "keepdims": bool(keepdims), "method": word}


def _median_parameters(x: Any, /, axis: int | None = None, keepdims: bool = False) -> dict[str, Any]:
    """The middle element along `axis`, or of all; of an even number the mean of the two in the middle.

    Where it is, `kthvalue` says.
    """
    return {"axis": lane("median", x, axis), "keepdims": bool(keepdims)}


def _quantile(k: Table, x: Handle, *, q: Any, axis: int | None, keepdims: bool, method: str) -> Handle:
    shape = reduced_shape(x.shape, None if axis is None else (axis,), keepdims)
    if axis is None:
        x, axis = k.reshape(x, shape=(math.prod(x.shape),)), 0
    length = x.shape[axis]
    ordered = k.sort(x, axis=axis, descending=False, stable=True)
    spoilt = k.any(k.isnan(x), axis=(axis,), keepdims=True)

    def at(share: float) -> Handle:
        place = share * (length - 1)
        low, high = math.floor(place), math.ceil(place)
        between = 0.5 if method == "midpoint" else place - low
        if method == "nearest":
            low = high = round(place)
        low, high = (low if method != "higher" else high), (high if method != "lower" else low)
        out = first = cut(k, ordered, axis, low, low + 1)
        if low != high:
            last = cut(k, ordered, axis, high, high + 1)
            out = k.add(first, k.multiply(k.subtract(last, first), between))
        return k.reshape(k.where(spoilt, math.nan, out), shape=shape)

    return k.stack(*map(at, q), axis=0) if isinstance(q, tuple) else at(q)


_PLACES = Array((2, 3), -4, 4, "int64")

OPS = (
    Op(
        "gather",
        parameters=_gather_parameters,
        accepts=(ANY, INTEGER),
        separate=(1,),
        compose=lambda k, x, index, *, axis: k.take_along_axis(_beginning(k, x, index.shape, axis), index, axis=axis),
        samples=(Sample((3, 4), _PLACES, axis=1), Sample((4, 2), Array((5, 1), -4, 4, "int64"), axis=0)),
    ),
    Op(
        "scatter_reduce",
        parameters=_scatter_parameters,
        accepts=(NUMERIC, INTEGER, NUMERIC),
        separate=(1,),
        compose=_scatter_reduce,
        samples=(
            Sample((3, 4), _PLACES, (3, 3), axis=1, reduce="sum", include_self=False),
            Sample((3, 4), _PLACES, (2, 3), axis=1, reduce="mean"),
            Sample(Array((3, 4), 0, 9, "int64"), _PLACES, Array((2, 3), 0, 9, "int64"), axis=1, reduce="amax"),
            Sample((4, 2), Array((3, 1), -4, 4, "int64"), 1.5, axis=0),
        ),
    ),
    Op(
        "kthvalue",
        parameters=_kth_parameters,
        accepts=REAL,
        parts=Ordered,
        result=(SAME, to_int64),
        shape=lambda x, *, axis, keepdims, **_: (reduced_shape(x.shape, (axis,), keepdims),) * 2,
        compose=_kth,
        samples=(Sample((2, 4), k=2), Sample((3, 2), k=3, axis=0, keepdims=True)),
    ),
    Op(
        "quantile",
        parameters=_quantile_parameters,
        accepts=FLOATING,
        batching=composed,
        compose=_quantile,
        samples=(Sample((2, 4), q=0.3, axis=1), Sample((2, 3), q=(0.1, 0.9), keepdims=True, method="higher")),
    ),
    Op(
        "median",
        parameters=_median_parameters,
        accepts=FLOATING,
        kind="reduction",
        compose=lambda k, x, **params: k.quantile(x, q=0.5, method="linear", **params),
        samples=(Sample((2, 3)), Sample((2, 4), axis=1, keepdims=True)),
    ),
)
