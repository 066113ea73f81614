"""Kernels of networks: softmaxes, normalisation and losses in few passes over memory, float16 added up in float32."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_core.errors import IndexingError

Shape = tuple[int, ...]

_sum: Any = np.add.reduce


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that computes 16-bit numbers in float32, and rounds once, at the end."""

    @functools.wraps(kernel)
    def widened(x: Any, *others: Any, **params: Any) -> Any:
        if x.dtype.itemsize > 2:
            return kernel(x, *others, **params)
        wide = (
            y.astype(np.float32) if isinstance(y, (np.ndarray, np.generic)) and y.dtype == x.dtype else y
            for y in others
        )
        return kernel(x.astype(np.float32), *wide, **params).astype(x.dtype)

    return widened


# ── softmax ──────────────────────────────────────────────────────────────────────────────────────────────────


@in_float32
def softmax(x: Any, *, axis: int) -> Any:
    """Exponentials and quotient in the memory of the difference."""
    if not x.size:
        return x.copy()
    e = np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=...)
    np.exp(e, out=e)
    return np.divide(e, _sum(e, axis=axis, keepdims=True), out=e)


@in_float32
def softmax_gradient(g: Any, p: Any, *, axis: int) -> Any:
    """``p (g - sum(g p))``, the product in the memory of the difference."""
    total = _sum(np.multiply(g, p), axis=axis, keepdims=True)
    difference = np.subtract(g, total, out=...)
    return np.multiply(difference, p, out=difference)


@in_float32
def log_softmax(x: Any, *, axis: int) -> Any:
    """The result in the memory of the difference."""
    if not x.size:
        return x.copy()
    shifted = np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=...)
    return np.subtract(shifted, np.log(_sum(np.exp(shifted), axis=axis, keepdims=True)), out=shifted)


# ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────


def _class_axis(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def _classes(op: str, targets: Any, count: int, ignore_index: int) -> tuple[Any, Any]:
    """Indices that all name a class, and where they count: an array of bools, or ``None`` for everywhere."""
    if not targets.size:
        return targets, None
    low, high = targets.min(), targets.max()
    if not 0 <= ignore_index < count and low >= 0 and high < count:
        return targets, None
    counts = targets != ignore_index
    targets = np.where(counts, targets, 0)
    if not 0 <= targets.min() <= targets.max() < count:
        raise IndexingError(
            f"{op}: targets must be class indices from 0 to {count - 1}, or ignore_index ({ignore_index}); "
            f"they range from {low} to {high}"
        )
    return targets, counts


def _at_targets(x: Any, targets: Any, axis: int) -> tuple[Any, ...]:
    """The key of each position's target class."""
    positions = (np.arange(targets.size),) if targets.ndim == 1 else np.ix_(*map(np.arange, targets.shape))
    return (*positions[:axis], targets, *positions[axis:])


def _along(weight: Any, axis: int, ndim: int) -> Any:
    """Class weights along the axis of the classes."""
    return np.reshape(weight, (-1,) + (1,) * (ndim - axis - 1)) if np.ndim(weight) else weight


def _own_weight(weight: Any, targets: Any, counts: Any) -> Any:
    """Of each position's class: 0 where it does not count, and 1 (rather than an array of it) where that is all."""
    own = weight[targets] if np.ndim(weight) else weight
    return own if counts is None else np.where(counts, own, 0).astype(getattr(weight, "dtype", "float32"))


def _total(own: Any, targets: Any, reduction: str) -> Any:
    """What a sum of losses is divided by."""
    if reduction != "mean":
        return 1
    total = _sum(own, axis=None, dtype=np.float64) if np.ndim(own) else own * targets.size
    return float(total) if total else math.nan


def _reduced(losses: Any, total: Any, reduction: str) -> Any:
    return losses if reduction == "none" else np.divide(_sum(losses, axis=None), total, dtype=losses.dtype)


def _expected(
    op: str, log_p: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """Looks up the targets' log-probabilities, rather than masking all others."""
    axis = _class_axis(log_p)
    count = log_p.shape[axis]
    if targets.dtype.kind not in "iu":
        shares = targets * (1 - label_smoothing) + label_smoothing / count
        terms = np.multiply(shares, _along(weight, axis, log_p.ndim), dtype=log_p.dtype)
        losses = np.negative(_sum(np.multiply(terms, np.where(terms == 0, 0, log_p)), axis=axis))
        return _reduced(losses, losses.size or math.nan, reduction)
    targets, counts = _classes(op, targets, count, ignore_index)
    own = _own_weight(weight, targets, counts)
    losses = np.negative(log_p[_at_targets(log_p, targets, axis)])
    if np.ndim(own) or own != 1:
        losses = np.multiply(losses, own, dtype=losses.dtype)
    if label_smoothing:
        even = _sum(log_p * _along(weight, axis, log_p.ndim), axis=axis) * (-label_smoothing / count)
        losses = losses * (1 - label_smoothing) + (even if counts is None else np.where(counts, even, 0))
    if counts is not None:
        losses = np.where(counts, losses, 0).astype(log_p.dtype)  # also where the loss would be infinite
    return _reduced(losses, _total(own, targets, reduction), reduction)


@in_float32
def cross_entropy(
    x: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """Of the log-softmax."""
    log_p = log_softmax(x, axis=_class_axis(x))
    return _expected("cross_entropy", log_p, targets, weight, ignore_index, label_smoothing, reduction)


@in_float32
def nll_loss(x: Any, targets: Any, weight: Any, *, ignore_index: int, reduction: str) -> Any:
    """Of log-probabilities."""
    return _expected("nll_loss", x, targets, weight, ignore_index, 0.0, reduction)


@in_float32
def cross_entropy_gradient(
    g: Any, x: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """The probabilities, less the shares of the targets: in the memory of the probabilities."""
    axis = _class_axis(x)
    count = x.shape[axis]
    p = softmax(x, axis=axis)
    by_class = _along(weight, axis, x.ndim)
    if targets.dtype.kind not in "iu":
        shares = np.multiply(targets * (1 - label_smoothing) + label_smoothing / count, by_class, dtype=p.dtype)
        p *= _sum(shares, axis=axis, keepdims=True)
        p -= shares
        share = np.divide(g, (x.size // count or math.nan) if reduction == "mean" else 1)
    else:
        targets, counts = _classes("cross_entropy", targets, count, ignore_index)
        own = _own_weight(weight, targets, counts)
        at = _at_targets(x, targets, axis)
        if not np.ndim(own) and own == 1 and not label_smoothing:
            p[at] -= 1
        else:
            even = label_smoothing / count
            shares = own * (1 - label_smoothing)
            whole = shares + (_sum(by_class * even * np.ones((count, *(1,) * (x.ndim - axis - 1)))))
            p *= np.expand_dims(np.broadcast_to(whole, targets.shape), axis)
            p[at] -= shares
            if label_smoothing:
                p -= by_class * even
        total = _total(own, targets, reduction)
        share = np.divide(g, total) if total == total else 0.0
        if counts is not None:
            p = np.where(np.expand_dims(counts, axis), p, 0).astype(p.dtype)
    if reduction == "none":
        share = np.expand_dims(share, axis)
    return np.multiply(p, share, out=p)


NETWORKS: Final[dict[str, Callable[..., Any]]] = {
    "cross_entropy": cross_entropy,
    "cross_entropy_gradient": cross_entropy_gradient,
    "log_softmax": log_softmax,
    "nll_loss": nll_loss,
    "softmax": softmax,
    "softmax_gradient": softmax_gradient,
}
