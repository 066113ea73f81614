"""Transformers as PyTorch has them, with its names, defaults and masks; `TransformerBlock` is simpler."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.errors import ShapeError
from micrograd_core.nn import functional
from micrograd_core.nn.attention import MultiheadAttention, causal_mask
from micrograd_core.nn.containers import ModuleList
from micrograd_core.nn.initialization import Generator, parameter
from micrograd_core.nn.layers import Dropout, Linear
from micrograd_core.nn.module import Module
from micrograd_core.nn.normalization import LayerNorm


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
        return x if self.norm is None else self.norm(x)


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
