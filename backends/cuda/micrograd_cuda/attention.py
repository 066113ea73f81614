"""Attention of halves by tensor cores, without a matrix of scores in memory: see ``attention.cuh``.

Heads, batches and positions may lie in any order, as long as features are next to each other, in multiples of 16 bytes.
Other calls are composed: other dtypes, features that are no multiple of 8 or more than 128, few targets.
"""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_cuda import geometry
from micrograd_cuda.geometry import Place
from micrograd_cuda.operands import Kernels, copied, element, is_number, name_of
from micrograd_cuda.plans import planned
from micrograd_cuda.units import RESULT, Unit

FEWEST: Final = 16
"""Targets of a head; for fewer, as text is made word by word, the sources are to be spread over more blocks."""
ROWS: Final = 128
"""Of a block that computes the result; sums of each head have a place for all of its rows."""
SHAPES: Final = {
    ("attention", 64): (4, 2, 64), ("attention", 128): (4, 2, 32),
    ("attention_query_gradient", 64): (4, 2, 32), ("attention_query_gradient", 128): (4, 2, 32),
    ("attention_source_gradients", 64): (8, 1, 64), ("attention_source_gradients", 128): (8, 1, 32),
}  # fmt: skip
"""By kernel and most features: warps of a block, tiles of 16 rows of a warp, columns of a tile."""
MASKED: Final = (8, 1, 32)
"""The same where there is a mask, which takes registers."""


class Attention(Kernels):
    """The result and its gradients: two launches."""

    def scaled_dot_product_attention(
        self, query: Any, key: Any, value: Any, mask: Any = 0.0, *, is_causal: bool, scale: float
    ) -> Any:
        """One launch; what a row adds up to is kept for the gradient."""
        if name_of(query.dtype) not in ("float16", "bfloat16") or self.runtime.capability < 80:
            return NotImplemented
        found = self._attention(query, key, value, mask, is_causal, scale)
        if found is NotImplemented:
            return found
        self.runtime.remembered.keep(
            *self._key(found[0], query, key, value, mask, is_causal, scale), found[1], made=True
        )
        return found[0]

    def attention_gradients(
        self, g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, *, is_causal: bool, scale: float
    ) -> Any:
        """Two launches, of which each computes the weights anew: no sum depends on which block comes first."""
        if name_of(query.dtype) not in ("float16", "bfloat16") or self.runtime.capability < 80:
            return NotImplemented
        sums = self.runtime.remembered.take(*self._key(out, query, key, value, mask, is_causal, scale))
        if sums is None:
            found = self._attention(query, key, value, mask, is_causal, scale)
            if found is NotImplemented:
                return found
            sums = found[1]
        return self._gradients(g, out, sums, query, key, value, mask, is_causal, scale)

    @staticmethod
    def _key(*facts: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Arrays, and what is none."""
        return tuple(x for x in facts if hasattr(x, "shape")), tuple(x for x in facts if not hasattr(x, "shape"))

    @planned
    def _attention(self, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
        """The result, and of each row the logarithm of the sum of exponentials; ``NotImplemented``."""
        features, fits = query.shape[-1], all(map(self._fits, (query, key, value)))
        known = is_number(mask) or name_of(mask.dtype) in ("bool", name_of(query.dtype))
        if not (fits and known and query.dtype == key.dtype == value.dtype and 0 < scale < math.inf):
            return NotImplemented
        if features % 8 or features > 128 or value.shape[-1] != features or query.shape[-2] < FEWEST:
            return NotImplemented
        batch = broadcast_shapes("attention", *(x.shape[:-2] for x in (query, key, value)))
        out = self._like(query, batch)
        pitch = geometry.ceil_div(query.shape[-2], ROWS) * ROWS
        sums = self.runtime.empty((math.prod(batch), pitch), self.xp.float32)
        done = self._launch("attention", query.shape[-2], (out, sums), (query, key, value, out), mask, is_causal, scale)
        return (out, sums) if done else NotImplemented

    @planned
    def _gradients(
        self, g: Any, out: Any, sums: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float
    ) -> Any:
        """By query, key and value, each of which lies as that does."""
        g, out = (x if self._fits(x) else copied(self.runtime, x) for x in (g, out))
        arrays = (query, key, value, out, g, *(self._like(x, out.shape[:-2]) for x in (query, key, value)))
        dots = self.runtime.empty(sums.shape, sums.dtype)
        for name, rows, given in (
            ("attention_query_gradient", query, (arrays[5], dots, sums, g, out)),
            ("attention_source_gradients", key, (*arrays[6:], sums, dots, g)),
        ):
            self._launch(name, rows.shape[-2], given, arrays, mask, is_causal, scale)
        return arrays[5:]

    def _fits(self, x: Any) -> bool:
        """Whether features are next to each other, and packs of 8 lie at multiples of 16 bytes."""
        steps = [stride for length, stride in zip(x.shape[:-1], x.strides[:-1], strict=True) if length > 1]
        near = all(stride % 16 == 0 and abs(stride) < 2**25 for stride in steps)  # a block's rows are counted in ints
        return bool(near and x.size and x.strides[-1] == x.dtype.itemsize and not self.runtime.address(x) % 16)

    def _like(self, x: Any, batch: Shape) -> Any:
        """Fresh memory for a result of those heads, with axes in the order in which those of `x` lie."""
        shape, axes = (*batch, *x.shape[-2:]), range(len(batch) + 1)
        if len(x.shape) == len(shape):
            axes = sorted(axes, key=lambda axis: -abs(x.strides[axis]))  # type: ignore[assignment]
        made = self.runtime.empty(tuple(shape[axis] for axis in (*axes, len(axes))), x.dtype)
        return made.transpose(*sorted(range(len(axes)), key=axes.__getitem__), len(axes))

    def _launch(self, name: str, rows: int, given: Any, arrays: Any, mask: Any, is_causal: bool, scale: float) -> bool:
        """Whether the heads lie along no more than three axes."""
        query, key, value, out, *_ = arrays
        targets, sources, features, batch = query.shape[-2], key.shape[-2], query.shape[-1], out.shape[:-2]
        masked = not is_number(mask)
        if masked:
            mask = self.xp.broadcast_to(mask, (*mask.shape[:-2], targets, sources))
        places = [(x.shape, [stride // x.dtype.itemsize for stride in x.strides]) for x in (*arrays, *[mask] * masked)]
        steps = tuple(geometry.broadcast_strides(Place(n[:-2], tuple(s[:-2]), 16), batch) for n, s in places)
        lengths, steps = geometry.collapse(batch, steps)
        if len(lengths) > 3:
            return False
        lengths, steps = (1,) * (3 - len(lengths)) + lengths, [(0,) * (3 - len(lengths)) + each for each in steps]
        strides = [[*heads, *own[-2:-1]] for heads, (_, own) in zip(steps, places, strict=True)]
        if masked:
            strides[-1].append(places[-1][1][-1])
        padded = [
            each
            for x in (*strides[: len(arrays)], *[[0] * 4] * (8 - len(arrays)), *strides[len(arrays) :])
            for each in x
        ]
        numbers = [targets, sources, features, *lengths[1:], geometry.ceil_div(targets, ROWS) * ROWS, *padded]
        numbers += [0] * (6 + 8 * 4 + 5 - len(numbers))
        warps, tiles, columns = shape = MASKED if masked else SHAPES[name, 64 if features <= 64 else 128]
        padded_features, block = geometry.ceil_div(features, 16) * 16, warps * tiles * 16
        twice = name != "attention"
        shared = (block + 2 * columns) * (padded_features + 8) * 2 * (1 + twice) + twice * columns * 16
        kinds = element(query), RESULT[name_of(mask.dtype)] if masked else element(query)
        flags = (str(masked).lower(), str(is_causal).lower(), *map(str, (padded_features, *shape)))
        launch = self.runtime.bind(Unit(name, (*kinds, *flags), warps * 32, shared))
        grid = geometry.ceil_div(rows, block) * math.prod(lengths), 1
        launch(
            grid, (*given, query, key, value, mask if masked else 0, self.runtime.struct(numbers, "int"), float(scale))
        )
        return True
