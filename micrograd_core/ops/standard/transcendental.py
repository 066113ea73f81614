"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions.

The compositions need ``exp``, ``log``, ``sin``, ``sqrt`` and arithmetic, and are accurate to a few roundings. Those of
complex numbers stand where array libraries are known to miss the special cases of the standard (after C99, annex G).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from micrograd_core.ops.record import FLOATING, INEXACT, LONG, NEST, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, binary, unary

LN2, LN10 = math.log(2), math.log(10)


def horner(k: Table, x: Handle, coefficients: Sequence[float]) -> Any:
    """A polynomial, its coefficients by rising powers."""
    highest_first: Any = reversed(coefficients)
    return reduce(lambda total, coefficient: k.add(k.multiply(x, total), coefficient), highest_first)


# ── exponentials and logarithms ──────────────────────────────────────────────────────────────────────────────


def _expm1(k: Table, x: Handle) -> Handle:
    """``(u - 1) (x / log(u))`` with ``u = exp(x)`` (Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1)."""
    if k.dtype(x).is_complex:
        return _complex_expm1(k, x)
    u = k.exp(x)
    u_minus_1 = k.subtract(u, 1)
    exact = k.logical_or(k.equal(u, 1), k.logical_or(k.equal(u_minus_1, -1), k.logical_not(k.isfinite(u))))
    corrected = k.multiply(u_minus_1, k.divide(x, k.log(k.where(exact, 2, u))))
    return k.where(k.equal(u, 1), x, k.where(exact, u_minus_1, corrected))


def _complex_expm1(k: Table, x: Handle) -> Handle:
    """``expm1(a) cos(b) - 2 sin(b/2)**2 + i exp(a) sin(b)``, which loses no digits near 0."""
    a, b = k.real(x), k.imag(x)
    finite, on_axis = k.isfinite(b), k.equal(b, 0)
    safe = k.where(finite, b, 0)  # of infinite angles: NaN, but for the cases below
    half = k.sin(k.multiply(safe, 0.5))
    e, cosine, sine = k.exp(a), k.cos(safe), k.sin(safe)
    real = k.subtract(k.multiply(k.expm1(a), cosine), k.multiply(k.square(half), 2))
    imag = k.where(on_axis, b, k.multiply(e, sine))  # inf * 0 would be NaN
    infinite = k.equal(a, math.inf)
    real = k.add(real, 0)  # of -0.0 too it is 0.0
    real = k.where(k.logical_and(infinite, k.logical_not(on_axis)), k.multiply(e, cosine), real)
    vanishing = k.equal(a, -math.inf)
    real = k.where(vanishing, -1, real)
    imag = k.where(vanishing, k.multiply(sine, 0), imag)
    lost = k.logical_not(k.logical_or(finite, vanishing))
    real = k.where(k.logical_and(lost, infinite), math.inf, k.where(lost, math.nan, real))
    imag = k.where(lost, math.nan, imag)
    return k.complex(real, imag)


def _log1p(k: Table, x: Handle) -> Handle:
    """``log(u) x / (u - 1)`` with ``u = 1 + x`` (Higham, 1.14.1, after Kahan)."""
    u = k.add(x, 1)
    exact = k.logical_or(k.equal(u, 1), k.logical_not(k.isfinite(u)))
    corrected = k.multiply(k.log(u), k.divide(x, k.where(exact, 1, k.subtract(u, 1))))
    return k.where(exact, k.where(k.equal(u, 1), x, k.log(u)), corrected)


def _difference(k: Table, x: Operand, y: Operand) -> Handle:
    """``x - y``, and 0 between equal infinities."""
    x, y = arrays(k, x, y)
    same = k.logical_and(k.equal(x, y), k.isinf(x))
    return k.subtract(k.where(same, 0, x), k.where(same, 0, y))


def _logaddexp(k: Table, x: Operand, y: Operand) -> Handle:
    """``max + log(1 + exp(-|x - y|))``: the exponent is at most 0."""
    distance = k.abs(_difference(k, x, y))
    return k.add(k.maximum(x, y), k.log1p(k.exp(k.negative(distance))))


def _sigmoid(k: Table, x: Handle) -> Handle:
    """``exp(min(x, 0)) / (1 + exp(-|x|))``: both exponents are at most 0, so that nothing overflows."""
    negative = k.less(x, 0)
    e = k.exp(k.where(negative, x, k.negative(x)))
    return k.divide(k.where(negative, e, 1), k.add(e, 1))


# ── hyperbolic functions ─────────────────────────────────────────────────────────────────────────────────────


def _odd(k: Table, x: Handle, y: Handle) -> Handle:
    """`y`, computed from ``|x|``, with the sign of `x`; `x` itself where it is a zero of either sign, or NaN."""
    signed = k.where(k.less(x, 0), k.negative(y), y)
    return k.where(k.logical_or(k.equal(x, 0), k.isnan(x)), x, signed)


def _tanh(k: Table, x: Handle) -> Handle:
    """``-m / (m + 2)`` with ``m = expm1(-2 |x|)``: no overflow, no cancellation near 0."""
    if k.dtype(x).is_complex:
        return _complex_tanh(k, x)
    m = k.expm1(k.multiply(k.abs(x), -2))
    return _odd(k, x, k.negative(k.divide(m, k.add(m, 2))))


def _complex_tanh(k: Table, x: Handle) -> Handle:
    """With ``t = tanh(a)``: ``(t sec(b)**2 + i tan(b) sech(a)**2) / (1 + t**2 tan(b)**2)`` (Kahan, Branch Cuts, 1987).

    Both parts are multiplied by ``cos(b)**2``, which has no poles.
    """
    a, b = k.real(x), k.imag(x)
    finite = k.isfinite(b)
    safe = k.where(finite, b, 0)
    sine, cosine, t = k.sin(safe), k.cos(safe), k.tanh(a)
    e = k.exp(k.multiply(k.abs(a), -1))
    sech = k.divide(k.multiply(e, 2), k.add(k.square(e), 1))
    below = k.add(k.square(cosine), k.square(k.multiply(t, sine)))
    real = k.divide(t, below)
    imag = k.divide(k.multiply(k.multiply(sine, cosine), k.square(sech)), below)
    flat = k.equal(k.abs(a), math.inf)  # 1 + 0i, whatever the angle: its 0 has the sign of b, not that of sin(2b)
    real, imag = k.where(flat, t, real), k.where(flat, k.copysign(0.0, b), imag)
    lost = k.logical_not(k.logical_or(finite, flat))
    real = k.where(k.logical_and(lost, k.not_equal(a, 0)), math.nan, real)
    real = k.where(k.equal(a, 0), a, real)
    return k.complex(real, k.where(lost, math.nan, k.where(k.equal(b, 0), b, imag)))


def _half_exponential(k: Table, x: Handle) -> Handle:
    """``exp(|x|) / 2`` as a product of two roots, which overflows no sooner than the result."""
    root = k.exp(k.multiply(k.abs(x), 0.5))
    return k.multiply(k.multiply(root, 0.5), root)


def _sinh(k: Table, x: Handle) -> Handle:
    """``(m + m / (m + 1)) / 2`` with ``m = expm1(|x|)``; before it overflows, twice that is enough."""
    size = k.abs(x)
    far = k.greater(size, 20 if k.dtype(x).bits > 16 else 9)
    m = k.expm1(k.where(far, 0, size))
    near = k.multiply(k.add(m, k.divide(m, k.add(m, 1))), 0.5)
    return _odd(k, x, k.where(far, _half_exponential(k, x), near))


def _cosh(k: Table, x: Handle) -> Handle:
    half = _half_exponential(k, x)
    return k.add(half, k.divide(0.25, half))


def _far_out(k: Table, x: Handle) -> Handle:
    """Where 1 no longer counts beside the square of `x`, in the digits of its dtype."""
    return k.greater(x, 1e8 if k.dtype(x).bits > 16 else 200.0)


def _asinh(k: Table, x: Handle) -> Handle:
    """``log1p(|x| + x**2 / (1 + hypot(1, x)))``; ``log(2 |x|)`` far out."""
    size = k.abs(x)
    far = _far_out(k, size)
    near = k.where(far, 0, size)
    result = k.log1p(k.add(near, k.multiply(near, k.divide(near, k.add(k.hypot(near, 1.0), 1)))))
    return _odd(k, x, k.where(far, k.add(k.log(k.where(far, size, 1)), LN2), result))


def _acosh(k: Table, x: Handle) -> Handle:
    """``log1p(t + sqrt(t) sqrt(t + 2))`` with ``t = x - 1``; ``log(2 x)`` far out."""
    far = _far_out(k, x)
    t = k.subtract(k.where(far, 1, x), 1)
    result = k.log1p(k.add(t, k.multiply(k.sqrt(t), k.sqrt(k.add(t, 2)))))
    return k.where(far, k.add(k.log(k.where(far, x, 1)), LN2), result)


def _atanh(k: Table, x: Handle) -> Handle:
    """``log1p(2 |x| / (1 - |x|)) / 2``."""
    size = k.abs(x)
    return _odd(k, x, k.multiply(k.log1p(k.divide(k.multiply(size, 2), k.subtract(1, size))), 0.5))


# ── trigonometric functions ──────────────────────────────────────────────────────────────────────────────────


def _cos(k: Table, x: Handle) -> Handle:
    """``1 - 2 sin(x/2)**2``: of large `x` half is exact, while adding ``pi / 2`` rounds."""
    return k.subtract(1, k.multiply(k.square(k.sin(k.multiply(x, 0.5))), 2))


def _atan2(k: Table, y: Operand, x: Operand) -> Handle:
    """The angle of the point ``(x, y)``.

    Of the smaller by the larger coordinate first: an estimate good to 0.004, then twice ``angle += s cos(angle) - c
    sin(angle)``, the sine of what is missing, so that the error is cubed each time. Then the octant.
    """
    y, x = arrays(k, y, x)
    over, across = k.abs(y), k.abs(x)
    most, least = k.maximum(over, across), k.minimum(over, across)
    diagonal = k.logical_and(k.equal(most, least), k.not_equal(most, 0))  # infinities too
    ratio = k.divide(least, k.where(k.equal(most, 0), 1, most))
    ratio = k.where(diagonal, 1, ratio)
    hypotenuse = k.sqrt(k.add(k.square(ratio), 1))
    sine, cosine = k.divide(ratio, hypotenuse), k.divide(1, hypotenuse)
    angle = k.multiply(ratio, k.subtract(math.pi / 4 + 0.273, k.multiply(ratio, 0.273)))
    for _ in range(2):
        missing = k.subtract(k.multiply(sine, k.cos(angle)), k.multiply(cosine, k.sin(angle)))
        angle = k.add(angle, missing)
    angle = k.where(k.less(across, over), k.subtract(math.pi / 2, angle), angle)
    angle = k.where(k.signbit(x), k.subtract(math.pi, angle), angle)
    return k.copysign(angle, y)


def _one_minus_square(k: Table, x: Handle) -> Handle:
    """``sqrt(1 - x**2)`` by its factors, which keep their digits near 1 and the branch of complex numbers."""
    return k.multiply(k.sqrt(k.subtract(1, x)), k.sqrt(k.add(x, 1)))


def _one_minus_x_squared(k: Table, x: Handle) -> Handle:
    """``1 - x**2`` for derivatives, real ones by its factors near 1 only: there they keep the digits.

    At 1 itself one factor would multiply an infinite cotangent by 0, near 0 what they give each other nearly cancels.
    """
    product = k.multiply(k.subtract(1, x), k.add(x, 1))
    if k.dtype(x).is_complex:
        return product
    square = k.square(x)
    return k.where(k.logical_and(k.less(0.5, square), k.less(square, 1)), product, k.subtract(1, square))


def _arc(k: Table, g: Handle, x: Handle) -> Handle:
    """``g / sqrt(1 - x**2)``."""
    return k.divide(g, _one_minus_square(k, x) if k.dtype(x).is_complex else k.sqrt(_one_minus_x_squared(k, x)))


def _atan2_rule(k: Table, g: Handle, y: Operand, x: Operand, other: Operand) -> Handle:
    """``other / (x**2 + y**2)``, and 0 at the origin: 0 / inf is, and so are its derivatives."""
    distance = k.hypot(y, x)
    distance = k.where(k.equal(distance, 0), math.inf, distance)
    return k.multiply(g, k.divide(k.divide(other, distance), distance))


# ── complex numbers ──────────────────────────────────────────────────────────────────────────────────────────


def _by_kind(of_real: Any, of_complex: Any) -> Any:
    """A composition that differs for complex numbers."""
    return lambda k, x: (of_complex if k.dtype(x).is_complex else of_real)(k, x)


def _around(first: str, second: str) -> Any:
    """``f(a) cos(b) + i g(a) sin(b)`` of two hyperbolic functions."""

    def compose(k: Table, z: Handle) -> Handle:
        a, b = k.real(z), k.imag(z)
        return k.complex(k.multiply(getattr(k, first)(a), k.cos(b)), k.multiply(getattr(k, second)(a), k.sin(b)))

    return compose


def _complex_asinh(k: Table, z: Handle) -> Handle:
    """``log(z + sqrt(z**2 + 1))`` on the right, where nothing cancels; the function is odd."""
    left = k.less(k.real(z), 0)
    right = k.where(left, k.negative(z), z)
    found = k.log(k.add(right, k.sqrt(k.add(k.square(right), 1))))
    return k.where(left, k.negative(found), found)


def _complex_acosh(k: Table, z: Handle) -> Handle:
    """``i acos(z)`` or ``-i acos(z)``: the one on the right."""
    angle = k.acos(z)
    return k.complex(k.abs(k.imag(angle)), k.copysign(k.real(angle), k.imag(z)))


def _turned(name: str) -> Any:
    """``-i f(i z)`` of a hyperbolic function."""
    return lambda k, z: k.multiply(getattr(k, name)(k.multiply(z, 1j)), -1j)


# name, sentence, rule; facts
_TABLE: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    ("expm1", "``e ** x - 1``, accurate near 0.", lambda k, g, out, x: k.multiply(g, k.add(out, 1)), {
        "compose": _expm1, "cost": LONG, "scalar": "expm1({})", "autocast": "float32",
    }),
    ("log1p", "``log(1 + x)``, accurate near 0.", lambda k, g, out, x: k.divide(g, k.add(x, 1)), {
        "compose": _log1p, "cost": LONG, "low": -0.8, "scalar": "log1p({})", "autocast": "float32",
    }),
    ("log2", "Logarithm to base 2.", lambda k, g, out, x: k.divide(g, k.multiply(x, LN2)), {
        "compose": lambda k, x: k.multiply(k.log(x), 1 / LN2), "cost": LONG, "low": 0.2,
    }),
    ("log10", "Logarithm to base 10.", lambda k, g, out, x: k.divide(g, k.multiply(x, LN10)), {
        "compose": lambda k, x: k.multiply(k.log(x), 1 / LN10), "cost": LONG, "low": 0.2,
    }),
    ("sigmoid", "Logistic function ``1 / (1 + e ** -x)``, without overflow in either tail.",
     lambda k, g, out, x: k.multiply(g, k.multiply(out, k.subtract(1, out))), {
        "accepts": FLOATING, "compose": _sigmoid,
        "scalar": "sigmoid({})", "standard": False, "lowering": NEST,
    }),
    ("cos", "Cosine of radians.", lambda k, g, out, x: k.negative(k.multiply(g, k.sin(x))), {
        "compose": _cos, "cost": LONG, "scalar": "cos({})",
    }),
    ("tan", "Tangent of radians.", lambda k, g, out, x: k.multiply(g, k.add(k.square(out), 1)), {
        "compose": lambda k, x: k.divide(k.sin(x), k.cos(x)), "low": -1.4, "high": 1.4,
    }),
    ("asin", "Arc sine, in radians; infinite gradients at -1 and 1.",
     lambda k, g, out, x: _arc(k, g, x), {
        "compose": _by_kind(lambda k, x: k.atan2(x, _one_minus_square(k, x)), _turned("asinh")),
        "low": -0.9, "high": 0.9,
    }),
    ("acos", "Arc cosine, in radians; infinite gradients at -1 and 1.",
     lambda k, g, out, x: k.negative(_arc(k, g, x)), {
        "compose": _by_kind(
            lambda k, x: k.atan2(_one_minus_square(k, x), x), lambda k, z: k.subtract(math.pi / 2, k.asin(z))
        ),
        "low": -0.9, "high": 0.9,
    }),
    ("atan", "Arc tangent, in radians.", lambda k, g, out, x: k.divide(g, k.add(k.square(x), 1)), {
        "compose": _by_kind(lambda k, x: k.atan2(x, 1.0), _turned("atanh")),
    }),
    ("sinh", "Hyperbolic sine.", lambda k, g, out, x: k.multiply(g, k.cosh(x)), {
        "compose": _by_kind(_sinh, _around("sinh", "cosh")),
    }),
    ("cosh", "Hyperbolic cosine.", lambda k, g, out, x: k.multiply(g, k.sinh(x)), {
        "compose": _by_kind(_cosh, _around("cosh", "sinh")),
    }),
    ("tanh", "Hyperbolic tangent.", lambda k, g, out, x: k.tanh_gradient(g, out), {
        "compose": _tanh, "cost": LONG, "lowering": NEST, "scalar": "tanh({})",
    }),
    ("asinh", "Inverse hyperbolic sine.", lambda k, g, out, x: k.divide(g, k.sqrt(k.add(k.square(x), 1))), {
        "compose": _by_kind(_asinh, _complex_asinh),
    }),
    ("acosh", "Inverse hyperbolic cosine; an infinite gradient at 1.",
     lambda k, g, out, x: k.divide(k.divide(g, k.sqrt(k.subtract(x, 1))), k.sqrt(k.add(x, 1))), {
        "compose": _by_kind(_acosh, _complex_acosh), "low": 1.2, "high": 3.0,
    }),
    ("atanh", "Inverse hyperbolic tangent; infinite gradients at -1 and 1.",
     lambda k, g, out, x: k.divide(g, _one_minus_x_squared(k, x)), {
        "compose": _by_kind(_atanh, lambda k, z: k.multiply(k.subtract(k.log1p(z), k.log1p(k.negative(z))), 0.5)),
        "low": -0.9, "high": 0.9,
    }),
)  # fmt: skip

OPS: tuple[Op, ...] = (
    *(unary(name, doc, **{"accepts": INEXACT, "gradient": (rule,), **facts}) for name, doc, rule, facts in _TABLE),
    Op(
        "tanh_gradient",
        "``x1`` times the derivative of `tanh` where its result is ``x2``: ``x1 * (1 - x2**2)``.",
        accepts=INEXACT,
        lowering=NEST,
        compose=lambda k, g, t: k.multiply(g, k.subtract(1, k.multiply(t, t))),
        samples=(Sample((2, 3), (2, 3)),),
    ),
    binary(
        "logaddexp",
        "``log(exp(x1) + exp(x2))``, without overflow.",
        accepts=FLOATING,
        gradient=(
            lambda k, g, out, x, y: k.multiply(g, k.sigmoid(_difference(k, x, y))),
            lambda k, g, out, x, y: k.multiply(g, k.sigmoid(_difference(k, y, x))),
        ),
        compose=_logaddexp,
    ),
    binary(
        "atan2",
        "The angle, in radians, of the point of ordinate ``x1`` and abscissa ``x2``; at the origin the gradient is 0.",
        accepts=FLOATING,
        gradient=(
            lambda k, g, out, y, x: _atan2_rule(k, g, y, x, x),
            lambda k, g, out, y, x: k.negative(_atan2_rule(k, g, y, x, y)),
        ),
        compose=_atan2,
    ),
)
