"""Language models that read from left to right: GPT-2 and Llama.

The arguments have the names that config.json gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import micrograd_core as mg
from micrograd_core import Tensor, nn
from micrograd_models.blocks import Attention, Block, GatedPerceptron, Perceptron, Slots


class Cache(NamedTuple):
    """Keys and values of the positions that a model has read, in tensors of a fixed length."""

    keys: list[Tensor]
    values: list[Tensor]
    position: Tensor
    """How many places are taken: where the next call goes on."""
    padding: Tensor
    """(batch,): how many places at the left of each row hold padding."""


class Decoder(nn.Module):
    """Blocks that look to the left only, between the embedding of words and a layer that scores the next word."""

    words: nn.Embedding
    blocks: list[Block]
    norm: nn.Module
    head: nn.Linear | None
    length: int
    """How many positions it was made for."""

    def _finish(self, vocabulary: int, width: int, head: bool, tied: bool) -> None:
        self.head = nn.Linear(width, vocabulary, bias=False) if head else None
        if self.head is not None and tied:
            self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Score each next word.

        Parameters
        ----------
        ids : Tensor, (batch, positions)
            Integers: the words.

        Returns
        -------
        Tensor, (batch, positions, words)
            Without a head (batch, positions, features).

        Raises
        ------
        ShapeError, IndexError
            When there are too many positions, or a word is not known.
        """
        x, seen = self._embed(ids, mg.arange(ids.shape[1], dtype="int64", device=ids.device))
        for block in self.blocks:
            x = block(x, is_causal=True, **seen)
        return self._scores(x)

    def advance(self, ids: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Score each next word where a cache holds those before.

        Parameters
        ----------
        ids : Tensor, (batch, positions)
            Integers: the words that follow.
        cache : Cache
            From `cache`, or from an earlier call.

        Returns
        -------
        tuple of Tensor and Cache
            Scores (batch, positions, words), and the cache with these words.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> from micrograd_models import GPT2
        >>> model = GPT2(vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
        >>> scores, cache = model.advance(mg.zeros((1, 5), dtype="int64"), model.cache(1, 16))
        >>> scores.shape, cache.position.item()
        ((1, 5, 50), 5)
        """
        places = mg.arange(ids.shape[1], dtype="int64", device=ids.device) + cache.position
        x, seen = self._embed(ids, mg.clip(places - cache.padding[:, None], 0, None))
        every = mg.arange(cache.keys[0].shape[2], dtype="int64", device=ids.device)
        mask = (every <= places[:, None]) & (every >= cache.padding[:, None, None])
        slots = [Slots(*both, places) for both in zip(cache.keys, cache.values, strict=True)]
        for block, each in zip(self.blocks, slots, strict=True):
            x = block(x, mask=mask[:, None], slots=each, **seen)
        keys, values = [each.keys for each in slots], [each.values for each in slots]
        return self._scores(x), Cache(keys, values, cache.position + ids.shape[1], cache.padding)

    def _scores(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return x if self.head is None else self.head(x)

    @property
    def step(self) -> Any:
        """The function `advance` under `jit`, one program for all positions. The cache is given away."""
        found = vars(self).get("_step")
        if found is None:
            found = vars(self)["_step"] = mg.jit(self.advance, donate_argnames="cache")
        return found

    def _embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """What the first block reads, and what all blocks are told, of words at (positions,) or (batch, positions)."""
        raise NotImplementedError

    def cache(self, batch: int, length: int) -> Cache:
        """Make an empty cache.

        Parameters
        ----------
        batch : int
            How many texts.
        length : int
            How many positions of each.

        Returns
        -------
        Cache

        Examples
        --------
        >>> from micrograd_models import GPT2
        >>> model = GPT2(vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
        >>> model.cache(1, 16).keys[0].shape
        (1, 2, 16, 4)
        """
        attention, weight = self.blocks[0].attention, self.words.weight
        made: dict[str, Any] = {"dtype": weight.dtype, "device": weight.device}
        keys, values = (
            [mg.zeros((batch, attention.shared, length, attention.features), **made) for _ in self.blocks]
            for _ in range(2)
        )
        counts = (mg.zeros(shape, dtype="int64", device=weight.device) for shape in ((), (batch,)))
        return Cache(keys, values, *counts)


class GPT2(Decoder):
    """GPT-2 (Radford et al. 2019).

    Parameters
    ----------
    vocab_size, n_positions, n_embd : int
        The numbers of words, of positions and of features.
    n_layer, n_head : int
        The numbers of blocks, and of heads in each.
    n_inner : int, optional
        The width of the perceptrons; by default 4 times the features.
    activation_function : str
        Their activation.
    layer_norm_epsilon : float
        Added to the variance in norms.
    tie_word_embeddings : bool
        Whether the head has the weights of the embedding.
    head : bool
        Whether words are scored; without it the result is the features.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import GPT2
    >>> model = GPT2(vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    >>> model(mg.zeros((1, 5), dtype="int64")).shape
    (1, 5, 50)
    """

    def __init__(
        self,
        *,
        vocab_size: int = 50257,
        n_positions: int = 1024,
        n_embd: int = 768,
        n_layer: int = 12,
        n_head: int = 12,
        n_inner: int | None = None,
        activation_function: str = "gelu_new",
        layer_norm_epsilon: float = 1e-5,
        tie_word_embeddings: bool = True,
        head: bool = True,
    ) -> None:
        norm = partial(nn.LayerNorm, n_embd, eps=layer_norm_epsilon)
        self.length = n_positions
        self.words, self.places = nn.Embedding(vocab_size, n_embd), nn.Embedding(n_positions, n_embd)
        self.blocks = [
            Block(norm, Attention(n_embd, n_head), Perceptron(n_embd, n_inner or 4 * n_embd, activation_function))
            for _ in range(n_layer)
        ]
        self.norm = norm()
        self._finish(vocab_size, n_embd, head, tie_word_embeddings)

    def _embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, dict[str, Any]]:
        return self.words(ids) + self.places(positions), {}


class Llama(Decoder):
    """Llama (Touvron et al. 2023), with the rotations of Su et al. 2021.

    Parameters
    ----------
    vocab_size, hidden_size : int
        The numbers of words and of features.
    intermediate_size : int
        The width of the perceptrons.
    num_hidden_layers, num_attention_heads : int
        The numbers of blocks, and of heads in each.
    num_key_value_heads : int, optional
        How many heads keys and values have, which several heads of queries share; by default as many.
    head_dim : int, optional
        Features of a head; by default `hidden_size` divided by the heads.
    hidden_act : str
        The activation of the perceptrons.
    max_position_embeddings : int
        The most positions.
    rms_norm_eps : float
        Added to the mean of squares in norms.
    attention_bias, mlp_bias : bool
        Whether attention and perceptrons have biases.
    rope_theta : float
        The base of the frequencies of rotations.
    rope_scaling, rope_parameters : dict, optional
        How frequencies are scaled for longer texts; the second overrides the first, and `rope_theta`.
    rope_interleaved : bool
        Which features are turned together: neighbours, as in the paper and in Meta's files, or those half a head apart,
        as in files of transformers.
    tie_word_embeddings : bool
        Whether the head has the weights of the embedding.
    head : bool
        Whether words are scored; without it the result is the features.

    Raises
    ------
    ValueError
        For a kind of scaling that is not known.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import Llama
    >>> model = Llama(vocab_size=50, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2)
    >>> model(mg.zeros((1, 5), dtype="int64")).shape
    (1, 5, 50)
    """

    def __init__(
        self,
        *,
        vocab_size: int = 32000,
        hidden_size: int = 4096,
        intermediate_size: int = 11008,
        num_hidden_layers: int = 32,
        num_attention_heads: int = 32,
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        hidden_act: str = "silu",
        max_position_embeddings: int = 2048,
        rms_norm_eps: float = 1e-6,
        attention_bias: bool = False,
        mlp_bias: bool = False,
        rope_theta: float = 10000.0,
        rope_scaling: dict[str, Any] | None = None,
        rope_parameters: dict[str, Any] | None = None,
        rope_interleaved: bool = False,
        tie_word_embeddings: bool = False,
        head: bool = True,
    ) -> None:
        norm = partial(nn.RMSNorm, hidden_size, eps=rms_norm_eps)
        self.length, self.rope_interleaved = max_position_embeddings, rope_interleaved
        self.words = nn.Embedding(vocab_size, hidden_size)
        self.blocks = [
            Block(
                norm,
                Attention(
                    hidden_size, num_attention_heads, shared=num_key_value_heads, features=head_dim, bias=attention_bias
                ),
                GatedPerceptron(hidden_size, intermediate_size, hidden_act, mlp_bias),
            )
            for _ in range(num_hidden_layers)
        ]
        self.norm = norm()
        self.frequencies = frequencies(
            head_dim or hidden_size // num_attention_heads,
            {"rope_theta": rope_theta, **(rope_scaling or {}), **(rope_parameters or {})},
        )
        self._finish(vocab_size, hidden_size, head, tie_word_embeddings)

    def _embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, dict[str, Any]]:
        x = self.words(ids)
        turns = mg.asarray(self.frequencies, dtype="float32", device=ids.device)
        angles = positions.astype("float32")[..., None, :, None] * turns
        sines, cosines = mg.sin(angles).astype(x.dtype), mg.cos(angles).astype(x.dtype)
        return x, {"turn": partial(_turned, sines, cosines, self.rope_interleaved)}


def _turned(sines: Tensor, cosines: Tensor, interleaved: bool, x: Tensor) -> Tensor:
    """Pairs of features, turned by the angle of their position and frequency."""
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = a * cosines - b * sines, b * cosines + a * sines
    found: Tensor = mg.stack(turned, axis=-1).reshape(x.shape) if interleaved else mg.concat(turned, axis=-1)
    return found


def _linear(turns: list[float], told: dict[str, Any]) -> list[float]:
    return [turn / told["factor"] for turn in turns]


def _llama3(turns: list[float], told: dict[str, Any]) -> list[float]:
    """Slow turns become slower, quick ones stay, and between there is a mixture (Llama 3.1)."""
    low, high, length = told["low_freq_factor"], told["high_freq_factor"], told["original_max_position_embeddings"]
    found = []
    for turn in turns:
        quick = (length * turn / (2 * math.pi) - low) / (high - low)
        share = min(max(quick, 0.0), 1.0)
        found.append(share * turn + (1 - share) * turn / told["factor"])
    return found


SCALINGS: Final[dict[str, Callable[[list[float], dict[str, Any]], list[float]]]] = {
    "default": lambda turns, told: turns,
    "linear": _linear,
    "llama3": _llama3,
}


def frequencies(features: int, told: dict[str, Any]) -> list[float]:
    """Radians per position of each pair of features, by what config.json says of them.

    Raises
    ------
    ValueError
        For a kind of scaling that is not known here.
    """
    kind = told.get("rope_type", told.get("type", "default"))
    if kind not in SCALINGS:
        raise ValueError(f"Llama: there is no rope_type {kind!r}; there are {mg.errors.one_of(SCALINGS)}")
    return SCALINGS[kind]([told["rope_theta"] ** (-2 * i / features) for i in range(features // 2)], told)
