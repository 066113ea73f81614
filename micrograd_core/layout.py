"""Shapes, strides and keys as plain values: broadcasting, axes, basic indexing, and `Layout`.

Everything here is arithmetic on tuples; nothing touches an element. Strides and offsets count elements, not bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from operator import index, mul
from reprlib import repr as brief  # of data nested without end, too
from typing import Any, NamedTuple

from micrograd_core.errors import AxisError, IndexingError, ShapeError

Shape = tuple[int, ...]

MAX_DIMENSIONS = 64
"""Axes that a tensor may have: as many as NumPy's arrays, and as Python's buffers."""


def contiguous_strides(shape: Shape) -> Shape:
    """C-order strides, in elements."""
    return (*accumulate(reversed(shape), mul, initial=1),)[-2::-1]  # without the product of all lengths


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────


def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """The shape that all `shapes` broadcast to (array API standard, "Broadcasting").

    Raises
    ------
    ShapeError
        When two lengths of an axis differ and neither is 1.
    """
    ndim = max(map(len, shapes), default=0)
    result = []
    for axis in range(-ndim, 0):
        lengths = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(lengths) > 1:
            raise ShapeError(
                f"{op}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                f"axis {axis} has lengths {' and '.join(map(str, sorted(lengths)))}; "
                "each axis must be equal, or 1, or missing on the left"
            )
        result.append(lengths.pop() if lengths else 1)
    return tuple(result)


def is_integer(x: Any) -> bool:
    """Whether something stands for one integer, of Python or NumPy; an array of several has ``__index__``, too."""
    return hasattr(x, "__index__") and not getattr(x, "shape", ())


def _integers(op: str, shape: Any) -> Shape:
    """A shape, of which some lengths may be negative, as a tuple; one integer means one axis."""
    try:
        result = (index(shape),) if is_integer(shape) else tuple(map(index, shape))
    except TypeError:
        raise ShapeError(f"{op}: a shape is a sequence of integers; got {brief(shape)}") from None
    if len(result) > MAX_DIMENSIONS:
        raise ShapeError(f"{op}: a tensor has at most {MAX_DIMENSIONS} axes; got a shape of {len(result)}")
    return result


def as_shape(op: str, shape: Any) -> Shape:
    """`shape` as a tuple of non-negative integers; one integer means one axis."""
    result = _integers(op, shape)
    if any(length < 0 for length in result):
        raise ShapeError(f"{op}: lengths cannot be negative; got {result}")
    return result


def resolve_reshape(old: Shape, shape: Any) -> Shape:
    """`shape` with one ``-1`` filled in from the size of `old`."""
    new = list(_integers("reshape", shape))
    size = math.prod(old)
    if new.count(-1) == 1:
        known = math.prod(length for length in new if length != -1)
        if known > 0 and size % known == 0:
            new[new.index(-1)] = size // known
    if min(new, default=0) < 0 or math.prod(new) != size:
        raise ShapeError(
            f"reshape: {size} elements of shape {old} do not fit shape {shape}; "
            "the sizes must agree, and at most one length may be -1"
        )
    return tuple(new)


def resolve_axis(op: str, axis: Any, ndim: int) -> int:
    """One axis as an integer in ``[0, ndim)``."""
    try:
        resolved = index(axis)
    except TypeError:
        raise ShapeError(f"{op}: an axis is an integer; got {axis!r}") from None
    if not -ndim <= resolved < ndim:
        possible = f"axes {-ndim} to {ndim - 1}" if ndim else "no axes (it is 0-d)"
        raise AxisError(f"{op}: axis {resolved} is out of range; a tensor of {ndim} dimensions has {possible}")
    return resolved + ndim if resolved < 0 else resolved


def resolve_axes(op: str, axis: Any, ndim: int) -> Shape | None:
    """Axes as a tuple of distinct integers in ``[0, ndim)``; ``None``, all of them, stays ``None``."""
    if axis is None or (not ndim and axis.__class__ is int and axis in (0, -1)):  # of a 0-d tensor, as NumPy's
        return None
    if axis.__class__ is int and 0 <= axis < ndim:
        return (axis,)
    axes = tuple(resolve_axis(op, each, ndim) for each in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: axes {axis} name the same axis twice")
    return axes


def reduced_shape(shape: Shape, axes: Shape | None, keepdims: bool) -> Shape:
    """The shape after reducing over `axes`."""
    if axes is None:
        axes = tuple(range(len(shape)))
    if keepdims:
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────

Key = tuple[Any, ...]  # of int, slice and None; covers every axis


def key_entries(key: Any) -> tuple[Any, ...]:
    """What stands between the commas of a key."""
    return key if isinstance(key, tuple) else (key,)


def holds_arrays(key: Any) -> bool:
    """Whether a key is more than basic."""
    return any(map(is_array, key_entries(key)))


def is_array(entry: Any) -> bool:
    """Whether an entry of a key is an array of integers or booleans, or data for one."""
    if isinstance(entry, (bool, list, tuple)):
        return True
    shape = getattr(entry, "shape", None)
    return shape is not None and (shape != () or "bool" in str(entry.dtype))


def resolve_key(key: Any, shape: Shape) -> Key:
    """A basic key in full: one entry per axis (non-negative ``int`` or a ``slice`` with explicit bounds) plus ``None``.

    A slice that runs backwards through element 0 has the stop ``None``, the only bound a slice has for that.
    Source: array API standard, "Indexing", single- and multi-axis.

    Raises
    ------
    IndexingError
        Too many indices, two ellipses, out of bounds, a zero step, or an entry that is not int, slice, None or ``...``.
    """
    if key.__class__ is int and shape and -shape[0] <= key < shape[0]:  # the key of loops over rows
        return (key if key >= 0 else key + shape[0], *[slice(0, length, 1) for length in shape[1:]])
    entries = key_entries(key)
    spans = [int(entry is not None and entry is not Ellipsis) for entry in entries]
    placed = [each for each in with_axes(entries, spans, shape) if each[0] is not Ellipsis]
    return tuple([None if entry is None else _resolve_entry(entry, axis, shape) for entry, axis in placed])


def with_axes(entries: Sequence[Any], spans: Sequence[int], shape: Shape) -> list[tuple[Any, int]]:
    """Each entry of a key with the axis at which it stands, from how many axes it is for.

    The ellipsis, at the end if there is none, is kept, and followed by the whole slices that it stands for.
    """
    missing = len(shape) - sum(spans)
    if missing < 0:
        raise IndexingError(f"getitem: {sum(spans)} indices for shape {shape}, which has {len(shape)} axes")
    ellipses = sum(entry is Ellipsis for entry in entries)
    if ellipses > 1:
        raise IndexingError("getitem: a key may hold one ellipsis (...)")
    found: list[tuple[Any, int]] = []
    axis = 0
    for entry, span in zip(entries if ellipses else [*entries, Ellipsis], [*spans, 0], strict=False):
        found.append((entry, axis))
        axis += span
        if entry is Ellipsis:
            found += [(slice(None), axis + i) for i in range(missing)]
            axis += missing
    return found


def _resolve_entry(entry: Any, axis: int, shape: Shape) -> int | slice:
    length = shape[axis]
    if isinstance(entry, slice):
        try:
            start, stop, step = entry.indices(length)
        except (TypeError, ValueError) as error:
            raise IndexingError(f"getitem: {entry} on axis {axis}: {error}") from None
        count = len(range(start, stop, step))
        if count == 0:
            return slice(0, 0, 1)
        stop = start + count * step  # just past the last element taken
        return slice(start, min(stop, length) if stop >= 0 else None, step)
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise IndexingError(
            f"getitem: an index is an integer, a slice, ... or None; got {type(entry).__name__} on axis {axis}"
        )
    try:
        position = index(entry)
    except TypeError as error:
        raise IndexingError(f"getitem: {error} on axis {axis}") from None
    if not -length <= position < length:
        raise IndexingError(
            f"getitem: index {position} is out of bounds for axis {axis} of length {length} (shape {shape})"
        )
    return position + length if position < 0 else position


# ── layout ───────────────────────────────────────────────────────────────────────────────────────────────────


class Layout(NamedTuple):
    """Where the elements of an n-d tensor lie in flat memory: an immutable value.

    Element ``i`` (a tuple) is at ``offset + sum(i[a] * strides[a])``. Each view method validates and returns a new
    layout over the same memory.

    Attributes
    ----------
    shape : tuple of int
    strides : tuple of int
        In elements; negative for reversed axes, 0 for broadcast ones.
    offset : int
        Of the first element, in elements.
    """

    shape: Shape
    strides: Shape
    offset: int = 0

    @classmethod
    def contiguous(cls, shape: Shape) -> Layout:
        """C order from offset 0."""
        return cls(shape, contiguous_strides(shape))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether walking the elements in C order walks memory one element at a time (wherever it starts)."""
        if 0 in self.shape:
            return True
        pairs = zip(self.shape, self.strides, contiguous_strides(self.shape), strict=True)
        return all(length == 1 or stride == expected for length, stride, expected in pairs)

    @property
    def may_overlap(self) -> bool:
        """Whether several elements may be one in memory: not where each step is longer than all shorter ones reach."""
        reach = 0
        for stride, length in sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride <= reach:
                return True
            reach += stride * (length - 1)
        return False

    def permute(self, axes: Sequence[int]) -> Layout:
        """Axes in another order."""
        return Layout(tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset)

    def broadcast_to(self, shape: Shape) -> Layout:
        """Repeat axes of length 1 (or missing ones) with stride 0."""
        if broadcast_shapes("broadcast_to", self.shape, shape) != shape:
            raise ShapeError(f"broadcast_to: shape {self.shape} does not broadcast to {shape}")
        new = len(shape) - len(self.shape)
        strides = tuple(
            0 if length == 1 != wanted else stride
            for length, wanted, stride in zip(self.shape, shape[new:], self.strides, strict=True)
        )
        return Layout(shape, (0,) * new + strides, self.offset)

    def index(self, key: Any) -> Layout:  # type: ignore[override]
        """Basic indexing: integers drop an axis, slices step along it, ``None`` adds one of length 1."""
        shape, strides, offset = [], [], self.offset
        axes = zip(self.shape, self.strides, strict=True)
        for entry in resolve_key(key, self.shape):
            length, stride = (1, 0) if entry is None else next(axes)
            if isinstance(entry, int):
                offset += entry * stride
            else:
                steps = range(*(entry or slice(None)).indices(length))
                shape.append(len(steps))
                strides.append(stride * steps.step)
                offset += steps.start * stride if steps else 0
        return Layout(tuple(shape), tuple(strides), offset)

    def reshape(self, shape: Shape) -> Layout | None:
        """The layout of the same elements in `shape` where strides can express it, else ``None`` (a copy is needed)."""
        if self.size != math.prod(shape):
            raise ShapeError(f"reshape: shapes {self.shape} and {shape} have different sizes")
        if self.size == 0 or self.is_contiguous:
            return Layout(shape, contiguous_strides(shape), self.offset)
        old = [(length, stride) for length, stride in zip(self.shape, self.strides, strict=True) if length != 1]
        strides: list[int] = []
        for length in reversed(shape):
            if length == 1:
                strides.append(0)
                continue
            inner, stride = old.pop() if old else (1, 0)
            while inner % length:  # merge with the next outer old axis, which must continue this one
                if not old or old[-1][1] != inner * stride:
                    return None
                outer, _ = old.pop()
                inner *= outer
            strides.append(stride)
            if inner > length:
                old.append((inner // length, stride * length))
        return Layout(shape, tuple(reversed(strides)), self.offset)

    def indices(self) -> Iterator[int]:
        """Memory positions of the elements, in C order."""
        steps = [[i * stride for i in range(length)] for length, stride in zip(self.shape, self.strides, strict=True)]
        return (self.offset + sum(place) for place in product(*steps))


def nest(flat: list[Any], shape: Shape) -> Any:
    """A flat list as nested lists."""
    if not shape:
        return flat[0]
    for length in reversed(shape[1:]):
        count = len(flat) // length if length else math.prod(shape[:-1])
        flat = [flat[i * length : (i + 1) * length] for i in range(count)]
        shape = shape[:-1]
    return flat
