"""What operations of `micrograd_core.ops.network.convolution` are, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.ops.definitions.patches import patches_reference


def _reference(name: str, fill: float) -> Callable[..., Any]:
    def reference(np: Any, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
        steps = kernel_size if stride is None else stride
        patches = patches_reference(np, x, kernel_size, steps, padding, dilation, fill)
        return getattr(np, name)(patches, axis=tuple(range(2, x.ndim)))

    return reference


def _max_gradient_reference(
    np: Any, g: Any, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1
) -> Any:
    """Each patch's share goes to the element whose number stands in its place in a grid of numbers."""
    kernel = tuple(range(2, x.ndim))
    windows = (kernel_size, kernel_size if stride is None else stride, padding, dilation)
    patches = patches_reference(np, x, *windows, -math.inf)
    tied = patches == np.max(patches, axis=kernel, keepdims=True)
    shares = tied * np.expand_dims(g / np.sum(tied, axis=kernel), kernel)
    places = patches_reference(np, np.arange(1.0, x.size + 1).reshape(x.shape), *windows)
    return np.bincount(places.astype(int).ravel(), shares.ravel(), x.size + 1)[1:].reshape(x.shape)


DEFINITIONS = {}
for _rank in (1, 2, 3):
    DEFINITIONS[f"max_pool{_rank}d"] = _reference("max", -math.inf)
    DEFINITIONS[f"max_pool{_rank}d_gradient"] = _max_gradient_reference
    DEFINITIONS[f"avg_pool{_rank}d"] = _reference("mean", 0.0)
