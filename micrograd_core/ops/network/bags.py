"""Rows in bags: the sums, means or maxima of runs of rows, as bags of embeddings are."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.ops.record import BOOLEAN, FLOATING, INTEGER, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import chosen, in_float32, is_scalar

MODES = ("sum", "mean", "max")


def _parameters(rows: Any, starts: Any, counted: Any = None, /, *, mode: str = "sum") -> dict[str, Any]:
    """The sum, mean or maximum, by `mode`, of the rows of ``x1`` in each bag.

    ``x2`` says where bags start, and ``x3``, bools, which rows count.
    """
    chosen("bags", "mode", mode, MODES)
    if len(rows.shape) != 2 or len(starts.shape) != 1 or getattr(counted, "shape", rows.shape[:1]) != rows.shape[:1]:
        raise ShapeError(
            f"bags: rows {tuple(rows.shape)}, starts {tuple(starts.shape)} and what counts do not fit (rows, "
            "features), (bags,) and (rows,)"
        )
    return {"mode": mode}


@in_float32
def _bags(k: Table, rows: Handle, starts: Handle, counted: Operand, *, mode: str) -> Handle:
    (length, features), bags, dtype = rows.shape, starts.shape[0], k.dtype(rows)
    if not bags:
        return k.full(shape=(0, features), fill_value=0, dtype=dtype)
    place = k.subtract(k.searchsorted(starts, k.arange(length, dtype=k.dtype(starts)), side="right"), 1)
    ones = k.full(shape=(length,), fill_value=1, dtype=dtype)
    if not is_scalar(counted):
        column = k.expand_dims(counted, axis=(1,))
        rows = k.where(column, rows, -math.inf if mode == "max" else 0)
        ones = k.astype(counted, dtype=dtype)
    counts = k.index_add(k.full(shape=(bags,), fill_value=0, dtype=dtype), place, ones, axis=0)
    filled = k.expand_dims(k.less(0, counts), axis=(1,))
    empty = k.full(shape=(bags, features), fill_value=-math.inf if mode == "max" else 0, dtype=dtype)
    if mode == "max":
        return k.where(filled, k.index_max(empty, place, rows, axis=0), 0)
    out = k.index_add(empty, place, rows, axis=0)
    return out if mode == "sum" else k.divide(out, k.where(filled, k.expand_dims(counts, axis=(1,)), 1))


OPS = (
    Op(
        "bags",
        optional=(1.0,),
        separate=(1, 2),
        parameters=_parameters,
        accepts=(FLOATING, INTEGER, BOOLEAN),
        compose=_bags,
        samples=(
            Sample((4, 2), Array((1,), 0, 1, "int64"), 1.0, mode="mean"),
            Sample((3, 2), Array((1,), 0, 1, "int64"), Array((3,), dtype="bool")),
        ),
    ),
)
