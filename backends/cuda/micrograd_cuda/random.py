"""Random kernels: own Philox4x64-10, the bits of `micrograd_core.ops.standard.random`."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.layout import Shape
from micrograd_core.ops.standard.random import start_at
from micrograd_cuda import geometry
from micrograd_cuda.operands import Kernels, name_of
from micrograd_cuda.units import ELEMENT, INDEX, Unit


def signed(word: int) -> int:
    """The lowest 64 bits, as kernels are passed them."""
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


class Random(Kernels):
    """Numbers without operands, and `dropout`. Each thread makes one block of four words, and what these give."""

    def _stream(self, key: int, block: int) -> Any:
        """The struct Stream."""
        places = (key, key >> 64, *(block >> shift for shift in (0, 64, 128, 192)))
        return self.runtime.struct([signed(word) for word in places], "Long")

    def _drawn(self, unit: Unit, dtype: Any, each: int, shape: Shape, *arguments: Any) -> Any:
        """Elements, of which a block of words makes `each`."""
        out = self.runtime.empty(shape, dtype)
        if out.size:
            self.launch(unit, geometry.ceil_div(out.size, each), out, *arguments, out.size)
        return out

    def _floating(self, family: str, dtype: Any, each: int, shape: Shape, *arguments: Any) -> Any:
        return self._drawn(Unit(family, (ELEMENT[name_of(dtype)],)), dtype, each, shape, *arguments)

    def random_uniform(self, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
        """Exact."""
        return self._floating("uniform", dtype, 4 if dtype.itemsize == 8 else 8, shape, self._stream(key, block))

    def random_uniform_from(self, place: Any, *, shape: Shape, dtype: Any) -> Any:
        """While a program is traced; then nests draw from the place on, and nothing of it is in memory."""
        return self.random_uniform(shape=shape, dtype=dtype, **start_at(place))

    def random_normal(self, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
        """Through the GPU's ``log``, ``sin`` and ``cos``; narrow dtypes are rounded from float32."""
        return self._floating("normal", dtype, 4 if dtype.itemsize == 8 else 8, shape, self._stream(key, block))

    def dropout(self, x: Any, *, p: float, key: int, block: int) -> Any:
        """One read, one write; the mask is nowhere."""
        if p == 0:
            return x.copy()
        if name_of(x.dtype) not in ELEMENT:
            return NotImplemented
        return self._floating("dropout", x.dtype, 8, x.shape, self.contiguous(x), float(p), self._stream(key, block))

    def random_integers(self, *, shape: Shape, dtype: Any, key: int, block: int, low: int, high: int) -> Any:
        """Exact; a span of 2**64 travels as 0."""
        unit = Unit("integers", (INDEX[name_of(dtype)],))
        return self._drawn(unit, dtype, 4, shape, self._stream(key, block), signed(low), signed(high - low))

    def random_permutation(self, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
        """The namespace sorts words in whose lowest bits stands their position."""
        xp, size = self.xp, math.prod(shape)
        mask = (1 << (size - 1).bit_length()) - 1 if size else 0
        words = self._drawn(Unit("marked", ()), xp.uint64, 4, shape, self._stream(key, block), mask)
        return xp.bitwise_and(xp.sort(words), xp.full((), mask, dtype=xp.uint64)).astype(dtype)
