"""Special functions: those of the gamma function, the inverse error function, modified Bessel functions.

Each is a series: of Stirling where the argument is large, which smaller ones are brought to by recursion and negative
ones by reflection (DLMF 5.5, 5.11, 5.15); of powers and of inverse powers (DLMF 10.25, 10.40). float16 and bfloat16 are
computed as float32.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import zip_longest
from typing import Any

from micrograd_core.ops.record import FLOATING, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import in_float32
from micrograd_core.ops.standard.transcendental import horner
from micrograd_core.ops.tangents import symmetric

LARGE = 8  # from where on the series of Stirling has the digits of float64
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
"""The second, fourth, sixth … of Bernoulli's numbers (DLMF 24.2)."""


def _shifted(k: Table, x: Handle) -> tuple[Any, Any, Any]:
    """Whether `x` is small, `x` if it is (else 1), and a number that is large enough, `x` or ``x + LARGE``."""
    small = k.less(x, LARGE)
    return small, k.where(small, x, 1), k.where(small, k.add(x, LARGE), x)


def _beside_integer(k: Table, x: Handle) -> Handle:
    """`x` less the nearest integer."""
    return k.subtract(x, k.round(x))


# ── the gamma function ───────────────────────────────────────────────────────────────────────────────────────


def _zeta(s: int, first: float) -> float:
    """Hurwitz' zeta function ``sum((first + n)**-s)`` by the formula of Euler and Maclaurin (DLMF 25.11.28)."""
    a, factor = first + 40, s / 2  # s (s + 1) … (s + 2 m - 2) / (2 m)!
    tail = a ** (1 - s) / (s - 1) + a**-s / 2
    for m, b in enumerate(BERNOULLI[:4], 1):
        tail += b * factor * a ** (1.0 - s - 2 * m)
        factor *= (s + 2 * m - 1) * (s + 2 * m) / ((2 * m + 1) * (2 * m + 2))
    return math.fsum([(first + n) ** -s for n in range(40)]) + tail


NEAR = [1 - 0.5772156649015329, *((-1) ** n * _zeta(n, 2.0) / n for n in range(2, 43))]
"""``lgamma(1 + t) + log1p(t)``, over `t`: a series (DLMF 5.7.3) that is exactly 0 where the function is, at 1 and 2."""


@in_float32
def _lgamma(k: Table, x: Handle) -> Handle:
    """By recursion from the interval around 2, or the series of Stirling; below -1/2 by reflection.

    Around 0 it is ``lgamma(1 + x) - log|x|``: subnormal numbers have a logarithm, while multiples of them are rounded.
    """
    left = k.less(x, -0.5)
    y = k.where(left, k.subtract(1, x), x)
    little, lower, middle = k.less(y, 0.5), k.less(y, 1.25), k.less(y, LARGE)
    base = k.where(middle, y, 2)
    product: Operand = 1.0
    for _ in range(LARGE - 2):
        above = k.less_equal(2.5, base)
        base = k.where(above, k.subtract(base, 1), base)
        product = k.multiply(k.where(above, base, 1), product)
    one = k.full(shape=(), fill_value=1.0, dtype=y.dtype)
    t = k.subtract(base, k.where(little, 0, k.where(lower, one, 2)))
    around = k.subtract(k.multiply(t, horner(k, t, NEAR)), k.where(lower, k.log1p(t), 0))
    logarithm = k.log(k.where(little, k.abs(x), product))
    below = k.add(around, k.where(little, k.negative(logarithm), logarithm))
    large = k.where(middle, LARGE, y)
    inverse = k.divide(1, large)
    series = [b / (2 * n * (2 * n - 1)) for n, b in enumerate(BERNOULLI, 1)]
    tail = k.multiply(inverse, horner(k, k.multiply(inverse, inverse), series))
    # infinity less infinity would be NaN
    main = k.multiply(k.subtract(large, 0.5), k.subtract(k.log(large), 1))
    above = k.where(middle, below, k.add(k.add(main, math.log(2 * math.pi) / 2 - 0.5), tail))
    rest = _beside_integer(k, x)
    sine = k.abs(_sine(k, rest))
    pole = k.logical_or(k.equal(rest, 0), k.equal(x, -math.inf))
    mirrored = k.subtract(k.negative(k.log(k.where(pole, 1, sine))), above)
    return k.where(left, k.where(pole, math.inf, mirrored), above)


SINE = [(-1) ** n * math.pi ** (2 * n) / math.factorial(2 * n + 1) for n in range(1, 10)]
COSINE = [(-1) ** n * math.pi ** (2 * n - 1) / math.factorial(2 * n) for n in range(1, 10)]
SQUARE = [(-4) ** n * 2 * math.pi ** (2 * n) / math.factorial(2 * n + 2) for n in range(1, 12)]
"""In ``x**2``: ``sin(pi x) / (pi x) - 1``, ``(cos(pi x) - 1) / pi``, and the square of the first quotient, less 1."""
PARTS = {  # 1 / pi and its square, each in two parts
    "float32": ((0.31830987334251404, 1.284127663345183e-08), (0.10132118314504623, 4.972915373130201e-10)),
    "float64": ((0.3183098861837907, -1.9678676675182486e-17), (0.10132118364233778, -3.9662898794394414e-18)),
}


def _sine(k: Table, x: Handle, squared: bool = False) -> Handle:
    """``sin(pi x) / pi`` for ``|x| <= 1/2``, or its square: of series, as a product ``pi x`` would lose digits.

    Beyond 1/4 they are those of the cosine of the rest.
    """
    size, (most, rest) = k.abs(x), PARTS[k.dtype(x).name][squared]
    far = k.less(0.25, size)
    t = k.where(far, k.subtract(0.5, size), x)
    square = k.multiply(t, t)
    tail = k.multiply(square, horner(k, square, SQUARE if squared else SINE))
    near = k.multiply(square if squared else t, k.add(tail, 1))
    if squared:
        return k.where(far, k.add(k.subtract(rest, near), most), near)
    cosine = k.add(k.add(k.multiply(square, horner(k, square, COSINE)), rest), most)
    return k.where(far, k.copysign(cosine, x), near)


def _cotangent(k: Table, rest: Handle, left: Handle, order: int) -> Operand:
    """The derivative of ``pi cot(pi x)`` of an order: a polynomial in the cotangent c, whose own is -(1 + c²).

    From the first on it is a multiple of ``1 + c²``, which is ``1 / sin(pi x)²``.
    """
    rest = k.where(left, rest, 0.25)
    power = k.divide(-(math.pi ** (order - 1)), _sine(k, rest, squared=True)) if order else math.pi
    if order == 1:
        return power
    coefficients = [1.0] if order else [0.0, 1.0]
    for _ in range(1, order):  # of the quotient q: (1 + c²) q has the derivative -(1 + c²) (2 c q + (1 + c²) q')
        slope = [i * c for i, c in enumerate(coefficients)][1:]
        terms = zip_longest([0.0, *(2 * c for c in coefficients)], slope, [0.0, 0.0, *slope], fillvalue=0.0)
        coefficients = [-sum(each) for each in terms]
    c = k.divide(_sine(k, k.subtract(0.5, k.abs(rest))), _sine(k, rest))  # a cosine that keeps its digits near 0
    return k.multiply(horner(k, c, coefficients), power)


ROOT = 1.4616321325302124, 1.2438149938918909e-08, 4.341643069426251e-25  # of digamma, in three parts (DLMF 5.4.19)
AROUND_ROOT = [(-1) ** (n + 1) * _zeta(n + 1, sum(ROOT)) for n in range(1, 40)]
"""``digamma(root + t)`` over `t`: its Taylor series (DLMF 5.15)."""


@in_float32
def _digamma(k: Table, x: Handle) -> Handle:
    left, rest = k.less(x, 0.5), _beside_integer(k, x)
    y = k.where(left, k.subtract(1, x), x)
    small, low, large = _shifted(k, y)
    inverse = k.divide(1, large)
    total: Any = 0.0  # of 1 / (x + i) less its logarithm's share, so that there is little to cancel
    for i in reversed(range(LARGE)):  # the largest comes last
        step = k.divide(1, k.add(low, i))
        total = k.add(k.subtract(step, k.log1p(step)), total)
    square = k.multiply(inverse, inverse)
    series = [-b / (2 * n) for n, b in enumerate(BERNOULLI, 1)]
    tail = k.multiply(square, horner(k, square, series))
    above = k.add(k.subtract(k.log(y), k.multiply(inverse, 0.5)), tail)
    above = k.subtract(above, k.where(small, total, 0))
    t = k.subtract(k.subtract(k.subtract(x, ROOT[0]), ROOT[1]), ROOT[2])
    near = k.less(k.abs(t), 0.5)
    t = k.where(near, t, 0)
    above = k.where(near, k.multiply(t, horner(k, t, AROUND_ROOT)), above)
    mirrored = k.subtract(above, _cotangent(k, rest, left, 0))
    undefined = k.logical_and(k.equal(rest, 0), k.less(x, 0))
    pole = k.where(undefined, math.nan, k.where(k.equal(x, 0), k.negative(k.divide(1, x)), mirrored))
    return k.where(left, pole, above)


@in_float32
def _polygamma(k: Table, x: Handle, *, n: int) -> Handle:
    """``(-1)**(n + 1) n!`` times Hurwitz' zeta function of ``n + 1``, by the formula of Euler and Maclaurin."""
    if n == 0:
        return k.digamma(x)
    left = k.less_equal(x, 0)
    y, rest = k.where(left, k.subtract(1, x), x), _beside_integer(k, x)
    small, low, large = _shifted(k, y)
    order, inverse = n + 1, k.divide(1, large)
    series, factor = [], float(order)  # order (order + 1) … (order + 2 m - 2) / (2 m)!
    for m, b in enumerate(BERNOULLI, 1):
        factor = factor if m == 1 else factor * (order + 2 * m - 3) * (order + 2 * m - 2)
        series.append(b * factor / math.factorial(2 * m))
    square = k.multiply(inverse, inverse)
    inner = k.add(k.multiply(square, horner(k, square, series)), k.add(k.multiply(inverse, 0.5), 1 / n))
    above = k.multiply(k.pow(inverse, float(n)), inner)
    for i in reversed(range(LARGE)):  # the largest comes last
        above = k.add(above, k.where(small, k.pow(k.add(low, i), float(-order)), 0))
    above = k.multiply(above, (-1.0) ** (n + 1) * math.factorial(n))
    mirrored = k.subtract(k.multiply(above, (-1.0) ** n), _cotangent(k, rest, left, n))
    pole = k.where(k.equal(rest, 0), math.inf if n % 2 else -math.inf, mirrored)
    return k.where(left, pole, above)


def _polygamma_parameters(x: Any, /, n: int) -> dict[str, Any]:
    """The `n`-th derivative of `digamma` (DLMF 5.15)."""
    if int(n) != n or n < 0:
        raise ValueError(f"polygamma: n, the order of the derivative, is an integer from 0 on; got {n}")
    return {"n": int(n)}


# ── the inverse error function ───────────────────────────────────────────────────────────────────────────────


@in_float32
def _erfinv(k: Table, x: Handle) -> Handle:
    """From an approximation of two digits (S. Winitzki, 2008), by Halley's method where the digits are."""
    size = k.abs(x)
    inside = k.less(size, 1)
    z = k.where(inside, size, 0.5)
    rest = k.subtract(1, z)
    a = 0.147
    log = k.add(k.log(rest), k.log1p(z))
    half = k.add(k.multiply(log, 0.5), 2 / (math.pi * a))
    root = k.sqrt(k.subtract(k.multiply(half, half), k.multiply(log, 1 / a)))
    y = k.sqrt(k.maximum(k.subtract(root, half), 0))
    for _ in range(3):
        missing = k.where(k.less(z, 0.5), k.subtract(z, k.erf(y)), k.subtract(k.erfc(y), rest))
        step = k.multiply(k.multiply(missing, k.exp(k.multiply(y, y))), math.pi**0.5 / 2)
        y = k.add(y, k.divide(step, k.subtract(1, k.multiply(y, step))))
    y = k.where(k.equal(size, 1), math.inf, k.where(inside, y, math.nan))
    return k.where(k.less(x, 0), k.negative(y), y)


# ── modified Bessel functions ────────────────────────────────────────────────────────────────────────────────

FAR = 8.0  # from where on they are ``exp(x - 8) / sqrt(x)`` times a polynomial in ``16 / x - 1``
AFAR = {  # its coefficients by order, by rising powers: our own fit; off by 2**-57
    0: (
        1198.871278030659897, 10.017664276583635, 0.4060543949220955, 0.0332169155789547, 0.0044232872529072,
        0.0008864172462846, 0.0002644771429049, 0.000117228686818, 6.42348094317e-5, 2.2520219103e-5,
        -2.01144848781e-5, -3.99714198387e-5, -1.61113969725e-5, 2.25139328018e-5, 2.21499029468e-5,
        -1.0451138933e-5, -1.77473403684e-5, 4.5312996708e-6, 1.0844589928e-5, -1.703869042e-6,
        -4.8261133997e-6, 4.554666131e-7, 1.3644105933e-6, -6.03960102e-8, -1.808735479e-7,
    ),
    1: (
        1160.7804465749152831, -29.0630800044559432, -0.6535326012458263, -0.0448292773910349,
        -0.0054697900155702, -0.001038522765659, -0.0002981342022328, -0.0001285662655225, -6.96766979806e-5,
        -2.512281665e-5, 2.00751566796e-5, 4.18354761895e-5, 1.78095475058e-5, -2.2781655835e-5,
        -2.3514844432e-5, 1.0213460052e-5, 1.86093493002e-5, -4.2887789388e-6, -1.1311754516e-5,
        1.5786036955e-6, 5.0226114858e-6, -4.176806599e-7, -1.4185839026e-6, 5.51927914e-8, 1.879781732e-7,
    ),
}  # fmt: skip


def _bessel(order: int, gradient: Any, **facts: Any) -> Op:
    powers = [1 / (math.factorial(i) * math.factorial(i + order)) for i in range(26)]

    @in_float32
    def compose(k: Table, x: Handle) -> Handle:
        size = k.abs(x)
        far = k.less(FAR, size)
        near, away = k.where(far, 1, size), k.where(far, size, FAR)
        coarse = k.multiply(k.floor(k.multiply(near, 64)), 1 / 64)  # the square in two parts, of which this is exact
        whole, part = k.square(coarse), k.multiply(k.subtract(near, coarse), k.add(near, coarse))
        square = k.add(whole, part)
        lost = k.add(k.subtract(whole, square), part)
        close = horner(k, k.multiply(square, 0.25), powers)
        # what it lost, times about half of the logarithm's derivative by the square
        close = k.add(close, k.multiply(close, k.divide(k.multiply(lost, 0.5), k.add(near, 2))))
        if order:
            close = k.multiply(close, k.multiply(near, 0.5))
        # exp(x) overflows sooner than the result; x - 8 is exact
        afar = horner(k, k.subtract(k.divide(16, away), 1), AFAR[order])
        out = k.where(far, k.multiply(k.exp(k.subtract(away, 8)), k.divide(afar, k.sqrt(away))), close)
        out = k.where(k.isinf(size), math.inf, out)
        return k.where(k.less(x, 0), k.negative(out), out) if order else out

    doc = f"Modified Bessel function of the first kind, of order {order} (DLMF 10.25)."
    return _FUNCTION(f"i{order}", doc, gradient=(gradient,), compose=compose, samples=_samples(-4.0, 4.0), **facts)


def _i1_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    """``i0(x) - i1(x) / x``, which is 1/2 at 0."""
    zero = k.equal(x, 0)
    return k.multiply(g, k.subtract(k.i0(x), k.where(zero, 0.5, k.divide(out, k.where(zero, 1, x)))))


_FUNCTION = partial(Op, accepts=FLOATING, kind="elementwise", tangent=symmetric, autocast="float32")


def _samples(low: float, high: float, **params: Any) -> tuple[Sample, ...]:
    return Sample(Array((2, 3), low, high), **params), Sample(Array((), low, high), **params)


OPS = (
    _FUNCTION(
        "lgamma",
        "Logarithm of the absolute value of the gamma function (DLMF 5.2).",
        gradient=(lambda k, g, out, x: k.multiply(g, k.digamma(x)),),
        compose=_lgamma,
        samples=_samples(0.2, 9.0),
    ),
    _FUNCTION(
        "digamma",
        "Derivative of `lgamma` (DLMF 5.2.2).",
        gradient=(lambda k, g, out, x: k.multiply(g, k.polygamma(x, n=1)),),
        compose=_digamma,
        samples=_samples(0.2, 9.0),
    ),
    _FUNCTION(
        "polygamma",
        parameters=_polygamma_parameters,
        gradient=(lambda k, g, out, x, *, n: k.multiply(g, k.polygamma(x, n=n + 1)),),
        compose=_polygamma,
        samples=(Sample(Array((2, 3), 0.4, 9.0), n=1), Sample(Array((), 0.4, 9.0), n=2)),
    ),
    _FUNCTION(
        "erfinv",
        "The inverse of `erf`: infinite at -1 and 1, NaN beyond.",
        gradient=(lambda k, g, out, x: k.multiply(g, k.multiply(k.exp(k.square(out)), math.pi**0.5 / 2)),),
        compose=_erfinv,
        samples=_samples(-0.95, 0.95),
    ),
    _bessel(
        0,
        lambda k, g, out, x: k.multiply(g, k.i1(x)),
        reference=lambda np, x: np.where(np.isinf(x), np.inf, np.i0(x).reshape(x.shape)),
    ),
    _bessel(1, _i1_rule),
)
