"""What operations of `micrograd_core.ops.network.activations` are, in NumPy."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.ops.network.activations import CUBIC


def _elementwise(function: Any) -> Any:
    """A reference from a function of one Python float."""
    return lambda np, x, **params: np.vectorize(function, otypes="d")(x) if x.size else np.zeros(x.shape)


def _cdf(v: float) -> float:
    """`_normal_cdf` of one float: what ``v / sqrt(2)`` rounds off is many roundings of the tail."""
    from fractions import Fraction  # which takes its time to import

    t = -v / 2**0.5
    lost = float(Fraction(t) ** 2 - Fraction(v) ** 2 / 2) if 0 < t < 40 else 0.0
    return math.erfc(t) / 2 * math.exp(lost)


def _times_normal_reference(np: Any, x: Any, y: Any) -> Any:
    return np.where(np.isinf(x) & np.isfinite(y), x, x * _elementwise(_cdf)(np, y))


def _gelu_reference(np: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + CUBIC * x**3)))
    return x * _elementwise(lambda v: math.erfc(-v / 2**0.5) / 2)(np, x)


def _gelu_gradient_reference(np: Any, g: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        t = np.tanh((2 / np.pi) ** 0.5 * (x + CUBIC * x**3))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * (2 / np.pi) ** 0.5 * (1 + 3 * CUBIC * x**2))
    cdf = _elementwise(lambda v: math.erfc(-v / 2**0.5) / 2)(np, x)
    return g * (cdf + x * np.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5)


def _sigmoid(np: Any, x: Any) -> Any:
    return np.exp(-np.logaddexp(0, -x))


DEFINITIONS = {
    "erf": _elementwise(math.erf),
    "erfc": _elementwise(math.erfc),
    "gelu": _gelu_reference,
    "times_normal": _times_normal_reference,
    "gelu_gradient": _gelu_gradient_reference,
    "silu_gradient": lambda np, g, x: g * _sigmoid(np, x) * (1 + x * _sigmoid(np, -x)),
    "leaky_relu": lambda np, x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    "elu": lambda np, x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "silu": lambda np, x: x * _sigmoid(np, x),
    "mish": lambda np, x: x * np.tanh(np.logaddexp(0, x)),
    "softplus": lambda np, x: np.logaddexp(0, x),
    "log_sigmoid": lambda np, x: -np.logaddexp(0, -x),
    "hardtanh": lambda np, x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
}
