"""Random kernels: NumPy's own Philox4x64-10, the generator that `micrograd_core.ops.standard.random` specifies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import FORMATS
from micrograd_core.ops.standard.random import start_at

Shape = tuple[int, ...]


def _philox(key: int, block: int) -> np.random.Philox:
    return np.random.Philox(key=key, counter=(block - 1) % (1 << 256))  # it counts before it makes a block


def uniform(*, shape: Shape, dtype: Any, key: int, block: int) -> Any:
    """NumPy takes the same bits of the same words for float32 and float64."""
    source = _philox(key, block)
    if dtype.itemsize >= 4:
        return np.asarray(np.random.Generator(source).random(shape, dtype))
    count, bits = math.prod(shape), FORMATS[dtype.name][0]
    halves = source.random_raw(-(-count // 2)).view(np.uint32)[:count]
    return (halves >> np.uint32(32 - bits)).astype(np.float32).reshape(shape).astype(dtype) * dtype.type(0.5**bits)


def integers(*, shape: Shape, dtype: Any, key: int, block: int, low: int, high: int) -> Any:
    """The upper 64 bits of ``word * span``; wrapping to `dtype` comes before the sum, which then is right modulo it."""
    words = _philox(key, block).random_raw(math.prod(shape))
    words = _upper_half(words, high - low) if high - low < 1 << 64 else words
    words += np.uint64(low % (1 << 64))
    return words.astype(dtype).reshape(shape)


def _upper_half(words: Any, span: int) -> Any:
    """``words * span >> 64``, by halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    upper, lower = words >> half, words & mask
    high, low = np.uint64(span >> 32), np.uint64(span) & mask
    middle = upper * low + (lower * low >> half)
    carry = lower * high + (middle & mask)
    return upper * high + (middle >> half) + (carry >> half)


def permutation(*, shape: Shape, dtype: Any, key: int, block: int) -> Any:
    """Sorting numbers is several times as fast as sorting their positions."""
    words = _philox(key, block).random_raw(shape[0])
    mask = np.uint64((1 << (shape[0] - 1).bit_length()) - 1 if shape[0] else 0)
    words &= ~mask
    words |= np.arange(shape[0], dtype=np.uint64)
    words.sort()
    words &= mask
    return words.astype(dtype)


def uniform_from(place: Any, *, shape: Shape, dtype: Any) -> Any:
    """Key and counter from an array."""
    return uniform(shape=shape, dtype=dtype, **start_at(place))


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "random_uniform": uniform,
    "random_uniform_from": uniform_from,
    "random_integers": integers,
    "random_permutation": permutation,
}
