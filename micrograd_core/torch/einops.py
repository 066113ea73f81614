"""einops of tensors: once this module is imported, einops' own functions take them, and its layers are here.

It needs ``pip install einops``.
"""

from __future__ import annotations

from typing import Any

from einops import (
    einsum as einsum,
    pack as pack,
    rearrange as rearrange,
    reduce as reduce,
    repeat as repeat,
    unpack as unpack,
)
from einops._backends import AbstractBackend
from einops.layers import RearrangeMixin, ReduceMixin

import micrograd_core as mg
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn import Module


class TensorBackend(AbstractBackend):  # type: ignore[misc]
    """What einops asks of an array library; it finds this class by its base."""

    framework_name = "micrograd_core"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether an array is ours."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """A tensor of a NumPy array."""
        return mg.asarray(x)

    def to_numpy(self, x: Tensor) -> Any:
        """A NumPy array of a tensor."""
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """The integers between two."""
        return mg.arange(start, stop)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """Tensors along a new first axis."""
        return mg.stack(tensors)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """New axes of some lengths."""
        repeats = [-1] * n_axes
        for place, length in pos2len.items():
            x = x.expand_dims(place)
            repeats[place] = length
        return x.expand(*repeats)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        """Tensors one after the other."""
        return mg.concat(tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Whether the numbers are floating-point."""
        return x.dtype.is_floating

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """Einstein's sum."""
        return mg.einsum(pattern, *x)


class Rearrange(RearrangeMixin, Module):  # type: ignore[misc]
    """``einops.rearrange`` as a layer.

    Parameters
    ----------
    pattern : str
        The axes before and after, in words of einops.
    **axes_lengths : int
        Lengths of axes by name.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.torch.einops import Rearrange
    >>> Rearrange("b h w -> b (h w)")(mg.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Rearrange the axes.

        Parameters
        ----------
        x : Tensor
            Of a shape that fits the pattern.

        Returns
        -------
        Tensor

        Raises
        ------
        EinopsError
            When the shape does not fit.
        """
        return self._apply_recipe(x)


class Reduce(ReduceMixin, Module):  # type: ignore[misc]
    """``einops.reduce`` as a layer.

    Parameters
    ----------
    pattern : str
        The axes before and after, in words of einops.
    reduction : str
        ``"mean"``, ``"sum"``, ``"max"``, ``"min"`` or ``"prod"``.
    **axes_lengths : int
        Lengths of axes by name.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.torch.einops import Reduce
    >>> Reduce("b c h w -> b c", "mean")(mg.zeros((2, 3, 4, 4))).shape
    (2, 3)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes that the pattern leaves out.

        Parameters
        ----------
        x : Tensor
            Of a shape that fits the pattern.

        Returns
        -------
        Tensor

        Raises
        ------
        EinopsError
            When the shape does not fit.
        """
        return self._apply_recipe(x)
