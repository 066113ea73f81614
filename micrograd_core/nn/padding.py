"""Padding as modules: constants, or elements of the input, around the spatial axes."""

# ruff: noqa: D101

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from micrograd_core.array.tensor import Tensor
from micrograd_core.errors import ShapeError
from micrograd_core.nn import functional
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.initialization import OverAxes


class _Pad(OverAxes):
    """More elements around the last axes, as `functional.pad` puts them there.

    Parameters
    ----------
    padding : int, or sequence of int
        How many on each side, or before and after the last axis, then before and after the one before it.
    """

    mode: ClassVar[str] = "constant"

    def __init_subclass__(cls, mode: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.mode = mode or cls.mode

    def __init__(self, padding: int | Sequence[int]) -> None:
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.rank:
            raise ShapeError(f"{type(self).__name__}: padding is an integer, or {2 * self.rank} of them; got {padding}")
        self.value: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Put elements around the spatial axes.

        Parameters
        ----------
        x : Tensor, (batch, channels, *spatial)
            Or without the batch.

        Returns
        -------
        Tensor
            With longer spatial axes.

        Raises
        ------
        ShapeError
            When the padding does not fit the shape.
        """
        return functional.pad(x, self.padding, self.mode, self.value)

    def facts(self) -> str:
        """The padding, and what is put there."""
        return f"{self.padding}" if self.value is None else f"{self.padding}, value={self.value}"


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad2d(_ConstantPad):
    """A constant around the spatial axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
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


class ZeroPad2d(_Pad):
    """Zeros around the spatial axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
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


class ReflectionPad2d(_Pad, mode="reflect"):
    """The input mirrored at its edge around the spatial axes; the edge is not repeated.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
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


class ReplicationPad2d(_Pad, mode="replicate"):
    """The edge repeated around the spatial axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
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


class CircularPad2d(_Pad, mode="circular"):
    """The input continued from its other end around the spatial axes.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
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


class ConstantPad1d(_ConstantPad, rank=1): ...


class ConstantPad3d(_ConstantPad, rank=3): ...


class ZeroPad1d(_Pad, rank=1): ...


class ZeroPad3d(_Pad, rank=3): ...


class ReflectionPad1d(_Pad, rank=1, mode="reflect"): ...


class ReflectionPad3d(_Pad, rank=3, mode="reflect"): ...


class ReplicationPad1d(_Pad, rank=1, mode="replicate"): ...


class ReplicationPad3d(_Pad, rank=3, mode="replicate"): ...


class CircularPad1d(_Pad, rank=1, mode="circular"): ...


class CircularPad3d(_Pad, rank=3, mode="circular"): ...


publish(globals())
