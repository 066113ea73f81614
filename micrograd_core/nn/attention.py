"""Attention with several heads, and the block that transformers are made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from micrograd_core.array.creation import arange
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.errors import ShapeError
from micrograd_core.nn import functional
from micrograd_core.nn.activations import GELU
from micrograd_core.nn.containers import ModuleList
from micrograd_core.nn.initialization import Generator, parameter
from micrograd_core.nn.layers import Dropout, LayerNorm, Linear
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
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = True,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not divide {embed_dim} features evenly")
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
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
        self.bias_k: Tensor | None = None
        self.bias_v: Tensor | None = None
        if add_bias_kv:
            self.bias_k, self.bias_v = (parameter((1, 1, embed_dim), "glorot_normal", **made) for _ in range(2))
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
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = True,
    ) -> Any:
        """(batch, targets, features), and (batch, sources, features) twice, to (batch, targets, features).

        Parameters
        ----------
        query, key, value : Tensor
            Without `key` the query attends to itself; without `value` the key is the value.
        attn_mask : Tensor, optional
            That of `scaled_dot_product_attention`, for scores (batch, heads, targets, sources): true where a target
            may look. PyTorch's layer reads it the other way round.
        is_causal : bool
            Whether a target looks at no later source.
        key_padding_mask : Tensor, optional
            (batch, sources), true where a source is only padding, at which nobody looks.
        need_weights, average_attn_weights : bool
            Whether the weights of all sources come too, as the second of a pair, and as the mean of all heads.
        """
        key = query if key is None else key
        value = key if value is None else value
        plain = self.batch_first and not (self.dropout and self.training) and self.in_proj_weight is not None
        if plain and self.bias_k is None and not (self.add_zero_attn or need_weights) and key_padding_mask is None:
            return self._plain(query, key, value, attn_mask, is_causal)
        hidden = self._hidden(query, key, attn_mask, is_causal)
        found, weights = self.attend(query, key, value, hidden, key_padding_mask, need_weights, average_attn_weights)
        return (found, weights) if need_weights else found

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        hidden: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """As `functional.multi_head_attention_forward`: `hidden` is true, or -inf, where a target may not look."""
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
        out: Tensor = self.out_proj(FUNCTIONS["permute_dims"](seen, (0, 2, 1, 3)).reshape(query.shape))
        return out

    def _project(self, x: Tensor, start: int, stop: int) -> list[Tensor]:
        """Some of query, key and value, each (batch, heads, positions, features of a head)."""
        assert self.in_proj_weight is not None
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
        told = f"{self.embed_dim}, {self.num_heads}"
        told += f", dropout={self.dropout}" if self.dropout else ""
        return told + ("" if self.batch_first else ", batch_first=False")


def causal_mask(targets: int, sources: int, device: Any = None) -> Tensor:
    """True where a source is later than a target: where it may not look."""
    rows = arange(targets, dtype="int64", device=device).reshape(-1, 1)
    return arange(sources, dtype="int64", device=device) > rows


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


# ── PyTorch's transformers ───────────────────────────────────────────────────────────────────────────────────


class _TransformerLayer(Module):
    """What the layers of encoder and decoder share."""

    self_attn: MultiheadAttention
    linear1: Linear
    linear2: Linear

    def _make(self, names: Any, features: int, heads: int, hidden: int, given: dict[str, Any]) -> None:
        made = {name: given[name] for name in ("generator", "device", "dtype")}
        norm = {"device": given["device"], "dtype": given["dtype"], "bias": given["bias"]}
        self.activation = _activation(type(self).__name__, given["activation"])
        self.norm_first = given["norm_first"]
        for name in names:
            attention = MultiheadAttention(
                features, heads, given["dropout"], given["bias"], batch_first=given["batch_first"], **made
            )
            setattr(self, name, attention)
        self.linear1 = Linear(features, hidden, given["bias"], **made)
        self.dropout = Dropout(given["dropout"])
        self.linear2 = Linear(hidden, features, given["bias"], **made)
        for i in range(1, len(names) + 2):
            setattr(self, f"norm{i}", LayerNorm(features, given["layer_norm_eps"], **norm))
        for i in range(1, len(names) + 2):
            setattr(self, f"dropout{i}", Dropout(given["dropout"]))

    def _part(self, number: int, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """What a part makes of `x`, added to it, with the norm before the part or after the sum."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        found: Tensor = x + dropout(function(norm(x))) if self.norm_first else norm(x + dropout(function(x)))
        return found

    def _perceptron(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return made


def _activation(name: str, activation: Any) -> Callable[[Tensor], Tensor]:
    named: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}
    if callable(activation):
        return activation  # type: ignore[no-any-return]
    if activation not in named:
        raise ValueError(f"{name}: activation is 'relu', 'gelu' or a function; got {activation!r}")
    return named[activation]


def _seen_as_causal(x: Tensor, mask: Tensor | None, is_causal: bool, batch_first: bool) -> Tensor | None:
    if mask is not None or not is_causal:
        return mask
    length = x.shape[-2] if batch_first or x.ndim == 2 else x.shape[0]
    return causal_mask(length, length, x.device)


class TransformerEncoderLayer(_TransformerLayer):
    """Attention to oneself, then a perceptron, each added to what it read and normalised (Vaswani et al. 2017).

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads of attention.
    dim_feedforward : int
        Width of the perceptron.
    dropout : float
        Probability of a zero, everywhere, while training.
    activation : str or function
        ``'relu'``, ``'gelu'``, or any.
    layer_norm_eps : float
    batch_first : bool
        Whether inputs are (batch, positions, features), or (positions, batch, features), the default, as PyTorch's.
    norm_first : bool
        Whether parts read what is normalised, rather than their sums being normalised.
    bias : bool
        Of all that can have one.
    generator, device, dtype
        As for `Linear`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._make(("self_attn",), d_model, nhead, dim_feedforward, given)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Shape of `src`. Masks are true, or minus infinity, where nobody may look, as PyTorch's."""
        mask = _seen_as_causal(src, src_mask, is_causal, self.self_attn.batch_first)
        x = self._part(1, src, lambda x: self.self_attn.attend(x, x, x, mask, src_key_padding_mask, False)[0])
        return self._part(2, x, self._perceptron)


class TransformerDecoderLayer(_TransformerLayer):
    """Attention to oneself, then to what an encoder gave, then a perceptron (Vaswani et al. 2017).

    Parameters as of `TransformerEncoderLayer`.
    """

    multihead_attn: MultiheadAttention

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._make(("self_attn", "multihead_attn"), d_model, nhead, dim_feedforward, given)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Shape of `tgt`; `memory` is what the encoder gave. Masks as of `TransformerEncoderLayer`."""
        first = self.self_attn.batch_first
        own = _seen_as_causal(tgt, tgt_mask, tgt_is_causal, first)
        other = _seen_as_causal(tgt, memory_mask, memory_is_causal, first)
        x = self._part(1, tgt, lambda x: self.self_attn.attend(x, x, x, own, tgt_key_padding_mask, False)[0])
        x = self._part(
            2, x, lambda x: self.multihead_attn.attend(x, memory, memory, other, memory_key_padding_mask, False)[0]
        )
        return self._part(3, x, self._perceptron)


class _Stack(Module):
    """Copies of a layer, one after the other."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        if num_layers < 1:
            raise ShapeError(f"{type(self).__name__}: the number of layers must be at least 1; got {num_layers}")
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _normed(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class TransformerEncoder(_Stack):
    """`num_layers` copies of a `TransformerEncoderLayer`, which start alike, and a norm at the end if one is given."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """As each layer."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return self._normed(src)


class TransformerDecoder(_Stack):
    """`num_layers` copies of a `TransformerDecoderLayer`, which start alike, and a norm at the end if one is given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """As each layer."""
        for layer in self.layers:
            tgt = layer(tgt, memory, *args, **kwargs)
        return self._normed(tgt)


class Transformer(Module):
    """Encoder and decoder (Vaswani et al. 2017), each with a norm at the end; matrices start by Glorot's scheme.

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads of attention.
    num_encoder_layers, num_decoder_layers : int
    dim_feedforward, dropout, activation
        As of `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Used instead.
    layer_norm_eps, batch_first, norm_first, bias, generator, device, dtype
        As of `TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
        norm: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        args = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*args, **made), num_encoder_layers, LayerNorm(d_model, layer_norm_eps, **norm)
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*args, **made), num_decoder_layers, LayerNorm(d_model, layer_norm_eps, **norm)
        )
        for p in self.parameters():
            if p.ndim > 1:
                p.data = parameter(p.shape, "glorot_uniform", **{**made, "device": p.device})

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Shape of `tgt`. Masks as of the layers."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        found: Tensor = self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
            memory_is_causal,
        )  # fmt: skip
        return found

    @staticmethod
    def generate_square_subsequent_mask(size: int, device: Any = None, dtype: Any = "float32") -> Tensor:
        """Minus infinity where a source is later than a target, else 0."""
        found: Tensor = FUNCTIONS["where"](causal_mask(size, size, device), -math.inf, 0.0).astype(dtype)
        return found
