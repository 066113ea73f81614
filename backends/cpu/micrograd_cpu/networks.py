"""Kernels of networks: softmaxes, normalisation and losses in few passes over memory, float16 added up in float32."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import float32, int32
from micrograd_core.errors import IndexingError
from micrograd_core.ops.network.activations import CUBIC, FAR
from micrograd_core.ops.standard.random import place_of
from micrograd_cpu import eager
from micrograd_cpu.eager import compiled, declines
from micrograd_cpu.mathematics import ERF, ERFC, NORMAL, VANISHING
from micrograd_cpu.random import uniform

Shape = tuple[int, ...]

_sum: Any = np.add.reduce


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that computes 16-bit numbers in float32, and rounds once, at the end."""

    @functools.wraps(kernel)
    def widened(x: Any, *others: Any, **params: Any) -> Any:
        if x.dtype.itemsize > 2:
            return kernel(x, *others, **params)
        wide = (
            y.astype(np.float32) if isinstance(y, (np.ndarray, np.generic)) and y.dtype == x.dtype else y
            for y in others
        )
        return kernel(x.astype(np.float32), *wide, **params).astype(x.dtype)

    return widened


# ── activations ──────────────────────────────────────────────────────────────────────────────────────────────


@in_float32
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``: an exponential that overflows is one whose reciprocal is 0."""
    e = np.negative(x, out=...)
    with np.errstate(over="ignore"):
        np.exp(e, out=e)
    e += 1
    return np.reciprocal(e, out=e)


def _like_the_identity(ratio: Callable[[Any], Any]) -> Callable[..., Any]:
    """A kernel for ``x / ratio(exp(-x))``, which on the left becomes ``x exp(x)``: of that the digits are kept.

    There the exponential overflows, which NumPy notes for nothing, and `ratio` computes in its memory.
    """

    @in_float32
    def kernel(x: Any) -> Any:
        e = np.negative(x, out=...)
        try:
            with np.errstate(over="raise"):
                np.exp(e, out=e)
        except FloatingPointError:
            near, far = np.maximum(x, FAR), np.minimum(x, FAR)
            tail = far * np.exp(far + 8) * math.exp(-8)  # the sum is exact, and its exponential not subnormal
            return np.where(x < FAR, tail, near / ratio(np.exp(-near, out=...)))
        e = ratio(e)
        return np.divide(x, e, out=e)

    return kernel


def _of_silu(e: Any) -> Any:
    """``1 + e``."""
    e += 1
    return e


def _of_mish(e: Any) -> Any:
    """``1 / tanh(log(1 + 1 / e)) = 1 + e e / (e + 1/2)``."""
    part = np.add(e, 0.5, out=..., dtype=e.dtype)
    np.divide(e, part, out=part)
    e *= part
    e += 1
    return e


silu, mish = _like_the_identity(_of_silu), _like_the_identity(_of_mish)


@in_float32
def silu_gradient(g: Any, x: Any) -> Any:
    """``g s (1 + x (1 - s))``."""
    s = sigmoid(x)
    t = np.subtract(1, s, out=..., dtype=s.dtype)
    t *= x
    t += 1
    t *= s
    return np.multiply(t, g)


@in_float32
def softplus(x: Any) -> Any:
    """``max(x, 0) + log(1 + exp(-|x|))``."""
    e = np.abs(x, out=...)
    np.negative(e, out=e)
    np.exp(e, out=e)
    np.log1p(e, out=e)
    e += np.maximum(x, 0, dtype=e.dtype)
    return e


def _columns(*polynomials: Any, type: Any = np.float64) -> Any:
    """A column for each, by falling powers; `_polynomials` takes them. They are given by rising ones."""
    return np.array([*zip_longest(*polynomials, fillvalue=0.0)], type)[::-1, :, None]


def _polynomials(x: Any, columns: Any) -> Any:
    """Several polynomials side by side, by Horner's scheme, in place."""
    first, *rest = columns
    total = np.empty((len(first), x.size), columns.dtype)
    total[:] = first
    x = x.ravel()
    for each in rest:
        total *= x
        total += each
    return total


def _polynomial(x: Any, columns: Any) -> Any:
    """One polynomial, of which the columns have even and odd powers."""
    even, odd = _polynomials(np.square(x), columns).reshape(2, *x.shape)
    odd *= x
    odd += even
    return odd


_ERF: Final = _columns(ERF["double"][::2], ERF["double"][1::2])
_ERFC: Final = _columns(ERFC["double"][1][1::2], ERFC["double"][1][2::2])
_NORMAL: Final = _columns(*NORMAL["float"])


def _tail(y: Any, x: Any, half: float, scale: Any = 1.0) -> Any:
    """``scale * exp(-x**2 * half) * exp(y**2) * erfc(y)`` of float64 numbers ``y >= 0``.

    What the square of `x`, and a polynomial and a sum in `y`, round off is put back. The exponential comes last: it is
    subnormal sooner.
    """
    at, (first, *_) = ERFC["double"]
    t = (y - at) / (y + at)
    slope = t * _polynomial(t, _ERFC)
    p, twice = slope + first, y + y
    below = twice + 1
    part = p / below
    lost = (first - p) + slope - part * (np.minimum(twice, 1) - (below - np.maximum(twice, 1)))
    coarse = np.rint(x * 2.0**20) * 2.0**-20  # its square is exact
    part += part * np.expm1((coarse - x) * (coarse + x) * half) + lost / below
    return part * scale * np.exp(np.square(coarse) * -half)


def _error_function(complement: bool) -> Callable[..., Any]:
    """`erf` or `erfc`, each approximation only where it holds; of float32 in float64."""

    @in_float32
    def kernel(x: Any) -> Any:
        flat = np.ravel(x).astype(np.float64, copy=False)
        y = np.abs(flat)
        out = np.empty_like(flat)
        small = y < (0.5 if complement else 1.0)
        near = flat[small]
        share = near * _polynomial(np.square(near), _ERF)
        out[small] = (1 - near) - share if complement else near + share
        large = ~small
        y, negative = np.minimum(y[large], VANISHING["double"]), flat[large] < 0
        tail = _tail(y, y, 1.0)
        if complement:
            out[large] = np.where(negative, 2 - tail, tail)
        else:
            out[large] = np.copysign(1 - tail, flat[large])
        return out.reshape(x.shape).astype(x.dtype, copy=False)

    return kernel


erf, erfc = _error_function(False), _error_function(True)


# exp(z**2) erfc(z) / t in t = 1 / (1 + 0.4 z), by falling powers: our own minimax fit, relative error below 1.3e-7, so
# that with the rounding of float32 it is below 5e-7.
_SCALED_ERFC: Final = (
    0.050256592, -0.182881615, 0.169056843, -0.00558639448, 0.141422913, 0.168543808, 0.20784251, 0.225669606,
    0.225675862,
)  # fmt: skip
_SCALED: Final = _columns(_SCALED_ERFC[::-2], _SCALED_ERFC[-2::-2], type=np.float32)


def _normal(x: Any) -> tuple[Any, Any]:
    """The standard normal distribution function, and ``exp(-x**2 / 2)``."""
    gauss = np.square(x)
    gauss *= -0.5
    np.exp(gauss, out=gauss)
    if x.dtype != np.float32:
        return erfc(x * -(0.5**0.5)) * 0.5, gauss
    t = np.abs(x)
    t *= np.float32(0.4 * 0.5**0.5)
    t += 1
    np.reciprocal(t, out=t)
    tail = _polynomial(t, _SCALED)
    tail *= t
    tail *= gauss  # 2 * (1 - Phi(|x|)), of which twice the half is taken
    tail *= 0.5
    return np.where(x > 0, 1 - tail, tail), gauss


def _normal_composed(k: Any, x: Any) -> tuple[Any, Any]:
    """The same for float32, of primitives."""
    gauss = k.exp(k.multiply(k.multiply(x, x), -0.5))
    t = k.divide(1, k.add(k.multiply(k.abs(x), 0.4 * 0.5**0.5), 1))
    terms, power = list[Any](reversed(_SCALED_ERFC)), t
    while len(terms) > 1:  # in pairs: processors compute what does not wait for each other at once
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [k.add(k.multiply(power, odd), even) for even, odd in pairs] + terms[len(terms) // 2 * 2 :]
        power = k.multiply(power, power)
    tail = k.multiply(k.multiply(t, gauss), k.multiply(terms[0], 0.5))
    return k.where(k.less(0, x), k.subtract(1, tail), tail), gauss


def _gelu_gradient_composed(k: Any, g: Any, x: Any, *, approximate: str) -> Any:
    if approximate != "none" or x.dtype is not float32:
        return k.gelu_gradient(g, x, approximate=approximate)
    cdf, gauss = _normal_composed(k, x)
    return k.multiply(g, k.add(cdf, k.multiply(k.multiply(gauss, (2 * math.pi) ** -0.5), x)))


_MOST: Final[dict[Any, Any]] = {np.dtype(type): np.finfo(type).max for type in (np.float32, np.float64)}
_BEYOND: Final = 53.0  # where exp(-y**2 / 2) is 0 in any dtype


def times_normal(x: Any, y: Any) -> Any:
    """Of arrays. Infinities stay where they do not meet a 0."""
    if x.__class__ is float or y.__class__ is float:
        return NotImplemented
    found, infinite = np.copysign(_times_normal(x, y), x), np.isinf(x)
    limits = np.where(np.greater(y, -math.inf), x, math.nan)
    return np.where(infinite, limits, found) if infinite.any() else found


@in_float32
def _times_normal(x: Any, y: Any) -> Any:
    """``p = x exp(-y**2 / 2) R(|y|)``; on the right ``x - p``. float32 numbers are computed in float64."""
    size = np.abs(y, dtype=np.float64, out=...)
    np.minimum(size, _BEYOND, out=size)
    most = np.minimum(x, _MOST[x.dtype])  # which leaves `x`, infinity too, where it is subtracted
    if y.dtype == np.float64:
        p = _tail(size * 0.5**0.5, size, 0.5, most * 0.5)
    else:
        above, below = _polynomials(size, _NORMAL).reshape(2, *y.shape)
        p = above / below * most
        np.square(size, out=size)
        size *= -0.5
        p = p * np.exp(size)
    p = np.asarray(p).astype(y.dtype, copy=False)
    return np.subtract(x, p, out=p, where=y > 0)


@in_float32
def gelu(x: Any, *, approximate: str) -> Any:
    """By `times_normal`, or in the memory of the sigmoid."""
    if approximate == "none":
        return _times_normal(x, x)
    cdf = sigmoid(_tanh_argument(x))
    cdf *= x
    return cdf


@in_float32
def gelu_gradient(g: Any, x: Any, *, approximate: str) -> Any:
    """``g (Phi + x phi)``, or of the tanh form ``g (s + x s (1 - s) u')``."""
    if approximate == "none":
        cdf, slope = _normal(np.atleast_1d(x))
        slope *= (2 * math.pi) ** -0.5
    else:
        cdf = sigmoid(_tanh_argument(np.atleast_1d(x)))
        slope = np.square(x)
        slope *= 3 * CUBIC
        slope += 1
        slope *= 2 * (2 / math.pi) ** 0.5
        slope *= cdf
        slope *= 1 - cdf
    slope *= x
    slope += cdf
    slope *= g
    return slope.reshape(x.shape)


def _tanh_argument(x: Any) -> Any:
    """Twice that of the tanh: it goes into a sigmoid."""
    u = np.square(x, out=...)
    u *= CUBIC
    u += 1
    u *= 2 * (2 / math.pi) ** 0.5
    u *= x
    return u


# ── softmax ──────────────────────────────────────────────────────────────────────────────────────────────────


@in_float32
def softmax(x: Any, *, axis: int) -> Any:
    """Exponentials and quotient in the memory of the difference."""
    if not x.size:
        return x.copy()
    e = np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=...)
    np.exp(e, out=e)
    return np.divide(e, _sum(e, axis=axis, keepdims=True), out=e)


@in_float32
def softmax_gradient(g: Any, p: Any, *, axis: int) -> Any:
    """``p (g - sum(g p))``, the product in the memory of the difference."""
    total = _sum(np.multiply(g, p), axis=axis, keepdims=True)
    difference = np.subtract(g, total, out=...)
    return np.multiply(difference, p, out=difference)


@in_float32
def log_softmax(x: Any, *, axis: int) -> Any:
    """The result in the memory of the difference."""
    if not x.size:
        return x.copy()
    shifted = np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=...)
    return np.subtract(shifted, np.log(_sum(np.exp(shifted), axis=axis, keepdims=True)), out=shifted)


def _dropout_composed(k: Any, x: Any, place: Any, *, p: float) -> Any:
    drawn = k.random_uniform_from(place, shape=x.shape, dtype=float32)
    return k.where(k.less(drawn, p), 0, k.multiply(x, 1 / (1 - p)))


_dropout = compiled(_dropout_composed, declines, _dropout_composed)


def dropout(x: Any, *, p: float, key: int, block: int) -> Any:
    """Scaled, and overwritten with zeros where the numbers drawn are below `p`."""
    if p == 0:
        return np.array(x, order="C")
    if x.size >= eager.SMALL:
        found = _dropout(x, np.array(place_of(key, block), "uint64"), p=p)
        if found is not NotImplemented:
            return found
    out = np.multiply(x, 1 / (1 - p), out=..., dtype=x.dtype)
    drawn = uniform(shape=x.shape, dtype=np.dtype(np.float32), key=key, block=block)
    np.copyto(out, 0, where=drawn < p)
    return out


# ── normalisation ────────────────────────────────────────────────────────────────────────────────────────────


def _mean_product(x: Any, y: Any, axis: Shape) -> Any:
    """Mean of ``x * y`` over some axes, which stay with length 1; over the last one without an array of products."""
    if axis == (x.ndim - 1,):
        total = np.einsum("...i,...i->...", x, y)[..., None]
        return total / max(x.shape[-1], 1)
    return _mean(np.multiply(x, y), axis)


def _mean(x: Any, axis: Shape) -> Any:
    total = _sum(x, axis=axis, keepdims=True)
    return total / max(x.size // max(total.size, 1), 1)


def _standardized(x: Any, axis: Shape, eps: float) -> tuple[Any, Any]:
    """Standardised numbers, and the reciprocals of their deviations."""
    y = np.subtract(x, _mean(x, axis), out=...)
    scale = _mean_product(y, y, axis)
    scale = 1 / np.sqrt(scale + eps, dtype=x.dtype)
    y *= scale
    return y, scale


@in_float32
def standardize(x: Any, *, axis: Shape, eps: float) -> Any:
    """In the memory of the deviations from the mean."""
    return _standardized(x, axis, eps)[0]


@in_float32
def standardize_gradient(g: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    """``(g - mean(g) - y mean(g y)) / deviation``, in the memory of `y`."""
    if np.ndim(weight) or weight != 1:
        g = np.multiply(g, weight)
    return _through_standardized(g, *_standardized(x, axis, eps), axis)


def layer_norm_gradients(g: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    """The numbers are standardised once for all three."""
    if x.dtype.itemsize == 2 or x.ndim == len(axis):
        return NotImplemented
    others = tuple(range(x.ndim - len(axis)))
    y, scale = _standardized(x, axis, eps)
    by_weight, by_bias = (_sum(each, axis=others) for each in (np.multiply(g, y), g))
    return _through_standardized(np.multiply(g, weight), y, scale, axis), by_weight, by_bias


def batch_norm_gradients(g: Any, x: Any, weight: Any, *, eps: float) -> Any:
    """Likewise; means of two products are what the weight and the bias get."""
    if x.dtype.itemsize == 2:
        return NotImplemented
    axis = (0, *range(2, x.ndim))
    y, scale = _standardized(x, axis, eps)
    by_weight, by_bias = (_sum(each, axis=axis) for each in (np.multiply(g, y), g))
    scale *= np.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    return _through_standardized(g, y, scale, axis), by_weight, by_bias


def _through_standardized(g: Any, y: Any, scale: Any, axis: Shape) -> Any:
    """In the memory of `y`."""
    y *= _mean_product(g, y, axis)
    y += _mean(g, axis)
    np.subtract(g, y, out=y)
    y *= scale
    return y


@in_float32
def layer_norm(x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float) -> Any:
    """Weight and bias go into the memory of the standardised numbers."""
    return _scaled_and_moved(_standardized(x, axis, eps)[0], weight, bias)


def _scaled_and_moved(y: Any, weight: Any, bias: Any) -> Any:
    """In the memory of `y`."""
    if np.ndim(weight) or weight != 1:
        y *= weight
    if np.ndim(bias) or bias != 0:
        y += bias
    return y


@in_float32
def batch_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float) -> Any:
    """By the statistics of the batch, or those given, in the memory of the deviations."""
    along = (-1, *(1,) * (x.ndim - 2))
    weight, bias = (np.reshape(each, along) if np.ndim(each) else each for each in (weight, bias))
    if training:
        y = _standardized(x, (0, *range(2, x.ndim)), eps)[0]
    else:
        mean, var = (np.reshape(each, along) if np.ndim(each) else each for each in (mean, var))
        y = np.subtract(x, mean, out=..., dtype=x.dtype)
        y *= np.asarray(1 / np.sqrt(np.add(var, eps)), x.dtype)
    return _scaled_and_moved(y, weight, bias)


# ── embedding ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_rows(op: str, indices: Any, count: int) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise IndexingError(
            f"{op}: indices must be from 0 to {count - 1}; they range from {indices.min()} to {indices.max()}"
        )


def embedding(indices: Any, weight: Any) -> Any:
    """Rows are copied."""
    _check_rows("embedding", indices, weight.shape[0])
    return np.take(weight, indices, axis=0)


@in_float32
def embedding_gradient(g: Any, indices: Any, *, num_embeddings: int) -> Any:
    """Sorted by index, the rows of each lie together, and are summed as a run."""
    _check_rows("embedding_gradient", indices, num_embeddings)
    out = np.zeros((num_embeddings, g.shape[-1]), g.dtype)
    if indices.size:
        flat = np.ravel(indices)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        out[ordered[starts]] = np.add.reduceat(g.reshape(-1, g.shape[-1])[order], starts, axis=0)
    return out


# ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────

_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def _class_axis(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def _classes(op: str, targets: Any, count: int, ignore_index: int) -> tuple[Any, Any]:
    """Indices that all name a class, and where they count: an array of bools, or ``None`` for everywhere."""
    if not targets.size:
        return targets, None
    unsigned = targets.view(_UNSIGNED[targets.itemsize])  # of which a negative index is a great one
    if not 0 <= ignore_index < count and unsigned.item(unsigned.argmax()) < count:  # in a third of the time of max()
        return targets, None
    low, high = targets.min(), targets.max()
    counts = targets != ignore_index
    targets = np.where(counts, targets, 0)
    if not 0 <= targets.min() <= targets.max() < count:
        raise IndexingError(
            f"{op}: targets must be class indices from 0 to {count - 1}, or ignore_index ({ignore_index}); "
            f"they range from {low} to {high}"
        )
    return targets, counts


def _at_targets(x: Any, targets: Any, axis: int) -> tuple[Any, ...]:
    """The key of each position's target class."""
    positions = (np.arange(targets.size),) if targets.ndim == 1 else np.ix_(*map(np.arange, targets.shape))
    return (*positions[:axis], targets, *positions[axis:])


def _along(weight: Any, axis: int, ndim: int) -> Any:
    """Class weights along the axis of the classes."""
    return np.reshape(weight, (-1,) + (1,) * (ndim - axis - 1)) if np.ndim(weight) else weight


def _own_weight(weight: Any, targets: Any, counts: Any) -> Any:
    """Of each position's class: 0 where it does not count, and 1 (rather than an array of it) where that is all."""
    own = weight[targets] if np.ndim(weight) else weight
    return own if counts is None else np.where(counts, own, 0).astype(getattr(weight, "dtype", "float32"))


def _total(own: Any, targets: Any, reduction: str) -> Any:
    """What a sum of losses is divided by."""
    if reduction != "mean":
        return 1
    total = _sum(own, axis=None, dtype=np.float64) if np.ndim(own) else own * targets.size
    return float(total) if total else math.nan


def _reduced(losses: Any, total: Any, reduction: str) -> Any:
    return losses if reduction == "none" else np.divide(_sum(losses, axis=None), total, dtype=losses.dtype)


def _expected(
    op: str, log_p: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """Looks up the targets' log-probabilities, rather than masking all others."""
    axis = _class_axis(log_p)
    count = log_p.shape[axis]
    if targets.dtype.kind not in "iu":
        shares = targets * (1 - label_smoothing) + label_smoothing / count
        terms = np.multiply(shares, _along(weight, axis, log_p.ndim), dtype=log_p.dtype)
        losses = np.negative(_sum(np.multiply(terms, np.where(terms == 0, 0, log_p)), axis=axis))
        return _reduced(losses, (losses.size or math.nan) if reduction == "mean" else 1, reduction)
    targets, counts = _classes(op, targets, count, ignore_index)
    losses = np.negative(log_p[_at_targets(log_p, targets, axis)])
    if not label_smoothing:
        return _weighed(losses, targets, counts, weight, reduction)
    own = _own_weight(weight, targets, counts)
    even = _sum(log_p * _along(weight, axis, log_p.ndim), axis=axis) * (-label_smoothing / count)
    losses = np.multiply(losses, own, dtype=losses.dtype) * (1 - label_smoothing)
    losses = np.asarray(losses + (even if counts is None else np.where(counts, even, 0)))
    return _reduced(losses, _total(own, targets, reduction), reduction)


def _weighed(losses: Any, targets: Any, counts: Any, weight: Any, reduction: str) -> Any:
    """Losses times the weights of their classes, reduced; 0 where they do not count, even if infinite."""
    own = _own_weight(weight, targets, counts)
    if np.ndim(own) or own != 1:
        losses = np.multiply(losses, own, dtype=losses.dtype)
    if counts is not None:
        losses = np.where(counts, losses, 0).astype(losses.dtype)
    return _reduced(losses, _total(own, targets, reduction), reduction)


def _exponentials(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """``exp(x - max)``, its sum, and the maximum."""
    top = np.maximum.reduce(x, axis=axis, keepdims=True)
    e = np.subtract(x, top, out=...)
    np.exp(e, out=e)
    return e, _sum(e, axis=axis, keepdims=True), top


def _aimed_at(k: Any, x: Any, targets: Any, axis: int) -> Any:
    """Whether each class is the target of its position."""
    classes = k.reshape(k.arange(x.shape[axis], dtype=int32), shape=(x.shape[axis],) + (1,) * (len(x.shape) - axis - 1))
    return k.equal(k.expand_dims(k.astype(targets, dtype=int32), axis=(axis,)), classes)


def _losses_composed(k: Any, x: Any, targets: Any, *, axis: int, reduction: str) -> Any:
    top, axes = k.max(x, axis=(axis,), keepdims=True), (axis,)
    level = k.log(k.sum(k.exp(k.subtract(x, top)), axis=axes, keepdims=False))
    own = k.sum(k.where(_aimed_at(k, x, targets, axis), x, 0), axis=axes, keepdims=False)
    losses = k.subtract(level, k.subtract(own, k.squeeze(top, axis=axes)))
    if reduction == "none":
        return losses
    total = k.sum(losses, axis=None, keepdims=False)
    return k.divide(total, math.prod(targets.shape)) if reduction == "mean" else total


def _losses(x: Any, targets: Any, *, axis: int, reduction: str) -> Any:
    """The cross-entropy of classes that all count the same."""
    _, sums, top = _exponentials(x, axis)
    losses = np.squeeze(np.log(sums), axis) - (x[_at_targets(x, targets, axis)] - np.squeeze(top, axis))
    return _reduced(losses, losses.size if reduction == "mean" else 1, reduction)


def _errors_composed(k: Any, x: Any, g: Any, targets: Any, *, axis: int, reduction: str) -> Any:
    share = k.divide(g, math.prod(targets.shape)) if reduction == "mean" else g
    share = k.expand_dims(share, axis=(axis,)) if reduction == "none" else share
    own = k.where(_aimed_at(k, x, targets, axis), share, 0)
    return k.subtract(k.multiply(k.softmax(x, axis=axis), share), own)


def _errors(x: Any, g: Any, targets: Any, *, axis: int, reduction: str) -> Any:
    """Its gradient: the probabilities, less 1 at the targets, times what each position's cotangent is."""
    share = np.divide(g, targets.size, dtype=x.dtype) if reduction == "mean" else g
    p, sums, _ = _exponentials(x, axis)
    np.multiply(p, np.divide(np.expand_dims(share, axis) if reduction == "none" else share, sums), out=p)
    p[_at_targets(x, targets, axis)] -= share
    return p


losses_of = compiled(_losses_composed, _losses)
errors_of = compiled(_errors_composed, _errors)


@in_float32
def cross_entropy(
    x: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """Without the log-softmax of classes that are nobody's target, where that is possible."""
    axis = _class_axis(x)
    if label_smoothing or targets.dtype.kind not in "iu" or not x.size:
        log_p = log_softmax(x, axis=axis)
        return _expected("cross_entropy", log_p, targets, weight, ignore_index, label_smoothing, reduction)
    targets, counts = _classes("cross_entropy", targets, x.shape[axis], ignore_index)
    if counts is None and weight.__class__ is float and weight == 1:  # as nearly always
        return losses_of(x, targets, axis=axis, reduction=reduction)
    losses = losses_of(x, targets, axis=axis, reduction="none")
    return _weighed(losses, targets, counts, weight, reduction)


@in_float32
def nll_loss(x: Any, targets: Any, weight: Any, *, ignore_index: int, reduction: str) -> Any:
    """Of log-probabilities."""
    return _expected("nll_loss", x, targets, weight, ignore_index, 0.0, reduction)


@in_float32
def cross_entropy_gradient(
    g: Any, x: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """The probabilities, less the shares of the targets: in the memory of the probabilities."""
    axis = _class_axis(x)
    count, indices = x.shape[axis], targets.dtype.kind in "iu"
    if indices:
        targets, counts = _classes("cross_entropy", targets, count, ignore_index)
        if counts is None and weight.__class__ is float and weight == 1 and not label_smoothing and x.size:
            return errors_of(x, g, targets, axis=axis, reduction=reduction)  # as nearly always
    by_class = _along(weight, axis, x.ndim)
    if not indices:
        shares = np.multiply(targets * (1 - label_smoothing) + label_smoothing / count, by_class, dtype=x.dtype)
        p = softmax(x, axis=axis)
        p *= _sum(shares, axis=axis, keepdims=True)
        p -= shares
        share = np.divide(g, (x.size // count or math.nan) if reduction == "mean" else 1)
        return np.multiply(p, np.expand_dims(share, axis) if reduction == "none" else share, out=p)
    own = _own_weight(weight, targets, counts)
    total = _total(own, targets, reduction)
    each = np.broadcast_to(np.divide(g, total) if total == total else 0.0, targets.shape)  # position's cotangent
    if counts is not None:
        each = np.where(counts, each, 0)
    p, sums, _ = _exponentials(x, axis) if x.size else (x.copy(), 1, None)
    share, even = each * own * (1 - label_smoothing), label_smoothing / count
    whole = share + each * (even * _sum(np.broadcast_to(weight, (count,)))) if label_smoothing else share
    p *= np.divide(np.expand_dims(whole, axis), sums, dtype=p.dtype)
    p[_at_targets(x, targets, axis)] -= share
    if label_smoothing:
        p -= np.expand_dims(each, axis) * by_class * even
    return p if counts is None else np.where(np.expand_dims(counts, axis), p, 0).astype(p.dtype)


COMPOSED: Final[dict[str, Callable[..., Any]]] = {"gelu_gradient": _gelu_gradient_composed}
"""A shorter composition than that of the op table, with the digits that float32 has."""

NETWORKS: Final[dict[str, Callable[..., Any]]] = {
    "batch_norm": batch_norm,
    "batch_norm_gradients": batch_norm_gradients,
    "cross_entropy": cross_entropy,
    "cross_entropy_gradient": cross_entropy_gradient,
    "dropout": dropout,
    "embedding": embedding,
    "embedding_gradient": embedding_gradient,
    "erf": erf,
    "erfc": erfc,
    "gelu": gelu,
    "gelu_gradient": gelu_gradient,
    "layer_norm": layer_norm,
    "layer_norm_gradients": layer_norm_gradients,
    "log_softmax": log_softmax,
    "mish": mish,
    "nll_loss": nll_loss,
    "sigmoid": sigmoid,
    "silu": silu,
    "silu_gradient": silu_gradient,
    "softmax": softmax,
    "softmax_gradient": softmax_gradient,
    "softplus": softplus,
    "standardize": standardize,
    "standardize_gradient": standardize_gradient,
    "times_normal": times_normal,
}
