"""Rows of a table that integers name, one by one or in bags."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.creation import arange, zeros
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, check_padding, publish
from micrograd_core.ops.network.bags import MODES
from micrograd_core.ops.shared import chosen

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.


@no_grad()
def _shorten(indices: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that are named and longer than `max_norm` made that long, in place."""
    lengths = T["vector_norm"](weight.detach(), axis=-1, keepdims=True, ord=norm_type)
    used = T["index_add"](zeros(weight.shape[0], device=weight.device), indices.reshape(-1), 1.0, axis=0) > 0
    too_long = (lengths > max_norm) & used.reshape(-1, 1)
    weight.data = T["where"](too_long, weight.detach() * (max_norm / (lengths + 1e-7)), weight.detach())


def _rows(
    name: str, indices: Tensor, weight: Tensor, padding_idx: int | None, max_norm: float | None, norm_type: float,
    by_frequency: bool, sparse: bool,
) -> tuple[Tensor, int | None]:  # fmt: skip
    """The rows that are named, and the row of the padding, counted from the first."""
    padding = check_padding(name, padding_idx, weight.shape[0])
    if max_norm is not None:
        _shorten(indices, weight, max_norm, norm_type)
    if sparse:
        raise ValueError(f"{name}: gradients are dense; leave sparse=False")
    rows = T["embedding"](indices, weight)
    if by_frequency:
        count = T["index_add"](weight.new_zeros(weight.shape[0]), indices.reshape(-1), 1.0, axis=0)
        share = 1 / T["take"](count, indices, axis=0).expand_dims(-1)
        rows = rows * share + (rows * (1 - share)).detach()
    if padding is not None:
        rows = T["where"]((indices == padding).expand_dims(-1), rows.detach(), rows)
    return rows, padding


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` that integers select.

    Parameters
    ----------
    input : Tensor
        Integers of any shape.
    weight : Tensor
        The table, (rows, features).
    padding_idx : int, optional
        The row that receives no gradient.
    max_norm, norm_type : float, optional
        Selected rows that are longer than `max_norm`, by the norm of order `norm_type`, are shortened in place first.
    scale_grad_by_freq : bool
        Whether a row's gradient is divided by how often it is selected.
    sparse : bool
        Must be false: gradients are dense.

    Returns
    -------
    Tensor
        Of shape (..., features) and the dtype of the table.

    Raises
    ------
    IndexError, ShapeError, ValueError
        When an integer names no row, the table is not a matrix, or `sparse` is true.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> indices, table = mg.asarray([0, 2]), mg.eye(3)
    >>> y = F.embedding(indices, table)
    >>> y
    Tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    indices, table = asarray(input), asarray(weight)
    return _rows("embedding", indices, table, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)[0]


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows in each bag: a row of `input`, or a part of a 1-d one between two `offsets`.

    Parameters
    ----------
    input : Tensor
        Integers, 1-d or 2-d. It may also come second.
    weight : Tensor
        The table, (rows, features).
    offsets : Tensor, optional
        Where the bags of a 1-d input start, int64.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As for `embedding`.
    mode : str
        ``'sum'``, ``'mean'`` or ``'max'``.
    per_sample_weights : Tensor, optional
        Of the shape of `input`: factors of the rows, in a sum.
    include_last_offset : bool
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        The row that does not count.

    Returns
    -------
    Tensor
        Of shape (bags, features) and the dtype of the table.

    Raises
    ------
    IndexError, ShapeError, ValueError
        When an integer names no row, offsets do not fit the input, or `mode` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> indices, table = mg.asarray([[0, 2]]), mg.eye(3)
    >>> y = F.embedding_bag(indices, table)
    >>> y
    Tensor([[0.5,  0., 0.5]])
    """
    indices, table = asarray(input), asarray(weight)
    if indices.dtype.is_floating:
        indices, table = table, indices
    chosen("embedding_bag", "mode", mode, MODES)
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != indices.shape):
        raise ValueError("embedding_bag: per_sample_weights are for mode='sum', and have the shape of the input")
    if indices.ndim == 2 and offsets is None:
        bags, length = indices.shape
        starts: Any = arange(bags, device=indices.device) * length
    elif indices.ndim == 1 and offsets is not None:
        starts = asarray(offsets).astype("int64")
        starts = starts[:-1] if include_last_offset else starts
    else:
        raise ShapeError(
            f"embedding_bag: the input is 2-d, or 1-d with offsets; got shape {indices.shape} and offsets {offsets}"
        )
    flat = indices.reshape(-1)
    shortened = max_norm, norm_type
    rows, padding = _rows("embedding_bag", flat, table, padding_idx, *shortened, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    return T["bags"](rows, starts, None if padding is None else flat != padding, mode=mode)


publish(globals())
