"""Modules that arrange elements: shuffles, patches, resampling, padding; and dropout of more than single elements."""

# What each does, and its parameters, its function says.
# ruff: noqa: D101

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from micrograd_core.array.tensor import Tensor
from micrograd_core.errors import ShapeError
from micrograd_core.nn import functional
from micrograd_core.nn.call import Call
from micrograd_core.nn.functional.common import publish
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

    axes: ClassVar[int] = 0
    mode: ClassVar[str] = "constant"

    def __init_subclass__(cls, axes: int = 0, mode: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.axes, cls.mode = axes or cls.axes, mode or cls.mode

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
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad1d(_ConstantPad, axes=1):
    """A constant around the last axis of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 2 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.
    value : float
        The constant.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3))
    >>> y = mg.nn.ConstantPad1d(1, 0.5)(x)
    >>> y.shape
    (1, 2, 5)
    """


class ConstantPad2d(_ConstantPad, axes=2):
    """A constant around the last 2 axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 4 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.
    value : float
        The constant.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ConstantPad2d(1, 0.5)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ConstantPad3d(_ConstantPad, axes=3):
    """A constant around the last 3 axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 6 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.
    value : float
        The constant.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3, 3))
    >>> y = mg.nn.ConstantPad3d(1, 0.5)(x)
    >>> y.shape
    (1, 2, 5, 5, 5)
    """


class ZeroPad1d(_Pad, axes=1):
    """Zeros around the last axis of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 2 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3))
    >>> y = mg.nn.ZeroPad1d(1)(x)
    >>> y.shape
    (1, 2, 5)
    """


class ZeroPad2d(_Pad, axes=2):
    """Zeros around the last 2 axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 4 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ZeroPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ZeroPad3d(_Pad, axes=3):
    """Zeros around the last 3 axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 6 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3, 3))
    >>> y = mg.nn.ZeroPad3d(1)(x)
    >>> y.shape
    (1, 2, 5, 5, 5)
    """


class ReflectionPad1d(_Pad, axes=1, mode="reflect"):
    """The input mirrored at its edge around the last axis; the edge is not repeated.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 2 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3))
    >>> y = mg.nn.ReflectionPad1d(1)(x)
    >>> y.shape
    (1, 2, 5)
    """


class ReflectionPad2d(_Pad, axes=2, mode="reflect"):
    """The input mirrored at its edge around the last 2 axes; the edge is not repeated.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 4 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ReflectionPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ReflectionPad3d(_Pad, axes=3, mode="reflect"):
    """The input mirrored at its edge around the last 3 axes; the edge is not repeated.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 6 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3, 3))
    >>> y = mg.nn.ReflectionPad3d(1)(x)
    >>> y.shape
    (1, 2, 5, 5, 5)
    """


class ReplicationPad1d(_Pad, axes=1, mode="replicate"):
    """The edge repeated around the last axis of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 2 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3))
    >>> y = mg.nn.ReplicationPad1d(1)(x)
    >>> y.shape
    (1, 2, 5)
    """


class ReplicationPad2d(_Pad, axes=2, mode="replicate"):
    """The edge repeated around the last 2 axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 4 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ReplicationPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ReplicationPad3d(_Pad, axes=3, mode="replicate"):
    """The edge repeated around the last 3 axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 6 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3, 3))
    >>> y = mg.nn.ReplicationPad3d(1)(x)
    >>> y.shape
    (1, 2, 5, 5, 5)
    """


class CircularPad1d(_Pad, axes=1, mode="circular"):
    """The input continued from its other end around the last axis.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 2 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3))
    >>> y = mg.nn.CircularPad1d(1)(x)
    >>> y.shape
    (1, 2, 5)
    """


class CircularPad2d(_Pad, axes=2, mode="circular"):
    """The input continued from its other end around the last 2 axes.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 4 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.CircularPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class CircularPad3d(_Pad, axes=3, mode="circular"):
    """The input continued from its other end around the last 3 axes.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or 6 of them
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3, 3))
    >>> y = mg.nn.CircularPad3d(1)(x)
    >>> y.shape
    (1, 2, 5, 5, 5)
    """


publish(globals())
