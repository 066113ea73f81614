"""Division with rest, rounding, shifts, and what depends on the bits of a number: its sign and its neighbours.

The compositions need no integer division, shift or reinterpretation of bits, which the core kernels do not have.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import FORMATS, float32
from micrograd_core.ops.record import CALL, FLOATING, INTEGER, LONG, REAL, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, binary, is_scalar, to_bool, unary, zero_rule

# ── division ─────────────────────────────────────────────────────────────────────────────────────────────────


def _product_error(k: Table, x: Handle, y: Handle, product: Handle) -> Handle:
    """What rounding `product` of `x` and `y` lost, exactly (T. J. Dekker, 1971); 0 where it cannot be told."""
    splitter = float(2 ** ((FORMATS[k.dtype(x).name][0] + 1) // 2) + 1)
    (a, b), (c, d) = ((k.subtract(s, k.subtract(s, z)), z) for z in (x, y) for s in (k.multiply(z, splitter),))
    b, d = k.subtract(b, a), k.subtract(d, c)
    error = k.subtract(k.multiply(a, c), product)
    error = k.add(k.add(error, k.multiply(a, d)), k.add(k.multiply(b, c), k.multiply(b, d)))
    return k.where(k.isfinite(error), error, 0)


def _quotient_and_rest(k: Table, x: Operand, y: Operand) -> tuple[Any, Any]:
    """``floor(x / y)`` of floats, and ``x - y * that``.

    From the quotient towards 0, whose product with `y` cannot overflow, 1 is taken where the rest has the wrong sign.
    """
    x, y = arrays(k, x, y)
    quotient = k.trunc(k.divide(x, y))
    product = k.multiply(quotient, y)
    rest = k.subtract(k.subtract(x, product), _product_error(k, quotient, y, product))
    below = k.less(k.multiply(rest, k.sign(y)), 0)
    return k.where(below, k.subtract(quotient, 1), quotient), k.where(below, k.add(rest, y), rest)


def _below_0(k: Table, x: Handle) -> Handle:
    """``-|x|``: of each signed integer there is one, while the least has no positive counterpart."""
    return k.where(k.less(0, x), k.negative(x), x)


def _division_of_one_sign(k: Table, x: Handle, y: Handle, unit: int) -> tuple[Any, Any]:
    """Quotient and rest of integers with the sign of `unit`, by floating estimates, each a little low.

    By 0 both are 0, as in NumPy.
    """
    dtype = x.dtype
    nothing = k.equal(y, 0)
    y = k.where(nothing, unit, y)
    as_float = k.astype(y, dtype=float32)
    quotient = k.multiply(x, 0)
    for _ in range(1 + k.dtype(x).bits // 16):
        estimate = k.multiply(k.divide(k.astype(x, dtype=float32), as_float), 1 - 2.0**-20)
        part = k.astype(k.floor(estimate), dtype=dtype)
        quotient, x = k.add(quotient, part), k.subtract(x, k.multiply(part, y))
    over = k.less_equal(y, x) if unit > 0 else k.less_equal(x, y)
    quotient, x = k.where(over, k.add(quotient, 1), quotient), k.where(over, k.subtract(x, y), x)
    return k.where(nothing, 0, quotient), k.where(nothing, 0, x)


def _integer_division(k: Table, x: Operand, y: Operand) -> tuple[Any, Any]:
    """Quotient rounded down, and rest with the sign of `y`, from those of ``-|x|`` and ``-|y|``."""
    x, y = arrays(k, x, y)
    if k.dtype(x).kind == "unsigned integer":
        return _division_of_one_sign(k, x, y, 1)
    quotient, rest = _division_of_one_sign(k, _below_0(k, x), _below_0(k, y), -1)
    negative_y = k.less(y, 0)
    opposite = k.not_equal(k.less(x, 0), negative_y)
    inexact = k.logical_and(opposite, k.not_equal(rest, 0))
    quotient = k.where(opposite, k.negative(quotient), quotient)
    quotient = k.where(inexact, k.subtract(quotient, 1), quotient)
    rest = k.where(negative_y, rest, k.negative(rest))
    return quotient, k.where(inexact, k.subtract(y, rest), rest)


def _floor_divide(k: Table, x: Operand, y: Operand) -> Any:
    if k.dtype(y if is_scalar(x) else x).is_integer:
        return _integer_division(k, x, y)[0]
    x, y = arrays(k, x, y)
    plain = k.floor(k.divide(x, y))  # the standard's answer where an infinity is involved
    return k.where(k.logical_and(k.isfinite(plain), k.isfinite(y)), _quotient_and_rest(k, x, y)[0], plain)


def _floor_divide_reference(np: Any, x: Any, y: Any) -> Any:
    """NumPy's, but the standard's where an infinity is involved."""
    result = np.floor_divide(x, y)
    if result.dtype.kind != "f":
        return result
    quotient = np.floor(np.divide(x, y))
    return np.where(np.isfinite(quotient) & np.isfinite(y), result, quotient)


def _remainder(k: Table, x: Operand, y: Operand) -> Any:
    """With the sign of `y`, zeros included. By an infinity it is `x`, or that infinity where the signs differ.

    Exact where the quotient is, which is as far as the digits of the dtype go.
    """
    if k.dtype(y if is_scalar(x) else x).is_integer:
        return _integer_division(k, x, y)[1]
    x, y = arrays(k, x, y)
    rest = _quotient_and_rest(k, x, y)[1]
    same = k.logical_or(k.equal(x, 0), k.equal(k.less(x, 0), k.less(y, 0)))
    infinite = k.logical_and(k.isfinite(x), k.equal(k.abs(y), float("inf")))
    rest = k.where(infinite, k.where(same, x, y), rest)
    return k.where(k.equal(rest, 0), k.multiply(k.sign(y), 0), rest)


# ── rounding ─────────────────────────────────────────────────────────────────────────────────────────────────


def _ceil(k: Table, x: Handle) -> Handle:
    return k.negative(k.floor(k.negative(x))) if k.dtype(x).is_floating else k.positive(x)


def _trunc(k: Table, x: Handle) -> Handle:
    return k.where(k.less(x, 0), k.ceil(x), k.floor(x)) if k.dtype(x).is_floating else k.positive(x)


def _round(k: Table, x: Handle) -> Handle:
    """To the even neighbour half way between two. Of complex numbers both parts."""
    dtype = k.dtype(x)
    if dtype.is_complex:
        return k.complex(k.round(k.real(x)), k.round(k.imag(x)))
    if not dtype.is_floating:
        return k.positive(x)
    below = k.floor(x)
    fraction = k.subtract(x, below)
    half = k.multiply(below, 0.5)
    odd = k.not_equal(k.floor(half), half)
    up = k.logical_or(k.less(0.5, fraction), k.logical_and(k.equal(fraction, 0.5), odd))
    rounded = k.where(up, k.add(below, 1), below)
    return k.where(k.equal(rounded, 0), k.multiply(x, 0), k.where(k.isfinite(x), rounded, x))


# ── signs and neighbours ─────────────────────────────────────────────────────────────────────────────────────


def _signbit(k: Table, x: Handle) -> Handle:
    """Of zeros by the infinity that divides by them. That of NaN arithmetic cannot tell: taken as positive."""
    zero = k.equal(x, 0)
    return k.less(k.where(zero, k.divide(1, k.where(zero, x, 1)), x), 0)


def _copysign(k: Table, x: Operand, y: Operand) -> Handle:
    x, y = arrays(k, x, y)
    return k.where(k.equal(k.signbit(x), k.signbit(y)), x, k.negative(x))


def _copysign_rule(k: Table, g: Handle, out: Handle, x: Any, y: Operand) -> Handle:
    """``sign(x) sign(y)``: as `abs`, 0 where `x` is 0."""
    sign = math.copysign(1.0, y.real) if is_scalar(y) else k.copysign(1.0, y)
    return k.multiply(g, k.multiply(k.sign(x), sign))


def _nextafter(k: Table, x: Operand, y: Operand) -> Handle:
    """One step towards `y`: ``x + u (1 + 2 u) |x|``, rounded (S. Rump, P. Zimmermann, S. Boldo, G. Melquiond, 2009).

    Where that product would lose digits, being subnormal, the step is made with multiples of `x`; from the smallest
    numbers it is the least subnormal.
    """
    x, y = arrays(k, x, y)
    digits, lowest = FORMATS[k.dtype(x).name]
    unit, least = 2.0**-digits, 2.0 ** (lowest - digits + 1)
    most = (1 - unit) * 2.0 ** -(lowest - 1) * 2.0

    def step(z: Handle) -> Any:
        return k.multiply(k.abs(z), unit * (1 + 2 * unit))

    up = k.less(x, y)
    size = k.abs(x)
    tiny, small = k.less(size, 2.0 ** (lowest + 1)), k.less(size, 2.0 ** (lowest + digits))
    scaled = k.multiply(k.where(small, x, 0), 1 / unit)
    by = k.where(tiny, least, step(x))
    moved = k.where(up, k.add(x, by), k.subtract(x, by))
    moved_scaled = k.multiply(k.where(up, k.add(scaled, step(scaled)), k.subtract(scaled, step(scaled))), unit)
    moved = k.where(k.logical_and(small, k.logical_not(tiny)), moved_scaled, moved)
    moved = k.where(k.equal(size, float("inf")), k.copysign(most, x), moved)
    moved = k.where(k.equal(moved, 0), k.copysign(0.0, x), moved)
    return k.where(k.equal(x, y), y, k.where(k.logical_or(k.isnan(x), k.isnan(y)), k.add(x, y), moved))


# ── shifts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _power_of_two(k: Table, n: Handle) -> Handle:
    return k.pow(k.add(k.multiply(n, 0), 2), n)


def _shift_left(k: Table, x: Operand, n: Operand) -> Handle:
    """``x 2**n``, which wraps; by as many bits as there are, 0."""
    x, n = arrays(k, x, n)
    inside = k.less(n, k.dtype(x).bits)
    return k.where(inside, k.multiply(x, _power_of_two(k, k.where(inside, n, 0))), 0)


def _shift_right(k: Table, x: Operand, n: Operand) -> Handle:
    """``floor(x / 2**n)``: of what is negative through the complement, which is not."""
    x, n = arrays(k, x, n)
    dtype = k.dtype(x)
    negative, inside = k.less(x, 0), k.less(n, dtype.bits)
    bits, divisor = k.where(negative, k.bitwise_invert(x), x), _power_of_two(k, k.where(inside, n, 0))
    if dtype.kind == "unsigned integer":
        shifted = _division_of_one_sign(k, bits, divisor, 1)[0]
    else:  # the greatest power has wrapped around, and is its own negative
        shifted = _division_of_one_sign(k, k.negative(bits), _below_0(k, divisor), -1)[0]
    shifted = k.where(inside, shifted, 0)
    return k.where(negative, k.bitwise_invert(shifted), shifted)


def _shift(name: str, doc: str, compose: Any) -> Op:
    x, n = Array((2, 3), -100, 100, "int32"), Array((3,), 0, 31, "int32")
    samples = (Sample(x, n), Sample(x, 3), Sample(Array((3,), 0, 200, "uint8"), Array((3,), 0, 8, "uint8")))
    facts = {"samples": samples, "gradient": "bits are not differentiable", "compose": compose}
    return binary(name, doc, accepts=INTEGER, lowering=CALL, **facts)


_ZEROS = (lambda k, g, out, x, y: zero_rule(k, g, out, x), lambda k, g, out, x, y: zero_rule(k, g, out, y))
_INTEGERS = (
    Sample(Array((3, 4), -50, 50, "int32"), Array((4,), 1, 9, "int32")),
    Sample(Array((3, 4), -50, 50, "int64"), -7),
    Sample(Array((3,), 0, 200, "uint8"), Array((3,), 1, 200, "uint8")),
)
_FLOATS = (
    Sample(Array((2, 3), -9.0, 9.0), Array((3,), 0.5, 2.0)),
    Sample(Array((2, 1), -9.0, 9.0), Array((3,), -2.0, -0.5)),
    Sample(Array((2, 3), -9.0, 9.0), 1.5),
    Sample(7.5, Array((3,), 0.5, 2.0)),
    Sample((), Array((), 0.5)),
    Sample((0, 3), (3,)),
)

_division = partial(binary, accepts=REAL, cost=LONG, samples=_FLOATS + _INTEGERS)

OPS = (
    _division(
        "floor_divide",
        "The greatest integer not above ``x1 / x2``; an integer by 0 gives 0.",
        gradient=_ZEROS,
        compose=_floor_divide,
        reference=_floor_divide_reference,
    ),
    _division(
        "remainder",
        "``x1 - x2 * floor_divide(x1, x2)``, with the sign of ``x2``; an integer by 0 gives 0.",
        gradient=(lambda k, g, out, x, y: g, lambda k, g, out, x, y: k.negative(k.multiply(g, k.floor_divide(x, y)))),
        gradient_aliases=True,
        compose=_remainder,
    ),
    unary("ceil", "The least integer not below `x`.", accepts=REAL, gradient=(zero_rule,), compose=_ceil),
    unary("trunc", "The integer next to `x` towards 0.", accepts=REAL, gradient=(zero_rule,), compose=_trunc),
    unary(
        "round",
        "The nearest integer, the even one half way between two; of complex numbers both parts.",
        samples=(Sample(Array((2, 3), -9.0, 9.0)), Sample(Array((7,), -9, 9, "int32")), Sample(())),
        gradient=(zero_rule,),
        compose=_round,
    ),
    unary(
        "signbit",
        "Whether the sign bit is set, as it is of -0.0. Compositions take NaN as positive.",
        accepts=FLOATING,
        result=to_bool,
        gradient="booleans are not differentiable",
        compose=_signbit,
    ),
    binary(
        "copysign",
        "The magnitude of ``x1`` with the sign of ``x2``; the gradient at 0 is 0.",
        accepts=FLOATING,
        gradient=(_copysign_rule, _ZEROS[1]),
        compose=_copysign,
    ),
    binary(
        "nextafter",
        "The next number of the dtype after ``x1`` in the direction of ``x2``.",
        accepts=FLOATING,
        lowering=CALL,
        samples=(Sample((2, 3), (3,)), Sample((2, 3), 0.5), Sample((), ())),
        gradient="it steps through the numbers that a dtype has, which are not a continuum",
        compose=_nextafter,
    ),
    _shift(
        "bitwise_left_shift", "``x1 << x2``: bits shifted out are lost; negative counts are undefined.", _shift_left
    ),
    _shift("bitwise_right_shift", "``x1 >> x2``, which keeps the sign; negative counts are undefined.", _shift_right),
)
