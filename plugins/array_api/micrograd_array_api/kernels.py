"""Kernels: keys with slices of negative step, for libraries that refuse them. The rest comes from the namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.adapters.array_api import put
from micrograd_core.layout import Key, Shape


def forwards(key: Key, shape: Shape) -> tuple[Key, list[int]]:
    """The key of the same elements with positive steps only, and the axes of the result to reverse, from the end."""
    turned: list[Any] = []
    lengths = iter(shape)
    for entry in key:
        length = 0 if entry is None else next(lengths)
        if isinstance(entry, slice) and (entry.step or 1) < 0:
            taken = range(length)[entry]
            entry = slice(taken[-1], taken[0] + 1, -taken.step)
        turned.append(entry)
    kept = [(old, new) for old, new in zip(key, turned, strict=True) if not isinstance(old, int)]
    return tuple(turned), [axis - len(kept) for axis, (old, new) in enumerate(kept) if old is not new]


def put_forwards(xp: Any, x: Any, values: Any, key: Key) -> None:
    """``x[key] = values``, in place."""
    key, reversed_axes = forwards(key, x.shape)
    axes = tuple(axis for axis in reversed_axes if -axis <= len(getattr(values, "shape", ())))
    put(xp, x, xp.flip(values, axis=axes) if axes else values, key)


def stepping_back(xp: Any) -> dict[str, Callable[..., Any]]:
    """`getitem` and `scatter` for a namespace that does not."""

    def getitem(x: Any, *, key: Key) -> Any:
        key, axes = forwards(key, x.shape)
        return xp.flip(x[key], axis=tuple(axes)) if axes else x[key]

    def scatter(x: Any, values: Any, *, key: Key) -> Any:
        result = xp.asarray(x, copy=True)
        put_forwards(xp, result, values, key)
        return result

    return {"getitem": getitem, "scatter": scatter}
