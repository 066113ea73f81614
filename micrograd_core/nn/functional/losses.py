"""Losses of numbers, and distances: how far predictions are from what was to be, pair by pair or between examples.

What PyTorch's functions take by position after the arguments that it no longer recommends is given by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.nn.functional.common import T, of_operations, publish, reduced
from micrograd_core.ops.arguments import advising


def _weighted(name: str, input: Any, target: Any, weight: Any, reduction: str, **params: Any) -> Tensor:
    """A loss of the table, of predictions and targets broadcast to one shape, times weights."""
    x, y = asarray(input), asarray(target)
    x = x + y * 0 if x.shape != y.shape else x
    y = y + x * 0 if y.shape != x.shape else y
    if weight is None:
        return T[name](x, y, reduction=reduction, **params)
    w = asarray(weight)
    losses = T[name](x, y, reduction="none", **params) * w
    if reduction != "mean":
        return reduced(name, losses, reduction)
    total = losses.size if name == "huber_loss" else (w + losses.detach() * 0).sum()  # which PyTorch divides by
    return losses.sum() / total


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Squared differences.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.
    weight : Tensor, optional
        Weights of the terms, broadcast to their shape.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([0.5, 2.0]), mg.asarray([1.0, 0.0])
    >>> y = F.mse_loss(x, target)
    >>> y
    Tensor(2.125)
    """
    return _weighted("mse_loss", input, target, weight, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Absolute differences.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.
    weight : Tensor, optional
        Weights of the terms, broadcast to their shape.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([0.5, 2.0]), mg.asarray([1.0, 0.0])
    >>> y = F.l1_loss(x, target)
    >>> y
    Tensor(1.25)
    """
    return _weighted("l1_loss", input, target, weight, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared difference up to `delta`, then straight on (Huber 1964).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.
    delta : float
        Where the parabola ends; positive.
    weight : Tensor, optional
        Weights of the terms, which a mean does not divide by.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([0.5, 2.0]), mg.asarray([1.0, 0.0])
    >>> y = F.huber_loss(x, target)
    >>> y
    Tensor(0.8125)
    """
    return _weighted("huber_loss", input, target, weight, reduction, delta=delta)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """`huber_loss` over `beta`; for 0 it is `l1_loss`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.
    beta : float
        Where the parabola ends; at least 0.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([0.5, 2.0]), mg.asarray([1.0, 0.0])
    >>> y = F.smooth_l1_loss(x, target)
    >>> y
    Tensor(0.8125)
    """
    return _weighted("smooth_l1_loss", input, target, None, reduction, beta=beta)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target * (log(target) - input)`` of log-probabilities `input`: the Kullback-Leibler divergence.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    reduction : str
        ``'mean'``, ``'sum'``, ``'batchmean'`` (the sum over the length of the first axis) or ``'none'``.
    log_target : bool
        Whether `target` holds logarithms.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.log(mg.asarray([[0.25, 0.75]]))
    >>> target = mg.asarray([[0.5, 0.5]])
    >>> y = F.kl_div(x, target, reduction="sum")
    >>> y
    Tensor(0.1438)
    """
    return _weighted("kl_div", input, target, None, reduction, log_target=log_target)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of ``sigmoid(input)``; `pos_weight` counts targets of 1.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    weight : Tensor, optional
        Weights of the terms, broadcast to their shape.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.
    pos_weight : Tensor, optional
        Weights of the targets that are 1.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([0.5, 2.0]), mg.asarray([1.0, 0.0])
    >>> y = F.binary_cross_entropy_with_logits(x, target)
    >>> y
    Tensor(1.301)
    """
    return T["binary_cross_entropy_with_logits"](input, target, weight, pos_weight, reduction=reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-06, reduction: str = "mean"
) -> Tensor:
    """Of a mean and a variance, which is at least `eps`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    target : Tensor
        The target, of the shape of `input` or one that broadcasts.
    var : Tensor or float
        Variances, of the shape of `input`, or without its last axis.
    full : bool
        Whether the constant term is added.
    eps : float
        The least variance.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([0.5, 2.0]), mg.asarray([1.0, 0.0])
    >>> variance = mg.asarray([1.0, 1.0])
    >>> y = F.gaussian_nll_loss(x, target, variance)
    >>> y
    Tensor(1.062)
    """
    x = asarray(input)
    variance: Any = asarray(var, dtype=x.dtype, device=x.device) if isinstance(var, float) else asarray(var)
    if variance.ndim == x.ndim - 1 and variance.shape == x.shape[:-1]:
        variance = variance.expand_dims(-1)
    below = variance.detach() < eps
    variance = variance + T["where"](below, eps - variance.detach(), 0)
    return T["gaussian_nll_loss"](x, target, variance, full=full, reduction=reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with any distance; with `swap` the negative's from the positive counts where it is less.

    Parameters
    ----------
    anchor : Tensor
        (..., features).
    positive : Tensor
        (..., features), to be near the anchor.
    negative : Tensor
        (..., features), to be far from the anchor.
    distance_function : function, optional
        Of two tensors; by default `pairwise_distance`.
    margin : float
        By how much the two cases must differ for no loss.
    swap : bool
        Whether the negative's distance from the positive counts where that is less.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ValueError
        When `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> anchor, positive = mg.asarray([[0.0, 0.0]]), mg.asarray([[0.0, 1.0]])
    >>> negative = mg.asarray([[1.5, 0.0]])
    >>> y = F.triplet_margin_with_distance_loss(anchor, positive, negative)
    >>> y
    Tensor(0.5)
    """
    distance = T["pairwise_distance"] if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = T["minimum"](far, distance(positive, negative))
    return reduced("triplet_margin_with_distance_loss", T["relu"](near - far + margin), reduction)


of_operations(globals(), "input target", "binary_cross_entropy soft_margin_loss hinge_embedding_loss")
of_operations(globals(), "input target", "poisson_nll_loss", ("eps", "reduction"))
of_operations(globals(), "input1 input2 target", "margin_ranking_loss cosine_embedding_loss")
of_operations(globals(), "anchor positive negative", "triplet_margin_loss")
globals().update({name: advising(globals()[name]) for name in publish(globals())})


of_operations(globals(), "x1 x2", "cosine_similarity pairwise_distance")
of_operations(globals(), "input", "pdist")
publish(globals())
