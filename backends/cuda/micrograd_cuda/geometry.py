"""How work is laid over a GPU's threads: pure functions of shapes, strides and alignment. Nothing here has a device.

Strides count elements. `BLOCK` threads make a block; a pack is neighbours that one thread takes together, as many as 16
bytes hold where the shape allows it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from micrograd_core.compiler.nests import in_turn, neighbours
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_cuda.units import BLOCK, ELEMENT, RESULT, Unit

MOST_BLOCKS: Final = 2**31 - 1  # of a grid along x; along y and z 2**16 - 1
NARROW: Final = 2**30  # below this an int counts everything, also one step of the grid beyond the end
MOST_AXES: Final = 8

ITEMSIZE: Final = {name: dtype.itemsize for name, dtype in DTYPES.items()}


def ceil_div(x: int, y: int) -> int:
    """`x` over `y`, rounded up."""
    return -(-x // y)


def blocks(threads: int, block: int = BLOCK) -> int:
    """Enough blocks for one thread each of `threads`, as far as a grid goes; kernels loop for the rest."""
    return max(1, min(ceil_div(threads, block), MOST_BLOCKS))


def counter(*numbers: int) -> str:
    """The type that counts as far as the largest of some numbers."""
    return "int" if max(numbers) < NARROW else "Long"


class Place(NamedTuple):
    """Where an operand lies."""

    shape: Shape
    strides: Shape
    alignment: int  # its first element is at a multiple of so many bytes; at most 16


def power_of_two(number: int, most: int) -> int:
    """The largest that divides `number`, and is at most `most`, itself one.

    >>> power_of_two(12, 16), power_of_two(0, 16)
    (4, 16)
    """
    number |= most
    return number & -number


def power_of_two_from(number: int, most: int) -> int:
    """The smallest that is no less than `number`, but `most`, itself one, if that is less.

    >>> power_of_two_from(5, 512), power_of_two_from(600, 512)
    (8, 512)
    """
    return min(1 << (max(number, 1) - 1).bit_length(), most)


def axes_last(count: int, axes: Shape) -> Shape:
    """The order of so many axes in which some are the last.

    >>> axes_last(4, (2, 0))
    (1, 3, 2, 0)
    """
    return (*(each for each in range(count) if each not in axes), *axes)


def broadcast_strides(place: Place, shape: Shape) -> Shape:
    """Strides that walk the operand in step with a result of `shape`: 0 along axes that repeat it."""
    own = (0 if length == 1 else stride for length, stride in zip(place.shape, place.strides, strict=True))
    return (0,) * (len(shape) - len(place.shape)) + tuple(own)


def collapse(shape: Shape, strides: tuple[Shape, ...]) -> tuple[Shape, tuple[Shape, ...]]:
    """The same walk with as few axes as possible: those of length 1 dropped, those that continue each other joined.

    >>> collapse((2, 3, 4), ((12, 4, 1), (0, 0, 1)))
    ((6, 4), ((4, 1), (0, 1)))
    """
    axes = neighbours(shape, strides)
    lengths = tuple(math.prod([shape[axis] for axis in group]) for group in axes)
    return lengths or (1,), tuple(tuple(each[group[-1]] for group in axes) or (0,) for each in strides)


class Walk(NamedTuple):
    """A collapsed walk, counted in packs along its last axis: what the sources call a Geometry."""

    counter: str  # "int" where it can count everything, else "Long"
    pack: int
    length: int  # of the last axis in elements; only a walk along one axis may end with less than a whole pack
    shape: Shape
    strides: tuple[Shape, ...]
    accesses: Shape  # for each operand, how many elements of a pack are read at once

    @property
    def packs(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    @property
    def numbers(self) -> list[int]:
        """The members of the struct in order; all have the type `counter`."""
        return [self.packs, self.length, *self.shape, *(stride for each in self.strides for stride in each)]


def walk(shape: Shape, places: tuple[Place, ...], itemsize: int, result_itemsize: int = 16) -> Walk | None:
    """How a kernel walks operands that broadcast to `shape`; ``None`` where that takes more than `MOST_AXES` axes.

    The result is contiguous and lies at a multiple of 16 bytes. Operands need not: where one starts, or its rows do, at
    a multiple of fewer bytes, it is read in smaller parts.
    """
    lengths, strides = collapse(shape, tuple(broadcast_strides(place, shape) for place in places))
    if len(lengths) > MOST_AXES:
        return None
    pack = min(16 // min(itemsize, result_itemsize), 8)
    if len(lengths) > 1:
        pack = power_of_two(lengths[-1], pack)
    if any(each[-1] not in (0, 1) for each in strides):
        pack = 1
    widest = min(pack, 16 // itemsize)
    accesses = []
    for place, each in zip(places, strides, strict=True):
        start = widest if each[-1] == 0 else power_of_two(max(place.alignment // itemsize, 1), widest)
        accesses.append(start if each[-1] == 0 else min(power_of_two(stride, start) for stride in (*each[:-1], 0)))
    reach = [sum((n - 1) * abs(s) for n, s in zip(lengths, each, strict=True)) for each in strides]
    packs = tuple((*each[:-1], each[-1] * pack) for each in strides)
    count = *lengths[:-1], ceil_div(lengths[-1], pack)
    return Walk(counter(math.prod(lengths), *reach), pack, lengths[-1], count, packs, tuple(accesses))


class Launch(NamedTuple):
    """One launch of a unit with a thread for each of so many; its last argument is a struct of numbers."""

    unit: Unit
    threads: int
    counter: str
    numbers: list[int]  # the members of the struct in order; all have the type `counter`
    shape: Shape = ()  # of the result, of functions of elements


@lru_cache(maxsize=4096)
def elementwise(functor: str, dtype: str, scalar: str, places: tuple[Place | None, ...],
                result: str = "") -> Launch | None:  # fmt: skip
    """The launch that maps `functor` over operands; ``None`` stands for the one that is a Python number.

    `scalar` says which that is (``NEITHER``, ``FIRST``, ``SECOND``; empty for functions of one operand). The `result`
    may have a dtype of its own. ``None`` is returned for more axes than the kernels take.

    Raises
    ------
    ShapeError
        For shapes that do not broadcast.
    """
    shape = broadcast_shapes(functor.lower(), *(place.shape for place in places if place is not None))
    result = result or dtype
    found = walk(shape, tuple(place or Place((), (), 16) for place in places), ITEMSIZE[dtype], ITEMSIZE[result])
    if found is None:
        return None
    kinds = (RESULT[result], scalar) if scalar else (RESULT[result],)
    numbers = map(str, (len(found.shape), found.pack, *found.accesses))
    unit = Unit("binary" if scalar else "unary", (functor, ELEMENT[dtype], *kinds, found.counter, *numbers))
    return Launch(unit, found.packs, found.counter, found.numbers, shape)


class Pieces(NamedTuple):
    """How rows are shared out, `group` threads for each; or what is reduced: a block, or a group, takes a piece."""

    arguments: tuple[str, ...]  # of the templates, after those of their own
    pack: int
    grid: tuple[int, int]
    block: int = BLOCK
    group: int = 1
    items: int = 0  # packs of a thread in registers; 0: the row is too long, and read again for each pass
    piece: int = 0  # rows of a band, packs of a channel's part, or columns
    parts: int = 1  # how many partial results there are of each
    numbers: tuple[int, ...] = ()  # that kernels of channels are told


@lru_cache(maxsize=4096)
def row_launch(rows: int, columns: int, dtype: str, operands: int, alignment: int, each: int = 1, *,
               peel: bool = False, largest: int = 1024) -> Pieces:  # fmt: skip
    """The launch for functions of whole rows of `operands` contiguous (rows, columns) matrices.

    As few threads per row as keep at most 4 packs each, so that there is little to reduce; at most 32 elements of all
    operands in registers per thread, where more would spill. Each group of threads takes about `each` rows. With `peel`
    rows of any length go in whole packs, if they are long enough that the ends, which go by elements, are few. Rows
    that no registers hold have groups of at most `largest`: where they are read once, two share a multiprocessor.
    """
    itemsize = ITEMSIZE[dtype]
    pack, whole = power_of_two(columns, max(alignment // itemsize, 1)), 16 // itemsize
    peeled = peel and alignment == 16 and pack < whole and columns >= 16 * whole
    pack, packs = (whole, columns // whole) if peeled else (pack, ceil_div(columns, pack))
    most = max(1, min(4, 32 // (pack * operands)))
    group = max(power_of_two_from(ceil_div(packs, most), 1024), 2 * pack * peeled)  # each end element has a thread
    items = ceil_div(packs, group)
    items, group = (items, group) if items * pack * operands <= 32 else (0, min(group, largest))
    block = max(group, 128)
    arguments = (*map(str, (group, items, pack)), *(["true"] if peeled else []))
    return Pieces(arguments, pack, (blocks(ceil_div(rows, each) * group, block), 1), block, group, items)


FILLED: Final = 2**17
"""Threads that fill a GPU: an H100 has 132 multiprocessors, each of 65,536 registers, which is 1024 threads of the 64
or so that a sum of rows takes. The same for all GPUs, as the order of a sum goes by it."""
FEWEST: Final = 4
"""Rows of which a sum is kept: of fewer, sums would be half as much to write and to read as what is added up."""


@lru_cache(maxsize=4096)
def row_sums_launch(rows: int, columns: int, dtype: str, alignment: int, sums: int, more: bool = False) -> Pieces:
    """The launch that adds up functions of the rows of two matrices, as one row for each block, of `sums` sums.

    Blocks as many as are under way at once, as far as there are rows: more would be more to add up in the end, fewer
    leave multiprocessors idle. With `more` there is another sum; threads have 80 registers, so fewer are under way.
    """
    operands = 2 + max(sums, 1)
    launch = row_launch(rows, columns, dtype, operands, alignment)
    together = max((768 if more else 1024) // launch.block, 1) * launch.block  # threads of a multiprocessor
    each = max(FEWEST, ceil_div(rows * launch.group, FILLED // 1024 * together))
    return row_launch(rows, columns, dtype, operands, alignment, each)


@lru_cache(maxsize=4096)
def instance(family: str, launch: Pieces, *arguments: str) -> Unit:
    """The instance of a template; `arguments` are those before the launch's."""
    return Unit(family, (*arguments, *launch.arguments), launch.block)


@lru_cache(maxsize=4096)
def piece_launch(rows: int, columns: int, itemsize: int, alignment: int, *, whole: bool = False) -> Pieces:
    """Groups that read each at least 4 packs a thread; rows in pieces where there are too few of them for a GPU.

    With `whole` a row is one piece. The same for a shape on every GPU.
    """
    pack = power_of_two(columns, max(alignment // itemsize, 1))
    group = power_of_two_from(ceil_div(columns, 4 * pack), 512)
    block = max(group, 128)
    across = ceil_div(rows * group, block)
    most = 1 if whole else max(1, min(ceil_div(2048, across), columns // (group * pack * 16), 1024))
    piece = ceil_div(ceil_div(columns, most), group * pack) * group * pack
    grid = blocks(rows * group, block), ceil_div(columns, piece)
    return Pieces((str(group), str(pack)), pack, grid, block, piece=piece, parts=grid[1])


POOLED: Final = ((2, 2), (3, 2), (3, 1))
KNOWN: Final = {"MEAN": POOLED, "MAXIMUM": POOLED, "PATCHES": tuple((n, s) for n in (1, 3, 5, 7) for s in (1, 2))}
"""Square windows and their strides that have code of their own, by what is made of a window."""


Steps = tuple[Shape, Shape, Shape, Shape]
"""Of windows: kernel, stride, padding and dilation."""


@lru_cache(maxsize=4096)
def windows(family: str, kind: str, dtype: str, alignment: int, shape: Shape, lengths: Shape, steps: Steps) -> Launch:
    """The launch over windows of an array of `shape` that have so many positions.

    A leading axis along which there are no windows counts as planes; not of patches, whose taps come before it.
    """
    neutral = 1, 1, 0, 1
    planes, missing = math.prod(shape[:2]), 5 - len(shape)
    sizes, outs = (1,) * missing + shape[2:], (1,) * missing + lengths
    kernel, stride, padding, dilation = ((n,) * missing + each for each, n in zip(steps, neutral, strict=True))
    alone = (kernel[0], stride[0], padding[0], dilation[0]) == neutral  # windows see one place of the first axis
    if alone and kind != "PATCHES":
        planes, sizes, outs = planes * sizes[0], (1, *sizes[1:]), (1, *outs[1:])
    known = alone and sizes[0] == 1 and (kernel[1], stride[1]) in KNOWN[kind] and dilation == (1, 1, 1)
    known = known and kernel[1] == kernel[2] and stride[1] == stride[2]
    numbers = [planes, *sizes, *outs, *kernel, *stride, *padding, *dilation]
    constants = (*kernel[1:], *stride[1:]) if known else (0, 0, 0, 0)
    paired = known and kernel[1] == stride[1] == 2 and not any(padding) and not sizes[2] % 2
    paired = paired and alignment >= 2 * ITEMSIZE[dtype]
    taps = math.prod(kernel) if kind == "PATCHES" else 1
    index = counter(planes * math.prod(sizes), planes * math.prod(outs) * taps, *numbers)
    unit = Unit(family, (kind, ELEMENT[dtype], index, *map(str, constants), str(bool(paired)).lower()))
    if family == "windows_gradient":
        outs = tuple(ceil_div(n + p, s) if known else n for n, p, s in zip(sizes, padding, stride, strict=True))
    return Launch(unit, planes * math.prod(outs), index, numbers)


# ── statistics over axes that are not the last ones ──────────────────────────────────────────────────────────


class Channels(NamedTuple):
    """What is reduced lies in the middle: columns of (batches, rows, columns), or planes of (rows, columns, run)."""

    planes: bool
    rows: int
    columns: int
    run: int  # or batches

    @property
    def number(self) -> int:
        """How many there are to tell something of."""
        return self.columns if self.planes else self.columns * self.run

    @property
    def length(self) -> int:
        """Elements of each."""
        return self.rows * self.run if self.planes else self.rows


@lru_cache(maxsize=4096)
def channels(shape: Shape, axes: Shape) -> Channels | None:
    """How a contiguous array of `shape` is reduced over `axes` as it lies; ``None`` where these are the last, or else.

    More batches than a grid has blocks along y are ``None``, too.

    >>> channels((8, 3, 4, 4), (0, 2, 3)), channels((8, 3), (0,)), channels((8, 3), (1,))
    (Channels(planes=True, rows=8, columns=3, run=16), Channels(planes=False, rows=8, columns=3, run=1), None)
    """
    found = in_turn(shape, axes)
    kinds, lengths = tuple(kind for kind, _ in found), [length for _, length in found]
    if kinds == (True, False):
        return Channels(False, lengths[0], lengths[1], 1)
    if kinds == (False, True, False) and lengths[0] < 1 << 16:  # which go along y
        return Channels(False, lengths[1], lengths[2], lengths[0])
    return Channels(True, lengths[0], lengths[1], lengths[2]) if kinds == (True, False, True) else None


@lru_cache(maxsize=4096)
def channel_launch(of: Channels, itemsize: int, alignment: int, least: int = 128, block: int = BLOCK) -> Pieces:
    """Columns in parts of at least so many rows, planes in parts of some packs a thread; at most some 2000 blocks.

    The same for a shape on every GPU.
    """
    pack = power_of_two(of.run if of.planes else of.columns, max(alignment // itemsize, 1))
    if of.planes:
        across, batches, run, length = of.columns, 1, of.run // pack, of.rows * of.run // pack
        most = length // (4 * block)
    else:
        across, batches, run, length = ceil_div(of.columns, 32 * pack), of.run, of.run, of.rows
        most = ceil_div(length, least)
    piece = ceil_div(length, max(1, min(most, ceil_div(2048, across * batches))))
    parts = ceil_div(length, piece)
    arguments, numbers = (counter(of.number * of.length), str(pack)), (of.rows, of.columns, run, piece)
    return Pieces(arguments, pack, (across, parts * batches), block, piece=piece, parts=parts, numbers=numbers)


def segment(count: int) -> int:
    """How many of `count` rows in a row one thread adds up: about as many as there will be sums.

    >>> segment(100), segment(8192)
    (32, 128)
    """
    return max(32, 1 << ((max(count, 1) - 1).bit_length() + 1) // 2)
