"""Activation functions, and the error function that the exact `gelu` needs.

Rules read ``(k, g, out, x, **parameters)``. Where a backend gains from it, the product of cotangent and derivative is
an operation of its own, named ``…_gradient``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from micrograd_core.errors import one_of
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops.record import LONG, Array, Handle, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, in_float32, is_scalar, nest, times
from micrograd_core.ops.tangents import symmetric

# ── the error function ───────────────────────────────────────────────────────────────────────────────────────

# Rational approximations, numerator and denominator by falling powers, fitted to a relative error below half a rounding
# of the dtype. No coefficient that matters is negative, so that Horner's scheme loses no digits.
SMALL = {  # erf(x) / x, in x**2, for |x| <= 1
    "float32": (
        (3.52587968e-6, 0.0336329562, 0.113807136, 1.12837917),
        (0.00523946444, 0.0745371423, 0.434192284, 1.0),
    ),
    "float64": (
        (
            7.77176083913174809e-8, 1.96884738256394763e-4, 0.00187741111941094247, 0.0454836130077400284,
            0.143506659929922978, 1.12837916709551257,
        ),
        (
            2.08102572200182223e-5, 6.9249820551851444e-4, 0.0106930791468677251, 0.0938130689626661778,
            0.46051279934502366, 1.0,
        ),
    ),
}  # fmt: skip
TAIL = {  # exp(y**2) erfc(y), in y >= 0
    "float32": (
        (0.0327956844631301435, 0.229219027675304162, 0.731607993720141623, 1.23841717490223503, 1.00000000584559886),
        (0.0581281382903868226, 0.406306551356909977, 1.3253747610689234, 2.40224306712091972, 2.3667969144254288, 1.0),
    ),
    "float64": (
        (
            6.24636311470411122e-5, 0.00118825533623604288, 0.0110668588215203027, 0.0652829145795890651,
            0.266772767053263401, 0.780477446448035984, 1.63495790439142034, 2.37445346130363294, 2.19083223323291006,
            0.999999999999999948,
        ),
        (
            1.10713903568457976e-4, 0.00210612774652064072, 0.0196708534906967382, 0.116764017088542446,
            0.482594813069776822, 1.44016260088040397, 3.12464027723963083, 4.845055146227593, 5.11978245662075863,
            3.31921140032840872, 1.0,
        ),
    ),
}  # fmt: skip
VANISHING = 28.0  # where erfc is 0 in any dtype


def _polynomials(k: Table, x: Handle, parts: Sequence[Sequence[float]]) -> Handle:
    """Several polynomials at once, along a new first axis: odd and even powers by Horner's scheme, side by side."""
    longest, shape = max(map(len, parts)), (len(parts), 2) + (1,) * len(x.shape)
    padded = [(0.0,) * (longest + longest % 2 - len(part)) + tuple(part) for part in parts]
    columns = (tuple(c for part in padded for c in part[i : i + 2]) for i in range(0, len(padded[0]), 2))
    total, *coefficients = (k.constant(column, shape, x.dtype) for column in columns)
    square = k.multiply(x, x)
    for coefficient in coefficients:
        total = k.add(k.multiply(total, square), coefficient)
    odd, even = _parts(k, total, 1)
    return k.add(k.multiply(odd, x), even)


def _parts(k: Table, x: Handle, axis: int = 0) -> list[Any]:
    """What lies along an axis."""
    whole = [slice(0, n, 1) for n in x.shape]
    return [k.getitem(x, key=(*whole[:axis], i, *whole[axis + 1 :])) for i in range(x.shape[axis])]


def _size(k: Table, x: Handle) -> Handle:
    """``|x|``, or -0.0."""
    return k.maximum(x, k.negative(x))


@in_float32
def _erf(k: Table, x: Handle) -> Handle:
    """``x R(x**2)`` near 0; further out ``1 - exp(-x**2) R(|x|)``, with the sign of `x`."""
    y, name = _size(k, x), k.dtype(x).name
    square = k.multiply(x, x)
    near = k.less(y, 1)
    at = k.where(near, square, k.where(k.less(y, 6), y, 6.0))  # infinities have no quotient
    small, below_small, tail, below_tail = _parts(k, _polynomials(k, at, (*SMALL[name], *TAIL[name])))
    ratio = k.divide(k.where(near, small, tail), k.where(near, below_small, below_tail))
    one = k.where(k.less(x, 0), k.full(shape=(), fill_value=-1.0, dtype=x.dtype), 1.0)
    gauss = k.exp(k.negative(square))
    product = k.multiply(ratio, k.where(near, x, k.multiply(gauss, one)))
    return k.where(near, product, k.subtract(one, product))


@in_float32
def _erfc(k: Table, x: Handle) -> Handle:
    """``exp(-y**2) R(y)`` of ``y = |x|``; on the left 2 less that.

    The exponent is taken in two parts, ``-c**2 - (y - c)(y + c)`` with the coarser number ``c``, so that the square
    loses no digits: side by side, for the numerator and, turned round, for the denominator.
    """
    y, dtype = _size(k, x), k.dtype(x)
    y = k.where(k.less(VANISHING, y), VANISHING, y)
    coarse = k.multiply(k.floor(k.multiply(y, 16.0)), 1 / 16)
    halves = k.multiply(y, k.constant((0.0, 1.0), (2,) + (1,) * len(x.shape), dtype))
    gauss = k.exp(k.multiply(k.subtract(halves, coarse), k.add(halves, coarse)))
    above, below = _parts(k, k.multiply(_polynomials(k, y, TAIL[dtype.name]), gauss))
    tail = k.divide(above, below)
    return k.where(k.less(x, 0), k.subtract(2.0, tail), tail)


def _gauss(k: Table, x: Handle, scale: float) -> Handle:
    """``scale * exp(-x**2)``."""
    return k.multiply(k.exp(k.negative(k.square(x))), scale)


# ── functions of the exponential ─────────────────────────────────────────────────────────────────────────────


def _softplus(k: Table, x: Handle) -> Handle:
    """``max(x, 0) + log(1 + exp(-|x|))``: the exponent is at most 0."""
    return k.add(k.maximum(x, 0), k.log1p(k.exp(k.negative(k.abs(x)))))


FAR = -80.0
"""Below this, ``exp(x)`` may be subnormal in float32 where `x` times it is not; in float64 that comes later."""


def _tail(k: Table, x: Handle, size: Any) -> tuple[Any, Any]:
    """``exp(size)`` and 1; far on the left with 8 more in the exponent, which is exact, and ``exp(-8)``."""
    far = k.less(x, FAR)
    one = k.full(shape=(), fill_value=1.0, dtype=x.dtype)
    return k.exp(k.where(far, k.add(size, 8), size)), k.where(far, math.exp(-8), one)


@in_float32
def _silu(k: Table, x: Handle) -> Handle:
    """``x exp(min(x, 0)) / (1 + exp(-|x|))``: the product before the quotient, which has digits where neither has."""
    negative = k.less(x, 0)
    e, scale = _tail(k, x, k.where(negative, x, k.negative(x)))
    return k.multiply(k.divide(k.where(negative, k.multiply(x, e), x), k.add(e, 1)), scale)


@in_float32
def _mish(k: Table, x: Handle) -> Handle:
    """With ``e = exp(x)`` and ``n = e + e**2 / 2``, ``tanh(log(1 + e))`` is ``n / (n + 1)``: 1 from 20 on."""
    e, scale = _tail(k, x, k.minimum(x, 20))
    n = k.add(e, k.multiply(k.multiply(e, 0.5), e))
    return k.multiply(k.multiply(x, k.divide(n, k.add(n, 1))), scale)


def _silu_gradient(k: Table, g: Handle, x: Handle) -> Handle:
    s = k.sigmoid(x)
    return k.multiply(g, k.multiply(s, k.add(k.multiply(x, k.subtract(1, s)), 1)))


def _mish_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    t = k.tanh(k.softplus(x))
    return k.multiply(g, k.add(t, k.multiply(k.multiply(x, k.sigmoid(x)), k.subtract(1, k.square(t)))))


def _elu_rule(k: Table, g: Handle, out: Handle, x: Handle, *, alpha: float) -> Handle:
    return k.where(k.less(0, x), g, k.multiply(g, k.multiply(k.exp(k.minimum(x, 0)), alpha)))


# ── gelu ─────────────────────────────────────────────────────────────────────────────────────────────────────

CUBIC = 0.044715  # of the tanh form (Hendrycks & Gimpel 2016, "Gaussian Error Linear Units")


def _normal_density(k: Table, x: Handle) -> Handle:
    return k.multiply(k.exp(k.multiply(k.square(x), -0.5)), (2 * math.pi) ** -0.5)


def _times_normal(k: Table, x: Operand, y: Operand) -> Handle:
    y = arrays(k, x, y)[1] if is_scalar(y) else y
    return times(k, k.multiply(k.erfc(k.multiply(y, -(0.5**0.5))), 0.5), x)  # erfc keeps the left tail's digits


def _tanh_argument(k: Table, x: Handle) -> Handle:
    return k.multiply(k.multiply(x, k.add(k.multiply(k.square(x), CUBIC), 1)), (2 / math.pi) ** 0.5)


@in_float32
def _gelu(k: Table, x: Handle, *, approximate: str = "none") -> Handle:
    """``x`` times the standard normal distribution function of ``x`` (Hendrycks & Gimpel 2016).

    With ``approximate='tanh'`` by their formula ``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2``.
    """
    if approximate == "none":
        return k.times_normal(x, x)
    # (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps the digits of the left tail
    return k.multiply(x, k.sigmoid(k.multiply(_tanh_argument(k, x), 2)))


@in_float32
def _gelu_gradient(k: Table, g: Handle, x: Handle, *, approximate: str) -> Handle:
    if approximate == "none":
        return k.multiply(g, k.add(k.times_normal(1, x), k.multiply(x, _normal_density(k, x))))
    s = k.sigmoid(k.multiply(_tanh_argument(k, x), 2))
    slope = k.multiply(k.add(k.multiply(k.square(x), 3 * CUBIC), 1), 2 * (2 / math.pi) ** 0.5)
    return k.multiply(g, k.add(s, k.multiply(k.multiply(x, k.multiply(s, k.subtract(1, s))), slope)))


def _check_gelu(name: str, x: Any, *, approximate: str) -> None:
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is {one_of(['none', 'tanh'])}; got {approximate!r}")


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def _check_hardtanh(name: str, x: Any, *, min_val: float, max_val: float) -> None:
    if not min_val <= max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val; got {min_val} and {max_val}")


def hardtanh_rule(k: Table, g: Handle, out: Handle, x: Handle, *, min_val: float, max_val: float) -> Handle:
    """The cotangent between the two bounds, 0 elsewhere."""
    return k.where(k.logical_and(k.less(min_val, x), k.less(x, max_val)), g, 0)


def _samples(*parameters: dict[str, Any]) -> tuple[Sample, ...]:
    shapes = (Array((2, 3)), Array(()), Array((0, 2)), Array((4,), -40.0, 40.0))
    first, *others = parameters or ({},)
    return (*(Sample(x, **first) for x in shapes), *(Sample((2, 3), **each) for each in others))


_ELEMENTWISE = partial(nest, kind="elementwise", tangent=symmetric, samples=_samples())
_FAR_AND_NEAR = (*_samples(), Sample(Array((3, 4), -6.0, 6.0)), Sample(Array((4,), -0.4, 0.4)))
_error_function = partial(_ELEMENTWISE, cost=LONG, samples=_FAR_AND_NEAR)

OPS = (
    _error_function(
        "erf",
        "Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to `x` (DLMF 7.2.1).",
        gradient=(lambda k, g, out, x: k.multiply(g, _gauss(k, x, 2 / math.pi**0.5)),),
        compose=_erf,
    ),
    _error_function(
        "erfc",
        "``1 - erf(x)``, to full precision where that is small (DLMF 7.2.2).",
        gradient=(lambda k, g, out, x: k.multiply(g, _gauss(k, x, -2 / math.pi**0.5)),),
        compose=_erfc,
    ),
    _ELEMENTWISE(
        "leaky_relu",
        "``x`` where it is positive, else ``negative_slope * x``; the gradient at 0 is `negative_slope`.",
        gradient=(lambda k, g, out, x, *, negative_slope: k.where(k.less(0, x), g, k.multiply(g, negative_slope)),),
        compose=lambda k, x, *, negative_slope=0.01: k.where(k.less(0, x), x, k.multiply(x, negative_slope)),
        samples=_samples({}, {"negative_slope": 0.3}),
    ),
    _ELEMENTWISE(
        "elu",
        "``x`` where it is positive, else ``alpha * expm1(x)`` (Clevert et al. 2016); the gradient at 0 is `alpha`.",
        gradient=(_elu_rule,),
        compose=lambda k, x, *, alpha=1.0: k.where(k.less(0, x), x, k.multiply(k.expm1(k.minimum(x, 0)), alpha)),
        samples=_samples({}, {"alpha": 0.5}),
    ),
    _ELEMENTWISE(
        "gelu",
        refuses=_check_gelu,
        gradient=(lambda k, g, out, x, *, approximate: k.gelu_gradient(g, x, approximate=approximate),),
        compose=_gelu,
        samples=_samples({}, {"approximate": "tanh"}),
    ),
    _ELEMENTWISE(
        "times_normal",
        "``x1`` times the standard normal distribution function of ``x2``: the exact `gelu` of one operand.",
        cost=LONG,
        check=broadcast_shapes,
        gradient=(
            lambda k, g, out, x, y: k.times_normal(g, y),
            lambda k, g, out, x, y: k.multiply(k.multiply(g, x), _normal_density(k, y)),
        ),
        compose=_times_normal,
        samples=(Sample((2, 3), (3,)), Sample((2, 1), Array((3,), -6.0, 6.0))),
    ),
    nest(
        "gelu_gradient",
        "``x1`` times the derivative of `gelu` at ``x2``.",
        compose=_gelu_gradient,
        samples=tuple(Sample((2, 3), (2, 3), approximate=each) for each in ("none", "tanh")),
    ),
    _ELEMENTWISE(
        "silu",
        "``x * sigmoid(x)`` (Elfwing et al. 2018), also called swish.",
        gradient=(lambda k, g, out, x: k.silu_gradient(g, x),),
        compose=_silu,
    ),
    nest(
        "silu_gradient",
        "``x1`` times the derivative of `silu` at ``x2``.",
        compose=_silu_gradient,
        samples=(Sample((2, 3), (2, 3)),),
    ),
    _ELEMENTWISE("mish", "``x * tanh(softplus(x))`` (Misra 2020).", gradient=(_mish_rule,), compose=_mish),
    _ELEMENTWISE(
        "softplus",
        "``log(1 + exp(x))``, without overflow, and without loss of digits in the left tail.",
        gradient=(lambda k, g, out, x: k.multiply(g, k.sigmoid(x)),),
        compose=_softplus,
    ),
    _ELEMENTWISE(
        "log_sigmoid",
        "``log(sigmoid(x))``, which is ``-softplus(-x)``.",
        gradient=(lambda k, g, out, x: k.multiply(g, k.sigmoid(k.negative(x))),),
        compose=lambda k, x: k.negative(k.softplus(k.negative(x))),
    ),
    _ELEMENTWISE(
        "hardtanh",
        "``x`` between `min_val` and `max_val`, else the nearer of the two; there, and at both, the gradient is 0.",
        refuses=_check_hardtanh,
        gradient=(hardtanh_rule,),
        compose=lambda k, x, *, min_val=-1.0, max_val=1.0: k.minimum(k.maximum(x, min_val), max_val),
        samples=_samples({}, {"min_val": -0.5, "max_val": 1.5}),
    ),
)
