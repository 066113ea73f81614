"""Selection by integers: `take` and what undoes it, along one axis or position by position; and where to select.

All indexing by arrays comes down to these (`engine.keys` turns keys into axes and integers). Indices count
from the end where they are negative. `take` and `index_add`, `take_along_axis` and `add_along_axis` are each other's
gradients: a slice that is taken twice gets both cotangents.

A device without kernels for them compares every index with every position, in O(indices × length) memory. An index out
of range raises ``IndexError`` on devices that can tell at once; elsewhere it selects NaN (0 among integers), and adds
to nothing.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import bool_, int64, pack, uint64, unpack
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes, contiguous_strides, resolve_axis
from micrograd_core.ops.record import ANY, INTEGER, NUMERIC, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, calls, locating, to_int64, whole
from micrograd_core.ops.tangents import linear, zero

# ── parameters as the user writes them → as kernels receive them ─────────────────────────────────────────────


def taken_shape(shape: Shape, indices: Any, axis: int) -> Shape:
    """The shape of what is taken: the axis gives way to the axes of the indices."""
    return (*shape[:axis], *indices.shape, *shape[axis + 1 :])


def _take_parameters(x: Any, indices: Any, /, axis: int | None = None) -> dict[str, Any]:
    """The slices of `x` along `axis` that integers name; `indices` may have any shape, which replaces the axis.

    The axis may be left out if it is the only one.
    """
    if axis is None and len(x.shape) != 1:
        raise ShapeError(
            f"take: an axis is needed for shape {tuple(x.shape)}; to take from all elements, flatten it: x.reshape(-1)"
        )
    return {"axis": resolve_axis("take", axis or 0, len(x.shape))}


def _check_along(name: str, x: Any, indices: Any, values: Any = 0, *, axis: int) -> None:
    shape, places = tuple(x.shape), tuple(indices.shape)
    axis = resolve_axis(name, axis, len(shape))
    if len(places) != len(shape):
        raise ShapeError(
            f"{name}: indices of shape {places} need as many axes as the tensor of shape {shape}; "
            "broadcast them, or use take"
        )
    place = _along_shape(name, shape, places, axis)
    if getattr(values, "shape", ()) and broadcast_shapes(name, place, tuple(values.shape)) != place:
        raise ShapeError(f"{name}: values of shape {tuple(values.shape)} do not fit shape {place}")


def _along_shape(name: str, shape: Shape, places: Shape, axis: int) -> Shape:
    """The shape of the elements selected: axes other than `axis` broadcast."""
    rest = broadcast_shapes(name, *((*each[:axis], 1, *each[axis + 1 :]) for each in (shape, places)))
    return (*rest[:axis], places[axis], *rest[axis + 1 :])


def _added_along(np: Any, x: Any, indices: Any, values: Any, axis: int = -1) -> Any:
    result = np.array(x)
    for lane in np.ndindex(indices.shape):
        at = list(lane)
        at[axis] = indices[lane]
        result[tuple(at)] += np.broadcast_to(values, indices.shape)[lane]
    return result


def _linear_parameters(*indices: Any, shape: Shape) -> dict[str, Any]:
    """Positions in the flattened tensor of `shape`, from one tensor of indices per axis, which broadcast."""
    return {"shape": tuple(whole("linear_index", "a length", n) for n in shape)}


def _last_parameters(indices: Any, /, *, length: int) -> dict[str, Any]:
    """For each position of an axis of `length`, where in the flattened indices it is named last; -1 if nowhere."""
    return {"length": whole("last_position", "length", length)}


# ── compositions ─────────────────────────────────────────────────────────────────────────────────────────────


def _from_start(k: Table, indices: Handle, length: int) -> Handle:
    """As int64, those counted from the end counted from the start."""
    if k.dtype(indices) is not int64:
        indices = k.astype(indices, dtype=int64)
    return k.where(k.less(indices, 0), k.add(indices, length), indices)


def _names(k: Table, indices: Handle, length: int, axis: int) -> Handle:
    """True where an index names a position: the positions along a new axis behind `axis`."""
    shape = tuple(indices.shape)
    indices = k.reshape(indices, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    places = k.reshape(k.arange(length, dtype=int64), shape=(length,) + (1,) * (len(shape) - axis - 1))
    return k.equal(_from_start(k, indices, length), places)


def total(k: Table, named: Handle, x: Handle, axis: int) -> Handle:
    """The sum over `axis` of the elements that are named; integers are summed in 64 bits and cut back."""
    dtype = k.dtype(x)
    wide = dtype if dtype.is_floating else uint64 if dtype is uint64 else int64
    if wide is dtype:
        return k.sum(k.where(named, x, 0), axis=(axis,), keepdims=False)
    return k.astype(k.sum(k.where(named, k.astype(x, dtype=wide), 0), axis=(axis,), keepdims=False), dtype=dtype)


def _pick(k: Table, named: Handle, x: Handle, axis: int) -> Handle:
    """The one element along `axis` that is named; NaN where none is."""
    picked = total(k, named, x, axis)
    if not k.dtype(x).is_floating:
        return picked
    aligned = axis + len(named.shape) - len(x.shape)  # axes broadcast from the right
    return k.where(k.any(named, axis=(aligned,), keepdims=False), picked, math.nan)


def rows(k: Table, indices: Handle, length: int, after: int) -> Handle:
    """`_names` of flattened indices, with `after` axes of length 1 at the end."""
    count = math.prod(indices.shape)
    named = _names(k, k.reshape(indices, shape=(count,)), length, 0)
    return k.reshape(named, shape=(count, length) + (1,) * after)


def _take(k: Table, x: Handle, indices: Handle, *, axis: int) -> Handle:
    before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    named = rows(k, indices, length, len(after))
    picked = _pick(k, named, k.reshape(x, shape=(*before, 1, length, *after)), axis + 1)
    return k.reshape(picked, shape=taken_shape(x.shape, indices, axis))


def _take_along_axis(k: Table, x: Handle, indices: Handle, *, axis: int = -1) -> Handle:
    named = _names(k, indices, x.shape[axis], axis)
    return _pick(k, named, k.expand_dims(x, axis=(axis,)), axis + 1)


def _add_along_axis(k: Table, x: Handle, indices: Handle, values: Handle, *, axis: int = -1) -> Handle:
    """A fresh copy of `x`, to whose elements that integers name along `axis`, lane by lane, values are added."""
    values = as_tensor(k, values, x, _along_shape("", x.shape, indices.shape, axis))
    named = _names(k, indices, x.shape[axis], axis)
    return k.add(x, total(k, named, k.expand_dims(values, axis=(axis + 1,)), axis))


def as_tensor(k: Table, values: Operand, like: Operand, shape: Shape) -> Handle:
    """Values that may be a number, or have fewer elements, in `shape`."""
    values, _ = arrays(k, values, like)
    return k.broadcast_to(values, shape=shape)


def _last_position(k: Table, indices: Handle, *, length: int) -> Handle:
    count = math.prod(indices.shape)
    if not count:
        return k.full(shape=(length,), fill_value=-1, dtype=int64)
    places = k.reshape(k.arange(count, dtype=int64), shape=(count, 1))
    return k.max(k.where(rows(k, indices, length, 0), places, -1), axis=(0,), keepdims=False)


def _linear_index(k: Table, *indices: Handle, shape: Shape) -> Handle:
    """Out of range along any axis is out of range: the size, which names no element."""
    linear: Any = None
    outside: Any = None
    for each, length in zip(indices, shape, strict=True):
        each = _from_start(k, each, length)
        bad = k.logical_or(k.less(each, 0), k.less(length - 1, each))
        linear = each if linear is None else k.add(k.multiply(linear, length), each)
        outside = bad if outside is None else k.logical_or(outside, bad)
    return k.where(outside, math.prod(shape), linear)


def _argwhere(k: Table, x: Handle) -> Handle:
    """The truth values are read: how many are true is the shape of the result. Nothing else leaves the device."""
    truth = x if k.dtype(x) is bool_ else k.not_equal(x, 0)
    shape = tuple(x.shape)
    strides = contiguous_strides(shape)
    found = [i for i, true in enumerate(unpack(k.to_host(truth), bool_)) if true]
    places = [i // stride % length for i in found for stride, length in zip(strides, shape, strict=True)]
    return k.upload(pack(places, int64), (len(found), len(shape)), int64)


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────


def _take_along_rule(k: Table, g: Handle, out: Handle, x: Handle, indices: Handle, *, axis: int) -> Handle:
    shape = (*out.shape[:axis], x.shape[axis], *out.shape[axis + 1 :])
    return k.add_along_axis(k.full(shape=shape, fill_value=0, dtype=x.dtype), indices, g, axis=axis)


# ── samples ──────────────────────────────────────────────────────────────────────────────────────────────────

_THREE = Array((3,), -3, 3, "int64")


_selection = partial(Op, accepts=(ANY, INTEGER), separate=(1,), tangent=linear)

OPS = calls(
    _selection(
        "take",
        parameters=_take_parameters,
        gradient=(lambda k, g, out, x, indices, *, axis: k.index_add(zero(k, x), indices, g, axis=axis), None),
        compose=_take,
        samples=(
            Sample((3,), Array((5,), -3, 3, "int64")),
            Sample((2, 3, 2), _THREE, axis=1),
            Sample((3, 2), Array((2, 2), -3, 3, "int32"), axis=0),
            Sample((2, 3), Array((), 0, 3, "uint8"), axis=-1),
            Sample((2, 3), Array((0,), 0, 3, "int64"), axis=1),
        ),
    ),
    _selection(
        "take_along_axis",
        "Along `axis`, the elements that integers name, lane by lane; the other axes broadcast.",
        refuses=_check_along,
        gradient=(_take_along_rule, None),
        compose=_take_along_axis,
        samples=(
            Sample((2, 3), Array((2, 4), -3, 3, "int64")),
            Sample((3, 2), Array((2, 2), 0, 3, "int64"), axis=0),
            Sample((2, 3), Array((1, 2), 0, 3, "int64"), axis=1),
            Sample((2, 3), Array((2, 0), 0, 3, "int64"), axis=1),
        ),
    ),
    Op(
        "add_along_axis",
        refuses=_check_along,
        accepts=(NUMERIC, INTEGER, NUMERIC),
        separate=(1,),
        tangent=linear,
        gradient=(
            lambda k, g, out, x, indices, values, *, axis: g,
            None,
            lambda k, g, out, x, indices, values, *, axis: k.take_along_axis(g, indices, axis=axis),
        ),
        gradient_aliases=True,
        compose=_add_along_axis,
        reference=_added_along,
        samples=(
            Sample((2, 3), Array((2, 4), -3, 3, "int64"), (2, 4)),
            Sample((3, 2), Array((2, 2), 0, 3, "int64"), (2, 2), axis=0),
            Sample((2, 3), Array((2, 0), 0, 3, "int64"), (2, 0), axis=1),
        ),
    ),
    locating(
        "last_position",
        parameters=_last_parameters,
        accepts=INTEGER,
        compose=_last_position,
        samples=(Sample(Array((2, 3), -4, 4, "int64"), length=4), Sample(Array((0,), 0, 4, "int64"), length=4)),
    ),
    Op(
        "linear_index",
        operands=-1,
        parameters=_linear_parameters,
        accepts=INTEGER,
        result=to_int64,
        check=lambda name, *shapes, shape: broadcast_shapes(name, *shapes),
        gradient="indices are not differentiable",
        compose=_linear_index,
        samples=(
            Sample(Array((2, 3), -4, 4, "int64"), Array((3,), -2, 2, "int64"), shape=(4, 2)),
            Sample(Array((3,), 0, 4, "int32"), shape=(4,)),
        ),
    ),
    locating(
        "argwhere",
        "The indices of the elements that are not 0, one row each, in C order. The number of rows depends on the "
        "elements: a device without a kernel of that name sends the truth values, and nothing else, to the host.",
        shape=lambda x: None,
        accepts=ANY,
        compose=_argwhere,
        samples=(
            Sample(Array((3, 4), dtype="bool")),
            Sample(Array((3, 4), -1, 2, "int64")),
            Sample((0, 4)),
            Sample(()),
        ),
    ),
)
