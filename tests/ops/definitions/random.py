"""What operations of `micrograd_core.ops.standard.random` are, in NumPy."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import FORMATS
from micrograd_core.layout import Shape
from micrograd_core.ops.standard.random import COUNTER_BITS, start_at


def _uniform_from_reference(np: Any, place: Any, shape: Shape, dtype: Any = "float32") -> Any:
    start, bits, count = start_at(place), FORMATS[str(dtype)][0], math.prod(shape)
    raw = np.random.Philox(key=start["key"], counter=(start["block"] - 1) % (1 << COUNTER_BITS)).random_raw(count)
    found = raw >> np.uint64(11) if bits == 53 else raw.view("uint32")[:count] >> np.uint32(32 - bits)
    return (found * 0.5**bits).reshape(shape)


DEFINITIONS = {"random_uniform_from": _uniform_from_reference}
