"""What computes the operators of ONNX here: a table from their names to functions of tensors.

Operators that are not in it, and of which the package onnx knows a definition by others, are computed by that (see
`reader`). What is a shape, an axis or a count is an array of NumPy here: it is known before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial, reduce
from typing import Any, Final, NamedTuple

import numpy as np

import micrograd_core as mg
from micrograd_core import Tensor, nn
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.checkpoints import CheckpointError
from micrograd_models.spellings import SAME

F = nn.functional


class Refused(CheckpointError, NotImplementedError):
    """An ONNX file asks for what is not computed here: the message says by which operator."""


class Call(NamedTuple):
    """What an operator is told beside its operands."""

    kind: str
    attributes: dict[str, Any]
    opset: int
    results: int
    training: bool

    def __getattr__(self, name: str) -> Any:
        return self.attributes.get(name)

    def refuse(self, what: str) -> Refused:
        """The error for a part of an operator that is not computed here."""
        return Refused(f"from_onnx: {self.kind} with {what} is not computed here")


class Operator(NamedTuple):
    """A function of a `Call` and operands."""

    function: Callable[..., Any]
    known: Collection[int] = ()
    """Which operands it takes as arrays of NumPy."""


OPERATORS: Final[dict[str, Operator]] = {}
HOST: Final = frozenset({"BitCast", "MelWeightMatrix", "NonMaxSuppression", "Unique"})
"""Operators without gradients, which the package onnx computes itself; not under `jit`."""


def _operator(*names: str, known: Collection[int] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update(dict.fromkeys(names, Operator(function, known)))
        return function

    return add


def _ints(x: Any) -> list[int]:
    return [int(n) for n in np.reshape(x, -1)]


# ── elementwise ──────────────────────────────────────────────────────────────────────────────────────────────

_UNARY: Final[dict[str, Callable[..., Any]]] = {
    **{theirs: FUNCTIONS[ours] for ours, theirs in SAME.items()},
    "And": mg.logical_and, "Or": mg.logical_or, "Xor": mg.logical_xor, "Not": mg.logical_not,
    "BitwiseAnd": mg.bitwise_and, "BitwiseOr": mg.bitwise_or, "BitwiseXor": mg.bitwise_xor,
    "BitwiseNot": mg.bitwise_invert, "Round": mg.round, "Det": FUNCTIONS["det"], "HardSwish": F.hardswish,
    "Mish": F.mish, "Softsign": F.softsign, "MatMul": mg.matmul,
}  # fmt: skip
for _name, _function in _UNARY.items():
    OPERATORS[_name] = Operator(lambda c, *xs, f=_function: f(*xs))
for _name, _function in {"Max": mg.maximum, "Min": mg.minimum, "Sum": mg.add}.items():
    OPERATORS[_name] = Operator(lambda c, *xs, f=_function: reduce(f, xs))

_WITH: Final[dict[str, Callable[..., Any]]] = {
    "Celu": lambda c, x: F.celu(x, c.alpha),
    "Elu": lambda c, x: F.elu(x, c.alpha),
    "Gelu": lambda c, x: F.gelu(x, approximate=c.approximate),
    "HardSigmoid": lambda c, x: mg.clip(c.alpha * x + c.beta, 0, 1),
    "Identity": lambda c, x: x,
    "LeakyRelu": lambda c, x: F.leaky_relu(x, c.alpha),
    "Mean": lambda c, *xs: reduce(mg.add, xs) / len(xs),
    "Selu": lambda c, x: c.gamma * mg.where(x > 0, x, c.alpha * mg.expm1(mg.minimum(x, 0))),
    "Swish": lambda c, x: x * mg.sigmoid(c.alpha * x),
    "ThresholdedRelu": lambda c, x: mg.where(x > c.alpha, x, 0),
    "Where": lambda c, condition, x, y: mg.where(condition, x, y),
    "CastLike": lambda c, x, other: x.astype(other.dtype),
    "Pow": lambda c, x, y: mg.pow(x, y if x.dtype == y.dtype else y.astype(x.dtype)),
}
OPERATORS.update({name: Operator(function) for name, function in _WITH.items()})

TYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip
"""ONNX's numbers of dtypes that there are here."""


def dtype_of(number: int, where: str) -> str:
    """The dtype of a number."""
    if number not in TYPES:
        import onnx

        name = onnx.TensorProto.DataType.Name(number)
        raise Refused(f"from_onnx: {where} has the dtype {name}, which micrograd does not have; there are "
                      f"{mg.errors.one_of(TYPES.values())}")  # fmt: skip
    return TYPES[number]


@_operator("PRelu")
def _prelu(c: Call, x: Tensor, slope: Tensor) -> Any:
    """Before opset 7 with a slope for each channel."""
    return mg.where(x < 0, (_along(slope, 1, x.ndim) if c.opset < 7 else slope) * x, x)


@_operator("Cast")
def _cast(c: Call, x: Tensor) -> Any:
    return x.astype(dtype_of(c.to, "Cast"))


@_operator("Div")
def _div(c: Call, x: Tensor, y: Tensor) -> Any:
    """Of integers toward zero."""
    if x.dtype.is_floating:
        return x / y
    if x.dtype.kind == "unsigned integer":
        return x // y
    return mg.sign(x) * mg.sign(y) * (mg.abs(x) // mg.abs(y))


@_operator("Mod")
def _mod(c: Call, x: Tensor, y: Tensor) -> Any:
    return mg.fmod(x, y) if c.fmod else mg.remainder(x, y)


@_operator("BitShift")
def _bit_shift(c: Call, x: Tensor, y: Tensor) -> Any:
    return (mg.bitwise_left_shift if c.direction == "LEFT" else mg.bitwise_right_shift)(x, y)


@_operator("IsInf")
def _is_inf(c: Call, x: Tensor) -> Any:
    return mg.isinf(x) & (((x > 0) & bool(c.detect_positive)) | ((x < 0) & bool(c.detect_negative)))


@_operator("Clip")
def _clip(c: Call, x: Tensor, low: Any = None, high: Any = None) -> Any:
    low, high = (c.min if low is None else low), (c.max if high is None else high)
    x = x if low is None else mg.maximum(x, low)
    return x if high is None else mg.minimum(x, high)


@_operator("Shrink")
def _shrink(c: Call, x: Tensor) -> Any:
    found = mg.where(x < -c.lambd, x + c.bias, mg.where(x > c.lambd, x - c.bias, mg.zeros_like(x)))
    return found.astype(x.dtype)


@_operator("CumSum", "CumProd", known=(1,))
def _cumulative(c: Call, x: Tensor, axis: Any) -> Any:
    (axis,) = _ints(axis)
    accumulate = mg.cumulative_sum if c.kind == "CumSum" else mg.cumulative_prod
    x = mg.flip(x, axis=axis) if c.reverse else x
    found = accumulate(x, axis=axis, dtype=x.dtype, include_initial=bool(c.exclusive))
    if c.exclusive:
        found = _sliced(found, axis, 0, x.shape[axis])
    return mg.flip(found, axis=axis) if c.reverse else found


def _sliced(x: Tensor, axis: int, start: int | None, stop: int | None, step: int = 1) -> Any:
    return x[(*[slice(None)] * (axis % x.ndim), slice(start, stop, step))]


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────

_REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "Sum": mg.sum, "Mean": mg.mean, "Max": mg.max, "Min": mg.min, "Prod": mg.prod,
    "L1": lambda x, **how: mg.sum(mg.abs(x), **how), "L2": lambda x, **how: mg.sqrt(mg.sum(x * x, **how)),
    "SumSquare": lambda x, **how: mg.sum(x * x, **how), "LogSum": lambda x, **how: mg.log(mg.sum(x, **how)),
    "LogSumExp": mg.logsumexp,
}  # fmt: skip


@_operator(*[f"Reduce{name}" for name in _REDUCTIONS], known=(1,))
def _reduce(c: Call, x: Tensor, axes: Any = None) -> Any:
    axes = c.axes if axes is None else _ints(axes)
    axis = tuple(axes) if axes or (c.noop_with_empty_axes and axes is not None) else None
    if not axes and c.noop_with_empty_axes:
        axis = ()
    value = x.astype("uint8") if x.dtype.kind == "bool" else x
    if not value.dtype.is_floating and c.kind not in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
        value = value.astype("float64")
    if value.size == 0 and c.kind in ("ReduceMax", "ReduceMin", "ReduceLogSumExp"):
        least = (c.kind == "ReduceMin") if x.dtype.kind == "bool" else math.inf if c.kind == "ReduceMin" else -math.inf
        kept = {i % x.ndim for i in (range(x.ndim) if axis is None else axis)}
        shape = [1 if i in kept else n for i, n in enumerate(x.shape) if c.keepdims or i not in kept]
        return mg.full(tuple(shape), least, dtype=x.dtype, device=x.device)
    return _REDUCTIONS[c.kind[6:]](value, axis=axis, keepdims=bool(c.keepdims)).astype(x.dtype)


@_operator("ArgMax", "ArgMin")
def _arg(c: Call, x: Tensor) -> Any:
    find = mg.argmax if c.kind == "ArgMax" else mg.argmin
    if c.select_last_index:
        return x.shape[c.axis] - 1 - find(mg.flip(x, axis=c.axis), axis=c.axis, keepdims=bool(c.keepdims))
    return find(x, axis=c.axis, keepdims=bool(c.keepdims))


@_operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(c: Call, x: Tensor) -> Any:
    """Before opset 13 of all axes from the named one on."""
    axis = c.axis
    flat = x
    if c.opset < 13:
        flat, axis = x.reshape(math.prod(x.shape[: axis % x.ndim]), -1), -1
    if c.kind == "Hardmax":
        places = mg.argmax(flat, axis=axis, keepdims=True)
        count = mg.arange(flat.shape[axis], device=x.device)
        shape = [-1 if i == axis % flat.ndim else 1 for i in range(flat.ndim)]
        found = (count.reshape(shape) == places).astype(x.dtype)
    else:
        found = (F.softmax if c.kind == "Softmax" else F.log_softmax)(flat, axis)
    return found.reshape(x.shape)


@_operator("TopK", known=(1,))
def _topk(c: Call, x: Tensor, k: Any = None) -> Any:
    (count,) = [c.k] if k is None else _ints(k)
    return tuple(mg.topk(x, count, axis=c.axis, largest=c.largest is None or bool(c.largest)))


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────


@_operator("Shape")
def _shape(c: Call, x: Tensor) -> Any:
    return np.array(x.shape[c.start or 0 : c.end], dtype=np.int64)


@_operator("Size")
def _size(c: Call, x: Tensor) -> Any:
    return np.array(x.size, dtype=np.int64)


@_operator("Reshape", known=(1,))
def _reshape(c: Call, x: Tensor, shape: Any = None) -> Any:
    wanted = c.shape if shape is None else _ints(shape)
    return x.reshape(tuple(x.shape[i] if n == 0 and not c.allowzero else n for i, n in enumerate(wanted)))


@_operator("Flatten")
def _flatten(c: Call, x: Tensor) -> Any:
    axis = c.axis + x.ndim if c.axis < 0 else c.axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@_operator("Transpose")
def _transpose(c: Call, x: Tensor) -> Any:
    return mg.permute_dims(x, tuple(range(x.ndim)[::-1] if c.perm is None else c.perm))


@_operator("Squeeze", known=(1,))
def _squeeze(c: Call, x: Tensor, axes: Any = None) -> Any:
    wanted = c.axes if axes is None else _ints(axes)
    return mg.squeeze(x, tuple(i for i, n in enumerate(x.shape) if n == 1) if wanted is None else tuple(wanted))


@_operator("Unsqueeze", known=(1,))
def _unsqueeze(c: Call, x: Tensor, axes: Any = None) -> Any:
    wanted = c.axes if axes is None else _ints(axes)
    rank = x.ndim + len(wanted)
    rest = iter(x.shape)
    new = {axis % rank for axis in wanted}
    return x.reshape(tuple(1 if i in new else next(rest) for i in range(rank)))


@_operator("Expand", known=(1,))
def _expand(c: Call, x: Tensor, shape: Any) -> Any:
    return mg.broadcast_to(x, mg.broadcast_shapes(x.shape, tuple(_ints(shape))))


@_operator("Tile", known=(1,))
def _tile(c: Call, x: Tensor, repeats: Any) -> Any:
    return mg.tile(x, tuple(_ints(repeats)))


@_operator("Concat")
def _concat(c: Call, *xs: Tensor) -> Any:
    return mg.concat(xs, axis=c.axis)


@_operator("Split", known=(1,))
def _split(c: Call, x: Tensor, lengths: Any = None) -> Any:
    wanted = c.split if lengths is None else _ints(lengths)
    if wanted is None:
        most = -(-x.shape[c.axis] // (c.num_outputs or c.results))
        wanted = [most] * (c.num_outputs or c.results)
    stops = np.cumsum(wanted).tolist()
    return tuple(_sliced(x, c.axis, stop - n, stop) for stop, n in zip(stops, wanted, strict=True))


@_operator("Slice", known=(1, 2, 3, 4))
def _slice(c: Call, x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    first, last = (c.starts, c.ends) if starts is None else (_ints(starts), _ints(ends))
    where = c.axes if axes is None else _ints(axes)
    key = [slice(None)] * x.ndim
    strides = [1] * len(first) if steps is None else _ints(steps)
    for axis, *bounds in zip(range(len(first)) if where is None else where, first, last, strides, strict=True):
        start, stop, step = slice(*bounds).indices(x.shape[axis])
        key[axis] = slice(start, None if stop < 0 else stop, step)
    return x[tuple(key)]


@_operator("Pad", known=(1, 3))
def _pad(c: Call, x: Tensor, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    widths = (c.pads or c.paddings) if pads is None else _ints(pads)
    where = range(x.ndim) if axes is None else [axis % x.ndim for axis in _ints(axes)]
    around, key = [(0, 0)] * x.ndim, [slice(None)] * x.ndim
    for axis, first, last in zip(where, widths[: len(where)], widths[len(where) :], strict=True):
        around[axis] = max(first, 0), max(last, 0)
        key[axis] = slice(max(-first, 0), x.shape[axis] - max(-last, 0))
    x = x[tuple(key)]
    mode = c.mode or "constant"
    if mode != "constant":
        return mg.pad(x, around, mode=mode)
    fill = c.value or 0 if value is None or value.size == 0 else value
    if not isinstance(fill, Tensor):
        return mg.pad(x, around, constant_values=fill)
    inside = mg.pad(mg.ones_like(x, dtype="bool"), around)
    return mg.where(inside, mg.pad(x, around), fill.reshape(()))


def _counted(indices: Tensor, length: int) -> Any:
    """Indices of which negative ones counted from the end."""
    return mg.where(indices < 0, indices + length, indices)


@_operator("Gather")
def _gather(c: Call, x: Tensor, indices: Tensor) -> Any:
    return mg.take(x, indices, axis=c.axis)


@_operator("GatherElements")
def _gather_elements(c: Call, x: Tensor, indices: Tensor) -> Any:
    return mg.gather(x, c.axis, _counted(indices, x.shape[c.axis]))


def _places(indices: Tensor, shape: Sequence[int]) -> Any:
    """Places in memory of elements (or slices) that the last axis of indices names."""
    found: Any = 0
    for i, length in enumerate(shape):
        found = found * length + _counted(indices[..., i], length)
    return found


@_operator("GatherND")
def _gather_nd(c: Call, x: Tensor, indices: Tensor) -> Any:
    batch, named = c.batch_dims or 0, indices.shape[-1]
    shape = x.shape[batch : batch + named]
    places, rows = _places(indices, shape), math.prod(x.shape[:batch])
    starts = mg.arange(rows, dtype=indices.dtype, device=x.device) * math.prod(shape)
    flat = (places.reshape(rows, -1) + starts[:, None]).reshape(-1)
    found = mg.take(x.reshape(rows * math.prod(shape), *x.shape[batch + named :]), flat, axis=0)
    return found.reshape(*indices.shape[:-1], *x.shape[batch + named :])


_REDUCED: Final = {"none": "replace", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@_operator("ScatterElements", "Scatter")
def _scatter_elements(c: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Any:
    places = _counted(indices, x.shape[c.axis])
    return mg.scatter_reduce(x, c.axis, places, updates, _REDUCED[c.reduction or "none"])


@_operator("ScatterND")
def _scatter_nd(c: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Any:
    named = indices.shape[-1]
    places = _places(indices, x.shape[:named]).reshape(-1)
    rows = x.reshape(math.prod(x.shape[:named]), -1)
    change = {
        "none": mg.index_set, "add": mg.index_add, "mul": mg.index_multiply, "max": mg.index_max, "min": mg.index_min
    }[c.reduction or "none"]  # fmt: skip
    return change(rows, places, updates.reshape(-1, rows.shape[1]), axis=0).reshape(x.shape)


@_operator("TensorScatter")
def _tensor_scatter(c: Call, x: Tensor, updates: Tensor, starts: Any = None) -> Any:
    axis = c.axis % x.ndim
    places = mg.arange(updates.shape[axis], device=x.device)
    places = places.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    if starts is not None:
        places = places + starts.reshape(-1, *[1] * (x.ndim - 1))
    places = mg.broadcast_to(places % x.shape[axis] if c.mode == "circular" else places, updates.shape)
    return mg.scatter_reduce(x, axis, places, updates)


@_operator("OneHot", known=(1,))
def _one_hot(c: Call, indices: Tensor, depth: Any, values: Tensor) -> Any:
    (count,) = _ints(depth)
    axis = c.axis % (indices.ndim + 1)
    places = mg.expand_dims(_counted(indices.astype("int64"), count), axis=axis)
    each = mg.arange(count, device=indices.device).reshape([-1 if i == axis else 1 for i in range(places.ndim)])
    return mg.where(places == each, values[1], values[0])


@_operator("Range", known=(0, 1, 2))
def _range(c: Call, start: Any, stop: Any, step: Any) -> Any:
    first, last, by = (x.reshape(()) for x in (start, stop, step))
    count = max(math.ceil((last.item() - first.item()) / by.item()), 0)
    return (first + np.arange(count) * by).astype(start.dtype)


@_operator("ConstantOfShape", known=(0,))
def _constant_of_shape(c: Call, shape: Any) -> Any:
    value = np.zeros(1, np.float32) if c.value is None else c.value.array
    return np.full(tuple(_ints(shape)), value.reshape(()), dtype=value.dtype)


@_operator("EyeLike")
def _eye_like(c: Call, x: Tensor) -> Any:
    dtype = x.dtype if c.dtype is None else dtype_of(c.dtype, "EyeLike")
    return mg.eye(*x.shape, k=c.k, dtype=dtype, device=x.device)


@_operator("Trilu", known=(1,))
def _trilu(c: Call, x: Tensor, k: Any = None) -> Any:
    (diagonal,) = [0] if k is None else _ints(k)
    return (mg.triu if c.upper else mg.tril)(x, k=diagonal)


@_operator("NonZero")
def _non_zero(c: Call, x: Tensor) -> Any:
    return mg.stack(mg.nonzero(x))


@_operator("Compress", known=(1,))
def _compress(c: Call, x: Tensor, condition: Any) -> Any:
    x, axis = (x.reshape(-1), 0) if c.axis is None else (x, c.axis)
    return mg.take(x, mg.asarray(np.flatnonzero(condition), dtype="int64", device=x.device), axis=axis)


@_operator("DepthToSpace", "SpaceToDepth")
def _blocks(c: Call, x: Tensor) -> Any:
    n, channels, height, width = x.shape
    size = c.blocksize
    if c.kind == "SpaceToDepth":
        x = x.reshape(n, channels, height // size, size, width // size, size)
        order = (0, 1, 3, 5, 2, 4) if c.mode == "CRD" else (0, 3, 5, 1, 2, 4)
        return mg.permute_dims(x, order).reshape(n, -1, height // size, width // size)
    inner = channels // size**2
    if c.mode == "CRD":
        x = mg.permute_dims(x.reshape(n, inner, size, size, height, width), (0, 1, 4, 2, 5, 3))
    else:
        x = mg.permute_dims(x.reshape(n, size, size, inner, height, width), (0, 3, 4, 1, 5, 2))
    return x.reshape(n, inner, height * size, width * size)


@_operator("ReverseSequence")
def _reverse_sequence(c: Call, x: Tensor, lengths: Tensor) -> Any:
    shape = [1] * x.ndim
    places = mg.arange(x.shape[c.time_axis], device=x.device)
    places = places.reshape([-1 if i == c.time_axis else 1 for i in range(x.ndim)])
    shape[c.batch_axis] = -1
    ends = lengths.reshape(shape)
    turned = mg.where(places < ends, ends - 1 - places, places)
    return mg.gather(x, c.time_axis, mg.broadcast_to(turned, x.shape))


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────


@_operator("Gemm")
def _gemm(c: Call, a: Tensor, b: Tensor, bias: Any = None) -> Any:
    a = a.T if c.transA else a
    if c.alpha == c.beta == 1 and (bias is None or bias.shape == (b.shape[0 if c.transB else 1],)):
        return F.linear(a, b if c.transB else b.T, bias)
    found = mg.matmul(a, b.T if c.transB else b)
    found = found if c.alpha == 1 else (c.alpha * found).astype(found.dtype)
    return found if bias is None else (found + c.beta * bias).astype(found.dtype)


@_operator("Einsum")
def _einsum(c: Call, *xs: Tensor) -> Any:
    return mg.einsum(c.equation, *xs)


def _along(x: Tensor, axis: int, rank: int) -> Any:
    """A number for each place along an axis, as an array of the same rank."""
    return x if x.ndim != 1 or x.size == 1 else x.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _blocked(x: Any, like: Tensor, c: Call) -> Any:
    """Scales or zero points, for each element."""
    if x is None:
        return None
    if c.block_size and x.ndim == like.ndim:
        return _sliced(mg.repeat(x, c.block_size, axis=c.axis), c.axis, 0, like.shape[c.axis])
    return _along(x, c.axis if c.axis is not None else 1, like.ndim)


@_operator("DequantizeLinear")
def _dequantize(c: Call, x: Tensor, scale: Tensor, zero: Any = None) -> Any:
    factor, zero = _blocked(scale, x, c), _blocked(zero, x, c)
    value = x.astype(scale.dtype)
    found = (value if zero is None else value - zero.astype(scale.dtype)) * factor
    return found if not c.output_dtype else found.astype(dtype_of(c.output_dtype, c.kind))


@_operator("QuantizeLinear")
def _quantize(c: Call, x: Tensor, scale: Tensor, zero: Any = None) -> Any:
    dtype = zero.dtype if zero is not None else mg.asarray(0, dtype=dtype_of(c.output_dtype or 2, c.kind)).dtype
    found = mg.round(x / _blocked(scale, x, c).astype(x.dtype)).astype("float64")
    if zero is not None:
        found = found + _blocked(zero, x, c).astype("float64")
    limits = mg.iinfo(dtype)
    return mg.clip(found, limits.min, limits.max).astype(dtype)


def _shifted(x: Tensor, zero: Any, axis: int) -> Any:
    x = x.astype("float64")  # holds sums of products of 8 bits exactly
    return x if zero is None else x - _along(zero.astype("float64"), axis, x.ndim)


@_operator("MatMulInteger")
def _matmul_integer(c: Call, a: Tensor, b: Tensor, a_zero: Any = None, b_zero: Any = None) -> Any:
    return mg.matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1)).astype("int32")


@_operator("QLinearMatMul")
def _q_linear_matmul(c: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, *out: Any) -> Any:
    found = mg.matmul(
        _shifted(a, a_zero, -2) * _along(a_scale.astype("float64"), -2, a.ndim),
        _shifted(b, b_zero, -1) * _along(b_scale.astype("float64"), -1, b.ndim),
    )
    return _quantize(c, found, *out)


# ── convolutions and windows ─────────────────────────────────────────────────────────────────────────────────


class _Windows(NamedTuple):
    """Lengths along the spatial axes."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    extra: list[int]
    """What windows reach beyond the padding, with `ceil_mode`."""


def _windows(c: Call, lengths: Sequence[int], kernel: Sequence[int]) -> _Windows:
    rank = len(lengths)
    strides, dilations = c.strides or [1] * rank, c.dilations or [1] * rank
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    pads = c.pads or [0] * 2 * rank
    if c.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        whole = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(lengths, strides, reach, strict=True)]
        smaller, larger = [n // 2 for n in whole], [n - n // 2 for n in whole]
        pads = smaller + larger if c.auto_pad == "SAME_UPPER" else larger + smaller
    elif c.auto_pad == "VALID":
        pads = [0] * 2 * rank
    before, after, extra = list(pads[:rank]), list(pads[rank:]), [0] * rank
    if c.ceil_mode:
        for i in range(rank):
            room = lengths[i] + before[i] + after[i]
            count = -(-(room - reach[i]) // strides[i]) + 1
            if (count - 1) * strides[i] >= lengths[i] + before[i]:
                count -= 1  # a window begins inside
            extra[i] = max((count - 1) * strides[i] + reach[i] - room, 0)
    return _Windows(list(kernel), list(strides), list(dilations), before, after, extra)


def _padded(x: Tensor, w: _Windows, fill: float, extra: bool = True) -> Any:
    more = w.extra if extra else [0] * len(w.extra)
    around = [(0, 0), (0, 0), *zip(w.before, [a + b for a, b in zip(w.after, more, strict=True)], strict=True)]
    return x if not any(map(any, around)) else mg.pad(x, around, constant_values=fill)


def _of_rank(name: str, rank: int) -> Callable[..., Any]:
    """One of ``conv1d``, ``conv2d`` and ``conv3d``, say."""
    if not 1 <= rank <= 3:
        raise Refused(f"from_onnx: {name} is computed along 1, 2 or 3 axes here, not {rank}")
    return getattr(F, f"{name}{rank}d")  # type: ignore[no-any-return]


@_operator("Conv")
def _conv(c: Call, x: Tensor, weight: Tensor, bias: Any = None) -> Any:
    w = _windows(c, x.shape[2:], weight.shape[2:])
    padding = w.before
    if w.before != w.after:
        x, padding = _padded(x, w, 0), [0] * len(w.before)
    how: dict[str, Any] = {"stride": tuple(w.strides), "padding": tuple(padding), "dilation": tuple(w.dilations)}
    return _of_rank("conv", x.ndim - 2)(x, weight, bias, groups=c.group, **how)


@_operator("ConvInteger")
def _conv_integer(c: Call, x: Tensor, weight: Tensor, x_zero: Any = None, w_zero: Any = None) -> Any:
    return _conv(c, _shifted(x, x_zero, 0), _shifted(weight, w_zero, 0)).astype("int32")


@_operator("QLinearConv")
def _q_linear_conv(
    c: Call, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any,
    bias: Any = None,
) -> Any:  # fmt: skip
    found = _conv(c, _shifted(x, x_zero, 0), _shifted(w, w_zero, 0), None if bias is None else bias.astype("float64"))
    found = found * _along((x_scale * w_scale).astype("float64"), 1, found.ndim)
    return _quantize(c, found, y_scale.astype("float64"), y_zero)


@_operator("ConvTranspose")
def _conv_transpose(c: Call, x: Tensor, weight: Tensor, bias: Any = None) -> Any:
    rank = x.ndim - 2
    strides, dilations, more = (each or [default] * rank for each, default in (
        (c.strides, 1), (c.dilations, 1), (c.output_padding, 0)))  # fmt: skip
    whole = [
        s * (n - 1) + d * (k - 1) + 1
        for n, s, d, k in zip(x.shape[2:], strides, dilations, weight.shape[2:], strict=True)
    ]
    pads = c.pads or [0] * 2 * rank
    before, after = pads[:rank], pads[rank:]
    wanted = c.output_shape
    if wanted is None and (c.auto_pad or "").startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        gone = [n + m - out for n, m, out in zip(whole, more, wanted[-rank:], strict=True)]
        halves = [n // 2 for n in gone], [n - n // 2 for n in gone]
        before, after = halves if c.auto_pad == "SAME_UPPER" else halves[::-1]
    how: dict[str, Any] = {"stride": tuple(strides), "dilation": tuple(dilations), "groups": c.group}
    if before == after and min(before) >= 0:
        return _of_rank("conv_transpose", rank)(
            x, weight, bias, padding=tuple(before), output_padding=tuple(more), **how
        )
    found = _of_rank("conv_transpose", rank)(x, weight, **how)
    ends = [m - n for m, n in zip(more, after, strict=True)]
    found = mg.pad(found, [(0, 0), (0, 0), *((max(-b, 0), max(e, 0)) for b, e in zip(before, ends, strict=True))])
    key = [slice(max(b, 0), n + max(-b, 0) + e) for b, n, e in zip(before, whole, ends, strict=True)]
    found = found[(slice(None), slice(None), *key)]
    return found if bias is None else found + _along(bias, 1, found.ndim)


@_operator("MaxPool")
def _max_pool(c: Call, x: Tensor) -> Any:
    if not x.dtype.is_floating:
        return _max_pool(c, x.astype("float64")).astype(x.dtype)
    w = _windows(c, x.shape[2:], c.kernel_shape)
    how: dict[str, Any] = {"stride": tuple(w.strides), "dilation": tuple(w.dilations)}
    kernel, rank = tuple(w.kernel), x.ndim - 2
    simple = w.before == w.after and not any(w.extra) and all(2 * p <= k for p, k in zip(w.before, kernel, strict=True))
    if c.results == 1 and simple:
        return _of_rank("max_pool", rank)(x, kernel, padding=tuple(w.before), **how)
    padded = _padded(x, w, -math.inf)
    if c.results == 1:
        return _of_rank("max_pool", rank)(padded, kernel, **how)
    found, places = mg.max_pool_with_indices(padded, kernel, **how)
    coordinates = []
    for length in padded.shape[:1:-1]:
        coordinates.append(places % length)
        places = places // length
    sizes, starts = x.shape[2:], w.before
    order = range(rank)[::-1] if c.storage_order else range(rank)
    flat: Any = 0
    for i in order:
        flat = flat * sizes[i] + coordinates[::-1][i] - starts[i]
    planes = mg.arange(x.shape[0] * x.shape[1], device=x.device) * math.prod(sizes)
    return found, flat + planes.reshape(*x.shape[:2], *[1] * rank)


def _summed(c: Call, x: Tensor, w: _Windows, fill: bool = False) -> Any:
    """Sums of windows."""
    around = _padded(x, w, 0)
    how: dict[str, Any] = {"kernel_size": tuple(w.kernel), "stride": tuple(w.strides), "dilation": tuple(w.dilations)}
    return mg.sum(mg.patches(around, **how), axis=tuple(range(2, x.ndim)))


@_operator("AveragePool")
def _average_pool(c: Call, x: Tensor) -> Any:
    w = _windows(c, x.shape[2:], c.kernel_shape)
    if not any([*w.before, *w.after, *w.extra]) and set(w.dilations) == {1}:
        return _of_rank("avg_pool", x.ndim - 2)(x, tuple(w.kernel), tuple(w.strides))
    ones = mg.ones((1, 1, *x.shape[2:]), dtype=x.dtype, device=x.device)
    if c.count_include_pad:
        ones = _padded(ones, w, 1, extra=False)
        beyond = w._replace(before=[0] * len(w.before), after=[0] * len(w.after))
        return _summed(c, x, w) / _summed(c, ones, beyond)
    return _summed(c, x, w) / _summed(c, ones, w)


@_operator("LpPool")
def _lp_pool(c: Call, x: Tensor) -> Any:
    return _summed(c, mg.abs(x) ** c.p, _windows(c, x.shape[2:], c.kernel_shape)) ** (1 / c.p)


@_operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(c: Call, x: Tensor) -> Any:
    axes = tuple(range(2, x.ndim))
    if c.kind == "GlobalLpPool":
        return mg.sum(mg.abs(x) ** c.p, axis=axes, keepdims=True) ** (1 / c.p)
    return (mg.mean if c.kind == "GlobalAveragePool" else mg.max)(x, axis=axes, keepdims=True)


@_operator("MaxUnpool", known=(2,))
def _max_unpool(c: Call, x: Tensor, places: Tensor, shape: Any = None) -> Any:
    rank = x.ndim - 2
    strides, pads = c.strides or [1] * rank, c.pads or [0] * 2 * rank
    sizes = [
        (n - 1) * s - before - after + k
        for n, s, before, after, k in zip(x.shape[2:], strides, pads[:rank], pads[rank:], c.kernel_shape, strict=True)
    ]
    found = mg.max_unpool(x, places % math.prod(sizes), tuple(sizes))
    wanted = sizes if shape is None else _ints(shape)[2:]
    return mg.pad(found, [(0, 0), (0, 0), *((0, n - size) for n, size in zip(wanted, sizes, strict=True))])


@_operator("Col2Im", known=(1, 2))
def _col2im(c: Call, x: Tensor, image: Any, block: Any) -> Any:
    rank = len(block)
    pads = c.pads or [0] * 2 * rank
    if rank != 2:
        raise c.refuse(f"{rank} axes")
    height, width = (n + a + b for n, a, b in zip(_ints(image), pads[:2], pads[2:], strict=True))
    how: dict[str, Any] = {"dilation": tuple(c.dilations or (1, 1)), "stride": tuple(c.strides or (1, 1))}
    found = F.fold(x, (height, width), tuple(_ints(block)), **how)
    return found[:, :, pads[0] : height - pads[2], pads[1] : width - pads[3]]


@lru_cache(256)
def _resizing(told: bytes, length: int, scale: float | None, size: int | None, roi: tuple[float, ...] | None) -> Any:
    """What resizing makes of each single element along an axis: (results, length), by the definition in onnx."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    node = onnx.NodeProto.FromString(told)
    graph = onnx.helper.make_graph(
        [node],
        "resize",
        *([onnx.helper.make_tensor_value_info(n, 1, None) for n in names if n] for names in (node.input, node.output)),
    )
    given = {"x": np.eye(length, dtype=np.float64)}
    if roi is not None:
        given["roi"] = np.array(roi, np.float64)
    given |= {"scales": np.array([scale], np.float32)} if size is None else {"sizes": np.array([size], np.int64)}
    return ReferenceEvaluator(graph, opsets={"": 19}).run(None, given)[0]


@_operator("Resize", "Upsample", known=(1, 2, 3))
def _resize(c: Call, x: Tensor, *more: Any) -> Any:
    """Along one axis after the other, each a product with a matrix, or a choice of elements."""
    import onnx

    roi: Any
    if c.kind == "Upsample":
        roi, scales, sizes = None, c.scales if not more else more[0], None
    else:
        roi, scales, sizes = (*more, None, None, None)[:3] if c.opset > 10 else (None, more[0], None)
    axes = [axis % x.ndim for axis in (range(x.ndim) if c.axes is None else c.axes)]
    factors: list[Any] = [None] * len(axes) if scales is None or np.size(scales) == 0 else list(map(float, scales))
    counts: list[Any] = [None] * len(axes) if sizes is None or np.size(sizes) == 0 else _ints(sizes)
    policy = c.keep_aspect_ratio_policy
    if counts[0] is not None and policy not in (None, "stretch"):
        ratios = [n / x.shape[axis] for n, axis in zip(counts, axes, strict=True)]
        factor = min(ratios) if policy == "not_larger" else max(ratios)
        if any(factor * x.shape[axis] % 1 >= 0.5 for axis in axes):
            raise c.refuse("lengths that a ratio rounds up")
        factors, counts = [factor + 1e-7] * len(axes), [None] * len(axes)
    told = {
        name: getattr(c, name) for name in (
            "antialias", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "mode", "nearest_mode",
        ) if getattr(c, name) is not None
    }  # fmt: skip
    if c.opset < 11:
        told |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    crop = told.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crop and c.extrapolation_value:
        raise c.refuse("an extrapolation value")
    for i, axis in enumerate(axes):
        factor, count, length = factors[i], counts[i], x.shape[axis]
        if not crop and (factor == 1 or count == length):
            continue
        names = ["x", "roi" if crop else "", "scales" if count is None else "", "sizes" if count is not None else ""]
        node = onnx.helper.make_node("Resize", names, ["y"], axes=[0], **told)
        where = (float(roi[i]), float(roi[i + len(axes)])) if crop else None
        weights = _resizing(node.SerializeToString(), length, factor, count, where)
        if told.get("mode", "nearest") == "nearest" and not crop:
            x = mg.take(x, mg.asarray(weights.argmax(axis=1), device=x.device), axis=axis)
        else:
            matrix = mg.asarray(weights, dtype=x.dtype if x.dtype.is_floating else "float64", device=x.device)
            x = mg.moveaxis(mg.matmul(mg.moveaxis(x.astype(matrix.dtype), axis, -1), matrix.T), -1, axis).astype(
                x.dtype
            )
    return x


@_operator("GridSample")
def _grid_sample(c: Call, x: Tensor, grid: Tensor) -> Any:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(c.mode, c.mode)
    return F.grid_sample(x, grid, mode, c.padding_mode, bool(c.align_corners))


@_operator("AffineGrid", known=(1,))
def _affine_grid(c: Call, theta: Tensor, size: Any) -> Any:
    return F.affine_grid(theta, _ints(size), bool(c.align_corners))


# ── normalisation ────────────────────────────────────────────────────────────────────────────────────────────


@_operator("BatchNormalization")
def _batch_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Any:
    momentum = 1 - (0.9 if c.momentum is None else c.momentum)
    if c.training_mode:
        axes = tuple(i for i in range(x.ndim) if i != 1)
        now = mg.mean(x, axis=axes), mg.var(x, axis=axes)
        moved = [
            (old * (1 - momentum) + new * momentum).astype(old.dtype) for old, new in zip((mean, var), now, strict=True)
        ]
        return F.batch_norm(x, None, None, scale, bias, True, eps=c.epsilon), *moved
    return F.batch_norm(x, mean, var, scale, bias, c.training, momentum, c.epsilon)


@_operator("InstanceNormalization")
def _instance_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Any:
    return F.instance_norm(x, weight=scale, bias=bias, eps=c.epsilon)


@_operator("LayerNormalization")
def _layer_norm(c: Call, x: Tensor, scale: Tensor, bias: Any = None) -> Any:
    axes = tuple(range(c.axis % x.ndim, x.ndim))
    whole = scale.shape == x.shape[axes[0] :] and (bias is None or bias.shape == scale.shape)
    if whole and bias is not None:
        found = mg.layer_norm(x, scale, bias, axis=axes, eps=c.epsilon)
    else:
        found = mg.layer_norm(x, axis=axes, eps=c.epsilon) * scale
        found = found if bias is None else found + bias
    if c.results == 1:
        return found
    spread = mg.var(x, axis=axes, keepdims=True) + c.epsilon
    return found, mg.mean(x, axis=axes, keepdims=True), 1 / mg.sqrt(spread)


@_operator("GroupNormalization")
def _group_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Any:
    """Before opset 21 with a scale for each group."""
    if c.opset < 21:
        scale, bias = (mg.repeat(each, x.shape[1] // c.num_groups) for each in (scale, bias))
    return F.group_norm(x, c.num_groups, scale, bias, c.epsilon)


@_operator("LRN")
def _lrn(c: Call, x: Tensor) -> Any:
    before = (c.size - 1) // 2
    around = mg.pad(x * x, [(0, 0), (before, c.size - 1 - before), *[(0, 0)] * (x.ndim - 2)])
    total = reduce(mg.add, [around[:, i : i + x.shape[1]] for i in range(c.size)])
    return (x / (c.bias + c.alpha / c.size * total) ** c.beta).astype(x.dtype)


@_operator("LpNormalization")
def _lp_normalization(c: Call, x: Tensor) -> Any:
    how: dict[str, Any] = {"axis": c.axis, "keepdims": True}
    size = mg.sum(mg.abs(x), **how) if c.p == 1 else mg.sqrt(mg.sum(x * x, **how))
    return mg.where(size == 0, mg.zeros_like(x), x / mg.where(size == 0, mg.ones_like(size), size))


@_operator("Dropout", known=(1, 2))
def _dropout(c: Call, x: Tensor, ratio: Any = None, training: Any = None) -> Any:
    share = float(np.reshape(ratio, ())) if ratio is not None else 0.5 if c.ratio is None else c.ratio
    if (training is not None and bool(np.reshape(training, ()))) or c.training:
        kept = F.dropout(mg.ones_like(x), share, True)
        return (x * kept, kept != 0) if c.results > 1 else x * kept
    return (x, mg.ones_like(x, dtype="bool")) if c.results > 1 else x


# ── recurrent ────────────────────────────────────────────────────────────────────────────────────────────────

_ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {
    "Relu": lambda x, a, b: mg.relu(x), "Tanh": lambda x, a, b: mg.tanh(x), "Sigmoid": lambda x, a, b: mg.sigmoid(x),
    "Affine": lambda x, a, b: a * x + b, "LeakyRelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: mg.where(x > (1.0 if a is None else a), x, 0),
    "ScaledTanh": lambda x, a, b: a * mg.tanh(b * x),
    "HardSigmoid": lambda x, a, b: mg.clip((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1),
    "Elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a), "Softsign": lambda x, a, b: F.softsign(x),
    "Softplus": lambda x, a, b: F.softplus(x),
}  # fmt: skip
_USUAL: Final = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@_operator("RNN", "GRU", "LSTM")
def _recurrent(
    c: Call, x: Tensor, w: Tensor, r: Tensor, bias: Any = None, lengths: Any = None, h: Any = None, cell: Any = None,
    peep: Any = None,
) -> Any:  # fmt: skip
    """Directions one after the other: by the operation of the core where it is the usual cell, else step by step."""
    usual, directions, size = _USUAL[c.kind], w.shape[0], r.shape[-1]
    names = [name.capitalize() if name.islower() else name for name in c.activations or usual * directions]
    if any(name not in _ACTIVATIONS for name in names):
        raise c.refuse(f"the activations {names}")
    x = mg.permute_dims(x, (1, 0, 2)) if c.layout else x
    h, cell = (mg.permute_dims(s, (1, 0, 2)) if c.layout and s is not None else s for s in (h, cell))
    zero = mg.zeros((x.shape[1], size), dtype=x.dtype, device=x.device)
    plain = names == usual * directions and not c.clip and peep is None and not c.input_forget
    plain = plain and (c.kind != "GRU" or bool(c.linear_before_reset)) and lengths is None
    found = []
    for i in range(directions):
        start = zero if h is None else h[i], zero if cell is None else cell[i]
        own = mg.zeros((2 * w.shape[1],), dtype=x.dtype, device=x.device) if bias is None else bias[i]
        backward = c.direction == "reverse" or i == 1
        count = len(usual)
        functions = [
            partial(_activated, _ACTIVATIONS[name], a, b, c.clip)
            for name, a, b in zip(
                names[i * count :][:count], _parameters(c.activation_alpha, i * count, count),
                _parameters(c.activation_beta, i * count, count), strict=True,
            )
        ]  # fmt: skip
        run = _by_core if plain else _by_steps
        found.append(run(c, x, w[i], r[i], own, start, backward, functions, lengths, None if peep is None else peep[i]))
    states, last, cells = (
        mg.stack(each, axis=axis) for each, axis in zip(zip(*found, strict=True), (1, 0, 0), strict=True)
    )
    if c.layout:
        states, last, cells = (
            mg.permute_dims(states, (2, 0, 1, 3)),
            *(mg.permute_dims(s, (1, 0, 2)) for s in (last, cells)),
        )
    return (states, last, cells)[: c.results if c.kind == "LSTM" else min(c.results, 2)]


def _parameters(given: Any, start: int, count: int) -> list[Any]:
    return [*(given or [])[start : start + count], *[None] * count][:count]


def _activated(function: Callable[..., Any], a: Any, b: Any, clip: Any, x: Tensor) -> Any:
    return function(mg.clip(x, -clip, clip) if clip else x, a, b)


def _by_core(
    c: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor, start: Any, backward: bool, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """ONNX has the gates in another order: i, o, f, c for i, f, c, o, and z, r, h for r, z, h."""
    order = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}[c.kind]
    w, r = (_ordered(each, order) for each in (w, r))
    own, other = (_ordered(each, order) for each in (bias[: w.shape[0]], bias[w.shape[0] :]))
    end = 0 if backward else -1
    if c.kind == "LSTM":
        states, cells, _gates = mg.lstm(F.linear(x, w, own + other), start[0], start[1], r, reverse=backward)
        return states, states[end], cells[end]
    if c.kind == "GRU":
        states = mg.gru(F.linear(x, w, own), start[0], r, other, reverse=backward)[0]
    else:
        states = mg.rnn(F.linear(x, w, own + other), start[0], r, reverse=backward)[0]
    return states, states[end], start[1]


def _ordered(x: Tensor, order: list[int]) -> Any:
    if len(order) == 1:
        return x
    parts = mg.chunk(x, len(order), axis=0)
    return mg.concat([parts[i] for i in order], axis=0)


def _by_steps(
    c: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor, start: Any, backward: bool, functions: Any, lengths: Any,
    peep: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    h, cell = start
    own, other = bias[: w.shape[0]], bias[w.shape[0] :]
    states: list[Any] = [None] * x.shape[0]
    for t in range(x.shape[0])[:: -1 if backward else 1]:
        new, new_cell = _step(c, F.linear(x[t], w, own), h, cell, r, other, functions, peep)
        if lengths is not None:
            inside = (lengths > t)[:, None]
            states[t] = mg.where(inside, new, mg.zeros_like(new))
            new, new_cell = mg.where(inside, new, h), mg.where(inside, new_cell, cell)
        else:
            states[t] = new
        h, cell = new, new_cell
    return mg.stack(states), h, cell


def _step(
    c: Call, x: Tensor, h: Tensor, cell: Tensor, r: Tensor, bias: Tensor, functions: Any, peep: Any
) -> tuple[Tensor, Tensor]:
    f, *rest = functions
    if c.kind == "RNN":
        return f(x + F.linear(h, r, bias)), cell
    if c.kind == "GRU":
        size = h.shape[-1]
        gates = f(x[:, : 2 * size] + F.linear(h, r[: 2 * size], bias[: 2 * size]))
        update, reset = gates[:, :size], gates[:, size:]
        if c.linear_before_reset:
            given = reset * F.linear(h, r[2 * size :], bias[2 * size :])
        else:
            given = F.linear(reset * h, r[2 * size :], bias[2 * size :])
        return (1 - update) * rest[0](x[:, 2 * size :] + given) + update * h, cell
    i, o, forget, g = mg.chunk(x + F.linear(h, r, bias), 4, axis=-1)
    seen = [0, 0, 0] if peep is None else mg.chunk(peep, 3, axis=0)
    enter = f(i + seen[0] * cell)
    stay = 1 - enter if c.input_forget else f(forget + seen[2] * cell)
    cell = stay * cell + enter * rest[0](g)
    return f(o + seen[1] * cell) * rest[1](cell), cell


# ── spectra, random numbers ──────────────────────────────────────────────────────────────────────────────────


@_operator("DFT", known=(1, 2))
def _dft(c: Call, x: Tensor, length: Any = None, axis: Any = None) -> Any:
    where = c.axis if c.opset < 20 else -2 if axis is None else _ints(axis)[0]
    where = where % x.ndim
    value = x[..., 0] if x.shape[-1] == 1 else mg.complex(x[..., 0], x[..., 1])
    how: dict[str, Any] = {"n": None if length is None else _ints(length)[0], "axis": where}
    if c.onesided and c.inverse:
        return mg.expand_dims(FUNCTIONS["irfft"](value, **how), axis=-1)
    if c.inverse:
        found = FUNCTIONS["ifft"](value.astype("complex64" if x.dtype == mg.float32 else "complex128"), **how)
    elif c.onesided:
        found = FUNCTIONS["rfft"](value, **how)
    else:
        found = FUNCTIONS["fft"](value.astype("complex64" if x.dtype == mg.float32 else "complex128"), **how)
    return mg.stack([mg.real(found), mg.imag(found)], axis=-1).astype(x.dtype)


@_operator("STFT", known=(1, 3))
def _stft(c: Call, x: Tensor, step: Any, window: Any = None, length: Any = None) -> Any:
    (hop,) = _ints(step)
    size = window.shape[0] if length is None else _ints(length)[0]
    count = (x.shape[1] - size) // hop + 1
    places = mg.asarray(np.arange(count)[:, None] * hop + np.arange(size), device=x.device)
    value = x[..., 0] if x.shape[-1] == 1 or x.ndim == 2 else mg.complex(x[..., 0], x[..., 1])
    frames = mg.take(value, places, axis=1)
    frames = frames if window is None else frames * window
    found = FUNCTIONS["rfft"](frames) if c.onesided else FUNCTIONS["fft"](frames.astype("complex64"))
    return mg.stack([mg.real(found), mg.imag(found)], axis=-1).astype(x.dtype)


@_operator("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
def _random(c: Call, like: Any = None) -> Any:
    """From micrograd's default generator; the seed of the file is not used."""
    shape = tuple(c.shape) if like is None else like.shape
    dtype = dtype_of(c.dtype, c.kind) if c.dtype else like.dtype
    if c.kind.startswith("RandomNormal"):
        return mg.random.normal(shape, c.mean, c.scale, dtype=dtype)
    return mg.random.uniform(shape, c.low, c.high, dtype=dtype)
