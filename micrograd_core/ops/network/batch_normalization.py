"""Batch normalisation: to mean 0 and variance 1 for each channel, of the batch or as given.

float16 and bfloat16 are added up in float32 throughout.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.network.normalization import _IN_FLOAT32, GRADIENTS, NormGradients, _centred, scaled_tangent
from micrograd_core.ops.record import Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import at_once, by_channel, in_float32, is_scalar, nest, plus, times, zero_rule
from micrograd_core.ops.tangents import total


def _check_batch_norm(name: str, x: Any, mean: Any, var: Any, weight: Any, bias: Any, **settings: Any) -> None:
    if len(x.shape) < 2:
        raise ShapeError(f"batch_norm: the input has axes (batch, channels, ...); got shape {x.shape}")
    channels = x.shape[1:2]
    for name, parameter in (("mean", mean), ("var", var), ("weight", weight), ("bias", bias)):
        if getattr(parameter, "shape", ()) not in ((), channels):
            raise ShapeError(
                f"batch_norm: {name} of shape {parameter.shape} does not fit an input of shape {x.shape}; "
                f"there is one number for each of its {channels[0]} channels (axis 1)"
            )


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
    weight, bias = (by_channel(k, each, len(x.shape)) for each in (weight, bias))
    return plus(k, times(k, _normalized_by_channel(k, x, mean, var, training, eps), weight), bias)


@in_float32
def _batch_norm_gradient(k: Table, g: Handle, x: Handle, weight: Operand, *, eps: float) -> Handle:
    # whose own weight is along the axes, as kernels take it
    free = k.standardize_gradient(g, x, 1.0, axis=_but_channels(x), eps=eps)
    return times(k, free, by_channel(k, weight, len(x.shape)))


@in_float32
def _by_given_statistics(k: Table, g: Handle, x: Handle, var: Handle, weight: Handle, *, eps: float) -> Handle:
    scale, laid = (by_channel(k, each, len(x.shape)) for each in (_per_deviation(k, var, eps), weight))
    return times(k, k.multiply(g, scale), laid)


def _batch_norm_x(
    k: Table, g: Handle, out: Any, x: Handle, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float
) -> Any:
    if training:
        return k.batch_norm_gradient(g, x, weight, eps=eps)
    return _by_given_statistics(k, g, x, var, weight, eps=eps)


@in_float32
def _batch_norm_mean(
    k: Table, g: Handle, out: Any, x: Handle, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float
) -> Any:
    """In training the mean that was given counts for nothing."""
    if training:
        return zero_rule(k, g, out, mean)
    total = k.sum(g, axis=_but_channels(x), keepdims=False)
    return k.negative(times(k, k.multiply(total, _per_deviation(k, var, eps)), weight))


@in_float32
def _batch_norm_var(
    k: Table, g: Handle, out: Any, x: Handle, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float
) -> Any:
    """``-weight sum(g (x - mean) / deviation) / (2 (var + eps))``."""
    if training:
        return zero_rule(k, g, out, var)
    y = _normalized_by_channel(k, x, mean, var, training, eps)
    total = times(k, k.sum(k.multiply(g, y), axis=_but_channels(x), keepdims=False), weight)
    return k.divide(total, k.multiply(k.add(var, eps), -2))


def _batch_norm_weight(
    k: Table, g: Handle, out: Any, x: Handle, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float
) -> Any:
    if training:
        return k.batch_norm_weight_gradient(g, x, eps=eps)
    return _weight_by_given_statistics(k, g, x, mean, var, eps=eps)


@in_float32
def _weight_by_given_statistics(k: Table, g: Handle, x: Handle, mean: Handle, var: Handle, *, eps: float) -> Handle:
    y = _normalized_by_channel(k, x, mean, var, False, eps)
    return k.sum(k.multiply(g, y), axis=_but_channels(x), keepdims=False)


def _batch_norm_bias(k: Table, g: Handle, out: Any, x: Handle, *others: Handle, training: bool, eps: float) -> Handle:
    return k.sum(g, axis=_but_channels(x), keepdims=False)


@in_float32
def _batch_norm_weight_gradient(k: Table, g: Handle, x: Handle, *, eps: float) -> Handle:
    axes = _but_channels(x)
    centred, scale = _centred(k, x, axes, eps)
    return k.sum(k.multiply(g, k.multiply(centred, scale)), axis=axes, keepdims=False)


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


OPS = (
    _IN_FLOAT32(
        "batch_norm",
        optional=(0.0, 1.0, 1.0, 0.0),
        refuses=_check_batch_norm,
        tangent=_batch_norm_tangent,
        gradient=at_once(
            "batch_norm_gradients",
            (_batch_norm_x, _batch_norm_mean, _batch_norm_var, _batch_norm_weight, _batch_norm_bias),
            3,
            4,
        ),
        compose=_batch_norm,
        samples=(
            Sample(Array((3, 2)), Array((2,)), Array((2,), 0.5), Array((2,)), Array((2,))),
            Sample(Array((3, 2, 2)), 0.0, 1.0, Array((2,)), Array((2,)), training=True, eps=1e-2),
            Sample(Array((2, 2, 2, 1)), Array((2,)), Array((2,), 0.5), 1.0, 0.0),
            Sample(Array((3, 2)), Array((2,)), Array((2,), 0.5), Array((2,)), Array((2,)), training=True, eps=1e-2),
        ),
    ),
    nest(
        "batch_norm_gradient",
        "The vector-Jacobian product of `batch_norm` at ``x2`` in training with ``x1``.",
        optional=(1.0,),
        compose=_batch_norm_gradient,
        samples=(
            Sample(Array((3, 2)), Array((3, 2)), Array((2,)), eps=1e-2),
            Sample(Array((3, 2, 2)), Array((3, 2, 2)), 1.0, eps=1e-2),
        ),
    ),
    nest(
        "batch_norm_weight_gradient",
        "The vector-Jacobian product of `batch_norm` of ``x2`` in training, as a function of the weight, with ``x1``.",
        compose=_batch_norm_weight_gradient,
        samples=(Sample(Array((3, 2)), Array((3, 2)), eps=1e-2), Sample(Array((3, 2, 2)), Array((3, 2, 2)), eps=1e-2)),
    ),
    GRADIENTS(
        "batch_norm_gradients",
        "The vector-Jacobian products of `batch_norm` in training at ``x2`` by input, weight ``x3`` and bias, with "
        "``x1``.",
        compose=lambda k, g, x, weight, *, eps: NormGradients(
            _batch_norm_x(k, g, 0.0, x, 0.0, 1.0, weight, 0.0, training=True, eps=eps),
            k.batch_norm_weight_gradient(g, x, eps=eps),
            k.sum(g, axis=_but_channels(x), keepdims=False),
        ),
        samples=(
            Sample(Array((3, 2)), Array((3, 2)), Array((2,)), eps=1e-2),
            Sample(Array((3, 2, 2)), Array((3, 2, 2)), Array((2,)), eps=1e-2),
        ),
    ),
)
