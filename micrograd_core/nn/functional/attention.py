"""Attention, of one head and of several."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.array.creation import zeros
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, publish
from micrograd_core.nn.functional.convolution import linear
from micrograd_core.nn.functional.dropouts import dropout

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """``softmax(scale * query @ key.T + attn_mask) @ value`` over the last two axes.

    Parameters
    ----------
    query, key, value : Tensor
        (…, targets, features), (…, sources, features) and (…, sources, outputs).
    attn_mask : Tensor, optional
        Bools, true where a target may look, or numbers that are added to scores.
    dropout_p : float
        How likely a weight is dropped, whether training or not.
    is_causal : bool
        Whether a target looks at no later source.
    scale : float, optional
        By default ``features ** -0.5``.
    enable_gqa : bool
        Whether several heads (axis -3) of the query share one of key and value.

    Returns
    -------
    Tensor
        (…, targets, outputs).

    Raises
    ------
    ShapeError, ValueError
        When shapes do not fit, or both `attn_mask` and `is_causal` are given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> query, key, value = mg.ones((2, 5, 8)), mg.ones((2, 7, 8)), mg.ones((2, 7, 4))
    >>> y = F.scaled_dot_product_attention(query, key, value)
    >>> y.shape
    (2, 5, 4)
    """
    q, k, v = asarray(query), asarray(key), asarray(value)
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    if enable_gqa:
        k, v = (_shared_heads(q, each) for each in (k, v))
    if not dropout_p:
        return T["scaled_dot_product_attention"](q, k, v, attn_mask, is_causal=is_causal, scale=scale)
    scores = (q * ((q.shape[-1] or 1) ** -0.5 if scale is None else scale)) @ k.mT
    mask = 0.0 if attn_mask is None else asarray(attn_mask)
    return dropout(T["attention_weights"](scores, mask, is_causal=is_causal), dropout_p) @ v


def _shared_heads(q: Tensor, x: Tensor) -> Tensor:
    """Each head of `x` as often as there are heads of the query for it."""
    if min(q.ndim, x.ndim) < 3 or q.shape[-3] % x.shape[-3]:
        raise ShapeError(
            f"scaled_dot_product_attention: with enable_gqa the heads (axis -3) of the query {q.shape} are a multiple "
            f"of those of key and value; got {x.shape}"
        )
    return T["repeat"](x, q.shape[-3] // x.shape[-3], axis=-3)


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention in several heads of (length, batch, features), or without the batch, and the weights it gives.

    Masks are true, or minus infinity, where a target may *not* look: the other way round than those of
    `scaled_dot_product_attention`.

    Parameters
    ----------
    query, key, value : Tensor
        (targets, batch, features), and twice (sources, batch, features); or all without the batch.
    embed_dim_to_check, num_heads : int
        The features of the query, and the number of heads, which divides them.
    in_proj_weight, in_proj_bias : Tensor or None
        (3 * features, features) and (3 * features,): the projections of query, key and value, one after the other.
    bias_k, bias_v : Tensor or None
        (1, 1, features): one more source, behind the others.
    add_zero_attn : bool
        Whether one more source of zeros is added.
    dropout_p : float
        The probability that a weight becomes 0 while training.
    out_proj_weight, out_proj_bias : Tensor, Tensor or None
        (features, features) and (features,): the projection of the result.
    training : bool
        Whether weights are dropped.
    key_padding_mask : Tensor, optional
        (batch, sources): sources that no target may see.
    need_weights : bool
        Whether the weights are returned.
    attn_mask : Tensor, optional
        (targets, sources), or (batch * heads, targets, sources): pairs that may not see each other.
    use_separate_proj_weight : bool
        Whether the three weights below are used, in place of `in_proj_weight`.
    q_proj_weight, k_proj_weight, v_proj_weight : Tensor, optional
        (features, features), (features, key features) and (features, value features).
    static_k, static_v : Tensor, optional
        (batch * heads, sources, features / heads): used in place of the projected key and value.
    average_attn_weights : bool
        Whether the weights are averaged over heads.
    is_causal : bool
        Says that `attn_mask` is causal; `attn_mask` must be given.

    Returns
    -------
    Tensor, and Tensor or None
        (targets, batch, features); and the weights (batch, targets, sources), or (batch, heads, targets, sources).

    Raises
    ------
    ShapeError, ValueError
        When shapes do not fit, or `is_causal` is true without a mask.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((5, 2, 8))
    >>> projections = (mg.ones((24, 8)), None, None, None, False, 0.0, mg.eye(8), None)
    >>> y, weights = F.multi_head_attention_forward(x, x, x, 8, 2, *projections)
    >>> y.shape, weights.shape
    ((5, 2, 8), (2, 5, 5))
    """
    name = "multi_head_attention_forward"
    q, k, v = asarray(query), asarray(key), asarray(value)
    absent = q.ndim == 2
    if absent:
        q, k, v = (each.expand_dims(1) for each in (q, k, v))
        key_padding_mask = None if key_padding_mask is None else asarray(key_padding_mask).expand_dims(0)
    targets, batch, features = q.shape
    if features != embed_dim_to_check or features % num_heads:
        raise ShapeError(f"{name}: {num_heads} heads of {embed_dim_to_check} features do not fit query {q.shape}")
    if is_causal and attn_mask is None:
        raise ValueError(f"{name}: is_causal says what attn_mask is, and needs one")
    if use_separate_proj_weight:
        matrices: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        assert in_proj_weight is not None
        matrices = [in_proj_weight[i * features : (i + 1) * features] for i in range(3)]
    biases = [None if in_proj_bias is None else in_proj_bias[i * features : (i + 1) * features] for i in range(3)]
    q, k, v = (linear(x, w, b) for x, w, b in zip((q, k, v), matrices, biases, strict=True))
    mask, padding = _added(attn_mask, q), _added(key_padding_mask, q)
    if bias_k is not None and bias_v is not None:
        k, v = (T["concat"]([x, T["tile"](b, (1, batch, 1))]) for x, b in ((k, bias_k), (v, bias_v)))
    width = features // num_heads

    def heads(x: Tensor, static: Tensor | None) -> Tensor:
        """(length, batch, features) as (batch, heads, length, features of a head)."""
        apart = x.reshape(x.shape[0], batch, num_heads, width).permute_dims(1, 2, 0, 3)
        return apart if static is None else static.reshape(batch, num_heads, *static.shape[1:])

    q, k, v = heads(q, None), heads(k, static_k), heads(v, static_v)
    sources = k.shape[2] - (bias_k is not None and bias_v is not None)
    if add_zero_attn:
        nothing = zeros((batch, num_heads, 1, width), dtype=q.dtype, device=q.device)
        k, v = (T["concat"]([each, nothing], axis=2) for each in (k, v))
    more = k.shape[2] - sources
    if mask is not None:
        mask = mask.reshape(batch, num_heads, targets, sources) if mask.ndim == 3 else mask
        mask = T["pad"](mask, [*[(0, 0)] * (mask.ndim - 1), (0, more)])
    if padding is not None:
        padding = T["pad"](padding, [(0, 0), (0, more)]).reshape(batch, 1, 1, sources + more)
        mask = padding if mask is None else mask + padding
    drop = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = (q * width**-0.5) @ k.mT
        weights = dropout(T["softmax"](scores if mask is None else scores + mask, axis=-1), drop)
        seen = weights @ v
        weights = weights.mean(axis=1) if average_attn_weights else weights
        weights = weights[0] if absent else weights
    else:
        seen = scaled_dot_product_attention(q, k, v, mask, drop)
    out = linear(seen.permute_dims(2, 0, 1, 3).reshape(targets, batch, features), out_proj_weight, out_proj_bias)
    return out[:, 0] if absent else out, weights


def _added(mask: Any, like: Tensor) -> Tensor | None:
    """A mask as numbers that are added to scores."""
    if mask is None:
        return None
    given = asarray(mask)
    if given.dtype.kind != "bool":
        return given
    return T["where"](given, -math.inf, asarray(0.0, dtype=like.dtype, device=like.device))


publish(globals())
