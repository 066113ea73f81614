"""Forms: other numbers and other shapes for the operands of a sample, which its ordinary ones don't show a kernel."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import DTYPES, FORMATS, greatest, integer_range
from micrograd_core.ops import TABLE
from micrograd_core.ops.network import recurrent

HOST: Final = {"bfloat16": "float32"}
"""NumPy has no bfloat16: the judge keeps its numbers in the next wider dtype."""

ROUGH: Final = (np.nan, np.inf, 3.0, -0.0, 1.5, -np.inf, np.nan, -2.5, 0.0, 2.5, -1.0, 0.5)
"""NaN, infinities and zeros of both signs, among halves that round to either side."""

ROUGH_COMPLEX: Final = (complex(np.nan, np.nan), 0, -0.0, 1.5j, -2.5 - 1j, -1, 3 + 4j, 0.5)
"""Without infinite parts, and numbers that are NaN in one part alone: they multiply as each library likes."""

WHOLE: Final = (2**53 + 1, 7, -7, 2, 0, -2, 2**31 - 1, 3, -(2**31), 255, 2**63 - 1, 1, -(2**63), 2**64 - 1)
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
    return _filled([sign * 2.0 ** FORMATS[dtype][1] / part for part in (2, 8, 32) for sign in (1, -1)], x)


def _small(x: Any, dtype: str) -> Any:
    """Floats whose products and powers are subnormal."""
    tiny = 2.0 ** FORMATS[dtype][1]
    return _filled([tiny**0.5 / 4, np.log(tiny / 8), 1.0, -(tiny**0.5) / 8, np.log(tiny / 32)], x)


def _huge(x: Any, dtype: str) -> Any:
    """Floats whose sums, squares and products leave the range."""
    largest = greatest(DTYPES[dtype])
    return _filled([largest, 0.75 * largest, 1.0, 0.5 * largest, -0.25 * largest], x)


def _backwards(x: Any, dtype: str) -> Any:
    """The other way round, and each one less than before, in a dtype with a sign."""
    less = x if x.dtype.kind in "bu" else np.asarray(x - x.dtype.type(1))
    return less[..., ::-1] if x.ndim else less


def _lone(x: Any, dtype: str) -> Any:
    """One is infinite, and one NaN."""
    place = np.arange(x.size).reshape(x.shape)
    return np.where(place == x.size // 2, x.dtype.type(np.inf), np.where(place == 0, x.dtype.type(np.nan), x))


# How the elements of an operand change; those of the operands with a dtype of their own (indices, conditions) stay.
NUMBERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "rough": _rough, "zeros": _zeros, "ones": lambda x, dtype: np.ones_like(x), "subnormal": _subnormal,
    "small": _small, "huge": _huge, "backwards": _backwards, "lone": _lone, "doubled": lambda x, dtype: x + x,
    "identity": lambda x, dtype: np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape) if x.ndim > 1 else x,
}  # fmt: skip

OF_FLOATS: Final = frozenset({"subnormal", "small", "huge", "lone"})
# How the shape of every operand with axes changes.
SHAPES: Final[dict[str, Callable[[Any], Any]]] = {
    "long": lambda x: np.concatenate([x] * 251),
    "longer": lambda x: np.concatenate([x] * 251),  # operands with fewer axes than others stay
    "tiled": lambda x: np.tile(x, [7] * min(x.ndim, 2)),
    "one element": lambda x: x[(slice(0, 1),) * x.ndim],
    "empty": lambda x: x[:0],
    "0-d": lambda x: x.reshape(-1)[:1].reshape(()) if x.size else x,
    "five axes": lambda x: np.tile(x.reshape((1,) * (5 - x.ndim) + x.shape), (2, 1, 2) + (1,) * max(x.ndim - 3, 2)),
    "an axis more": lambda x: x[None],
}

TWICE: Final = "one operand twice"

FORMS: Final = (*NUMBERS, *SHAPES, TWICE)

FOURIER: Final = " ".join(op.name for op in TABLE.values() if op.extension == "fft")
VALUES: Final = "svdvals eigvalsh"
"""What is well-conditioned whatever the matrix."""
ITERATED: Final = frozenset({"cofactor", "eig", "eigh", "eigvals", "eigvalsh", "pinv", "svd", "svdvals"})
"""Found by iteration, each library's own, to the size of the matrix: four times that. PyTorch's `eig` needs all 16."""
SUMS: Final = "trace cross"
_SETTLED: Final = f"{VALUES} {SUMS} diagonal".split()
MATRICES: Final = " ".join(op.name for op in TABLE.values() if op.extension == "linalg" and op.name not in _SETTLED)
SEQUENCES: Final = " ".join(op.name for op in recurrent.OPS)
CONVOLUTIONS: Final = " ".join(name for name in TABLE if name.startswith("conv"))

WHY_OPEN: Final[dict[str, dict[str, str]]] = {
    "rough": {
        "the sign of NaN is nobody's": "copysign signbit",
        "shifts by a negative number, or by more bits than there are": "bitwise_left_shift bitwise_right_shift",
        "a quotient of infinities is what rounds it: NaN, or the infinity": "floor_divide",
        "NaN and infinities are added in any order, with 0 between them": "patches_gradient",
        "an infinite weight beside one of 0": "cross_entropy_gradient nll_loss",
        "a hidden source beside one that is not a number: that as well, or 0": (
            "attention_weights attention_weights_gradient scaled_dot_product_attention"
        ),
        "an algorithm stops at NaN, or goes on": f"{MATRICES} {VALUES}",
        "a transform multiplies infinities by 0, or leaves that out": FOURIER,
    },
    "lone": {"as of rough ones": f"copysign signbit floor_divide cross_entropy_gradient {MATRICES} {VALUES} {FOURIER}"},
    "ones": {"a singular matrix has no inverse, and many bases": MATRICES},
    "zeros": {"a singular matrix has no inverse, and many bases": MATRICES},
    "subnormal": {
        "a mean over weights whose sum is subnormal": "nll_loss",
        "a determinant below all numbers; a matrix singular to the last digit": MATRICES,
    },
    "small": {
        "a slope times a number, which is 0 or not as the factors are grouped": "silu silu_gradient",
        "differences of squares that are subnormal themselves": (
            "standardize_gradient layer_norm layer_norm_gradients batch_norm_gradient batch_norm_gradients "
            "rms_norm_gradient"
        ),
        "a matrix singular to the last digit": MATRICES,
        "differences of products that are equal but for a rounding": "attention_gradients",
        "differences of activations that are subnormal themselves": SEQUENCES,
    },
    "huge": {
        "sums and squares leave the range on the way, or are scaled first": (
            "avg_pool1d avg_pool2d avg_pool3d var std matmul linear log_softmax softmax_gradient cross_entropy "
            "attention_weights attention_weights_gradient scaled_dot_product_attention attention_gradients standardize "
            "batch_norm batch_norm_weight_gradient "
            f"cross_entropy_gradient nll_loss rms_norm_gradient rms_norm_weight_gradient "
            f"{CONVOLUTIONS} {SEQUENCES} {FOURIER} {MATRICES} {VALUES} {SUMS}"
        )
    },
    "backwards": {
        "shifts by a negative number": "bitwise_left_shift bitwise_right_shift",
        "positions in what is not sorted": "searchsorted",
    },
    TWICE: {"logits that are targets too": "cross_entropy_gradient"},
    "tiled": {"rows that are equal make a matrix singular": MATRICES},
    "long": {
        "each product of many factors rounds, in any order": "prod",
        "a matrix of 251 equal parts is singular": "qr svd",
    },
    "sign of zero": {
        "which zero is chosen": "clip maximum minimum max min sort max_pool1d max_pool2d max_pool3d elu selu celu",
        "the sign of a sum that begins with 0, or does not": (
            "cumulative_sum matmul linear cross_entropy nll_loss layer_norm softmax_gradient standardize "
            "attention_weights_gradient standardize_gradient layer_norm_gradients batch_norm_gradient "
            f"batch_norm_gradients cross_entropy_gradient embedding_gradient batch_norm {SEQUENCES} {FOURIER} "
            f"{CONVOLUTIONS} {MATRICES} {VALUES} {SUMS} "
            "layer_norm_weight_gradient rms_norm_weight_gradient batch_norm_weight_gradient"
        ),
    },
}
"""What no definition settles: by form (and of all forms the sign of a zero) why, and in which operations."""

OPEN: Final[dict[str, frozenset[str]]] = {
    form: frozenset(" ".join(each.values()).split()) for form, each in WHY_OPEN.items()
}


def changed(x: Any, form: str, dtype: str, position: int, own: bool) -> Any:
    """One operand in a form. With a dtype of its `own` (indices, conditions) it keeps its numbers, in another order."""
    if form not in NUMBERS:
        return SHAPES[form](x) if x.ndim else x
    if own:
        return x[..., ::-1] if form == "backwards" and x.ndim else x
    stays = (form in OF_FLOATS and DTYPES[dtype].kind != "real floating") or (form == "lone" and position)
    found = x if stays else NUMBERS[form](x, dtype)
    return np.roll(found, position) if form in ("rough", "huge") else found  # operands side by side are not the same


# ── operations that go through any numbers and any lengths ───────────────────────────────────────────────────

ELEMENTWISE: Final = [
    op.name for op in TABLE.values() if op.kind == "elementwise" and op.parameters is None and op.operands < 3
]
"""Operations of one or two operands without parameters, which go element by element."""

IN_DTYPE: Final = frozenset({"nextafter"})
"""Operations that give another number in a wider dtype."""

REDUCTIONS: Final = [
    op.name
    for op in TABLE.values()
    if op.kind == "reduction" and op.standard and op.parameters is not None
    if "correction" not in signature(op.parameters).parameters
]
"""Reductions that one axis, or all, is all there is to say about."""


def _counted(*shape: int, dtype: str) -> Any:
    """Different numbers side by side, few enough that all sums of products are exact."""
    return (np.arange(np.prod(shape)) % 13 % (2 if dtype == "bool" else 13)).astype(dtype).reshape(shape)


def _moved(*calls: tuple[tuple[tuple[int, ...], ...], dict[str, Any]]) -> Callable[[str], Any]:
    return lambda dtype: [([_counted(*shape, dtype=dtype) for shape in shapes], params) for shapes, params in calls]


MOVED: Final[dict[str, Callable[[str], list[tuple[list[Any], dict[str, Any]]]]]] = {
    "matmul": _moved(
        (((33, 257), (257, 17)), {}),
        (((1, 66_049), (66_049, 1)), {}),
        (((65_537, 2), (2, 1)), {}),
        (((1, 2), (2, 65_537)), {}),
        (((257, 2, 3), (257, 3, 2)), {}),
    ),
    "permute_dims": _moved((((257, 257),), {"axes": (1, 0)}), (((2, 65_537),), {"axes": (1, 0)})),
    "reshape": _moved((((257, 257),), {"shape": (66_049,)})),
    "broadcast_to": _moved((((257, 1),), {"shape": (257, 257)}), (((1, 2),), {"shape": (65_537, 2)})),
    "flip": _moved((((257, 257),), {"axis": (0, 1)})),
    "roll": _moved((((257, 257),), {"shift": 5, "axis": 1})),
    "getitem": _moved(
        (((66_049,),), {"key": slice(None, None, -1)}), (((257, 257),), {"key": (slice(1, None), slice(None, None, 2))})
    ),
    "scatter": _moved((((66_049,), (66_049,)), {"key": slice(None, None, -1)})),
    "where": lambda dtype: [
        ([_counted(66_049, dtype="bool"), *(_counted(66_049, dtype=dtype)[::step] for step in (1, -1))], {})
    ],
    "sort": _moved((((66_049,),), {}), (((3, 4097),), {"axis": 1})),
    "cumulative_sum": _moved((((66_049,),), {}), (((65_537, 2),), {"axis": 1}), (((3, 4097),), {"axis": 1})),
}
"""Calls of operations that move elements, or that combine them along an axis."""
