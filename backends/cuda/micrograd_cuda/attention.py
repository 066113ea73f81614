"""Attention of halves by tensor cores, without a matrix of scores in memory: see ``attention.cuh``.

Heads, batches and positions may lie in any order, as long as features are next to each other, in multiples of 16 bytes.
Of few targets, as where text is made word by word, the result is found by several blocks each, which share the sources.
Other calls are composed: other dtypes, features that are no multiple of 8 or more than 128.
"""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_cuda import geometry
from micrograd_cuda.operands import Kernels, copied, element, is_number, name_of, place
from micrograd_cuda.plans import planned, span
from micrograd_cuda.units import RESULT, Unit

FEWEST: Final = 16
"""Targets of a head from which on a block has many of them, and all sources."""
BLOCKS: Final = 264
"""Of few targets: two for each multiprocessor of an H100. Of eight times as many targets products are as good."""
MOST: Final = 128
"""Features that kernels take."""
ROWS: Final = 128
"""Of a block that computes the result; sums of each head have a place for all of its rows."""
SHAPES: Final[dict[tuple[str, int], tuple[int, ...]]] = {
    ("attention", 64): (4, 2, 64), ("attention", MOST): (4, 2, 64),
    ("attention_query_gradient", 64): (4, 2, 64), ("attention_query_gradient", MOST): (4, 2, 32),
    ("attention_source_gradients", 64): (4, 2, 32), ("attention_source_gradients", MOST): (8, 2, 64, 2),
}  # fmt: skip
"""By kernel and most features: warps of a block, tiles of 16 rows of a warp, columns; and how many warps share rows."""
MASKED: Final = (8, 1, 32)
"""Warps, tiles and columns where there is a mask, which takes registers."""
SMALL: Final = (4, 1, 32)
"""Those of gradients of more features where a block has less shared memory than on an H100: it takes 70 KB."""


class Attention(Kernels):
    """The result, and its gradients."""

    def scaled_dot_product_attention(self, query: Any, key: Any, value: Any, mask: Any = 0.0, *, is_causal: bool,
                                     scale: float) -> Any:  # fmt: skip
        """One launch; what the exponentials of each row add up to is kept for the gradient. Of few targets two."""
        given = query, key, value, mask, is_causal, scale
        out, sums = self._found(*given)
        if out is None:
            return NotImplemented
        self.runtime.remembered.keep(*arrays_and_facts(out, *given), sums, made=True)
        return out

    def attention_gradients(self, g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, *, is_causal: bool,
                            scale: float) -> Any:  # fmt: skip
        """Two launches, in each of which weights are computed anew: no sum depends on which block comes first."""
        given = query, key, value, mask, is_causal, scale
        sums = self.runtime.remembered.take(*arrays_and_facts(out, *given))
        if sums is None:
            _, sums = self._found(*given)
        return NotImplemented if sums is None else self._gradients(g, out, sums, *given)

    def _found(self, query: Any, *more: Any) -> Any:
        """The same as `_attention`; of what is to be composed ``None`` twice."""
        known = name_of(query.dtype) in ("float16", "bfloat16") and self.runtime.capability >= 80
        return (self._attention(query, *more) if known else None) or (None, None)

    @planned
    def _attention(self, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
        """The result, and of each row what its weights are made of; ``None`` of what is to be composed."""
        (targets, features), dtype, runtime = query.shape[-2:], query.dtype, self.runtime
        fits = key.dtype == value.dtype == dtype and all(map(self._fits, (query, key, value))) and 0 < scale < math.inf
        fits = fits and (is_number(mask) or name_of(mask.dtype) in ("bool", name_of(dtype)))
        batch = broadcast_shapes("attention", query.shape[:-2], key.shape[:-2], value.shape[:-2])
        takes = targets >= FEWEST or math.prod(batch) * targets <= 8 * BLOCKS
        if not fits or not takes or features % 8 or features > MOST or value.shape[-1] != features:
            return None
        out = self._like(query, batch)
        sums = runtime.empty((math.prod(batch), 2 * geometry.ceil_div(targets, ROWS) * ROWS), self.xp.float32)
        more = (query, key, value, out) * 2, mask, is_causal, scale  # of the gradients nothing is read
        family = "attention_of_few" if targets < FEWEST else "attention"
        return (out, sums) if self._launch(family, targets, (out, sums), *more) else None

    @planned
    def _gradients(self, g: Any, out: Any, sums: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool,
                   scale: float) -> Any:  # fmt: skip
        """By query, key and value: each lies as that does, or in C order where that is part of another array."""
        g, out = (x if self._fits(x) else copied(self.runtime, x) for x in (g, out))
        found = tuple(self._like(x, out.shape[:-2], whole=True) for x in (query, key, value))
        dots, of = self.runtime.empty((len(sums), sums.shape[1] // 2), sums.dtype), (query, key, value, out, g, *found)
        first, more = (found[0], dots, sums, g, out), (of, mask, is_causal, scale)
        self._launch("attention_query_gradient", query.shape[-2], first, *more)
        self._launch("attention_source_gradients", key.shape[-2], (*found[1:], sums, dots, g), *more)
        return found

    def _fits(self, x: Any) -> bool:
        """Whether features are next to each other, and packs of 8 at multiples of 16 bytes; rows not too far apart."""
        steps = [stride for length, stride in zip(x.shape[:-1], x.strides[:-1], strict=True) if length > 1]
        near = x.strides[-1] == x.dtype.itemsize and (x.shape[-2] == 1 or abs(x.strides[-2]) < 2**25)  # within a tile
        return bool(near and x.size and not any(each % 16 for each in (*steps, self.runtime.address(x))))

    def _like(self, x: Any, batch: Shape, *, whole: bool = False) -> Any:
        """Fresh memory for those heads, its axes in the order in which those of `x` lie; of a `whole` one only."""
        shape, axes, (first, end) = (*batch, *x.shape[-2:]), [*range(len(batch) + 1)], span(x, self.runtime.address)
        if len(x.shape) == len(shape) and (end - first == x.nbytes or not whole):
            axes.sort(key=lambda axis: -abs(x.strides[axis]))
        made = self.runtime.empty((*(shape[axis] for axis in axes), shape[-1]), x.dtype)
        return made.transpose(*sorted(range(len(axes)), key=axes.__getitem__), len(axes))

    def _launch(self, name: str, rows: int, given: Any, of: tuple[Any, ...], mask: Any, is_causal: bool,
                scale: float) -> bool:  # fmt: skip
        """Whether that could be: heads along no more than three axes, and ints that count all elements."""
        query, key, value, out, *_ = of
        (targets, features), sources, batch = query.shape[-2:], key.shape[-2], out.shape[:-2]
        if masked := not is_number(mask):
            mask = self.xp.broadcast_to(mask, (*mask.shape[:-2], targets, sources))
        places = [place(self.runtime, x) for x in (*of, mask if masked else query)]
        strides = [geometry.broadcast_strides(each, (*batch, *each.shape[-2:])) for each in places]
        lengths, heads = geometry.collapse(batch, tuple(each[:-2] for each in strides))
        missing = 3 - len(lengths)
        numbers = [targets, sources, features, *((1,) * missing + lengths)[1:], geometry.ceil_div(targets, ROWS) * ROWS]
        for steps, each in zip(heads, strides, strict=True):
            numbers += (*(0,) * missing, *steps, *each[-2:])
        if missing < 0 or max(map(abs, numbers)) >= 2**31:
            return False
        kinds = element(query), RESULT[name_of(mask.dtype)] if masked else element(query)
        facts, struct = (*kinds, str(masked).lower(), str(is_causal).lower()), self.runtime.struct(numbers, "int")
        arguments = query, key, value, mask if masked else 0, struct, scale
        if name == "attention_of_few":  # some sources for each block: four or more for each of its groups
            width, rows = max(8, 1 << (features - 1).bit_length()), rows * math.prod(lengths)
            chunk = max(geometry.ceil_div(sources * rows, BLOCKS), 4 * (1024 // width))
            count = geometry.ceil_div(sources, chunk)
            parts = self.runtime.empty((rows * count, width + 2), self.xp.float32)
            launch = self.runtime.bind(Unit(name, (*facts, str(width)), 128))
            launch((rows * count, 1), (parts, *arguments, chunk, count))
            unit = Unit("attention_of_parts", (facts[0], facts[2], str(width)), 128)
            self.runtime.bind(unit)((rows, 1), (*given, parts, struct, count))
            return True
        twice, usual = name != "attention", MASKED if masked else SHAPES[name, 64 if features <= 64 else MOST]
        roomy = features <= 64 or not twice or self.runtime.capability // 10 in (9, 10)
        warps, tiles, columns, split, *_ = *shape, _ = *(usual if roomy else SMALL), 1
        padded, block = geometry.ceil_div(features, 16 * split) * 16 * split, warps * tiles * 16 // split
        shared = (block + 2 * columns) * (padded + 8) * 2 * (1 + twice) + twice * columns * 24
        shared += (split > 1) * block * (columns + 8) * 4  # what warps exchange
        unit = Unit(name, (*facts, *map(str, (padded, *shape))), warps * 32, shared)
        self.runtime.bind(unit)((geometry.ceil_div(rows, block) * math.prod(lengths), 1), (*given, *arguments))
        return True


def arrays_and_facts(*given: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arrays, which are themselves, and the others, which are what they are equal to."""
    return tuple(x for x in given if hasattr(x, "shape")), tuple(x for x in given if not hasattr(x, "shape"))
