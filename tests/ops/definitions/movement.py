"""What operations of `micrograd_core.ops.core.movement` are, in NumPy."""

from __future__ import annotations

DEFINITIONS = {
    "spread": lambda np, x, shape: np.broadcast_to(x, shape),
    "one_hot": lambda np, x, num_classes, dtype="float32": np.eye(num_classes, dtype=str(dtype))[x],
}
