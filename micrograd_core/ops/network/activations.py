"""Activation functions, and the error function that the exact `gelu` needs.

Rules read ``(k, g, out, x, **parameters)``. Where a backend gains from it, the product of cotangent and derivative is
an operation of its own, named ``…_gradient``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from micrograd_core.errors import one_of
from micrograd_core.ops.record import FLOATING, REAL, Array, Op, Sample
from micrograd_core.ops.shared import in_float32
from micrograd_core.ops.tangents import symmetric

REAL_FLOATING = REAL & FLOATING

# ── the error function ───────────────────────────────────────────────────────────────────────────────────────

# Rational approximations, numerator and denominator by falling powers: W. J. Cody, "Rational Chebyshev approximations
# for the error function", Math. Comp. 23 (1969), 631-637, with the coefficients of his program CALERF. The relative
# error is below 1e-16 everywhere.
SMALL = (  # erf(x) / x, in x**2, for |x| <= 0.46875
    (0.185777706184603153, 3.16112374387056560, 113.864154151050156, 377.485237685302021, 3209.37758913846947),
    (1.0, 23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062),
)
MIDDLE = (  # exp(x**2) erfc(x), in x, up to 4
    (
        2.15311535474403846e-8, 0.564188496988670089, 8.88314979438837594, 66.1191906371416295, 298.635138197400131,
        881.952221241769090, 1712.04761263407058, 2051.07837782607147, 1230.33935479799725,
    ),
    (
        1.0, 15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019, 3290.79923573345963,
        4362.61909014324716, 3439.36767414372164, 1230.33935480374942,
    ),
)  # fmt: skip
LARGE = (  # x**2 (1 / sqrt(pi) - x exp(x**2) erfc(x)), in 1 / x**2, beyond 4
    (
        0.0163153871373020978, 0.305326634961232344, 0.360344899949804439, 0.125781726111229246, 0.0160837851487422766,
        6.58749161529837803e-4,
    ),
    (
        1.0, 2.56852019228982242, 1.87295284992346725, 0.527905102951428412, 0.0605183413124413191,
        2.33520497626869185e-3,
    ),
)  # fmt: skip
BOUNDS = (0.46875, 4.0, 30.0)  # between the three; and where erfc is 0 in any dtype


def _ratio(k: Any, x: Any, coefficients: tuple[Sequence[float], Sequence[float]]) -> Any:
    """The quotient of two polynomials, each by Horner's scheme."""
    parts = []
    for first, second, *rest in coefficients:
        total = k.add(k.multiply(x, first), second)
        for coefficient in rest:
            total = k.add(k.multiply(total, x), coefficient)
        parts.append(total)
    return k.divide(*parts)


def _tail(k: Any, y: Any) -> Any:
    """``erfc(y)`` for ``y >= 0.46875``. The exponent is taken in two parts, so that its square loses no digits."""
    y = k.minimum(y, BOUNDS[2])
    coarse = k.multiply(k.floor(k.multiply(y, 16.0)), 1 / 16)
    rest = k.multiply(k.subtract(y, coarse), k.add(y, coarse))
    gauss = k.multiply(k.exp(k.negative(k.square(coarse))), k.exp(k.negative(rest)))
    beyond = k.maximum(y, BOUNDS[1])
    inverse = k.divide(1.0, k.square(beyond))
    far = k.divide(k.subtract(math.pi**-0.5, k.multiply(inverse, _ratio(k, inverse, LARGE))), beyond)
    near = _ratio(k, k.minimum(y, BOUNDS[1]), MIDDLE)
    return k.multiply(gauss, k.where(k.less(BOUNDS[1], y), far, near))


def _erf_near_zero(k: Any, x: Any) -> Any:
    clipped = k.maximum(k.minimum(x, BOUNDS[0]), -BOUNDS[0])
    return k.multiply(clipped, _ratio(k, k.square(clipped), SMALL))


@in_float32
def _erf(k: Any, x: Any) -> Any:
    y = k.abs(x)
    tail = k.subtract(1.0, _tail(k, k.maximum(y, BOUNDS[0])))
    return k.where(k.less(y, BOUNDS[0]), _erf_near_zero(k, x), k.where(k.less(x, 0), k.negative(tail), tail))


@in_float32
def _erfc(k: Any, x: Any) -> Any:
    y = k.abs(x)
    tail = _tail(k, k.maximum(y, BOUNDS[0]))
    folded = k.where(k.less(x, 0), k.subtract(2.0, tail), tail)
    return k.where(k.less(y, BOUNDS[0]), k.subtract(1.0, _erf_near_zero(k, x)), folded)


def _gauss(k: Any, x: Any, scale: float) -> Any:
    """``scale * exp(-x**2)``."""
    return k.multiply(k.exp(k.negative(k.square(x))), scale)


def _elementwise(function: Any) -> Any:
    """A reference from a function of one Python float."""
    return lambda np, x, **params: np.vectorize(function, otypes="d")(x) if x.size else np.zeros(x.shape)


# ── functions of the exponential ─────────────────────────────────────────────────────────────────────────────


def _softplus(k: Any, x: Any) -> Any:
    """``max(x, 0) + log(1 + exp(-|x|))``: the exponent is at most 0."""
    return k.add(k.maximum(x, 0), k.log1p(k.exp(k.negative(k.abs(x)))))


def _silu_derivative(k: Any, x: Any) -> Any:
    s = k.sigmoid(x)
    return k.multiply(s, k.add(k.multiply(x, k.subtract(1, s)), 1))


def _mish_derivative(k: Any, x: Any) -> Any:
    t = k.tanh(k.softplus(x))
    return k.add(t, k.multiply(k.multiply(x, k.sigmoid(x)), k.subtract(1, k.square(t))))


def _elu(k: Any, x: Any, *, alpha: float) -> Any:
    return k.where(k.less(0, x), x, k.multiply(k.expm1(k.minimum(x, 0)), alpha))


def _elu_rule(k: Any, g: Any, out: Any, x: Any, *, alpha: float) -> Any:
    return k.where(k.less(0, x), g, k.multiply(g, k.multiply(k.exp(k.minimum(x, 0)), alpha)))


# ── gelu ─────────────────────────────────────────────────────────────────────────────────────────────────────

CUBIC = 0.044715  # of the tanh form (Hendrycks & Gimpel 2016, "Gaussian Error Linear Units")


def _normal_cdf(k: Any, x: Any) -> Any:
    """Of the standard normal distribution; as an erfc, which keeps the digits of the left tail."""
    return k.multiply(k.erfc(k.multiply(x, -(0.5**0.5))), 0.5)


def _tanh_argument(k: Any, x: Any) -> Any:
    return k.multiply(k.multiply(x, k.add(k.multiply(k.square(x), CUBIC), 1)), (2 / math.pi) ** 0.5)


@in_float32
def _gelu(k: Any, x: Any, *, approximate: str) -> Any:
    if approximate == "none":
        return k.multiply(x, _normal_cdf(k, x))
    # (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps the digits of the left tail
    return k.multiply(x, k.sigmoid(k.multiply(_tanh_argument(k, x), 2)))


@in_float32
def _gelu_gradient(k: Any, g: Any, x: Any, *, approximate: str) -> Any:
    if approximate == "none":
        density = _gauss(k, k.multiply(x, 0.5**0.5), (2 * math.pi) ** -0.5)
        return k.multiply(g, k.add(_normal_cdf(k, x), k.multiply(x, density)))
    s = k.sigmoid(k.multiply(_tanh_argument(k, x), 2))
    slope = k.multiply(k.add(k.multiply(k.square(x), 3 * CUBIC), 1), 2 * (2 / math.pi) ** 0.5)
    return k.multiply(g, k.add(s, k.multiply(k.multiply(x, k.multiply(s, k.subtract(1, s))), slope)))


def _gelu_parameters(x: Any, /, *, approximate: str = "none") -> dict[str, Any]:
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is {one_of(['none', 'tanh'])}; got {approximate!r}")
    return {"approximate": approximate}


def _gelu_gradient_parameters(g: Any, x: Any, /, *, approximate: str = "none") -> dict[str, Any]:
    return _gelu_parameters(x, approximate=approximate)


def _gelu_reference(np: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + CUBIC * x**3)))
    return x * _elementwise(lambda v: math.erfc(-v / 2**0.5) / 2)(np, x)


def _gelu_gradient_reference(np: Any, g: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        t = np.tanh((2 / np.pi) ** 0.5 * (x + CUBIC * x**3))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * (2 / np.pi) ** 0.5 * (1 + 3 * CUBIC * x**2))
    cdf = _elementwise(lambda v: math.erfc(-v / 2**0.5) / 2)(np, x)
    return g * (cdf + x * np.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5)


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def _leaky_parameters(x: Any, /, *, negative_slope: float = 0.01) -> dict[str, Any]:
    return {"negative_slope": float(negative_slope)}


def _elu_parameters(x: Any, /, *, alpha: float = 1.0) -> dict[str, Any]:
    return {"alpha": float(alpha)}


def _hardtanh_parameters(x: Any, /, *, min_val: float = -1.0, max_val: float = 1.0) -> dict[str, Any]:
    if not min_val <= max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val; got {min_val} and {max_val}")
    return {"min_val": float(min_val), "max_val": float(max_val)}


def _hardtanh_rule(k: Any, g: Any, out: Any, x: Any, *, min_val: float, max_val: float) -> Any:
    return k.where(k.logical_and(k.less(min_val, x), k.less(x, max_val)), g, 0)


def _samples(*parameters: dict[str, Any]) -> tuple[Sample, ...]:
    shapes = (Array((2, 3)), Array(()), Array((0, 2)), Array((4,), -40.0, 40.0))
    first, *others = parameters or ({},)
    return (*(Sample(x, **first) for x in shapes), *(Sample(Array((2, 3)), **each) for each in others))


def _sigmoid(np: Any, x: Any) -> Any:
    return np.exp(-np.logaddexp(0, -x))


OPS = (
    Op(
        "erf",
        "Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to `x` (DLMF 7.2.1).",
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x: k.multiply(g, _gauss(k, x, 2 / math.pi**0.5)),),
        compose=_erf,
        samples=(*_samples(), Sample(Array((3, 4), -6.0, 6.0)), Sample(Array((4,), -0.4, 0.4))),
        reference=_elementwise(math.erf),
    ),
    Op(
        "erfc",
        "``1 - erf(x)``, to full precision where that is small (DLMF 7.2.2).",
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x: k.multiply(g, _gauss(k, x, -2 / math.pi**0.5)),),
        compose=_erfc,
        samples=(*_samples(), Sample(Array((3, 4), -6.0, 6.0)), Sample(Array((4,), -0.4, 0.4))),
        reference=_elementwise(math.erfc),
    ),
    Op(
        "leaky_relu",
        "``x`` where it is positive, else ``negative_slope * x``; the gradient at 0 is `negative_slope`.",
        parameters=_leaky_parameters,
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x, *, negative_slope: k.where(k.less(0, x), g, k.multiply(g, negative_slope)),),
        compose=lambda k, x, *, negative_slope: k.where(k.less(0, x), x, k.multiply(x, negative_slope)),
        samples=_samples({}, {"negative_slope": 0.3}),
        reference=lambda np, x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    ),
    Op(
        "elu",
        "``x`` where it is positive, else ``alpha * expm1(x)`` (Clevert et al. 2016); the gradient at 0 is `alpha`.",
        parameters=_elu_parameters,
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(_elu_rule,),
        compose=_elu,
        samples=_samples({}, {"alpha": 0.5}),
        reference=lambda np, x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    ),
    Op(
        "gelu",
        "``x`` times the standard normal distribution function of ``x`` (Hendrycks & Gimpel 2016); with "
        "``approximate='tanh'`` by their formula ``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2``.",
        parameters=_gelu_parameters,
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x, *, approximate: k.gelu_gradient(g, x, approximate=approximate),),
        compose=_gelu,
        samples=_samples({}, {"approximate": "tanh"}),
        reference=_gelu_reference,
    ),
    Op(
        "gelu_gradient",
        "``x1`` times the derivative of `gelu` at ``x2``.",
        operands=2,
        parameters=_gelu_gradient_parameters,
        accepts=REAL_FLOATING,
        compose=_gelu_gradient,
        samples=(Sample(Array((2, 3)), Array((2, 3))), Sample(Array((2, 3)), Array((2, 3)), approximate="tanh")),
        reference=_gelu_gradient_reference,
    ),
    Op(
        "silu",
        "``x * sigmoid(x)`` (Elfwing et al. 2018), also called swish.",
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x: k.silu_gradient(g, x),),
        compose=lambda k, x: k.multiply(x, k.sigmoid(x)),
        samples=_samples(),
        reference=lambda np, x: x * _sigmoid(np, x),
    ),
    Op(
        "silu_gradient",
        "``x1`` times the derivative of `silu` at ``x2``.",
        operands=2,
        accepts=REAL_FLOATING,
        compose=lambda k, g, x: k.multiply(g, _silu_derivative(k, x)),
        samples=(Sample(Array((2, 3)), Array((2, 3))),),
        reference=lambda np, g, x: g * _sigmoid(np, x) * (1 + x * _sigmoid(np, -x)),
    ),
    Op(
        "mish",
        "``x * tanh(softplus(x))`` (Misra 2020).",
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x: k.multiply(g, _mish_derivative(k, x)),),
        compose=lambda k, x: k.multiply(x, k.tanh(k.softplus(x))),
        samples=_samples(),
        reference=lambda np, x: x * np.tanh(np.logaddexp(0, x)),
    ),
    Op(
        "softplus",
        "``log(1 + exp(x))``, without overflow, and without loss of digits in the left tail.",
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x: k.multiply(g, k.sigmoid(x)),),
        compose=_softplus,
        samples=_samples(),
        reference=lambda np, x: np.logaddexp(0, x),
    ),
    Op(
        "log_sigmoid",
        "``log(sigmoid(x))``, which is ``-softplus(-x)``.",
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(lambda k, g, out, x: k.multiply(g, k.sigmoid(k.negative(x))),),
        compose=lambda k, x: k.negative(k.softplus(k.negative(x))),
        samples=_samples(),
        reference=lambda np, x: -np.logaddexp(0, -x),
    ),
    Op(
        "hardtanh",
        "``x`` between `min_val` and `max_val`, else the nearer of the two; there, and at both, the gradient is 0.",
        parameters=_hardtanh_parameters,
        accepts=REAL_FLOATING,
        tangent=symmetric,
        gradient=(_hardtanh_rule,),
        compose=lambda k, x, *, min_val, max_val: k.minimum(k.maximum(x, min_val), max_val),
        samples=_samples({}, {"min_val": -0.5, "max_val": 1.5}),
        reference=lambda np, x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    ),
)
