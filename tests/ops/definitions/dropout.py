"""What operations of `micrograd_core.ops.network.dropout` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _reference(np: Any, x: Any, p: float = 0.5, training: bool = True, generator: int = 0) -> Any:
    """float32 numbers are the leading 24 bits of each half of a word, the lower half first."""
    if not training:
        return x
    halves = np.random.Philox(key=generator).random_raw(x.size).view("uint32")[: x.size]
    drawn = (halves >> 8).reshape(x.shape) * 2.0**-24
    return np.where(drawn < p, 0, x / (1 - p))


DEFINITIONS = {"dropout": _reference}
