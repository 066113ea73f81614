"""What operations of `micrograd_core.ops.standard.updates` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _update(each: str) -> Any:
    """By NumPy's function `each`, one value after the other; empty where the value stays."""

    def reference(np: Any, x: Any, indices: Any, values: Any, axis: int = 0) -> Any:
        axis = axis % x.ndim
        result = np.moveaxis(np.array(x), axis, 0)
        values = np.broadcast_to(values, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
        values = values.reshape((*x.shape[:axis], indices.size, *x.shape[axis + 1 :]))
        for i, value in zip(indices.ravel(), np.moveaxis(values, axis, 0), strict=True):
            result[i] = getattr(np, each)(result[i], value) if each else value
        return np.moveaxis(result, 0, axis)

    return reference


DEFINITIONS = {
    "index_add": _update("add"),
    "index_set": _update(""),
    "index_max": _update("maximum"),
    "index_min": _update("minimum"),
    "index_multiply": _update("multiply"),
    "index_scale": _update("multiply"),
}
