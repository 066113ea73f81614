"""Embeddings, and sums of rows by number: own kernels that gather, and that add up in one order.

What names no row is NaN when it is gathered, and left out of a sum: to refuse it would be to wait for the GPU.
"""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.adapters.array_api import put
from micrograd_core.layout import Shape
from micrograd_cuda import geometry
from micrograd_cuda.operands import Kernels, element, is_number, name_of, of_elements
from micrograd_cuda.plans import planned
from micrograd_cuda.units import ELEMENT, INDEX, Unit


class Indexing(Kernels):
    """Rows are sorted by index and added in that order, so that the bits are the same every time."""

    @planned
    def embedding(self, indices: Any, weight: Any) -> Any:
        """Rows of the weight, a pack at a time."""
        dtype, (rows, columns) = weight.dtype, weight.shape
        if name_of(dtype) not in ELEMENT or name_of(indices.dtype) not in INDEX:
            return NotImplemented
        out = self.runtime.empty((*indices.shape, columns), dtype)
        if out.size:
            weight, indices = self.contiguous(weight), self.contiguous(indices)
            pack = geometry.power_of_two(columns, max(self.alignment(weight) // dtype.itemsize, 1))
            unit = Unit("gather", (element(weight), INDEX[name_of(indices.dtype)], str(pack)))
            self.launch(unit, out.size // pack, out, weight, indices, indices.size, rows, columns)
        return out

    @of_elements
    def embedding_gradient(self, g: Any, indices: Any, *, num_embeddings: int) -> Any:
        """The sum of the rows of `g` for each row of the weight."""
        return self._sums(None, indices, g.reshape(indices.size, g.shape[-1]), num_embeddings)

    def getitem_gradient(self, g: Any, *, shape: Shape, key: Any) -> Any:
        """Zeros, and into their memory what was taken. Under `jit` it is part of a nest."""
        out = self.xp.zeros(shape, dtype=g.dtype)
        put(self.xp, out, g, key)
        return out

    @of_elements
    def index_add(self, x: Any, indices: Any, values: Any, *, axis: int) -> Any:
        """Slices of `x` as rows: one copy of each operand that does not lie so."""
        xp, length = self.xp, x.shape[axis]
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        columns = math.prod(before) * math.prod(after)
        values = xp.full((), values, dtype=x.dtype) if is_number(values) else values
        values = xp.broadcast_to(values, (*before, *indices.shape, *after)).reshape(*before, indices.size, *after)
        base, rows = (xp.moveaxis(each, axis, 0).reshape(each.shape[axis], columns) for each in (x, values))
        out = self._sums(self.contiguous(base), indices, rows, length, negative=True)
        return xp.moveaxis(out.reshape(length, *before, *after), 0, axis)

    def _sums(self, base: Any, indices: Any, values: Any, rows: int, *, negative: bool = False) -> Any:
        """(rows, columns): `base` or zeros, and to row ``indices[i]`` added row `i` of the values.

        With `negative`, negative indices count from the end.
        """
        dtype, shape = values.dtype, (rows, values.shape[1])
        if 0 in shape or not indices.size:
            return self.xp.zeros(shape, dtype=dtype) if base is None else base.copy()
        keys, key = self._keys(indices, rows, negative), geometry.counter(rows)
        order = self.xp.argsort(keys, stable=True).astype(self.xp.int64, copy=False)
        return self._in_order(base, keys, key, self.contiguous(values), shape, order)

    @planned
    def _keys(self, indices: Any, rows: int, negative: bool) -> Any:
        """Row numbers; of what names no row one beyond them."""
        runtime, key = self.runtime, geometry.counter(rows)
        keys = runtime.empty((indices.size,), self.xp.int32 if key == "int" else self.xp.int64)
        unit, count = Unit("row_keys", (key, INDEX[name_of(indices.dtype)])), indices.size
        self.launch(unit, count, keys, self.contiguous(indices), int(negative), count, rows)
        return keys

    @planned
    def _in_order(self, base: Any, keys: Any, key: str, values: Any, shape: Shape, order: Any) -> Any:
        """Each element of the result is added up by one thread, in the order of the indices.

        Long sequences of one index are cut: other threads add up segments of them first.
        """
        xp, runtime, (rows, columns), dtype, count = self.xp, self.runtime, shape, values.dtype, keys.size
        first = runtime.empty((rows + 1,), xp.int64)
        self.launch(Unit("row_starts", (key,)), rows + 1, first, keys, order, count, rows)
        out, start = runtime.empty(shape, dtype), self.alignment(values, *(() if base is None else (base,)))
        pack = geometry.power_of_two(columns, max(start // dtype.itemsize, 1))
        kind, segment = element(values), geometry.segment(count)
        partial: Any = 0
        if count >= 2 * segment:
            partial = runtime.empty((count // segment, columns), self.wide(dtype))
            unit = Unit("add_segments", (kind, key, str(pack)))
            self.launch(unit, partial.size // pack, partial, values, keys, order, count // segment, segment, columns)
        unit, operands = Unit("sorted_add", (kind, str(pack))), (0 if base is None else base, values, order, first)
        self.launch(unit, out.size // pack, out, *operands, partial, segment, rows, columns)
        return out
