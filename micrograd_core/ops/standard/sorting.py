"""Order: sorting, and searching in what is sorted.

NaN comes last, whichever way one sorts; equal elements keep their order. A device without a kernel compares everything
with everything, in blocks of which that fits into memory, and merges them by a network of comparisons of halves: O(log²
n) passes over all lanes (K. E. Batcher, "Sorting networks and their applications", 1968, in the form in which all
comparisons go one way). Searching compares everything with everything: O(n m) work and memory.
"""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import bool_, int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.record import ANY, BOOLEAN, REAL, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, calls, cut, ends_of, is_scalar, locating, mirror, to_bool, to_int64, whole
from micrograd_core.ops.tangents import zero

# ── parameters as the user writes them → as kernels receive them ─────────────────────────────────────────────


def _check_searchsorted(name: str, x1: Any, x2: Any, *, side: str) -> None:
    if len(x1.shape) != 1:
        raise ShapeError(f"searchsorted: the sorted tensor must be 1-d; it has shape {tuple(x1.shape)}")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right'; got {side!r}")


def _check_diff(name: str, x: Any, *, axis: int, n: int) -> None:
    if whole("diff", "n", n) < 0:
        raise ValueError(f"diff: n is how often to take differences, 0 or more; got {n}")


# ── compositions and rules ───────────────────────────────────────────────────────────────────────────────────


def _before(k: Table, x: Handle, y: Handle) -> Handle:
    """Whether `x` comes before `y`, where NaN comes after all numbers."""
    dtype = k.dtype(x)
    if dtype is bool_:  # which the standard's `less` does not take
        return k.logical_and(k.logical_not(x), y)
    if not dtype.is_floating:
        return k.less(x, y)
    return k.logical_or(k.less(x, y), k.logical_and(k.isnan(y), k.logical_not(k.isnan(x))))


COMPARISONS = 1 << 22
"""How many comparisons may be in memory at once; of less than all, pairs of elements are compared."""


def _earlier(k: Table, x: Handle, i: Handle, y: Handle, j: Handle) -> Handle:
    """Whether `x` at position `i` comes before `y` at position `j`: of two equal ones the earlier does."""
    return k.logical_or(k.less(x, y), k.logical_and(k.equal(x, y), k.less(i, j)))


def _ranked(k: Table, x: Handle, i: Handle, block: int) -> tuple[Any, Any]:
    """Blocks sorted: every element goes to the place that has as many before it as the element has."""
    rows = math.prod(x.shape) // block
    column, row = (rows, block, 1), (rows, 1, block)
    (x, y), (i, j) = ((k.reshape(t, shape=column), k.reshape(t, shape=row)) for t in (x, i))
    rank = k.sum(k.astype(_earlier(k, x, i, y, j), dtype=int64), axis=(1,), keepdims=True)
    here = k.equal(rank, k.reshape(k.arange(block, dtype=int64), shape=(block, 1)))
    least, _ = ends_of(k.dtype(x))
    values = k.max(k.where(here, y, least), axis=(2,), keepdims=False)
    return values, k.sum(k.where(here, j, 0), axis=(2,), keepdims=False)


def _merged(k: Table, x: Handle, i: Handle, block: int, length: int) -> tuple[Any, Any]:
    """Sorted blocks of a power of two merged, until they have the `length`, of which they are a part."""
    if block == length:
        return x, i
    blocks, lower = math.prod(x.shape), k.equal(k.reshape(k.arange(2, dtype=int64), shape=(2, 1)), 0)
    while block < length:
        block *= 2
        half, turned = block // 2, [1, 2]  # a sorted half and another, turned round, are one that rises and falls
        while half:
            x, i = (k.reshape(t, shape=(blocks // half // 2, 2, half)) for t in (x, i))
            y, j = (k.flip(t, axis=tuple(turned)) for t in (x, i))
            other = k.equal(_earlier(k, y, j, x, i), lower)
            x, i = k.where(other, y, x), k.where(other, j, i)
            half, turned = half // 2, [1]
    return x, i


def _sorted(k: Table, x: Handle, axis: int, descending: bool) -> tuple[Any, Any]:
    """Elements and where they were."""
    order = (*(each for each in range(len(x.shape)) if each != axis), axis)
    moved = k.permute_dims(x, axes=order)
    shape, dtype = tuple(moved.shape), k.dtype(x)
    length, lanes = shape[-1], math.prod(shape[:-1])
    moved = k.reshape(moved, shape=(lanes, length))
    moved = mirror(k, moved) if descending else moved
    positions = k.broadcast_to(k.arange(length, dtype=int64), shape=moved.shape)
    if length > 1 and lanes:
        block = padded = length
        _, last = ends_of(dtype)
        if lanes * length * length > COMPARISONS:
            padded = 1 << (length - 1).bit_length()
            block = min(padded, max(1, 1 << (COMPARISONS // (lanes * padded)).bit_length() >> 1))
        if dtype.is_floating:  # NaN goes as infinity, from positions behind all others
            number = k.equal(moved, moved)
            moved, positions = k.where(number, moved, last), k.where(number, positions, k.add(positions, padded))
        if padded > length:
            rest = k.full(shape=(lanes, padded - length), fill_value=last, dtype=x.dtype)
            behind = k.broadcast_to(k.add(k.arange(padded - length, dtype=int64), 2 * padded), shape=rest.shape)
            moved, positions = k.concat(moved, rest, axis=1), k.concat(positions, behind, axis=1)
        moved, positions = _ranked(k, moved, positions, block)
        moved, positions = _merged(k, moved, positions, block, padded)
        if padded > length:
            moved, positions = (cut(k, k.reshape(t, shape=(lanes, padded)), 1, 0, length) for t in (moved, positions))
        if dtype.is_floating:
            number = k.less(positions, padded)
            moved, positions = k.where(number, moved, math.nan), k.where(number, positions, k.add(positions, -padded))
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    moved, positions = (k.permute_dims(k.reshape(t, shape=shape), axes=back) for t in (moved, positions))
    return (mirror(k, moved) if descending else moved), positions


def _argsort(k: Table, x: Handle, *, axis: int, descending: bool, stable: bool) -> Handle:
    params: dict[str, Any] = {"axis": axis, "descending": descending, "stable": True}
    dtype = k.dtype(x)
    if dtype.is_complex:  # by the real part, among equals by the imaginary one
        by_imaginary = k.argsort(k.imag(x), **params)
        real = k.take_along_axis(k.real(x), by_imaginary, axis=axis)
        return k.take_along_axis(by_imaginary, k.argsort(real, **params), axis=axis)
    return k.copy(_sorted(k, k.astype(x, dtype=int64) if dtype is bool_ else x, axis, descending)[1])


def _sort(k: Table, x: Handle, *, axis: int, descending: bool, stable: bool) -> Handle:
    dtype = k.dtype(x)
    if dtype.is_complex:
        return k.take_along_axis(x, k.argsort(x, axis=axis, descending=descending, stable=stable), axis=axis)
    if dtype is bool_:
        return k.astype(_sorted(k, k.astype(x, dtype=int64), axis, descending)[0], dtype=bool_)
    return k.copy(_sorted(k, x, axis, descending)[0])


def _sort_rule(k: Table, g: Handle, out: Handle, x: Any, *, axis: int, **params: Any) -> Handle:
    """Each cotangent back to where its element was."""
    positions = k.argsort(x, axis=axis, **{**params, "stable": True})
    return k.add_along_axis(zero(k, x), positions, g, axis=axis)


def _sort_tangent(op: Op, k: Table, tangents: Any, out: Handle, x: Handle, *, axis: int, **params: Any) -> Handle:
    """Each tangent where its element went."""
    positions = k.argsort(x, axis=axis, **{**params, "stable": True})
    return k.take_along_axis(tangents[0], positions, axis=axis)


def _searchsorted(k: Table, x1: Operand, x2: Operand, *, side: str = "left") -> Handle:
    """Where in the sorted 1-d ``x1`` the elements of ``x2`` would be inserted.

    Before equal ones for the `side` ``'left'``, after them for ``'right'``.
    """
    x, y = arrays(k, x1, x2)  # counted is how many come before
    y = k.expand_dims(y, axis=(len(y.shape),))
    before = _before(k, x, y) if side == "left" else k.logical_not(_before(k, y, x))
    return k.sum(k.astype(before, dtype=int64), axis=(len(y.shape) - 1,), keepdims=False)


def _isin(k: Table, x1: Handle, x2: Operand, *, invert: bool = False) -> Handle:
    """Whether elements of ``x1`` are among those of ``x2`` (`invert`: are not). NaN is among none."""
    if is_scalar(x2):
        found = k.equal(x1, x2)
    else:
        flat = k.reshape(x2, shape=(math.prod(x2.shape),))
        found = k.any(k.equal(k.expand_dims(x1, axis=(len(x1.shape),)), flat), axis=(len(x1.shape),), keepdims=False)
    return k.logical_not(found) if invert else found


def _diff(k: Table, x: Handle, *, axis: int = -1, n: int = 1) -> Handle:
    """Differences of neighbours along `axis`, taken `n` times."""
    difference = x
    for _ in range(min(n, x.shape[axis])):
        length = difference.shape[axis]
        difference = k.subtract(cut(k, difference, axis, 1, length), cut(k, difference, axis, 0, length - 1))
    return k.copy(x) if difference is x else difference


def _ordering(name: str, doc: str, **facts: Any) -> Op:
    """`sort` or `argsort`."""

    def parameters(x: Any, /, axis: int = -1, descending: bool = False, *, stable: bool = True) -> dict[str, Any]:
        axis = resolve_axis(name, axis, len(x.shape))
        return {"axis": axis, "descending": bool(descending), "stable": bool(stable)}

    def reference(np: Any, x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
        key = x if not descending else -x if x.dtype.kind in "fc" else ~x
        positions = np.argsort(key, axis=axis, kind="stable")
        return positions if name == "argsort" else np.take_along_axis(x, positions, axis=axis)

    samples = (
        Sample((2, 5)),
        Sample((5, 2), axis=0, descending=True),
        Sample(Array((3, 7), 0, 3, "int64"), axis=1, stable=True),
        Sample(Array((2, 6), 0, 3, "uint8"), descending=True, stable=True),
        Sample(Array((5,), dtype="bool")),
        Sample((2, 0)),
    )
    return Op(name, doc, parameters=parameters, accepts=ANY, samples=samples, reference=reference, **facts)


OPS = calls(
    _ordering(
        "argsort",
        "The positions that sort the elements along `axis`. NaN comes last; equal elements keep their order. Complex "
        "numbers are ordered by their real parts, then by their imaginary ones.",
        result=to_int64,
        gradient="positions are not differentiable",
        compose=_argsort,
    ),
    _ordering(
        "sort",
        "The elements in order along `axis`, as `argsort` has it.",
        tangent=_sort_tangent,
        gradient=(_sort_rule,),
        compose=_sort,
    ),
    locating(
        "searchsorted",
        refuses=_check_searchsorted,
        accepts=REAL | BOOLEAN,
        compose=_searchsorted,
        samples=(
            Sample(Array((4,), 1, 2, "int64"), Array((2, 3), 0, 3, "int64")),
            Sample(Array((4,), 1, 2, "int64"), Array((2, 3), 0, 3, "int64"), side="right"),
            Sample((1,), ()),
            Sample((0,), (2,)),
        ),
    ),
    Op(
        "isin",
        accepts=ANY,
        result=to_bool,
        gradient="booleans are not differentiable",
        compose=_isin,
        samples=(
            Sample(Array((3, 4), 0, 9, "int64"), Array((3,), 0, 9, "int64")),
            Sample(Array((3, 4), 0, 9, "int64"), Array((2, 2), 0, 9, "int64"), invert=True),
            Sample(Array((3,), 0, 3, "int64"), 2),
            Sample((3,), (0,)),
        ),
    ),
    Op(
        "diff",
        refuses=_check_diff,
        compose=_diff,
        samples=(
            Sample((2, 4)),
            Sample((4, 2), axis=0, n=2),
            Sample((2, 2), n=3),
            Sample((2,), n=0),
            Sample((0, 2), axis=1),
        ),
    ),
)
