"""Lengths of vectors, and how far or how alike two of them are."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.functional.common import T
from micrograd_core.ops.shared import both_spellings

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.


def norm(x: Tensor, p: float, dim: Any, keepdim: bool = False) -> Tensor:
    """The p-norm along `dim`, whose gradient at the origin is 0."""
    return T["vector_norm"](x, axis=dim, keepdims=keepdim, ord=p)


@both_spellings
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along `dim`."""
    return T["cosine_similarity"](x1, x2, dim, eps=eps)


@both_spellings
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last axis."""
    return T["pairwise_distance"](x1, x2, p=p, eps=eps, keepdims=keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The distances of all pairs of rows, those of the first row first."""
    return T["pdist"](input, p=p)
