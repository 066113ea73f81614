"""Losses of numbers: how far predictions are from what was to be, pair by pair or between examples.

Each takes PyTorch's `reduction`, and the older `size_average` and `reduce` in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, chosen_reduction, reduced
from micrograd_core.nn.functional.distances import pairwise_distance


def _pairs(name: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Predictions and targets broadcast to one shape."""
    x, y = asarray(input), asarray(target)
    both = x + y * 0 if x.shape != y.shape else x
    return both, y if y.shape == both.shape else y + both * 0


def _weighted(name: str, op: str, input: Any, target: Any, weight: Any, word: str, **params: Any) -> Tensor:
    """A loss of the table, times weights."""
    x, y = asarray(input), asarray(target)
    if x.shape != y.shape:
        x, y = _pairs(name, x, y)
    if weight is None:
        return T[op](x, y, reduction=word, **params)
    w = asarray(weight)
    losses = T[op](x, y, reduction="none", **params) * w
    if word != "mean":
        return reduced(name, losses, word)
    total = losses.size if op == "huber_loss" else (w + losses.detach() * 0).sum()  # which PyTorch divides by
    return losses.sum() / total


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Squared differences."""
    word = chosen_reduction("mse_loss", reduction, size_average, reduce)
    return _weighted("mse_loss", "mse_loss", input, target, weight, word)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Absolute differences."""
    word = chosen_reduction("l1_loss", reduction, size_average, reduce)
    return _weighted("l1_loss", "l1_loss", input, target, weight, word)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared difference up to `delta`, then straight on (Huber 1964)."""
    word = chosen_reduction("huber_loss", reduction, None, None)
    return _weighted("huber_loss", "huber_loss", input, target, weight, word, delta=delta)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """`huber_loss` over `beta`; for 0 it is `l1_loss`."""
    word = chosen_reduction("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative; got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=word)
    return _weighted("smooth_l1_loss", "huber_loss", input, target, None, word, delta=beta) / beta


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """``target * (log(target) - input)`` of log-probabilities `input`: the Kullback-Leibler divergence."""
    word = chosen_reduction("kl_div", reduction, size_average, reduce)
    x, y = _pairs("kl_div", input, target)
    return T["kl_div"](x, y, log_target=log_target, reduction=word)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of probabilities; their logarithms are no less than -100, so that certain mistakes stay finite."""
    x, y = asarray(input), asarray(target)
    if x.shape != y.shape:
        raise ShapeError(f"binary_cross_entropy: input {x.shape} and target {y.shape} must have one shape")
    losses = -(y * _bounded_log(x) + (1 - y) * _bounded_log(1 - x))
    losses = losses if weight is None else losses * weight
    return reduced("binary_cross_entropy", losses, reduction, size_average, reduce)


def _bounded_log(p: Tensor) -> Tensor:
    least = math.exp(-100) if p.dtype.name not in ("float16",) else 0.0
    return T["clip"](T["log"](T["clip"](p, least)), -100.0)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of ``sigmoid(input)``; `pos_weight` counts targets of 1."""
    word = chosen_reduction("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    return T["binary_cross_entropy_with_logits"](input, target, weight, pos_weight, reduction=word)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-08, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of a rate, or its logarithm; `full` adds Stirling's approximation of the logarithm of the count's factorial."""
    x, y = asarray(input), asarray(target)
    losses = T["exp"](x) - y * x if log_input else x - y * T["log"](x + eps)
    if full:
        large = y > 1
        safe = T["where"](large, y, 1)
        stirling = safe * T["log"](safe) - safe + 0.5 * T["log"](2 * math.pi * safe)
        losses = losses + T["where"](large, stirling, 0)
    return reduced("poisson_nll_loss", losses, reduction, size_average, reduce)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-06,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of a mean and a variance, which is at least `eps`."""
    x = asarray(input)
    variance: Any = asarray(var, dtype=x.dtype, device=x.device) if isinstance(var, float) else asarray(var)
    if variance.ndim == x.ndim - 1 and variance.shape == x.shape[:-1]:
        variance = variance.expand_dims(-1)
    below = variance.detach() < eps
    variance = variance + T["where"](below, eps - variance.detach(), 0)
    losses = 0.5 * (T["log"](variance) + T["square"](x - target) / variance)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return reduced("gaussian_nll_loss", losses, reduction)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``log(1 + exp(-target * input))`` of targets 1 and -1."""
    return reduced("soft_margin_loss", T["softplus"](-(target * input)), reduction, size_average, reduce)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The distance itself of target 1; how far it is short of `margin` of target -1."""
    x, y = asarray(input), asarray(target)
    losses = T["where"](y == 1, x, 0) + T["where"](y == -1, T["relu"](margin - x), 0)
    losses = losses + T["where"]((y == 1) | (y == -1), 0, x * 0)
    return reduced("hinge_embedding_loss", losses, reduction, size_average, reduce)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the first is short of being `margin` above the second (target 1), or below it (target -1)."""
    losses = T["relu"](-asarray(target) * (asarray(input1) - input2) + margin)
    return reduced("margin_ranking_loss", losses, reduction, size_average, reduce)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """One less the cosine of target 1; how far it is above `margin` of target -1."""
    x, y, t = asarray(input1), asarray(input2), asarray(target)
    tiny = 1e-12  # PyTorch adds it to squared lengths
    squares = (T["square"](x).sum(axis=-1) + tiny) * (T["square"](y).sum(axis=-1) + tiny)
    cosine = (x * y).sum(axis=-1) / T["sqrt"](squares)
    losses = T["where"](t == 1, 1 - cosine, 0) + T["where"](t == -1, T["relu"](cosine - margin), 0)
    return reduced("cosine_embedding_loss", losses, reduction, size_average, reduce)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the negative is short of being `margin` further from the anchor than the positive."""

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    word = chosen_reduction("triplet_margin_loss", reduction, size_average, reduce)
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=word
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The same, with any distance; with `swap` the negative's from the positive counts where that is less."""
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = T["minimum"](far, distance(positive, negative))
    return reduced("triplet_margin_with_distance_loss", T["relu"](near - far + margin), reduction)
