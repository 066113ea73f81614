"""Lengths of vectors, and how far or how alike two of them are."""

from __future__ import annotations

from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.functional.common import T, publish
from micrograd_core.ops.shared import both_spellings

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.


@both_spellings
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along `dim`.

    Parameters
    ----------
    x1 : Tensor
        The first operand.
    x2 : Tensor
        The second operand; shapes broadcast.
    dim : int
        The axis that is summed over; also by the name ``axis``.
    eps : float
        The least length that is divided by.

    Returns
    -------
    Tensor
        Of the broadcast shape, without `dim`.

    Raises
    ------
    ShapeError
        When shapes do not broadcast.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> a, b = mg.asarray([[1.0, 0.0]]), mg.asarray([[1.0, 1.0]])
    >>> y = F.cosine_similarity(a, b)
    >>> y
    Tensor([0.7071])
    """
    return T["cosine_similarity"](x1, x2, dim, eps=eps)


@both_spellings
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last axis.

    Parameters
    ----------
    x1 : Tensor
        The first operand.
    x2 : Tensor
        The second operand; shapes broadcast.
    p : float
        The order of the norm.
    eps : float
        Added to the difference.
    keepdim : bool
        Whether the axis stays, with length 1; also by the name ``keepdims``.

    Returns
    -------
    Tensor
        Of the broadcast shape, without the last axis.

    Raises
    ------
    ShapeError
        When shapes do not broadcast.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> a, b = mg.asarray([[1.0, 0.0]]), mg.asarray([[1.0, 2.0]])
    >>> y = F.pairwise_distance(a, b)
    >>> y
    Tensor([2.])
    """
    return T["pairwise_distance"](x1, x2, p=p, eps=eps, keepdims=keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The distances of all pairs of rows, those of the first row first.

    Parameters
    ----------
    input : Tensor
        (rows, features).
    p : float
        The order of the norm.

    Returns
    -------
    Tensor
        (rows * (rows - 1) / 2,).

    Raises
    ------
    ShapeError
        When shapes do not broadcast.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])
    >>> y = F.pdist(x)
    >>> y
    Tensor([5., 4., 3.])
    """
    return T["pdist"](input, p=p)


publish(globals())
