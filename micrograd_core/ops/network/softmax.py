"""Softmaxes, and their logarithms. float16 and bfloat16 are added up in float32 throughout."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import bool_
from micrograd_core.errors import ShapeError
from micrograd_core.ops.record import BOOLEAN, FLOATING, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import in_float32, is_scalar, nest, network, positions
from micrograd_core.ops.tangents import symmetric, total


@in_float32
def _softmax(k: Table, x: Handle, *, axis: int = -1) -> Handle:
    if 0 in x.shape:
        return k.copy(x)
    e = k.exp(k.subtract(x, k.max(x, axis=(axis,), keepdims=True)))
    return k.multiply(e, k.divide(1, k.sum(e, axis=(axis,), keepdims=True)))


@in_float32
def _softmax_gradient(k: Table, g: Handle, x: Handle, *, axis: int = -1) -> Handle:
    weighted = k.multiply(g, x)
    return k.subtract(weighted, k.multiply(x, k.sum(weighted, axis=(axis,), keepdims=True)))


@in_float32
def _log_softmax(k: Table, x: Handle, *, axis: int = -1) -> Handle:
    if 0 in x.shape:
        return k.copy(x)
    shifted = k.subtract(x, k.max(x, axis=(axis,), keepdims=True))
    return k.subtract(shifted, k.log(k.sum(k.exp(shifted), axis=(axis,), keepdims=True)))


def _attention_weights_parameters(scores: Any, mask: Any = None, /, *, is_causal: bool = False) -> dict[str, Any]:
    """``softmax(x1 + x2)`` over sources, the last axis of scores (..., targets, sources).

    A boolean mask ``x2`` is true where a target may look; with `is_causal` it looks at no later source. A target
    that the mask leaves nothing gets 0, with gradient 0.
    """
    shape, own = scores.shape, getattr(mask, "shape", ())
    if len(shape) < 2:
        raise ShapeError(f"attention_weights: scores have axes (..., targets, sources); got shape {shape}")
    fits = len(own) <= len(shape) and all(n in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False))
    if not fits:
        raise ShapeError(f"attention_weights: a mask of shape {own} does not broadcast to that of the scores, {shape}")
    return {"is_causal": bool(is_causal)}


def _check_weights_gradient(name: str, g: Any, x: Any, *, is_causal: bool) -> None:
    if len(x.shape) < 2 or tuple(g.shape) != tuple(x.shape):
        raise ShapeError(
            f"attention_weights_gradient: a cotangent and weights have the same axes (..., targets, sources); got "
            f"{tuple(g.shape)} and {tuple(x.shape)}"
        )


def _attention_weights(k: Table, scores: Handle, mask: Operand, *, is_causal: bool) -> Handle:
    """0 for a target that a mask hides everything from, rather than 0 / 0."""
    last = len(scores.shape) - 1
    if is_causal:  # a target sees the sources that are not later
        seen = k.less_equal(positions(k, scores, last), positions(k, scores, last - 1))
        scores = k.where(seen, scores, -math.inf)
    if is_scalar(mask):
        return k.softmax(scores, axis=last)
    if k.dtype(mask) is bool_:
        scores = k.where(mask, scores, -math.inf)
    else:
        scores = k.add(scores, k.astype(mask, dtype=scores.dtype))
    blind = k.equal(k.max(scores, axis=(last,), keepdims=True), -math.inf)
    return k.where(blind, 0, k.softmax(k.where(blind, 0, scores), axis=last))


def _attention_weights_tangent(
    op: Op, k: Table, tangents: Any, out: Handle, scores: Handle, mask: Operand, *, is_causal: bool
) -> Handle:
    """The Jacobian by the scores is its own transpose, and that by a mask the same."""
    moved = k.broadcast_to(total(k, tangents), shape=tuple(scores.shape))
    return k.attention_weights_gradient(moved, out, is_causal=is_causal)


@in_float32
def _log_softmax_gradient(k: Table, g: Handle, x: Handle, *, axis: int = -1) -> Handle:
    return k.subtract(g, k.multiply(k.exp(x), k.sum(g, axis=(axis,), keepdims=True)))


def _log_softmax_tangent(op: Op, k: Table, tangents: Any, out: Handle, x: Handle, *, axis: int) -> Handle:
    """``t - sum(p t)`` with the probabilities p."""
    (t,) = tangents
    return k.subtract(t, k.sum(k.multiply(k.exp(out), t), axis=(axis,), keepdims=True))


_SOFTMAX_SAMPLES = (Sample((0, 3), axis=0), Sample((2, 3)), Sample((2, 3, 2), axis=1), Sample((3,), axis=0))

OPS = (
    nest(
        "softmax",
        "``exp(x) / sum(exp(x))`` along `axis`, shifted by the maximum so that nothing overflows.",
        autocast="float32",
        tangent=symmetric,
        gradient=(lambda k, g, out, x, *, axis: k.softmax_gradient(g, out, axis=axis),),
        compose=_softmax,
        samples=_SOFTMAX_SAMPLES,
    ),
    nest(
        "softmax_gradient",
        "``x2 * (x1 - sum(x1 * x2))`` along `axis`: the vector-Jacobian product of `softmax` with its result ``x2``.",
        compose=_softmax_gradient,
        samples=(Sample((2, 3), (2, 3), axis=1), Sample((2, 3, 2), (2, 3, 2), axis=1)),
    ),
    Op(
        "attention_weights",
        optional=(0.0,),
        parameters=_attention_weights_parameters,
        accepts=(FLOATING, FLOATING | BOOLEAN),
        separate=(1,),
        tangent=_attention_weights_tangent,
        gradient=(  # what is hidden has weight 0, and with it gradient 0
            lambda k, g, out, scores, mask, **causal: k.attention_weights_gradient(g, out, **causal),
            lambda k, g, out, scores, mask, **causal: k.astype(
                k.attention_weights_gradient(g, out, **causal), dtype=mask.dtype
            ),
        ),
        compose=_attention_weights,
        samples=(
            Sample((2, 3, 4), 0.0),
            Sample((2, 4, 3), 0.0, is_causal=True),
            Sample((2, 2, 3), Array((2, 1, 3), dtype="bool")),
            Sample((3, 4), (3, 4), is_causal=True),
        ),
    ),
    network(
        "attention_weights_gradient",
        "``x2 * (x1 - sum(x1 * x2))`` over the last axis: the vector-Jacobian product of `attention_weights`. "
        "``x2`` is its result, which is 0 after the diagonal with `is_causal`.",
        refuses=_check_weights_gradient,
        compose=lambda k, g, x, *, is_causal=False: k.softmax_gradient(g, x, axis=len(x.shape) - 1),
        samples=(Sample((2, 3), (2, 3)),),
    ),
    nest(
        "log_softmax",
        "``log(softmax(x))`` along `axis`, without taking the logarithm of a vanishing number.",
        autocast="float32",
        tangent=_log_softmax_tangent,
        gradient=(lambda k, g, out, x, *, axis: k.log_softmax_gradient(g, out, axis=axis),),
        compose=_log_softmax,
        samples=_SOFTMAX_SAMPLES,
    ),
    nest(
        "log_softmax_gradient",
        "``x1 - exp(x2) * sum(x1)`` along `axis`: the vector-Jacobian product of `log_softmax` with its result ``x2``.",
        compose=_log_softmax_gradient,
        samples=(Sample((2, 3), (2, 3), axis=1), Sample((2, 3, 2), (2, 3, 2), axis=1)),
    ),
)
