"""Modules that arrange elements: shuffles, patches, resampling, padding; and dropout of more than single elements."""

# What each does, and its parameters, its function says.
# ruff: noqa: D101

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from micrograd_core.array.tensor import Tensor
from micrograd_core.errors import ShapeError
from micrograd_core.nn import functional
from micrograd_core.nn.call import Call
from micrograd_core.nn.module import Module


# fmt: off
class PixelShuffle(Call, function=functional.pixel_shuffle): ...
class PixelUnshuffle(Call, function=functional.pixel_unshuffle): ...
class ChannelShuffle(Call, function=functional.channel_shuffle): ...
class Fold(Call, function=functional.fold): ...
class Unfold(Call, function=functional.unfold): ...
class Upsample(Call, function=functional.interpolate): ...
class UpsamplingNearest2d(Call, function=functional.upsample_nearest): ...
class UpsamplingBilinear2d(Call, function=functional.upsample_bilinear): ...
class LocalResponseNorm(Call, function=functional.local_response_norm): ...
class Dropout1d(Call, function=functional.dropout1d): ...
class Dropout2d(Call, function=functional.dropout2d): ...
class Dropout3d(Call, function=functional.dropout3d): ...
class AlphaDropout(Call, function=functional.alpha_dropout): ...
class FeatureAlphaDropout(Call, function=functional.feature_alpha_dropout): ...
# fmt: on


class _Pad(Module):
    """More elements around the last axes, as `functional.pad` puts them there.

    Parameters
    ----------
    padding : int, or sequence of int
        How many on each side, or before and after the last axis, then before and after the one before it.
    """

    axes: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.axes:
            raise ShapeError(f"{type(self).__name__}: padding is an integer, or {2 * self.axes} of them; got {padding}")
        self.value: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, *spatial), or without the batch."""
        return functional.pad(x, self.padding, self.mode, self.value)

    def facts(self) -> str:
        """The padding, and what is put there."""
        return f"{self.padding}" if self.value is None else f"{self.padding}, value={self.value}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class _ZeroPad(_Pad):
    mode = "constant"


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"


class ConstantPad1d(_ConstantPad):
    """A constant around the last axis."""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """A constant around the last 2 axes."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """A constant around the last 3 axes."""

    axes = 3


class ZeroPad1d(_ZeroPad):
    """Zeros around the last axis."""

    axes = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around the last 2 axes."""

    axes = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last 3 axes."""

    axes = 3


class ReflectionPad1d(_ReflectionPad):
    """What lies on the other side of the edge, the edge itself not again, around the last axis."""

    axes = 1


class ReflectionPad2d(_ReflectionPad):
    """What lies on the other side of the edge, the edge itself not again, around the last 2 axes."""

    axes = 2


class ReflectionPad3d(_ReflectionPad):
    """What lies on the other side of the edge, the edge itself not again, around the last 3 axes."""

    axes = 3


class ReplicationPad1d(_ReplicationPad):
    """The edge, again and again, around the last axis."""

    axes = 1


class ReplicationPad2d(_ReplicationPad):
    """The edge, again and again, around the last 2 axes."""

    axes = 2


class ReplicationPad3d(_ReplicationPad):
    """The edge, again and again, around the last 3 axes."""

    axes = 3


class CircularPad1d(_CircularPad):
    """What lies at the other end around the last axis."""

    axes = 1


class CircularPad2d(_CircularPad):
    """What lies at the other end around the last 2 axes."""

    axes = 2


class CircularPad3d(_CircularPad):
    """What lies at the other end around the last 3 axes."""

    axes = 3
