"""What operations of `micrograd_core.ops.standard.elementary` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _logit_reference(np: Any, x: Any, eps: float | None = None) -> Any:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


DEFINITIONS = {
    "square_gradient": lambda np, g, x: 2 * g * x,
    "rsqrt": lambda np, x: 1 / np.sqrt(x),
    "logit": _logit_reference,
    "lerp": lambda np, x, end, weight: x + weight * (end - x),
    "masked_fill": lambda np, x, mask, value: np.where(mask, value, x),
}
