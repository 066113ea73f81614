"""What operations of `micrograd_core.ops.network.patches` are, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.layout import Shape


def patches_reference(
    np: Any, x: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: float = 0.0
) -> Any:
    """Position by position."""
    rank = x.ndim - 2
    kernel, stride, padding, dilation = (np.broadcast_to(v, (rank,)) for v in (kernel_size, stride, padding, dilation))
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=fill)
    lengths = (np.array(x.shape[2:]) - dilation * (kernel - 1) - 1) // stride + 1
    out = np.empty((*x.shape[:2], *kernel, *lengths))
    for position in np.ndindex(*kernel, *lengths):
        at = stride * position[rank:] + dilation * position[:rank]
        out[(slice(None), slice(None), *position)] = x[(slice(None), slice(None), *at)]
    return out


def transposed(np: Any, function: Callable[[Any], Any], shape: Shape, g: Any) -> Any:
    """The transpose of a linear function of arrays of a shape, taken from what it does to each unit vector."""
    out = np.zeros(shape)
    for at in np.ndindex(*shape):
        unit = np.zeros(shape)
        unit[at] = 1
        out[at] = np.sum(function(unit) * g)
    return out


def _patches_gradient_reference(np: Any, g: Any, size: Any, **windows: Any) -> Any:
    shape = (*g.shape[:2], *np.broadcast_to(size, ((g.ndim - 2) // 2,)))
    return transposed(np, lambda x: patches_reference(np, x, **windows), shape, g)


DEFINITIONS = {"patches": patches_reference, "patches_gradient": _patches_gradient_reference}
