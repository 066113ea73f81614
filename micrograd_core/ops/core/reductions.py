"""Reductions over axes. Kernels receive ``axis`` as a tuple of non-negative integers, or ``None`` for all of them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import DType, bool_, int64, uint64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, reduced_shape, resolve_axes, resolve_axis
from micrograd_core.ops.record import ANY, FLOATING, INEXACT, NUMERIC, REAL, Array, Op, Sample
from micrograd_core.ops.shared import in_float32, to_bool, to_int64
from micrograd_core.ops.tangents import linear, reduction

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


def restore_axes(k: Table, g: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """`g`, the shape of `x` reduced over `axis`, with the reduced axes back as axes of length 1."""
    if keepdims or axis is None:  # a 0-d array broadcasts as it is
        return g
    return k.reshape(g, shape=reduced_shape(x.shape, axis, True))


def count(x: Any, axis: Any) -> int:
    """How many elements one result combines."""
    return math.prod(x.shape) if axis is None else math.prod(x.shape[each] for each in axis)


def _reduction(name: str, *, empty: bool = True) -> Any:
    """The parameters of a reduction; ``empty=False`` where no result exists without elements."""

    def parameters(x: Any, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> dict[str, Any]:
        axis = resolve_axes(name, axis, len(x.shape))
        if not empty and count(x, axis) == 0:
            raise ShapeError(f"{name}: no result exists for zero elements (shape {x.shape}, axis {axis})")
        return {"axis": axis, "keepdims": bool(keepdims)}

    return parameters


def _with_correction(name: str) -> Any:
    def parameters(
        x: Any, /, axis: int | tuple[int, ...] | None = None, *, correction: float = 0.0, keepdims: bool = False
    ) -> dict[str, Any]:
        axis = resolve_axes(name, axis, len(x.shape))
        return {"axis": axis, "correction": float(correction), "keepdims": bool(keepdims)}

    return parameters


def _position(name: str) -> Any:
    def parameters(x: Any, /, axis: int | None = None, keepdims: bool = False) -> dict[str, Any]:
        axis = None if axis is None or (not x.shape and axis in (0, -1)) else resolve_axis(name, axis, len(x.shape))
        if count(x, None if axis is None else (axis,)) == 0:
            raise ShapeError(f"{name}: no result exists for zero elements (shape {x.shape}, axis {axis})")
        return {"axis": axis, "keepdims": bool(keepdims)}

    return parameters


def accumulator(dtype: DType) -> DType:
    """Integer sums are at least 64 bits wide (array API standard, ``sum``)."""
    if dtype.is_floating:
        return dtype
    return uint64 if dtype.kind == "unsigned integer" else int64


_SAMPLES = (
    Sample(Array((2, 3))),
    Sample(Array((2, 3, 4)), axis=1),
    Sample(Array((2, 3, 4)), axis=(0, -1)),
    Sample(Array((2, 3)), axis=-1, keepdims=True),
    Sample(Array((2, 3)), keepdims=True),
    Sample(Array(())),
)
_ZERO_LENGTH = (Sample(Array((0, 3))), Sample(Array((2, 0)), axis=0), Sample(Array((2, 0)), axis=1))
_POSITIONS = (
    Sample(Array((2, 3))),
    Sample(Array((4, 3), 0, 2, "int32"), axis=0),
    Sample(Array((2, 3)), axis=-1, keepdims=True),
)


def _sum_rule(k: Table, g: Any, out: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    if axis is not None:  # a 0-d array broadcasts as it is
        g = restore_axes(k, g, x, axis, keepdims)
    return k.spread(g, shape=x.shape)


def _mean_rule(k: Table, g: Any, out: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    share = 1 / max(count(x, axis), 1)  # the count itself may be too large for float16
    return k.spread(k.multiply(restore_axes(k, g, x, axis, keepdims), share), shape=x.shape)


@in_float32
def _mean(k: Table, x: Any, *, axis: Any, keepdims: bool) -> Any:
    return k.divide(k.sum(x, axis=axis, keepdims=keepdims), count(x, axis))


def _extremum_rule(k: Table, g: Any, out: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """Elements tied for the extremum share its gradient evenly; NaN ones, which win, likewise."""
    tied = k.logical_or(k.equal(x, restore_axes(k, out, x, axis, keepdims)), k.isnan(x))
    winners = k.sum(k.astype(tied, dtype=x.dtype), axis=axis, keepdims=True)
    return k.where(tied, k.divide(restore_axes(k, g, x, axis, keepdims), winners), 0)


def _min(k: Table, x: Any, *, axis: Any, keepdims: bool) -> Any:
    flip = k.negative if k.dtype(x).is_floating else k.bitwise_invert
    return flip(k.max(flip(x), axis=axis, keepdims=keepdims))


def _deviations(k: Table, x: Any, axis: Any) -> Any:
    return k.subtract(x, k.mean(x, axis=axis, keepdims=True))


def _divisor(x: Any, axis: Any, correction: float) -> float:
    """Degrees of freedom; where there are none the quotient is NaN, as in the array API standard."""
    return max(count(x, axis) - correction, 0) or math.nan


@in_float32
def _var(k: Table, x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    total = k.sum(k.square(_deviations(k, x, axis)), axis=axis, keepdims=keepdims)
    return k.divide(total, _divisor(x, axis, correction))


@in_float32
def _var_rule(k: Table, g: Any, out: Any, x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    scale = k.multiply(restore_axes(k, g, x, axis, keepdims), 2 / _divisor(x, axis, correction))
    return k.multiply(_deviations(k, x, axis), scale)


@in_float32
def _std_rule(k: Table, g: Any, out: Any, x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    """``(x - mean) / (n std)``, and 0 where there is no deviation: 0 / inf is, and so are its derivatives."""
    spread = restore_axes(k, out, x, axis, keepdims)
    flat = k.equal(spread, 0)
    spread = k.multiply(k.where(flat, math.inf, spread), _divisor(x, axis, correction))
    share = k.divide(k.where(flat, 0, restore_axes(k, g, x, axis, keepdims)), spread)
    return k.multiply(_deviations(k, x, axis), share)


def _argmax(k: Table, x: Any, *, axis: int | None, keepdims: bool) -> Any:
    """The first position of the maximum: of the positions where it stands, the one furthest from the end."""
    if axis is None:
        flat = k.argmax(k.reshape(x, shape=(count(x, None),)), axis=0, keepdims=False)
        return k.reshape(flat, shape=(1,) * len(x.shape)) if keepdims else flat
    length = x.shape[axis]
    here = k.equal(x, k.max(x, axis=(axis,), keepdims=True))
    if k.dtype(x).is_floating:
        here = k.logical_or(here, k.isnan(x))  # the maximum is NaN where any element is, and stands there
    shape = tuple(length if each == axis else 1 for each in range(len(x.shape)))
    from_end = k.reshape(k.arange(length, dtype=int64), shape=shape)
    from_end = k.subtract(length, from_end)  # length .. 1; 0 marks other elements
    furthest = k.max(k.where(here, from_end, 0), axis=(axis,), keepdims=keepdims)
    return k.subtract(length, furthest)


def _argmin(k: Table, x: Any, *, axis: int | None, keepdims: bool) -> Any:
    flip = k.negative if k.dtype(x).is_floating else k.bitwise_invert
    return k.argmax(flip(x), axis=axis, keepdims=keepdims)


def _cut(k: Table, x: Any, axis: int, start: int, stop: int) -> Any:
    """``x[..., start:stop, ...]``."""
    key = tuple(slice(start, stop, 1) if each == axis else slice(0, n, 1) for each, n in enumerate(x.shape))
    return k.getitem(x, key=key)


def _prod(k: Table, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """Halves multiplied until one element is left: no division, and so right gradients where elements are 0."""
    axes = tuple(range(len(x.shape))) if axis is None else axis
    kept = [each for each in range(len(x.shape)) if each not in axes]
    result = reduced_shape(x.shape, axes, keepdims)
    left = tuple(x.shape[each] for each in kept)
    x = k.reshape(k.permute_dims(x, axes=(*kept, *axes)), shape=(*left, count(x, axes)))
    last = len(kept)
    if not x.shape[last]:
        return k.reshape(k.add(k.sum(x, axis=(last,), keepdims=False), 1), shape=result)
    while x.shape[last] > 1:
        half, odd = divmod(x.shape[last], 2)
        y = k.multiply(_cut(k, x, last, 0, half), _cut(k, x, last, half, 2 * half))
        x = k.concat(y, _cut(k, x, last, 2 * half, 2 * half + 1), axis=last) if odd else y
    return k.positive(k.reshape(x, shape=result))


def _scan_parameters(name: str) -> Any:
    def parameters(x: Any, /, axis: int | None = None, *, include_initial: bool = False) -> dict[str, Any]:
        if axis is None and len(x.shape) != 1:
            raise ShapeError(f"{name}: say along which axis; only of 1-d tensors it may be left out (shape {x.shape})")
        axis = 0 if axis is None else resolve_axis(name, axis, len(x.shape))
        return {"axis": axis, "include_initial": bool(include_initial)}

    return parameters


def _scan(combine: str, initial: int) -> Any:
    """All prefixes in ``log2(n)`` steps (W. D. Hillis, G. L. Steele, 1986), which keeps rounding errors small too."""

    def compose(k: Table, x: Any, *, axis: int, include_initial: bool) -> Any:
        length, step = x.shape[axis], 1
        if include_initial:
            shape = tuple(1 if each == axis else n for each, n in enumerate(x.shape))
            first = k.full(shape=shape, fill_value=initial, dtype=x.dtype)
        x = k.positive(x)
        while step < length:
            later, earlier = _cut(k, x, axis, step, length), _cut(k, x, axis, 0, length - step)
            x = k.concat(_cut(k, x, axis, 0, step), getattr(k, combine)(later, earlier), axis=axis)
            step *= 2
        return k.concat(first, x, axis=axis) if include_initial else x

    return compose


def _cumulative_sum_rule(k: Table, g: Any, out: Any, x: Any, *, axis: int, include_initial: bool) -> Any:
    """The cumulative sum from the other end."""
    if include_initial:
        g = _cut(k, g, axis, 1, g.shape[axis])
    backwards = k.cumulative_sum(k.flip(g, axis=(axis,)), axis=axis, include_initial=False)
    return k.flip(backwards, axis=(axis,))


def _scan_reference(name: str, initial: int) -> Any:
    def reference(np: Any, x: Any, axis: int = 0, include_initial: bool = False) -> Any:
        result = getattr(np, name)(x, axis=axis)
        if not include_initial:
            return result
        shape = tuple(1 if each == axis % x.ndim else n for each, n in enumerate(x.shape))
        return np.concatenate([np.full(shape, initial, result.dtype), result], axis=axis)

    return reference


_SCANS = (
    Sample(Array((5,))),
    Sample(Array((2, 3)), axis=1),
    Sample(Array((3, 2)), axis=-2, include_initial=True),
    Sample(Array((0,)), include_initial=True),
    Sample(Array((2, 3), -5, 5, "int32"), axis=0),
)


@in_float32
def _logsumexp(k: Table, x: Any, *, axis: Any, keepdims: bool) -> Any:
    top = k.max(x, axis=axis, keepdims=True)
    shift = k.where(k.isfinite(top), top, 0)  # inf - inf would be NaN
    total = k.log(k.sum(k.exp(k.subtract(x, shift)), axis=axis, keepdims=keepdims))
    kept = reduced_shape(x.shape, axis, keepdims)
    return k.add(total, k.reshape(shift, shape=kept))


def _logsumexp_rule(k: Table, g: Any, out: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """The softmax; not as ``exp(x - out)``, which would carry the rounding of a large `out`."""
    return k.multiply(restore_axes(k, g, x, axis, keepdims), _shares(k, x, axis=axis))


@in_float32
def _shares(k: Table, x: Any, *, axis: Any) -> Any:
    top = k.max(x, axis=axis, keepdims=True)
    infinite = k.logical_and(k.equal(x, top), k.isinf(top))  # where inf - inf would be NaN
    e = k.exp(k.where(infinite, 0, k.subtract(x, top)))
    return k.divide(e, k.sum(e, axis=axis, keepdims=True))


def _logsumexp_reference(np: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


_QUANTIFIER = (Sample(Array((2, 3), dtype="bool")), Sample(Array((2, 3), dtype="bool"), axis=1))


def _zeros(k: Table, x: Any, **params: Any) -> Any:
    """How many elements over the axes are 0, or false."""
    return k.sum(k.astype(k.equal(x, False if k.dtype(x) is bool_ else 0), dtype=int64), **params)


def _any(k: Table, x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
    if k.dtype(x) is bool_:
        return k.less(0, k.sum(k.astype(x, dtype=int64), axis=axis, keepdims=keepdims))
    count = math.prod(x.shape if axis is None else [x.shape[each] for each in axis])
    return k.less(_zeros(k, x, axis=axis, keepdims=keepdims), count)


_REDUCTION = partial(Op, kind="reduction", standard=True)
_IN_FLOAT32 = partial(_REDUCTION, autocast="float32")

OPS = (
    _IN_FLOAT32(
        "sum",
        "Sum over `axis`. Integer results are 64 bits wide; bools are counted.",
        parameters=_reduction("sum"),
        accepts=ANY,
        cast=accumulator,
        tangent=linear,
        gradient=(_sum_rule,),
        gradient_aliases=True,
        samples=_SAMPLES + _ZERO_LENGTH + (Sample(Array((2, 3), 0, 9, "int32"), axis=0),),
    ),
    _IN_FLOAT32(
        "mean",
        "Arithmetic mean over `axis`.",
        parameters=_reduction("mean"),
        accepts=INEXACT,
        tangent=linear,
        gradient=(_mean_rule,),
        gradient_aliases=True,
        compose=_mean,
        samples=_SAMPLES,
    ),
    _REDUCTION(
        "max",
        "Maximum over `axis` (`argmax` says where); NaN where any element is. Tied elements share the gradient evenly.",
        parameters=_reduction("max", empty=False),
        accepts=REAL,
        tangent=reduction,
        gradient=(_extremum_rule,),
        samples=_SAMPLES,
    ),
    _REDUCTION(
        "min",
        "Minimum over `axis` (`argmin` says where); NaN where any element is. Tied elements share the gradient evenly.",
        parameters=_reduction("min", empty=False),
        accepts=REAL,
        tangent=reduction,
        gradient=(_extremum_rule,),
        compose=_min,
        samples=(*_SAMPLES, Sample(Array((2, 3), -9, 9, "int32"), axis=0)),
    ),
    _IN_FLOAT32(
        "var",
        "Variance over `axis`, by the two-pass formula; divides by the count less `correction`.",
        parameters=_with_correction("var"),
        accepts=FLOATING,
        tangent=reduction,
        gradient=(_var_rule,),
        compose=_var,
        samples=(*_SAMPLES, Sample(Array((2, 3)), axis=1, correction=1.0)),
        reference=lambda np, x, correction=0.0, **params: np.var(x, ddof=correction, **params),
    ),
    _IN_FLOAT32(
        "std",
        "Standard deviation over `axis`: the root of `var`. Without deviation, as of one element, the gradient is 0.",
        parameters=_with_correction("std"),
        accepts=FLOATING,
        tangent=reduction,
        gradient=(_std_rule,),
        compose=lambda k, x, **params: k.sqrt(k.var(x, **params)),
        samples=(Sample(Array((2, 3))), Sample(Array((2, 3)), axis=1, correction=1.0)),
        reference=lambda np, x, correction=0.0, **params: np.std(x, ddof=correction, **params),
    ),
    _REDUCTION(
        "any",
        "Whether any element over `axis` is true (nonzero).",
        parameters=_reduction("any"),
        accepts=ANY,
        result=to_bool,
        gradient="booleans are not differentiable",
        compose=_any,
        samples=_QUANTIFIER,
    ),
    _REDUCTION(
        "all",
        "Whether all elements over `axis` are true (nonzero).",
        parameters=_reduction("all"),
        accepts=ANY,
        result=to_bool,
        gradient="booleans are not differentiable",
        compose=lambda k, x, **params: k.equal(_zeros(k, x, **params), 0),
        samples=_QUANTIFIER,
    ),
    _REDUCTION(
        "argmax",
        "Position of the first maximum along `axis` (of the flattened tensor for ``None``), as int64.",
        parameters=_position("argmax"),
        accepts=REAL,
        result=to_int64,
        gradient="positions are not differentiable",
        compose=_argmax,
        samples=_POSITIONS,
    ),
    _REDUCTION(
        "argmin",
        "Position of the first minimum along `axis` (of the flattened tensor for ``None``), as int64.",
        parameters=_position("argmin"),
        accepts=REAL,
        result=to_int64,
        gradient="positions are not differentiable",
        compose=_argmin,
        samples=_POSITIONS,
    ),
    _REDUCTION(
        "count_nonzero",
        "How many elements over `axis` are not 0, as int64.",
        parameters=_reduction("count_nonzero"),
        accepts=ANY,
        result=to_int64,
        gradient="counts are not differentiable",
        compose=lambda k, x, **params: k.sum(
            k.astype(k.not_equal(x, False if k.dtype(x) is bool_ else 0), dtype=int64), **params
        ),
        samples=(*_QUANTIFIER, Sample(Array((3, 4), 0, 2, "int64"), axis=0, keepdims=True), Sample(Array((2, 3)))),
    ),
    _IN_FLOAT32(
        "prod",
        "Product over `axis`. Integer results are 64 bits wide.",
        parameters=_reduction("prod"),
        accepts=ANY,
        cast=accumulator,
        compose=_prod,
        samples=_SAMPLES + _ZERO_LENGTH + (Sample(Array((2, 3), 0, 9, "int32"), axis=0),),
    ),
    Op(
        "cumulative_sum",
        "Sums of the first 1, 2, … elements along `axis`; with `include_initial` the sum of none, 0, comes first.",
        autocast="float32",
        standard=True,
        parameters=_scan_parameters("cumulative_sum"),
        accepts=NUMERIC,
        cast=accumulator,
        tangent=linear,
        gradient=(_cumulative_sum_rule,),
        gradient_aliases=True,
        compose=_scan("add", 0),
        samples=_SCANS,
        reference=_scan_reference("cumsum", 0),
    ),
    Op(
        "cumulative_prod",
        "Products of the first 1, 2, … elements along `axis`; with `include_initial` that of none, 1, comes first.",
        standard=True,
        parameters=_scan_parameters("cumulative_prod"),
        accepts=NUMERIC,
        cast=accumulator,
        compose=_scan("multiply", 1),
        samples=_SCANS,
        reference=_scan_reference("cumprod", 1),
    ),
    Op(
        "logsumexp",
        "``log(sum(exp(x)))`` over `axis`, shifted by the maximum so that nothing overflows.",
        kind="reduction",
        autocast="float32",
        parameters=_reduction("logsumexp", empty=False),
        accepts=FLOATING,
        tangent=reduction,
        gradient=(_logsumexp_rule,),
        compose=_logsumexp,
        samples=_SAMPLES,
        reference=_logsumexp_reference,
    ),
)
