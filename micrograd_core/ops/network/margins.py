"""Losses of pairs, triplets and classes by margins, and of distributions, reduced by ``'mean'``, ``'sum'``, ``'none'``.

Targets that say which of two cases there is are 1 and -1, of any dtype.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.ops.network.losses import check_broadcast, loss
from micrograd_core.ops.record import FLOATING, INTEGER, REAL, Array, Handle, Operand, Sample, Table
from micrograd_core.ops.shared import chosen, in_dtype_of, times

# ── of pairs ─────────────────────────────────────────────────────────────────────────────────────────────────


def _check_smooth_l1(name: str, x: Any, y: Any, *, beta: float) -> None:
    if beta < 0:
        raise ValueError(f"{name}: beta must not be negative; got {beta:g}")
    check_broadcast(name, x, y)


def _smooth_l1(k: Table, x: Handle, y: Handle, *, beta: float = 1.0) -> Handle:
    """`huber_loss` over `beta`; for 0 it is `l1_loss`."""
    if not beta:
        return k.l1_loss(x, y, reduction="none")
    return k.multiply(k.huber_loss(x, y, delta=beta, reduction="none"), 1 / beta)


def _check_entropy(name: str, p: Any, target: Any, weight: Any) -> None:
    if tuple(p.shape) != tuple(target.shape):
        raise ShapeError(f"{name}: input {tuple(p.shape)} and target {tuple(target.shape)} must have one shape")
    check_broadcast(name, p, weight)


LEAST = -100.0  # of logarithms of probabilities, so that certain mistakes stay finite


def _bounded_log(k: Table, p: Handle) -> Handle:
    return k.maximum(k.log(k.maximum(p, math.exp(LEAST))), LEAST)


def _binary_cross_entropy(k: Table, p: Handle, target: Handle, weight: Operand) -> Handle:
    """``-y * log(p) - (1 - y) * log(1 - p)`` of probabilities, times `weight`.

    Logarithms are no less than -100, so that certain mistakes stay finite.
    """
    if_true, if_false = _bounded_log(k, p), _bounded_log(k, k.subtract(1, p))
    losses = k.add(k.multiply(target, if_true), k.multiply(k.subtract(1, target), if_false))
    return k.negative(times(k, losses, weight))


def _poisson(
    k: Table, x: Handle, target: Handle, *, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Handle:
    """``exp(x) - y * x`` of the logarithm of a rate, or without `log_input` ``x - y * log(x + eps)`` of the rate.

    `full` adds Stirling's approximation of the logarithm of the factorial of the count.
    """
    expected, log = (k.exp(x), x) if log_input else (x, k.log(k.add(x, eps)))
    losses = k.subtract(expected, k.multiply(target, log))
    if not full:
        return losses
    large = k.less(1, target)
    y = k.where(large, target, 1)
    stirling = k.add(k.multiply(k.subtract(y, -0.5), k.log(y)), k.subtract(0.5 * math.log(2 * math.pi), y))
    return k.add(losses, k.where(large, stirling, 0))


def _gaussian(k: Table, x: Handle, target: Handle, var: Handle, *, full: bool = False) -> Handle:
    """``(log(x3) + (x1 - x2)**2 / x3) / 2`` of a mean, a target and a variance; `full` adds the constant."""
    spread = k.divide(k.square(k.subtract(x, target)), var)
    losses = k.multiply(k.add(k.log(var), spread), 0.5)
    return k.add(losses, 0.5 * math.log(2 * math.pi)) if full else losses


# ── of signs and margins ─────────────────────────────────────────────────────────────────────────────────────


def _chosen(k: Table, target: Handle, alike: Handle, different: Handle) -> Handle:
    """The first of target 1, the second of target -1, and 0 of any other."""
    return k.where(k.equal(target, 1), alike, k.where(k.equal(target, -1), different, 0))


def _hinge(k: Table, x: Handle, target: Handle, *, margin: float = 1.0) -> Handle:
    """The distance ``x1`` itself of target 1; how far it is short of `margin` of target -1."""
    return _chosen(k, target, x, k.relu(k.subtract(margin, x)))


def _ranking(k: Table, x1: Handle, x2: Handle, target: Handle, *, margin: float = 0.0) -> Handle:
    """How far ``x1`` is short of being `margin` above ``x2`` (target 1), or below it (target -1)."""
    apart = k.subtract(x2, x1)
    return k.relu(k.add(k.multiply(in_dtype_of(k, target, apart), apart), margin))


def _cosine_embedding(k: Table, x1: Handle, x2: Handle, target: Handle, *, margin: float = 0.0) -> Handle:
    """One less the cosine of ``x1`` and ``x2`` of target 1; how far it is above `margin` of target -1."""

    def total(each: Handle) -> Handle:
        return k.sum(each, axis=(len(each.shape) - 1,), keepdims=False)

    tiny = 1e-12  # PyTorch adds it to squared lengths
    squares = k.multiply(*(k.add(total(k.square(each)), tiny) for each in (x1, x2)))
    cosine = k.divide(total(k.multiply(x1, x2)), k.sqrt(squares))
    return _chosen(k, target, k.subtract(1, cosine), k.relu(k.subtract(cosine, margin)))


def _triplet(
    k: Table, anchor: Handle, positive: Handle, negative: Handle, *, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False,
) -> Handle:  # fmt: skip
    """How far the negative ``x3`` is short of being `margin` further from the anchor ``x1`` than the positive.

    ``x2`` is the positive. Distances are by `pairwise_distance`; with `swap` the negative's from the positive counts
    where that is less.
    """
    pairs = [(anchor, positive), (anchor, negative), *([(positive, negative)] if swap else [])]
    near, far, *other = (k.pairwise_distance(x, y, p=p, eps=eps, keepdims=False) for x, y in pairs)
    far = k.minimum(far, other[0]) if swap else far
    return k.relu(k.add(k.subtract(near, far), margin))


# ── of classes ───────────────────────────────────────────────────────────────────────────────────────────────


def _check_classes(
    axes: int, name: str, x: Any, target: Any, weight: Any = None, p: int = 1, margin: float = 0.0
) -> None:
    chosen(name, "p", p, (1, 2))
    shapes = tuple(x.shape), tuple(target.shape)
    if len(shapes[0]) != 2 or shapes[1] != shapes[0][:axes]:
        raise ShapeError(f"{name}: input {shapes[0]} and target {shapes[1]} do not fit")


def _multi_margin(k: Table, x: Handle, target: Handle, weight: Any, *, p: int = 1, margin: float = 1.0) -> Handle:
    """How far each wrong class is short of being `margin` below the right one, to the power `p`.

    ``x2`` names the right one, by whose `weight` the sum is multiplied; it is divided by the number of classes.
    """
    (batch, classes), own = x.shape, k.expand_dims(target, axis=(1,))
    short = k.relu(k.add(k.subtract(margin, k.take_along_axis(x, own, axis=1)), x))
    short = k.square(short) if p == 2 else short
    if hasattr(weight, "shape"):
        short = k.multiply(short, k.reshape(k.take(weight, target, axis=0), shape=(batch, 1)))
    wrong = k.not_equal(k.arange(classes, dtype=int64), k.astype(own, dtype=int64))
    return k.multiply(k.sum(k.where(wrong, short, 0), axis=(1,), keepdims=False), 1 / classes)


def _multilabel_margin(k: Table, x: Handle, target: Handle) -> Handle:
    """How far each wrong class is short of being 1 below each right one, over the number of classes.

    The right ones stand first in a row of ``x2``, up to the first -1.
    """
    classes = x.shape[1]
    target = k.astype(target, dtype=int64)
    ended = k.cumulative_sum(k.astype(k.less(target, 0), dtype=int64), axis=1, include_initial=False)
    listed = k.equal(ended, 0)
    places = k.where(listed, target, 0)
    column = k.expand_dims(listed, axis=(2,))
    named = k.logical_and(k.equal(k.expand_dims(places, axis=(2,)), k.arange(classes, dtype=int64)), column)
    right = k.any(named, axis=(1,), keepdims=True)
    scores = k.expand_dims(k.take_along_axis(x, places, axis=1), axis=(2,))
    short = k.relu(k.subtract(1, k.subtract(scores, k.expand_dims(x, axis=(1,)))))
    counted = k.logical_and(column, k.logical_not(right))
    return k.multiply(k.sum(k.where(counted, short, 0), axis=(1, 2), keepdims=False), 1 / classes)


def _soft_label(k: Table, x: Handle, target: Handle, weight: Operand) -> Handle:
    """`binary_cross_entropy_with_logits` of each class, times `weight`, averaged over the last axis."""
    losses = k.binary_cross_entropy_with_logits(x, target, weight, 1.0, reduction="none")
    return k.mean(losses, axis=(len(losses.shape) - 1,), keepdims=False)


_X, _P = Array((2, 3)), Array((2, 3), 0.05, 0.95)
_ONES = Array((2, 3), 1, 2, "int64")
_SIGNS: dict[str, Any] = {"separate": (1,), "accepts": (FLOATING, REAL)}
_PAIRS: dict[str, Any] = {"separate": (2,), "accepts": (FLOATING, FLOATING, REAL)}

OPS = (
    loss(
        "smooth_l1_loss",
        _smooth_l1,
        check=_check_smooth_l1,
        samples=(Sample(_X, _X, beta=0.5), Sample(_X, _X, beta=0.0, reduction="sum")),
    ),
    loss(
        "binary_cross_entropy",
        _binary_cross_entropy,
        check=_check_entropy,
        optional=(1.0,),
        samples=(Sample(_P, _P, 1.0), Sample(_P, _P, Array((3,), 0.5), reduction="none")),
    ),
    loss(
        "poisson_nll_loss",
        _poisson,
        samples=(
            Sample(_X, Array((2, 3), 0.0, 4.0)),
            Sample(_P, Array((2, 3), 1.5, 4.0), log_input=False, full=True, reduction="sum"),
        ),
    ),
    loss(
        "gaussian_nll_loss",
        _gaussian,
        samples=(Sample(_X, _X, Array((2, 3), 0.5)), Sample(_X, _X, Array((2, 1), 0.5), full=True, reduction="none")),
    ),
    loss(
        "soft_margin_loss",
        lambda k, x, target: k.softplus(k.negative(k.multiply(in_dtype_of(k, target, x), x))),
        doc="``log(1 + exp(-x2 * x1))`` of targets ``x2``, 1 and -1.",
        **_SIGNS,
        samples=(Sample(_X, _ONES),),
    ),
    loss(
        "hinge_embedding_loss",
        _hinge,
        **_SIGNS,
        samples=(Sample(_X, _ONES), Sample(_X, Array((2, 3), -1, 0, "int64"), margin=0.3, reduction="none")),
    ),
    loss(
        "margin_ranking_loss", _ranking, **_PAIRS, samples=(Sample(_X, _X, Array((2, 3), -1, 2, "int64"), margin=0.3),)
    ),
    loss(
        "cosine_embedding_loss",
        _cosine_embedding,
        check=lambda name, x1, x2, target, **params: check_broadcast(name, x1, x2),
        **_PAIRS,
        samples=(
            Sample(_X, _X, Array((2,), 1, 2, "int64")),
            Sample(_X, _X, Array((2,), -1, 0, "int64"), margin=-0.9, reduction="none"),
        ),
    ),
    loss(
        "triplet_margin_loss",
        _triplet,
        samples=(Sample(_X, _X, _X, margin=2.0), Sample(_X, _X, _X, p=3.0, swap=True, margin=2.0, reduction="none")),
    ),
    loss(
        "multi_margin_loss",
        _multi_margin,
        check=partial(_check_classes, 1),
        optional=(1.0,),
        separate=(1,),
        accepts=(FLOATING, INTEGER, FLOATING),
        samples=(
            Sample(_X, Array((2,), 0, 3, "int64"), 1.0),
            Sample(_X, Array((2,), 0, 3, "int64"), Array((3,), 0.5), p=2, reduction="none"),
        ),
    ),
    loss(
        "multilabel_margin_loss",
        _multilabel_margin,
        check=partial(_check_classes, 2),
        separate=(1,),
        accepts=(FLOATING, INTEGER),
        samples=(Sample(_X, Array((2, 3), -1, 3, "int64")), Sample(_X, Array((2, 3), 0, 2, "int64"), reduction="none")),
    ),
    loss(
        "multilabel_soft_margin_loss",
        _soft_label,
        optional=(1.0,),
        samples=(Sample(_X, _P, 1.0), Sample(_X, _P, Array((3,), 0.5), reduction="none")),
    ),
)
