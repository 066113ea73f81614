"""Normalisation to mean 0 and variance 1 over some axes.

float16 and bfloat16 are added up in float32 throughout.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.record import FLOATING, REAL, Array, Op, Sample
from micrograd_core.ops.shared import at_once, axes_of, in_float32, is_scalar, times
from micrograd_core.ops.tangents import symmetric, total

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

REAL_FLOATING = REAL & FLOATING


def _standardize_parameters(x: Any, /, axis: int | tuple[int, ...] | None = -1, *, eps: float = 1e-5) -> dict[str, Any]:
    return {"axis": axes_of("standardize", x, axis), "eps": float(eps)}


def _gradient_parameters(name: str, default: float) -> Any:
    """Of a gradient's operation: those of the operation, of which `x` is the second operand."""

    def parameters(
        g: Any, x: Any, /, weight: Any = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = default
    ) -> dict[str, Any]:
        axes = axes_of(name, x, axis)
        _check_parameter(name, "weight", weight, x, axes)
        return {"axis": axes, "eps": float(eps)}

    return parameters


def _weight_gradient_parameters(name: str, default: float) -> Any:
    """The same without a weight, which its own gradient does not depend on."""

    def parameters(
        g: Any, x: Any, /, *, axis: int | tuple[int, ...] | None = -1, eps: float = default
    ) -> dict[str, Any]:
        return {"axis": axes_of(name, x, axis), "eps": float(eps)}

    return parameters


def _over_other_axes(k: Table, x: Any, axis: Shape) -> Any:
    """The sum over all but those axes."""
    others = tuple(each for each in range(len(x.shape)) if each not in axis)
    return k.sum(x, axis=others, keepdims=False) if others else x


def _centred(k: Table, x: Any, axis: Shape, eps: float) -> tuple[Any, Any]:
    """What `x` deviates from its mean, and one over the root of the mean square: a division for all that share it."""
    centred = k.subtract(x, k.mean(x, axis=axis, keepdims=True))
    return centred, _per_root_mean_square(k, centred, axis, eps)


@in_float32
def _standardize(k: Table, x: Any, *, axis: Shape, eps: float) -> Any:
    return k.multiply(*_centred(k, x, axis, eps))


@in_float32
def _standardize_gradient(k: Table, g: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    """``(g - mean(g) - y mean(g y)) / deviation``: what is constant over the axes, or along `y`, changes nothing.

    The mean of ``g y`` is taken without the deviation: a loop adds up its terms, and those of the deviation.
    """
    (centred, scale), g = _centred(k, x, axis, eps), times(k, g, weight)
    slope = k.multiply(k.mean(k.multiply(g, centred), axis=axis, keepdims=True), k.multiply(scale, scale))
    free = k.subtract(k.subtract(g, k.mean(g, axis=axis, keepdims=True)), k.multiply(centred, slope))
    return k.multiply(free, scale)


def _check_parameter(op: str, name: str, parameter: Any, x: Any, axis: Shape) -> None:
    """A weight or bias has the lengths of the normalised axes, which are then the last ones."""
    shape = getattr(parameter, "shape", ())
    ndim = len(x.shape)
    if shape and (axis != tuple(range(ndim - len(axis), ndim)) or shape != x.shape[ndim - len(axis) :]):
        raise ShapeError(
            f"{op}: {name} of shape {shape} does not fit an input of shape {x.shape} normalised over axes {axis}; "
            "it must have the lengths of those axes, which must be the last ones"
        )


def _layer_norm_parameters(
    x: Any, /, weight: Any = None, bias: Any = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-5
) -> dict[str, Any]:
    axes = axes_of("layer_norm", x, axis)
    _check_parameter("layer_norm", "weight", weight, x, axes)
    _check_parameter("layer_norm", "bias", bias, x, axes)
    return {"axis": axes, "eps": float(eps)}


@in_float32
def _layer_norm(k: Table, x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float) -> Any:
    y = times(k, k.standardize(x, axis=axis, eps=eps), weight)
    return y if is_scalar(bias) and bias == 0 else k.add(y, bias)


def _layer_norm_x(k: Table, g: Any, out: Any, x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float) -> Any:
    return k.standardize_gradient(g, x, weight, axis=axis, eps=eps)


def _layer_norm_tangent(
    op: Op, k: Table, tangents: Any, out: Any, x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float
) -> Any:
    """The Jacobian by `x` without the weight is its own transpose."""
    dx, dw, db = tangents
    return total(
        k,
        (
            None if dx is None else times(k, k.standardize_gradient(dx, x, 1.0, axis=axis, eps=eps), weight),
            None if dw is None else k.multiply(k.standardize(x, axis=axis, eps=eps), dw),
            db,
        ),
    )


def _layer_norm_weight(k: Table, g: Any, out: Any, x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float) -> Any:
    return k.layer_norm_weight_gradient(g, x, axis=axis, eps=eps)


def _layer_norm_bias(k: Table, g: Any, out: Any, x: Any, weight: Any, bias: Any, *, axis: Shape, eps: float) -> Any:
    return _over_other_axes(k, g, axis) if len(axis) < len(x.shape) else k.copy(g)


@in_float32
def _layer_norm_weight_gradient(k: Table, g: Any, x: Any, *, axis: Shape, eps: float) -> Any:
    return _over_other_axes(k, k.multiply(g, k.standardize(x, axis=axis, eps=eps)), axis)


def _rms_norm_parameters(
    x: Any, /, weight: Any = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-6
) -> dict[str, Any]:
    axes = axes_of("rms_norm", x, axis)
    _check_parameter("rms_norm", "weight", weight, x, axes)
    return {"axis": axes, "eps": float(eps)}


def _per_root_mean_square(k: Table, x: Any, axis: Shape, eps: float) -> Any:
    return k.divide(1, k.sqrt(k.add(k.mean(k.square(x), axis=axis, keepdims=True), eps)))


@in_float32
def _rms_norm(k: Table, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    return times(k, k.multiply(x, _per_root_mean_square(k, x, axis, eps)), weight)


def _rms_norm_x(k: Table, g: Any, out: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    return k.rms_norm_gradient(g, x, weight, axis=axis, eps=eps)


def _rms_norm_tangent(
    op: Op, k: Table, tangents: Any, out: Any, x: Any, weight: Any, *, axis: Shape, eps: float
) -> Any:
    dx, dw = tangents
    return total(
        k,
        (
            None if dx is None else times(k, k.rms_norm_gradient(dx, x, 1.0, axis=axis, eps=eps), weight),
            None if dw is None else k.multiply(k.rms_norm(x, 1.0, axis=axis, eps=eps), dw),
        ),
    )


def _rms_norm_weight(k: Table, g: Any, out: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    return k.rms_norm_weight_gradient(g, x, axis=axis, eps=eps)


@in_float32
def _rms_norm_gradient(k: Table, g: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> Any:
    """``(g - y mean(g y)) / rms`` with ``y = x / rms``."""
    scale, g = _per_root_mean_square(k, x, axis, eps), times(k, g, weight)
    slope = k.multiply(k.mean(k.multiply(g, x), axis=axis, keepdims=True), k.multiply(scale, scale))
    return k.multiply(k.subtract(g, k.multiply(x, slope)), scale)


@in_float32
def _rms_norm_weight_gradient(k: Table, g: Any, x: Any, *, axis: Shape, eps: float) -> Any:
    return _over_other_axes(k, k.multiply(g, k.multiply(x, _per_root_mean_square(k, x, axis, eps))), axis)


def _normalized(np: Any, x: Any, axis: Any, eps: float) -> Any:
    return (x - np.mean(x, axis=axis, keepdims=True)) / np.sqrt(np.var(x, axis=axis, keepdims=True) + eps)


def _standardize_gradient_reference(
    np: Any, g: Any, x: Any, weight: Any = 1.0, axis: Any = -1, eps: float = 1e-5
) -> Any:
    y, g = _normalized(np, x, axis, eps), g * weight
    free = g - np.mean(g, axis=axis, keepdims=True) - y * np.mean(g * y, axis=axis, keepdims=True)
    return free / np.sqrt(np.var(x, axis=axis, keepdims=True) + eps)


def _root(np: Any, x: Any, axis: Any, eps: float) -> Any:
    return np.sqrt(np.mean(x**2, axis=axis, keepdims=True) + eps)


def _rms_norm_gradient_reference(np: Any, g: Any, x: Any, weight: Any, axis: Any = -1, eps: float = 1e-6) -> Any:
    root, g = _root(np, x, axis, eps), g * weight
    return (g - x / root * np.mean(g * x / root, axis=axis, keepdims=True)) / root


def _weight_gradient_reference(np: Any, product: Any, axis: Any) -> Any:
    axis = (axis,) if isinstance(axis, int) else axis
    kept = {each % product.ndim for each in axis}
    return np.sum(product, axis=tuple(each for each in range(product.ndim) if each not in kept))


_WEIGHT_GRADIENT_SAMPLES = (
    Sample(Array((3, 4)), Array((3, 4)), eps=1e-2),
    Sample(Array((2, 2, 3)), Array((2, 2, 3)), axis=(-2, -1), eps=1e-2),
    Sample(Array((4,)), Array((4,)), eps=1e-2),
)
_IN_FLOAT32 = partial(Op, accepts=REAL_FLOATING, autocast="float32")

OPS = (
    _IN_FLOAT32(
        "standardize",
        "``(x - mean) / sqrt(variance + eps)`` over `axis`: mean 0 and variance 1.",
        parameters=_standardize_parameters,
        tangent=symmetric,
        gradient=(lambda k, g, out, x, *, axis, eps: k.standardize_gradient(g, x, 1.0, axis=axis, eps=eps),),
        compose=_standardize,
        samples=(
            Sample(Array((3, 4))),
            Sample(Array((2, 3, 2)), axis=(0, 2), eps=1e-3),
            Sample(Array((3, 4)), axis=None),
        ),
        reference=lambda np, x, axis=-1, eps=1e-5: _normalized(np, x, axis, eps),
    ),
    Op(
        "standardize_gradient",
        "The vector-Jacobian product of ``standardize(x2) * weight`` with ``x1``.",
        operands=3,
        optional=(1.0,),
        parameters=_gradient_parameters("standardize_gradient", 1e-5),
        accepts=REAL_FLOATING,
        compose=_standardize_gradient,
        samples=(
            Sample(Array((3, 4)), Array((3, 4)), 1.0, eps=1e-2),
            Sample(Array((2, 3, 2)), Array((2, 3, 2)), 1.0, axis=(0, 2), eps=1e-2),
            Sample(Array((3, 4)), Array((3, 4)), Array((4,)), eps=1e-2),
        ),
        reference=_standardize_gradient_reference,
    ),
    _IN_FLOAT32(
        "layer_norm",
        "``standardize(x) * weight + bias`` over `axis`, the last by default (Ba et al. 2016). `weight` and `bias` "
        "have the lengths of the normalised axes.",
        operands=3,
        optional=(1.0, 0.0),
        parameters=_layer_norm_parameters,
        tangent=_layer_norm_tangent,
        gradient=at_once("layer_norm_gradients", (_layer_norm_x, _layer_norm_weight, _layer_norm_bias), 1, 2),
        compose=_layer_norm,
        samples=(
            Sample(Array((3, 4)), Array((4,)), Array((4,))),
            Sample(Array((2, 2, 3)), Array((2, 3)), Array((2, 3)), axis=(-2, -1), eps=1e-3),
            Sample(Array((2, 3)), 1.0, 0.0),
        ),
        reference=lambda np, x, weight, bias, axis=-1, eps=1e-5: _normalized(np, x, axis, eps) * weight + bias,
    ),
    _IN_FLOAT32(
        "rms_norm",
        "``x / sqrt(mean(x**2) + eps) * weight`` over `axis`, the last by default (Zhang & Sennrich 2019).",
        operands=2,
        optional=(1.0,),
        parameters=_rms_norm_parameters,
        tangent=_rms_norm_tangent,
        gradient=(_rms_norm_x, _rms_norm_weight),
        compose=_rms_norm,
        samples=(
            Sample(Array((3, 4)), Array((4,))),
            Sample(Array((2, 2, 3)), Array((2, 3)), axis=(-2, -1), eps=1e-3),
            Sample(Array((2, 3)), 1.0),
        ),
        reference=lambda np, x, weight, axis=-1, eps=1e-6: x / _root(np, x, axis, eps) * weight,
    ),
    Op(
        "layer_norm_weight_gradient",
        "The vector-Jacobian product of `layer_norm` of ``x2``, as a function of the weight, with ``x1``.",
        operands=2,
        parameters=_weight_gradient_parameters("layer_norm_weight_gradient", 1e-5),
        accepts=REAL_FLOATING,
        compose=_layer_norm_weight_gradient,
        samples=_WEIGHT_GRADIENT_SAMPLES,
        reference=lambda np, g, x, axis=-1, eps=1e-5: _weight_gradient_reference(
            np, g * _normalized(np, x, axis, eps), axis
        ),
    ),
    Op(
        "rms_norm_gradient",
        "The vector-Jacobian product of `rms_norm` at ``x2`` with ``x1``.",
        operands=3,
        optional=(1.0,),
        parameters=_gradient_parameters("rms_norm_gradient", 1e-6),
        accepts=REAL_FLOATING,
        compose=_rms_norm_gradient,
        samples=(
            Sample(Array((3, 4)), Array((3, 4)), 1.0, eps=1e-2),
            Sample(Array((3, 4)), Array((3, 4)), Array((4,)), eps=1e-2),
        ),
        reference=_rms_norm_gradient_reference,
    ),
    Op(
        "rms_norm_weight_gradient",
        "The vector-Jacobian product of `rms_norm` of ``x2``, as a function of the weight, with ``x1``.",
        operands=2,
        parameters=_weight_gradient_parameters("rms_norm_weight_gradient", 1e-6),
        accepts=REAL_FLOATING,
        compose=_rms_norm_weight_gradient,
        samples=_WEIGHT_GRADIENT_SAMPLES,
        reference=lambda np, g, x, axis=-1, eps=1e-6: _weight_gradient_reference(
            np, g * x / _root(np, x, axis, eps), axis
        ),
    ),
)
