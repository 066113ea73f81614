"""What operations of `micrograd_core.ops.network.piecewise` are, in NumPy."""

from __future__ import annotations

from typing import Any

from micrograd_core.ops.network.piecewise import SELU_ALPHA, SELU_SCALE
from tests.ops.definitions.softmax import softmax_reference


def _glu_reference(np: Any, x: Any, axis: int = -1) -> Any:
    first, second = np.split(x, 2, axis=axis)
    return first / (1 + np.exp(-second))


DEFINITIONS = {
    "softmin": lambda np, x, axis=-1: softmax_reference(np, -x, axis),
    "glu": _glu_reference,
    "relu6": lambda np, x: np.minimum(np.maximum(x, 0), 6),
    "hardsigmoid": lambda np, x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda np, x: x * (np.clip(x + 3, 0, 6) / 6),
    "selu": lambda np, x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    "celu": lambda np, x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    "softsign": lambda np, x: x / (1 + np.abs(x)),
    "tanhshrink": lambda np, x: np.copysign(x - np.tanh(x), x),
    "softshrink": lambda np, x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x - np.sign(x) * lambd),
    "hardshrink": lambda np, x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
    "threshold": lambda np, x, threshold, value: np.where(x <= threshold, value, x),
    "prelu": lambda np, x, slope: np.where(x > 0, x, x * slope),
    "scaled_softplus": lambda np, x, beta=1.0, threshold=20.0: np.where(
        x * beta > threshold, x, np.logaddexp(0, x * beta) / beta
    ),
}
