"""Kernels: NumPy functions chosen for low overhead, and fused ones where a composition would make many passes.

ufuncs and their methods are called directly (``np.add.reduce``, not ``np.sum``): the wrappers cost more than the work
on small arrays. What is not listed here comes from NumPy's own array API namespace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_cpu import random
from micrograd_cpu.networks import NETWORKS

Shape = tuple[int, ...]

_ZERO: Final = {np.dtype(name): np.zeros((), name) for name in ("float16", "float32", "float64", "int64", "int32")}


def _zero(dtype: Any) -> Any:
    """A cached 0-d zero: NumPy converts a Python 0 at every call."""
    found = _ZERO.get(dtype)
    return 0 if found is None else found


_sum: Any = np.add.reduce


def power(x: Any, n: Any) -> Any:
    """Squares are common, and a multiplication each."""
    return np.square(x) if n.__class__ in (int, float) and n == 2 else np.power(x, n)


def real(x: Any) -> Any:
    """NumPy's is a view."""
    return x.real.copy()


def imag(x: Any) -> Any:
    """Likewise."""
    return x.imag.copy()


def matmul(x: Any, y: Any) -> Any:
    """``ndarray.dot`` has less overhead where it means the same."""
    return x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y)


def mean(x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
    """One sum, one division; float16 is summed as float32."""
    if x.dtype == np.float16:
        total: Any = _sum(x, axis=axis, keepdims=keepdims, dtype=np.float32)
    else:
        total = _sum(x, axis=axis, keepdims=keepdims)
    mean = np.true_divide(total, x.size // total.size if total.size else x.size, dtype=total.dtype)
    return mean if mean.dtype == x.dtype else mean.astype(x.dtype)


def broadcast_to(x: Any, *, shape: Shape) -> Any:
    """A 0-d array, the start of most sweeps, is repeated without NumPy's general (and slow) machinery."""
    if x.ndim:
        return np.broadcast_to(x, shape)
    result = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    result.flags.writeable = False
    return result


def spread(x: Any, *, shape: Shape) -> Any:
    """Fresh memory while that is small: ufuncs have twice the overhead on a broadcast view."""
    if x.ndim or math.prod(shape) > 4096:
        return broadcast_to(x, shape=shape)
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


def full(*, shape: Shape, fill_value: Any, dtype: Any) -> Any:
    """Zeros come from the allocator for free."""
    return (
        np.zeros(shape, dtype) if fill_value.__class__ is int and not fill_value else np.full(shape, fill_value, dtype)
    )


def getitem(x: Any, *, key: tuple[Any, ...]) -> Any:
    """The trailing ellipsis makes a view even of one element."""
    return x[(*key, ...)]


def scatter(x: Any, values: Any, *, key: tuple[Any, ...]) -> Any:
    """Copy, then assign."""
    result = np.array(x)
    result[key] = values
    return result


def relu(x: Any) -> Any:
    """One pass."""
    return np.maximum(x, _zero(x.dtype))


_INTEGER: Final = {np.dtype("float32"): np.dtype("int32"), np.dtype("float64"): np.dtype("int64")}


def relu_gradient(g: Any, out: Any) -> Any:
    """Through a bit mask, several times as fast as ``np.where``, and like it exact for infinite and NaN cotangents."""
    positive, bits = np.greater(out, _zero(out.dtype)), _INTEGER.get(out.dtype)
    if bits is None or g.shape != out.shape or not g.ndim:
        return np.where(positive, g, _zero(out.dtype))
    mask = positive.astype(bits)
    np.negative(mask, out=mask)  # 0, or all ones
    return np.bitwise_and(mask, g.view(bits), out=mask).view(g.dtype)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    """The bias goes into the memory of the product."""
    product = matmul(x, weight.T)
    if bias.__class__ is not np.ndarray:
        return product if bias == 0 else product + bias
    return np.add(product, bias, out=product)


def one_hot(x: Any, *, num_classes: int, dtype: Any) -> Any:
    """A comparison with the class numbers."""
    return np.equal(x[..., None], np.arange(num_classes)).astype(dtype)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "pow": power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "positive": np.positive,
    "abs": np.absolute,
    "sign": np.sign,
    "real": real,
    "imag": imag,
    "conj": np.conjugate,
    "hypot": np.hypot,
    "square": np.square,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "where": np.where,
    "sum": np.add.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "any": np.logical_or.reduce,
    "all": np.logical_and.reduce,
    "mean": mean,
    "matmul": matmul,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute_dims": lambda x, *, axes: x.transpose(axes),
    "broadcast_to": broadcast_to,
    "spread": spread,
    "expand_dims": lambda x, *, axis: np.expand_dims(x, axis),
    "astype": lambda x, *, dtype: x.astype(dtype),
    "copy": lambda x: np.array(x, order="C"),
    "full": full,
    "getitem": getitem,
    "scatter": scatter,
    "relu": relu,
    "relu_gradient": relu_gradient,
    "one_hot": one_hot,
    "linear": linear,
    **NETWORKS,
    **random.KERNELS,
}
