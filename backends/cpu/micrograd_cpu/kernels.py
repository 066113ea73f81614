"""Kernels: NumPy functions chosen for low overhead, and fused ones where a composition would make many passes.

ufuncs and their methods are called directly (``np.add.reduce``, not ``np.sum``): the wrappers cost more than the work
on small arrays. What is not listed here comes from NumPy's own array API namespace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_core.adapters.array_api import STANDARD
from micrograd_core.compiler.program import operation
from micrograd_core.dtypes import float64
from micrograd_core.errors import IndexingError
from micrograd_core.layout import Shape
from micrograd_core.support.powers import POWERS
from micrograd_cpu import eager, random
from micrograd_cpu.casts import astype, checked
from micrograd_cpu.convolution import CONVOLUTIONS
from micrograd_cpu.half import Half, as_half, rounding_once
from micrograd_cpu.networks import NETWORKS, named
from micrograd_cpu.patches import PATCHES
from micrograd_cpu.pooling import POOLINGS
from micrograd_cpu.products import matmul
from micrograd_cpu.recurrent import RECURRENT

_PRODUCTS: Final = (np.dtype("float32"), np.dtype("float64"))


_ZEROS: Final = {np.dtype(name): np.zeros((), name) for name in ("float16", "float32", "float64")}
"""NumPy converts a Python 0 at every call."""


def _squares(k: Any, x: Any) -> Any:
    return k.sum(k.square(k.astype(x, dtype=float64)), axis=None, keepdims=False)


def global_norm(*xs: Any) -> Any:
    """Squares of float32 in float64, where none overflows: of each large array in one pass over memory."""
    if xs[0].dtype != np.float32:
        return NotImplemented
    total, small = 0.0, []
    for x in xs:
        if x.size < eager.SMALL:
            small.append(x.ravel())
        else:
            found = eager.fused(_squares)(x)
            total += np.square(x, dtype=np.float64).sum() if found is NotImplemented else found
    flat = np.concatenate(small, dtype=np.float64) if small else np.zeros(0)
    with np.errstate(over="ignore"):
        return np.float32(math.sqrt(total + flat.dot(flat)))


def power(x: Any, n: Any) -> Any:
    """Small powers are products and roots. For exponents 1/2 that are repeated NumPy takes the root.

    Other whole powers are those of the magnitude: NumPy takes 40 times as long for negative numbers.
    """
    if n.__class__ in (int, float):
        if n == 2:
            return np.square(x)
        if x.dtype not in _PRODUCTS:
            return _root(x) if n == 0.5 and x.dtype.kind != "c" else np.power(x, n)
        if n in POWERS:
            return _few(x, n)
        if n % 1 == 0 and abs(n) < 1 << 24:  # which float32 has, too
            return np.copysign(np.power(np.abs(x), n), x if n % 2 else 1.0)
        return np.power(x, n)
    found = np.power(x, n)
    if found.dtype.kind not in "iuc" and (n.size == 1 or n.shape != found.shape):
        half = np.equal(n, 0.5)
        if half.any():
            found = np.where(half & np.equal(x, -math.inf), math.inf, np.where(half & np.equal(x, 0), 0.0, found))
    return found


def _root(x: Any) -> Any:
    """``x ** 0.5``, which differs from the root at -0.0 and at minus infinity."""
    try:
        root = checked(np.sqrt, x)
    except FloatingPointError:
        infinite = np.equal(x, -math.inf)
        root = np.where(infinite, math.inf, np.sqrt(np.where(infinite, 0.0, x)))
    return np.add(root, 0.0)


_few: Final = eager.compiled(  # of a large array in one pass
    eager.operation("pow"), lambda x, n: POWERS[n](np, x) if n % 1 == 0 else _root(x) if n > 0 else 1 / _root(x)
)


def of_reals(ufunc: Any) -> Callable[[Any], Any]:
    """NumPy's misses special cases of complex numbers."""
    return lambda x: NotImplemented if x.dtype.kind == "c" else ufunc(x)


def as_complex(x: Any) -> Any:
    """Of eigenvalues and eigenvectors: NumPy's may be real."""
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


def complex_(x: Any, y: Any) -> Any:
    """Part by part: arithmetic would spoil infinities and the sign of zero."""
    result = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), np.result_type(x, y, np.complex64))
    result.real, result.imag = x, y
    return result


def floor_divide(x: Any, y: Any) -> Any:
    """Where an infinity is involved NumPy follows Python, and the standard the quotient."""
    result = np.floor_divide(x, y)
    if result.dtype.kind not in "iu" and not np.isfinite(result + y).all():
        quotient = np.floor(np.true_divide(x, y))
        return np.where(np.isfinite(quotient) & np.isfinite(y), result, quotient)
    return result


_large_mean: Final = eager.reduction("mean")


def mean(x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
    """One sum, one division."""
    if x.size >= eager.SMALL and (found := _large_mean(x, axis=axis, keepdims=keepdims)) is not NotImplemented:
        return found
    total: Any = np.add.reduce(x, axis=axis, keepdims=keepdims)  # type: ignore[call-overload]
    return np.true_divide(total, x.size // total.size if total.size else x.size, dtype=total.dtype)


def reduced(ufunc: Any, name: str) -> Callable[..., Any]:
    """A reduction in the dtype of its operand: NumPy widens small integers, here the core does where a user asks."""
    reduce, large = ufunc.reduce, eager.reduction(name)

    def kernel(x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
        if x.size >= eager.SMALL and (found := large(x, axis=axis, keepdims=keepdims)) is not NotImplemented:
            return found
        total = reduce(x, axis, None, None, keepdims)
        return total if total.dtype is x.dtype else total.astype(x.dtype)

    return kernel


def scan(ufunc: Any, initial: int) -> Callable[..., Any]:
    """All prefixes, after `initial` if that is included."""

    def kernel(x: Any, *, axis: int, include_initial: bool) -> Any:
        if not include_initial:
            return ufunc.accumulate(x, axis=axis)
        shape = tuple(n + (each == axis) for each, n in enumerate(x.shape))
        result = np.full(shape, initial, x.dtype)
        rest = tuple(slice(1, None) if each == axis else slice(None) for each in range(x.ndim))
        ufunc.accumulate(x, axis=axis, out=result[rest])
        return as_half(result)

    return kernel


def broadcast_to(x: Any, *, shape: Shape) -> Any:
    """A 0-d array, the start of most sweeps, is repeated without NumPy's general (and slow) machinery."""
    if x.ndim:
        return np.broadcast_to(x, shape)
    result = (Half if x.__class__ is Half else np.ndarray)(shape, x.dtype, x, 0, (0,) * len(shape))
    result.flags.writeable = False
    return result


def spread(x: Any, *, shape: Shape) -> Any:
    """Fresh memory while that is small: ufuncs have twice the overhead on a broadcast view."""
    if x.ndim or math.prod(shape) > 4096:
        return broadcast_to(x, shape=shape)
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result.view(Half) if x.__class__ is Half else result


def full(*, shape: Shape, fill_value: Any, dtype: Any) -> Any:
    """Zeros come from the allocator for free."""
    empty = fill_value.__class__ is int and not fill_value
    result = (np.zeros if empty else np.empty)(shape, dtype)
    if not empty:
        result[...] = fill_value
    return result if dtype.itemsize != 2 else as_half(result)


def getitem(x: Any, *, key: tuple[Any, ...]) -> Any:
    """The trailing ellipsis makes a view even of one element."""
    return x[(*key, ...)]


def scatter(x: Any, values: Any, *, key: tuple[Any, ...]) -> Any:
    """Copy, then assign."""
    result = np.array(x, subok=True)
    result[key] = values
    return result


def getitem_gradient(g: Any, *, shape: tuple[int, ...], key: tuple[Any, ...]) -> Any:
    """Zeros, then assign."""
    result = np.zeros(shape, g.dtype)
    result[key] = g
    return result.view(Half) if g.__class__ is Half else result


def relu(x: Any) -> Any:
    """One pass."""
    return np.maximum(x, _ZEROS.get(x.dtype, 0))


def scalars(*facts: Any) -> Any:
    """A program of scalars as machine code, see `arithmetic`."""
    from micrograd_cpu.arithmetic import arithmetic  # which most programs need not wait for

    return arithmetic(*facts)


_INTEGER: Final = {np.dtype("float32"): np.dtype("int32"), np.dtype("float64"): np.dtype("int64")}


def relu_gradient(g: Any, out: Any) -> Any:
    """Through a bit mask, several times as fast as ``np.where``, and like it exact for infinite and NaN cotangents."""
    if g.__class__ in (int, float) or out.__class__ in (int, float):
        return NotImplemented
    positive, bits = np.greater(out, _ZEROS.get(out.dtype, 0)), _INTEGER.get(out.dtype)
    if bits is None or g.shape != out.shape or not g.ndim:
        return np.where(positive, g, out.dtype.type(0))
    mask = positive.astype(bits)
    np.negative(mask, out=mask)  # 0, or all ones
    return np.bitwise_and(mask, g.view(bits), out=mask).view(g.dtype)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    """The bias goes into the memory of the product."""
    product = matmul(x, weight.T)
    if not isinstance(bias, np.ndarray):
        return product if bias == 0 else product + bias
    return np.add(product, bias, out=product)


# ── selection by integers ────────────────────────────────────────────────────────────────────────────────────


def _from_start(op: str, indices: Any, shape: Shape, axis: int) -> Any:
    """As int64 from 0 on, after a look at whether they are in range."""
    indices = np.asarray(indices, np.int64)
    if indices.size:
        low, high = indices.min(), indices.max()
        if low < -shape[axis] or high >= shape[axis]:
            raise IndexingError(
                f"{op}: index {low if low < -shape[axis] else high} is out of range for axis {axis} of length "
                f"{shape[axis]} (shape {shape})"
            )
        if low < 0:
            return np.where(indices < 0, indices + shape[axis], indices)
    return indices


def take(x: Any, indices: Any, *, axis: int) -> Any:
    """NumPy's complaint is worded after the fact; what is not contiguous it would copy, of nothing take all."""
    indices = indices if indices.dtype.kind == "i" else indices.astype(np.int64)
    try:
        whole = x.flags.c_contiguous and x.size
        return np.take(x, indices, axis=axis) if whole else x[(slice(None),) * axis + (indices,)]
    except IndexError:
        _from_start("take", indices, x.shape, axis)
        raise


def take_along_axis(x: Any, indices: Any, *, axis: int) -> Any:
    """Likewise."""
    try:
        return np.take_along_axis(x, indices, axis=axis)
    except IndexError:
        _from_start("take_along_axis", indices, x.shape, axis)
        raise


def _flat(shape: Shape, indices: Any, axis: int) -> Any:
    """Positions in flat memory of what `indices`, of shape (before, count, after) or less, select."""
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return ((np.arange(before)[:, None, None] * shape[axis] + indices) * after + np.arange(after)).ravel()


def index_update(op: str, ufunc: Any) -> Callable[..., Any]:
    """In flat memory, where ``ufunc.at`` is several times as fast as on rows."""

    def kernel(x: Any, indices: Any, values: Any, *, axis: int) -> Any:
        result = np.array(x, order="C")
        at = _from_start(op, indices, x.shape, axis).reshape(1, -1, 1)
        values = np.broadcast_to(values, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
        ufunc.at(result.reshape(-1), _flat(x.shape, at, axis), values.ravel().astype(x.dtype, copy=False))
        return result

    return kernel


def add_along_axis(x: Any, indices: Any, values: Any, *, axis: int) -> Any:
    """Likewise."""
    shape = list(np.broadcast_shapes(*((*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (x, indices))))
    result = np.array(np.broadcast_to(x, (*shape[:axis], x.shape[axis], *shape[axis + 1 :])), order="C")
    shape[axis] = indices.shape[axis]
    at = np.broadcast_to(_from_start("add_along_axis", indices, result.shape, axis), shape)
    at = at.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    values = np.broadcast_to(values, shape).ravel().astype(x.dtype, copy=False)
    np.add.at(result.reshape(-1), _flat(result.shape, at, axis), values)
    return result


def index_set(x: Any, indices: Any, values: Any, *, axis: int) -> Any:
    """Copy, then assign; of several values for one position NumPy keeps the last."""
    return set_in_place(np.array(x, order="C"), indices, values, axis=axis)


def set_in_place(x: Any, indices: Any, values: Any, *, axis: int) -> Any:
    """Into memory that nobody else has."""
    x[(slice(None),) * axis + (_from_start("index_set", indices, x.shape, axis),)] = values
    return x


def last_position(indices: Any, *, length: int) -> Any:
    """Assignment, likewise."""
    result = np.full(length, -1, np.int64)
    result[_from_start("last_position", indices, (length,), 0).ravel()] = np.arange(indices.size)
    return result


def linear_index(*indices: Any, shape: Shape) -> Any:
    """Each axis is checked, then they are one."""
    total: Any = 0
    for axis, each in enumerate(indices):
        total = total * shape[axis] + _from_start("getitem", each, shape, axis)
    return total


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_order(x: Any, descending: bool) -> Any:
    """What sorts upwards: `x`, or its elements in the opposite order, which leaves NaN last."""
    return x if not descending else np.invert(x) if x.dtype.kind in "biu" else np.negative(x)


def argsort(x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """NumPy's."""
    return np.argsort(_in_order(x, descending), axis=axis, stable=stable)


def sort(x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """Equal elements look alike, so that any algorithm will do."""
    return _in_order(np.sort(_in_order(x, descending), axis=axis), descending)


_AT_ONCE: Final = {
    **NETWORKS, **PATCHES, **POOLINGS, **CONVOLUTIONS,
    "mean": mean,
    "add_along_axis": add_along_axis,
    "index_add": index_update("index_add", np.add),
    "index_max": index_update("index_max", np.maximum),
    "index_min": index_update("index_min", np.minimum),
    "index_scale": index_update("index_multiply", np.multiply),
}  # fmt: skip
"""Those that compute halves in float32 as a whole."""
KERNELS: Final[dict[str, Callable[..., Any]]] = {
    # NumPy's own, under the names of the standard
    **{
        name: getattr(np, name)
        for name in STANDARD
        if operation(name).kind == "elementwise" and isinstance(getattr(np, name, None), np.ufunc)
    },
    **{
        name: getattr(np, name)
        for name in "arange argmin argwhere count_nonzero exp2 isin repeat roll round searchsorted where".split()
    },
    "pow": power,
    "expm1": of_reals(np.expm1),
    "tanh": of_reals(np.tanh),
    "complex": complex_,
    "sum": reduced(np.add, "sum"),
    "max": reduced(np.maximum, "max"),
    "min": reduced(np.minimum, "min"),
    "any": np.logical_or.reduce,
    "all": np.logical_and.reduce,
    "var": eager.reduction("var"),
    "std": eager.reduction("std"),
    "prod": reduced(np.multiply, "prod"),
    "cumulative_sum": scan(np.add, 0),
    "cumulative_prod": scan(np.multiply, 1),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute_dims": lambda x, *, axes: x.transpose(axes),
    "fused": eager.fused,
    "expand_dims": lambda x, *, axis: np.expand_dims(x, axis),
    "copy": lambda x: np.array(x, order="C", subok=True),
    "square_gradient": lambda g, x: np.multiply(g, x + x) if hasattr(x, "dtype") else np.multiply(g + g, x),
    "eig": lambda x: tuple(map(as_complex, np.linalg.eig(x))),
    "eigvals": lambda x: as_complex(np.linalg.eigvals(x)),
    "real": lambda x: x.real.copy(),  # NumPy's are views
    "imag": lambda x: x.imag.copy(),
    **named(
        argsort, astype, broadcast_to, floor_divide, full, getitem, getitem_gradient, global_norm,
        index_set, last_position, linear, linear_index, matmul, relu, relu_gradient, scalars,
        scatter, sort, spread, take, take_along_axis,
    ),
    **{name: rounding_once(kernel) for name, kernel in _AT_ONCE.items()},
    **RECURRENT,
    **random.KERNELS,
}  # fmt: skip
KERNELS.update(eager.kernels(KERNELS))
