"""What operations of `micrograd_core.ops.standard.indexing` are, in NumPy."""

from __future__ import annotations

DEFINITIONS = {
    "last_position": lambda np, x, length: np.array(
        [max([i for i, each in enumerate(x.ravel()) if each % length == n], default=-1) for n in range(length)]
    ),
    "linear_index": lambda np, *xs, shape: np.ravel_multi_index(
        np.broadcast_arrays(*(x % n for x, n in zip(xs, shape, strict=True))), shape
    ),
}
