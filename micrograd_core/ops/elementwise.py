"""Elementwise operations: arithmetic, comparison, bits, roots and exponentials.

Gradient rules read ``(k, g, out, x)`` or ``(k, g, out, x, y)``: cotangent, result, operands.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

from micrograd_core.dtypes import DType, bool_, integer_range
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops.record import ANY, BITS, BOOLEAN, FLOATING, INEXACT, REAL, Array, Op, Sample


def _zero(k: Any, g: Any, out: Any, x: Any) -> Any:
    """Steps have derivative zero wherever they have one; at the jumps zero is the convention."""
    return k.full(shape=x.shape, fill_value=0, dtype=x.dtype)


def _is_scalar(x: Any) -> bool:
    return type(x) in (bool, int, float, complex)  # exactly: a handle may be a subclass, as NumPy's float64 is


def _arrays(k: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of which one may be a scalar, as two arrays."""
    if _is_scalar(x):
        return k.full(shape=(), fill_value=x, dtype=y.dtype), y
    return x, k.full(shape=(), fill_value=y, dtype=x.dtype) if _is_scalar(y) else y


def _bool(dtype: DType, params: dict[str, Any]) -> DType:
    return bool_


def _binary(name: str, doc: str, *, low: float = -2.0, **facts: Any) -> Op:
    """A binary operation with samples for equal shapes, broadcasting, 0-d and scalars on either side."""
    a, b = Array((2, 3), low), Array((3,), low)
    samples = (
        Sample(a, Array((2, 3), low)),
        Sample(a, b),
        Sample(Array((2, 1), low), b),
        Sample(a, Array((), low)),
        Sample(Array((), low), Array((), low)),
        Sample(a, 1.5),
        Sample(0.5, b),
        Sample(Array((0, 3), low), b),
    )
    return Op(name, doc, operands=2, check=broadcast_shapes, **{"samples": samples, **facts})


def _unary(name: str, doc: str, low: float = -2.0, high: float = 2.0, **facts: Any) -> Op:
    """A unary operation with samples drawn from its domain."""
    samples = (Sample(Array((2, 3), low, high)), Sample(Array((), low, high)), Sample(Array((0, 2), low, high)))
    return Op(name, doc, **{"samples": samples, **facts})


def _comparison(name: str, doc: str, *, accepts: frozenset[str] = REAL, compose: Any = None) -> Op:
    # Drawn from few integers, so that equal elements occur.
    x, y = Array((3, 4), 0, 3, "int64"), Array((4,), 0, 3, "int64")
    samples = (Sample(x, y), Sample(x, 1), Sample(Array((2,)), Array((2,))))
    facts = {"accepts": accepts, "result": _bool, "gradient": "comparisons are not differentiable", "compose": compose}
    return _binary(name, doc, samples=samples, **facts)


def _bitwise(name: str, doc: str) -> Op:
    x, b = Array((2, 3), 0, 100, "int32"), Array((3,), dtype="bool")
    samples = (Sample(x, Array((3,), 0, 100, "int32")), Sample(x, 5), Sample(Array((2, 3), dtype="bool"), b))
    return _binary(name, doc, accepts=BITS, samples=samples, gradient="bits are not differentiable")


def _logical(name: str, doc: str, compose: Any) -> Op:
    samples = (Sample(Array((2, 3), dtype="bool"), Array((3,), dtype="bool")),)
    facts = {"samples": samples, "gradient": "booleans are not differentiable", "compose": compose}
    return _binary(name, doc, accepts=BOOLEAN, result=_bool, **facts)


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────


def _pow_base(k: Any, g: Any, out: Any, x: Any, n: Any) -> Any:
    """``n x**(n-1)``, which is 0 for ``n == 0`` even where ``x`` is 0."""
    if _is_scalar(n):
        return k.multiply(g, k.multiply(k.pow(x, n - 1), n)) if n else _zero(k, g, out, x)
    pole = k.logical_and(k.equal(n, 0), k.equal(x, 0))  # 0 ** -1, of which there are n == 0
    power = k.pow(x, k.where(pole, 1, k.subtract(n, 1)))
    return k.multiply(g, k.multiply(n, power))


def _pow_exponent(k: Any, g: Any, out: Any, x: Any, n: Any) -> Any:
    """``x**n log(x)``, whose limit at ``x == 0`` is 0."""
    if not _is_scalar(x):
        log = k.log(k.where(k.equal(x, 0), 1, x))
    elif isinstance(x, complex):
        log = cmath.log(x) if x else 0.0
    else:
        log = math.log(x) if x > 0 else 0.0 if x == 0 else math.nan
    return k.multiply(g, k.multiply(out, log))


def _share(k: Any, g: Any, won: Any, tied: Any) -> Any:
    """`g` to the winner, half of it to each side of a tie."""
    return k.where(tied, k.multiply(g, 0.5), k.where(won, g, 0))


def _flip_order(k: Any, x: Any) -> Any:
    """A map that reverses the order of a dtype without overflow: ``-x`` for floats, ``~x`` for integers and bools."""
    if _is_scalar(x):
        return -x if isinstance(x, float) else ~x
    return k.negative(x) if k.dtype(x).is_floating else k.bitwise_invert(x)


def _negative(k: Any, x: Any) -> Any:
    if k.dtype(x).kind == "unsigned integer":  # two's complement; -1 does not fit the dtype
        return k.add(k.bitwise_invert(x), 1)
    return k.multiply(x, -1)


def _bitwise_invert(k: Any, x: Any) -> Any:
    dtype = k.dtype(x)
    all_ones = True if dtype is bool_ else -1 if dtype.kind == "signed integer" else integer_range(dtype)[1]
    return k.bitwise_xor(x, all_ones)


def _hypot(k: Any, x: Any, y: Any) -> Any:
    """``m sqrt(1 + (n / m)**2)`` of the greater and the lesser modulus: squares neither overflow nor vanish."""
    x, y = (k.abs(each) for each in _arrays(k, x, y))
    most, least = k.maximum(x, y), k.minimum(x, y)
    ratio = k.divide(least, k.where(k.equal(most, 0), 1, most))
    length = k.multiply(most, k.sqrt(k.add(k.square(ratio), 1)))
    infinite = k.logical_or(k.equal(x, math.inf), k.equal(y, math.inf))  # whatever the other, NaN included
    return k.where(infinite, math.inf, length)


def _leg(k: Any, g: Any, out: Any, leg: Any) -> Any:
    """``leg / hypotenuse``, and 0 where both are."""
    return k.multiply(g, k.divide(leg, k.where(k.equal(out, 0), 1, out)))


def _minimum(k: Any, x: Any, y: Any) -> Any:
    if _is_scalar(x) or _is_scalar(y):  # the scalar takes the kind of the tensor
        kind = float if k.dtype(y if _is_scalar(x) else x).is_floating else int
        x, y = (kind(each) if _is_scalar(each) else each for each in (x, y))
    return _flip_order(k, k.maximum(_flip_order(k, x), _flip_order(k, y)))


ARITHMETIC = (
    _binary(
        "add",
        "Sum ``x1 + x2``.",
        gradient=(lambda k, g, out, x, y: g, lambda k, g, out, x, y: g),
        gradient_aliases=True,
    ),
    _binary(
        "subtract",
        "Difference ``x1 - x2``.",
        gradient=(lambda k, g, out, x, y: g, lambda k, g, out, x, y: k.negative(g)),
        gradient_aliases=True,
        compose=lambda k, x, y: k.add(x, -y if _is_scalar(y) else k.negative(y)),
    ),
    _binary(
        "multiply",
        "Product ``x1 * x2``.",
        gradient=(lambda k, g, out, x, y: k.multiply(g, y), lambda k, g, out, x, y: k.multiply(g, x)),
    ),
    _binary(
        "divide",
        "Quotient ``x1 / x2`` of floating-point operands.",
        low=0.5,
        accepts=INEXACT,
        gradient=(
            lambda k, g, out, x, y: k.divide(g, y),
            lambda k, g, out, x, y: k.negative(k.divide(k.multiply(g, out), y)),
        ),
    ),
    _binary(
        "pow",
        "Power ``x1 ** x2``. The gradient takes ``0 ** 0`` as 1, constant in the base.",
        low=0.5,
        gradient=(_pow_base, _pow_exponent),
    ),
    _binary(
        "maximum",
        "The greater of two elements; NaN if either is NaN. At a tie each side gets half the gradient.",
        accepts=REAL,
        gradient=(
            lambda k, g, out, x, y: _share(k, g, k.less(y, x), k.equal(x, y)),
            lambda k, g, out, x, y: _share(k, g, k.less(x, y), k.equal(x, y)),
        ),
    ),
    _binary(
        "minimum",
        "The lesser of two elements; NaN if either is NaN. At a tie each side gets half the gradient.",
        accepts=REAL,
        gradient=(
            lambda k, g, out, x, y: _share(k, g, k.less(x, y), k.equal(x, y)),
            lambda k, g, out, x, y: _share(k, g, k.less(y, x), k.equal(x, y)),
        ),
        compose=_minimum,
    ),
    _binary(
        "hypot",
        "``sqrt(x1**2 + x2**2)`` without overflow or underflow on the way; the gradient at the origin is 0.",
        accepts=FLOATING,
        gradient=(lambda k, g, out, x, y: _leg(k, g, out, x), lambda k, g, out, x, y: _leg(k, g, out, y)),
        compose=_hypot,
    ),
    _unary("negative", "``-x``.", gradient=(lambda k, g, out, x: k.negative(g),), compose=_negative),
    _unary(
        "positive",
        "``+x``: the same numbers.",
        gradient=(lambda k, g, out, x: g,),
        gradient_aliases=True,
        compose=lambda k, x: k.multiply(x, 1),
    ),
    _unary(
        "square",
        "``x * x``.",
        gradient=(lambda k, g, out, x: k.multiply(g, k.multiply(x, 2)),),
        compose=lambda k, x: k.multiply(x, x),
    ),
    _unary("floor", "The greatest integer not above `x`.", accepts=REAL, gradient=(_zero,)),
    _unary(
        "ceil",
        "The least integer not below `x`.",
        accepts=REAL,
        gradient=(_zero,),
        compose=lambda k, x: k.negative(k.floor(k.negative(x))) if k.dtype(x).is_floating else k.positive(x),
    ),
)


# ── comparison, bits, logic ──────────────────────────────────────────────────────────────────────────────────

COMPARISON = (
    _comparison("less", "``x1 < x2``."),
    _comparison("less_equal", "``x1 <= x2``.", compose=lambda k, x, y: k.bitwise_or(k.less(x, y), k.equal(x, y))),
    _comparison("greater", "``x1 > x2``.", compose=lambda k, x, y: k.less(y, x)),
    _comparison("greater_equal", "``x1 >= x2``.", compose=lambda k, x, y: k.less_equal(y, x)),
    _comparison("equal", "``x1 == x2``.", accepts=ANY),
    _comparison("not_equal", "``x1 != x2``.", accepts=ANY, compose=lambda k, x, y: k.logical_not(k.equal(x, y))),
    _bitwise("bitwise_and", "``x1 & x2`` of integers or bools."),
    _bitwise("bitwise_or", "``x1 | x2`` of integers or bools."),
    _bitwise("bitwise_xor", "``x1 ^ x2`` of integers or bools."),
    _unary(
        "bitwise_invert",
        "``~x`` of integers or bools.",
        accepts=BITS,
        samples=(Sample(Array((2, 3), 0, 100, "int32")), Sample(Array((3,), dtype="bool"))),
        gradient="bits are not differentiable",
        compose=_bitwise_invert,
    ),
    _unary(
        "logical_not",
        "``not x`` of bools.",
        accepts=BOOLEAN,
        samples=(Sample(Array((3,), dtype="bool")),),
        gradient="booleans are not differentiable",
        compose=lambda k, x: k.bitwise_xor(x, True),
    ),
    _logical("logical_and", "``x1 and x2`` of bools.", lambda k, x, y: k.bitwise_and(x, y)),
    _logical("logical_or", "``x1 or x2`` of bools.", lambda k, x, y: k.bitwise_or(x, y)),
    _unary(
        "isnan",
        "Whether elements are NaN.",
        result=_bool,
        gradient="booleans are not differentiable",
        compose=lambda k, x: k.not_equal(x, x),
    ),
    _unary(
        "isfinite",
        "Whether elements are neither infinite nor NaN.",
        result=_bool,
        gradient="booleans are not differentiable",
        compose=lambda k, x: k.equal(k.subtract(x, x), 0),
    ),
)


# ── exponentials, roots, trigonometry ────────────────────────────────────────────────────────────────────────


def _expm1(k: Any, x: Any) -> Any:
    """``(u - 1) x / log(u)`` with ``u = exp(x)`` (Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1)."""
    u = k.exp(x)
    u_minus_1 = k.subtract(u, 1)
    exact = k.logical_or(k.equal(u, 1), k.logical_or(k.equal(u_minus_1, -1), k.logical_not(k.isfinite(u))))
    corrected = k.divide(k.multiply(u_minus_1, x), k.log(k.where(exact, 2, u)))
    return k.where(k.equal(u, 1), x, k.where(exact, u_minus_1, corrected))


def _log1p(k: Any, x: Any) -> Any:
    """``log(u) x / (u - 1)`` with ``u = 1 + x`` (Higham, 1.14.1, after Kahan)."""
    u = k.add(x, 1)
    exact = k.logical_or(k.equal(u, 1), k.logical_not(k.isfinite(u)))
    corrected = k.divide(k.multiply(k.log(u), x), k.where(exact, 1, k.subtract(u, 1)))
    return k.where(exact, k.where(k.equal(u, 1), x, u), corrected)


def _tanh(k: Any, x: Any) -> Any:
    """``-m / (m + 2)`` with ``m = expm1(-2 |x|)``: no overflow, no cancellation near 0."""
    m = k.expm1(k.multiply(k.abs(x), -2))
    t = k.negative(k.divide(m, k.add(m, 2)))
    return k.where(k.less(x, 0), k.negative(t), t)


def _sigmoid(k: Any, x: Any) -> Any:
    """``exp(min(x, 0)) / (1 + exp(-|x|))``: both exponents are at most 0, so that nothing overflows."""
    e = k.exp(k.negative(k.abs(x)))
    return k.divide(k.where(k.less(x, 0), e, 1), k.add(e, 1))


TRANSCENDENTAL = tuple(
    _unary(name, doc, gradient=(rule,), **{"accepts": INEXACT, **facts})  # type: ignore[arg-type]
    for name, doc, rule, facts in (
        ("exp", "``e ** x``.", lambda k, g, out, x: k.multiply(g, out), {}),
        (
            "expm1",
            "``e ** x - 1``, accurate near 0.",
            lambda k, g, out, x: k.multiply(g, k.add(out, 1)),
            {"compose": _expm1},
        ),
        ("log", "Natural logarithm.", lambda k, g, out, x: k.divide(g, x), {"low": 0.2}),
        (
            "log1p",
            "``log(1 + x)``, accurate near 0.",
            lambda k, g, out, x: k.divide(g, k.add(x, 1)),
            {"compose": _log1p, "low": -0.8},
        ),
        (
            "sqrt",
            "Square root; the gradient at 0 is infinite.",
            lambda k, g, out, x: k.divide(k.multiply(g, 0.5), out),
            {"low": 0.2},
        ),
        ("sin", "Sine of radians.", lambda k, g, out, x: k.multiply(g, k.cos(x)), {}),
        (
            "cos",
            "Cosine of radians.",
            lambda k, g, out, x: k.negative(k.multiply(g, k.sin(x))),
            {"compose": lambda k, x: k.sin(k.add(x, math.pi / 2))},
        ),
        (
            "tanh",
            "Hyperbolic tangent.",
            lambda k, g, out, x: k.multiply(g, k.subtract(1, k.multiply(out, out))),
            {"compose": _tanh},
        ),
        (
            "sigmoid",
            "Logistic function ``1 / (1 + e ** -x)``, without overflow in either tail.",
            lambda k, g, out, x: k.multiply(g, k.multiply(out, k.subtract(1, out))),
            {"accepts": FLOATING, "compose": _sigmoid, "reference": lambda np, x: 1 / (1 + np.exp(-x))},
        ),
    )
)

RELU = (
    _unary(
        "relu",
        "``max(x, 0)``; the gradient at 0 is 0.",
        accepts=REAL,
        gradient=(lambda k, g, out, x: k.relu_gradient(g, out),),
        compose=lambda k, x: k.maximum(x, 0),
        reference=lambda np, x: np.maximum(x, 0),
    ),
    _binary(
        "relu_gradient",
        "``x1`` where ``x2 > 0``, else 0: the vector-Jacobian product of `relu`, given its result as ``x2``.",
        accepts=REAL,
        samples=(Sample(Array((2, 3)), Array((2, 3))), Sample(Array(()), Array(()))),
        gradient=(lambda k, g, out, x, y: k.relu_gradient(g, y), lambda k, g, out, x, y: _zero(k, g, out, y)),
        compose=lambda k, x, y: k.where(k.less(0, y), x, 0),
        reference=lambda np, x, y: np.where(y > 0, x, 0),
    ),
)

OPS = ARITHMETIC + COMPARISON + TRANSCENDENTAL + RELU
