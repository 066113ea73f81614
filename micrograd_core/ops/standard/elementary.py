"""Functions element by element that NumPy and PyTorch have beside the standard."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.dtypes import REAL_OF, DType, bool_, float32
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops.record import ANY, BOOLEAN, INEXACT, REAL, Array, Op, Sample
from micrograd_core.ops.shared import arrays, binary, is_scalar, to_bool, unary
from micrograd_core.ops.tangents import symmetric

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

REAL_FLOATING = REAL & INEXACT


# ── powers and quotients ─────────────────────────────────────────────────────────────────────────────────────


def _rsqrt_rule(k: Table, g: Any, out: Any, x: Any) -> Any:
    return k.multiply(g, k.multiply(k.multiply(out, k.square(out)), -0.5))


def _logit_parameters(x: Any, /, eps: float | None = None) -> dict[str, Any]:
    return {"eps": None if eps is None else float(eps)}


def _logit(k: Table, x: Any, *, eps: float | None) -> Any:
    """``log(x / (1 - x))``, near 1/2, where that is 0, as ``log1p((2 x - 1) / (1 - x))``."""
    x = x if eps is None else k.clip(x, eps, 1 - eps)
    off, rest = k.subtract(x, 0.5), k.subtract(1, x)
    near = k.less(k.abs(off), 0.125)
    around = k.log1p(k.where(near, k.divide(k.multiply(off, 2), rest), 0))
    return k.where(near, around, k.log(k.divide(x, rest)))


def _logit_rule(k: Table, g: Any, out: Any, x: Any, *, eps: float | None) -> Any:
    slope = k.divide(g, k.multiply(x, k.subtract(1, x)))
    if eps is None:
        return slope
    return k.where(k.logical_and(k.less_equal(eps, x), k.less_equal(x, 1 - eps)), slope, 0)


def _difference(k: Table, x: Any, y: Any) -> Any:
    return x - y if is_scalar(x) and is_scalar(y) else k.subtract(x, y)


def _lerp(k: Table, x: Any, end: Any, weight: Any) -> Any:
    return k.add(x, k.multiply(weight, _difference(k, end, x)))


def _fmod(k: Table, x: Any, y: Any) -> Any:
    """Of the sizes, with the sign of `x`. The least integer has no positive counterpart: there minus the sizes."""
    x, y = arrays(k, x, y)
    dtype = k.dtype(x)
    if dtype.is_floating:
        return k.copysign(k.remainder(k.abs(x), k.abs(y)), x)
    if dtype.kind == "unsigned integer":
        return k.remainder(x, y)
    rest = k.remainder(*(k.where(k.less(0, each), k.negative(each), each) for each in (x, y)))
    return k.where(k.less(x, 0), rest, k.negative(rest))


def _fmod_divisor(k: Table, g: Any, out: Any, x: Any, y: Any) -> Any:
    """Minus how often `y` goes into `x`; nothing where that is without end."""
    times = k.divide(k.subtract(x, out), y)
    return k.negative(k.multiply(g, k.where(k.isfinite(times), k.round(times), 0)))


# ── numbers in the place of others ───────────────────────────────────────────────────────────────────────────


FORMATS: Final = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}
"""Of real floating dtypes the digits of the significand, and the exponent of the smallest normal number."""


def greatest(dtype: DType) -> float:
    """The greatest number of a floating dtype, or of the parts of a complex one."""
    digits, lowest = FORMATS[REAL_OF.get(dtype, dtype).name]
    return (2.0 - 2.0 ** (1 - digits)) * 2.0 ** (1 - lowest)


def _replacements(
    x: Any, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> dict[str, Any]:
    """The ends of the dtype are looked up here: a composition may see a wider one."""
    dtype = getattr(x, "dtype", None)
    end = greatest(as_dtype(dtype)) if dtype is not None and as_dtype(dtype).kind.endswith("floating") else 0.0
    ends = {"posinf": end if posinf is None else posinf, "neginf": -end if neginf is None else neginf}
    return {"nan": float(nan), **{name: float(each) for name, each in ends.items()}}


def _nan_to_num(k: Table, x: Any, *, nan: float, posinf: float, neginf: float) -> Any:
    dtype = k.dtype(x)
    if dtype.is_complex:
        replaced = (k.nan_to_num(part(x), nan=nan, posinf=posinf, neginf=neginf) for part in (k.real, k.imag))
        return k.complex(*replaced)
    if not dtype.is_floating:
        return k.copy(x)
    out = k.where(k.isnan(x), nan, x)
    return k.where(k.equal(x, -math.inf), neginf, k.where(k.equal(x, math.inf), posinf, out))


def _nan_to_num_rule(k: Table, g: Any, out: Any, x: Any, **replacements: Any) -> Any:
    if not k.dtype(x).is_complex:
        return k.where(k.isfinite(x), g, 0)
    return k.complex(*(k.where(k.isfinite(part(x)), part(g), 0) for part in (k.real, k.imag)))


def _closeness(
    x1: Any, x2: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> dict[str, Any]:
    return {"rtol": float(rtol), "atol": float(atol), "equal_nan": bool(equal_nan)}


def _isclose(k: Table, x: Any, y: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    x, y = arrays(k, x, y)
    dtype, same = k.dtype(x), k.equal(x, y)
    if dtype is bool_:
        return same
    if dtype.is_integer:  # the difference is exact, and a float that it is near to is enough
        apart, size = k.subtract(k.maximum(x, y), k.minimum(x, y)), k.abs(y)
        apart, size = (k.astype(each, dtype=float32) for each in (apart, size))
        return k.logical_or(same, k.less_equal(apart, k.add(k.multiply(size, rtol), atol)))
    finite = k.logical_and(k.isfinite(x), k.isfinite(y))
    apart = k.abs(k.subtract(k.where(finite, x, 0), k.where(finite, y, 0)))
    near = k.less_equal(apart, k.add(k.multiply(k.abs(y), rtol), atol))
    found = k.logical_or(k.logical_and(near, finite), same)
    return k.logical_or(found, k.logical_and(k.isnan(x), k.isnan(y))) if equal_nan else found


def _masked_fill(k: Table, x: Any, mask: Any, value: Any) -> Any:
    return k.where(mask, value, x)


_DIVIDENDS = (
    Sample(Array((2, 3), -9.0, 9.0), Array((3,), 0.5, 2.0)),
    Sample(Array((2, 1), -9.0, 9.0), -1.5),
    Sample(Array((3, 4), -50, 50, "int32"), Array((4,), 1, 9, "int32")),
)

OPS = (
    unary(
        "exp2",
        "``2 ** x``.",
        standard=False,
        accepts=REAL_FLOATING,
        autocast="float32",
        gradient=(lambda k, g, out, x: k.multiply(g, k.multiply(out, math.log(2))),),
        compose=lambda k, x: k.pow(2.0, x),
    ),
    unary(
        "rsqrt",
        "``1 / sqrt(x)``.",
        standard=False,
        low=0.5,
        accepts=REAL_FLOATING,
        autocast="float32",
        gradient=(_rsqrt_rule,),
        compose=lambda k, x: k.reciprocal(k.sqrt(x)),
        reference=lambda np, x: 1 / np.sqrt(x),
    ),
    unary(
        "logit",
        "``log(x / (1 - x))``, the inverse of `sigmoid`; with `eps` of `x` between `eps` and ``1 - eps``, beyond which "
        "the gradient is 0.",
        standard=False,
        parameters=_logit_parameters,
        accepts=REAL_FLOATING,
        autocast="float32",
        gradient=(_logit_rule,),
        compose=_logit,
        samples=(Sample(Array((2, 3), 0.1, 0.9)), Sample(Array((7,), 0.0, 1.0), eps=0.2)),
        reference=lambda np, x, eps=None: (lambda p: np.log(p / (1 - p)))(
            x if eps is None else np.clip(x, eps, 1 - eps)
        ),
    ),
    Op(
        "lerp",
        "``x1 + x3 * (x2 - x1)``: from the first to the second by a weight.",
        operands=3,
        accepts=INEXACT,
        kind="elementwise",
        check=broadcast_shapes,
        tangent=symmetric,
        gradient=(
            lambda k, g, out, x, end, weight: k.multiply(g, _difference(k, 1, weight)),
            lambda k, g, out, x, end, weight: k.multiply(g, weight),
            lambda k, g, out, x, end, weight: k.multiply(g, _difference(k, end, x)),
        ),
        compose=_lerp,
        samples=(
            Sample(Array((2, 3)), Array((3,)), Array((2, 1))),
            Sample(Array((2, 3)), Array((2, 3)), 0.3),
            Sample(Array(()), 1.5, Array((2,))),
        ),
        reference=lambda np, x, end, weight: x + weight * (end - x),
    ),
    Op(
        "square_gradient",
        "``x1`` times the derivative of `square` at ``x2``: twice their product.",
        operands=2,
        compose=lambda k, g, x: k.multiply(k.multiply(g, x), 2),  # g is small where 2 x overflows
        samples=(Sample(Array((2, 3)), Array((2, 3))),),
        reference=lambda np, g, x: 2 * g * x,
    ),
    binary(
        "fmod",
        "The rest of a division that rounds towards 0: it has the sign of ``x1``. An integer by 0 gives 0.",
        standard=False,
        accepts=REAL,
        samples=_DIVIDENDS,
        gradient=(lambda k, g, out, x, y: g, _fmod_divisor),
        gradient_aliases=True,
        compose=_fmod,
    ),
    unary(
        "nan_to_num",
        "NaN replaced by `nan`, infinities by `posinf` and `neginf`, by default the greatest and least numbers of the "
        "dtype; there the gradient is 0. Of complex numbers both parts.",
        standard=False,
        parameters=_replacements,
        accepts=ANY,
        gradient=(_nan_to_num_rule,),
        compose=_nan_to_num,
        samples=(Sample(Array((2, 3))), Sample(Array(()), nan=1.0, posinf=2.0, neginf=-2.0)),
    ),
    binary(
        "isclose",
        "Whether ``|x1 - x2| <= atol + rtol * |x2|``, or both are the same infinity, or with `equal_nan` both NaN.",
        standard=False,
        parameters=_closeness,
        check=lambda name, *shapes, **_: broadcast_shapes(name, *shapes),
        accepts=ANY,
        result=to_bool,
        samples=(
            Sample(Array((3, 4), 0, 3, "int64"), Array((4,), 0, 3, "int64")),
            Sample(Array((2, 3)), Array((3,)), rtol=0.5, atol=0.3, equal_nan=True),
        ),
        gradient="booleans are not differentiable",
        compose=_isclose,
    ),
    Op(
        "masked_fill",
        "``x3`` where the mask ``x2`` is true, else ``x1``.",
        operands=3,
        accepts=(ANY, BOOLEAN, ANY),
        separate=(1,),
        kind="elementwise",
        check=broadcast_shapes,
        tangent=symmetric,
        gradient=(
            lambda k, g, out, x, mask, value: k.where(mask, 0, g),
            None,
            lambda k, g, out, x, mask, value: k.where(mask, g, 0),
        ),
        compose=_masked_fill,
        samples=(
            Sample(Array((2, 3)), Array((3,), dtype="bool"), 1.5),
            Sample(Array((3,)), Array((2, 1), dtype="bool"), Array(())),
        ),
        reference=lambda np, x, mask, value: np.where(mask, value, x),
    ),
)
