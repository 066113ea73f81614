"""Losses that know classes: one for each example, several, or a sequence of them."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.creation import arange, full
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, of_operations, publish
from micrograd_core.nn.functional.convolution import linear
from micrograd_core.ops.arguments import advising
from micrograd_core.ops.shared import check_reduction
from micrograd_core.support.context import levels, programs

NEVER = -1e30  # the logarithm of an impossible sequence: finite, so that differences of two are no NaN


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy` of `linear`; `options`, which in PyTorch say how to save memory, change nothing.

    Parameters
    ----------
    input : Tensor
        (batch, features).
    linear_weight : Tensor
        (classes, features).
    target : Tensor
        Integer classes (batch,).
    linear_bias : Tensor, optional
        (classes,).
    weight : Tensor, optional
        (classes,).
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.
    ignore_index : int
        Targets that do not count.
    label_smoothing : float
        How much of equal probabilities is mixed into the targets, from 0 to 1.
    options : any
        Ignored; in PyTorch they say how to save memory.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ShapeError, ValueError
        When shapes do not fit, or `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, weight = mg.ones((2, 4)), mg.zeros((3, 4))
    >>> target = mg.asarray([0, 2])
    >>> y = F.linear_cross_entropy(x, weight, target)
    >>> y
    Tensor(1.099)
    """
    logits = linear(input, linear_weight, linear_bias)
    ignored = -100 if ignore_index is None else ignore_index
    return T["cross_entropy"](
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _of_classes(
    name: str, targets: int, input: Any, target: Any, *weight: Any, reduction: str, **params: Any
) -> Tensor:
    """A loss of the table, of scores (batch, classes), or of one example where the batch had been left out."""
    x, y = asarray(input), asarray(target)
    absent = x.ndim == 1
    x, y = (x.expand_dims(0), y.expand_dims(0) if y.ndim < targets else y) if absent else (x, y)
    if x.ndim != 2 or y.ndim != targets or y.shape[0] != x.shape[0] or (targets == 2 and y.shape != x.shape):
        raise ShapeError(f"{name}: input {asarray(input).shape} and target {asarray(target).shape} do not fit")
    losses = T[name](x, y, *weight, reduction=reduction, **params)
    return losses[0] if absent and reduction == "none" else losses


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, *,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of each wrong class, to the power `p`, how far it is short of being `margin` below the right one.

    Parameters
    ----------
    input : Tensor
        Scores (batch, classes) or (classes,).
    target : Tensor
        Integer classes (batch,) or ().
    p : int
        1 or 2.
    margin : float
        By how much the two cases must differ for no loss.
    weight : Tensor, optional
        (classes,).
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ShapeError, ValueError
        When shapes do not fit, or `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([[2.0, 0.0, -1.0]]), mg.asarray([0])
    >>> y = F.multi_margin_loss(x, target)
    >>> y
    Tensor(0.)
    """
    return _of_classes("multi_margin_loss", 1, input, target, weight, p=p, margin=margin, reduction=reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Each wrong class against each right one. The right ones stand first in a row of `target`, up to the first -1.

    Parameters
    ----------
    input : Tensor
        Scores (batch, classes) or (classes,).
    target : Tensor
        Integer classes, of the shape of `input`.
    reduction : str
        ``'mean'``, ``'sum'``, or ``'none'`` for all the terms.

    Returns
    -------
    Tensor
        Of shape (), or with ``reduction='none'`` one number for each term.

    Raises
    ------
    ShapeError, ValueError
        When shapes do not fit, or `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, target = mg.asarray([[2.0, 0.0, -1.0]]), mg.asarray([[1, -1, -1]])
    >>> y = F.multilabel_margin_loss(x, target)
    >>> y
    Tensor(1.)
    """
    return _of_classes("multilabel_margin_loss", 2, input, target, reduction=reduction)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of label sequences, over all ways to lay them out (Graves et al. 2006).

    Parameters
    ----------
    log_probs : Tensor
        (length, batch, classes), or without the batch.
    targets : Tensor
        Labels (batch, longest), or all of them one after the other, 1-d.
    input_lengths, target_lengths : Tensor or sequence of int
        How much of each example counts. Inside `jit` and `vmap`, where their numbers are not known, it is not checked
        whether they fit, and the longest target is taken to be as long as `targets`.
    blank : int
        The class that stands for no label.
    reduction : str
        ``'mean'`` divides each loss by its target's length first.
    zero_infinity : bool
        Whether an impossible target has loss 0, rather than infinity.

    Returns
    -------
    Tensor
        A 0-d tensor, or (batch,) for ``reduction='none'``.

    Raises
    ------
    ShapeError, IndexError, ValueError
        When lengths do not fit, a label or `blank` is no class, or `reduction` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.log(mg.full((4, 1, 3), 1 / 3))
    >>> labels = mg.asarray([[1, 2]])
    >>> lengths, counts = mg.asarray([4]), mg.asarray([2])
    >>> y = F.ctc_loss(x, labels, lengths, counts)
    >>> y
    Tensor(0.8432)
    """
    check_reduction("ctc_loss", reduction)
    x = asarray(log_probs)
    absent = x.ndim == 2
    x = x.expand_dims(1) if absent else x
    if x.ndim != 3:
        raise ShapeError(f"ctc_loss: log_probs are (length, batch, classes); got shape {asarray(log_probs).shape}")
    steps, batch = x.shape[:2]
    given = (targets, input_lengths, target_lengths)
    labels, inputs, wanted = (asarray(each).to(device=x.device).astype("int64") for each in given)
    inputs, wanted = inputs.reshape(-1), wanted.reshape(-1)
    if (labels.ndim == 2 and labels.shape[0] != batch) or not inputs.shape == wanted.shape == (batch,):
        raise ShapeError(
            f"ctc_loss: {inputs.size} and {wanted.size} lengths and targets of shape {labels.shape} do not fit "
            f"log_probs of shape {x.shape}"
        )
    longest = labels.shape[-1]
    if programs.get() is None and not levels.get():
        lengths, most = [inputs.tolist(), wanted.tolist()], longest
        longest = max(lengths[1], default=0)
        if max(lengths[0], default=0) > steps or (sum(lengths[1]) if labels.ndim == 1 else longest) > most:
            raise ShapeError(
                f"ctc_loss: lengths {lengths[0]} and {lengths[1]} do not fit log_probs of shape {x.shape} and targets "
                f"of shape {labels.shape}"
            )
    if labels.ndim == 1:
        starts = T["cumulative_sum"](wanted, axis=0) - wanted
        places = starts.expand_dims(1) + arange(longest, device=x.device)
        labels = T["take"](labels, T["clip"](places, 0, max(labels.shape[0] - 1, 0)).reshape(-1), axis=0)
        labels = labels.reshape(batch, longest)
    counted = arange(longest, device=x.device) < wanted.expand_dims(1)
    labels = T["where"](counted, labels[:, :longest], blank)
    blanks = full((batch, longest), blank, dtype="int64", device=x.device)
    laid = T["stack"]([blanks, labels], axis=2).reshape(batch, 2 * longest)
    laid = T["concat"]([laid, full((batch, 1), blank, dtype="int64", device=x.device)], axis=1)
    width = 2 * longest + 1
    position, ends_at = arange(width, device=x.device), 2 * wanted.expand_dims(1)
    # a label may follow the label before it without a blank between, unless the two are the same
    before = T["concat"]([full((batch, 2), blank, dtype="int64", device=x.device), laid], axis=1)[:, :width]
    skip = (laid != blank) & (laid != before) & (position > 1)
    places = laid.expand_dims(0)
    p = T["take_along_axis"](x, places, axis=2)
    never = full((batch, 2), NEVER, dtype=x.dtype, device=x.device)
    first = (position < 2) & (position <= ends_at)
    state = T["where"](first, p[0], NEVER)
    states = [state]
    for step in range(1, steps):
        before = T["concat"]([never, state], axis=1)
        ways = [state, before[:, 1:-1], T["where"](skip, before[:, :width], NEVER)]
        state = T["logsumexp"](T["stack"](ways), axis=0) + p[step]
        states.append(state)
    ends = T["stack"](states)[T["clip"](inputs - 1, 0, steps - 1), arange(batch, device=x.device)]
    last = (position == ends_at) | (position == ends_at - 1)
    losses = -T["logsumexp"](T["where"](last, ends, NEVER), axis=1)
    impossible = losses > -NEVER / 2
    losses = T["where"](impossible, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        return (losses / T["maximum"](wanted, 1).astype(x.dtype)).mean()
    return losses.sum() if reduction == "sum" else losses[0] if absent else losses


of_operations(globals(), "input target", "multilabel_soft_margin_loss")
of_operations(globals(), "input target", "cross_entropy nll_loss", ("ignore_index", "reduction", "label_smoothing"))
globals().update({name: advising(globals()[name]) for name in publish(globals())})
