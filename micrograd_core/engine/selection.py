"""Keys that hold arrays of integers or booleans, planned for a tensor.

The basic part is a view, the axes that have arrays are brought together and become one, and `take`, `index_add` and
their kin do the rest. The result's axes stand where NumPy puts them: at the first array if the arrays and integers of
the key stand side by side, else in front. Source: NumPy, "Indexing on ndarrays".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from micrograd_core.dtypes import bool_
from micrograd_core.engine.apply import apply, apply_single
from micrograd_core.engine.array import BaseTensor, T
from micrograd_core.engine.ingest import as_array
from micrograd_core.errors import IndexingError, ShapeError
from micrograd_core.layout import Key, Layout, Shape, is_array, key_entries, resolve_key, with_axes
from micrograd_core.ops import TABLE

GETITEM, SCATTER, WHERE = TABLE["getitem"], TABLE["scatter"], TABLE["where"]


def _as_index(entry: Any, x: BaseTensor) -> Any:
    """An entry as a tensor of integers or booleans."""
    empty = isinstance(entry, (list, tuple)) and not entry
    if not isinstance(entry, BaseTensor):
        entry = as_array(x.__class__, entry, dtype="int64" if empty else None, device=x.device)
    if not (entry.dtype.is_integer or entry.dtype is bool_):
        raise IndexingError(
            f"getitem: an array in a key holds integers or booleans; got {entry.dtype} of shape {entry.shape}; "
            "convert it with .astype('int64')"
        )
    return entry


class Selection(NamedTuple):
    """A key that holds arrays, planned for a tensor of some shape."""

    view: Key  # what comes first: the basic part of the key
    order: Shape  # the view's axes, those that have arrays side by side
    shape: Shape  # of the view in that order, the axes that have arrays made one
    axis: int  # which
    indices: Any  # what is taken along it

    @classmethod
    def of(cls, x: BaseTensor, key: Any) -> Selection:
        """The plan, from the entries of the key one after the other."""
        entries = [_as_index(each, x) if is_array(each) else each for each in key_entries(key)]
        basic: list[Any] = []  # the key of the view
        arrays: list[tuple[int, int, Any]] = []  # axis of the view, length, indices
        runs = 0  # how often arrays and integers begin anew after something else
        inside = False
        ndim = 0  # of the view
        for entry, axis in with_axes(entries, list(map(_span, entries)), x.shape):
            found = _positions(entry, x.shape, axis)
            selects = bool(found) or not (entry is None or entry is Ellipsis or isinstance(entry, slice))
            runs += selects and not inside
            inside = selects
            if found:
                basic += [None if _is_truth(entry) and not entry.ndim else slice(None)] * len(found)
                arrays += [(ndim + i, length, positions) for i, (length, positions) in enumerate(found)]
                ndim += len(found)
            elif entry is not Ellipsis:
                basic.append(entry)
                ndim += not selects
        return cls._merged(x.shape, resolve_key(tuple(basic), x.shape), arrays, side_by_side=runs == 1)

    @classmethod
    def _merged(cls, shape: Shape, view: Key, arrays: list[tuple[int, int, Any]], *, side_by_side: bool) -> Selection:
        lengths = Layout.contiguous(shape).index(view).shape
        indexed = [axis for axis, _, _ in arrays]
        others = [axis for axis in range(len(lengths)) if axis not in indexed]
        at = sum(axis < indexed[0] for axis in others) if side_by_side else 0
        order = (*others[:at], *indexed, *others[at:])
        sizes = tuple(length for _, length, _ in arrays)
        merged = (*(lengths[axis] for axis in others[:at]), math.prod(sizes), *(lengths[axis] for axis in others[at:]))
        indices = tuple(each for _, _, each in arrays)
        if len(indices) == 1:
            return cls(view, order, merged, at, indices[0])
        try:
            return cls(view, order, merged, at, apply(TABLE["linear_index"], indices, {"shape": sizes}))
        except ShapeError as error:
            raise IndexingError(f"getitem: the arrays of a key broadcast to one shape: {error}") from None

    def arranged(self, x: T) -> T:
        """The view of `x`, its axes in order, those that have arrays made one."""
        return _reshaped(_permuted(apply_single(GETITEM, x, {"key": self.view}), self.order), self.shape)

    def read(self, x: T) -> T:
        """``x[key]``."""
        return apply(TABLE["take"], (self.arranged(x), self.indices), {"axis": self.axis})

    def updated(self, x: T, op: str, value: Any) -> T:
        """A fresh tensor, `x` but for what the key names."""
        y, record = self.arranged(x), TABLE[op]
        operands = y, self.indices, value
        y = apply(record, operands, record.parameters(*operands, axis=self.axis))
        lengths = Layout.contiguous(x.shape).index(self.view).shape
        back = tuple(sorted(range(len(self.order)), key=self.order.__getitem__))
        y = _permuted(_reshaped(y, tuple(lengths[axis] for axis in self.order)), back)
        return y if y.shape == x.shape and _is_whole(self.view) else apply(SCATTER, (x, y), {"key": self.view})


def _span(entry: Any) -> int:
    """How many axes of the tensor an entry is for."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if _is_truth(entry) else 1


def _is_truth(entry: Any) -> bool:
    """Whether an entry is a mask, or one truth value."""
    return isinstance(entry, BaseTensor) and entry.dtype is bool_


def _positions(entry: Any, shape: Shape, axis: int) -> list[tuple[int, Any]]:
    """What an array that stands at `axis` takes along each axis that it is for, behind the axis's length.

    A mask takes where it is true; one of no axes stands for a new one of length 1.
    """
    if not _is_truth(entry):
        return [(shape[axis], entry)] if isinstance(entry, BaseTensor) and entry.ndim else []
    lengths = shape[axis : axis + entry.ndim]
    if len(lengths) < entry.ndim or any(own not in (0, n) for own, n in zip(entry.shape, lengths, strict=True)):
        raise IndexingError(
            f"getitem: a boolean index of shape {entry.shape} does not fit the axes from {axis} on of shape {shape}; "
            "the lengths must be equal, or 0"
        )
    found = apply_single(TABLE["argwhere"], entry if entry.ndim else _reshaped(entry, (1,)))
    columns = [resolve_key((slice(None), each), found.shape) for each in range(found.shape[1])]
    taken = [apply_single(GETITEM, found, {"key": key}) for key in columns]
    return list(zip(lengths or (1,), taken, strict=True))


def _permuted(x: T, axes: Shape) -> T:
    return x if axes == tuple(range(len(axes))) else apply_single(TABLE["permute_dims"], x, {"axes": axes})


def _reshaped(x: T, shape: Shape) -> T:
    return x if x.shape == shape else apply_single(TABLE["reshape"], x, {"shape": shape})


def _is_whole(key: Key) -> bool:
    return all(isinstance(entry, slice) and entry.start == 0 and entry.step == 1 for entry in key)


def updated_at(x: T, key: Any, value: Any, indexed: str, elementwise: str | None) -> T:
    """What `keys.updated` gives for such a key, by the operation `indexed`; or for a mask without it."""
    mask = None if isinstance(key, tuple) else _as_index(key, x)
    if mask is not None and mask.dtype is bool_ and mask.shape == x.shape[: mask.ndim]:
        behind = x.ndim - mask.ndim
        if getattr(value, "ndim", 0) <= behind:  # the same for all: how many are true does not matter
            changed = value if elementwise is None else apply(TABLE[elementwise], (x, value))
            return apply(WHERE, (_reshaped(mask, (*mask.shape, *(1,) * behind)), changed, x))
    return Selection.of(x, key).updated(x, indexed, value)
