"""What operations of `micrograd_core.ops.network.softmax` are, in NumPy."""

from __future__ import annotations

import math
from typing import Any


def attention_weights_reference(np: Any, scores: Any, mask: Any = 0.0, is_causal: bool = False) -> Any:
    """The definition, of which what is hidden, and what sees nothing, is 0."""
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    scores = scores + (np.where(mask, 0, -np.inf) if np.asarray(mask).dtype == bool else mask)
    e = np.where(scores == -np.inf, 0, np.exp(scores))
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def softmax_reference(np: Any, x: Any, axis: int = -1) -> Any:
    """The definition, of differences from the largest number, which infinities need."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-math.inf))
    return powers / np.sum(powers, axis=axis, keepdims=True)


DEFINITIONS = {
    "softmax": softmax_reference,
    "softmax_gradient": lambda np, g, x, axis=-1: x * (g - np.sum(g * x, axis=axis, keepdims=True)),
    "attention_weights": attention_weights_reference,
    "attention_weights_gradient": lambda np, g, x, is_causal=False: x * (g - np.sum(g * x, axis=-1, keepdims=True)),
    "log_softmax": lambda np, x, axis=-1: np.log(softmax_reference(np, x, axis)),
    "log_softmax_gradient": lambda np, g, x, axis=-1: g - np.exp(x) * np.sum(g, axis=axis, keepdims=True),
}
