"""Order: sorting, and searching in what is sorted.

NaN comes last, whichever way one sorts; equal elements keep their order. A device without a kernel sorts by a network
of comparisons of halves: O(n log² n) work in O(log² n) passes over all lanes (K. E. Batcher, "Sorting networks and
their applications", 1968, in the form in which all comparisons go one way). Searching compares everything with
everything: O(n m) work and memory.
"""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import bool_, int64, integer_range
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.record import ANY, BOOLEAN, NUMERIC, REAL, Array, Op, Sample
from micrograd_core.ops.shared import arrays, is_scalar, to_bool, to_int64

# ── parameters as the user writes them → as kernels receive them ─────────────────────────────────────────────


def _sort_parameters(name: str) -> Any:
    def parameters(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> dict[str, Any]:
        return {
            "axis": resolve_axis(name, axis, len(x.shape)), "descending": bool(descending), "stable": bool(stable),
        }  # fmt: skip

    return parameters


def _search_parameters(x1: Any, x2: Any, /, *, side: str = "left") -> dict[str, Any]:
    if len(x1.shape) != 1:
        raise ShapeError(f"searchsorted: the sorted tensor must be 1-d; it has shape {tuple(x1.shape)}")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right'; got {side!r}")
    return {"side": side}


def _isin_parameters(x1: Any, x2: Any, /, *, invert: bool = False) -> dict[str, Any]:
    return {"invert": bool(invert)}


def _diff_parameters(x: Any, /, *, axis: int = -1, n: int = 1) -> dict[str, Any]:
    if n < 0:
        raise ValueError(f"diff: n is how often to take differences, 0 or more; got {n}")
    return {"axis": resolve_axis("diff", axis, len(x.shape)), "n": n}


# ── compositions and rules ───────────────────────────────────────────────────────────────────────────────────


def _reversed(k: Any, x: Any) -> Any:
    """The same numbers in the opposite order, without overflow."""
    return k.negative(x) if k.dtype(x).is_floating else k.bitwise_invert(x)


def _before(k: Any, x: Any, y: Any) -> Any:
    """Whether `x` comes before `y`, where NaN comes after all numbers."""
    dtype = k.dtype(x)
    if dtype is bool_:  # which the standard's `less` does not take
        return k.logical_and(k.logical_not(x), y)
    if not dtype.is_floating:
        return k.less(x, y)
    return k.logical_or(k.less(x, y), k.logical_and(k.isnan(y), k.logical_not(k.isnan(x))))


def _exchanged(k: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    """Elements and positions (pairs of tensors), so that the lesser come first; the earlier of two equal ones."""
    (x, i), (y, j) = first, second
    equal = k.logical_not(k.logical_or(_before(k, x, y), _before(k, y, x)))
    swap = k.logical_or(_before(k, y, x), k.logical_and(equal, k.less(j, i)))
    return [(k.where(swap, y, x), k.where(swap, j, i)), (k.where(swap, x, y), k.where(swap, i, j))]


def _network(k: Any, x: Any, i: Any) -> tuple[Any, Any]:
    """Lanes of a power of two sorted along the last of two axes, with the positions `i` of their elements."""
    lanes, length = x.shape
    size = 2
    while size <= length:
        half = size
        while half > 1:
            shape = (lanes, length // half, 2, half // 2)
            whole = tuple(slice(0, n, 1) for n in (*shape[:2], shape[3]))
            first, second = (
                tuple(k.getitem(k.reshape(t, shape=shape), key=(*whole[:2], side, whole[2])) for t in (x, i))
                for side in (0, 1)
            )
            if half == size:  # a sorted half and another, turned round, are one that rises and falls
                second = tuple(k.flip(t, axis=(2,)) for t in second)
            first, second = _exchanged(k, first, second)
            if half == size:
                second = tuple(k.flip(t, axis=(2,)) for t in second)
            x, i = (
                k.reshape(k.concat(*(k.expand_dims(t, axis=(2,)) for t in pair), axis=2), shape=(lanes, length))
                for pair in zip(first, second, strict=True)
            )
            half //= 2
        size *= 2
    return x, i


def _sorted(k: Any, x: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """Elements and where they were."""
    order = (*(each for each in range(len(x.shape)) if each != axis), axis)
    moved = k.permute_dims(x, axes=order)
    shape = tuple(moved.shape)
    length, lanes = shape[-1], math.prod(shape[:-1])
    moved = k.reshape(moved, shape=(lanes, length))
    moved = _reversed(k, moved) if descending else moved
    padded = 1 << max(length - 1, 0).bit_length()
    if padded > length and lanes * length:  # what is added is NaN or the greatest integer, and comes last
        dtype = k.dtype(x)
        last = math.nan if dtype.is_floating else integer_range(dtype)[1]
        rest = k.full(shape=(lanes, padded - length), fill_value=last, dtype=x.dtype)
        moved = k.concat(moved, rest, axis=1)
    positions = k.broadcast_to(k.arange(moved.shape[1], dtype=int64), shape=moved.shape)
    if lanes * length:
        moved, positions = _network(k, moved, positions)
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    kept = (slice(0, lanes, 1), slice(0, length, 1)) if lanes * length else (slice(0, 0, 1),) * 2
    moved, positions = (
        k.permute_dims(k.reshape(k.getitem(t, key=kept), shape=shape), axes=back) for t in (moved, positions)
    )
    return (_reversed(k, moved) if descending else moved), positions


def _argsort(k: Any, x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    params = {"axis": axis, "descending": descending, "stable": True}
    dtype = k.dtype(x)
    if dtype.is_complex:  # by the real part, among equals by the imaginary one
        by_imaginary = k.argsort(k.imag(x), **params)
        real = k.take_along_axis(k.real(x), by_imaginary, axis=axis)
        return k.take_along_axis(by_imaginary, k.argsort(real, **params), axis=axis)
    return k.copy(_sorted(k, k.astype(x, dtype=int64) if dtype is bool_ else x, axis, descending)[1])


def _sort(k: Any, x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    dtype = k.dtype(x)
    if dtype.is_complex:
        positions = k.argsort(x, axis=axis, descending=descending, stable=stable)
        return k.take_along_axis(x, positions, axis=axis)
    if dtype is bool_:
        return k.astype(_sorted(k, k.astype(x, dtype=int64), axis, descending)[0], dtype=bool_)
    return k.copy(_sorted(k, x, axis, descending)[0])


def _sort_rule(k: Any, g: Any, out: Any, x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """Each cotangent back to where its element was: the inverse of a permutation is what sorts it."""
    positions = k.argsort(x, axis=axis, descending=descending, stable=True)
    back = k.argsort(positions, axis=axis, descending=False, stable=True)
    return k.take_along_axis(g, back, axis=axis)


def _sort_tangent(op: Op, k: Any, tangents: Any, out: Any, x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """Each tangent where its element went."""
    positions = k.argsort(x, axis=axis, descending=descending, stable=True)
    return k.take_along_axis(tangents[0], positions, axis=axis)


def _searchsorted(k: Any, x: Any, y: Any, *, side: str) -> Any:
    """How many elements come before: the position where a new one keeps the order."""
    x, y = arrays(k, x, y)
    y = k.expand_dims(y, axis=(len(y.shape),))
    before = _before(k, x, y) if side == "left" else k.logical_not(_before(k, y, x))
    return k.sum(k.astype(before, dtype=int64), axis=(len(y.shape) - 1,), keepdims=False)


def _isin(k: Any, x: Any, y: Any, *, invert: bool) -> Any:
    if is_scalar(y):
        found = k.equal(x, y)
    else:
        flat = k.reshape(y, shape=(math.prod(y.shape),))
        found = k.any(k.equal(k.expand_dims(x, axis=(len(x.shape),)), flat), axis=(len(x.shape),), keepdims=False)
    return k.logical_not(found) if invert else found


def _diff(k: Any, x: Any, *, axis: int, n: int) -> Any:
    difference = x
    for _ in range(min(n, x.shape[axis])):
        length = difference.shape[axis]
        later, earlier = (
            tuple(
                piece if each == axis else slice(0, m, 1) if m else slice(0, 0, 1)
                for each, m in enumerate(difference.shape)
            )
            for piece in (
                (slice(1, length, 1), slice(0, length - 1, 1)) if length > 1 else (slice(0, 0, 1), slice(0, 0, 1))
            )
        )
        difference = k.subtract(k.getitem(difference, key=later), k.getitem(difference, key=earlier))
    return k.copy(x) if difference is x else difference


def _sorting_reference(name: str) -> Any:
    def reference(np: Any, x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
        key = x if not descending else -x if x.dtype.kind in "fc" else ~x
        positions = np.argsort(key, axis=axis, kind="stable")
        return positions if name == "argsort" else np.take_along_axis(x, positions, axis=axis)

    return reference


_SAMPLES = (
    Sample(Array((2, 5))),
    Sample(Array((5, 2)), axis=0, descending=True),
    Sample(Array((3, 7), 0, 3, "int64"), axis=1, stable=True),
    Sample(Array((2, 6), 0, 3, "uint8"), descending=True, stable=True),
    Sample(Array((5,), dtype="bool")),
    Sample(Array((2, 0))),
    Sample(Array((1,))),
)

OPS = (
    Op(
        "argsort",
        "The positions that sort the elements along `axis`. NaN comes last; equal elements keep their order. Complex "
        "numbers are ordered by their real parts, then by their imaginary ones.",
        parameters=_sort_parameters("argsort"),
        accepts=ANY,
        result=to_int64,
        gradient="positions are not differentiable",
        compose=_argsort,
        samples=_SAMPLES,
        reference=_sorting_reference("argsort"),
    ),
    Op(
        "sort",
        "The elements in order along `axis`, as `argsort` has it.",
        parameters=_sort_parameters("sort"),
        accepts=ANY,
        tangent=_sort_tangent,
        gradient=(_sort_rule,),
        compose=_sort,
        samples=_SAMPLES,
        reference=_sorting_reference("sort"),
    ),
    Op(
        "searchsorted",
        "Where in the sorted 1-d ``x1`` the elements of ``x2`` would be inserted: before equal ones for the `side` "
        "``'left'``, after them for ``'right'``.",
        operands=2,
        parameters=_search_parameters,
        accepts=REAL | BOOLEAN,
        result=to_int64,
        gradient="positions are not differentiable",
        compose=_searchsorted,
        samples=(
            Sample(Array((4,), 1, 2, "int64"), Array((2, 3), 0, 3, "int64")),
            Sample(Array((4,), 1, 2, "int64"), Array((2, 3), 0, 3, "int64"), side="right"),
            Sample(Array((1,)), Array(())),
            Sample(Array((0,)), Array((2,))),
        ),
        reference=lambda np, x, y, side="left": np.searchsorted(x, y, side=side),
    ),
    Op(
        "isin",
        "Whether elements of ``x1`` are among those of ``x2`` (`invert`: are not). NaN is among none.",
        operands=2,
        parameters=_isin_parameters,
        accepts=ANY,
        result=to_bool,
        gradient="booleans are not differentiable",
        compose=_isin,
        samples=(
            Sample(Array((3, 4), 0, 9, "int64"), Array((3,), 0, 9, "int64")),
            Sample(Array((3, 4), 0, 9, "int64"), Array((2, 2), 0, 9, "int64"), invert=True),
            Sample(Array((3,), 0, 3, "int64"), 2),
            Sample(Array((3,)), Array((0,))),
        ),
    ),
    Op(
        "diff",
        "Differences of neighbours along `axis`, taken `n` times.",
        parameters=_diff_parameters,
        accepts=NUMERIC,
        compose=_diff,
        samples=(
            Sample(Array((2, 4))),
            Sample(Array((4, 2)), axis=0, n=2),
            Sample(Array((2, 2)), n=3),
            Sample(Array((2,)), n=0),
            Sample(Array((0, 2)), axis=1),
        ),
    ),
)
