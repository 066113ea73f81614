"""What operations of `micrograd_core.ops.network.losses` are, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def reduced(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A loss, by its terms."""

    def definition(np: Any, *operands: Any, reduction: str = "mean", **params: Any) -> Any:
        terms = reference(np, *operands, **params)
        if reduction == "none":
            return terms
        return np.sum(terms) / len(terms) if reduction == "batchmean" else getattr(np, reduction)(terms)

    return definition


def _kl_reference(np: Any, x: Any, y: Any, log_target: bool = False) -> Any:
    return np.exp(y) * (y - x) if log_target else y * (np.log(y) - x)


def _bce_reference(np: Any, x: Any, y: Any, weight: Any, pos_weight: Any) -> Any:
    p = 1 / (1 + np.exp(-x))
    return -weight * (pos_weight * y * np.log(p) + (1 - y) * np.log(1 - p))


DEFINITIONS = {
    "mse_loss": reduced(lambda np, x, y: (x - y) ** 2),
    "l1_loss": reduced(lambda np, x, y: np.abs(x - y)),
    "huber_loss": reduced(
        lambda np, x, y, delta=1.0: np.where(
            np.abs(x - y) <= delta, 0.5 * (x - y) ** 2, delta * (np.abs(x - y) - delta / 2)
        )
    ),
    "kl_div": reduced(_kl_reference),
    "binary_cross_entropy_with_logits": reduced(_bce_reference),
}
