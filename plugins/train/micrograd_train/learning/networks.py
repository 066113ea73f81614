"""The networks that ``--model`` names, for examples of any shape."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from micrograd_core import nn
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.errors import MicrogradError
from micrograd_core.nn import Module, Sequential
from micrograd_core.nn.initialization import Generator, parameter

NAMES = ("mlp", "cnn", "transformer")


class ModelError(MicrogradError, ValueError):
    """A network cannot be made as asked."""


class Wanted(NamedTuple):
    """What a network is to be made for."""

    shape: tuple[int, ...]
    """Of one example."""
    outputs: int
    """How many numbers it gives for an example, or for each position of a sequence."""
    tokens: int = 0
    """How many different tokens there are, where examples are sequences of such."""
    hidden: tuple[int, ...] = (256,)
    dropout: float = 0.0


class SequenceTransformer(Module):
    """Blocks of attention over tokens, and the scores of each class at each position.

    Parameters
    ----------
    length, tokens, outputs : int
        Positions at most, different tokens, and classes.
    features, heads, blocks : int
        Width, and what `TransformerBlock` takes; how many there are.
    causal : bool
        Whether positions see only those before them.
    generator, device
        As for `Linear`.
    """

    def __init__(
        self,
        length: int,
        tokens: int,
        outputs: int,
        features: int = 64,
        heads: int = 4,
        blocks: int = 2,
        causal: bool = False,
        generator: Generator | None = None,
        device: str | Device | None = None,
    ) -> None:
        made: dict[str, Any] = {"generator": generator, "device": device}
        self.causal = causal
        self.embedding = nn.Embedding(tokens, features, **made)
        self.positions = parameter((length, features), "normal", **made)
        self.blocks = [nn.TransformerBlock(features, heads, **made) for _ in range(blocks)]
        self.norm = nn.LayerNorm(features, device=device)
        self.head = nn.Linear(features, outputs, **made)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, positions) of tokens to (batch, positions, classes)."""
        seen = self.embedding(x) + self.positions[: x.shape[1]]
        for block in self.blocks:
            seen = block(seen, is_causal=self.causal)
        return self.head(self.norm(seen))


class TableTransformer(Module):
    """A token for each number of an example, blocks of attention over them, and their mean (Gorishniy et al. 2021).

    Parameters
    ----------
    inputs, outputs : int
    features, heads, blocks, generator, device
        As for `SequenceTransformer`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        features: int = 32,
        heads: int = 4,
        blocks: int = 2,
        generator: Generator | None = None,
        device: str | Device | None = None,
    ) -> None:
        made: dict[str, Any] = {"generator": generator, "device": device}
        self.scale = parameter((inputs, features), "normal", **made)
        self.shift = parameter((inputs, features), "normal", **made)
        self.blocks = [nn.TransformerBlock(features, heads, **made) for _ in range(blocks)]
        self.norm = nn.LayerNorm(features, device=device)
        self.head = nn.Linear(features, outputs, **made)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs) to (batch, outputs)."""
        seen = x.reshape((*x.shape, 1)) * self.scale + self.shift
        for block in self.blocks:
            seen = block(seen)
        return self.head(self.norm(FUNCTIONS["mean"](seen, axis=1)))


CLASSES = (SequenceTransformer, TableTransformer)
"""What is in a checkpoint beside the layers of `nn`: for ``load_model(path, classes=CLASSES)``."""


def mlp(sizes: Sequence[int], generator: Generator, device: Device, dropout: float = 0.0) -> Sequential:
    """Linear layers of these sizes with ReLU between them, and dropout where there is any."""
    layers: list[Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, generator=generator, device=device), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
    return Sequential(*layers[: -2 if dropout else -1])


def cnn(wanted: Wanted, generator: Generator, device: Device) -> Sequential:
    """Pairs of convolutions with a normalisation, halving the image until it is small, then a layer for all of it."""
    channels, height, width = wanted.shape
    made: dict[str, Any] = {"generator": generator, "device": device}
    layers: list[Module] = []
    features = 32
    while True:
        for _ in range(2):
            layers += [
                nn.Conv2d(channels, features, 3, padding=1, bias=False, **made),
                nn.BatchNorm2d(features, device=device),
                nn.ReLU(),
            ]
            channels = features
        if min(height, width) >= 2:
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        if max(height, width) <= 8 or min(height, width) < 4:
            break
        features = min(2 * features, 128)
    dropout = wanted.dropout
    last = wanted.hidden[-1] if wanted.hidden else 128
    layers += [nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels * height * width, last, **made), nn.ReLU()]
    return Sequential(*layers, nn.Dropout(dropout), nn.Linear(last, wanted.outputs, **made))


def make(name: str, wanted: Wanted, generator: Generator, device: Device) -> Module:
    """The network that is called so; or what ``module:function`` gives for ``(shape, outputs)`` of an example.

    Raises
    ------
    ModelError
        When there is none such, or it does not fit the examples.
    """
    if ":" in name:
        return _own(name, wanted)
    if name not in NAMES:
        raise ModelError(
            f"--model takes {', '.join(NAMES)}, or module:function, which makes a network of your own; got {name!r}"
        )
    if name == "cnn":
        if len(wanted.shape) != 3:
            raise ModelError(
                f"--model cnn is for images (channels, height, width), and an example here has shape {wanted.shape}; "
                "use --model mlp"
            )
        return cnn(wanted, generator, device)
    if name == "transformer":
        made: dict[str, Any] = {"generator": generator, "device": device}
        if wanted.tokens:
            return SequenceTransformer(wanted.shape[0], wanted.tokens, wanted.outputs, **made)
        if len(wanted.shape) == 1:
            return TableTransformer(wanted.shape[0], wanted.outputs, **made)
        raise ModelError(
            f"--model transformer is for tables and sequences, and an example here has shape {wanted.shape}; "
            "use --model cnn"
        )
    if wanted.tokens:
        raise ModelError("--model mlp is for tables and images; sequences take --model transformer")
    return mlp([wanted.shape[0], *wanted.hidden, wanted.outputs], generator, device, wanted.dropout)


def _own(name: str, wanted: Wanted) -> Module:
    where, _, what = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as for `python -m`: a module beside the data is found
    try:
        function: Any = importlib.import_module(where)
        for part in what.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelError(f"--model {name}: {error}; it names a module and a function in it, as mine:network") from error
    try:
        made = function(wanted.shape, wanted.outputs)
    except TypeError as error:
        raise ModelError(
            f"--model {name}: it is called with the shape of an example and a number of outputs: {error}"
        ) from error
    if not isinstance(made, Module):
        raise ModelError(f"--model {name} gave a {type(made).__name__}; what is trained is a micrograd_core.nn.Module")
    if not made.parameters():
        raise ModelError(f"--model {name} gave a network without parameters; there is nothing to train")
    return made
