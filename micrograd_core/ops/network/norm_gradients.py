"""The gradients of norms by input, weight and bias at once, which share most of what they take."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from micrograd_core.layout import Shape
from micrograd_core.ops.network import batch_normalization as by_channel
from micrograd_core.ops.network import normalization as norms
from micrograd_core.ops.record import SAME, Array, Op, Sample
from micrograd_core.ops.shared import axes_of

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


class NormGradients(NamedTuple):
    """Of the input, of the weight, and of the bias."""

    x: Any
    weight: Any
    bias: Any


def _gradients_shape(g: Any, x: Any, weight: Any, **params: Any) -> tuple[Shape, ...]:
    return tuple(x.shape), tuple(weight.shape), tuple(weight.shape)


def _layer_norm_gradients_parameters(
    g: Any, x: Any, weight: Any, /, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-5
) -> dict[str, Any]:
    axes = axes_of("layer_norm_gradients", x, axis)
    norms._check_parameter("layer_norm_gradients", "weight", weight, x, axes)
    return {"axis": axes, "eps": float(eps)}


def _layer_norm_gradients(k: Table, g: Any, x: Any, weight: Any, *, axis: Shape, eps: float) -> NormGradients:
    return NormGradients(
        k.standardize_gradient(g, x, weight, axis=axis, eps=eps),
        k.layer_norm_weight_gradient(g, x, axis=axis, eps=eps),
        norms._layer_norm_bias(k, g, None, x, weight, None, axis=axis, eps=eps),
    )


def _batch_norm_gradients_parameters(g: Any, x: Any, weight: Any, /, *, eps: float = 1e-5) -> dict[str, Any]:
    by_channel._batch_norm_parameters(x, weight=weight)
    return {"eps": float(eps)}


def _batch_norm_gradients(k: Table, g: Any, x: Any, weight: Any, *, eps: float) -> NormGradients:
    return NormGradients(
        by_channel._batch_norm_x(k, g, 0.0, x, 0.0, 1.0, weight, 0.0, training=True, eps=eps),
        k.batch_norm_weight_gradient(g, x, eps=eps),
        k.sum(g, axis=by_channel._but_channels(x), keepdims=False),
    )


def _layer_norm_gradients_reference(np: Any, g: Any, x: Any, weight: Any, axis: Any = -1, eps: float = 1e-5) -> Any:
    by_weight = norms._weight_gradient_reference(np, g * norms._normalized(np, x, axis, eps), axis)
    by_x = norms._standardize_gradient_reference(np, g, x, weight, axis=axis, eps=eps)
    return by_x, by_weight, norms._weight_gradient_reference(np, g, axis)


def _batch_norm_gradients_reference(np: Any, g: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    axis = (0, *range(2, x.ndim))
    by_weight = norms._weight_gradient_reference(np, g * norms._normalized(np, x, axis, eps), 1)
    weight = np.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    by_x = norms._standardize_gradient_reference(np, g, x, 1.0, axis=axis, eps=eps) * weight
    return by_x, by_weight, norms._weight_gradient_reference(np, g, 1)


_gradients = partial(
    Op,
    operands=3,
    accepts=norms.REAL_FLOATING,
    parts=NormGradients,
    result=(SAME, SAME, SAME),
    observe=lambda xp, *parts: xp.concat([xp.reshape(x, (-1,)) for x in parts]),
    shape=_gradients_shape,
)

OPS = (
    _gradients(
        "layer_norm_gradients",
        "The vector-Jacobian products of `layer_norm` of ``x2`` with weight ``x3`` by its input, weight and bias, "
        "with ``x1``.",
        parameters=_layer_norm_gradients_parameters,
        compose=_layer_norm_gradients,
        samples=(
            Sample(Array((3, 4)), Array((3, 4)), Array((4,)), eps=1e-2),
            Sample(Array((2, 2, 3)), Array((2, 2, 3)), Array((2, 3)), axis=(-2, -1), eps=1e-2),
            Sample(Array((4,)), Array((4,)), Array((4,)), eps=1e-2),
        ),
        reference=_layer_norm_gradients_reference,
    ),
    _gradients(
        "batch_norm_gradients",
        "The vector-Jacobian products of `batch_norm` of ``x2`` in training with weight ``x3`` by its input, weight "
        "and bias, with ``x1``.",
        parameters=_batch_norm_gradients_parameters,
        compose=_batch_norm_gradients,
        samples=(
            Sample(Array((3, 2)), Array((3, 2)), Array((2,)), eps=1e-2),
            Sample(Array((3, 2, 2)), Array((3, 2, 2)), Array((2,)), eps=1e-2),
        ),
        reference=_batch_norm_gradients_reference,
    ),
)
