"""Activations made of straight lines and exponentials, and those that take an axis in halves or turned round.

Where a line breaks, the gradient is that of the flatter side.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import broadcast_shapes, resolve_axis
from micrograd_core.ops.network.activations import hardtanh_rule
from micrograd_core.ops.record import Array, Handle, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, cut, in_float32, is_scalar, nest, network
from micrograd_core.ops.standard.transcendental import horner
from micrograd_core.ops.tangents import symmetric

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017


def _hardswish_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    inside = k.where(k.less(-3, x), k.multiply(g, k.add(k.multiply(x, 1 / 3), 0.5)), 0)
    return k.where(k.less(x, 3), inside, g)


def _exponential(k: Table, x: Handle, alpha: float) -> Handle:
    """``exp(x / alpha) - 1`` where `x` is negative, else 0."""
    return k.expm1(k.multiply(k.minimum(x, 0), 1 / alpha))


def _selu_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    steep = k.multiply(k.exp(k.minimum(x, 0)), SELU_ALPHA * SELU_SCALE)
    return k.multiply(g, k.where(k.less(0, x), SELU_SCALE, steep))


def _check_celu(name: str, x: Any, *, alpha: float) -> None:
    if not alpha:
        raise ValueError("celu: alpha divides x, and must not be 0")


def _prelu(k: Table, x: Operand, slope: Operand) -> Handle:
    x, slope = arrays(k, x, slope) if is_scalar(x) else (x, slope)
    return k.where(k.less(0, x), x, k.multiply(x, slope))


def _check_shrinkage(name: str, x: Any, *, lambd: float) -> None:
    if lambd < 0:
        raise ValueError(f"{name}: lambd is at least 0; got {lambd}")


def _shrunk_rule(k: Table, g: Handle, out: Handle, x: Handle, *, lambd: float) -> Handle:
    return k.where(k.less_equal(k.abs(x), lambd), 0, g)


def _threshold_parameters(x: Any, /, threshold: float, value: float) -> dict[str, Any]:
    """``x`` where it is above `threshold`, else `value`."""
    return {"threshold": float(threshold), "value": float(value)}


def _check_softplus(name: str, x: Any, *, beta: float, threshold: float) -> None:
    if not beta:
        raise ValueError("scaled_softplus: beta divides, and must not be 0")


def _softplus(k: Table, x: Handle, *, beta: float = 1.0, threshold: float = 20.0) -> Handle:
    """``softplus(beta x) / beta``; ``x`` itself where ``beta x`` is above `threshold`."""
    scaled = k.multiply(x, beta)
    soft = k.multiply(k.softplus(scaled), 1 / beta)
    return k.where(k.less(threshold, scaled), x, soft)


def _softplus_rule(k: Table, g: Handle, out: Handle, x: Handle, *, beta: float, threshold: float) -> Handle:
    scaled = k.multiply(x, beta)
    return k.where(k.less(threshold, scaled), g, k.multiply(g, k.sigmoid(scaled)))


def _continued_fraction(depth: int) -> tuple[list[float], list[float]]:
    """Numerator and denominator of ``1 / (3 + z / (5 + z / (7 + …)))``, by rising powers; none is negative."""
    above, below = [1], [2 * depth + 1]
    for odd in range(2 * depth - 1, 1, -2):  # 1 / (odd + z a / b) = b / (odd b + z a)
        shifted = [0, *above]
        longer = [odd * c for c in below] + [0] * (len(shifted) - len(below))
        above, below = below, [a + b for a, b in zip(longer, shifted, strict=True)]
    return [c / below[0] for c in above], [c / below[0] for c in below]


ABOVE, _BELOW = _continued_fraction(11)
BOTH = [a + b for a, b in zip([0.0, *ABOVE], [*_BELOW, 0.0], strict=True)]
"""With Lambert's fraction (DLMF 4.39.1), ``tanh(x) = x / (1 + z / (3 + …))`` and ``z = x**2``, the difference to `x` is
``x z ABOVE / BOTH``: without cancellation, and to 1.5 with the digits of float64."""


@in_float32
def _tanhshrink(k: Table, x: Handle) -> Handle:
    near = k.less(k.abs(x), 1.5)
    y = k.where(near, x, 0)
    z = k.square(y)
    around = k.multiply(k.multiply(y, z), k.divide(horner(k, z, ABOVE), horner(k, z, BOTH)))
    return k.where(near, around, k.subtract(x, k.tanh(x)))


# ── along an axis ────────────────────────────────────────────────────────────────────────────────────────────


def _check_glu(name: str, x: Any, *, axis: int) -> None:
    if x.shape[resolve_axis("glu", axis, len(x.shape))] % 2:
        raise ShapeError(f"glu: the length of axis {axis} must be even, to be halved; got shape {tuple(x.shape)}")


def _halves(k: Table, x: Handle, axis: int) -> tuple[Any, Any]:
    length = x.shape[axis]
    return cut(k, x, axis, 0, length // 2), cut(k, x, axis, length // 2, length)


def _glu(k: Table, x: Handle, *, axis: int = -1) -> Handle:
    """The first half along `axis` times the sigmoid of the second (Dauphin et al. 2016)."""
    first, second = _halves(k, x, axis)
    return k.multiply(first, k.sigmoid(second))


def _glu_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: int) -> Handle:
    first, second = _halves(k, x, axis)
    s = k.sigmoid(second)
    slope = k.multiply(k.multiply(first, s), k.subtract(1, s))
    return k.concat(k.multiply(g, s), k.multiply(g, slope), axis=axis)


_WIDE = (Sample(Array((2, 3), -7.0, 7.0)), Sample(()))
_ELEMENTWISE = partial(nest, kind="elementwise", tangent=symmetric, samples=_WIDE)

OPS = (
    _ELEMENTWISE(
        "relu6",
        "``x`` between 0 and 6, else the nearer of the two.",
        gradient=(partial(hardtanh_rule, min_val=0, max_val=6),),
        compose=lambda k, x: k.minimum(k.relu(x), 6),
    ),
    _ELEMENTWISE(
        "hardsigmoid",
        "``relu6(x + 3) / 6``: a sigmoid of straight lines.",
        gradient=(lambda k, g, out, x: hardtanh_rule(k, k.multiply(g, 1 / 6), out, x, min_val=-3, max_val=3),),
        compose=lambda k, x: k.multiply(k.minimum(k.maximum(k.add(x, 3), 0), 6), 1 / 6),
    ),
    _ELEMENTWISE(
        "hardswish",
        "``x * hardsigmoid(x)`` (Howard et al. 2019).",
        gradient=(_hardswish_rule,),
        compose=lambda k, x: k.multiply(x, k.hardsigmoid(x)),
    ),
    _ELEMENTWISE(
        "selu",
        "`elu` with the two numbers that keep mean 0 and variance 1 (Klambauer et al. 2017).",
        gradient=(_selu_rule,),
        compose=lambda k, x: k.multiply(k.elu(x, alpha=SELU_ALPHA), SELU_SCALE),
    ),
    _ELEMENTWISE(
        "celu",
        "``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)`` (Barron 2017).",
        refuses=_check_celu,
        gradient=(lambda k, g, out, x, *, alpha: k.multiply(g, k.exp(k.multiply(k.minimum(x, 0), 1 / alpha))),),
        compose=lambda k, x, *, alpha=1.0: k.where(k.less(0, x), x, k.multiply(_exponential(k, x, alpha), alpha)),
        samples=(Sample(()), Sample((2, 3), alpha=0.4)),
    ),
    _ELEMENTWISE(
        "softsign",
        "``x / (1 + |x|)``.",
        gradient=(lambda k, g, out, x: k.divide(g, k.square(k.add(k.abs(x), 1))),),
        compose=lambda k, x: k.divide(x, k.add(k.abs(x), 1)),
    ),
    _ELEMENTWISE(
        "tanhshrink",
        "``x - tanh(x)``.",
        gradient=(lambda k, g, out, x: k.multiply(g, k.square(k.tanh(x))),),
        compose=_tanhshrink,
    ),
    _ELEMENTWISE(
        "softshrink",
        "``x`` brought nearer to 0 by `lambd`, and 0 within that.",
        refuses=_check_shrinkage,
        gradient=(_shrunk_rule,),
        compose=lambda k, x, *, lambd=0.5: k.subtract(x, k.hardtanh(x, min_val=-lambd, max_val=lambd)),
        samples=(Sample((2, 3)), Sample((), lambd=0.1)),
    ),
    _ELEMENTWISE(
        "hardshrink",
        "``x`` where its size is above `lambd`, else 0.",
        refuses=_check_shrinkage,
        gradient=(_shrunk_rule,),
        compose=lambda k, x, *, lambd=0.5: k.where(k.less_equal(k.abs(x), lambd), 0, x),
        samples=(Sample((2, 3)), Sample((), lambd=0.1)),
    ),
    _ELEMENTWISE(
        "threshold",
        parameters=_threshold_parameters,
        gradient=(lambda k, g, out, x, *, threshold, value: k.where(k.less_equal(x, threshold), 0, g),),
        compose=lambda k, x, *, threshold, value: k.where(k.less_equal(x, threshold), value, x),
        samples=(Sample((2, 3), threshold=0.1, value=20.0),),
    ),
    _ELEMENTWISE(
        "prelu",
        "``x1`` where it is positive, else ``x1 * x2`` (He et al. 2015).",
        check=broadcast_shapes,
        gradient=(
            lambda k, g, out, x, slope: k.where(k.less(0, x), g, k.multiply(g, slope)),
            lambda k, g, out, x, slope: k.multiply(g, min(x.real, 0) if is_scalar(x) else k.minimum(x, 0)),
        ),
        compose=_prelu,
        samples=(Sample((2, 3), (2, 1)), Sample((3,), 0.25)),
    ),
    _ELEMENTWISE(
        "scaled_softplus",
        refuses=_check_softplus,
        gradient=(_softplus_rule,),
        compose=_softplus,
        samples=(Sample(Array((2, 3), -7.0, 7.0), beta=2.0, threshold=5.0), Sample(())),
    ),
    network(
        "softmin",
        "``softmax(-x)`` along `axis`.",
        autocast="float32",
        compose=lambda k, x, *, axis=-1: k.softmax(k.negative(x), axis=axis),
        samples=(Sample((2, 3)), Sample((2, 3), axis=0)),
    ),
    network(
        "glu", refuses=_check_glu, gradient=(_glu_rule,), compose=_glu, samples=(Sample((2, 4)), Sample((2, 3), axis=0))
    ),
)
