"""What operations of `micrograd_core.ops.network.bags` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _reference(np: Any, rows: Any, starts: Any, counted: Any, mode: str = "sum") -> Any:
    stops, found = [*starts[1:], len(rows)], []
    kept = np.broadcast_to(np.asarray(counted, bool), rows.shape[:1])
    for start, stop in zip(starts, stops, strict=True):
        bag = rows[start:stop][kept[start:stop]]
        found.append(getattr(np, mode)(bag, axis=0) if len(bag) else np.zeros(rows.shape[1]))
    return np.array(found)


DEFINITIONS = {"bags": _reference}
