"""Embedding and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.dtypes import bool_, int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops.core.matmul import transposed
from micrograd_core.ops.record import BOOLEAN, FLOATING, INTEGER, SAME, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import calls, in_float32, is_scalar
from micrograd_core.ops.tangents import linear

# ── embedding ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_embedding(name: str, indices: Any, weight: Any) -> None:
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding: the weight has axes (number of embeddings, features); got shape {weight.shape}")


def _named(k: Table, indices: Handle, count: int) -> Handle:
    """Whether each index names each row, (..., count, 1)."""
    ndim, rows = len(indices.shape), k.reshape(k.arange(count, dtype=int64), shape=(count, 1))
    return k.equal(k.expand_dims(k.astype(indices, dtype=int64), axis=(ndim, ndim + 1)), rows)


def _embedding(k: Table, indices: Handle, weight: Handle) -> Handle:
    """The rows of ``x2`` (number of embeddings, features) that the integers ``x1`` name.

    An index that names none raises ``IndexError`` on devices that can tell at once, and gives NaN on others.
    """
    named = _named(k, indices, weight.shape[0])
    axis = (len(indices.shape),)
    rows = k.sum(k.where(named, weight, 0), axis=axis, keepdims=False)
    return k.where(k.any(named, axis=axis, keepdims=False), rows, math.nan)


def _check_embedding_gradient(name: str, g: Any, indices: Any, *, num_embeddings: int) -> None:
    if g.shape[:-1] != indices.shape or not g.shape:
        raise ShapeError(
            f"embedding_gradient: a cotangent of shape {g.shape} does not fit indices of shape {indices.shape}: it has "
            "one more axis, that of the features"
        )


@in_float32
def _embedding_gradient(k: Table, g: Handle, indices: Handle, *, num_embeddings: int) -> Handle:
    """Each row is the sum of what was received where it was used."""
    ndim = len(indices.shape)
    received = k.where(_named(k, indices, num_embeddings), k.expand_dims(g, axis=(ndim,)), 0)
    return k.sum(received, axis=tuple(range(ndim)), keepdims=False)


# ── attention ────────────────────────────────────────────────────────────────────────────────────────────────


def _attention_parameters(
    query: Any, key: Any, value: Any, /, attn_mask: Any = None, *, is_causal: bool = False, scale: float | None = None
) -> dict[str, Any]:
    """``softmax(scale * query @ key.T + attn_mask) @ value`` over the last two axes (Vaswani et al. 2017).

    The query is (..., targets, features), the key (..., sources, features), the value (..., sources, outputs).
    `scale` is by default ``features ** -0.5``. A boolean mask is true where a target may look; with `is_causal` it
    looks at no later source. A target that may look nowhere gets 0, with gradient 0.
    """
    op = "scaled_dot_product_attention"
    shapes = [each.shape for each in (query, key, value)]
    fits = min(map(len, shapes)) > 1 and shapes[0][-1] == shapes[1][-1] and shapes[1][-2] == shapes[2][-2]
    if not fits:
        raise ShapeError(
            f"{op}: query {shapes[0]}, key {shapes[1]} and value {shapes[2]} do not fit (..., targets, features), "
            "(..., sources, features) and (..., sources, outputs)"
        )
    scores = (*broadcast_shapes(op, *(shape[:-2] for shape in shapes[:2])), shapes[0][-2], shapes[1][-2])
    mask = getattr(attn_mask, "shape", ())
    padded = (*scores[: max(len(scores) - len(mask), 0)], *mask)
    if len(padded) != len(scores) or any(n not in (1, m) for n, m in zip(padded, scores, strict=True)):
        raise ShapeError(f"{op}: attn_mask of shape {mask} does not broadcast to that of the scores, {scores}")
    return {"is_causal": bool(is_causal), "scale": float(scale) if scale is not None else (shapes[0][-1] or 1) ** -0.5}


def _weights(k: Table, query: Handle, key: Any, mask: Any, scale: float, is_causal: bool) -> Handle:
    scores = k.matmul(k.multiply(query, scale), transposed(k, key))
    if not is_scalar(mask) and k.dtype(mask) is not bool_:
        mask = k.astype(mask, dtype=scores.dtype)
    return k.attention_weights(scores, mask, is_causal=is_causal)


def _attention(k: Table, query: Handle, key: Any, value: Handle, mask: Any, *, is_causal: bool, scale: float) -> Handle:
    """``softmax(scale * query @ key.T + mask) @ value``; 0 for a target that sees nothing, rather than 0 / 0."""
    return k.matmul(_weights(k, query, key, mask, scale, is_causal), value)


class AttentionGradients(NamedTuple):
    """Of query, key and value."""

    query: Any
    key: Any
    value: Any


def _attention_gradients(
    k: Table, g: Handle, out: Handle, query: Handle, key: Any, value: Any, mask: Any, *, is_causal: bool, scale: float
) -> AttentionGradients:
    """A slope of the softmax is ``weight * (g @ value.T - sum(g * out))``: the sum over sources is one over outputs."""
    weights = _weights(k, query, key, mask, scale, is_causal)
    common = k.sum(k.multiply(g, out), axis=(len(out.shape) - 1,), keepdims=True)
    slopes = k.multiply(weights, k.multiply(k.subtract(k.matmul(g, transposed(k, value)), common), scale))
    by_key = k.matmul(transposed(k, slopes), query)
    return AttentionGradients(k.matmul(slopes, key), by_key, k.matmul(transposed(k, weights), g))


def _attention_rules(asked: Sequence[bool]) -> tuple[Any, ...]:
    """Query, key and value have theirs at once; a mask has none, and where it wants one the composition is recorded."""
    made: list[Any] = []

    def part(i: int, k: Table, g: Handle, out: Handle, *operands: Any, **params: Any) -> Any:
        made.extend(() if made else k.attention_gradients(g, out, *operands, **params))
        return made[i]

    return (*(partial(part, i) for i in range(3)), None)


_INDICES = Array((2, 3), 0, 4, "int64")

OPS = calls(
    Op(
        "embedding",
        refuses=_check_embedding,
        accepts=(INTEGER, FLOATING),
        separate=(0,),
        tangent=linear,
        gradient=(None, lambda k, g, out, i, weight: k.embedding_gradient(g, i, num_embeddings=weight.shape[0])),
        compose=_embedding,
        reference=lambda np, indices, weight: weight[indices],
        samples=(
            Sample(_INDICES, (4, 3)),
            Sample(Array((), 0, 4, "int32"), (4, 2)),
            Sample(Array((0,), 0, 4, "int64"), (4, 2)),
        ),
    ),
    Op(
        "embedding_gradient",
        "For each of `num_embeddings` rows, the sum of the rows of ``x1`` where ``x2`` names it: the transpose of "
        "`embedding`.",
        refuses=_check_embedding_gradient,
        accepts=(FLOATING, INTEGER),
        separate=(1,),
        tangent=linear,
        gradient=(lambda k, g, out, x, indices, *, num_embeddings: k.embedding(indices, g), None),
        compose=_embedding_gradient,
        samples=(
            Sample((2, 3, 2), _INDICES, num_embeddings=4),
            Sample((0, 2), Array((0,), 0, 4, "int64"), num_embeddings=3),
        ),
    ),
    Op(
        "scaled_dot_product_attention",
        autocast="half",
        optional=(0.0,),
        parameters=_attention_parameters,
        accepts=(FLOATING, FLOATING, FLOATING, FLOATING | BOOLEAN),
        separate=(3,),
        fused=True,
        gradient=_attention_rules,
        compose=_attention,
        samples=(
            Sample((2, 3, 4), (2, 2, 4), (2, 2, 3), 0.0),
            Sample((3, 2), (4, 2), (4, 1), 0.0, is_causal=True, scale=0.5),
            Sample((2, 3, 2), (2, 2), (2, 2, 1), Array((3, 2), dtype="bool")),
            Sample((3, 2), (2, 2), (2, 3), (3, 2)),
            Sample((2, 3, 8), (2, 4, 8), (2, 4, 8), 0.0, is_causal=True),
        ),
    ),
    Op(
        "attention_gradients",
        "The vector-Jacobian products of `scaled_dot_product_attention` by query ``x3``, key ``x4`` and value ``x5`` "
        "with ``x1``; ``x2`` is its result, ``x6`` the mask.",
        parts=AttentionGradients,
        result=(SAME, SAME, SAME),
        shape=lambda g, out, *operands, **params: tuple((*g.shape[:-2], *x.shape[-2:]) for x in operands[:3]),
        accepts=(FLOATING, FLOATING, FLOATING, FLOATING, FLOATING, FLOATING | BOOLEAN),
        separate=(5,),
        compose=_attention_gradients,
        samples=(
            Sample((2, 3, 8), (2, 3, 8), (2, 3, 8), (2, 4, 8), (2, 4, 8), 0.0, is_causal=True, scale=0.5),
            Sample((3, 1), (3, 1), (3, 2), (2, 2), (2, 1), (3, 2), is_causal=False, scale=0.5),
        ),
    ),
)
