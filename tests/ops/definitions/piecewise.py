"""What operations of `micrograd_core.ops.network.piecewise` are, in NumPy."""

from __future__ import annotations

from typing import Any

from tests.ops.definitions.softmax import softmax_reference


def _glu_reference(np: Any, x: Any, axis: int = -1) -> Any:
    first, second = np.split(x, 2, axis=axis)
    return first / (1 + np.exp(-second))


DEFINITIONS = {"softmin": lambda np, x, axis=-1: softmax_reference(np, -x, axis), "glu": _glu_reference}
