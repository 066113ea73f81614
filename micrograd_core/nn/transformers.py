"""Transformers as PyTorch has them, with its names, defaults and masks; `TransformerBlock` is simpler."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar, Unpack

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn import functional
from micrograd_core.nn.attention import MultiheadAttention, causal_mask
from micrograd_core.nn.containers import ModuleList
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.initialization import Making, check_counts, parameter, placed
from micrograd_core.nn.layers import Dropout, LayerNorm, Linear
from micrograd_core.nn.module import Module


class _TransformerLayer(Module):
    """What the layers of encoder and decoder share."""

    self_attn: MultiheadAttention
    linear1: Linear
    linear2: Linear

    attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        named = {"relu": functional.relu, "gelu": functional.gelu}
        if not callable(activation) and activation not in named:
            raise ValueError(f"{type(self).__name__}: activation is 'relu', 'gelu' or a function; got {activation!r}")
        self.activation = activation if callable(activation) else named[activation]
        self.norm_first = norm_first
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        parts = range(1, len(self.attentions) + 2)
        for i in parts:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **placed(made)))
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _part(self, number: int, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """What a part makes of `x`, added to it, with the norm before the part or after the sum."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        found: Tensor = x + dropout(function(norm(x))) if self.norm_first else norm(x + dropout(function(x)))
        return found

    def _perceptron(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _seen_as_causal(x: Tensor, mask: Tensor | None, is_causal: bool, batch_first: bool) -> Tensor | None:
    if mask is not None or not is_causal:
        return mask
    length = x.shape[-2] if batch_first or x.ndim == 2 else x.shape[0]
    return causal_mask(length, length, x.device)


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then a perceptron, each added to what it read and normalised (Vaswani et al. 2017).

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads of attention.
    dim_feedforward : int
        The width of the perceptron.
    dropout : float
        The probability of a zero, everywhere, while training.
    activation : str or function
        ``'relu'``, ``'gelu'``, or any function of a tensor.
    layer_norm_eps : float
        Added to the variance in norms.
    batch_first : bool
        Whether inputs are (batch, positions, features); (positions, batch, features) is the default, as in PyTorch.
    norm_first : bool
        Whether norms come before each part, rather than after each sum.
    bias : bool
        Whether linear layers and norms have biases.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((5, 2, 8))
    >>> y = mg.nn.TransformerEncoderLayer(8, 2, 16)(x)
    >>> y.shape
    (5, 2, 8)
    """

    attentions = ("self_attn",)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attend, then apply the perceptron.

        Parameters
        ----------
        src : Tensor, (positions, batch, features)
            Or (batch, positions, features) with `batch_first`, or without the batch.
        src_mask : Tensor, (positions, positions) or (batch * heads, positions, positions), optional
            True, or minus infinity, where a position may not look, as PyTorch's.
        src_key_padding_mask : Tensor, (batch, positions), optional
            True where a position is only padding.
        is_causal : bool, default False
            Whether a position looks at no later one, where there is no `src_mask`.

        Returns
        -------
        Tensor
            Of the shape of `src`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        mask = _seen_as_causal(src, src_mask, is_causal, self.self_attn.batch_first)
        x = self._part(1, src, lambda x: self.self_attn.attend(x, x, x, mask, src_key_padding_mask, False)[0])
        return self._part(2, x, self._perceptron)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, then attention to an encoder's result, then a perceptron (Vaswani et al. 2017).

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads of attention.
    dim_feedforward : int
        The width of the perceptron.
    dropout : float
        The probability of a zero, everywhere, while training.
    activation : str or function
        ``'relu'``, ``'gelu'``, or any function of a tensor.
    layer_norm_eps : float
        Added to the variance in norms.
    batch_first : bool
        Whether inputs are (batch, positions, features); (positions, batch, features) is the default, as in PyTorch.
    norm_first : bool
        Whether norms come before each part, rather than after each sum.
    bias : bool
        Whether linear layers and norms have biases.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x, memory = mg.ones((5, 2, 8)), mg.ones((7, 2, 8))
    >>> y = mg.nn.TransformerDecoderLayer(8, 2, 16)(x, memory)
    >>> y.shape
    (5, 2, 8)
    """

    attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attend to the targets, then to what the encoder gave, then apply the perceptron.

        Parameters
        ----------
        tgt : Tensor, (positions, batch, features)
            Or (batch, positions, features) with `batch_first`, or without the batch.
        memory : Tensor, (sources, batch, features)
            What the encoder gave, with its axes in the same order.
        tgt_mask, memory_mask : Tensor, optional
            Scores (targets, targets) and (targets, sources) that do not count: true, or minus infinity, as PyTorch's.
        tgt_key_padding_mask, memory_key_padding_mask : Tensor, (batch, positions), optional
            True where a position is only padding.
        tgt_is_causal, memory_is_causal : bool, default False
            Whether a position looks at no later one, where there is no mask.

        Returns
        -------
        Tensor
            Of the shape of `tgt`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
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
        check_counts(type(self).__name__, the_number_of_layers=num_layers)
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm


class TransformerEncoder(_Stack):
    """Copies of a `TransformerEncoderLayer`, which start alike, one after the other.

    Parameters
    ----------
    encoder_layer : Module
        The layer that is copied.
    num_layers : int
        The number of copies.
    norm : Module, optional
        Applied to the result of the last one.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> layer = mg.nn.TransformerEncoderLayer(8, 2, 16)
    >>> y = mg.nn.TransformerEncoder(layer, 2)(mg.ones((5, 2, 8)))
    >>> y.shape
    (5, 2, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Call one layer after the other, then the norm.

        Parameters
        ----------
        src : Tensor, (positions, batch, features)
            Or (batch, positions, features) with `batch_first`, or without the batch.
        mask : Tensor, optional
            The `src_mask` of each layer.
        src_key_padding_mask : Tensor, (batch, positions), optional
            True where a position is only padding.
        is_causal : bool, default False
            Whether a position looks at no later one, where there is no `mask`.

        Returns
        -------
        Tensor
            Of the shape of `src`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """Copies of a `TransformerDecoderLayer`, which start alike, one after the other.

    Parameters
    ----------
    decoder_layer : Module
        The layer that is copied.
    num_layers : int
        The number of copies.
    norm : Module, optional
        Applied to the result of the last one.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> layer = mg.nn.TransformerDecoderLayer(8, 2, 16)
    >>> y = mg.nn.TransformerDecoder(layer, 2)(mg.ones((5, 2, 8)), mg.ones((7, 2, 8)))
    >>> y.shape
    (5, 2, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Call one layer after the other, then the norm.

        Parameters
        ----------
        tgt : Tensor, (positions, batch, features)
            Or (batch, positions, features) with `batch_first`, or without the batch.
        memory : Tensor, (sources, batch, features)
            What the encoder gave, with its axes in the same order.
        *args, **kwargs
            Further arguments of each layer, as for `TransformerDecoderLayer`.

        Returns
        -------
        Tensor
            Of the shape of `tgt`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        for layer in self.layers:
            tgt = layer(tgt, memory, *args, **kwargs)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder (Vaswani et al. 2017), each with a norm at the end. Matrices start by Glorot's scheme.

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads of attention.
    num_encoder_layers, num_decoder_layers : int
        The numbers of layers.
    dim_feedforward : int
        The width of the perceptron.
    dropout : float
        The probability of a zero, everywhere, while training.
    activation : str or function
        ``'relu'``, ``'gelu'``, or any function of a tensor.
    custom_encoder, custom_decoder : Module, optional
        Used in place of the encoder and the decoder.
    layer_norm_eps : float
        Added to the variance in norms.
    batch_first : bool
        Whether inputs are (batch, positions, features); (positions, batch, features) is the default, as in PyTorch.
    norm_first : bool
        Whether norms come before each part, rather than after each sum.
    bias : bool
        Whether linear layers and norms have biases.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> source, target = mg.ones((7, 2, 8)), mg.ones((5, 2, 8))
    >>> y = mg.nn.Transformer(8, 2, 1, 1, 16)(source, target)
    >>> y.shape
    (5, 2, 8)
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        args = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, **placed(made)) for _ in range(2)]
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*args, **made), num_encoder_layers, norms[0]
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*args, **made), num_decoder_layers, norms[1]
        )
        for p in self.parameters():
            if p.ndim > 1:
                made["device"] = p.device
                p.data = parameter(p.shape, "glorot_uniform", **made)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False, tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Encode the source, and decode the target beside it.

        Parameters
        ----------
        src : Tensor, (sources, batch, features)
            Or (batch, sources, features) with `batch_first`, or without the batch.
        tgt : Tensor, (targets, batch, features)
            With its axes in the same order.
        src_mask, tgt_mask, memory_mask : Tensor, optional
            Scores that do not count: true, or minus infinity, as PyTorch's.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, (batch, positions), optional
            True where a position is only padding.
        src_is_causal, tgt_is_causal, memory_is_causal : bool, default False
            Whether a position looks at no later one, where there is no mask.

        Returns
        -------
        Tensor
            Of the shape of `tgt`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        found: Tensor = self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
            memory_is_causal,
        )  # fmt: skip
        return found

    @staticmethod
    def generate_square_subsequent_mask(size: int, device: Any = None, dtype: Any = "float32") -> Tensor:
        """The mask of a causal network: minus infinity where a source is later than a target, else 0.

        Parameters
        ----------
        size : int
            The number of positions.
        device : Device or str, optional
            Where it is made; by default on the default device.
        dtype : DType or str, default "float32"
            Of floating-point numbers.

        Returns
        -------
        Tensor, (size, size)

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Transformer.generate_square_subsequent_mask(2)
        Tensor([[  0., -inf],
                [  0.,   0.]])
        """
        return FUNCTIONS["where"](causal_mask(size, size, device), -math.inf, 0.0).astype(dtype)


publish(globals())
