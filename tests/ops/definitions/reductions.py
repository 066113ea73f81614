"""What operations of `micrograd_core.ops.core.reductions` are, in NumPy."""

from __future__ import annotations

DEFINITIONS = {
    "logsumexp": lambda np, x, axis=None, keepdims=False: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims)
}
