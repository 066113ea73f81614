"""Random numbers as operations without operands: what they are is a function of a key and a counter, of nothing else.

The source is Philox4x64-10 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3", SC 2011): a bijection of 256-bit counters, so that any block of four 64-bit words can be had without those
before it. Kernels receive ``shape``, ``dtype``, ``key`` (an integer below 2**128) and ``block`` (the first counter, an
integer); element `i` in C order is made from word `i` of the blocks ``block``, ``block + 1``, …:

- ``random_uniform``: the leading bits of a word as a fraction. float64 takes 53 of word `i`; the narrower dtypes see
  each 64-bit word as two of 32 bits, the lower half first, and take 24 (float32), 11 (float16) or 8 (bfloat16);
- ``random_integers``: ``low + word * span // 2**64``, which errs in no probability by more than ``span / 2**64``
  (D. Lemire, "Fast Random Integer Generation in an Interval", 2019, without the rejection);
- ``random_permutation``: the order of the words, in the lowest bits of which stands their index;
- ``random_normal``: two numbers from each pair of uniform ones (Box and Muller, 1958).

All but the last are exact: the same bits on every device. The last goes through the device's own ``log``, ``sin`` and
``cos``. Where a device makes none itself, the host does, and they are uploaded.
"""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import FORMATS, DType, dtype as as_dtype, float32, pack, uint64, unpack
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.batching import one_by_one
from micrograd_core.ops.core.movement import requested
from micrograd_core.ops.record import LONG, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import calls

MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B  # the key grows by these: golden ratio and sqrt(3) - 1, times 2**64
_WORD = (1 << 64) - 1
KEY_BITS, COUNTER_BITS = 128, 256


def philox(key: int, counter: int, rounds: int = 10) -> tuple[int, int, int, int]:
    """One block: four 64-bit words, lowest first as in `counter`.

    Examples
    --------
    >>> [hex(word) for word in philox(0, 0)]  # from the known answers of Random123
    ['0x16554d9eca36314c', '0xdb20fe9d672d0fdc', '0xd7e772cee186176b', '0x7e68b68aec7ba23b']
    """
    a, b, c, d = (counter >> shift & _WORD for shift in (0, 64, 128, 192))
    low, high = key & _WORD, key >> 64 & _WORD
    for _ in range(rounds):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = second >> 64 ^ b ^ low, second & _WORD, first >> 64 ^ d ^ high, first & _WORD
        low, high = low + WEYL[0] & _WORD, high + WEYL[1] & _WORD
    return a, b, c, d


def words(key: int, block: int, count: int) -> Any:
    """The first `count` words from a block on, as a buffer of 64-bit integers. By NumPy where it is, in C."""
    try:
        from numpy.random import Philox
    except ImportError:
        blocks = (philox(key, block + i) for i in range(-(-count // 4)))
        return memoryview(b"".join(word.to_bytes(8, "little") for each in blocks for word in each)).cast("Q")[:count]
    raw: Any = Philox(key=key, counter=(block - 1) % (1 << COUNTER_BITS)).random_raw(count)
    return memoryview(raw)


def start_of(seed: int) -> dict[str, int]:
    """Where the numbers of a seed begin: the seed is the key, and NumPy's generator, too, begins with block 1.

    Raises
    ------
    ValueError
        For an integer that is no key.
    """
    if not 0 <= seed < 1 << KEY_BITS:
        raise ValueError(f"Generator: the seed must be from 0 to 2**{KEY_BITS} - 1; got {seed}")
    return {"key": seed, "block": 1}


def words_of_uniform(count: int, dtype: DType) -> int:
    """How many 64-bit words `count` uniform numbers take."""
    return count if dtype.bits == 64 else -(-count // 2)


def _uniform(k: Table, *, shape: Shape, dtype: DType, key: int, block: int) -> Any:
    count, bits = math.prod(shape), FORMATS[dtype.name][0]
    found = words(key, block, words_of_uniform(count, dtype))
    if dtype.bits == 64:
        fractions = [word >> 64 - bits for word in found]
    else:
        fractions = [half >> 32 - bits for word in found for half in (word & 0xFFFFFFFF, word >> 32)][:count]
    scale = 0.5**bits
    return k.upload(pack([fraction * scale for fraction in fractions], dtype), shape, dtype)


def _integers(k: Table, *, shape: Shape, dtype: DType, key: int, block: int, low: int, high: int) -> Handle:
    drawn = [low + (word * (high - low) >> 64) for word in words(key, block, math.prod(shape))]
    return k.upload(pack(drawn, dtype), shape, dtype)


def _permutation(k: Table, *, shape: Shape, dtype: DType, key: int, block: int) -> Handle:
    mask = (1 << (shape[0] - 1).bit_length()) - 1 if shape[0] else 0
    marked = sorted(word & ~mask | i for i, word in enumerate(words(key, block, shape[0])))
    return k.upload(pack([word & mask for word in marked], dtype), shape, dtype)


def _normal(k: Table, *, shape: Shape, dtype: DType, key: int, block: int) -> Handle:
    """``sqrt(-2 log(1 - u)) (cos, sin)(2 pi v)`` of uniform `u` and `v`; narrow dtypes are rounded from float32."""
    if dtype.bits < 32:
        return k.astype(k.random_normal(shape=shape, dtype=float32, key=key, block=block), dtype=dtype)
    count = math.prod(shape)
    pairs = k.random_uniform(shape=(-(-count // 2), 2), dtype=dtype, key=key, block=block)
    every = slice(0, pairs.shape[0], 1)
    radius = k.sqrt(k.multiply(k.log(k.subtract(1, k.getitem(pairs, key=(every, slice(0, 1, 1))))), -2))
    angle = k.multiply(k.getitem(pairs, key=(every, slice(1, 2, 1))), 2 * math.pi)
    normal = k.multiply(radius, k.concat(k.cos(angle), k.sin(angle), axis=1))
    return k.reshape(k.getitem(k.reshape(normal, shape=(2 * every.stop,)), key=(slice(0, count, 1),)), shape=shape)


_MADE = tuple(
    Op(name, doc, operands=0, result=requested, gradient="random numbers have no operands", compose=compose)
    for name, doc, compose in (
        ("random_uniform", "Fractions, uniform in [0, 1).", _uniform),
        ("random_integers", "Integers, uniform in [low, high).", _integers),
        ("random_permutation", "The integers below ``shape[0]`` in random order.", _permutation),
        ("random_normal", "Numbers of the standard normal distribution.", _normal),
    )
)

PLACE = 6
"""Words that say where in a stream numbers begin: the counter's four and the key's two, lowest first."""


def place_of(key: int, block: int) -> list[int]:
    """The words of a place."""
    counter = block % (1 << COUNTER_BITS)
    return [*(counter >> shift & _WORD for shift in (0, 64, 128, 192)), key & _WORD, key >> 64]


def start_at(place: Any) -> dict[str, int]:
    """Key and block of a place."""
    *counter, low, high = (int(word) for word in place)
    return {"key": low | high << 64, "block": sum(word << 64 * i for i, word in enumerate(counter))}


def _from_parameters(place: Any, /, shape: int | tuple[int, ...], *, dtype: Any = float32) -> dict[str, Any]:
    """Fractions, uniform in [0, 1), from a place in a stream on.

    The place is its counter's four words and its key's two, lowest first. This is what `random.uniform` draws
    inside a program.
    """
    if place.shape != (PLACE,):
        raise ShapeError(
            f"random_uniform_from: a place in a stream is {PLACE} words, the counter's four and the key's two; got "
            f"shape {place.shape}"
        )
    if place.dtype is not uint64 and place.dtype.kind == "unsigned integer":  # others are refused for all operations
        raise DTypeError(f"random_uniform_from: the words of a place are uint64; got {place.dtype}")
    wanted = as_dtype(dtype)
    if not wanted.is_floating:
        raise DTypeError(f"random_uniform_from: fractions have a floating-point dtype; got {wanted}")
    return {"shape": (shape,) if isinstance(shape, int) else tuple(shape), "dtype": wanted}


OPS = calls(
    Op(
        "random_uniform_from",
        cost=LONG,
        parameters=_from_parameters,
        accepts=frozenset({"unsigned integer"}),
        result=requested,
        shape=lambda place, *, shape, dtype: shape,
        gradient="random numbers have no gradient",
        compose=lambda k, place, **params: k.random_uniform(**params, **start_at(unpack(k.to_host(place), uint64))),
        batching=one_by_one,
        samples=(
            Sample(Array((PLACE,), 0, 1 << 62, "uint64"), shape=(3, 7)),
            Sample(Array((PLACE,), 0, 1 << 62, "uint64"), shape=(5,), dtype="float64"),
        ),
    ),
    *_MADE,
)

__all__ = [
    "KEY_BITS", "MULTIPLIERS", "OPS", "PLACE", "WEYL", "philox", "place_of", "start_at", "start_of", "words",
    "words_of_uniform",
]  # fmt: skip
