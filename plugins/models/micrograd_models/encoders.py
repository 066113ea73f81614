"""Transformers that look at all positions at once: BERT, ViT, and Whisper's encoder.

The arguments have the names that config.json gives them.
"""

from __future__ import annotations

from functools import partial

import micrograd_core as mg
from micrograd_core import Tensor, nn
from micrograd_models.blocks import Activation, Attention, Block, Perceptron


class _Transform(nn.Module):
    """What BERT does with features before it scores words."""

    def __init__(self, width: int, function: str, norm: nn.Module) -> None:
        self.dense, self.norm, self.function = nn.Linear(width, width), norm, Activation(function)

    def forward(self, x: Tensor) -> Tensor:
        """(…, width), and the same."""
        return self.norm(self.function(self.dense(x)))  # type: ignore[no-any-return]


class BERT(nn.Module):
    """BERT (Devlin et al. 2018), and the sentence encoders that are made like it, such as MiniLM.

    Parameters
    ----------
    vocab_size, hidden_size : int
        The numbers of words and of features.
    num_hidden_layers, num_attention_heads : int
        The numbers of blocks, and of heads in each.
    intermediate_size : int
        The width of the perceptrons.
    hidden_act : str
        Their activation.
    max_position_embeddings, type_vocab_size : int
        The most positions, and the number of kinds of sentences.
    layer_norm_eps : float
        Added to the variance in norms.
    tie_word_embeddings : bool
        Whether the head for words has the weights of the embedding.
    classes : int
        How many classes the head scores.
    head : str, optional
        ``"words"`` scores the word at each position, ``"classes"`` scores classes of the whole text; without it the
        result is the features of each position.
    pooler : bool
        Whether there is the layer that reads the first position, as there is before classes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import BERT
    >>> model = BERT(vocab_size=50, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2)
    >>> ids = mg.zeros((1, 5), dtype="int64")
    >>> model(ids).shape, model.pooled(model.features(ids)).shape
    ((1, 5, 8), (1, 8))
    """

    def __init__(
        self,
        *,
        vocab_size: int = 30522,
        hidden_size: int = 768,
        num_hidden_layers: int = 12,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        hidden_act: str = "gelu",
        max_position_embeddings: int = 512,
        type_vocab_size: int = 2,
        layer_norm_eps: float = 1e-12,
        tie_word_embeddings: bool = True,
        classes: int = 2,
        head: str | None = None,
        pooler: bool = True,
    ) -> None:
        norm = partial(nn.LayerNorm, hidden_size, eps=layer_norm_eps)
        self.words = nn.Embedding(vocab_size, hidden_size)
        self.places = nn.Embedding(max_position_embeddings, hidden_size)
        self.kinds = nn.Embedding(type_vocab_size, hidden_size)
        self.norm = norm()
        self.blocks = [
            Block(
                norm,
                Attention(hidden_size, num_attention_heads),
                Perceptron(hidden_size, intermediate_size, hidden_act),
                norm_first=False,
            )
            for _ in range(num_hidden_layers)
        ]
        self.pooler = nn.Linear(hidden_size, hidden_size) if pooler or head == "classes" else None
        self.transform: _Transform | None = None
        self.head: nn.Linear | None = None
        if head == "words":
            self.transform = _Transform(hidden_size, hidden_act, norm())
            self.head = nn.Linear(hidden_size, vocab_size)
            if tie_word_embeddings:
                self.head.weight = self.words.weight
        elif head == "classes":
            self.head = nn.Linear(hidden_size, classes)

    def features(self, ids: Tensor, attention_mask: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        """Compute the features of each position, before a head.

        Parameters
        ----------
        ids : Tensor, (batch, positions)
            Integers: the words.
        attention_mask : Tensor, (batch, positions), optional
            Not 0 where there is a word, 0 where there is padding.
        kinds : Tensor, (batch, positions), optional
            Integers: to which of two sentences a word belongs.

        Returns
        -------
        Tensor, (batch, positions, features)

        Raises
        ------
        ShapeError, IndexError
            When there are too many positions, or a word is not known.
        """
        places = mg.arange(ids.shape[1], dtype="int64", device=ids.device)
        kind = mg.zeros_like(ids) if kinds is None else kinds
        x = self.norm(self.words(ids) + self.places(places) + self.kinds(kind))
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask=mask)
        return x

    def pooled(self, features: Tensor) -> Tensor:
        """Compute one vector for each row, from its first position, by a layer and tanh.

        Parameters
        ----------
        features : Tensor, (batch, positions, features)
            From `features`.

        Returns
        -------
        Tensor, (batch, features)

        Raises
        ------
        ValueError
            When the model has no pooler.
        """
        if self.pooler is None:
            raise ValueError("BERT: this model has no pooler; take model.features(ids).mean(axis=1), or pooler=True")
        found: Tensor = mg.tanh(self.pooler(features[:, 0]))
        return found

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        """Compute the features, and what the head makes of them.

        Parameters
        ----------
        ids : Tensor, (batch, positions)
            Integers: the words.
        attention_mask : Tensor, (batch, positions), optional
            Not 0 where there is a word, 0 where there is padding.
        kinds : Tensor, (batch, positions), optional
            Integers: to which of two sentences a word belongs.

        Returns
        -------
        Tensor, (batch, positions, words), (batch, classes) or (batch, positions, features)
            As the head says.

        Raises
        ------
        ShapeError, IndexError
            When there are too many positions, or a word is not known.
        """
        x = self.features(ids, attention_mask, kinds)
        if self.head is None:
            return x
        return self.head(self.pooled(x) if self.transform is None else self.transform(x))


class ViT(nn.Module):
    """A transformer that reads an image as a row of patches (Dosovitskiy et al. 2020).

    Parameters
    ----------
    hidden_size : int
        The number of features.
    num_hidden_layers, num_attention_heads : int
        The numbers of blocks, and of heads in each.
    intermediate_size : int
        The width of the perceptrons.
    hidden_act : str
        Their activation.
    layer_norm_eps : float
        Added to the variance in norms.
    image_size, patch_size, num_channels : int
        Height and width of an image and of a patch, and the channels of an image.
    qkv_bias : bool
        Whether the projections to queries, keys and values have biases.
    classes : int, optional
        How many classes the head scores; without it the result is the features of all patches, after those of the
        whole.
    pooler : bool
        Whether there is the layer that reads the features of the whole.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import ViT
    >>> model = ViT(
    ...     hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=16,
    ...     patch_size=8, classes=3, pooler=True,
    ... )
    >>> images = mg.zeros((2, 3, 16, 16))
    >>> model(images).shape, model.pooled(model.features(images)).shape
    ((2, 3), (2, 8))
    """

    def __init__(
        self,
        *,
        hidden_size: int = 768,
        num_hidden_layers: int = 12,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        hidden_act: str = "gelu",
        layer_norm_eps: float = 1e-12,
        image_size: int = 224,
        patch_size: int = 16,
        num_channels: int = 3,
        qkv_bias: bool = True,
        classes: int | None = None,
        pooler: bool = False,
    ) -> None:
        norm = partial(nn.LayerNorm, hidden_size, eps=layer_norm_eps)
        self.whole = nn.parameter((1, 1, hidden_size), "zeros")
        self.places = nn.parameter((1, (image_size // patch_size) ** 2 + 1, hidden_size), "normal")
        self.patches = nn.Conv2d(num_channels, hidden_size, patch_size, stride=patch_size)
        self.blocks = [
            Block(
                norm,
                Attention(hidden_size, num_attention_heads, bias=qkv_bias, output_bias=True),
                Perceptron(hidden_size, intermediate_size, hidden_act),
            )
            for _ in range(num_hidden_layers)
        ]
        self.norm = norm()
        self.pooler = nn.Linear(hidden_size, hidden_size) if pooler else None
        self.head = None if classes is None else nn.Linear(hidden_size, classes)

    def features(self, images: Tensor) -> Tensor:
        """Compute the features of the whole image, and of each patch.

        Parameters
        ----------
        images : Tensor, (batch, channels, height, width)
            Of the size that the model was made for.

        Returns
        -------
        Tensor, (batch, 1 + patches, features)

        Raises
        ------
        ShapeError
            When the images have another size.
        """
        x = self.patches(images)
        x = mg.permute_dims(x.reshape(*x.shape[:2], -1), (0, 2, 1))
        x = mg.concat([mg.broadcast_to(self.whole, (x.shape[0], 1, x.shape[2])), x], axis=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def pooled(self, features: Tensor) -> Tensor:
        """Compute one vector for each image, from the features of the whole, by a layer and tanh.

        Parameters
        ----------
        features : Tensor, (batch, 1 + patches, features)
            From `features`.

        Returns
        -------
        Tensor, (batch, features)

        Raises
        ------
        ValueError
            When the model has no pooler.
        """
        if self.pooler is None:
            raise ValueError("ViT: this model has no pooler; take model.features(images)[:, 0], or pooler=True")
        found: Tensor = mg.tanh(self.pooler(features[:, 0]))
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Compute the features, and what the head makes of them.

        Parameters
        ----------
        images : Tensor, (batch, channels, height, width)
            Of the size that the model was made for.

        Returns
        -------
        Tensor, (batch, classes)
            Without a head (batch, 1 + patches, features).

        Raises
        ------
        ShapeError
            When the images have another size.
        """
        x = self.features(images)
        return x if self.head is None else self.head(x[:, 0])


class WhisperEncoder(nn.Module):
    """The part of Whisper (Radford et al. 2022) that listens.

    Parameters
    ----------
    num_mel_bins, d_model : int
        The numbers of bins of a spectrum, and of features.
    encoder_layers, encoder_attention_heads : int
        The numbers of blocks, and of heads in each.
    encoder_ffn_dim : int
        The width of the perceptrons.
    activation_function : str
        Their activation.
    max_source_positions : int
        The number of positions.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import WhisperEncoder
    >>> model = WhisperEncoder(
    ...     num_mel_bins=4, d_model=8, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=16,
    ...     max_source_positions=10,
    ... )
    >>> model(mg.zeros((2, 4, 20))).shape
    (2, 10, 8)
    """

    def __init__(
        self,
        *,
        num_mel_bins: int = 80,
        d_model: int = 384,
        encoder_layers: int = 4,
        encoder_attention_heads: int = 6,
        encoder_ffn_dim: int = 1536,
        activation_function: str = "gelu",
        max_source_positions: int = 1500,
    ) -> None:
        norm = partial(nn.LayerNorm, d_model)
        self.conv1 = nn.Conv1d(num_mel_bins, d_model, 3, padding=1)
        self.conv2 = nn.Conv1d(d_model, d_model, 3, stride=2, padding=1)
        self.places = nn.Embedding(max_source_positions, d_model)
        self.blocks = [
            Block(
                norm,
                Attention(d_model, encoder_attention_heads, key_bias=False),
                Perceptron(d_model, encoder_ffn_dim, activation_function),
            )
            for _ in range(encoder_layers)
        ]
        self.norm = norm()

    def forward(self, spectrum: Tensor) -> Tensor:
        """Compute the features of each position.

        Parameters
        ----------
        spectrum : Tensor, (batch, bins, 2 * positions)
            Log-mel energies.

        Returns
        -------
        Tensor, (batch, positions, features)

        Raises
        ------
        ShapeError
            When the spectrum has another shape.
        """
        gelu = nn.functional.gelu
        x = gelu(self.conv2(gelu(self.conv1(spectrum))))
        x = mg.permute_dims(x, (0, 2, 1)) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
