"""What operations of `micrograd_core.ops.network.activations` are, in NumPy."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.ops.network.activations import CUBIC, _elementwise, _sigmoid


def _gelu_gradient_reference(np: Any, g: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        t = np.tanh((2 / np.pi) ** 0.5 * (x + CUBIC * x**3))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * (2 / np.pi) ** 0.5 * (1 + 3 * CUBIC * x**2))
    cdf = _elementwise(lambda v: math.erfc(-v / 2**0.5) / 2)(np, x)
    return g * (cdf + x * np.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5)


DEFINITIONS = {
    "gelu_gradient": _gelu_gradient_reference,
    "silu_gradient": lambda np, g, x: g * _sigmoid(np, x) * (1 + x * _sigmoid(np, -x)),
}
