"""What operations of `micrograd_core.ops.network.losses` are, in NumPy."""

from __future__ import annotations

from typing import Any

from micrograd_core.ops.network.losses import IGNORED, _class_axis
from tests.ops.definitions.softmax import softmax_reference


def _nll_reference(
    np: Any, log_p: Any, targets: Any, weight: Any, ignore_index: int = IGNORED, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Losses, and what a mean divides by, position by position."""
    axis = _class_axis(log_p.shape)
    classes = log_p.shape[axis]
    rows, weights = np.moveaxis(log_p, axis, -1), np.broadcast_to(np.asarray(weight, "d"), (classes,))
    indices = targets.ndim < log_p.ndim
    losses, totals = np.zeros(rows.shape[:-1]), np.ones(rows.shape[:-1])
    for position in np.ndindex(*rows.shape[:-1]):
        if indices and targets[position] == ignore_index:
            totals[position] = 0
            continue
        aim = np.eye(classes)[targets[position]] if indices else np.moveaxis(targets, axis, -1)[position]
        if indices:
            totals[position] = weights[targets[position]]
        aim = aim * (1 - label_smoothing) + label_smoothing / classes
        losses[position] = -np.sum(aim * weights * rows[position])
    return {"mean": np.sum(losses) / np.sum(totals), "sum": np.sum(losses), "none": losses}[reduction]


def _cross_entropy_reference(np: Any, logits: Any, targets: Any, weight: Any, **params: Any) -> Any:
    return _nll_reference(
        np, np.log(softmax_reference(np, logits, _class_axis(logits.shape))), targets, weight, **params
    )


def _gradient_reference(
    np: Any, g: Any, logits: Any, targets: Any, weight: Any, reduction: str = "mean", ignore_index: int = IGNORED
) -> Any:
    """Of plain class indices."""
    axis = _class_axis(logits.shape)
    aim = np.moveaxis(np.eye(logits.shape[axis])[targets], -1, axis)
    weight = np.reshape(weight, (-1, *(1,) * (logits.ndim - axis - 1)))
    own = np.sum(aim * weight, axis=axis, keepdims=True) * np.expand_dims(targets != ignore_index, axis)
    g = np.expand_dims(g, axis) if reduction == "none" else g / (np.sum(own) if reduction == "mean" else 1)
    return (softmax_reference(np, logits, axis) - aim) * own * g


DEFINITIONS = {
    "cross_entropy": _cross_entropy_reference,
    "cross_entropy_gradient": _gradient_reference,
    "nll_loss": _nll_reference,
}
