"""Forms: other numbers and other shapes for the operands of a sample, which its ordinary ones don't show a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import DTYPES, integer_range

HOST: Final = {"bfloat16": "float32"}
"""NumPy has no bfloat16: the judge keeps its numbers in the next wider dtype."""

ROUGH: Final = (np.nan, np.inf, 0.0, -0.0, 1.5, -np.inf, -2.5, 2.5, -1.0, 3.0, 0.5)
"""NaN, infinities and zeros of both signs, among halves that round to either side."""

ROUGH_COMPLEX: Final = (complex(np.nan, 1), 0, -0.0, 1.5j, -2.5 - 1j, complex(1, np.nan), -1, 3 + 4j, 0.5)
"""Without infinite parts, which multiply as each library likes."""

WHOLE: Final = (7, -7, 2, 2**53 + 1, 0, -2, 2**31 - 1, 3, -(2**31), 255, 2**63 - 1, 1, -(2**63), 2**64 - 1)
"""Integers that no float holds, and the ends of ranges; those beyond a dtype's range become its ends."""


def _filled(pool: Any, x: Any) -> Any:
    return np.resize(np.asarray(pool, x.dtype), x.shape)


def _rough(x: Any, dtype: str) -> Any:
    """Numbers that arithmetic treats unlike others, in an order that brings each beside several."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return _filled((True, False, True), x)
    if "floating" in kind:
        return _filled(ROUGH if kind == "real floating" else ROUGH_COMPLEX, x)
    low, high = integer_range(DTYPES[dtype])
    return _filled([min(max(each, low), high) for each in WHOLE], x)


def _zeros(x: Any, dtype: str) -> Any:
    """Zeros, of both signs where a dtype has them."""
    return _filled([0.0, -0.0, -0.0] if "floating" in DTYPES[dtype].kind else [0], x)


def _subnormal(x: Any, dtype: str) -> Any:
    """Numbers below the smallest with all its digits."""
    if "floating" not in DTYPES[dtype].kind:
        return x
    facts = np.finfo(HOST.get(dtype, dtype))
    return _filled([sign * facts.smallest_normal / part for part in (2, 8, 32) for sign in (1, -1)], x)


def _backwards(x: Any, dtype: str) -> Any:
    """The other way round, and each one less than before, in a dtype with a sign."""
    less = x if x.dtype.kind in "bu" else np.asarray(x - x.dtype.type(1))
    return less[..., ::-1] if x.ndim else less


# How the elements of an operand change; those of the operands with a dtype of their own (indices, conditions) stay.
NUMBERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "rough": _rough,
    "zeros": _zeros,
    "ones": lambda x, dtype: np.ones_like(x),
    "subnormal": _subnormal,
    "backwards": _backwards,
}

# How the shape of every operand with axes changes.
SHAPES: Final[dict[str, Callable[[Any], Any]]] = {
    "long": lambda x: np.concatenate([x] * 251),
    "tiled": lambda x: np.tile(x, [7] * min(x.ndim, 2)),
    "one element": lambda x: x[(slice(0, 1),) * x.ndim],
    "empty": lambda x: x[:0],
    "0-d": lambda x: x.reshape(-1)[:1].reshape(()) if x.size else x,
    "five axes": lambda x: np.tile(x.reshape((1,) * (5 - x.ndim) + x.shape), (2, 1, 2) + (1,) * max(x.ndim - 3, 2)),
    "an axis more": lambda x: x[None],
}

TWICE: Final = "one operand twice"

FORMS: Final = (*NUMBERS, *SHAPES, TWICE)

SELECTIONS: Final = frozenset("clip maximum minimum max min sort".split())
ADDITIONS: Final = frozenset(
    "standardize_gradient layer_norm cross_entropy_gradient embedding_gradient nll_loss".split()
)

OPEN: Final[dict[str, frozenset[str]]] = {
    "rough": frozenset("softmax log_softmax patches_gradient cross_entropy_gradient nll_loss".split()),
    "sign of zero": SELECTIONS | ADDITIONS,
    "subnormal results": frozenset({"nll_loss"}),
}
"""What no definition settles: sums of NaN and of infinities with 0 between them, which of two equal zeros is chosen."""


def changed(x: Any, form: str, dtype: str, own: bool) -> Any:
    """One operand in a form; with a dtype of its `own` it keeps its numbers."""
    if form in NUMBERS:
        return x if own else NUMBERS[form](x, dtype)
    return SHAPES[form](x) if x.ndim else x
