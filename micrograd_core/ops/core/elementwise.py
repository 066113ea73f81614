"""Elementwise operations: arithmetic, comparison, bits and logic.

Gradient rules read ``(k, g, out, x)`` or ``(k, g, out, x, y)``: cotangent, result, operands.
"""

from __future__ import annotations

import cmath
import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import bool_, integer_range
from micrograd_core.ops.record import ANY, BITS, BOOLEAN, DEAR, FLOATING, INEXACT, LONG, REAL, Array, Op, Sample, Table
from micrograd_core.ops.shared import arrays, binary, elementwise, is_scalar, mirror, to_bool, unary, wrapped, zero_rule


def _comparison(name: str, doc: str, *, accepts: frozenset[str] = REAL, compose: Any = None, scalar: str = "") -> Op:
    # Drawn from few integers, so that equal elements occur.
    x, y = Array((3, 4), 0, 3, "int64"), Array((4,), 0, 3, "int64")
    samples = (Sample(x, y), Sample(x, 1), Sample((2,), (2,)))
    facts = {"accepts": accepts, "result": to_bool, "compose": compose, "scalar": scalar}
    return binary(name, doc, samples=samples, gradient="comparisons are not differentiable", **facts)


def _bitwise(name: str, doc: str) -> Op:
    x, b = Array((2, 3), 0, 100, "int32"), Array((3,), dtype="bool")
    samples = (Sample(x, Array((3,), 0, 100, "int32")), Sample(x, 5), Sample(Array((2, 3), dtype="bool"), b))
    return binary(name, doc, accepts=BITS, samples=samples, gradient="bits are not differentiable")


def _logical(name: str, doc: str, compose: Any, scalar: str = "") -> Op:
    samples = (Sample(Array((2, 3), dtype="bool"), Array((3,), dtype="bool")),)
    facts = {"samples": samples, "gradient": "booleans are not differentiable", "compose": compose, "scalar": scalar}
    return binary(name, doc, accepts=BOOLEAN, result=to_bool, **facts)


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────


def _pow_base(k: Table, g: Any, out: Any, x: Any, n: Any) -> Any:
    """``n x**(n-1)``, which is 0 for ``n == 0`` even where ``x`` is 0 or NaN."""
    if is_scalar(n):
        if not n:
            return 0.0 if is_scalar(x) else zero_rule(k, g, out, x)
        return k.multiply(g, k.multiply(k.pow(x, n - 1), n))
    # There n == 0 does not count, so 0**1 stands for the power; elsewhere it is kept, for the mixed derivative 1 / x.
    pole = k.logical_and(k.equal(n, 0), k.logical_not(k.less(0, k.abs(x))))
    power = k.pow(k.where(pole, 0, x), k.where(pole, 1, k.subtract(n, 1)))
    return k.multiply(g, k.multiply(n, power))


def _pow_exponent(k: Table, g: Any, out: Any, x: Any, n: Any) -> Any:
    """``x**n log(x)``, whose limit at ``x == 0`` is 0 for positive `n` and taken as 0 for ``n == 0``."""
    if not is_scalar(x):
        vanishing = k.logical_and(k.equal(x, 0), k.isfinite(out))  # negative powers of 0 are infinite
        log: Any = k.log(k.where(vanishing, 1, x))
    elif x == 0 and is_scalar(n):
        log = 0.0 if n.real >= 0 else -math.inf
    elif x == 0:  # -inf where powers are infinite
        log = k.subtract(0.0, k.log(k.where(k.isfinite(out), 1, out)))
    elif isinstance(x, complex):
        log = cmath.log(x)
    else:
        log = math.log(x) if x > 0 else math.nan
    return k.multiply(g, k.multiply(out, log))


def _share(k: Table, g: Any, won: Any, tied: Any) -> Any:
    """`g` to the winner, half of it to each side of a tie."""
    return k.where(tied, k.multiply(g, 0.5), k.where(won, g, 0))


_TO_THE_GREATER = (
    lambda k, g, out, x, y: _share(k, g, k.less(y, x), k.equal(x, y)),
    lambda k, g, out, x, y: _share(k, g, k.less(x, y), k.equal(x, y)),
)


def _negative(k: Table, x: Any) -> Any:
    if k.dtype(x).kind == "unsigned integer":  # two's complement; -1 does not fit the dtype
        return k.add(k.bitwise_invert(x), 1)
    return k.multiply(x, -1)


def _bitwise_invert(k: Table, x: Any) -> Any:
    dtype = k.dtype(x)
    all_ones = True if dtype is bool_ else -1 if dtype.kind == "signed integer" else integer_range(dtype)[1]
    return k.bitwise_xor(x, all_ones)


def _hypot(k: Table, x: Any, y: Any) -> Any:
    """``m sqrt(1 + (n / m)**2)`` of the greater and the lesser modulus: squares neither overflow nor vanish."""
    x, y = (k.abs(each) for each in arrays(k, x, y))
    most, least = k.maximum(x, y), k.minimum(x, y)
    ratio = k.divide(least, k.where(k.equal(most, 0), 1, most))
    length = k.multiply(most, k.sqrt(k.add(k.square(ratio), 1)))
    infinite = k.logical_or(k.equal(x, math.inf), k.equal(y, math.inf))  # whatever the other, NaN included
    return k.where(infinite, math.inf, length)


def _leg(k: Table, g: Any, out: Any, leg: Any) -> Any:
    """``leg / hypotenuse``, and 0 where both are: 0 / inf is, and so are its derivatives."""
    return k.multiply(g, k.divide(leg, k.where(k.equal(out, 0), math.inf, out)))


def _minimum(k: Table, x: Any, y: Any) -> Any:
    like = k.dtype(y if is_scalar(x) else x)

    def turned(z: Any) -> Any:
        return mirror(k, z) if not is_scalar(z) else -float(z.real) if like.is_floating else wrapped(~int(z.real), like)

    return mirror(k, k.maximum(turned(x), turned(y)))


def _relu_gradient(k: Table, x: Any, y: Any) -> Any:
    x, y = arrays(k, x, y)
    return k.where(k.less(0, y), x, 0)


def _isinf(k: Table, x: Any) -> Any:
    dtype = k.dtype(x)
    if dtype.is_complex:
        return k.logical_or(k.isinf(k.real(x)), k.isinf(k.imag(x)))
    return k.equal(k.abs(x), math.inf) if dtype.is_floating else k.not_equal(x, x)


ARITHMETIC = (
    binary(
        "add",
        "Sum ``x1 + x2``.",
        scalar="{} + {}",
        gradient=(lambda k, g, out, x, y: g, lambda k, g, out, x, y: g),
        gradient_aliases=True,
    ),
    binary(
        "subtract",
        "Difference ``x1 - x2``.",
        scalar="{} - {}",
        gradient=(lambda k, g, out, x, y: g, lambda k, g, out, x, y: k.negative(g)),
        gradient_aliases=True,
        compose=lambda k, x, y: k.add(x, wrapped(-y, k.dtype(x)) if is_scalar(y) else k.negative(y)),
    ),
    binary(
        "multiply",
        "Product ``x1 * x2``.",
        scalar="{} * {}",
        gradient=(lambda k, g, out, x, y: k.multiply(g, y), lambda k, g, out, x, y: k.multiply(g, x)),
    ),
    binary(
        "divide",
        "Quotient ``x1 / x2`` of floating-point operands.",
        scalar="{} / {}",
        cost=DEAR,
        low=0.5,
        accepts=INEXACT,
        gradient=(
            lambda k, g, out, x, y: k.divide(g, y),
            lambda k, g, out, x, y: k.negative(k.divide(k.multiply(g, out), y)),
        ),
    ),
    binary(
        "pow",
        "Power ``x1 ** x2``. Anything ``** 0`` is 1, constant in the base, 0 and NaN included.",
        scalar="pow({}, {})",
        cost=LONG,
        low=0.5,
        autocast="float32",
        gradient=(_pow_base, _pow_exponent),
    ),
    binary(
        "maximum",
        "The greater of two elements; NaN if either is NaN. At a tie each side gets half the gradient.",
        accepts=REAL,
        gradient=_TO_THE_GREATER,
    ),
    binary(
        "minimum",
        "The lesser of two elements; NaN if either is NaN. At a tie each side gets half the gradient.",
        accepts=REAL,
        gradient=_TO_THE_GREATER[::-1],
        compose=_minimum,
    ),
    binary(
        "hypot",
        "``sqrt(x1**2 + x2**2)`` without overflow or underflow on the way; the gradient at the origin is 0.",
        accepts=FLOATING,
        gradient=(lambda k, g, out, x, y: _leg(k, g, out, x), lambda k, g, out, x, y: _leg(k, g, out, y)),
        compose=_hypot,
    ),
    unary("negative", "``-x``.", scalar="-{}", gradient=(lambda k, g, out, x: k.negative(g),), compose=_negative),
    unary(
        "positive",
        "``+x``: the same numbers.",
        scalar="+{}",
        gradient=(lambda k, g, out, x: g,),
        gradient_aliases=True,
        compose=lambda k, x: k.copy(x),  # 1 times a complex infinity is NaN
    ),
    unary(
        "square",
        "``x * x``.",
        scalar="{0} * {0}",
        autocast="float32",
        gradient=(lambda k, g, out, x: k.square_gradient(g, x),),
        compose=lambda k, x: k.multiply(x, x),
    ),
    unary(
        "reciprocal",
        "``1 / x``.",
        low=0.5,
        accepts=INEXACT,
        gradient=(lambda k, g, out, x: k.negative(k.multiply(g, k.square(out))),),
        compose=lambda k, x: k.divide(1, x),
    ),
    elementwise(
        "clip",
        "Elements below `min` replaced by it, those above `max` by that. Inside, bounds included, the gradient goes to "
        "`x`, outside to the bound.",
        accepts=REAL,
        gradient=(
            lambda k, g, out, x, low, high: k.where(k.logical_and(k.less_equal(low, x), k.less_equal(x, high)), g, 0),
            lambda k, g, out, x, low, high: k.where(k.logical_and(k.less(x, low), k.less_equal(low, high)), g, 0),
            lambda k, g, out, x, low, high: k.where(k.less(high, k.maximum(x, low)), g, 0),
        ),
        compose=lambda k, x, low, high: k.minimum(k.maximum(x, low), high),
        samples=(
            Sample((3, 4), -1.0, 0.5),
            Sample((3, 4), Array((4,), -1.5, -1.0), Array((3, 1), 0.5, 1.0)),
            Sample((3, 4), (), 1.5),
        ),
    ),
)


# ── comparison, bits, logic ──────────────────────────────────────────────────────────────────────────────────

_question = partial(unary, result=to_bool, gradient="booleans are not differentiable")

COMPARISON = (
    _comparison("less", "``x1 < x2``.", scalar="{} < {}"),
    _comparison("less_equal", "``x1 <= x2``.", compose=lambda k, x, y: k.bitwise_or(k.less(x, y), k.equal(x, y))),
    _comparison("greater", "``x1 > x2``.", compose=lambda k, x, y: k.less(y, x)),
    _comparison("greater_equal", "``x1 >= x2``.", compose=lambda k, x, y: k.less_equal(y, x)),
    _comparison("equal", "``x1 == x2``.", accepts=ANY, scalar="{} == {}"),
    _comparison("not_equal", "``x1 != x2``.", accepts=ANY, compose=lambda k, x, y: k.logical_not(k.equal(x, y))),
    _bitwise("bitwise_and", "``x1 & x2`` of integers or bools."),
    _bitwise("bitwise_or", "``x1 | x2`` of integers or bools."),
    _bitwise("bitwise_xor", "``x1 ^ x2`` of integers or bools."),
    unary(
        "bitwise_invert",
        "``~x`` of integers or bools.",
        accepts=BITS,
        samples=(Sample(Array((2, 3), 0, 100, "int32")), Sample(Array((3,), dtype="bool"))),
        gradient="bits are not differentiable",
        compose=_bitwise_invert,
    ),
    unary(
        "logical_not",
        "``not x`` of bools.",
        scalar="not {}",
        accepts=BOOLEAN,
        samples=(Sample(Array((3,), dtype="bool")),),
        gradient="booleans are not differentiable",
        compose=lambda k, x: k.bitwise_xor(x, True),
    ),
    _logical("logical_and", "``x1 and x2`` of bools.", lambda k, x, y: k.bitwise_and(x, y), "{} and {}"),
    _logical("logical_or", "``x1 or x2`` of bools.", lambda k, x, y: k.bitwise_or(x, y)),
    _logical("logical_xor", "Whether one of two bools is true.", lambda k, x, y: k.bitwise_xor(x, y)),
    _question("isnan", "Whether elements are NaN.", compose=lambda k, x: k.not_equal(x, x)),
    _question("isinf", "Whether elements are infinite; of complex numbers, whether a part is.", compose=_isinf),
    _question(
        "isfinite",
        "Whether elements are neither infinite nor NaN.",
        scalar="{0} - {0} == 0.0",
        compose=lambda k, x: k.equal(k.subtract(x, x), 0),
    ),
)

# ── functions that every device provides, from which compositions make the others ───────────────────────────


def _analytic(name: str, doc: str, rule: Any, **facts: Any) -> Op:
    scalar = f"{name}({{}})"
    return unary(name, doc, **{"accepts": INEXACT, "gradient": (rule,), "scalar": scalar, "cost": LONG, **facts})


FUNCTIONS = (
    _analytic("exp", "``e ** x``.", lambda k, g, out, x: k.multiply(g, out), autocast="float32"),
    _analytic("log", "Natural logarithm.", lambda k, g, out, x: k.divide(g, x), autocast="float32", low=0.2),
    _analytic("sin", "Sine of radians.", lambda k, g, out, x: k.multiply(g, k.cos(x))),
    _analytic(
        "sqrt",
        "Square root; the gradient at 0 is infinite.",
        lambda k, g, out, x: k.divide(k.multiply(g, 0.5), out),
        cost=DEAR,
        low=0.2,
    ),
    unary("floor", "The greatest integer not above `x`.", accepts=REAL, gradient=(zero_rule,)),
)

RELU = (
    unary(
        "relu",
        "``max(x, 0)``; the gradient at 0 is 0.",
        scalar="0.0 if {0} <= 0.0 else {0}",
        standard=False,
        accepts=REAL,
        gradient=(lambda k, g, out, x: k.relu_gradient(g, out),),
        compose=lambda k, x: k.maximum(x, 0),
    ),
    binary(
        "relu_gradient",
        "``x1`` where ``x2 > 0``, else 0: the vector-Jacobian product of `relu`, given its result as ``x2``.",
        scalar="{0} if {1} > 0.0 else 0.0",
        standard=False,
        accepts=REAL,
        samples=(Sample((2, 3), (2, 3)), Sample((), ())),
        gradient=(lambda k, g, out, x, y: k.relu_gradient(g, y), lambda k, g, out, x, y: zero_rule(k, g, out, y)),
        compose=_relu_gradient,
    ),
)

OPS = ARITHMETIC + COMPARISON + FUNCTIONS + RELU
