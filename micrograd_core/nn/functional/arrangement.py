"""Elements in other places: padding, patches as columns, pixels into channels and back, one-hot rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, of_operations, publish, with_batch, without_batch
from micrograd_core.ops.network.patches import lengths_of, per_axis
from micrograd_core.ops.shared import chosen

PADDINGS: Final = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Modes of `pad`, and what NumPy, and the operation, call them."""


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """More elements before and after each axis, from the last axis on; a negative number removes elements.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    pad : sequence of int
        How many elements before and after the last axis, then the axis before it, and so on.
    mode : str
        ``'constant'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.
    value : float, optional
        The constant; 0 by default.

    Returns
    -------
    Tensor
        Of the dtype of `input`.

    Raises
    ------
    ShapeError, ValueError
        When `pad` is not pairs, has more pairs than axes, or removes more than an axis has; or `mode` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 2))
    >>> y = F.pad(x, (1, 2))
    >>> y
    Tensor([[0., 1., 1., 0., 0.]])
    """
    x, given = asarray(input), list(pad)
    if len(given) % 2 or len(given) > 2 * x.ndim:
        raise ShapeError(f"pad: {given} is not a pair (before, after) for each of the last axes of shape {x.shape}")
    chosen("pad", "mode", mode, PADDINGS)
    if mode != "constant" and value not in (None, 0):
        raise ValueError(f"pad: mode {mode!r} repeats elements of the tensor, and takes no value; got {value!r}")
    pairs = [(0, 0)] * (x.ndim - len(given) // 2) + list(zip(given[::2], given[1::2], strict=True))[::-1]
    if any(n + before + after < 0 for n, (before, after) in zip(x.shape, pairs, strict=True)):
        raise ShapeError(f"pad: {given} takes away more than there is of shape {x.shape}")
    x = x if mode != "circular" else _cropped(x, pairs)  # a circle closes where it was cut, a mirror stays
    widths = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if any(map(any, widths)):
        constant = {"constant_values": value or 0} if mode == "constant" else {}
        x = T["pad"](x, widths, PADDINGS[mode], **constant)
    return x if mode == "circular" else _cropped(x, pairs)


def _cropped(x: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    if all(min(pair) >= 0 for pair in pairs):
        return x
    ends = zip(x.shape, pairs, strict=True)
    return x[tuple(slice(max(-before, 0), n - max(-after, 0)) for n, (before, after) in ends)]


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The patches of an image as columns: (batch, channels, height, width) to (batch, channels * kernel, positions).

    Parameters
    ----------
    input : Tensor
        (batch, channels, height, width), or without the batch.
    kernel_size : int, or one for each axis
        The lengths of a patch.
    dilation : int, or one for each axis
        How far apart the elements of a patch are.
    padding : int, or one for each axis
        Zeros on both sides.
    stride : int, or one for each axis
        How far apart patches are.

    Returns
    -------
    Tensor
        (batch, channels * kernel, positions).

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 3, 4, 4))
    >>> y = F.unfold(x, 2)
    >>> y.shape
    (1, 12, 9)
    """
    x, absent = with_batch("unfold", input, 2)
    kernel = per_axis("unfold", "kernel_size", kernel_size, 2, 0)
    patches = T["patches"](x, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation)
    positions = math.prod(patches.shape[4:])
    return without_batch(patches.reshape(x.shape[0], x.shape[1] * math.prod(kernel), positions), absent)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns added up where `unfold` found them: (batch, channels * kernel, positions) to (batch, channels, *size).

    Parameters
    ----------
    input : Tensor
        (batch, channels * kernel, positions), or without the batch.
    output_size : int, or one for each axis
        Height and width of the result.
    kernel_size : int, or one for each axis
        The lengths of a patch.
    dilation : int, or one for each axis
        How far apart the elements of a patch are.
    padding : int, or one for each axis
        Zeros on both sides.
    stride : int, or one for each axis
        How far apart patches are.

    Returns
    -------
    Tensor
        (batch, channels, *output_size).

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 4, 4))
    >>> y = F.fold(x, 4, kernel_size=2, stride=2)
    >>> y.shape
    (1, 1, 4, 4)
    """
    x = asarray(input)
    absent = x.ndim == 2
    x = x.expand_dims(0) if absent else x
    given = {"output_size": output_size, "kernel_size": kernel_size, "dilation": dilation, "padding": padding,
             "stride": stride}  # fmt: skip
    size, kernel, spread, around, steps = (per_axis("fold", what, value, 2, 0) for what, value in given.items())
    lengths = lengths_of("fold", size, kernel, steps, around, spread)
    elements = math.prod(kernel)
    if x.ndim != 3 or x.shape[1] % elements or x.shape[2] != math.prod(lengths):
        raise ShapeError(
            f"fold: the input is (batch, channels * {elements}, {math.prod(lengths)} positions) for output {size} and "
            f"kernel {kernel}; got shape {asarray(input).shape}"
        )
    patches = x.reshape(x.shape[0], x.shape[1] // elements, *kernel, *lengths)
    return without_batch(
        T["patches_gradient"](patches, size=size, kernel_size=kernel, stride=steps, padding=around, dilation=spread),
        absent,
    )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 where the class is; without `num_classes` as many as the greatest index asks for.

    Parameters
    ----------
    tensor : Tensor
        Integers, of any shape.
    num_classes : int
        How many columns; -1 for one more than the greatest index.

    Returns
    -------
    Tensor
        Of dtype int64 and shape (*tensor.shape, classes).

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([0, 2])
    >>> y = F.one_hot(x, 3)
    >>> y
    Tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    x = asarray(tensor)
    count = num_classes if num_classes >= 0 else int(x.max().item()) + 1
    return T["one_hot"](x, count, dtype="int64")


of_operations(
    globals(), "input", "pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle=channel_shuffle"
)
publish(globals())
