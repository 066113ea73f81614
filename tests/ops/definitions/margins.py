"""What operations of `micrograd_core.ops.network.margins` are, in NumPy."""

from __future__ import annotations

from typing import Any

from tests.ops.definitions.losses import reduced


def _smooth_reference(np: Any, x: Any, y: Any, beta: float = 1.0) -> Any:
    apart = np.abs(x - y)
    return np.where(apart < beta, apart**2 / (2 * (beta or 1)), apart - beta / 2)


def _poisson_reference(
    np: Any, x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Any:
    losses = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    y = np.where(target > 1, target, 1)
    stirling = y * np.log(y) - y + 0.5 * np.log(2 * np.pi * y)
    return losses + np.where(target > 1, stirling, 0) * full


def _gaussian_reference(np: Any, x: Any, target: Any, var: Any, full: bool = False) -> Any:
    return 0.5 * (np.log(var) + (x - target) ** 2 / var) + 0.5 * np.log(2 * np.pi) * full


def _cosine_reference(np: Any, x: Any, y: Any, target: Any, margin: float = 0.0) -> Any:
    cosine = (x * y).sum(-1) / np.sqrt(((x * x).sum(-1) + 1e-12) * ((y * y).sum(-1) + 1e-12))
    return np.where(target == 1, 1 - cosine, np.where(target == -1, np.maximum(cosine - margin, 0), 0))


def _triplet_reference(
    np: Any, anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False,
) -> Any:  # fmt: skip
    def apart(x: Any, y: Any) -> Any:
        return np.linalg.vector_norm(x - y + eps, axis=-1, ord=p)

    far = apart(anchor, negative)
    far = np.minimum(far, apart(positive, negative)) if swap else far
    return np.maximum(apart(anchor, positive) - far + margin, 0)


def _multi_reference(np: Any, x: Any, target: Any, weight: Any, p: int = 1, margin: float = 1.0) -> Any:
    weights = np.broadcast_to(weight, x.shape[1:])
    rows = [
        sum(weights[y] * max(margin - row[y] + row[i], 0) ** p for i in range(len(row)) if i != y) / len(row)
        for row, y in zip(x, target, strict=True)
    ]
    return np.array(rows)


def _multilabel_reference(np: Any, x: Any, target: Any) -> Any:
    found = []
    for row, labels in zip(x, target, strict=True):
        right = [int(y) for i, y in enumerate(labels) if min(labels[: i + 1]) >= 0]
        wrong = [i for i in range(len(row)) if i not in right]
        found.append(sum(max(1 - row[y] + row[i], 0) for y in right for i in wrong) / len(row))
    return np.array(found)


def _soft_label_reference(np: Any, x: Any, target: Any, weight: Any) -> Any:
    return ((np.logaddexp(0, -x) * target + np.logaddexp(0, x) * (1 - target)) * weight).mean(-1)


DEFINITIONS = {
    "smooth_l1_loss": reduced(_smooth_reference),
    "binary_cross_entropy": reduced(lambda np, p, y, weight: -(y * np.log(p) + (1 - y) * np.log(1 - p)) * weight),
    "poisson_nll_loss": reduced(_poisson_reference),
    "gaussian_nll_loss": reduced(_gaussian_reference),
    "soft_margin_loss": reduced(lambda np, x, target: np.logaddexp(0, -target * x)),
    "hinge_embedding_loss": reduced(
        lambda np, x, target, margin=1.0: np.where(target == 1, x, np.where(target == -1, np.maximum(margin - x, 0), 0))
    ),
    "margin_ranking_loss": reduced(lambda np, x, y, target, margin=0.0: np.maximum(-target * (x - y) + margin, 0)),
    "cosine_embedding_loss": reduced(_cosine_reference),
    "triplet_margin_loss": reduced(_triplet_reference),
    "multi_margin_loss": reduced(_multi_reference),
    "multilabel_margin_loss": reduced(_multilabel_reference),
    "multilabel_soft_margin_loss": reduced(_soft_label_reference),
}
