"""Functions element by element that NumPy and PyTorch have beside the standard."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import bool_, dtype as as_dtype, float32, greatest
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops import shared
from micrograd_core.ops.record import ANY, BOOLEAN, INEXACT, NEST, REAL, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, elementwise, is_scalar, to_bool

unary, binary = (partial(make, standard=False) for make in (shared.unary, shared.binary))


# ── powers and quotients ─────────────────────────────────────────────────────────────────────────────────────


def _logit_parameters(x: Any, /, eps: float | None = None) -> dict[str, Any]:
    """``log(x / (1 - x))``, the inverse of `sigmoid`.

    With `eps`, of `x` between `eps` and ``1 - eps``, beyond which the gradient is 0.
    """
    return {"eps": None if eps is None else float(eps)}


def _logit(k: Table, x: Handle, *, eps: float | None) -> Handle:
    """``log(x / (1 - x))``, near 1/2, where that is 0, as ``log1p((2 x - 1) / (1 - x))``."""
    x = x if eps is None else k.clip(x, eps, 1 - eps)
    off, rest = k.subtract(x, 0.5), k.subtract(1, x)
    near = k.less(k.abs(off), 0.125)
    around = k.log1p(k.where(near, k.divide(k.multiply(off, 2), rest), 0))
    return k.where(near, around, k.log(k.divide(x, rest)))


def _logit_rule(k: Table, g: Handle, out: Handle, x: Handle, *, eps: float | None) -> Handle:
    slope = k.divide(g, k.multiply(x, k.subtract(1, x)))
    return slope if eps is None else k.where(k.logical_and(k.less_equal(eps, x), k.less_equal(x, 1 - eps)), slope, 0)


def _lerp(k: Table, x: Operand, end: Operand, weight: Operand) -> Handle:
    difference = end - x if is_scalar(x) and is_scalar(end) else k.subtract(end, x)
    return k.add(x, k.multiply(weight, difference))


def _fmod(k: Table, x: Operand, y: Operand) -> Handle:
    """Of the sizes, with the sign of `x`. The least integer has no positive counterpart: there minus the sizes."""
    x, y = arrays(k, x, y)
    dtype = k.dtype(x)
    if dtype.is_floating:
        return k.copysign(k.remainder(k.abs(x), k.abs(y)), x)
    if dtype.kind == "unsigned integer":
        return k.remainder(x, y)
    rest = k.remainder(*(k.where(k.less(0, each), k.negative(each), each) for each in (x, y)))
    return k.where(k.less(x, 0), rest, k.negative(rest))


def _fmod_divisor(k: Table, g: Handle, out: Handle, x: Operand, y: Operand) -> Handle:
    """Minus how often `y` goes into `x`; nothing where that is without end."""
    times = k.divide(k.subtract(x, out), y)
    return k.negative(k.multiply(g, k.where(k.isfinite(times), k.round(times), 0)))


# ── numbers in the place of others ───────────────────────────────────────────────────────────────────────────


def _replacements(
    x: Any, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> dict[str, Any]:
    """NaN replaced by `nan`, infinities by `posinf` and `neginf`.

    Left out, these are the greatest and least numbers of the dtype. The gradient of what is replaced is 0. Both
    parts of complex numbers are replaced.
    """
    # The ends of the dtype are looked up here: a composition may see a wider one.
    dtype = getattr(x, "dtype", None)
    end = greatest(as_dtype(dtype)) if dtype is not None and as_dtype(dtype).kind.endswith("floating") else 0.0
    ends = {"posinf": end if posinf is None else posinf, "neginf": -end if neginf is None else neginf}
    return {"nan": float(nan), **{name: float(each) for name, each in ends.items()}}


def _nan_to_num(k: Table, x: Handle, *, nan: float, posinf: float, neginf: float) -> Handle:
    dtype = k.dtype(x)
    if dtype.is_complex:
        replaced = (k.nan_to_num(part(x), nan=nan, posinf=posinf, neginf=neginf) for part in (k.real, k.imag))
        return k.complex(*replaced)
    if not dtype.is_floating:
        return k.copy(x)
    out = k.where(k.isnan(x), nan, x)
    return k.where(k.equal(x, -math.inf), neginf, k.where(k.equal(x, math.inf), posinf, out))


def _closeness(
    x1: Any, x2: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> dict[str, Any]:
    """Whether ``|x1 - x2| <= atol + rtol * |x2|``, or both are the same infinity, or with `equal_nan` both NaN."""
    return {"rtol": float(rtol), "atol": float(atol), "equal_nan": bool(equal_nan)}


def _isclose(k: Table, x: Operand, y: Operand, *, rtol: float, atol: float, equal_nan: bool) -> Handle:
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


_DIVIDENDS = (
    Sample(Array((2, 3), -9.0, 9.0), Array((3,), 0.5, 2.0)),
    Sample(Array((2, 1), -9.0, 9.0), -1.5),
    Sample(Array((3, 4), -50, 50, "int32"), Array((4,), 1, 9, "int32")),
)

_in_float32 = partial(unary, accepts=REAL & INEXACT, autocast="float32")

OPS = (
    _in_float32(
        "exp2",
        "``2 ** x``.",
        gradient=(lambda k, g, out, x: k.multiply(g, k.multiply(out, math.log(2))),),
        compose=lambda k, x: k.pow(2.0, x),
    ),
    _in_float32(
        "rsqrt",
        "``1 / sqrt(x)``.",
        low=0.5,
        gradient=(lambda k, g, out, x: k.multiply(g, k.multiply(k.multiply(out, k.square(out)), -0.5)),),
        compose=lambda k, x: k.reciprocal(k.sqrt(x)),
    ),
    _in_float32(
        "logit",
        lowering=NEST,
        parameters=_logit_parameters,
        gradient=(_logit_rule,),
        compose=_logit,
        samples=(Sample(Array((2, 3), 0.1, 0.9)), Sample(Array((7,), 0.0, 1.0), eps=0.2)),
    ),
    elementwise(
        "lerp",
        "``x1 + x3 * (x2 - x1)``: from the first to the second by a weight.",
        accepts=INEXACT,
        compose=_lerp,
        samples=(Sample((2, 3), (3,), (2, 1)), Sample((2, 3), (2, 3), 0.3), Sample((), 1.5, (2,))),
    ),
    Op(
        "square_gradient",
        "``x1`` times the derivative of `square` at ``x2``: twice their product.",
        lowering=NEST,
        compose=lambda k, g, x: k.multiply(k.multiply(g, x), 2),  # g is small where 2 x overflows
        samples=(Sample((2, 3), (2, 3)),),
    ),
    binary(
        "fmod",
        "The rest of a division that rounds towards 0: it has the sign of ``x1``. An integer by 0 gives 0.",
        accepts=REAL,
        samples=_DIVIDENDS,
        gradient=(lambda k, g, out, x, y: g, _fmod_divisor),
        gradient_aliases=True,
        compose=_fmod,
    ),
    unary(
        "nan_to_num",
        parameters=_replacements,
        accepts=ANY,
        compose=_nan_to_num,
        samples=(Sample((2, 3)), Sample((), nan=1.0, posinf=2.0, neginf=-2.0)),
    ),
    binary(
        "isclose",
        parameters=_closeness,
        check=lambda name, *shapes, **_: broadcast_shapes(name, *shapes),
        accepts=ANY,
        result=to_bool,
        samples=(
            Sample(Array((3, 4), 0, 3, "int64"), Array((4,), 0, 3, "int64")),
            Sample((2, 3), (3,), rtol=0.5, atol=0.3, equal_nan=True),
        ),
        gradient="booleans are not differentiable",
        compose=_isclose,
    ),
    elementwise(
        "masked_fill",
        "``x3`` where the mask ``x2`` is true, else ``x1``.",
        accepts=(ANY, BOOLEAN, ANY),
        separate=(1,),
        compose=lambda k, x, mask, value: k.where(mask, value, x),
        samples=(Sample((2, 3), Array((3,), dtype="bool"), 1.5), Sample((3,), Array((2, 1), dtype="bool"), ())),
    ),
)
