"""What operations of `micrograd_core.ops.network.normalization` are, in NumPy."""

from __future__ import annotations

from typing import Any


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


def _layer_norm_gradients_reference(np: Any, g: Any, x: Any, weight: Any, axis: Any = -1, eps: float = 1e-5) -> Any:
    by_weight = _weight_gradient_reference(np, g * _normalized(np, x, axis, eps), axis)
    by_x = _standardize_gradient_reference(np, g, x, weight, axis=axis, eps=eps)
    return by_x, by_weight, _weight_gradient_reference(np, g, axis)


DEFINITIONS = {
    "standardize": lambda np, x, axis=-1, eps=1e-5: _normalized(np, x, axis, eps),
    "standardize_gradient": _standardize_gradient_reference,
    "layer_norm": lambda np, x, weight, bias, axis=-1, eps=1e-5: _normalized(np, x, axis, eps) * weight + bias,
    "rms_norm": lambda np, x, weight, axis=-1, eps=1e-6: x / _root(np, x, axis, eps) * weight,
    "layer_norm_weight_gradient": lambda np, g, x, axis=-1, eps=1e-5: _weight_gradient_reference(
        np, g * _normalized(np, x, axis, eps), axis
    ),
    "rms_norm_gradient": _rms_norm_gradient_reference,
    "rms_norm_weight_gradient": lambda np, g, x, axis=-1, eps=1e-6: _weight_gradient_reference(
        np, g * x / _root(np, x, axis, eps), axis
    ),
    "layer_norm_gradients": _layer_norm_gradients_reference,
}
