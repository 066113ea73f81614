"""Kernels of networks: softmaxes, normalisation and losses in few passes over memory, float16 added up in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_core.dtypes import float32, int32
from micrograd_core.errors import IndexingError
from micrograd_core.ops.standard.random import place_of
from micrograd_cpu.eager import compiled, declines


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Kernels that are called as their operations."""
    return {function.__name__: function for function in functions}


# ── dropout ──────────────────────────────────────────────────────────────────────────────────────────────────


def _dropout_composed(k: Any, x: Any, place: Any, *, p: float) -> Any:
    drawn = k.random_uniform_from(place, shape=x.shape, dtype=float32)
    return k.where(k.less(drawn, p), 0, k.multiply(x, 1 / (1 - p)))


_dropout = compiled(_dropout_composed, declines, always=True)


def dropout(x: Any, *, p: float, key: int, block: int) -> Any:
    """Scaled, and overwritten with zeros where the numbers drawn are below `p`."""
    return NotImplemented if p == 0 else _dropout(x, np.array(place_of(key, block), "uint64"), p=p)


# ── embedding ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_rows(op: str, indices: Any, count: int) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise IndexingError(
            f"{op}: indices must be from 0 to {count - 1}; they range from {indices.min()} to {indices.max()}"
        )


def embedding(indices: Any, weight: Any) -> Any:
    """Rows are copied."""
    _check_rows("embedding", indices, weight.shape[0])
    return np.take(weight, indices, axis=0)


def embedding_gradient(g: Any, indices: Any, *, num_embeddings: int) -> Any:
    """Rows are added up."""
    _check_rows("embedding_gradient", indices, num_embeddings)
    out = np.zeros((num_embeddings, g.shape[-1]), g.dtype)
    at = indices.reshape(-1, 1) * g.shape[-1] + np.arange(g.shape[-1])
    np.add.at(out.reshape(-1), at.ravel(), g.ravel())
    return out


# ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────


def _all_count(op: str, targets: Any, count: int, ignore_index: int) -> bool:
    """Whether all indices name a class, and none is `ignore_index`. One that does neither is refused."""
    if not targets.size:
        return True
    low, high = targets.min(), targets.max()
    if low >= 0 and high < count and not low <= ignore_index <= high:
        return True
    counts = targets != ignore_index
    known = targets[counts]
    if known.size and not 0 <= known.min() <= known.max() < count:
        raise IndexingError(
            f"{op}: targets must be class indices from 0 to {count - 1}, or ignore_index ({ignore_index}); "
            f"they range from {low} to {high}"
        )
    return bool(counts.all())


def _aimed_at(k: Any, x: Any, targets: Any, axis: int) -> Any:
    """Whether each class is the target of its position."""
    classes = k.reshape(k.arange(x.shape[axis], dtype=int32), shape=(x.shape[axis],) + (1,) * (len(x.shape) - axis - 1))
    return k.equal(k.expand_dims(k.astype(targets, dtype=int32), axis=(axis,)), classes)


def _losses_composed(k: Any, x: Any, targets: Any, *, axis: int, reduction: str) -> Any:
    top, axes = k.max(x, axis=(axis,), keepdims=True), (axis,)
    level = k.log(k.sum(k.exp(k.subtract(x, top)), axis=axes, keepdims=False))
    own = k.sum(k.where(_aimed_at(k, x, targets, axis), x, 0), axis=axes, keepdims=False)
    losses = k.subtract(level, k.subtract(own, k.squeeze(top, axis=axes)))
    if reduction == "none":
        return losses
    total = k.sum(losses, axis=None, keepdims=False)
    return k.divide(total, math.prod(targets.shape)) if reduction == "mean" else total


def _errors_composed(k: Any, x: Any, g: Any, targets: Any, *, axis: int, reduction: str) -> Any:
    share = k.divide(g, math.prod(targets.shape)) if reduction == "mean" else g
    share = k.expand_dims(share, axis=(axis,)) if reduction == "none" else share
    own = k.where(_aimed_at(k, x, targets, axis), share, 0)
    return k.subtract(k.multiply(k.softmax(x, axis=axis), share), own)


losses_of = compiled(_losses_composed, declines, always=True)
errors_of = compiled(_errors_composed, declines, always=True)


def _is_usual(op: str, x: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float) -> bool:
    """Whether all positions count the same, and aim at one class each, as nearly always.

    Raises
    ------
    IndexingError
        When an index names no class.
    """
    if targets.dtype.kind not in "iu" or not x.size:
        return False
    alike = _all_count(op, targets, x.shape[int(x.ndim > 1)], ignore_index)
    return alike and not label_smoothing and weight.__class__ is float and weight == 1


def cross_entropy(
    x: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """Without the log-softmax of classes that are nobody's target, where that is possible."""
    if not _is_usual("cross_entropy", x, targets, weight, ignore_index, label_smoothing):
        return NotImplemented
    return losses_of(x, targets, axis=int(x.ndim > 1), reduction=reduction)


def nll_loss(x: Any, targets: Any, weight: Any, *, ignore_index: int, reduction: str) -> Any:
    """One number of each position, where all count the same."""
    if not _is_usual("nll_loss", x, targets, weight, ignore_index, 0.0) or x.itemsize < 4:
        return NotImplemented
    axis = int(x.ndim > 1)
    losses = -np.take_along_axis(x, np.expand_dims(targets, axis), axis).squeeze(axis)
    return losses if reduction == "none" else getattr(losses, reduction)()


def cross_entropy_gradient(
    g: Any, x: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """The probabilities, less 1 at the targets."""
    if not _is_usual("cross_entropy", x, targets, weight, ignore_index, label_smoothing):
        return NotImplemented
    return errors_of(x, g, targets, axis=int(x.ndim > 1), reduction=reduction)


NETWORKS: Final = named(
    cross_entropy, cross_entropy_gradient, dropout, embedding, embedding_gradient, nll_loss,
)  # fmt: skip
