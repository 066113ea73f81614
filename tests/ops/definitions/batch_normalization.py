"""What operations of `micrograd_core.ops.network.normalization` are, in NumPy."""

from __future__ import annotations

from typing import Any

from tests.ops.definitions.normalization import _normalized, _standardize_gradient_reference, _weight_gradient_reference


def _batch_norm_reference(
    np: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool = False, eps: float = 1e-5
) -> Any:
    mean, var, weight, bias = (np.reshape(each, (-1, *(1,) * (x.ndim - 2))) for each in (mean, var, weight, bias))
    if training:
        return _normalized(np, x, (0, *range(2, x.ndim)), eps) * weight + bias
    return (x - mean) / np.sqrt(var + eps) * weight + bias


def _batch_norm_gradients_reference(np: Any, g: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    axis = (0, *range(2, x.ndim))
    by_weight = _weight_gradient_reference(np, g * _normalized(np, x, axis, eps), 1)
    weight = np.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    by_x = _standardize_gradient_reference(np, g, x, 1.0, axis=axis, eps=eps) * weight
    return by_x, by_weight, _weight_gradient_reference(np, g, 1)


DEFINITIONS = {
    "batch_norm": _batch_norm_reference,
    "batch_norm_gradient": lambda np, g, x, weight=1.0, eps=1e-5: _standardize_gradient_reference(
        np, g, x, np.reshape(weight, (-1, *(1,) * (x.ndim - 2))), (0, *range(2, x.ndim)), eps
    ),
    "batch_norm_weight_gradient": lambda np, g, x, eps=1e-5: _weight_gradient_reference(
        np, g * _normalized(np, x, (0, *range(2, x.ndim)), eps), 1
    ),
    "batch_norm_gradients": _batch_norm_gradients_reference,
}
