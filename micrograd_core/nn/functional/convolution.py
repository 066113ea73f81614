"""Products with weights: linear and bilinear layers, convolutions and their transposes over one to three axes.

An input may come without a batch.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.nn.functional.common import T, per_axis, with_batch, without_batch


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``."""
    x, w = asarray(input), asarray(weight)
    if w.ndim == 1:  # one feature comes out, and no axis for it
        return x @ w if bias is None else x @ w + bias
    return T["linear"](x, w, 0.0 if bias is None else bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[o] @ input2 + bias[o]`` for each output feature `o`."""
    return T["bilinear"](input1, input2, weight, bias)


def _convolution(
    name: str, rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    x, absent = with_batch(name, input, rank)
    steps, spread = per_axis(name, "stride", stride, rank), per_axis(name, "dilation", dilation, rank)
    around = padding if isinstance(padding, str) else per_axis(name, "padding", padding, rank)
    out = T[name](x, weight, bias, stride=steps, padding=around, dilation=spread, groups=groups)
    return without_batch(out, absent)


def _transposed(
    name: str, rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    x, absent = with_batch(name, input, rank)
    weight = asarray(weight)
    given = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
    sizes = {what: per_axis(name, what, value, rank) for what, value in given.items()}
    return without_batch(T[name](x, weight, bias, groups=groups, **sizes), absent)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (batch, channels, length) with a weight (outputs, inputs / groups, *kernel)."""
    return _convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (batch, channels, height, width) with a weight (outputs, inputs / groups, *kernel)."""
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (batch, channels, depth, height, width) and (outputs, inputs / groups, *kernel)."""
    return _convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv1d`, with a weight (inputs, outputs / groups, *kernel)."""
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv2d`, with a weight (inputs, outputs / groups, *kernel)."""
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv3d`, with a weight (inputs, outputs / groups, *kernel)."""
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of (length, batch, channels) with a weight (kernel, inputs, outputs)."""
    x, w = asarray(input).permute_dims(1, 2, 0), asarray(weight).permute_dims(2, 1, 0)
    return conv1d(x, w, bias, padding=pad).permute_dims(2, 0, 1)
