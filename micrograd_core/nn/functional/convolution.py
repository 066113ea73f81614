"""Products with weights: linear and bilinear layers, convolutions and their transposes over one to three axes.

An input may come without a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.nn.functional.common import T, named, of_operations, publish, with_batch, without_batch


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor
        (..., features).
    weight : Tensor
        (outputs, features), or (features,).
    bias : Tensor, optional
        (outputs,).

    Returns
    -------
    Tensor
        (..., outputs), or (...,) for a weight (features,).

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, weight = mg.ones((2, 4)), mg.ones((3, 4))
    >>> y = F.linear(x, weight)
    >>> y.shape
    (2, 3)
    """
    x, w = asarray(input), asarray(weight)
    if w.ndim == 1:  # one feature comes out, and no axis for it
        return x @ w if bias is None else x @ w + bias
    return T["linear"](x, w, 0.0 if bias is None else bias)


def _family(rank: int) -> dict[str, Callable[..., Tensor]]:
    """The convolution over `rank` axes, and its transpose."""
    name, opposite = f"conv{rank}d", f"conv_transpose{rank}d"

    def conv(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """Cross-correlation of an input with a weight.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        weight : Tensor
            (outputs, inputs / groups, *kernel).
        bias : Tensor, optional
            (outputs,).
        stride, dilation : int, or one for each axis
            How far apart the positions of the kernel, and its elements, are.
        padding : int, or one for each axis, or str
            Zeros on both sides, ``'valid'`` for none, or ``'same'`` for a result as long as the input.
        groups : int
            How many groups of channels are convolved apart; divides inputs and outputs.

        Returns
        -------
        Tensor
            (batch, outputs, *positions), or without the batch.

        Raises
        ------
        ShapeError
            When shapes do not fit.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> weight = mg.ones((1, 1, 3, 3))
        >>> y = F.conv2d(x, weight, padding=1)
        >>> y.shape
        (1, 1, 8, 8)
        """
        x, absent = with_batch(name, input, rank)
        given = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups}
        return without_batch(T[name](x, weight, bias, **given), absent)

    def conv_transpose(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        """The transpose of a convolution: from its result back to its input.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        weight : Tensor
            (inputs, outputs / groups, *kernel).
        bias : Tensor, optional
            (outputs,).
        stride, padding, dilation, groups
            Those of the convolution.
        output_padding : int, or one for each axis
            The number added to the least length that the convolution could have come from; less than the stride or the
            dilation.

        Returns
        -------
        Tensor
            (batch, outputs, *lengths), or without the batch.

        Raises
        ------
        ShapeError
            When shapes do not fit.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> weight = mg.ones((1, 1, 2, 2))
        >>> y = F.conv_transpose2d(x, weight, stride=2)
        >>> y.shape
        (1, 1, 16, 16)
        """
        x, absent = with_batch(opposite, input, rank)
        given = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        return without_batch(T[opposite](x, asarray(weight), bias, groups=groups, **given), absent)

    return {name: named(conv, name, rank), opposite: named(conv_transpose, opposite, rank)}


MADE = {name: function for rank in (1, 2, 3) for name, function in _family(rank).items()}


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of (length, batch, channels) with a weight (kernel, inputs, outputs).

    Parameters
    ----------
    input : Tensor
        (length, batch, channels).
    weight : Tensor
        (kernel, inputs, outputs).
    bias : Tensor
        (outputs,).
    pad : int
        Zeros on both sides.

    Returns
    -------
    Tensor
        (positions, batch, outputs).

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, weight, bias = mg.ones((9, 2, 4)), mg.ones((3, 4, 5)), mg.zeros(5)
    >>> y = F.conv_tbc(x, weight, bias)
    >>> y.shape
    (7, 2, 5)
    """
    x, w = asarray(input).permute_dims(1, 2, 0), asarray(weight).permute_dims(2, 1, 0)
    return MADE["conv1d"](x, w, bias, padding=pad).permute_dims(2, 0, 1)


of_operations(globals(), "input1 input2 weight", "bilinear")
publish(globals())
