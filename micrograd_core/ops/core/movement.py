"""Shape, order, selection and type: operations that move elements and compute nothing.

Most return views. Kernels receive full shapes (no ``-1``), non-negative axes, and resolved keys (`layout.resolve_key`).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import DType, dtype as as_dtype, float32, int64
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.layout import Layout, as_shape, resolve_axes, resolve_axis, resolve_key, resolve_reshape
from micrograd_core.ops.batching import broadcast, joined, permuted, reshaped, scattered, selected
from micrograd_core.ops.record import ANY, BOOLEAN, INTEGER, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import axes_of, by_position, cut, elementwise, span, whole
from micrograd_core.ops.tangents import linear

# ── parameters as the user writes them → as kernels receive them ─────────────────────────────────────────────


def _reshape_parameters(x: Any, /, shape: int | tuple[int, ...]) -> dict[str, Any]:
    """The same elements, in C order, in another shape; one length may be -1. A view where strides allow it."""
    return {"shape": resolve_reshape(x.shape, shape)}


def _permute_parameters(x: Any, /, axes: tuple[int, ...]) -> dict[str, Any]:
    """Axes in another order. A view."""
    resolved = resolve_axes("permute_dims", tuple(axes), len(x.shape)) or ()
    if len(resolved) != len(x.shape):
        raise ShapeError(
            f"permute_dims: axes {tuple(axes)} must name each of the {len(x.shape)} axes of shape {x.shape} once"
        )
    return {"axes": resolved}


def _broadcast_parameters(x: Any, /, shape: int | tuple[int, ...]) -> dict[str, Any]:
    wanted = as_shape("broadcast_to", shape)
    Layout.contiguous(x.shape).broadcast_to(wanted)
    return {"shape": wanted}


def _expand_parameters(x: Any, /, axis: int | tuple[int, ...] = 0) -> dict[str, Any]:
    """Axes of length 1 inserted at `axis`. A view."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return {"axis": resolve_axes("expand_dims", axes, len(x.shape) + len(axes))}


def _squeeze_parameters(x: Any, /, axis: int | tuple[int, ...] | None = None) -> dict[str, Any]:
    """Without the axes `axis` of length 1. A view."""
    if axis is None:
        axis = tuple(each for each, length in enumerate(x.shape) if length == 1)
    axes = resolve_axes("squeeze", axis, len(x.shape)) or ()
    if any(x.shape[each] != 1 for each in axes):
        raise ShapeError(f"squeeze: shape {x.shape} is not 1 along {axis}; only axes of length 1 can be dropped")
    return {"axis": axes}


def _flip_parameters(x: Any, /, axis: int | tuple[int, ...] | None = None) -> dict[str, Any]:
    """Elements in reverse order along `axis` (default: all axes). A view."""
    return {"axis": axes_of("flip", x, axis)}


def _concat_parameters(*xs: Any, axis: int | None = 0) -> dict[str, Any]:
    """Tensors joined along the existing `axis`; flattened and joined for ``None``."""
    if not xs:
        raise ShapeError("concat: at least one tensor is needed")
    if axis is None:
        return {"axis": None}
    first = xs[0].shape
    at = resolve_axis("concat", axis, len(first))
    for x in xs:
        if len(x.shape) != len(first) or x.shape[:at] + x.shape[at + 1 :] != first[:at] + first[at + 1 :]:
            shapes = ", ".join(str(each.shape) for each in xs)
            raise ShapeError(f"concat: shapes {shapes} may differ only along axis {at}")
    return {"axis": at}


def _stack_parameters(*xs: Any, axis: int = 0) -> dict[str, Any]:
    """Tensors of equal shape joined along a new `axis`."""
    if not xs:
        raise ShapeError("stack: at least one tensor is needed")
    if len({tuple(x.shape) for x in xs}) > 1:
        raise ShapeError(f"stack: shapes {', '.join(str(x.shape) for x in xs)} must be equal")
    return {"axis": resolve_axis("stack", axis, len(xs[0].shape) + 1)}


def _key_parameters(x: Any, /, key: Any) -> dict[str, Any]:
    """Basic indexing, ``x[key]``, with integers, slices, ``...`` and ``None``. A view."""
    return {"key": resolve_key(key, x.shape)}


def _scatter_parameters(x: Any, values: Any, /, *, key: Any) -> dict[str, Any]:
    """A fresh copy of ``x1`` in which ``x1[key]`` is replaced by ``x2`` (broadcast to fit): functional assignment."""
    resolved = resolve_key(key, x.shape)
    place = Layout.contiguous(x.shape).index(resolved).shape
    shape = getattr(values, "shape", ())
    if len(shape) > len(place) or any(n not in (1, m) for n, m in zip(shape[::-1], place[::-1], strict=False)):
        raise ShapeError(f"scatter: values of shape {shape} do not fit into shape {place} selected by the key")
    return {"key": resolved}


def _astype_parameters(x: Any, /, dtype: Any) -> dict[str, Any]:
    """Elements converted to `dtype`."""
    wanted = as_dtype(dtype)
    if getattr(x.dtype, "is_complex", False) and not (wanted.is_complex or wanted.kind == "bool"):
        raise DTypeError(
            f"astype: a {x.dtype} tensor does not become {wanted} without losing its imaginary part; say which part "
            "you want, real(x), imag(x) or abs(x)"
        )
    return {"dtype": wanted}


def _one_hot_parameters(x: Any, /, num_classes: int, *, dtype: Any = float32) -> dict[str, Any]:
    """1 where the class along a new last axis equals the index, else 0."""
    if (num_classes := whole("one_hot", "num_classes", num_classes)) < 1:
        raise ShapeError(f"one_hot: num_classes must be at least 1; got {num_classes}")
    return {"num_classes": num_classes, "dtype": as_dtype(dtype)}


def requested(dtype: DType, params: dict[str, Any]) -> DType:
    """The result has the dtype that was asked for."""
    asked: DType = params["dtype"]
    return asked


# ── rules and compositions ───────────────────────────────────────────────────────────────────────────────────


def permute_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axes: tuple[int, ...]) -> Handle:
    """The inverse permutation."""
    return k.permute_dims(g, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def _as_operand(k: Table, g: Handle, out: Handle, x: Handle, **params: Any) -> Handle:
    return k.reshape(g, shape=x.shape)


def _expand_dims(k: Table, x: Handle, *, axis: tuple[int, ...]) -> Handle:
    lengths = iter(x.shape)
    ndim = len(x.shape) + len(axis)
    return k.reshape(x, shape=tuple(1 if each in axis else next(lengths) for each in range(ndim)))


def _flip(k: Table, x: Handle, *, axis: tuple[int, ...]) -> Handle:
    key = tuple(slice(None, None, -1) if each in axis else slice(None) for each in range(len(x.shape)))
    return k.getitem(x, key=resolve_key(key, x.shape))


def _astype_rule(k: Table, g: Handle, out: Handle, x: Handle, *, dtype: Any) -> Handle:
    """Back to the operand's dtype. A real number that became complex moves along the real axis only."""
    if dtype.is_complex and not k.dtype(x).is_complex:
        g = k.real(g)
    return k.astype(g, dtype=x.dtype)


def _concat(k: Table, *xs: Handle, axis: int | None) -> Handle:
    if axis is None:
        xs, axis = tuple(k.reshape(x, shape=(math.prod(x.shape),)) for x in xs), 0
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    result = k.full(shape=tuple(shape), fill_value=False if k.dtype(xs[0]).kind == "bool" else 0, dtype=xs[0].dtype)
    start = 0
    for x in xs:
        stop = start + x.shape[axis]
        result = k.scatter(result, x, key=span(tuple(shape), axis, start, stop))
        start = stop
    return result


def _concat_rule(position: int, k: Table, g: Handle, out: Handle, *xs: Handle, axis: int | None) -> Handle:
    """Each operand takes its own piece of the cotangent."""
    lengths = [math.prod(x.shape) if axis is None else x.shape[axis] for x in xs]
    start = sum(lengths[:position])
    piece = cut(k, g, axis or 0, start, start + lengths[position])
    return piece if axis is not None else k.reshape(piece, shape=xs[position].shape)


def _one_hot(k: Table, x: Handle, *, num_classes: int, dtype: Any) -> Handle:
    classes = k.arange(num_classes, dtype=int64)
    indices = k.expand_dims(k.astype(x, dtype=int64), axis=(len(x.shape),))  # int8 cannot count to 200
    return k.astype(k.equal(indices, classes), dtype=dtype)


_BACKWARDS = slice(None, None, -1)
_MOVE = partial(Op, accepts=ANY, tangent=linear)
_MADE = partial(Op, operands=0, kind="source", result=requested, gradient="it has no operands", standard=True)
_VIEW = partial(_MOVE, gradient_aliases=True, view=True)
_BROADCAST = partial(
    _VIEW,
    shape=lambda x, *, shape: shape,
    batching=broadcast,
    parameters=_broadcast_parameters,
    gradient=(lambda k, g, out, x, *, shape: g,),
)

OPS = (
    _VIEW(
        "reshape",
        shape=lambda x, *, shape: shape,
        batching=reshaped,
        standard=True,
        parameters=_reshape_parameters,
        gradient=(_as_operand,),
        samples=(Sample((2, 6), shape=(2, -1, 3)), Sample((1,), shape=()), Sample((0, 3), shape=(3, 0))),
    ),
    _VIEW(
        "permute_dims",
        shape=lambda x, *, axes: tuple(x.shape[axis] for axis in axes),
        batching=permuted,
        standard=True,
        parameters=_permute_parameters,
        gradient=(permute_rule,),
        samples=(Sample((2, 3), axes=(1, 0)), Sample((2, 3, 4), axes=(2, 0, -2)), Sample((), axes=())),
    ),
    _BROADCAST(
        "broadcast_to",
        "Axes of length 1, or missing on the left, repeated to `shape`. A view.",
        standard=True,
        samples=(Sample((3, 1), shape=(2, 3, 4)), Sample((), shape=(2,)), Sample((1, 2), shape=(0, 2))),
    ),
    _BROADCAST(
        "spread",
        "As `broadcast_to`, but a view or fresh memory, whichever the device finds faster: the gradient of a sum.",
        compose=lambda k, x, *, shape: k.broadcast_to(x, shape=shape),
        samples=(Sample((3, 1), shape=(2, 3, 4)), Sample((), shape=(2,))),
    ),
    _VIEW(
        "expand_dims",
        parameters=_expand_parameters,
        gradient=(_as_operand,),
        compose=_expand_dims,
        samples=(Sample((2, 3), axis=1), Sample((2,), axis=(0, -1))),
    ),
    _VIEW(
        "squeeze",
        standard=True,
        parameters=_squeeze_parameters,
        gradient=(_as_operand,),
        compose=lambda k, x, *, axis: k.reshape(x, shape=tuple(n for i, n in enumerate(x.shape) if i not in axis)),
        samples=(Sample((2, 1, 3), axis=1), Sample((1, 2, 1), axis=(0, 2))),
    ),
    _VIEW(
        "flip",
        standard=True,
        parameters=_flip_parameters,
        gradient=(lambda k, g, out, x, *, axis: k.flip(g, axis=axis),),
        compose=_flip,
        samples=(Sample((2, 3)), Sample((2, 3), axis=1), Sample((0, 3), axis=0)),
    ),
    _MOVE(
        "getitem",
        shape=lambda x, *, key: Layout.contiguous(x.shape).index(key).shape,
        batching=selected,
        parameters=_key_parameters,
        gradient=(lambda k, g, out, x, *, key: k.getitem_gradient(g, shape=x.shape, key=key),),
        view=True,
        samples=(
            Sample((3, 4), key=1),
            Sample((3, 4), key=(slice(None), slice(1, None, 2))),
            Sample((3, 4), key=(_BACKWARDS, None, -1)),
            Sample((3, 4), key=(..., slice(2, 0, -1))),
            Sample((3, 4), key=slice(2, 2)),
            Sample((), key=()),
        ),
        reference=lambda np, x, key: x[key],
    ),
    _MOVE(
        "scatter",
        shape=lambda x, values, *, key: x.shape,
        batching=scattered,
        operands=2,
        parameters=_scatter_parameters,
        gradient=(
            lambda k, g, out, x, values, *, key: k.scatter(g, 0, key=key),
            lambda k, g, out, x, values, *, key: k.getitem(g, key=key),
        ),
        gradient_aliases=True,
        samples=(
            Sample((3, 4), (4,), key=1),
            Sample((3, 4), (3, 2), key=(slice(None), slice(None, None, 2))),
            Sample((3, 4), (), key=(_BACKWARDS, 0)),
            Sample((3, 4), 2.5, key=(..., 1)),
        ),
        reference=lambda np, x, values, key: assigned(x, values, key),
    ),
    _MOVE(
        "concat",
        batching=joined,
        operands=-1,
        parameters=_concat_parameters,
        gradient=by_position(lambda i: partial(_concat_rule, i)),
        gradient_aliases=True,
        compose=_concat,
        samples=(
            Sample((2, 3), (1, 3), (0, 3)),
            Sample((2, 1), (2, 2), axis=-1),
            Sample((2, 2), (), (3,), axis=None),
            Sample(Array((2,), dtype="bool"), Array((1,), dtype="bool")),
        ),
        reference=lambda np, *xs, axis=0: np.concatenate(xs, axis=axis),
    ),
    Op(
        "stack",
        accepts=ANY,
        batching=joined,
        operands=-1,
        parameters=_stack_parameters,
        compose=lambda k, *xs, axis: k.concat(*(k.expand_dims(x, axis=(axis,)) for x in xs), axis=axis),
        samples=(Sample((2, 3), (2, 3)), Sample((2,), (2,), axis=-1)),
        reference=lambda np, *xs, axis=0: np.stack(xs, axis=axis),
    ),
    elementwise(
        "where",
        "Elements of ``x1`` where the condition is true, of ``x2`` where it is not.",
        scalar="{1} if {0} else {2}",
        standard=True,
        operands=3,
        accepts=(BOOLEAN, ANY, ANY),
        separate=(0,),
        tangent=linear,
        gradient=(
            None,
            lambda k, g, out, c, x, y: k.where(c, g, 0),
            lambda k, g, out, c, x, y: k.where(k.logical_not(c), g, 0),
        ),
        samples=(
            Sample(Array((2, 3), dtype="bool"), (2, 3), (3,)),
            Sample(Array((3,), dtype="bool"), (2, 1), 0.5),
            Sample(Array((3,), dtype="bool"), 0.5, ()),
        ),
    ),
    _MOVE(
        "astype",
        kind="elementwise",
        standard=True,
        parameters=_astype_parameters,
        result=requested,
        gradient=(_astype_rule,),
        gradient_aliases=True,
        samples=(
            Sample((2, 3), dtype="float64"),
            Sample(Array((3,), 0, 9, "int32"), dtype="float32"),
            Sample((3,), dtype="bool"),
        ),
        reference=lambda np, x, dtype: x.astype(str(dtype)),
    ),
    _MOVE(
        "copy",
        "A fresh, contiguous copy.",
        kind="elementwise",
        gradient=(lambda k, g, out, x: g,),
        gradient_aliases=True,
        compose=lambda k, x: k.bitwise_or(x, x) if k.dtype(x).kind == "bool" else k.multiply(x, 1),
        samples=(Sample((2, 3)), Sample(Array((3,), dtype="bool"))),
    ),
    Op(
        "one_hot",
        parameters=_one_hot_parameters,
        accepts=INTEGER,
        result=requested,
        gradient="indices are not differentiable",
        compose=_one_hot,
        samples=(Sample(Array((2, 3), 0, 4, "int64"), num_classes=4),),
    ),
    _MADE(
        "full",
        "A tensor of one value.",
        compose=lambda k, *, shape, fill_value, dtype: k.copy(
            k.broadcast_to(k.constant((fill_value,), (), dtype), shape=shape)
        ),
    ),
    _MADE(
        "arange",
        "The integers ``0 .. stop - 1``.",
        shape=lambda stop, **_: (stop,),
        compose=lambda k, stop, *, dtype=int64: k.constant(range(stop), (stop,), dtype),
    ),
)


def assigned(x: Any, values: Any, key: Any) -> Any:
    """A NumPy array of which a key selects other values."""
    result = x.copy()
    result[key] = values
    return result


def unbroadcast(k: Table, g: Handle, shape: tuple[int, ...]) -> Handle:
    """Sum `g` over the axes along which an operand of `shape` was broadcast to reach it."""
    new = len(g.shape) - len(shape)
    axes = (*range(new), *(axis + new for axis, length in enumerate(shape) if length == 1 != g.shape[axis + new]))
    g = k.sum(g, axis=axes, keepdims=False)
    return g if g.shape == shape else k.reshape(g, shape=shape)
