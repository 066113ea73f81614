"""Losses of numbers: how far predictions are from what was to be, pair by pair or between examples.

Each takes PyTorch's `reduction`, and the older `size_average` and `reduce` in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
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
    x, y = _pairs("smooth_l1_loss", input, target)
    return T["smooth_l1_loss"](x, y, beta=beta, reduction=word)


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
    word = chosen_reduction("binary_cross_entropy", reduction, size_average, reduce)
    return T["binary_cross_entropy"](input, target, weight, reduction=word)


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
    word = chosen_reduction("poisson_nll_loss", reduction, size_average, reduce)
    return T["poisson_nll_loss"](input, target, log_input=log_input, full=full, eps=eps, reduction=word)


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
    word = chosen_reduction("gaussian_nll_loss", reduction, None, None)
    return T["gaussian_nll_loss"](x, target, variance, full=full, reduction=word)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``log(1 + exp(-target * input))`` of targets 1 and -1."""
    word = chosen_reduction("soft_margin_loss", reduction, size_average, reduce)
    return T["soft_margin_loss"](input, target, reduction=word)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The distance itself of target 1; how far it is short of `margin` of target -1."""
    word = chosen_reduction("hinge_embedding_loss", reduction, size_average, reduce)
    return T["hinge_embedding_loss"](input, target, margin=margin, reduction=word)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the first is short of being `margin` above the second (target 1), or below it (target -1)."""
    word = chosen_reduction("margin_ranking_loss", reduction, size_average, reduce)
    return T["margin_ranking_loss"](input1, input2, target, margin=margin, reduction=word)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """One less the cosine of target 1; how far it is above `margin` of target -1."""
    word = chosen_reduction("cosine_embedding_loss", reduction, size_average, reduce)
    return T["cosine_embedding_loss"](input1, input2, target, margin=margin, reduction=word)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the negative is short of being `margin` further from the anchor than the positive."""
    word = chosen_reduction("triplet_margin_loss", reduction, size_average, reduce)
    given = {"margin": margin, "p": p, "eps": eps, "swap": swap, "reduction": word}
    return T["triplet_margin_loss"](anchor, positive, negative, **given)


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
