"""Residual networks (He et al. 2015). The arguments have the names that config.json gives them."""

from __future__ import annotations

from collections.abc import Sequence

import micrograd_core as mg
from micrograd_core import Tensor, nn
from micrograd_core.errors import one_of
from micrograd_models.blocks import Activation


class _Convolution(nn.Module):
    """A convolution without bias, and a norm."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        self.convolution = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, outputs, …)."""
        return self.norm(self.convolution(x))


class _Residual(nn.Module):
    """Convolutions, added to their input, which a convolution brings into shape where it must."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, layers: list[_Convolution], function: Activation
    ) -> None:
        self.shortcut = _Convolution(inputs, outputs, 1, stride) if inputs != outputs or stride != 1 else None
        self.layers, self.function = layers, function

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, outputs, …)."""
        y = x
        for i, layer in enumerate(self.layers):
            y = layer(y if i == 0 else self.function(y))
        return self.function(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """A residual network for images.

    Parameters
    ----------
    num_channels, embedding_size : int
        The channels of an image, and those after the first convolution.
    hidden_sizes, depths : sequence of int
        The channels of each stage, and how many blocks it has.
    layer_type : {"basic", "bottleneck"}
        Two convolutions in a block, or three, of which the middle one is narrow.
    hidden_act : str
        The activation.
    downsample_in_first_stage : bool
        Whether the first stage halves height and width, too.
    downsample_in_bottleneck : bool
        Whether the first convolution of a bottleneck halves them, rather than the second.
    classes : int, optional
        How many classes the head scores; without it the result is the last features.

    Raises
    ------
    ValueError
        For another `layer_type`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import ResNet
    >>> model = ResNet(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", classes=3)
    >>> images = mg.zeros((2, 3, 32, 32))
    >>> model(images).shape, model.features(images).shape
    ((2, 3), (2, 8, 4, 4))
    """

    def __init__(
        self,
        *,
        num_channels: int = 3,
        embedding_size: int = 64,
        hidden_sizes: Sequence[int] = (256, 512, 1024, 2048),
        depths: Sequence[int] = (3, 4, 6, 3),
        layer_type: str = "bottleneck",
        hidden_act: str = "relu",
        downsample_in_first_stage: bool = False,
        downsample_in_bottleneck: bool = False,
        classes: int | None = None,
    ) -> None:
        if layer_type not in ("basic", "bottleneck"):
            raise ValueError(f"ResNet: no layer_type {layer_type!r}; there are {one_of(['basic', 'bottleneck'])}")
        self.function = Activation(hidden_act)
        self.stem = _Convolution(num_channels, embedding_size, 7, 2)
        self.stages: list[list[_Residual]] = []
        inputs = embedding_size
        for i, (outputs, depth) in enumerate(zip(hidden_sizes, depths, strict=True)):
            self.stages.append([])
            for j in range(depth):
                stride = 2 if j == 0 and (i > 0 or downsample_in_first_stage) else 1
                if layer_type == "basic":
                    layers = [_Convolution(inputs, outputs, 3, stride), _Convolution(outputs, outputs, 3)]
                else:
                    narrow, first = outputs // 4, stride if downsample_in_bottleneck else 1
                    layers = [
                        _Convolution(inputs, narrow, 1, first), _Convolution(narrow, narrow, 3, stride // first),
                        _Convolution(narrow, outputs, 1),
                    ]  # fmt: skip
                self.stages[i].append(_Residual(inputs, outputs, stride, layers, self.function))
                inputs = outputs
        self.head = None if classes is None else nn.Linear(inputs, classes)

    def features(self, images: Tensor) -> Tensor:
        """Compute the features of the last stage.

        Parameters
        ----------
        images : Tensor, (batch, channels, height, width)
            Of any size.

        Returns
        -------
        Tensor, (batch, features, height / 4 / 2**(stages - 1), width / 4 / 2**(stages - 1))

        Raises
        ------
        ShapeError
            When the images have other axes or channels.
        """
        x = nn.functional.max_pool2d(self.function(self.stem(images)), 3, stride=2, padding=1)
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return x  # type: ignore[no-any-return]

    def forward(self, images: Tensor) -> Tensor:
        """Compute the features, and what the head makes of their means.

        Parameters
        ----------
        images : Tensor, (batch, channels, height, width)
            Of any size.

        Returns
        -------
        Tensor, (batch, classes)
            Without a head the features.

        Raises
        ------
        ShapeError
            When the images have other axes or channels.
        """
        x = self.features(images)
        return x if self.head is None else self.head(mg.mean(x, axis=(2, 3)))
