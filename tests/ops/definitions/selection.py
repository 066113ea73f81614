"""What operations of `micrograd_core.ops.standard.selection` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _gather_reference(np: Any, x: Any, index: Any, axis: int) -> Any:
    kept = tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(index.shape))
    return np.take_along_axis(x[kept], index, axis)


def _scatter_reference(
    np: Any, x: Any, index: Any, src: Any, axis: int, reduce: str = "replace", include_self: bool = True
) -> Any:
    out, seen = np.array(x), np.full(x.shape, int(include_self))
    for place in np.ndindex(*index.shape):
        at = tuple(int(index[place]) % x.shape[axis] if i == axis % x.ndim else n for i, n in enumerate(place))
        value = src if np.ndim(src) == 0 else src[place]
        old, first = out[at], seen[at] == 0 or reduce == "replace"
        combined = {"sum": old + value, "mean": old + value, "prod": old * value, "amax": max(old, value)}
        out[at] = value if first else combined.get(reduce, min(old, value))
        seen[at] += 1
    counts = np.maximum(seen, 1)
    return out if reduce != "mean" else out // counts if out.dtype.kind in "iu" else out / counts


def _kth_reference(np: Any, x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    places = np.argsort(x, axis=axis, kind="stable").take([k - 1], axis=axis)
    found = np.take_along_axis(x, places, axis=axis), places
    return found if keepdims else tuple(np.squeeze(each, axis=axis) for each in found)


DEFINITIONS = {"gather": _gather_reference, "scatter_reduce": _scatter_reference, "kthvalue": _kth_reference}
