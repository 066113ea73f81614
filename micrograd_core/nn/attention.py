"""Attention with several heads, and the block that transformers are made of."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.errors import ShapeError
from micrograd_core.nn.activations import GELU
from micrograd_core.nn.initialization import Generator, parameter
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
    bias : bool
        Of the projections.
    generator, device, dtype
        As for `Linear`. Weights start by Glorot's uniform scheme, biases as 0.

    Attributes
    ----------
    in_proj_weight, in_proj_bias : Tensor, (3 * embed_dim, embed_dim) and (3 * embed_dim,)
        Of query, key and value, one below the other.
    out_proj : Linear
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        bias: bool = True,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not divide {embed_dim} features evenly")
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
        self.num_heads = num_heads
        self.in_proj_weight = parameter((3 * embed_dim, embed_dim), "glorot_uniform", **made)
        self.in_proj_bias = parameter((3 * embed_dim,), "zeros", **made) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, **made)
        if self.out_proj.bias is not None:
            self.out_proj.bias = parameter((embed_dim,), "zeros", **made)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(batch, targets, features), and (batch, sources, features) twice, to (batch, targets, features).

        Without `key` the query attends to itself; without `value` the key is the value. The mask is that of
        `scaled_dot_product_attention`, for scores (batch, heads, targets, sources).
        """
        key = query if key is None else key
        value = key if value is None else value
        if query is key is value:
            heads = self._project(query, 0, 3)
        else:
            heads = [self._project(x, i, i + 1)[0] for i, x in enumerate((query, key, value))]
        seen = FUNCTIONS["scaled_dot_product_attention"](*heads, attn_mask=attn_mask, is_causal=is_causal)
        out: Tensor = self.out_proj(FUNCTIONS["permute_dims"](seen, (0, 2, 1, 3)).reshape(query.shape))
        return out

    def _project(self, x: Tensor, start: int, stop: int) -> list[Tensor]:
        """Some of query, key and value, each (batch, heads, positions, features of a head)."""
        features = self.in_proj_weight.shape[1]
        if x.ndim != 3 or x.shape[-1] != features:
            raise ShapeError(f"MultiheadAttention: an input is (batch, positions, {features}); got shape {x.shape}")
        rows = slice(start * features, stop * features)
        bias = 0.0 if self.in_proj_bias is None else self.in_proj_bias[rows]
        both = FUNCTIONS["linear"](x, self.in_proj_weight[rows], bias)
        split = both.reshape((*x.shape[:2], stop - start, self.num_heads, features // self.num_heads))
        return [FUNCTIONS["permute_dims"](split[:, :, i], (0, 2, 1, 3)) for i in range(stop - start)]

    def facts(self) -> str:
        """The features, and the heads."""
        return f"{self.in_proj_weight.shape[1]}, {self.num_heads}"


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
    """

    def __init__(
        self,
        features: int,
        num_heads: int,
        hidden: int | None = None,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
        width = 4 * features if hidden is None else hidden
        self.norm1 = LayerNorm(features, device=device, dtype=dtype)
        self.attention = MultiheadAttention(features, num_heads, **made)
        self.norm2 = LayerNorm(features, device=device, dtype=dtype)
        self.perceptron = Sequential(Linear(features, width, **made), GELU(), Linear(width, features, **made))

    def forward(self, x: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """(batch, positions, features), and the same."""
        x = x + self.attention(self.norm1(x), attn_mask=attn_mask, is_causal=is_causal)
        return x + self.perceptron(self.norm2(x))  # type: ignore[no-any-return]
