"""Embeddings, and sums of rows by number: own kernels that gather, and that add up in one order.

What names no row is NaN when it is gathered, and left out of a sum: to refuse it would be to wait for the GPU.
"""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.layout import Shape
from micrograd_cuda import geometry
from micrograd_cuda.geometry import BLOCK
from micrograd_cuda.operands import Kernel, alignment, contiguous, is_number, name_of, of_elements, wide
from micrograd_cuda.runtime import Runtime
from micrograd_cuda.units import ELEMENT, INDEX, Unit


class Indexing:
    """With `atomic` rows are added up as the threads arrive, which saves a sort; the last bits then vary."""

    def __init__(self, xp: Any, runtime: Runtime, atomic: bool) -> None:
        self.xp, self.runtime, self.atomic = xp, runtime, atomic

    def table(self) -> dict[str, Kernel]:
        """By operation."""
        return {
            "embedding": self.embedding,
            "embedding_gradient": of_elements(self.embedding_gradient),
            "index_add": of_elements(self.index_add),
        }

    def embedding(self, indices: Any, weight: Any) -> Any:
        """Rows of the weight, a pack at a time."""
        dtype, (rows, columns) = weight.dtype, weight.shape
        if name_of(dtype) not in ELEMENT or name_of(indices.dtype) not in INDEX:
            return NotImplemented
        out = self.runtime.empty((*indices.shape, columns), dtype)
        if out.size:
            weight, indices = contiguous(weight), contiguous(indices)
            start = alignment(self.runtime, weight)
            pack = geometry.power_of_two(columns, max(start // dtype.itemsize, 1))
            element, index = ELEMENT[name_of(dtype)], INDEX[name_of(indices.dtype)]
            run = self.runtime.bind(Unit("gather", (element, index, str(pack)), BLOCK, element, index))
            run((geometry.blocks(out.size // pack), 1), (out, weight, indices, indices.size, rows, columns))
        return out

    def embedding_gradient(self, g: Any, indices: Any, *, num_embeddings: int) -> Any:
        """The sum of the rows of `g` for each row of the weight."""
        columns = g.shape[-1]
        flat, rows = indices.reshape(indices.size).astype(self.xp.int64), g.reshape(indices.size, columns)
        return self._sums(None, flat, rows, num_embeddings, columns)

    def index_add(self, x: Any, indices: Any, values: Any, *, axis: int) -> Any:
        """Slices of `x` as rows: one copy of each operand that does not lie so."""
        xp, length = self.xp, x.shape[axis]
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        columns = math.prod(before) * math.prod(after)
        values = xp.full((), values, dtype=x.dtype) if is_number(values) else values
        values = xp.broadcast_to(values, (*before, *indices.shape, *after)).reshape(*before, indices.size, *after)
        flat = indices.reshape(indices.size).astype(xp.int64)
        flat = xp.where(flat < 0, flat + length, flat)
        order = (axis, *(each for each in range(len(x.shape)) if each != axis))
        base, rows = (each.transpose(order).reshape(each.shape[axis], columns) for each in (x, values))
        out = self._sums(contiguous(base), flat, rows, length, columns)
        return out.reshape(length, *before, *after).transpose(tuple(sorted(range(len(order)), key=order.__getitem__)))

    def _sums(self, base: Any, indices: Any, values: Any, rows: int, columns: int) -> Any:
        """(rows, columns): `base` or zeros, and to row ``indices[i]`` added row `i` of the values."""
        dtype, shape = values.dtype, (rows, columns)
        if not rows * columns or not indices.size:
            return self.xp.zeros(shape, dtype=dtype) if base is None else base.copy()
        return (self._atomic if self.atomic else self._sorted)(base, indices, contiguous(values), shape)

    def _sorted(self, base: Any, indices: Any, values: Any, shape: Shape) -> Any:
        """Each element of the result is added up by one thread, in the order of the indices."""
        xp, (rows, columns) = self.xp, shape
        order = xp.argsort(indices, stable=True)
        first = xp.searchsorted(xp.take(indices, order, axis=0), xp.arange(rows + 1, dtype=xp.int64))
        out = self.runtime.empty(shape, values.dtype)
        element = ELEMENT[name_of(values.dtype)]
        run = self.runtime.bind(Unit("sorted_add", (element,), BLOCK, element))
        operands = 0 if base is None else base, values, order.astype(xp.int64), first.astype(xp.int64)
        run((geometry.blocks(out.size), 1), (out, *operands, rows, columns))
        return out

    def _atomic(self, base: Any, indices: Any, values: Any, shape: Shape) -> Any:
        """In the wide type, and rounded at the end."""
        total = wide(self.xp, values.dtype)
        out = self.xp.zeros(shape, dtype=total) if base is None else base.astype(total)
        element = ELEMENT[name_of(values.dtype)]
        run = self.runtime.bind(Unit("scatter_add", (element, INDEX["int64"]), BLOCK, element, INDEX["int64"]))
        run((geometry.blocks(values.size), 1), (out, values, indices, indices.size, *shape))
        return out.astype(values.dtype)
