"""Normalisation by groups, instances and neighbours, lengths of vectors, and how far or how alike two of them are."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import broadcast_shapes, resolve_axis
from micrograd_core.ops.batching import along_axis
from micrograd_core.ops.network.losses import check_broadcast
from micrograd_core.ops.network.normalization import by_channels, check_channels
from micrograd_core.ops.record import Array, Handle, Operand, Sample, Table
from micrograd_core.ops.shared import cut, in_float32, network, plus
from micrograd_core.ops.tangents import total

# ── by groups, instances, neighbours ─────────────────────────────────────────────────────────────────────────


def _group_parameters(
    x: Any, weight: Any = None, bias: Any = None, /, *, num_groups: int, eps: float = 1e-5
) -> dict[str, Any]:
    """Each of `num_groups` groups of channels (axis 1) of each example by its own mean and variance (Wu & He 2018).

    Times ``weight``, plus ``bias``, of one number for each channel.
    """
    shape = tuple(x.shape)
    if len(shape) < 2 or num_groups < 1 or shape[1] % num_groups:
        raise ShapeError(f"group_norm: {num_groups} groups do not divide the channels (axis 1) of shape {shape}")
    check_channels("group_norm", x, weight=weight, bias=bias)
    return {"groups": int(num_groups), "eps": float(eps)}


def _instance_parameters(x: Any, weight: Any = None, bias: Any = None, /, *, eps: float = 1e-5) -> dict[str, Any]:
    """Each channel (axis 1) of each example by its own mean and variance (Ulyanov et al. 2016).

    Times ``weight``, plus ``bias``.
    """
    shape = tuple(x.shape)
    if math.prod(shape[2:]) < 2:
        raise ShapeError(f"instance_norm: an instance needs more than one number, to have a variance; got {shape}")
    check_channels("instance_norm", x, weight=weight, bias=bias)
    return {"eps": float(eps)}


@in_float32
def _group_norm(k: Table, x: Handle, weight: Operand, bias: Operand, *, groups: int, eps: float) -> Handle:
    apart = k.reshape(x, shape=(x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    return by_channels(k, k.reshape(k.standardize(apart, axis=(2,), eps=eps), shape=x.shape), weight, bias)


@in_float32
def _instance_norm(k: Table, x: Handle, weight: Any, bias: Any, *, eps: float) -> Handle:
    return by_channels(k, k.standardize(x, axis=tuple(range(2, len(x.shape))), eps=eps), weight, bias)


def _response_parameters(
    x: Any, /, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> dict[str, Any]:
    """``x / (k + alpha * mean of squares of size channels around) ** beta`` (Krizhevsky et al. 2012)."""
    if len(x.shape) < 3:
        raise ShapeError(f"local_response_norm: the input is (batch, channels, *spatial); got shape {tuple(x.shape)}")
    return {"size": int(size), "alpha": float(alpha), "beta": float(beta), "constant": float(k)}


@in_float32
def _response_norm(k: Table, x: Handle, *, size: int, alpha: float, beta: float, constant: float) -> Handle:
    around = ((0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (len(x.shape) - 2))
    squares = k.pad(k.square(x), pad_width=around, mode="constant", constant_values=0)
    around_each = total(k, (cut(k, squares, 1, offset, offset + x.shape[1]) for offset in range(size)))
    return k.divide(x, k.pow(k.add(k.multiply(around_each, alpha / size), constant), beta))


# ── lengths and distances ────────────────────────────────────────────────────────────────────────────────────


def _length(k: Table, x: Handle, p: float, axis: int, keepdims: bool) -> Handle:
    """The p-norm, whose gradient at the origin is 0."""
    return k.vector_norm(x, axis=(axis,), keepdims=keepdims, ord=p)


@in_float32
def _normalize(k: Table, x: Handle, *, axis: int = 1, p: float = 2.0, eps: float = 1e-12) -> Handle:
    """Over the p-norms along `axis`, or `eps` where they are less."""
    return k.divide(x, k.clip(_length(k, x, p, axis, True), eps, math.inf))


def _similarity_parameters(x1: Any, x2: Any, /, axis: int = 1, *, eps: float = 1e-8) -> dict[str, Any]:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along `axis`."""
    shape = broadcast_shapes("cosine_similarity", *(tuple(each.shape) for each in (x1, x2)))
    return {"axis": resolve_axis("cosine_similarity", axis, len(shape)) - len(shape), "eps": float(eps)}


@in_float32
def _cosine_similarity(k: Table, x: Handle, y: Handle, *, axis: int, eps: float) -> Handle:
    shape, parts = broadcast_shapes("cosine_similarity", x.shape, y.shape), []
    for each in (x, y):
        at = len(each.shape) + axis
        if at < 0 or each.shape[at] != shape[axis]:  # it has the length that it is stretched to
            each, at = k.broadcast_to(each, shape=shape), len(shape) + axis
        parts.append(k.divide(each, k.clip(_length(k, each, 2.0, at, True), eps, math.inf)))
    made = k.multiply(*parts)
    return k.sum(made, axis=(len(made.shape) + axis,), keepdims=False)


@in_float32
def _pairwise_distance(
    k: Table, x1: Handle, x2: Handle, *, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Handle:
    """The p-norm of ``x1 - x2 + eps`` along the last axis."""
    apart = k.add(k.subtract(x1, x2), eps)
    return _length(k, apart, p, len(apart.shape) - 1, keepdims)


def _check_pdist(name: str, x: Any, *, p: float) -> None:
    if len(x.shape) != 2:
        raise ShapeError(f"pdist: the input is a matrix, whose rows are compared; got shape {tuple(x.shape)}")


@in_float32
def _pdist(k: Table, x: Handle, *, p: float = 2.0) -> Handle:
    """The distances of all pairs of rows, by the p-norm, those of the first row first."""
    rows = range(x.shape[0])
    pairs = [(i, j) for i in rows for j in rows[i + 1 :]]
    places = (tuple(pair[at] for pair in pairs) for at in (0, 1))
    first, second = (k.take(x, k.integers(values=each, dtype=int64), axis=0) for each in places)
    return _length(k, k.subtract(first, second), p, 1, False)


def _check_cdist(name: str, x1: Any, x2: Any, *, p: float) -> None:
    shapes = [tuple(each.shape) for each in (x1, x2)]
    if min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-1]:
        raise ShapeError(
            f"cdist: rows of (..., rows, features) are compared, of as many features; got {shapes[0]} and {shapes[1]}"
        )


@in_float32
def _cdist(k: Table, x1: Handle, x2: Handle, *, p: float = 2.0) -> Handle:
    """The distances of all rows of ``x1`` from all of ``x2``, by the p-norm.

    Shapes are (..., n, features) and (..., m, features) to (..., n, m).
    """
    n, m = len(x1.shape), len(x2.shape)
    apart = k.subtract(k.expand_dims(x1, axis=(n - 1,)), k.expand_dims(x2, axis=(m - 2,)))
    return _length(k, apart, p, len(apart.shape) - 1, False)


def _bilinear_parameters(x1: Any, x2: Any, weight: Any, bias: Any = None, /) -> dict[str, Any]:
    """``x1 @ weight[o] @ x2 + bias[o]`` for each output feature `o`: the third operand and the fourth."""
    shapes = tuple(x1.shape), tuple(x2.shape), tuple(weight.shape)
    if len(shapes[2]) != 3 or shapes[0][-1:] != shapes[2][1:2] or shapes[1][-1:] != shapes[2][2:]:
        raise ShapeError(
            f"bilinear: inputs {shapes[0]} and {shapes[1]} and weight {shapes[2]} do not fit (..., features), (..., "
            "other features) and (outputs, features, other features)"
        )
    return {}


def _bilinear(k: Table, x: Handle, y: Handle, weight: Handle, bias: Operand) -> Handle:
    outputs, features, others = weight.shape
    rows = k.reshape(k.permute_dims(weight, axes=(1, 0, 2)), shape=(features, outputs * others))
    first = k.matmul(x, rows)
    first = k.reshape(first, shape=(*first.shape[:-1], outputs, others))
    out = k.matmul(first, k.expand_dims(y, axis=(len(y.shape),)))
    out = k.reshape(out, shape=out.shape[:-1])
    return plus(k, out, bias)


_IMAGE, _ROWS = Array((2, 4, 3)), Array((2, 3))

_WIDE = partial(network, autocast="float32")

OPS = (
    _WIDE(
        "group_norm",
        optional=(1.0, 0.0),
        parameters=_group_parameters,
        compose=_group_norm,
        samples=(Sample(_IMAGE, (4,), (4,), num_groups=2), Sample((2, 4), 1.0, 0.0, num_groups=2, eps=0.1)),
    ),
    _WIDE(
        "instance_norm",
        optional=(1.0, 0.0),
        parameters=_instance_parameters,
        compose=_instance_norm,
        samples=(Sample((1, 2, 4), (2,), 0.5), Sample((1, 2, 2, 2), 1.0, 0.0, eps=0.1)),
    ),
    _WIDE(
        "local_response_norm",
        parameters=_response_parameters,
        compose=_response_norm,
        samples=(Sample((1, 3, 2), size=2), Sample((1, 4, 1), size=3, alpha=0.5, beta=0.5, k=2.0)),
    ),
    _WIDE(
        "normalize", batching=along_axis, compose=_normalize, samples=(Sample((2, 3)), Sample((2, 3), axis=0, p=3.0))
    ),
    _WIDE(
        "cosine_similarity",
        parameters=_similarity_parameters,
        compose=_cosine_similarity,
        samples=(
            Sample(_ROWS, _ROWS),
            Sample((2, 2, 2), (2, 2), axis=-2),
            Sample((2, 2, 2), (1, 2), axis=0),
            Sample((2, 3), (2, 1), axis=-1),
        ),
    ),
    _WIDE(
        "pairwise_distance",
        refuses=check_broadcast,
        compose=_pairwise_distance,
        samples=(Sample(_ROWS, _ROWS), Sample(_ROWS, (3,), p=1.0, eps=1e-3, keepdims=True)),
    ),
    _WIDE("pdist", refuses=_check_pdist, compose=_pdist, samples=(Sample((3, 2)), Sample((1, 2), p=1.0))),
    _WIDE(
        "cdist", refuses=_check_cdist, compose=_cdist, samples=(Sample(_ROWS, (3, 3)), Sample((1, 2, 2), (2, 2), p=1.0))
    ),
    network(
        "bilinear",
        optional=(0.0,),
        autocast="half",
        parameters=_bilinear_parameters,
        compose=_bilinear,
        samples=(Sample((2, 2), (2, 3), (2, 2, 3), (2,)), Sample((2,), (1,), (3, 2, 1), 0.0)),
    ),
)
