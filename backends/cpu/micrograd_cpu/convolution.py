"""Kernels of convolutions: compiled loops (`correlation`) where llvmlite is there. Elsewhere the core composes them.

All three members of the family are one of two loops. A convolution correlates images with the weight. Its transpose
correlates each of the `stride` phases of its result's positions with the elements of the kernel that reach them. The
gradient by the weight adds up products of cotangents and images. With one spatial axis there is another, of length 1.
Elements of a kernel that see nothing but padding are left out: of 3 × 3 on an image of 1 × 1 all but one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from micrograd_core.layout import Shape
from micrograd_core.ops.network.convolution import transposed_size
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cpu.patches import of_ranks

NEAR: Final = 1 << 17
"""Numbers of copies, and of cotangents or results, that are worked on together: what the second cache holds."""
ELEMENTS: Final = 160
"""Elements of a row of the weight that are worked on together: what they see of a tile stays in the first cache."""
COPIED: Final = 32
"""Products that take as long as the copy of a number."""
SHARED: Final = 16_000_000
"""Products from which on a second thread is worth waking."""

FIELDS: Final = (
    "channels block elements phases source source_channel source_row source_step plane_row plane image_step outputs "
    "vectors length groups rows columns images all grid share parts "
    "target_size target_channel target_row target_step target_start weight_group weight_row weight_channel"
).split()
"""What the loops are told, by place in an array of int64. Then come, for each phase, `PHASE` facts: where it starts in
the image and in the copy, its rows and its columns. Then, for each of the `block` channels that are copied together and
each of the `elements` of a kernel that are seen, its offset in the copy; and after all these, that in the weight."""
PHASE: Final = 4

# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────


class Axis(NamedTuple):
    """How a kernel's elements see an axis: its length, their places from `-before` on, and the number of positions."""

    length: int
    elements: Shape
    places: Shape
    before: int
    stride: int
    positions: int
    apart: bool = False
    """Whether what each element sees is a copy of its own, in which nothing lies between two rows of positions."""

    @property
    def extent(self) -> int:
        """Of the copy of a phase."""
        return self.positions + max((self.phase(place)[1] for place in self.places), default=0)

    def phase(self, place: int) -> tuple[int, int]:
        """The one that has a place, and where it is there."""
        return (place, 0) if self.apart else (place % self.stride, place // self.stride)

    def phases(self) -> list[int]:
        """Of all places."""
        return sorted({self.phase(place)[0] for place in self.places})

    def inside(self, phase: int) -> tuple[int, int, int]:
        """Of a phase's elements that are not padding: the first in the axis, the first in the copy, and how many."""
        first = max(0, -((phase - self.before) // self.stride))
        end = min(self.extent, (self.length - 1 + self.before - phase) // self.stride + 1)
        return self.stride * first + phase - self.before, first, max(0, end - first)

    def seen(self) -> Axis:
        """Without elements that see nothing but padding."""
        alone = self._replace(apart=True)
        pairs = [(m, place) for m, place in zip(self.elements, self.places, strict=True) if alone.inside(place)[2]]
        return self._replace(elements=tuple(m for m, _ in pairs), places=tuple(place for _, place in pairs))


class Target(NamedTuple):
    """Where results go: distances of channels and of rows, that of numbers in a row, the first, and the size of all."""

    channel: int
    row: int
    step: int
    start: int
    size: int


class Weight(NamedTuple):
    """Where a weight is: distances of groups, of results' channels, of images' channels, and of rows of a kernel."""

    group: int
    row: int
    channel: int
    line: int


class Sizes(NamedTuple):
    """What the loops are given."""

    numbers: Any  # int64
    scratch: int  # numbers
    blocks: int  # of images


@lru_cache(maxsize=1024)
def _sizes(
    count: int, most: int, share: int, channels: int, outputs: int, groups: int, axes: tuple[Axis, Axis],
    weight: Weight, target: Target, width: int,
) -> Sizes:  # fmt: skip
    """For `count` images, of which at most so many are taken together, and floats of which a vector has `width`."""
    y, x = (axis.seen() for axis in axes)
    kernel = list(product(zip(y.places, y.elements, strict=True), zip(x.places, x.elements, strict=True)))
    wasted = (x.extent - x.positions) * len(kernel) * outputs  # products of each row of an image
    copied = (len(x.places) - len(x.phases())) * len(y.phases()) * x.positions
    x = x._replace(apart=wasted > COPIED * copied)
    phases = list(product(y.phases(), x.phases()))
    block = min(channels, max(1, ELEMENTS // max(1, len(kernel))))
    numbers_of_one = x.extent * (outputs * y.positions + block * len(phases) * y.extent)
    images = -(-count // min(count, max(-(-count // most), -(-count * numbers_of_one // NEAR))))
    row = images * x.extent
    vectors = -(-y.positions * row // width)
    # Neighbours lie odd numbers of lines apart: in steps of powers of 2 a cache holds few of them.
    plane, length = (width * (-(-n * row // width) | 1) for n in (y.extent, y.positions))
    grid = block * len(phases) * plane + width
    found = {
        "channels": channels, "block": block, "elements": len(kernel), "phases": len(phases),
        "source": channels * y.length * x.length, "source_channel": y.length * x.length,
        "source_row": y.stride * x.length, "source_step": x.stride, "plane_row": row, "plane": plane,
        "image_step": x.extent, "outputs": outputs, "vectors": vectors, "length": length, "groups": groups,
        "rows": y.positions, "columns": x.positions, "images": images, "all": count, "grid": grid, "share": share,
        "parts": -(-outputs // share), **{f"target_{name}": value for name, value in target._asdict().items()},
        **{f"weight_{name}": value for name, value in weight._asdict().items()},
    }  # fmt: skip
    numbers = [found[name] for name in FIELDS]
    for upper, left in phases:
        (top, first_row, rows), (start, first, columns) = y.inside(upper), x.inside(left)
        facts = [top * x.length + start, first_row * row + first, rows, columns]
        numbers += facts if rows and columns else [0] * len(facts)
    for channel, ((down, _), (right, _)) in product(range(block), kernel):
        (upper, lines), (left, further) = y.phase(down), x.phase(right)
        phase = channel * len(phases) + phases.index((upper, left))
        numbers.append(phase * plane + lines * row + further)
    numbers += [c * weight.channel + m * weight.line + n for c, ((_, m), (_, n)) in product(range(block), kernel)]
    return Sizes(np.array(numbers, np.int64), grid + outputs * length, -(-count // images))


def pair(x: Shape, filler: int) -> tuple[int, int]:
    """Of both axes, for what is given of one or two."""
    return (filler, x[0]) if len(x) < 2 else (x[0], x[1])


def by_axis(padding: Shape, *others: Shape) -> Any:
    """Of each of both axes the padding, and what else is given of one or two."""
    return zip(pair(padding, 0), *(pair(x, 1) for x in others), strict=True)


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────

TYPES: Final = {np.dtype("float32"): "float", np.dtype("float64"): "double"}


Loops = tuple[Callable[..., None], Callable[..., None], int]
"""The compiled functions of `correlation` for a dtype, `correlate` and `weigh`, and how many numbers a vector has."""


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
    return None if found is None else (found[0], found[1], vector_bytes() // dtype.itemsize)


def _threads(large: bool) -> int:
    """How many share what is large."""
    if not large:
        return 1
    from micrograd_cpu.threads import Threads

    return Threads.count


def divided(some: Callable[[int, int], None], count: int, large: bool) -> None:
    """``some(begin, end)`` of all, by two threads where that pays."""
    if not large:
        some(0, count)
    else:
        from micrograd_cpu.threads import shared

        shared(some, count)


def _correlate(
    loops: Loops, out: Any, x: Any, weight: Any, layout: Weight, bias: Any, outputs: int, groups: int,
    axes: tuple[Axis, Axis], target: Target,
) -> None:  # fmt: skip
    """Images times a weight, each group of channels for itself."""
    (correlate, _, width), count, channels = loops, x.shape[0], x.shape[1] // groups
    large = weight.size * count * axes[0].positions * axes[1].positions >= SHARED
    most = -(-count // _threads(large))
    sizes = _sizes(count, most, outputs, channels, outputs, groups, axes, layout, target, width)

    def some(begin: int, end: int) -> None:
        correlate(begin, end, sizes.numbers, out, x, weight, bias, np.zeros(sizes.scratch, x.dtype))

    divided(some, sizes.blocks * groups, large)


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
    facts = by_axis(padding, size, kernel, stride, dilation, positions)
    first, second = (Axis(n, tuple(range(m)), tuple(range(0, d * m, d)), p, s, o) for p, n, m, s, d, o in facts)
    return first, second


def _plain(channels: int, size: Shape) -> Target:
    """All of a contiguous array."""
    rows, columns = pair(size, 1)
    return Target(rows * columns, columns, 1, 0, channels * rows * columns)


def _layout(outputs: int, channels: int, *kernel: int) -> Weight:
    """Of a weight (groups * outputs, channels, *kernel)."""
    each = math.prod(kernel)
    return Weight(outputs * channels * each, channels * each, each, kernel[-1])


def convolution(x: Any, weight: Any, bias: Any, *, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Any:
    """`conv1d` and `conv2d`."""
    loops, kernel = _loops(x.dtype), weight.shape[2:]
    if loops is None or not (x.size and weight.size):
        return NotImplemented
    lengths = lengths_of("convolution", x.shape[2:], kernel, stride, padding, dilation)
    out = np.empty((x.shape[0], weight.shape[0], *lengths), x.dtype)
    axes = _axes(x.shape[2:], kernel, stride, padding, dilation, lengths)
    biases, outputs = _biases(bias, weight.shape[0], x.dtype), weight.shape[0] // groups
    layout, target = _layout(outputs, *weight.shape[1:]), _plain(outputs, lengths)
    _correlate(loops, out, dense(x), dense(weight), layout, biases, outputs, groups, axes, target)
    return out


def _reached(phase: int, padding: int, n: int, kernel: int, stride: int, dilation: int, size: int) -> tuple[Axis, int]:
    """Every `stride`-th place of a transpose's result along an axis: what reaches it, and the first of these places.

    They are those of ``stride * j + phase - padding`` that are in the result.
    """
    first = -((phase - padding) // stride)
    count = max(0, (padding + size - 1 - phase) // stride + 1 - first)
    elements = [m for m in range(kernel) if (m * dilation - phase) % stride == 0]
    back = [(m * dilation - phase) // stride for m in elements]  # from a place to what the element multiplies
    most = max(back, default=0)
    axis = Axis(n, tuple(elements), tuple(most - each for each in back), most - first, 1, count)
    return axis, stride * first + phase - padding


def transpose(
    x: Any, weight: Any, bias: Any, *, groups: int, output_padding: Shape, stride: Shape, padding: Shape,
    dilation: Shape,
) -> Any:  # fmt: skip
    """`conv_transpose1d` and `conv_transpose2d`."""
    loops, kernel = _loops(x.dtype), weight.shape[2:]
    if loops is None or not (x.size and weight.size):
        return NotImplemented
    size = transposed_size(x.shape[2:], kernel, stride, padding, output_padding, dilation)
    inputs, outputs = weight.shape[0] // groups, weight.shape[1]
    biases = _biases(bias, outputs * groups, x.dtype)
    out = np.empty((x.shape[0], outputs * groups, *size), x.dtype)
    (rows, columns), (sy, sx) = pair(size, 1), pair(stride, 1)
    facts = [*by_axis(padding, x.shape[2:], kernel, stride, dilation, size)]
    plain = _layout(inputs, *weight.shape[1:])
    layout = plain._replace(row=plain.channel, channel=plain.row)
    x, weight = dense(x), dense(weight)
    for phases in product(range(sy), range(sx)):
        (down, top), (right, start) = (_reached(phase, *each) for phase, each in zip(phases, facts, strict=True))
        if down.positions and right.positions:
            target = Target(rows * columns, sy * columns, sx, top * columns + start, outputs * rows * columns)
            _correlate(loops, out, x, weight, layout, biases, outputs, groups, (down, right), target)
    # Where only zeros around it reach, a weight that is not finite makes NaN of them.
    return out if np.isfinite(min(weight, out, key=np.size)).all() else NotImplemented


def weight_gradient(
    g: Any, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    """`conv1d_weight_gradient` and `conv2d_weight_gradient`."""
    loops, count = _loops(x.dtype), x.shape[0]
    if loops is None or not (x.size and g.size):
        return NotImplemented
    _, weigh, width = loops
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    axes = _axes(x.shape[2:], kernel_size, stride, padding, dilation, g.shape[2:])
    layout, target = _layout(outputs, channels, *kernel_size), _plain(outputs, g.shape[2:])
    large = g.size * channels * math.prod(kernel_size) >= SHARED
    share = max(1, -(-outputs // _threads(large)))
    sizes = _sizes(count, count, share, channels, outputs, groups, axes, layout, target, width)
    out = np.zeros((g.shape[1], channels, *kernel_size), x.dtype)
    x, g = dense(x), dense(g)

    def some(begin: int, end: int) -> None:
        weigh(begin, end, sizes.numbers, out, x, g, np.zeros(sizes.scratch, x.dtype))

    divided(some, -(-outputs // share) * groups, large)
    return out if np.isfinite(out).all() else NotImplemented  # which may be 0 times what no position sees


CONVOLUTIONS: Final = of_ranks(
    {"conv#d": convolution, "conv_transpose#d": transpose, "conv#d_weight_gradient": weight_gradient}
)
