"""Reductions over axes. Kernels receive ``axis`` as a tuple of non-negative integers, or ``None`` for all of them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import DType, bool_, int64, uint64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, reduced_shape, resolve_axes, resolve_axis
from micrograd_core.ops.record import ANY, FLOATING, INEXACT, NEST, NUMERIC, REAL, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import cut, in_float32, locating, mirror, positions, stays, to_bool, to_int64
from micrograd_core.ops.tangents import linear, reduction


def restore_axes(k: Table, g: Handle, x: Handle, axis: Any, keepdims: bool) -> Handle:
    """`g`, the shape of `x` reduced over `axis`, with the reduced axes back as axes of length 1."""
    # a 0-d array broadcasts as it is
    return g if keepdims or axis is None else k.reshape(g, shape=reduced_shape(x.shape, axis, True))


def count(x: Any, axis: Any) -> int:
    """How many elements one result combines."""
    return math.prod(x.shape) if axis is None else math.prod(x.shape[each] for each in axis)


def _reduction(name: str, doc: str, *, empty: bool = True, **facts: Any) -> Op:
    """A reduction over axes; ``empty=False`` where no result exists without elements."""

    def parameters(x: Any, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> dict[str, Any]:
        axis = resolve_axes(name, axis, len(x.shape))
        if not empty and count(x, axis) == 0:
            raise ShapeError(f"{name}: no result exists for zero elements (shape {x.shape}, axis {axis})")
        return {"axis": axis, "keepdims": stays(name, keepdims)}

    usual = {"parameters": parameters, "kind": "reduction", "standard": True, "samples": _SAMPLES}
    return Op(name, doc, **{**usual, **facts})


def _spread(name: str, doc: str, **facts: Any) -> Op:
    """The variance, or its root, whose divisor is corrected."""

    def parameters(
        x: Any, /, axis: int | tuple[int, ...] | None = None, *, correction: float = 0.0, keepdims: bool = False
    ) -> dict[str, Any]:
        axis = resolve_axes(name, axis, len(x.shape))
        return {"axis": axis, "correction": float(correction), "keepdims": stays(name, keepdims)}

    def reference(np: Any, x: Any, correction: float = 0.0, **params: Any) -> Any:
        return getattr(np, name)(x, ddof=correction, **params)

    usual: dict[str, Any] = {"parameters": parameters, "reference": reference, "tangent": reduction}
    return _reduction(name, doc, accepts=FLOATING, autocast="float32", **usual, **facts)


def lane(name: str, x: Any, axis: int | None) -> int | None:
    """The axis along which a place in the order is looked for, among at least one element; ``None`` for all axes."""
    at = None if axis is None or (not x.shape and axis in (0, -1)) else resolve_axis(name, axis, len(x.shape))
    if count(x, None if at is None else (at,)) == 0:
        raise ShapeError(f"{name}: no result exists for zero elements (shape {tuple(x.shape)}, axis {at})")
    return at


def _position(name: str, doc: str, compose: Any) -> Op:
    """Where along an axis an extremum is."""

    def parameters(x: Any, /, axis: int | None = None, keepdims: bool = False) -> dict[str, Any]:
        return {"axis": lane(name, x, axis), "keepdims": stays(name, keepdims)}

    return locating(
        name,
        f"{doc} along `axis` (of the flattened tensor for ``None``), as int64.",
        kind="reduction",
        standard=True,
        parameters=parameters,
        accepts=REAL,
        compose=compose,
        samples=(Sample((2, 3)), Sample(Array((4, 3), 0, 2, "int32"), axis=0), Sample((2, 3), axis=-1, keepdims=True)),
    )


def accumulator(dtype: DType) -> DType:
    """Integer sums are at least 64 bits wide (array API standard, ``sum``)."""
    if dtype.is_floating:
        return dtype
    return uint64 if dtype.kind == "unsigned integer" else int64


_SAMPLES = (
    Sample((2, 3)),
    Sample((2, 3, 4), axis=1),
    Sample((2, 3, 4), axis=(0, -1)),
    Sample((2, 3), axis=-1, keepdims=True),
    Sample((2, 3), keepdims=True),
    Sample(()),
)
_SMALL_INTEGERS = (Sample(Array((2, 3), 0, 9, "int32"), axis=0),)
_ZERO_LENGTH = (Sample((0, 3)), Sample((2, 0), axis=0), Sample((2, 0), axis=1))


def _sum_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    return k.spread(restore_axes(k, g, x, axis, keepdims), shape=x.shape)


def _mean_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    share = 1 / max(count(x, axis), 1)  # the count itself may be too large for float16
    return k.spread(k.multiply(restore_axes(k, g, x, axis, keepdims), share), shape=x.shape)


@in_float32
def _mean(k: Table, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    return k.divide(k.sum(x, axis=axis, keepdims=keepdims), count(x, axis))


def _extremum_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    """Elements tied for the extremum share its gradient evenly; NaN ones, which win, likewise."""
    tied = k.logical_or(k.equal(x, restore_axes(k, out, x, axis, keepdims)), k.isnan(x))
    winners = k.sum(k.astype(tied, dtype=x.dtype), axis=axis, keepdims=True)
    return k.where(tied, k.divide(restore_axes(k, g, x, axis, keepdims), winners), 0)


def _deviations(k: Table, x: Handle, axis: Any) -> Handle:
    return k.subtract(x, k.mean(x, axis=axis, keepdims=True))


def _divisor(x: Any, axis: Any, correction: float) -> float:
    """Degrees of freedom; where there are none the quotient is NaN, as in the array API standard."""
    return max(count(x, axis) - correction, 0) or math.nan


@in_float32
def _var(k: Table, x: Handle, *, axis: Any, correction: float, keepdims: bool) -> Handle:
    total = k.sum(k.square(_deviations(k, x, axis)), axis=axis, keepdims=keepdims)
    return k.divide(total, _divisor(x, axis, correction))


@in_float32
def _var_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, correction: float, keepdims: bool) -> Handle:
    scale = k.multiply(restore_axes(k, g, x, axis, keepdims), 2 / _divisor(x, axis, correction))
    return k.multiply(_deviations(k, x, axis), scale)


@in_float32
def _std_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, correction: float, keepdims: bool) -> Handle:
    """``(x - mean) / (n std)``, and 0 where there is no deviation: 0 / inf is, and so are its derivatives."""
    spread = restore_axes(k, out, x, axis, keepdims)
    flat = k.equal(spread, 0)
    spread = k.multiply(k.where(flat, math.inf, spread), _divisor(x, axis, correction))
    share = k.divide(k.where(flat, 0, restore_axes(k, g, x, axis, keepdims)), spread)
    return k.multiply(_deviations(k, x, axis), share)


def _argmax(k: Table, x: Handle, *, axis: int | None, keepdims: bool) -> Handle:
    """The first position of the maximum: of the positions where it stands, the one furthest from the end."""
    if axis is None:
        flat = k.argmax(k.reshape(x, shape=(count(x, None),)), axis=0, keepdims=False)
        return k.reshape(flat, shape=(1,) * len(x.shape)) if keepdims else flat
    length = x.shape[axis]
    here = k.equal(x, k.max(x, axis=(axis,), keepdims=True))
    if k.dtype(x).is_floating:
        here = k.logical_or(here, k.isnan(x))  # the maximum is NaN where any element is, and stands there
    from_end = k.subtract(length, positions(k, x, axis))  # length .. 1; 0 marks other elements
    furthest = k.max(k.where(here, from_end, 0), axis=(axis,), keepdims=keepdims)
    return k.subtract(length, furthest)


def product_by_halves(k: Table, x: Handle, axis: int) -> Handle:
    """The product along an axis of at least one element, which is kept: no division, and so right gradients at 0."""
    while x.shape[axis] > 1:
        half, odd = divmod(x.shape[axis], 2)
        y = k.multiply(cut(k, x, axis, 0, half), cut(k, x, axis, half, 2 * half))
        x = k.concat(y, cut(k, x, axis, 2 * half, 2 * half + 1), axis=axis) if odd else y
    return x


def _prod(k: Table, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    axes = tuple(range(len(x.shape))) if axis is None else axis
    kept = [each for each in range(len(x.shape)) if each not in axes]
    result = reduced_shape(x.shape, axes, keepdims)
    left = tuple(x.shape[each] for each in kept)
    x = k.reshape(k.permute_dims(x, axes=(*kept, *axes)), shape=(*left, count(x, axes)))
    last = len(kept)
    if not x.shape[last]:
        return k.reshape(k.add(k.sum(x, axis=(last,), keepdims=False), 1), shape=result)
    return k.positive(k.reshape(product_by_halves(k, x, last), shape=result))


def prefixes(k: Table, combine: Any, axis: int, *xs: Handle) -> tuple[Any, ...]:
    """All prefixes in ``log2(n)`` steps (W. D. Hillis, G. L. Steele, 1986), which keeps rounding errors small too.

    ``combine(*later, *earlier)`` of parts of all `xs` gives as many.
    """
    length, step, xs = xs[0].shape[axis], 1, tuple(map(k.positive, xs))
    while step < length:
        parts = [cut(k, x, axis, *ends) for ends in ((step, length), (0, length - step)) for x in xs]
        pairs = zip(xs, combine(*parts), strict=True)
        xs = tuple(k.concat(cut(k, x, axis, 0, step), more, axis=axis) for x, more in pairs)
        step *= 2
    return xs


def _scan(name: str, doc: str, combine: str, initial: int, **facts: Any) -> Op:
    """A running reduction of the standard."""

    def parameters(x: Any, /, axis: int | None = None, *, include_initial: bool = False) -> dict[str, Any]:
        if axis is None and len(x.shape) != 1:
            raise ShapeError(f"{name}: say along which axis; only of 1-d tensors it may be left out (shape {x.shape})")
        axis = 0 if axis is None else resolve_axis(name, axis, len(x.shape))
        return {"axis": axis, "include_initial": bool(include_initial)}

    def compose(k: Table, x: Handle, *, axis: int, include_initial: bool) -> Any:
        (found,) = prefixes(k, lambda later, earlier: (getattr(k, combine)(later, earlier),), axis, x)
        if not include_initial:
            return found
        first = k.full(shape=reduced_shape(x.shape, (axis,), True), fill_value=initial, dtype=x.dtype)
        return k.concat(first, found, axis=axis)

    samples = (
        Sample((5,)),
        Sample((2, 3), axis=1),
        Sample((3, 2), axis=-2, include_initial=True),
        Sample((0,), include_initial=True),
    )
    facts |= {"standard": True, "accepts": NUMERIC, "cast": accumulator, "samples": samples}
    return Op(name, doc, parameters=parameters, compose=compose, **facts)


def _cumulative_sum_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: int, include_initial: bool) -> Handle:
    """The cumulative sum from the other end."""
    if include_initial:
        g = cut(k, g, axis, 1, g.shape[axis])
    backwards = k.cumulative_sum(k.flip(g, axis=(axis,)), axis=axis, include_initial=False)
    return k.flip(backwards, axis=(axis,))


@in_float32
def _logsumexp(k: Table, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    top = k.max(x, axis=axis, keepdims=True)
    shift = k.where(k.isfinite(top), top, 0)  # inf - inf would be NaN
    total = k.log(k.sum(k.exp(k.subtract(x, shift)), axis=axis, keepdims=keepdims))
    return k.add(total, k.reshape(shift, shape=reduced_shape(x.shape, axis, keepdims)))


def _logsumexp_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, keepdims: bool) -> Handle:
    """The softmax; not as ``exp(x - out)``, which would carry the rounding of a large `out`."""
    return k.multiply(restore_axes(k, g, x, axis, keepdims), _shares(k, x, axis=axis))


@in_float32
def _shares(k: Table, x: Handle, *, axis: Any) -> Handle:
    top = k.max(x, axis=axis, keepdims=True)
    infinite = k.logical_and(k.equal(x, top), k.isinf(top))  # where inf - inf would be NaN
    e = k.exp(k.where(infinite, 0, k.subtract(x, top)))
    return k.divide(e, k.sum(e, axis=axis, keepdims=True))


_QUANTIFIER = (Sample(Array((2, 3), dtype="bool")), Sample(Array((2, 3), dtype="bool"), axis=1))


def _all(k: Table, x: Handle, *, axis: Shape | None, keepdims: bool) -> Handle:
    return k.equal(k.count_nonzero(x, axis=axis, keepdims=keepdims), count(x, axis))


_quantifier = partial(
    _reduction, accepts=ANY, result=to_bool, gradient="booleans are not differentiable", samples=_QUANTIFIER
)
_extremum = partial(_reduction, empty=False, accepts=REAL, tangent=reduction, gradient=(_extremum_rule,))
_in_float32 = partial(_reduction, autocast="float32")

OPS = (
    _in_float32(
        "sum",
        "Sum over `axis`. Integer results are 64 bits wide; bools are counted.",
        combine="add",
        accepts=ANY,
        cast=accumulator,
        tangent=linear,
        gradient=(_sum_rule,),
        gradient_aliases=True,
        samples=_SAMPLES + _ZERO_LENGTH + _SMALL_INTEGERS,
    ),
    _in_float32(
        "mean",
        "Arithmetic mean over `axis`.",
        accepts=INEXACT,
        tangent=linear,
        gradient=(_mean_rule,),
        gradient_aliases=True,
        compose=_mean,
    ),
    _extremum(
        "max",
        "Maximum over `axis` (`argmax` says where); NaN where any element is. Tied elements share the gradient evenly.",
        combine="maximum",
    ),
    _extremum(
        "min",
        "Minimum over `axis` (`argmin` says where); NaN where any element is. Tied elements share the gradient evenly.",
        combine="minimum",
        compose=lambda k, x, **params: mirror(k, k.max(mirror(k, x), **params)),
        samples=(*_SAMPLES, Sample(Array((2, 3), -9, 9, "int32"), axis=0)),
    ),
    _spread(
        "var",
        "Variance over `axis`, by the two-pass formula; divides by the count less `correction`.",
        gradient=(_var_rule,),
        compose=_var,
        samples=(Sample((2, 3), axis=1, correction=1.0), *_SAMPLES),
    ),
    _spread(
        "std",
        "Standard deviation over `axis`: the root of `var`. Without deviation, as of one element, the gradient is 0.",
        gradient=(_std_rule,),
        compose=lambda k, x, **params: k.sqrt(k.var(x, **params)),
        samples=(Sample((2, 3), axis=1, correction=1.0), Sample((2, 3))),
    ),
    _quantifier(
        "any",
        "Whether any element over `axis` is true (nonzero).",
        compose=lambda k, x, **params: k.less(0, k.count_nonzero(x, **params)),
    ),
    _quantifier("all", "Whether all elements over `axis` are true (nonzero).", compose=_all),
    _position("argmax", "Position of the first maximum", _argmax),
    _position("argmin", "Position of the first minimum", lambda k, x, **params: k.argmax(mirror(k, x), **params)),
    _reduction(
        "count_nonzero",
        "How many elements over `axis` are not 0, as int64.",
        accepts=ANY,
        result=to_int64,
        gradient="counts are not differentiable",
        compose=lambda k, x, **of: k.sum(k.astype(x if k.dtype(x) is bool_ else k.not_equal(x, 0), dtype=int64), **of),
        samples=(*_QUANTIFIER, Sample(Array((3, 4), 0, 2, "int64"), axis=0, keepdims=True), Sample((2, 3))),
    ),
    _in_float32(
        "prod",
        "Product over `axis`. Integer results are 64 bits wide.",
        combine="multiply",
        accepts=ANY,
        cast=accumulator,
        compose=_prod,
        samples=_SAMPLES + _ZERO_LENGTH + _SMALL_INTEGERS,
    ),
    _scan(
        "cumulative_sum",
        "Sums of the first 1, 2, … elements along `axis`; with `include_initial` the sum of none, 0, comes first.",
        "add",
        0,
        autocast="float32",
        tangent=linear,
        gradient=(_cumulative_sum_rule,),
        gradient_aliases=True,
    ),
    _scan(
        "cumulative_prod",
        "Products of the first 1, 2, … elements along `axis`; with `include_initial` that of none, 1, comes first.",
        "multiply",
        1,
    ),
    _in_float32(
        "logsumexp",
        "``log(sum(exp(x)))`` over `axis`, shifted by the maximum so that nothing overflows.",
        lowering=NEST,
        empty=False,
        standard=False,
        accepts=FLOATING,
        tangent=reduction,
        gradient=(_logsumexp_rule,),
        compose=_logsumexp,
    ),
)
