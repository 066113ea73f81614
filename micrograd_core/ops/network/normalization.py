"""Normalisation to mean 0 and variance 1: over some axes, or for each channel, of the batch or as given.

float16 and bfloat16 are added up in float32 throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.record import SAME, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import at_once, axes_of, by_channel, in_float32, is_scalar, nest, plus, times
from micrograd_core.ops.tangents import symmetric, total, zero


def _standardize_parameters(x: Any, /, axis: int | tuple[int, ...] | None = -1, *, eps: float = 1e-5) -> dict[str, Any]:
    """``(x - mean) / sqrt(variance + eps)`` over `axis`: mean 0 and variance 1."""
    return _over("standardize", x, axis, eps)


def _over(op: str, x: Any, axis: Any, eps: float, **operands: Any) -> dict[str, Any]:
    """Canonical parameters; weights and biases have the lengths of the normalised axes, which are the last ones."""
    axes, ndim = axes_of(op, x, axis), len(x.shape)
    for name, each in operands.items():
        shape = getattr(each, "shape", ())
        if shape and (axes != tuple(range(ndim - len(axes), ndim)) or shape != x.shape[ndim - len(axes) :]):
            raise ShapeError(
                f"{op}: {name} of shape {shape} does not fit an input of shape {x.shape} normalised over axes {axes}; "
                "it must have the lengths of those axes, which must be the last ones"
            )
    return {"axis": axes, "eps": float(eps)}


def _over_other_axes(k: Table, x: Handle, axis: Shape) -> Handle:
    """The sum over all but those axes."""
    others = tuple(each for each in range(len(x.shape)) if each not in axis)
    return k.sum(x, axis=others, keepdims=False) if others else x


def _centred(k: Table, x: Handle, axis: Shape, eps: float) -> tuple[Any, Any]:
    """What `x` deviates from its mean, and one over the root of the mean square: a division for all that share it."""
    centred = k.subtract(x, k.mean(x, axis=axis, keepdims=True))
    return centred, _per_root_mean_square(k, centred, axis, eps)


@in_float32
def _standardize(k: Table, x: Handle, *, axis: Shape, eps: float) -> Handle:
    return k.multiply(*_centred(k, x, axis, eps))


@in_float32
def _standardize_gradient(k: Table, g: Handle, x: Handle, weight: Operand, *, axis: Shape, eps: float) -> Handle:
    """``(g - mean(g) - y mean(g y)) / deviation``: what is constant over the axes, or along `y`, changes nothing.

    The mean of ``g y`` is taken without the deviation: a loop adds up its terms, and those of the deviation.
    """
    (centred, scale), g = _centred(k, x, axis, eps), times(k, g, weight)
    slope = k.multiply(k.mean(k.multiply(g, centred), axis=axis, keepdims=True), k.multiply(scale, scale))
    free = k.subtract(k.subtract(g, k.mean(g, axis=axis, keepdims=True)), k.multiply(centred, slope))
    return k.multiply(free, scale)


def _layer_norm_parameters(
    x: Any, /, weight: Any = None, bias: Any = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-5
) -> dict[str, Any]:
    """``standardize(x) * weight + bias`` over `axis`, the last by default (Ba et al. 2016).

    `weight` and `bias` have the lengths of the normalised axes.
    """
    return _over("layer_norm", x, axis, eps, weight=weight, bias=bias)


@in_float32
def _layer_norm(k: Table, x: Handle, weight: Operand, bias: Operand, *, axis: Shape, eps: float) -> Handle:
    return plus(k, times(k, k.standardize(x, axis=axis, eps=eps), weight), bias)


def scaled_tangent(k: Table, by_x: Any, weight: Operand, dw: Any, normalized: Callable[[], Any], db: Any = None) -> Any:
    """The tangent of ``y * weight + bias``, by that of `y`; `normalized` gives ``y``."""
    by_x = None if by_x is None else times(k, by_x, weight)
    return total(k, (by_x, None if dw is None else k.multiply(normalized(), dw), db))


def _layer_norm_tangent(
    op: Op, k: Table, tangents: Any, out: Handle, x: Handle, weight: Operand, bias: Operand, **params: Any
) -> Any:
    """The Jacobian by `x` without the weight is its own transpose."""
    dx, dw, db = tangents
    by_x = None if dx is None else k.standardize_gradient(dx, x, 1.0, **params)
    return scaled_tangent(k, by_x, weight, dw, lambda: k.standardize(x, **params), db)


def _layer_norm_bias(k: Table, g: Handle, out: Any, x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float) -> Any:
    return _over_other_axes(k, g, axis) if len(axis) < len(x.shape) else k.copy(g)


@in_float32
def _layer_norm_weight_gradient(k: Table, g: Handle, x: Handle, *, axis: Shape, eps: float) -> Handle:
    return _over_other_axes(k, k.multiply(g, k.standardize(x, axis=axis, eps=eps)), axis)


class NormGradients(NamedTuple):
    """Of the input, of the weight, and of the bias."""

    x: Any
    weight: Any
    bias: Any


def _layer_norm_gradients_parameters(g: Any, x: Any, weight: Any, /, *, axis: Any = -1, eps: float = 1e-5) -> Any:
    return _over("layer_norm_gradients", x, axis, eps, weight=weight)


def _rms_norm_parameters(
    x: Any, /, weight: Any = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-6
) -> dict[str, Any]:
    """``x / sqrt(mean(x**2) + eps) * weight`` over `axis`, the last by default (Zhang & Sennrich 2019)."""
    return _over("rms_norm", x, axis, eps, weight=weight)


def _per_root_mean_square(k: Table, x: Handle, axis: Shape, eps: float) -> Handle:
    return k.divide(1, k.sqrt(k.add(k.mean(k.square(x), axis=axis, keepdims=True), eps)))


@in_float32
def _rms_norm(k: Table, x: Handle, weight: Operand, *, axis: Shape, eps: float) -> Handle:
    return times(k, k.multiply(x, _per_root_mean_square(k, x, axis, eps)), weight)


def _rms_norm_tangent(op: Op, k: Table, tangents: Any, out: Handle, x: Handle, weight: Any, **params: Any) -> Any:
    dx, dw = tangents
    by_x = None if dx is None else k.rms_norm_gradient(dx, x, 1.0, **params)
    return scaled_tangent(k, by_x, weight, dw, lambda: k.rms_norm(x, 1.0, **params))


@in_float32
def _rms_norm_gradient(k: Table, g: Handle, x: Handle, weight: Operand, *, axis: Shape, eps: float) -> Handle:
    """``(g - y mean(g y)) / rms`` with ``y = x / rms``."""
    scale, g = _per_root_mean_square(k, x, axis, eps), times(k, g, weight)
    slope = k.multiply(k.mean(k.multiply(g, x), axis=axis, keepdims=True), k.multiply(scale, scale))
    return k.multiply(k.subtract(g, k.multiply(x, slope)), scale)


@in_float32
def _rms_norm_weight_gradient(k: Table, g: Handle, x: Handle, *, axis: Shape, eps: float) -> Handle:
    return _over_other_axes(k, k.multiply(g, k.multiply(x, _per_root_mean_square(k, x, axis, eps))), axis)


_LAYER_NORM_RULES = (
    lambda k, g, out, x, weight, bias, **params: k.standardize_gradient(g, x, weight, **params),
    lambda k, g, out, x, weight, bias, **params: k.layer_norm_weight_gradient(g, x, **params),
    _layer_norm_bias,
)
_GRADIENT_SAMPLES = (
    Sample((3, 4), (3, 4), 1.0, axis=(1,), eps=1e-2),
    Sample((2, 3, 2), (2, 3, 2), 1.0, axis=(0, 2), eps=1e-2),
    Sample((3, 4), (3, 4), (4,), axis=(1,), eps=1e-2),
)
_WEIGHT_GRADIENT_SAMPLES = (
    Sample((3, 4), (3, 4), axis=(1,), eps=1e-2),
    Sample((2, 2, 3), (2, 2, 3), axis=(1, 2), eps=1e-2),
    Sample((4,), (4,), axis=(0,), eps=1e-2),
)
_IN_FLOAT32 = partial(nest, autocast="float32")

GRADIENTS = partial(
    nest,
    parts=NormGradients,
    result=(SAME, SAME, SAME),
    shape=lambda g, x, weight, **params: (tuple(x.shape), tuple(weight.shape), tuple(weight.shape)),
)

OPS: tuple[Op, ...] = (
    _IN_FLOAT32(
        "standardize",
        parameters=_standardize_parameters,
        tangent=symmetric,
        gradient=(lambda k, g, out, x, *, axis, eps: k.standardize_gradient(g, x, 1.0, axis=axis, eps=eps),),
        compose=_standardize,
        samples=(Sample((3, 4)), Sample((2, 3, 2), axis=(0, 2), eps=1e-3), Sample((3, 4), axis=None)),
    ),
    nest(
        "standardize_gradient",
        "The vector-Jacobian product of ``standardize(x2) * weight`` with ``x1``.",
        optional=(1.0,),
        compose=_standardize_gradient,
        samples=_GRADIENT_SAMPLES,
    ),
    _IN_FLOAT32(
        "layer_norm",
        optional=(1.0, 0.0),
        parameters=_layer_norm_parameters,
        tangent=_layer_norm_tangent,
        gradient=at_once("layer_norm_gradients", _LAYER_NORM_RULES, 1, 2),
        compose=_layer_norm,
        samples=(
            Sample((3, 4), (4,), (4,)),
            Sample((2, 2, 3), (2, 3), (2, 3), axis=(-2, -1), eps=1e-3),
            Sample((2, 3), 1.0, 0.0),
        ),
    ),
    _IN_FLOAT32(
        "rms_norm",
        optional=(1.0,),
        parameters=_rms_norm_parameters,
        tangent=_rms_norm_tangent,
        gradient=(
            lambda k, g, out, x, weight, **params: k.rms_norm_gradient(g, x, weight, **params),
            lambda k, g, out, x, weight, **params: k.rms_norm_weight_gradient(g, x, **params),
        ),
        compose=_rms_norm,
        samples=(Sample((3, 4), (4,)), Sample((2, 2, 3), (2, 3), axis=(-2, -1), eps=1e-3), Sample((2, 3), 1.0)),
    ),
    nest(
        "layer_norm_weight_gradient",
        "The vector-Jacobian product of `layer_norm` of ``x2``, as a function of the weight, with ``x1``.",
        compose=_layer_norm_weight_gradient,
        samples=_WEIGHT_GRADIENT_SAMPLES,
    ),
    nest(
        "rms_norm_gradient",
        "The vector-Jacobian product of `rms_norm` at ``x2`` with ``x1``.",
        optional=(1.0,),
        compose=_rms_norm_gradient,
        samples=_GRADIENT_SAMPLES,
    ),
    nest(
        "rms_norm_weight_gradient",
        "The vector-Jacobian product of `rms_norm` of ``x2``, as a function of the weight, with ``x1``.",
        compose=_rms_norm_weight_gradient,
        samples=_WEIGHT_GRADIENT_SAMPLES,
    ),
    GRADIENTS(
        "layer_norm_gradients",
        "The vector-Jacobian products of `layer_norm` at ``x2`` by input, weight ``x3`` and bias, with ``x1``.",
        parameters=_layer_norm_gradients_parameters,
        compose=lambda k, g, x, weight, **params: NormGradients(
            *[rule(k, g, None, x, weight, None, **params) for rule in _LAYER_NORM_RULES]
        ),
        samples=(
            Sample((3, 4), (3, 4), (4,), axis=(1,), eps=1e-2),
            Sample((2, 2, 3), (2, 2, 3), (2, 3), axis=(1, 2), eps=1e-2),
            Sample((4,), (4,), (4,), axis=(0,), eps=1e-2),
        ),
    ),
)


# ── of batches ────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_batch_norm(name: str, x: Any, mean: Any, var: Any, weight: Any, bias: Any, **settings: Any) -> None:
    if len(x.shape) < 2:
        raise ShapeError(f"batch_norm: the input has axes (batch, channels, ...); got shape {x.shape}")
    check_channels("batch_norm", x, mean=mean, var=var, weight=weight, bias=bias)


def check_channels(op: str, x: Any, **parameters: Any) -> None:
    """Refuse parameters that are neither one number for each channel, axis 1, nor one for all."""
    for name, each in parameters.items():
        shape = tuple(getattr(each, "shape", ()))
        if shape not in ((), tuple(x.shape[1:2])):
            raise ShapeError(
                f"{op}: {name} of shape {shape} does not fit an input of shape {tuple(x.shape)}; "
                f"there is one number for each of its {x.shape[1]} channels (axis 1)"
            )


def by_channels(k: Table, x: Handle, weight: Operand, bias: Operand) -> Handle:
    """``x * weight + bias``, of one number for each channel, or for all."""
    ndim = len(x.shape)
    return plus(k, times(k, x, by_channel(k, weight, ndim)), by_channel(k, bias, ndim))


def _but_channels(x: Any) -> Shape:
    return (0, *range(2, len(x.shape)))


def _normalized_by_channel(k: Table, x: Handle, mean: Operand, var: Operand, training: bool, eps: float) -> Handle:
    if training:
        return k.standardize(x, axis=_but_channels(x), eps=eps)
    centred = k.subtract(x, by_channel(k, mean, len(x.shape)))
    return k.multiply(centred, by_channel(k, _per_deviation(k, var, eps), len(x.shape)))


def _per_deviation(k: Table, var: Operand, eps: float) -> Operand:
    return (var + eps) ** -0.5 if is_scalar(var) else k.divide(1, k.sqrt(k.add(var, eps)))


@in_float32
def _batch_norm(
    k: Table, x: Handle, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool = False, eps: float = 1e-5
) -> Any:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel, axis 1 of `x` (Ioffe & Szegedy 2015).

    With `training`, mean and variance are those of the batch, and `mean` and `var` are not looked at.
    """
    return by_channels(k, _normalized_by_channel(k, x, mean, var, training, eps), weight, bias)


@in_float32
def _batch_norm_gradient(k: Table, g: Handle, x: Handle, weight: Operand, *, eps: float) -> Handle:
    # whose own weight is along the axes, as kernels take it
    free = k.standardize_gradient(g, x, 1.0, axis=_but_channels(x), eps=eps)
    return times(k, free, by_channel(k, weight, len(x.shape)))


def _by_training(trained: Callable[..., Any], given: Callable[..., Any]) -> Callable[..., Any]:
    """A rule by the statistics of the batch, or by those that were given; neither looks at the result."""
    given = in_float32(given)

    def rule(k: Table, g: Handle, out: Any, *operands: Any, training: bool, eps: float) -> Any:
        return (trained if training else given)(k, g, *operands, eps=eps)

    return rule


def _x_by_given(k: Table, g: Any, x: Handle, mean: Any, var: Any, weight: Any, bias: Any, *, eps: float) -> Handle:
    scale, laid = (by_channel(k, each, len(x.shape)) for each in (_per_deviation(k, var, eps), weight))
    return times(k, k.multiply(g, scale), laid)


def _mean_by_given(k: Table, g: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any, *, eps: float) -> Handle:
    total = k.sum(g, axis=_but_channels(x), keepdims=False)
    return k.negative(times(k, k.multiply(total, _per_deviation(k, var, eps)), weight))


def _var_by_given(k: Table, g: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any, *, eps: float) -> Handle:
    """``-weight sum(g (x - mean) / deviation) / (2 (var + eps))``."""
    total = times(k, _weight_by_given(k, g, x, mean, var, eps=eps), weight)
    return k.divide(total, k.multiply(k.add(var, eps), -2))


def _weight_by_given(k: Table, g: Handle, x: Handle, mean: Any, var: Any, *others: Any, eps: float) -> Handle:
    y = _normalized_by_channel(k, x, mean, var, False, eps)
    return k.sum(k.multiply(g, y), axis=_but_channels(x), keepdims=False)


_BATCH_NORM_RULES = (
    _by_training(
        lambda k, g, x, mean, var, weight, bias, *, eps: k.batch_norm_gradient(g, x, weight, eps=eps), _x_by_given
    ),
    _by_training(lambda k, g, x, mean, *others, eps: zero(k, mean), _mean_by_given),
    _by_training(lambda k, g, x, mean, var, *others, eps: zero(k, var), _var_by_given),
    _by_training(lambda k, g, x, *others, eps: k.batch_norm_weight_gradient(g, x, eps=eps), _weight_by_given),
    lambda k, g, out, x, *others, **settings: k.sum(g, axis=_but_channels(x), keepdims=False),
)
"""In training the mean and variance that were given count for nothing."""


@in_float32
def _batch_norm_weight_gradient(k: Table, g: Handle, x: Handle, *, eps: float) -> Handle:
    axes = _but_channels(x)
    return k.sum(k.multiply(g, k.multiply(*_centred(k, x, axes, eps))), axis=axes, keepdims=False)


def _batch_norm_tangent(
    op: Op, k: Table, tangents: Any, out: Handle, x: Handle, *given: Operand, training: bool, eps: float
) -> Any:
    """In training the Jacobian by `x` without the weight is its own transpose."""
    mean, var, weight, _ = given
    ndim = len(x.shape)
    dx, *others = tangents
    dm, dv, dw, db = (None if each is None else by_channel(k, each, ndim) for each in others)

    def normalized() -> Any:
        return _normalized_by_channel(k, x, mean, var, training, eps)

    if training:
        by_x = None if dx is None else k.standardize_gradient(dx, x, 1.0, axis=_but_channels(x), eps=eps)
    else:
        moved = total(k, (dx, None if dm is None else k.negative(dm)))
        by_x = None if moved is None else k.multiply(moved, by_channel(k, _per_deviation(k, var, eps), ndim))
        if dv is not None:
            twice = k.multiply(by_channel(k, k.add(var, eps), ndim), -2)
            by_x = total(k, (by_x, k.multiply(normalized(), k.divide(dv, twice))))
    return scaled_tangent(k, by_x, by_channel(k, weight, ndim), dw, normalized, db)


OPS += (
    _IN_FLOAT32(
        "batch_norm",
        optional=(0.0, 1.0, 1.0, 0.0),
        refuses=_check_batch_norm,
        tangent=_batch_norm_tangent,
        gradient=at_once("batch_norm_gradients", _BATCH_NORM_RULES, 3, 4),
        compose=_batch_norm,
        samples=(
            Sample((3, 2), (2,), Array((2,), 0.5), (2,), (2,)),
            Sample((3, 2, 2), 0.0, 1.0, (2,), (2,), training=True, eps=1e-2),
            Sample((2, 2, 2, 1), (2,), Array((2,), 0.5), 1.0, 0.0),
            Sample((3, 2), (2,), Array((2,), 0.5), (2,), (2,), training=True, eps=1e-2),
        ),
    ),
    nest(
        "batch_norm_gradient",
        "The vector-Jacobian product of `batch_norm` at ``x2`` in training with ``x1``.",
        optional=(1.0,),
        compose=_batch_norm_gradient,
        samples=(Sample((3, 2), (3, 2), (2,), eps=1e-2), Sample((3, 2, 2), (3, 2, 2), 1.0, eps=1e-2)),
    ),
    nest(
        "batch_norm_weight_gradient",
        "The vector-Jacobian product of `batch_norm` of ``x2`` in training, as a function of the weight, with ``x1``.",
        compose=_batch_norm_weight_gradient,
        samples=(Sample((3, 2), (3, 2), eps=1e-2), Sample((3, 2, 2), (3, 2, 2), eps=1e-2)),
    ),
    GRADIENTS(
        "batch_norm_gradients",
        "The vector-Jacobian products of `batch_norm` in training at ``x2`` by input, weight ``x3`` and bias, with "
        "``x1``.",
        compose=lambda k, g, x, weight, *, eps: NormGradients(
            k.batch_norm_gradient(g, x, weight, eps=eps),
            k.batch_norm_weight_gradient(g, x, eps=eps),
            k.sum(g, axis=_but_channels(x), keepdims=False),
        ),
        samples=(Sample((3, 2), (3, 2), (2,), eps=1e-2), Sample((3, 2, 2), (3, 2, 2), (2,), eps=1e-2)),
    ),
)
