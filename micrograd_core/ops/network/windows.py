"""Poolings whose windows `patches` cannot lay out: with places, beyond the input, of different lengths, by chance.

Shapes are (batch, channels, *spatial), for any number of spatial axes. Where places are asked for, the first of equal
elements has the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import check_half, per_axis, steps_of
from micrograd_core.ops.network.resampling import averages, sizes_of
from micrograd_core.ops.record import FLOATING, INTEGER, SAME, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import by_channel, cut, in_float32, network, to_int64, zero_rule

Rows = Sequence[Sequence[int]]  # for each window along an axis, which elements it sees


class Pooled(NamedTuple):
    """The greatest element of each window, and where it is among the flattened spatial axes."""

    values: Any
    indices: Any


class Windows(NamedTuple):
    """Where windows lie along the spatial axes."""

    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    counts: Shape
    beyond: Shape  # elements missing behind the padding for the last window, with `ceil_mode`

    @classmethod
    def of(
        cls, name: str, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Windows:
        """Validated against an input."""
        shape = tuple(x.shape[2:])
        rank = len(shape)
        if rank < 1:
            raise ShapeError(f"{name}: the input has axes batch, channels and spatial ones; got shape {tuple(x.shape)}")
        sizes, steps, spread = steps_of(name, kernel_size, None if stride == [] else stride, dilation, rank)
        around = per_axis(name, "padding", padding, rank, 0)
        check_half(name, sizes, around)
        counts, beyond = [], []
        for n, size, s, p, d in zip(shape, sizes, steps, around, spread, strict=True):
            reach = d * (size - 1) + 1
            count = (n + 2 * p - reach + (s - 1 if ceil_mode else 0)) // s + 1
            if ceil_mode and (count - 1) * s >= n + p:  # a window starts in the input, or in the padding before it
                count -= 1
            if count < 1:
                raise ShapeError(f"{name}: a kernel of {sizes} (dilation {spread}) does not fit into {shape}")
            counts.append(count)
            beyond.append(max((count - 1) * s + reach - n - 2 * p, 0))
        return cls(sizes, steps, around, spread, tuple(counts), tuple(beyond))

    def given(self, count: int) -> dict[str, Shape]:
        """The first of the parameters, by their names."""
        return dict(zip(("kernel_size", "stride", "padding", "dilation")[:count], self, strict=False))

    def rows(self, shape: Shape) -> list[Rows]:
        """What each window sees."""
        return [
            [[i * s - p + j * d for j in range(size) if 0 <= i * s - p + j * d < n] for i in range(count)]
            for n, size, s, p, d, count in zip(shape, *self[:5], strict=True)
        ]


# ── maxima and where they are ────────────────────────────────────────────────────────────────────────────────


def _places(k: Table, tables: Sequence[Rows], shape: Shape) -> Handle:
    """Positions among the flattened spatial axes, (windows, elements of a window).

    A window that has fewer elements than others sees its last one several times.
    """
    rank, along_axes = len(tables), []
    for axis, table in enumerate(tables):
        along = [1] * (2 * rank)
        along[axis], along[rank + axis] = len(table), max(map(len, table))
        values = tuple(place for row in table for place in (*row, *[row[-1]] * (along[rank + axis] - len(row))))
        along_axes.append(k.reshape(k.integers(values=values, dtype=int64), shape=tuple(along)))
    total = k.linear_index(*along_axes, shape=shape)
    return k.reshape(total, shape=(math.prod(total.shape[:rank]), math.prod(total.shape[rank:])))


def _greatest(k: Table, x: Handle, places: Handle, counts: Shape) -> tuple[Any, Any]:
    """The greatest element of each window; `places` may differ between examples and channels."""
    lanes = tuple(x.shape[:2])
    flat = k.reshape(x, shape=(*lanes, math.prod(x.shape[2:])))
    windows, width = places.shape[-2:]
    wide = k.broadcast_to(places, shape=(*lanes, windows, width))
    seen = k.take_along_axis(flat, k.reshape(wide, shape=(*lanes, windows * width)), axis=2)
    seen = k.reshape(seen, shape=(*lanes, windows, width))
    best = k.argmax(seen, axis=3, keepdims=True)
    found = (k.take_along_axis(each, best, axis=3) for each in (seen, wide))
    values, indices = (k.reshape(each, shape=(*lanes, *counts)) for each in found)
    return values, indices


def _greatest_rule(k: Table, g: Any, out: Any, x: Handle, *others: Handle, **params: Any) -> Handle:
    lanes, size = tuple(x.shape[:2]), math.prod(x.shape[2:])
    zeros = k.full(shape=(*lanes, size), fill_value=0, dtype=x.dtype)
    count = math.prod(out[1].shape[2:])
    g, places = (k.reshape(each, shape=(*lanes, count)) for each in (g[0], out[1]))
    return k.reshape(k.add_along_axis(zeros, places, g, axis=2), shape=x.shape)


def _max_parameters(
    x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> dict[str, Any]:
    """The greatest element in each window, and where it is among the flattened spatial axes.

    With `ceil_mode` also of windows that reach beyond the padding.
    """
    found = Windows.of("max_pool_with_indices", x, kernel_size, stride, padding, dilation, ceil_mode)
    return {**found.given(4), "ceil_mode": bool(ceil_mode)}


def _max_pool(k: Table, x: Handle, **windows: Any) -> tuple[Any, Any]:
    found = Windows.of("", x, **windows)
    return _greatest(k, x, _places(k, found.rows(x.shape[2:]), x.shape[2:]), found.counts)


def _adaptive_parameters(x: Any, /, output_size: Any) -> dict[str, Any]:
    """The greatest elements of `output_size` windows that cover the spatial axes evenly, and where they are."""
    return {"size": sizes_of("adaptive_max_pool_with_indices", x, output_size)}


def _adaptive_max_pool(k: Table, x: Handle, *, size: Shape) -> tuple[Any, Any]:
    lengths = zip(x.shape[2:], size, strict=True)
    tables = [[[place for place, _ in row] for row in averages(n, count)] for n, count in lengths]
    return _greatest(k, x, _places(k, tables, x.shape[2:]), size)


def _fractional_parameters(x: Any, samples: Any, /, kernel_size: Any, output_size: Any) -> dict[str, Any]:
    """The greatest elements of windows that lie by chance (Graham 2014), and where they are.

    The distances of windows vary between two whole numbers, as ``x2`` (batch, channels, spatial axes), between 0
    and 1, has it.
    """
    name, shape = "fractional_max_pool_with_indices", tuple(x.shape)
    kernel, counts = (
        per_axis(name, what, each, len(shape) - 2, 1)
        for what, each in (("kernel_size", kernel_size), ("output_size", output_size))
    )
    if any(count + size - 1 > n for n, size, count in zip(shape[2:], kernel, counts, strict=True)):
        raise ShapeError(f"{name}: {counts} windows of {kernel} do not fit into shape {shape}")
    if tuple(samples.shape) != (*shape[:2], len(kernel)):
        raise ShapeError(f"{name}: samples of shape {tuple(samples.shape)} are not {(*shape[:2], len(kernel))}")
    return {"kernel_size": kernel, "size": counts}


def _fractional_max_pool(k: Table, x: Handle, samples: Handle, *, kernel_size: Shape, size: Shape) -> tuple[Any, Any]:
    rank, lanes, dtype, along_axes = len(size), tuple(x.shape[:2]), k.dtype(samples), []
    for axis, (n, width, count) in enumerate(zip(x.shape[2:], kernel_size, size, strict=True)):
        chosen = axis if rank == 3 else rank - 1 - axis  # PyTorch draws the width's number first
        at = cut(k, samples, 2, chosen, chosen + 1)
        step = (n - width) / (count - 1) if count > 1 else 0.0
        steps = k.astype(k.arange(count, dtype=int64), dtype=dtype)
        starts = k.subtract(k.floor(k.multiply(k.add(steps, at), step)), k.floor(k.multiply(at, step)))
        starts = k.astype(k.where(k.equal(steps, count - 1), n - width, starts), dtype=int64)
        along, offsets = [1] * (2 * rank), [1] * (2 * rank)
        along[axis], offsets[rank + axis] = count, width
        within = k.reshape(k.arange(width, dtype=int64), shape=tuple(offsets))
        along_axes.append(k.add(k.reshape(starts, shape=(*lanes, *along)), within))
    total = k.linear_index(*along_axes, shape=tuple(x.shape[2:]))
    return _greatest(k, x, k.reshape(total, shape=(*lanes, math.prod(size), math.prod(kernel_size))), size)


def _unpool_parameters(x: Any, indices: Any, /, size: Any) -> dict[str, Any]:
    """Zeros of spatial shape `size` with the elements of ``x1`` where ``x2`` says.

    It is the other way round than `max_pool_with_indices`.
    """
    shapes = tuple(x.shape), tuple(indices.shape)
    if shapes[0] != shapes[1]:
        raise ShapeError(f"max_unpool: indices of shape {shapes[1]} do not fit values of shape {shapes[0]}")
    return {"size": per_axis("max_unpool", "size", size, len(shapes[0]) - 2, 1)}


def _max_unpool(k: Table, x: Handle, indices: Handle, *, size: Shape) -> Handle:
    lanes, length = math.prod(x.shape[:2]), math.prod(size)
    starts = k.reshape(k.multiply(k.arange(lanes, dtype=int64), length), shape=(lanes, 1))
    places = k.add(k.reshape(k.astype(indices, dtype=int64), shape=(lanes, math.prod(x.shape[2:]))), starts)
    empty = k.full(shape=(lanes * length,), fill_value=0, dtype=k.dtype(x))
    flat, places = (k.reshape(each, shape=(math.prod(x.shape),)) for each in (x, places))
    return k.reshape(k.index_set(empty, places, flat, axis=0), shape=(*x.shape[:2], *size))


# ── means and norms ──────────────────────────────────────────────────────────────────────────────────────────


def _mean_parameters(
    x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Mean of each window of (batch, channels, *spatial).

    With `ceil_mode` also of windows that reach beyond the padding; without `count_include_pad` the zeros of the
    padding do not count; `divisor_override` is what sums are divided by.
    """
    found = Windows.of("padded_avg_pool", x, kernel_size, stride, padding, 1, ceil_mode)
    counted = {"count_include_pad": bool(count_include_pad), "divisor_override": divisor_override}
    return {**found.given(3), "ceil_mode": bool(ceil_mode), **counted}


def _seen(found: Windows, shape: Shape, count_include_pad: bool) -> list[list[int]]:
    """How many elements each window counts, along each axis."""
    counted = []
    for n, size, s, p, count in zip(shape, found.kernel, found.stride, found.padding, found.counts, strict=True):
        start, stop = (-p, n + p) if count_include_pad else (0, n)
        counted.append([min(i * s - p + size, stop) - max(i * s - p, start) for i in range(count)])
    return counted


@in_float32
def _padded_avg_pool(
    k: Table, x: Handle, *, kernel_size: Shape, stride: Shape, padding: Shape, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Handle:  # fmt: skip
    rank = len(kernel_size)
    found = Windows.of("", x, kernel_size, stride, padding, (1,) * rank, ceil_mode)
    shape, around = tuple(x.shape[2:]), padding
    if any(found.beyond):
        widths = [(p, p + more) for p, more in zip(padding, found.beyond, strict=True)]
        x = k.pad(x, pad_width=((0, 0), (0, 0), *widths), mode="constant", constant_values=0)
        around = (0,) * rank
    patches = k.patches(x, kernel_size=kernel_size, stride=stride, padding=around, dilation=(1,) * rank, fill=0.0)
    total = k.sum(patches, axis=tuple(range(2, 2 + rank)), keepdims=False)
    for axis, count in enumerate(found.counts, 2):  # the padding for the last window may have room for one more
        total = total if total.shape[axis] == count else cut(k, total, axis, 0, count)
    if divisor_override is not None:
        return k.multiply(total, 1 / divisor_override)
    dtype = k.dtype(x)
    for axis, counted in enumerate(_seen(found, shape, count_include_pad)):
        number = k.astype(k.integers(values=tuple(counted), dtype=int64), dtype=dtype)
        total = k.divide(total, by_channel(k, number, rank, axis))
    return total


def _norm_parameters(
    x: Any, /, norm_type: float, kernel_size: Any, *, stride: Any = None, ceil_mode: bool = False
) -> dict[str, Any]:
    """The p-norm of each window of (batch, channels, *spatial), `p` being `norm_type`."""
    found = Windows.of("lp_pool", x, kernel_size, stride, 0, 1, ceil_mode)
    return {"norm_type": float(norm_type), **found.given(2), "ceil_mode": bool(ceil_mode)}


def _lp_pool(k: Table, x: Handle, *, norm_type: float, kernel_size: Shape, stride: Shape, ceil_mode: bool) -> Handle:
    powers = k.pow(x, norm_type)
    means = k.padded_avg_pool(
        powers, kernel_size=kernel_size, stride=stride, padding=(0,) * len(kernel_size), ceil_mode=ceil_mode,
        count_include_pad=True, divisor_override=None,
    )  # fmt: skip
    sums = k.multiply(k.multiply(k.sign(means), k.relu(k.abs(means))), math.prod(kernel_size))
    return k.pow(sums, 1 / norm_type)


_LINE, _IMAGE = Array((1, 2, 5)), Array((1, 1, 3, 4))
_MAXIMA = partial(Op, parts=Pooled, result=(SAME, to_int64), accepts=FLOATING, gradient=(_greatest_rule,))

OPS = (
    _MAXIMA(
        "max_pool_with_indices",
        parameters=_max_parameters,
        shape=lambda x, **windows: ((*x.shape[:2], *Windows.of("", x, **windows).counts),) * 2,
        compose=_max_pool,
        samples=(Sample(_LINE, kernel_size=2, ceil_mode=True), Sample(_IMAGE, kernel_size=3, stride=2, padding=1)),
    ),
    _MAXIMA(
        "adaptive_max_pool_with_indices",
        parameters=_adaptive_parameters,
        shape=lambda x, *, size: ((*x.shape[:2], *size),) * 2,
        compose=_adaptive_max_pool,
        samples=(Sample(_LINE, output_size=3), Sample(_IMAGE, output_size=(2, None))),
    ),
    _MAXIMA(
        "fractional_max_pool_with_indices",
        parameters=_fractional_parameters,
        shape=lambda x, samples, *, kernel_size, size: ((*x.shape[:2], *size),) * 2,
        gradient=(_greatest_rule, lambda k, g, out, x, samples, **_: zero_rule(k, g, out, samples)),
        compose=_fractional_max_pool,
        samples=(Sample((1, 1, 3, 2), Array((1, 1, 2), 0.0, 1.0), kernel_size=2, output_size=(2, 1)),),
    ),
    Op(
        "max_unpool",
        separate=(1,),
        accepts=(FLOATING, INTEGER),
        parameters=_unpool_parameters,
        compose=_max_unpool,
        samples=(Sample((1, 2, 1), Array((1, 2, 1), 0, 3, "int64"), size=(3,)),),
    ),
    network(
        "padded_avg_pool",
        parameters=_mean_parameters,
        compose=_padded_avg_pool,
        samples=(
            Sample(_LINE, kernel_size=2, ceil_mode=True),
            Sample(_IMAGE, kernel_size=3, stride=2, padding=1, count_include_pad=False),
            Sample(_LINE, kernel_size=2, stride=1, divisor_override=3),
        ),
    ),
    network(
        "lp_pool",
        parameters=_norm_parameters,
        compose=_lp_pool,
        samples=(
            Sample(Array((1, 2, 5), 0.5), norm_type=3.0, kernel_size=2),
            Sample(Array((1, 1, 3, 2), 0.5), norm_type=1.5, kernel_size=2, stride=1),
        ),
    ),
)
