"""How a tensor prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import unpack
from micrograd_core.engine.apply import apply
from micrograd_core.engine.ingest import read
from micrograd_core.layout import nest
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

SUMMARIZE = 1000  # elements above which only the edges of each axis are shown
EDGE = 3


def describe(x: Tensor) -> str:
    """The repr of a tensor: its numbers (the edges of a large one), then what is not the default."""
    if x._kernels.depth:
        return f"Tensor(<one of a batch>, shape={x.shape}, dtype={x.dtype})"
    cut = math.prod(x.shape) > SUMMARIZE
    shown = x.detach()
    edges = [cut and length > 2 * EDGE for length in x.shape]
    for axis, edge in enumerate(edges):
        if edge:
            ends = shown.slice(axis, 0, EDGE), shown.slice(axis, -EDGE, x.shape[axis])
            shown = apply(TABLE["concat"], ends, {"axis": axis})
    flat = [_number(value) for value in unpack(read(shown._kernels, shown._handle, shown.dtype), shown.dtype)]
    width = max(map(len, flat), default=0)
    texts = nest([text.rjust(width) for text in flat], shown.shape) if flat or not x.shape else []
    body = _rows(texts, edges, len("Tensor(")) if flat else f"[], shape={x.shape}"
    extras = [f"dtype={x.dtype}"] if str(x.dtype) not in ("float32", "int64", "bool") or not flat else []
    extras += [f"shape={x.shape}"] if cut else []
    extras += [] if x.device.is_cpu() else [f"device='{x.device}'"]
    extras += ["requires_grad=True"] if x.requires_grad else []
    return f"Tensor({', '.join([body, *extras])})"


def _number(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.4g}"
        return text if any(mark in text for mark in ".ein") else text + "."
    return str(value)


def _rows(texts: Any, edges: list[bool], indent: int) -> str:
    if isinstance(texts, str):
        return texts.strip()
    inner = [_rows(row, edges[1:], indent + 1) if not isinstance(row, str) else row for row in texts]
    if edges[0]:
        inner.insert(EDGE, "...")
    gap = ", " if isinstance(texts[0], str) else "," + "\n" * (len(edges) - 1) + " " * (indent + 1)
    return f"[{gap.join(inner)}]"
