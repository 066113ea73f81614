"""Lengths of vectors, and how far or how alike two of them are."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.creation import arange
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.


def norm(x: Tensor, p: float, dim: Any, keepdim: bool = False) -> Tensor:
    """The p-norm along `dim`, whose gradient at the origin is 0."""
    return T["vector_norm"](x, axis=dim, keepdims=keepdim, ord=p)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along `dim`."""
    first, second = T["multiply"](x1, 1), T["multiply"](x2, 1)
    ndim = max(first.ndim, second.ndim)
    axis = dim - ndim if dim >= 0 else dim
    lengths = [T["clip"](norm(each, 2, axis, keepdim=True), eps) for each in (first, second)]
    return ((first / lengths[0]) * (second / lengths[1])).sum(axis=axis)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last axis."""
    return norm(asarray(x1) - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The distances of all pairs of rows, those of the first row first."""
    x = asarray(input)
    if x.ndim != 2:
        raise ShapeError(f"pdist: the input is a matrix, whose rows are compared; got shape {x.shape}")
    rows = range(x.shape[0])
    pairs = [(i, j) for i in rows for j in rows[i + 1 :]]
    if not pairs:
        return arange(0, dtype=x.dtype, device=x.device)
    first, second = (asarray([pair[at] for pair in pairs], dtype="int64", device=x.device) for at in (0, 1))
    return norm(T["take"](x, first, axis=0) - T["take"](x, second, axis=0), p, -1)
