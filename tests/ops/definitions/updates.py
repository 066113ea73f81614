"""What operations of `micrograd_core.ops.standard.updates` are, in NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any


def _updated(ufunc: str, np: Any, x: Any, indices: Any, values: Any, axis: int = 0) -> Any:
    """By NumPy's ufunc of that name, one value after the other; "" replaces."""
    result, key = np.array(x), (*[slice(None)] * (axis % x.ndim), indices)
    if ufunc:
        getattr(np, ufunc).at(result, key, values)
    else:
        result[key] = values
    return result


DEFINITIONS = {
    "index_add": partial(_updated, "add"),
    "index_set": partial(_updated, ""),
    "index_max": partial(_updated, "maximum"),
    "index_min": partial(_updated, "minimum"),
    "index_multiply": partial(_updated, "multiply"),
    "index_scale": partial(_updated, "multiply"),
}
