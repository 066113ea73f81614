"""Convolutions by cuDNN, or as products with patches; in their own dtype: half types are added up in float32."""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape
from micrograd_core.ops.network.convolution import transposed_size
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cuda.cudnn import NO_TENSOR_CORES, Convolved, math_type
from micrograd_cuda.geometry import ITEMSIZE, Steps
from micrograd_cuda.operands import copied, is_number, name_of, planned_of_elements
from micrograd_cuda.windows import Windows

LEAST: Final = {"Forward": 16, "BackwardData": 32, "BackwardFilter": 8}
"""Channels of the image from which on cuDNN is the faster one where tensor cores multiply, by what is computed."""
WITHOUT_TENSOR_CORES: Final = {"Forward": 128, "BackwardData": 0, "BackwardFilter": 0}
"""Channels up to which it is in float32, and in float64."""
MOST_PATCHES: Final = 2 << 30
"""Bytes; a larger matrix of patches is not written, however fast that would be."""


def patches_are_better(made: str, weight: Shape, result: Shape, groups: int, dtype: str, kind: int) -> bool:
    """Whether they were faster on an H100 (12 shapes in three precisions: docs/cuda.md), or keep what cuDNN loses.

    With groups they are never faster; but there, of halves, cuDNN 9.19 gave an infinity where NaN was due. Over three
    axes nobody has measured them.
    """
    if len(weight) > 4:
        return False
    if groups > 1:
        return dtype in ("float16", "bfloat16")
    if ITEMSIZE[dtype] * result[0] * math.prod(weight[1:]) * math.prod(result[2:]) > MOST_PATCHES:
        return False
    if kind == NO_TENSOR_CORES or dtype == "float64":
        return weight[1] > WITHOUT_TENSOR_CORES[made]
    return weight[1] < LEAST[made]


def one_by_one(kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> bool:
    """Whether patches are what they are taken from: then there is nothing to write and to read again."""
    return {*kernel} == {*stride} == {1} and {*padding} == {0}


class Convolution(Windows):
    """All three members of the core's family. What cuDNN does not take is a product, `matmul`'s, with patches."""

    @planned_of_elements
    def conv1d(self, x: Any, weight: Any, bias: Any, *, groups: int, stride: Shape, padding: Shape,
               dilation: Shape) -> Any:  # fmt: skip
        """Each group's weight times its patches, image by image; the bias goes into the memory of the product."""
        steps = weight.shape[2:], stride, padding, dilation
        lengths, one = lengths_of("patches", x.shape[2:], *steps), one_by_one(*steps)
        shapes = x.shape, weight.shape, (x.shape[0], weight.shape[0], *lengths)
        out = None if one else self._direct("Forward", shapes, x, weight, groups, steps)
        if out is None:
            patches = self.contiguous(x) if one else self.patched(x, steps)
            matrix = self._matrices(weight, groups, x.shape[0])
            out = self.before["matmul"](matrix, self._rows(patches, groups, math.prod(lengths))).reshape(shapes[2])
        return self._with_bias(out, bias)

    @planned_of_elements
    def conv_transpose1d(
        self, x: Any, weight: Any, bias: Any, *,
        groups: int, output_padding: Shape, stride: Shape, padding: Shape, dilation: Shape,
    ) -> Any:  # fmt: skip
        """Each group's transposed weight times its input gives patches, which are added up."""
        steps, positions = (weight.shape[2:], stride, padding, dilation), x.shape[2:]
        size = transposed_size(positions, weight.shape[2:], stride, padding, output_padding, dilation)
        shapes = (x.shape[0], weight.shape[1] * groups, *size), weight.shape, x.shape
        one = one_by_one(*steps) and size == positions
        out = None if one else self._direct("BackwardData", shapes, weight, x, groups, steps)
        if out is None:
            matrix = self._matrices(weight, groups, x.shape[0]).swapaxes(-1, -2)
            out = self.before["matmul"](matrix, self._rows(self.contiguous(x), groups, math.prod(positions)))
            out = out.reshape(*shapes[0][:2], *(() if one else weight.shape[2:]), *positions)
            out = out if one else self.added(out, size, steps)
        return self._with_bias(out, bias)

    @planned_of_elements
    def conv1d_weight_gradient(self, g: Any, x: Any, *, groups: int, kernel_size: Shape, stride: Shape, padding: Shape,
                               dilation: Shape) -> Any:  # fmt: skip
        """One product for each group, over all images: its sums are never rounded in between."""
        steps = kernel_size, stride, padding, dilation
        shapes = x.shape, (g.shape[1], x.shape[1] // groups, *kernel_size), g.shape
        out = self._direct("BackwardFilter", shapes, x, g, groups, steps)
        if out is not None:
            return out
        count = math.prod(g.shape[:1] + g.shape[2:])
        rows = self.contiguous(g.swapaxes(0, 1)).reshape(groups, g.shape[1] // groups, count)
        columns = self.patched(x, steps, images_inside=True).reshape(groups, math.prod(shapes[1][1:]), count)
        return self.before["matmul"](rows, columns.swapaxes(-1, -2)).reshape(shapes[1])

    conv2d = conv3d = conv1d
    conv_transpose2d = conv_transpose3d = conv_transpose1d
    conv2d_weight_gradient = conv3d_weight_gradient = conv1d_weight_gradient

    def _direct(self, made: str, shapes: tuple[Shape, Shape, Shape], x: Any, y: Any, groups: int, steps: Steps) -> Any:
        """Without patches; ``None`` where there is no cuDNN, or it has no such convolution."""
        dtype, runtime = name_of(x.dtype), self.runtime
        kind = math_type(dtype, self.precision())
        call = Convolved(made, *shapes, *steps[1:], groups, dtype, kind)
        run = None if patches_are_better(made, *shapes[1:], groups, dtype, kind) else runtime.convolve(call)
        if run is None:
            return None
        x, y = (z if z.flags.c_contiguous and not runtime.address(z) % 16 else copied(runtime, z) for z in (x, y))
        out = runtime.empty(call.shape, x.dtype)
        return out if run(x, y, out) else None

    # products

    def _matrices(self, weight: Any, groups: int, images: int) -> Any:
        """A matrix for each group. One serves all images; several are repeated, as a batch has one stride."""
        matrices = self.contiguous(weight).reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))
        return matrices if groups == 1 else self.contiguous(self.xp.broadcast_to(matrices, (images, *matrices.shape)))

    def _rows(self, x: Any, groups: int, positions: int) -> Any:
        """(batch, channels, …, positions) as (batch, groups, rows of a group, positions)."""
        return x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups // max(positions, 1), positions)

    def _with_bias(self, out: Any, bias: Any) -> Any:
        if is_number(bias):
            return self.before["add"](out, bias) if bias else out
        return self.before["add"](out, bias.reshape(-1, *(1,) * (len(out.shape) - 2)) if bias.shape else bias, out=out)
