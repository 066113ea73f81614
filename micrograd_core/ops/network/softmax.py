"""Softmaxes, and their logarithms. float16 and bfloat16 are added up in float32 throughout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from micrograd_core.layout import resolve_axis
from micrograd_core.ops.record import FLOATING, Array, Op, Sample
from micrograd_core.ops.shared import in_float32
from micrograd_core.ops.tangents import symmetric

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


def _axis(name: str) -> Any:
    def parameters(x: Any, /, axis: int = -1) -> dict[str, Any]:
        return {"axis": resolve_axis(name, axis, len(x.shape))}

    return parameters


@in_float32
def _softmax(k: Table, x: Any, *, axis: int) -> Any:
    if 0 in x.shape:
        return k.copy(x)
    e = k.exp(k.subtract(x, k.max(x, axis=(axis,), keepdims=True)))
    return k.multiply(e, k.divide(1, k.sum(e, axis=(axis,), keepdims=True)))


def _softmax_rule(k: Table, g: Any, out: Any, x: Any, *, axis: int) -> Any:
    return k.softmax_gradient(g, out, axis=axis)


@in_float32
def _softmax_gradient(k: Table, g: Any, p: Any, *, axis: int) -> Any:
    weighted = k.multiply(g, p)
    return k.subtract(weighted, k.multiply(p, k.sum(weighted, axis=(axis,), keepdims=True)))


@in_float32
def _log_softmax(k: Table, x: Any, *, axis: int) -> Any:
    if 0 in x.shape:
        return k.copy(x)
    shifted = k.subtract(x, k.max(x, axis=(axis,), keepdims=True))
    return k.subtract(shifted, k.log(k.sum(k.exp(shifted), axis=(axis,), keepdims=True)))


def _log_softmax_rule(k: Table, g: Any, out: Any, x: Any, *, axis: int) -> Any:
    return k.log_softmax_gradient(g, out, axis=axis)


@in_float32
def _log_softmax_gradient(k: Table, g: Any, out: Any, *, axis: int) -> Any:
    return k.subtract(g, k.multiply(k.exp(out), k.sum(g, axis=(axis,), keepdims=True)))


def _log_softmax_tangent(op: Op, k: Table, tangents: Any, out: Any, x: Any, *, axis: int) -> Any:
    """``t - sum(p t)`` with the probabilities p."""
    (t,) = tangents
    return k.subtract(t, k.sum(k.multiply(k.exp(out), t), axis=(axis,), keepdims=True))


def softmax_reference(np: Any, x: Any, axis: int = -1) -> Any:
    """The definition, of differences from the largest number, which infinities need."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-math.inf))
    return powers / np.sum(powers, axis=axis, keepdims=True)


_SOFTMAX_SAMPLES = (
    Sample(Array((0, 3)), axis=0),
    Sample(Array((2, 3))),
    Sample(Array((2, 3, 2)), axis=1),
    Sample(Array((3,)), axis=0),
)

OPS = (
    Op(
        "softmax",
        "``exp(x) / sum(exp(x))`` along `axis`, shifted by the maximum so that nothing overflows.",
        autocast="float32",
        parameters=_axis("softmax"),
        accepts=FLOATING,
        tangent=symmetric,
        gradient=(_softmax_rule,),
        compose=_softmax,
        samples=_SOFTMAX_SAMPLES,
        reference=softmax_reference,
    ),
    Op(
        "softmax_gradient",
        "``x2 * (x1 - sum(x1 * x2))`` along `axis`: the vector-Jacobian product of `softmax` with its result ``x2``.",
        operands=2,
        parameters=lambda g, x, /, *, axis=-1: {"axis": resolve_axis("softmax_gradient", axis, len(x.shape))},
        accepts=FLOATING,
        compose=_softmax_gradient,
        samples=(Sample(Array((2, 3)), Array((2, 3))), Sample(Array((2, 3, 2)), Array((2, 3, 2)), axis=1)),
        reference=lambda np, g, x, axis=-1: x * (g - np.sum(g * x, axis=axis, keepdims=True)),
    ),
    Op(
        "log_softmax",
        "``log(softmax(x))`` along `axis`, without taking the logarithm of a vanishing number.",
        autocast="float32",
        parameters=_axis("log_softmax"),
        accepts=FLOATING,
        tangent=_log_softmax_tangent,
        gradient=(_log_softmax_rule,),
        compose=_log_softmax,
        samples=_SOFTMAX_SAMPLES,
        reference=lambda np, x, axis=-1: np.log(softmax_reference(np, x, axis)),
    ),
    Op(
        "log_softmax_gradient",
        "``x1 - exp(x2) * sum(x1)`` along `axis`: the vector-Jacobian product of `log_softmax` with its result ``x2``.",
        operands=2,
        parameters=lambda g, x, /, *, axis=-1: {"axis": resolve_axis("log_softmax_gradient", axis, len(x.shape))},
        accepts=FLOATING,
        compose=_log_softmax_gradient,
        samples=(Sample(Array((2, 3)), Array((2, 3))), Sample(Array((2, 3, 2)), Array((2, 3, 2)), axis=1)),
        reference=lambda np, g, x, axis=-1: g - np.exp(x) * np.sum(g, axis=axis, keepdims=True),
    ),
)
