"""Normalisation to mean 0 and variance 1 over some axes.

float16 and bfloat16 are added up in float32 throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.record import SAME, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import at_once, axes_of, in_float32, nest, plus, times
from micrograd_core.ops.tangents import symmetric, total


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


_WEIGHT_GRADIENT_SAMPLES = (
    Sample(Array((3, 4)), Array((3, 4)), axis=(1,), eps=1e-2),
    Sample(Array((2, 2, 3)), Array((2, 2, 3)), axis=(1, 2), eps=1e-2),
    Sample(Array((4,)), Array((4,)), axis=(0,), eps=1e-2),
)
_IN_FLOAT32 = partial(nest, autocast="float32")

GRADIENTS = partial(
    nest,
    parts=NormGradients,
    result=(SAME, SAME, SAME),
    shape=lambda g, x, weight, **params: (tuple(x.shape), tuple(weight.shape), tuple(weight.shape)),
)

OPS = (
    _IN_FLOAT32(
        "standardize",
        parameters=_standardize_parameters,
        tangent=symmetric,
        gradient=(lambda k, g, out, x, *, axis, eps: k.standardize_gradient(g, x, 1.0, axis=axis, eps=eps),),
        compose=_standardize,
        samples=(
            Sample(Array((3, 4))),
            Sample(Array((2, 3, 2)), axis=(0, 2), eps=1e-3),
            Sample(Array((3, 4)), axis=None),
        ),
    ),
    nest(
        "standardize_gradient",
        "The vector-Jacobian product of ``standardize(x2) * weight`` with ``x1``.",
        optional=(1.0,),
        compose=_standardize_gradient,
        samples=(
            Sample(Array((3, 4)), Array((3, 4)), 1.0, axis=(1,), eps=1e-2),
            Sample(Array((2, 3, 2)), Array((2, 3, 2)), 1.0, axis=(0, 2), eps=1e-2),
            Sample(Array((3, 4)), Array((3, 4)), Array((4,)), axis=(1,), eps=1e-2),
        ),
    ),
    _IN_FLOAT32(
        "layer_norm",
        optional=(1.0, 0.0),
        parameters=_layer_norm_parameters,
        tangent=_layer_norm_tangent,
        gradient=at_once(
            "layer_norm_gradients",
            (
                lambda k, g, out, x, weight, bias, **params: k.standardize_gradient(g, x, weight, **params),
                lambda k, g, out, x, weight, bias, **params: k.layer_norm_weight_gradient(g, x, **params),
                _layer_norm_bias,
            ),
            1,
            2,
        ),
        compose=_layer_norm,
        samples=(
            Sample(Array((3, 4)), Array((4,)), Array((4,))),
            Sample(Array((2, 2, 3)), Array((2, 3)), Array((2, 3)), axis=(-2, -1), eps=1e-3),
            Sample(Array((2, 3)), 1.0, 0.0),
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
        samples=(
            Sample(Array((3, 4)), Array((4,))),
            Sample(Array((2, 2, 3)), Array((2, 3)), axis=(-2, -1), eps=1e-3),
            Sample(Array((2, 3)), 1.0),
        ),
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
        samples=(
            Sample(Array((3, 4)), Array((3, 4)), 1.0, axis=(1,), eps=1e-2),
            Sample(Array((3, 4)), Array((3, 4)), Array((4,)), axis=(1,), eps=1e-2),
        ),
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
        compose=lambda k, g, x, weight, *, axis, eps: NormGradients(
            k.standardize_gradient(g, x, weight, axis=axis, eps=eps),
            k.layer_norm_weight_gradient(g, x, axis=axis, eps=eps),
            _layer_norm_bias(k, g, None, x, weight, None, axis=axis, eps=eps),
        ),
        samples=(
            Sample(Array((3, 4)), Array((3, 4)), Array((4,)), axis=(1,), eps=1e-2),
            Sample(Array((2, 2, 3)), Array((2, 2, 3)), Array((2, 3)), axis=(1, 2), eps=1e-2),
            Sample(Array((4,)), Array((4,)), Array((4,)), axis=(0,), eps=1e-2),
        ),
    ),
)
