"""Dropout, with a mask that is a function of a key and a counter: the gradient draws it again, and nothing is kept."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import float32
from micrograd_core.ops.record import APART, Handle, Sample, Table
from micrograd_core.ops.shared import network
from micrograd_core.ops.standard.random import start_of, words_of_uniform
from micrograd_core.ops.tangents import linear
from micrograd_core.support.context import draws


def _parameters(x: Any, /, p: float = 0.5, *, training: bool = True, generator: Any = None) -> dict[str, Any]:
    """Zeros with probability `p`, all else times ``1 / (1 - p)``, so that the mean stays (Srivastava et al. 2014).

    The mask comes from `generator`, by default the default one, or an integer: the seed of one for this call alone.
    It is the same on every device. Without `training` nothing is changed.
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout: p, the probability of a zero, is at least 0 and less than 1; got {p}")
    if not training or p == 0:
        return {"p": 0.0, "key": 0, "block": 0}
    # the place in the generator's stream is taken once: kernel, gradient and higher orders start from it
    words = words_of_uniform(math.prod(x.shape) * draws(), float32)
    return {"p": float(p), **(start_of(generator) if isinstance(generator, int) else generator.take(words))}


def _dropout(k: Table, x: Handle, *, p: float, key: int, block: int) -> Handle:
    if p == 0:
        return k.copy(x)
    drawn = k.random_uniform(shape=x.shape, dtype=float32, key=key, block=block)  # the same numbers for every dtype
    return k.where(k.less(drawn, p), 0, k.multiply(x, 1 / (1 - p)))


OPS = (
    network(
        "dropout",
        lowering=APART,
        parameters=_parameters,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, p, key, block: k.dropout(g, p=p, key=key, block=block),),
        compose=_dropout,
        samples=(
            Sample((3, 4), generator=7),
            Sample((5,), p=0.1, generator=2**100 + 3),
            Sample((2, 2), training=False),
            Sample((0, 2), generator=1),
        ),
    ),
)
