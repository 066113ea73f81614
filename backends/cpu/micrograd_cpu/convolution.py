"""Kernels of convolutions: compiled loops (`correlation`) where llvmlite is there. Elsewhere the core composes them.

All three members of the family are one of two loops. A convolution correlates an image with the weight. Its transpose
correlates each of the `stride` phases of its result's positions with the elements of the kernel that reach them. The
gradient by the weight adds up products of cotangents and images. With one spatial axis there is another, of length 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from micrograd_core.layout import Shape
from micrograd_core.ops.network.convolution import transposed_size
from micrograd_core.ops.network.patches import lengths_of

NEAR: Final = 1 << 18
"""Bytes of images and cotangents that are added up together: what the second cache holds."""
SHARED: Final = 16_000_000
"""Products from which on a second thread is worth waking."""

FIELDS: Final = (
    "channels phases source source_channel source_row source_step plane_row plane seen outputs vectors length groups "
    "target target_channel target_row target_step target_start rows columns images"
).split()
"""What the loops are told, by place in an array of int64. Then come, for each phase, `PHASE`, and the offset of each
element of the kernel, channel by channel: there are `seen` in all."""
PHASE: Final = "source target rows columns".split()
"""Of what is copied of a phase: where it starts in the image and in the copy, and how much it is."""

# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────


class Axis(NamedTuple):
    """How a kernel's elements see an axis: its length, their places from `-before` on, and the number of positions."""

    length: int
    places: Shape
    before: int
    stride: int
    positions: int

    @property
    def extent(self) -> int:
        """Of the copy of a phase."""
        return self.positions + max((place // self.stride for place in self.places), default=0)

    def phases(self) -> list[int]:
        """What places leave when divided by the stride."""
        return sorted({place % self.stride for place in self.places})

    def inside(self, phase: int) -> tuple[int, int, int]:
        """Of a phase's elements that are not padding: the first in the axis, the first in the copy, and how many."""
        first = max(0, -((phase - self.before) // self.stride))
        end = min(self.extent, (self.length - 1 + self.before - phase) // self.stride + 1)
        return self.stride * first + phase - self.before, first, max(0, end - first)


class Target(NamedTuple):
    """Where results go: distances of channels and of rows, that of numbers in a row, the first, and the size of all."""

    channel: int
    row: int
    step: int
    start: int
    size: int


class Sizes(NamedTuple):
    """What the loops are given."""

    numbers: Any  # int64
    scratch: int  # numbers that one image needs, and all that are taken together
    together: int
    work: int  # products for one image


@lru_cache(maxsize=1024)
def _sizes(channels: int, outputs: int, groups: int, axes: tuple[Axis, Axis], target: Target, width: int) -> Sizes:
    """For floats of which a vector has `width`."""
    y, x = axes
    phases = list(product(y.phases(), x.phases()))
    row, plane = x.extent, y.extent * x.extent
    length = -(-((y.positions - 1) * row + x.positions) // width) * width
    kernel = list(product(y.places, x.places))
    seen = channels * len(kernel)
    held = channels * len(phases) * plane + outputs * length
    images = max(1, NEAR // (held * 64 // width))
    found = {
        "channels": channels, "phases": len(phases), "seen": seen, "outputs": outputs, "groups": groups,
        "source": channels * y.length * x.length, "source_channel": y.length * x.length,
        "source_row": y.stride * x.length, "source_step": x.stride, "plane_row": row, "plane": plane,
        "vectors": length // width, "length": length, "images": images,
        "target": target.size, "target_channel": target.channel, "target_row": target.row,
        "target_step": target.step, "target_start": target.start, "rows": y.positions, "columns": x.positions,
    }  # fmt: skip
    numbers = [found[name] for name in FIELDS]
    for each in phases:
        (top, first_row, rows), (left, first, columns) = (axis.inside(n) for axis, n in zip(axes, each, strict=True))
        facts = {
            "source": top * x.length + left, "target": first_row * row + first, "rows": rows,
            "columns": columns if rows else 0,
        }  # fmt: skip
        numbers += [facts[name] if rows and columns else 0 for name in PHASE]
    for channel, (down, right) in product(range(channels), kernel):
        phase = phases.index((down % y.stride, right % x.stride))
        numbers.append((channel * len(phases) + phase) * plane + down // y.stride * row + right // x.stride)
    return Sizes(np.array(numbers, np.int64), held + width, held * images + width, seen * outputs * length)


def pair(x: Shape, filler: int) -> tuple[int, int]:
    """Of both axes, for what is given of one or two."""
    return (filler, x[0]) if len(x) < 2 else (x[0], x[1])


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────

TYPES: Final = {np.dtype("float32"): "float", np.dtype("float64"): "double"}


class Loops(NamedTuple):
    """The compiled functions for a dtype, and how many numbers a vector has."""

    correlate: Callable[..., None]
    weigh: Callable[..., None]
    width: int


def functions_of_range(
    dtype: Any, text: Callable[[str], str], pointers: dict[str, int]
) -> list[Callable[..., None]] | None:
    """Functions of a range and of so many pointers, from IR for a type; None where nothing can be compiled."""
    from micrograd_cpu.entries import compiles, function_of_range  # which the first tensor need not wait for

    if dtype not in TYPES or not compiles():
        return None
    from micrograd_cpu.objects import library

    held = library(text(TYPES[dtype]), [*pointers])
    return [function_of_range(held, name, count) for name, count in pointers.items()]


@cache
def _loops(dtype: Any) -> Loops | None:
    from micrograd_cpu.correlation import module
    from micrograd_cpu.target import vector_bytes

    pointers = {"correlate_arrays": 6, "weigh_arrays": 5}
    found = functions_of_range(dtype, lambda type: module(type, vector_bytes()), pointers)
    if found is None:
        return None
    correlate, weigh = found
    return Loops(correlate, weigh, vector_bytes() // dtype.itemsize)


def divided(some: Callable[[int, int], None], count: int, large: bool) -> None:
    """``some(begin, end)`` of all, by two threads where that pays."""
    if not large:
        some(0, count)
    else:
        from micrograd_cpu.threads import shared

        shared(some, count)


def _correlate(
    loops: Loops, out: Any, x: Any, weight: Any, bias: Any, groups: int, axes: tuple[Axis, Axis], target: Target
) -> None:
    """A weight (groups, outputs, channels, …) and images, each group of channels for itself."""
    sizes = _sizes(x.shape[1] // groups, weight.shape[1], groups, axes, target, loops.width)
    units = x.shape[0] * groups

    def some(begin: int, end: int) -> None:
        loops.correlate(begin, end, sizes.numbers, out, x, weight, bias, np.zeros(sizes.scratch, x.dtype))

    divided(some, units, units * sizes.work >= SHARED)


# ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────────


def dense(x: Any) -> Any:
    """`x`, or a contiguous copy."""
    return x if x.flags.c_contiguous else np.array(x, order="C")


def _biases(bias: Any, count: int, dtype: Any) -> Any:
    """One for each channel."""
    return dense(np.asarray(bias)) if np.ndim(bias) else np.full(count, bias, dtype)


def _axes(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, positions: Shape
) -> tuple[Axis, Axis]:
    """As a convolution sees them."""
    pairs = zip(
        pair(size, 1), pair(kernel, 1), pair(stride, 1), pair(padding, 0), pair(dilation, 1), pair(positions, 1),
        strict=True,
    )  # fmt: skip
    first, second = (Axis(n, tuple(range(0, d * m, d)), p, s, o) for n, m, s, p, d, o in pairs)
    return first, second


def _plain(channels: int, size: Shape) -> Target:
    """All of a contiguous array."""
    rows, columns = pair(size, 1)
    return Target(rows * columns, columns, 1, 0, channels * rows * columns)


def convolution(x: Any, weight: Any, bias: Any, *, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Any:
    """`conv1d` and `conv2d`."""
    loops, kernel = _loops(x.dtype), weight.shape[2:]
    if loops is None or not (x.size and weight.size):
        return NotImplemented
    lengths = lengths_of("convolution", x.shape[2:], kernel, stride, padding, dilation)
    out = np.empty((x.shape[0], weight.shape[0], *lengths), x.dtype)
    axes = _axes(x.shape[2:], kernel, stride, padding, dilation, lengths)
    by_group = (groups, weight.shape[0] // groups, *weight.shape[1:])
    biases, target = _biases(bias, weight.shape[0], x.dtype), _plain(by_group[1], lengths)
    _correlate(loops, out, dense(x), dense(weight).reshape(by_group), biases, groups, axes, target)
    return out


class _Reached(NamedTuple):
    """Every `stride`-th place of a transpose's result along an axis: which elements of the kernel reach it, and how."""

    axis: Axis
    elements: list[int]
    first: int


def _reached(n: int, size: int, kernel: int, stride: int, padding: int, dilation: int, phase: int) -> _Reached:
    """Of places ``stride * j + phase - padding`` that are in the result."""
    first = -((phase - padding) // stride)
    count = max(0, (padding + size - 1 - phase) // stride + 1 - first)
    elements = [m for m in range(kernel) if (m * dilation - phase) % stride == 0]
    back = [(m * dilation - phase) // stride for m in elements]  # from a place to what the element multiplies
    most = max(back, default=0)
    axis = Axis(n, tuple(most - each for each in back), most - first, 1, count)
    return _Reached(axis, elements, stride * first + phase - padding)


def transpose(
    x: Any,
    weight: Any,
    bias: Any,
    *,
    groups: int,
    output_padding: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Any:
    """`conv_transpose1d` and `conv_transpose2d`."""
    loops, kernel = _loops(x.dtype), weight.shape[2:]
    # Where only zeros around it reach, a weight that is not finite would make NaN of them.
    if loops is None or not (x.size and weight.size) or not np.isfinite(weight).all():
        return NotImplemented
    size = transposed_size(x.shape[2:], kernel, stride, padding, output_padding, dilation)
    inputs, outputs = weight.shape[0] // groups, weight.shape[1]
    biases = _biases(bias, outputs * groups, x.dtype)
    shape = (x.shape[0], outputs * groups, *size)
    out = np.empty(shape, x.dtype)
    (h, w), (rows, columns) = pair(x.shape[2:], 1), pair(size, 1)
    (kh, kw), (sy, sx), (py, px), (dy, dx) = pair(kernel, 1), pair(stride, 1), pair(padding, 0), pair(dilation, 1)
    turned = weight.reshape(groups, inputs, outputs, kh, kw).swapaxes(1, 2)
    x = dense(x)
    for phase in product(range(sy), range(sx)):
        down = _reached(h, rows, kh, sy, py, dy, phase[0])
        right = _reached(w, columns, kw, sx, px, dx, phase[1])
        if down.axis.positions and right.axis.positions:
            target = Target(
                rows * columns, sy * columns, sx, down.first * columns + right.first, outputs * rows * columns
            )
            chosen = turned if sy == sx == 1 else turned[:, :, :, down.elements][..., right.elements]
            _correlate(loops, out, x, dense(chosen), biases, groups, (down.axis, right.axis), target)
    return out


def weight_gradient(
    g: Any, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    """`conv1d_weight_gradient` and `conv2d_weight_gradient`."""
    loops, count = _loops(x.dtype), x.shape[0]
    if loops is None or not (x.size and g.size):
        return NotImplemented
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    axes = _axes(x.shape[2:], kernel_size, stride, padding, dilation, g.shape[2:])
    sizes = _sizes(channels, outputs, groups, axes, _plain(outputs, g.shape[2:]), loops.width)
    work = sizes.work * groups * count
    bounds = [0, count // 2, count] if work >= SHARED and count > 1 else [0, count]
    parts = np.zeros((len(bounds) - 1, g.shape[1], channels, *kernel_size), x.dtype)
    x, g = dense(x), dense(g)

    def some(first: int, last: int) -> None:
        for i in range(first, last):
            loops.weigh(bounds[i], bounds[i + 1], sizes.numbers, parts[i], x, g, np.zeros(sizes.together, x.dtype))

    divided(some, len(parts), len(parts) > 1)
    out = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return out if np.isfinite(out).all() else NotImplemented  # which may be 0 times what no position sees


CONVOLUTIONS: Final[dict[str, Callable[..., Any]]] = {
    f"{name}{rank}d{suffix}": kernel
    for rank in (1, 2)
    for name, suffix, kernel in (
        ("conv", "", convolution), ("conv_transpose", "", transpose), ("conv", "_weight_gradient", weight_gradient)
    )
}  # fmt: skip
