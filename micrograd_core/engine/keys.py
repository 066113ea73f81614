"""Keys: what ``x[key]``, ``x[key] = value`` and ``x.at[key].add(value)`` mean in terms of operations.

A basic key (integers, slices, ``...``, ``None``) is one `getitem` or `scatter`. A key that holds arrays of integers or
booleans is planned first: the basic part is a view, the axes that have arrays are brought together and become one, and
`take`, `index_add` and their kin do the rest. The result's axes stand where NumPy puts them: at the first array if the
arrays and integers of the key stand side by side, else in front. Source: NumPy, "Indexing on ndarrays".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from micrograd_core.dtypes import bool_, fits
from micrograd_core.engine.apply import SCALARS, apply, apply_single, converted
from micrograd_core.engine.array import BaseTensor
from micrograd_core.engine.ingest import as_array
from micrograd_core.errors import DTypeError, IndexingError, ShapeError
from micrograd_core.layout import Key, Shape, resolve_key
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

GETITEM, SCATTER, TAKE, WHERE = TABLE["getitem"], TABLE["scatter"], TABLE["take"], TABLE["where"]

UPDATES: Final = {
    "set": ("index_set", None),
    "add": ("index_add", "add"),
    "multiply": ("index_multiply", "multiply"),
    "min": ("index_min", "minimum"),
    "max": ("index_max", "maximum"),
}
"""What each update is where integers name the place, and what it does to elements that are named once."""


def getitem(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: a view for a basic key, fresh memory for one that holds arrays.

    Raises
    ------
    IndexingError
        Out of range, too many indices, a mask of another shape, or what is no index.
    """
    try:
        resolved = resolve_key(key, x._handle.shape)
    except IndexingError:
        if not holds_arrays(key):
            raise
        return Selection.of(x, key).read(x)
    return apply_single(GETITEM, x, {"key": resolved})


def holds_arrays(key: Any) -> bool:
    """Whether a key is more than basic."""
    return any(map(_is_array, key if isinstance(key, tuple) else (key,)))


def _is_array(entry: Any) -> bool:
    if isinstance(entry, (bool, list, tuple)):
        return True
    shape = getattr(entry, "shape", None)
    return shape is not None and (shape != () or "bool" in str(entry.dtype))


def _as_index(entry: Any, x: Tensor) -> Tensor:
    """An entry as a tensor of integers or booleans."""
    empty = isinstance(entry, (list, tuple)) and not entry
    index: Any = (
        entry
        if isinstance(entry, BaseTensor)
        else as_array(x.__class__, entry, dtype="int64" if empty else None, device=x.device)
    )
    if not (index.dtype.is_integer or index.dtype is bool_):
        raise IndexingError(
            f"getitem: an array in a key holds integers or booleans; got {index.dtype} of shape {index.shape}; "
            "convert it with .astype('int64')"
        )
    return index  # type: ignore[no-any-return]


class Selection(NamedTuple):
    """A key that holds arrays, planned for a tensor of some shape."""

    view: Key  # what comes first: the basic part of the key
    order: Shape  # the view's axes, those that have arrays side by side
    shape: Shape  # of the view in that order, the axes that have arrays made one
    axis: int  # which
    indices: Tensor  # what is taken along it

    @classmethod
    def of(cls, x: Tensor, key: Any) -> Selection:
        """The plan, from the entries of the key one after the other."""
        entries = [
            _as_index(entry, x) if _is_array(entry) else entry for entry in (key if isinstance(key, tuple) else (key,))
        ]
        basic: list[Any] = []  # the key of the view
        arrays: list[tuple[int, int, Tensor]] = []  # axis of the view, length, indices
        runs = 0  # how often arrays and integers begin anew after something else
        inside = False
        ndim = 0  # of the view
        for entry, axis in _with_axes(entries, x.shape):
            array = isinstance(entry, BaseTensor) and bool(entry.ndim or entry.dtype is bool_)
            selects = array or not (entry is None or entry is Ellipsis or isinstance(entry, slice))
            runs += selects and not inside
            inside = selects
            if entry is Ellipsis:
                continue
            if not array:
                basic.append(entry)
                ndim += not selects
            elif entry.dtype is bool_:
                if not entry.ndim:
                    basic.append(None)
                for offset, positions in enumerate(_true_positions(entry, x.shape, axis)):
                    if entry.ndim:
                        basic.append(slice(None))
                    arrays.append((ndim + offset, x.shape[axis + offset] if entry.ndim else 1, positions))
                ndim += max(entry.ndim, 1)
            else:
                basic.append(slice(None))
                arrays.append((ndim, x.shape[axis], entry))
                ndim += 1
        return cls._merged(x.shape, resolve_key(tuple(basic), x.shape), arrays, side_by_side=runs == 1)

    @classmethod
    def _merged(
        cls, shape: Shape, view: Key, arrays: list[tuple[int, int, Tensor]], *, side_by_side: bool
    ) -> Selection:
        lengths = _view_shape(shape, view)
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

    def arranged(self, x: Tensor) -> Tensor:
        """The view of `x`, its axes in order, those that have arrays made one."""
        y = apply_single(GETITEM, x, {"key": self.view})
        if self.order != tuple(range(len(self.order))):
            y = apply_single(TABLE["permute_dims"], y, {"axes": self.order})
        return _reshaped(y, self.shape)

    def read(self, x: Tensor) -> Tensor:
        """``x[key]``."""
        return apply(TAKE, (self.arranged(x), self.indices), {"axis": self.axis})

    def updated(self, x: Tensor, op: str, value: Any) -> Tensor:
        """A fresh tensor, `x` but for what the key names."""
        y, record = self.arranged(x), TABLE[op]
        operands = y, self.indices, value
        y = apply(record, operands, record.parameters(*operands, axis=self.axis))  # type: ignore[misc]
        lengths = _view_shape(x.shape, self.view)
        y = _reshaped(y, tuple(lengths[axis] for axis in self.order))
        if self.order != tuple(range(len(self.order))):
            back = tuple(sorted(range(len(self.order)), key=self.order.__getitem__))
            y = apply_single(TABLE["permute_dims"], y, {"axes": back})
        return y if y.shape == x.shape and _is_whole(self.view) else apply(SCATTER, (x, y), {"key": self.view})


def _with_axes(entries: list[Any], shape: Shape) -> list[tuple[Any, int]]:
    """Each entry with the axis of the tensor at which it stands; the ellipsis is kept, and followed by whole slices."""
    spans = [_span(entry) for entry in entries]
    missing = len(shape) - sum(spans)
    if missing < 0:
        raise IndexingError(f"getitem: {sum(spans)} indices for shape {shape}, which has {len(shape)} axes")
    ellipses = sum(entry is Ellipsis for entry in entries)
    if ellipses > 1:
        raise IndexingError("getitem: a key may hold one ellipsis (...)")
    found: list[tuple[Any, int]] = []
    axis = 0
    for entry, span in zip([*entries, *([] if ellipses else [Ellipsis])], [*spans, 0], strict=False):
        found.append((entry, axis))
        axis += span
        if entry is Ellipsis:
            found += [(slice(None), axis + i) for i in range(missing)]
            axis += missing
    return found


def _span(entry: Any) -> int:
    """How many axes of the tensor an entry is for."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, BaseTensor) and entry.dtype is bool_ else 1


def _true_positions(mask: Tensor, shape: Shape, axis: int) -> list[Tensor]:
    """Where a mask that stands at `axis` is true: indices along each of its axes (along a new one, if it is 0-d)."""
    lengths = shape[axis : axis + mask.ndim]
    if len(lengths) < mask.ndim or any(own not in (0, n) for own, n in zip(mask.shape, lengths, strict=True)):
        raise IndexingError(
            f"getitem: a boolean index of shape {mask.shape} does not fit the axes from {axis} on of shape {shape}; "
            "the lengths must be equal, or 0"
        )
    found = apply_single(TABLE["argwhere"], mask if mask.ndim else _reshaped(mask, (1,)))
    return [getitem(found, (slice(None), each)) for each in range(max(mask.ndim, 1))]


def _view_shape(shape: Shape, key: Key) -> Shape:
    lengths = iter(shape)
    kept: list[int] = []
    for entry in key:
        if entry is None:
            kept.append(1)
            continue
        length = next(lengths)
        if isinstance(entry, slice):
            kept.append(len(range(*entry.indices(length))))
    return tuple(kept)


def _reshaped(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else apply_single(TABLE["reshape"], x, {"shape": shape})


def _is_whole(key: Key) -> bool:
    return all(isinstance(entry, slice) and entry.start == 0 and entry.step == 1 for entry in key)


def fitting(x: Tensor, value: Any) -> Any:
    """What is written into `x`: a number, or a tensor of its dtype.

    Raises
    ------
    DTypeError
        Where the value's kind of number does not fit the tensor's.
    """
    if not isinstance(value, (BaseTensor, *SCALARS)):
        value = as_array(x.__class__, value, device=x.device)
    if value.__class__ is x.__class__ and value.dtype is not x.dtype:
        if not fits(value.dtype, x.dtype):
            raise DTypeError(
                f"a {value.dtype} value does not fit into a {x.dtype} tensor; convert it with .astype({str(x.dtype)!r})"
            )
        return converted(value, x.dtype)
    return value


def updated(x: Tensor, key: Any, value: Any, update: str = "set") -> Tensor:
    """A fresh tensor, `x` but for the elements that `key` names, on which `update` is done with `value`."""
    value = fitting(x, value)
    indexed, elementwise = UPDATES[update]
    if holds_arrays(key):
        mask = _as_index(key, x) if not isinstance(key, tuple) else None
        if mask is not None and mask.dtype is bool_ and mask.shape == x.shape[: mask.ndim]:
            room = x.ndim - mask.ndim
            if getattr(value, "ndim", 0) <= room:  # the same for all: how many are true does not matter
                changed = value if elementwise is None else apply(TABLE[elementwise], (x, value))
                return apply(WHERE, (_reshaped(mask, (*mask.shape, *(1,) * room)), changed, x))
        return Selection.of(x, key).updated(x, indexed, value)
    params = {"key": resolve_key(key, x.shape)}
    if elementwise is not None:
        value = apply(TABLE[elementwise], (apply_single(GETITEM, x, params), value))
    return apply(SCATTER, (x, value), SCATTER.parameters(x, value, **params))  # type: ignore[misc]


class At:
    """``x.at``: ``x.at[key]`` names elements, whose update gives a new tensor and leaves `x` alone.

    The manner is JAX's. A key is any that indexing takes. Elements that are named several times are updated several
    times; of the values to `set` the last one counts.
    """

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Place:
        return Place(self._x, key)


class Place:
    """Elements of a tensor that a key names. Each method gives a new tensor, through which gradients flow."""

    __slots__ = ("_key", "_x")

    def __init__(self, x: Tensor, key: Any) -> None:
        self._x, self._key = x, key

    def get(self) -> Tensor:
        """``x[key]``."""
        return getitem(self._x, self._key)

    def set(self, value: Any) -> Tensor:
        """The elements replaced by `value`, which broadcasts."""
        return updated(self._x, self._key, value)

    def add(self, value: Any) -> Tensor:
        """`value` added to the elements."""
        return updated(self._x, self._key, value, "add")

    def multiply(self, value: Any) -> Tensor:
        """The elements multiplied by `value`."""
        return updated(self._x, self._key, value, "multiply")

    def min(self, value: Any) -> Tensor:
        """The lesser of the elements and `value`."""
        return updated(self._x, self._key, value, "min")

    def max(self, value: Any) -> Tensor:
        """The greater of the elements and `value`."""
        return updated(self._x, self._key, value, "max")
