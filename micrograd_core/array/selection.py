"""Selection and updates along an axis, as PyTorch spells them, and order: the k-th element, medians, quantiles."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from micrograd_core.array.functions import FUNCTIONS, both_spellings
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError, one_of
from micrograd_core.layout import resolve_axis

F: Final = FUNCTIONS


def _cut(name: str, x: Tensor, index: Tensor, axis: int) -> tuple[Tensor, Tensor, int]:
    """`x` no longer than the indices along the other axes, as PyTorch takes them."""
    if not x.ndim:
        x, index = x.reshape(1), index.reshape(-1)
    at = resolve_axis(name, axis, x.ndim)
    if index.ndim != x.ndim or any(n > m for i, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if i != at):
        raise ShapeError(
            f"{name}: an index of shape {index.shape} does not fit shape {x.shape}: it has as many axes, and none is "
            f"longer but axis {at}"
        )
    return x[tuple(slice(None) if i == at else slice(0, n) for i, n in enumerate(index.shape))], index, at


def gather(x: Any, /, dim: int, index: Any) -> Tensor:
    """Along `dim`, the elements that `index` names, place by place: ``out[i][j] = x[index[i][j]][j]`` for `dim` 0.

    Raises
    ------
    ShapeError
        When the index does not fit. See `take_along_axis` for one that broadcasts.
    """
    x, index = asarray(x), asarray(index)
    cut, places, at = _cut("gather", x, index, dim)
    return F["take_along_axis"](cut, places, axis=at).reshape(index.shape)


def index_select(x: Any, /, dim: int, index: Any) -> Tensor:
    """The slices along `dim` that integers name: ``take(x, index, axis=dim)``."""
    x = asarray(x)
    return F["take"](x if x.ndim else x.reshape(1), asarray(index).reshape(-1), axis=dim).reshape(
        () if not x.ndim else (*x.shape[: dim % x.ndim], -1, *x.shape[dim % x.ndim + 1 :])
    )


REDUCTIONS: Final = {"sum": "index_add", "prod": "index_multiply", "amax": "index_max", "amin": "index_min"}
"""What `scatter_reduce` calls its reductions, and the updates that do them."""


def scatter_reduce(
    x: Any, /, dim: int, index: Any, src: Any, reduce: str = "replace", *, include_self: bool = True
) -> Tensor:
    """A copy of `x` in which the elements that `index` names along `dim` are reduced with those of `src`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor
        Integers, of as many axes as `x`.
    src : Tensor or number
    reduce : str
        ``'sum'``, ``'prod'``, ``'amax'``, ``'amin'``, ``'mean'``; ``'replace'`` has the last one stand.
    include_self : bool
        Whether what stands there takes part.

    Raises
    ------
    ShapeError, ValueError
        When the index does not fit, or the reduction is another word.
    """
    x, index = asarray(x), asarray(index)
    words = (*REDUCTIONS, "mean", "replace")
    if reduce not in words:
        raise ValueError(f"scatter_reduce: reduce is {one_of(map(repr, words))}; got {reduce!r}")
    whole = x.shape
    _, places, at = _cut("scatter_reduce", x, index, dim)
    x = x if whole else x.reshape(1)
    if isinstance(src, (bool, int, float)):
        values: Any = F["broadcast_to"](asarray(src, dtype=x.dtype, device=x.device), places.shape)
    else:
        given = asarray(src).reshape(-1) if not whole else asarray(src)
        if given.ndim != places.ndim or any(n > m for n, m in zip(places.shape, given.shape, strict=True)):
            raise ShapeError(f"scatter_reduce: src of shape {given.shape} has fewer elements than index {index.shape}")
        values = given[tuple(slice(0, n) for n in places.shape)]
    flat, linear = x.reshape(-1), _linear(x.shape, places, at).reshape(-1)
    values = values.reshape(-1)
    if reduce == "replace":
        return F["index_set"](flat, linear, values, axis=0).reshape(whole)
    if not include_self:
        least = {"amax": -math.inf, "amin": math.inf, "prod": 1}.get(reduce, 0)
        if reduce in ("amax", "amin") and not x.dtype.is_floating:
            from micrograd_core.array.namespace import iinfo

            limits = iinfo(x.dtype)
            least = limits.min if reduce == "amax" else limits.max
        flat = F["index_set"](flat, linear, asarray(least, dtype=x.dtype, device=x.device), axis=0)
    if reduce == "mean":
        total = F["index_add"](flat, linear, values, axis=0)
        count = F["index_add"](flat.detach() * 0 + int(include_self), linear, 1, axis=0)
        count = F["maximum"](count, 1)
        return (total / count if x.dtype.is_floating else total // count).reshape(whole)
    return F[REDUCTIONS[reduce]](flat, linear, values, axis=0).reshape(whole)


def _linear(shape: tuple[int, ...], index: Tensor, axis: int) -> Tensor:
    """Positions in the flattened tensor of what an index names along an axis, place by place."""
    total: Any = 0
    for each, n in enumerate(shape):
        if each == axis:
            at: Any = F["where"](index < 0, index + n, index).astype("int64")
        else:
            lengths = [-1 if i == each else 1 for i in range(len(shape))]
            at = asarray(list(range(index.shape[each])), dtype="int64", device=index.device).reshape(lengths)
        total = total * n + at
    return total


def scatter_add(x: Any, /, dim: int, index: Any, src: Any) -> Tensor:
    """A copy of `x` with the elements of `src` added where `index` says along `dim`."""
    return scatter_reduce(x, dim, index, src, "sum")


def masked_select(x: Any, /, mask: Any) -> Tensor:
    """The elements where the mask is true, in one row; `x` and the mask broadcast."""
    from micrograd_core.array.composed import broadcast_arrays

    wide, chosen = broadcast_arrays(x, mask)
    return wide[chosen]


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────


class Ordered(NamedTuple):
    """What `kthvalue`, and `median` along an axis, give."""

    values: Tensor
    indices: Tensor


@both_spellings
def kthvalue(x: Any, /, k: int, axis: int = -1, keepdims: bool = False) -> Ordered:
    """The `k`-th smallest element along `axis`, counted from 1, and where it is."""
    x = asarray(x)
    lane = x if x.ndim else x.reshape(1)
    at = resolve_axis("kthvalue", axis, lane.ndim)
    if not 1 <= k <= lane.shape[at]:
        raise ShapeError(f"kthvalue: k is 1 to {lane.shape[at]}, the length of axis {axis} of {x.shape}; got {k}")
    place = F["argsort"](lane, axis=at)[(*(slice(None),) * at, slice(k - 1, k))]
    found = F["take_along_axis"](lane, place, axis=at), place
    shape = x.shape if not x.ndim or keepdims else (*x.shape[:at], *x.shape[at + 1 :])
    shape = tuple(1 if keepdims and i == at else n for i, n in enumerate(shape))
    return Ordered(*(each.reshape(shape) for each in found))


@both_spellings
def median(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """The middle element; of an even number the mean of the two in the middle, as NumPy's.

    Parameters
    ----------
    x : Tensor
    axis : int, optional
        By default all elements.
    keepdims : bool
        Whether the axis stays, with length 1.
    """
    return quantile(x, 0.5, axis, keepdims)


METHODS: Final = ("linear", "lower", "higher", "nearest", "midpoint")


@both_spellings
def quantile(
    x: Any, q: Any, /, axis: int | None = None, keepdims: bool = False, *, method: str = "linear",
    interpolation: str | None = None,
) -> Tensor:  # fmt: skip
    """The numbers that a share `q` of the elements do not exceed. NaN where any element is.

    Parameters
    ----------
    x : Tensor
    q : float, or sequence of them
        Between 0 and 1. Several stand along a new first axis. They are read.
    axis : int, optional
        By default all elements.
    keepdims : bool
        Whether the axis stays, with length 1.
    method, interpolation : str
        What is between two elements: ``'linear'``, ``'lower'``, ``'higher'``, ``'nearest'`` or ``'midpoint'``.

    Raises
    ------
    ShapeError, ValueError
    """
    x, word = asarray(x), interpolation or method
    if word not in METHODS:
        raise ValueError(f"quantile: method is {one_of(map(repr, METHODS))}; got {word!r}")
    several = isinstance(q, (list, tuple)) or bool(getattr(q, "shape", ()))
    if not isinstance(q, (list, tuple)):
        q = asarray(q, dtype="float64" if isinstance(q, float) else None).reshape(-1).tolist()
    listed: list[float] = list(q)
    if any(not 0 <= share <= 1 for share in listed):
        raise ValueError(f"quantile: q is between 0 and 1; got {q}")
    lane = x.reshape(-1) if axis is None or not x.ndim else x
    at = 0 if axis is None or not x.ndim else resolve_axis("quantile", axis, x.ndim)
    length = lane.shape[at]
    if not length:
        raise ShapeError(f"quantile: no result exists for zero elements (shape {x.shape}, axis {axis})")
    ordered = F["sort"](lane, axis=at)
    lead = (slice(None),) * at
    bad = F["any"](F["isnan"](lane), axis=at)
    found = []
    for share in listed:
        place = share * (length - 1)
        low, high = math.floor(place), math.ceil(place)
        between = place - low
        if word == "nearest":
            low = high = round(place)
        low, high = (low if word != "higher" else high), (high if word != "lower" else low)
        between = {"midpoint": 0.5}.get(word, between)
        first, second = ordered[(*lead, low)], ordered[(*lead, high)]
        out = first if low == high else first + (second - first) * between
        found.append(F["where"](bad, math.nan, out))
    shape = tuple(1 if axis is None or i == at else n for i, n in enumerate(x.shape))
    found = [each.reshape(shape) for each in found] if keepdims else found
    return F["stack"](found) if several else found[0]
