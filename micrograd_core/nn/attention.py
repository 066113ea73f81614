"""Attention with several heads, and the block that transformers are made of."""

from __future__ import annotations

import math
from typing import Any, Unpack

from micrograd_core.array.creation import arange
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.errors import ShapeError
from micrograd_core.nn import call, functional
from micrograd_core.nn.initialization import Making, parameter, placed
from micrograd_core.nn.layers import LayerNorm, Linear
from micrograd_core.nn.module import Module, Sequential


class MultiheadAttention(Module):
    """`scaled_dot_product_attention` of linear projections, in several heads side by side (Vaswani et al. 2017).

    Parameters
    ----------
    embed_dim : int
        Features of input and result.
    num_heads : int
        Must divide `embed_dim`.
    dropout : float
        Probability with which a weight is dropped, while training.
    bias : bool
        Of the projections.
    add_bias_kv, add_zero_attn : bool
        Whether there is one more source that is learned, and one that is zero.
    kdim, vdim : int, optional
        Features of key and value; by default those of the query.
    batch_first : bool
        Whether inputs are (batch, positions, features), as they are by default here (PyTorch's default is the other
        one), or (positions, batch, features).
    generator, device, dtype
        As for `Linear`. Weights start by Glorot's uniform scheme, biases as 0.

    Attributes
    ----------
    in_proj_weight, in_proj_bias : Tensor, (3 * embed_dim, embed_dim) and (3 * embed_dim,)
        Of query, key and value, one below the other; with `kdim` or `vdim` the weights are ``q_proj_weight``,
        ``k_proj_weight`` and ``v_proj_weight``.
    out_proj : Linear

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 5, 8))
    >>> y = mg.nn.MultiheadAttention(8, 2)(x)
    >>> y.shape
    (2, 5, 8)
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = True,
        **made: Unpack[Making],
    ) -> None:  # fmt: skip
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not divide {embed_dim} features evenly")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.add_zero_attn = add_zero_attn
        widths = [embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim]
        self.in_proj_weight: Tensor | None = None
        if widths == [embed_dim] * 3:
            self.in_proj_weight = parameter((3 * embed_dim, embed_dim), "glorot_uniform", **made)
        else:
            for name, width in zip("qkv", widths, strict=True):
                setattr(self, f"{name}_proj_weight", parameter((embed_dim, width), "glorot_uniform", **made))
        self.in_proj_bias = parameter((3 * embed_dim,), "zeros", **made) if bias else None
        self.bias_k = parameter((1, 1, embed_dim), "glorot_normal", **made) if add_bias_kv else None
        self.bias_v = parameter((1, 1, embed_dim), "glorot_normal", **made) if add_bias_kv else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, **made)
        if self.out_proj.bias is not None:
            self.out_proj.bias = parameter((embed_dim,), "zeros", **made)

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, *, attn_mask: Tensor | None = None,
        is_causal: bool = False, key_padding_mask: Tensor | None = None, need_weights: bool = False,
        average_attn_weights: bool = True,
    ) -> Tensor:  # fmt: skip
        """Let each target attend to the sources.

        Parameters
        ----------
        query : Tensor, (batch, targets, features)
            Or without the batch, as all of them.
        key, value : Tensor, (batch, sources, features), optional
            Without `key` the query attends to itself; without `value` the key is the value.
        attn_mask : Tensor, optional
            That of `scaled_dot_product_attention`, for scores (batch, heads, targets, sources): true where a target
            may look. PyTorch's layer reads it the other way round.
        is_causal : bool, default False
            Whether a target looks at no later source.
        key_padding_mask : Tensor, (batch, sources), optional
            True where a source is only padding, at which nobody looks.
        need_weights, average_attn_weights : bool
            Whether the weights of all sources come too, as the second of a pair, and as the mean of all heads.

        Returns
        -------
        Tensor, (batch, targets, features)
            With `need_weights` a pair, with weights (batch, targets, sources), or (batch, heads, targets, sources).

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        key = query if key is None else key
        value = key if value is None else value
        more = self.add_zero_attn or self.bias_k is not None or need_weights or key_padding_mask is not None
        dropped = self.dropout and self.training
        if self.batch_first and query.ndim != 2 and self.in_proj_weight is not None and not (more or dropped):
            return self._plain(query, key, value, attn_mask, is_causal)
        hidden = self._hidden(query, key, attn_mask, is_causal)
        found, weights = self.attend(query, key, value, hidden, key_padding_mask, need_weights, average_attn_weights)
        return (found, weights) if need_weights else found  # type: ignore[return-value]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None,
        key_padding_mask: Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Let each target attend to the sources, with PyTorch's masks: see `functional.multi_head_attention_forward`.

        Parameters
        ----------
        query, key, value : Tensor, (batch, positions, features)
            Or (positions, batch, features) where `batch_first` is false, or without the batch.
        hidden : Tensor, (targets, sources) or (batch * heads, targets, sources), optional
            True, or minus infinity, where a target may not look.
        key_padding_mask : Tensor, (batch, sources), optional
            True where a source is only padding.
        need_weights : bool, default True
            Whether the weights come too.
        average_attn_weights : bool, default True
            Whether they are the mean of all heads.

        Returns
        -------
        tuple of Tensor, and Tensor or None
            The result, of the shape of `query`; and the weights.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.ones((1, 3, 4))
        >>> y, weights = mg.nn.MultiheadAttention(4, 2).attend(x, x, x)
        >>> y.shape, weights.shape
        ((1, 3, 4), (1, 3, 3))
        """
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = (FUNCTIONS["permute_dims"](x, (1, 0, 2)) for x in (query, key, value))
        apart = self.in_proj_weight is None
        found, weights = functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=hidden,
            use_separate_proj_weight=apart, q_proj_weight=getattr(self, "q_proj_weight", None),
            k_proj_weight=getattr(self, "k_proj_weight", None), v_proj_weight=getattr(self, "v_proj_weight", None),
            average_attn_weights=average_attn_weights,
        )  # fmt: skip
        return FUNCTIONS["permute_dims"](found, (1, 0, 2)) if turned else found, weights

    def _hidden(self, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor | None:
        """A mask the other way round, for each batch and head."""
        place = 0 if not self.batch_first and query.ndim == 3 else -2
        batch = 1 if query.ndim == 2 else query.shape[1 if place == 0 else 0]
        targets, sources = query.shape[place], key.shape[place]
        causal = causal_mask(targets, sources, query.device) if is_causal else None
        if mask is None:
            return causal
        hidden = FUNCTIONS["where"](mask, 0.0, -math.inf) if mask.dtype.kind == "bool" else mask
        hidden = hidden if causal is None else FUNCTIONS["where"](causal, -math.inf, hidden)
        whole = FUNCTIONS["broadcast_to"](hidden, (batch, self.num_heads, targets, sources))
        return whole.reshape(batch * self.num_heads, targets, sources)

    def _plain(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
        if query is key is value:
            heads = self._project(query, 0, 3)
        else:
            heads = [self._project(x, i, i + 1)[0] for i, x in enumerate((query, key, value))]
        seen = FUNCTIONS["scaled_dot_product_attention"](*heads, attn_mask=attn_mask, is_causal=is_causal)
        return self.out_proj(FUNCTIONS["permute_dims"](seen, (0, 2, 1, 3)).reshape(query.shape))

    def _project(self, x: Tensor, start: int, stop: int) -> list[Tensor]:
        """Some of query, key and value, each (batch, heads, positions, features of a head)."""
        assert self.in_proj_weight is not None
        features = self.in_proj_weight.shape[1]
        if x.ndim != 3 or x.shape[-1] != features:
            raise ShapeError(f"MultiheadAttention: an input is (batch, positions, {features}); got shape {x.shape}")
        weight, bias = self.in_proj_weight, 0.0 if self.in_proj_bias is None else self.in_proj_bias
        if stop - start < 3:  # of all three the gradient would be copied for nothing
            rows = slice(start * features, stop * features)
            weight, bias = weight[rows], bias if self.in_proj_bias is None else self.in_proj_bias[rows]
        both = FUNCTIONS["linear"](x, weight, bias)
        split = both.reshape((*x.shape[:2], stop - start, self.num_heads, features // self.num_heads))
        return [FUNCTIONS["permute_dims"](split[:, :, i], (0, 2, 1, 3)) for i in range(stop - start)]

    def facts(self) -> str:
        """The features, and the heads."""
        told = f"{self.embed_dim}, {self.num_heads}"
        told += f", dropout={self.dropout}" if self.dropout else ""
        return told + ("" if self.batch_first else ", batch_first=False")


def causal_mask(targets: int, sources: int, device: Any = None) -> Tensor:
    """True where a source is later than a target: where it may not look."""
    rows = arange(targets, dtype="int64", device=device).reshape(-1, 1)
    later: Tensor = arange(sources, dtype="int64", device=device) > rows
    return later


class TransformerBlock(Module):
    """Attention, then a perceptron at each position, each added to what it read after a `LayerNorm`.

    That the norm comes first, not last, is what lets deep stacks learn from the start (Xiong et al. 2020).

    Parameters
    ----------
    features, num_heads : int
        As for `MultiheadAttention`.
    hidden : int, optional
        Width of the perceptron; by default four times `features`.
    generator, device, dtype
        As for `Linear`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 5, 8))
    >>> y = mg.nn.TransformerBlock(8, 2)(x)
    >>> y.shape
    (2, 5, 8)
    """

    def __init__(self, features: int, num_heads: int, hidden: int | None = None, **made: Unpack[Making]) -> None:
        width = 4 * features if hidden is None else hidden
        self.norm1 = LayerNorm(features, **placed(made))
        self.attention = MultiheadAttention(features, num_heads, **made)
        self.norm2 = LayerNorm(features, **placed(made))
        self.perceptron = Sequential(Linear(features, width, **made), call.GELU(), Linear(width, features, **made))

    def forward(self, x: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Add attention, then a perceptron, each of what was normalised.

        Parameters
        ----------
        x : Tensor, (batch, positions, features)
            Or without the batch.
        attn_mask : Tensor, optional
            As for `MultiheadAttention`: true where a position may look.
        is_causal : bool, default False
            Whether a position looks at no later one.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        x = x + self.attention(self.norm1(x), attn_mask=attn_mask, is_causal=is_causal)
        return x + self.perceptron(self.norm2(x))  # type: ignore[no-any-return]


__all__ = ["MultiheadAttention", "TransformerBlock"]
