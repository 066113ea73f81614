"""Convolutions by cuDNN, or as products with patches; in their own dtype: half types are added up in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from micrograd_core.layout import Shape
from micrograd_core.ops.network.convolution import transposed_size
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cuda import geometry
from micrograd_cuda.cudnn import NO_TENSOR_CORES, Convolved, math_type
from micrograd_cuda.operands import Kernel, Kernels, contiguous, copied, is_number, launch, name_of, planned_of_elements
from micrograd_cuda.plans import planned
from micrograd_cuda.runtime import CuPyRuntime
from micrograd_cuda.units import ELEMENT


def one_by_one(kernel: Shape, *, stride: Shape, padding: Shape, dilation: Shape) -> bool:
    """Whether patches are what they are taken from: then there is nothing to write and to read again."""
    return {*kernel} == {*stride} == {1} and {*padding} == {0}


MOST_AXES: Final = 2
"""Spatial ones that patches have."""


LEAST: Final = {"Forward": 16, "BackwardData": 32, "BackwardFilter": 8}
"""Channels of the image from which on cuDNN is the faster one where tensor cores multiply, by what is computed."""
WITHOUT_TENSOR_CORES: Final = {"Forward": 128, "BackwardData": 0, "BackwardFilter": 0}
"""Channels up to which it is in float32, and in float64."""
MOST_PATCHES: Final = 2 << 30
"""Bytes; a larger matrix of patches is not written, however fast that would be."""


def patches_are_better(made: str, weight: Shape, result: Shape, groups: int, dtype: str, kind: int) -> bool:
    """Whether they were faster on an H100 (12 shapes in three precisions: docs/cuda.md), or keep what cuDNN loses.

    With groups they are never faster; but there, of halves, cuDNN 9.19 gave an infinity where NaN was due.
    """
    if groups > 1:
        return dtype in ("float16", "bfloat16")
    if geometry.ITEMSIZE[dtype] * result[0] * math.prod(weight[1:]) * math.prod(result[2:]) > MOST_PATCHES:
        return False
    if kind == NO_TENSOR_CORES or dtype == "float64":
        return weight[1] > WITHOUT_TENSOR_CORES[made]
    return weight[1] < LEAST[made]


class Convolution(Kernels):
    """All three members of the core's family.

    What cuDNN does not take is a product, `matmul`'s, with patches; over three spatial axes it is the op table's.
    """

    def __init__(
        self, xp: Any, runtime: CuPyRuntime, matmul: Kernel, add: Kernel, precision: Callable[[], str]
    ) -> None:
        super().__init__(xp, runtime)
        self.matmul, self.add, self.precision = matmul, add, precision

    @planned_of_elements
    def conv1d(
        self, x: Any, weight: Any, bias: Any, *, groups: int, stride: Shape, padding: Shape, dilation: Shape
    ) -> Any:
        """Each group's weight times its patches, image by image; the bias goes into the memory of the product."""
        outputs, kernel = weight.shape[0], weight.shape[2:]
        windows = {"stride": stride, "padding": padding, "dilation": dilation}
        if one_by_one(kernel, **windows):  # a pixel is its own patch
            patches = contiguous(x, self.runtime)
        else:
            x, weight = self._laid(x), self._laid(weight)
            lengths = lengths_of("patches", x.shape[2:], kernel, **windows)
            shapes = x.shape, weight.shape, (x.shape[0], outputs, *lengths)
            out = self._direct("Forward", shapes, x, weight, groups, windows)
            if out is not None:
                return self._with_bias(out, bias)
            patches = self.patches(x, kernel_size=kernel, fill=0.0, **windows)
            if patches is NotImplemented:
                return NotImplemented
        positions = patches.shape[-len(kernel) :]
        matrix = self._matrices(weight, groups, x.shape[0])
        product = self.matmul(matrix, self._rows(patches, groups, math.prod(positions)))
        return self._with_bias(product.reshape(x.shape[0], outputs, *positions), bias)

    @planned_of_elements
    def conv_transpose1d(
        self, x: Any, weight: Any, bias: Any, *,
        groups: int, output_padding: Shape, stride: Shape, padding: Shape, dilation: Shape,
    ) -> Any:  # fmt: skip
        """Each group's transposed weight times its input gives patches, which are added up."""
        kernel, positions = weight.shape[2:], x.shape[2:]
        windows = {"stride": stride, "padding": padding, "dilation": dilation}
        size = transposed_size(positions, kernel, output_padding=output_padding, **windows)
        whole = one_by_one(kernel, **windows) and size == positions
        if not whole:
            x, weight = self._laid(x), self._laid(weight)
            shapes = (x.shape[0], weight.shape[1] * groups, *size), weight.shape, x.shape
            out = self._direct("BackwardData", shapes, weight, x, groups, windows)
            if out is not None:
                return self._with_bias(out, bias)
            if len(kernel) > MOST_AXES:
                return NotImplemented
        matrix = self._matrices(weight, groups, x.shape[0]).swapaxes(-1, -2)
        product = self.matmul(matrix, self._rows(contiguous(x, self.runtime), groups, math.prod(positions)))
        patches = product.reshape(x.shape[0], weight.shape[1] * groups, *kernel, *positions)
        if whole:
            return self._with_bias(patches.reshape(*patches.shape[:2], *size), bias)
        return self._with_bias(self.patches_gradient(patches, size=size, kernel_size=kernel, **windows), bias)

    @planned_of_elements
    def conv1d_weight_gradient(
        self, g: Any, x: Any, *, groups: int, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
    ) -> Any:
        """One product for each group, over all images: its sums are never rounded in between."""
        windows = {"stride": stride, "padding": padding, "dilation": dilation}
        g, x = self._laid(g), self._laid(x)
        shapes = x.shape, (g.shape[1], x.shape[1] // groups, *kernel_size), g.shape
        out = self._direct("BackwardFilter", shapes, x, g, groups, windows)
        if out is not None or len(kernel_size) > MOST_AXES:
            return NotImplemented if out is None else out
        patches = self._patches(x, 0.0, kernel_size, windows, images_inside=True)
        count = math.prod(g.shape[:1] + g.shape[2:])
        rows = contiguous(g.swapaxes(0, 1), self.runtime).reshape(groups, g.shape[1] // groups, count)
        columns = patches.reshape(groups, math.prod((x.shape[1], *kernel_size)) // groups, count)
        product = self.matmul(rows, columns.swapaxes(-1, -2))
        return product.reshape(g.shape[1], x.shape[1] // groups, *kernel_size)

    conv2d = conv3d = conv1d
    conv_transpose2d = conv_transpose3d = conv_transpose1d
    conv2d_weight_gradient = conv3d_weight_gradient = conv1d_weight_gradient

    # without patches

    def _laid(self, x: Any) -> Any:
        """As cuDNN reads it."""
        return x if x.flags.c_contiguous and not self.runtime.address(x) % 16 else copied(self.runtime, x)

    def _direct(
        self, made: str, shapes: tuple[Shape, ...], x: Any, y: Any, groups: int, windows: dict[str, Shape]
    ) -> Any:
        """``None`` where there is no cuDNN, or it has no such convolution."""
        dtype, (image, weight, result) = name_of(x.dtype), shapes
        steps = windows["stride"], windows["padding"], windows["dilation"]
        kind = math_type(dtype, self.precision())
        if len(image) - 2 <= MOST_AXES and patches_are_better(made, weight, result, groups, dtype, kind):
            return None
        call = Convolved(made, image, weight, result, *steps, groups, dtype, kind)
        run = self.runtime.convolve(call)
        out = None if run is None else self.runtime.empty(call.shape, x.dtype)
        return out if run is not None and run(x, y, out) else None

    # products

    def _matrices(self, weight: Any, groups: int, images: int) -> Any:
        """A matrix for each group. One serves all images; several are repeated, as a batch has one stride."""
        rows = weight.shape[0] // groups
        matrices = contiguous(weight, self.runtime).reshape(groups, rows, math.prod(weight.shape[1:]))
        if groups == 1:
            return matrices
        return contiguous(self.xp.broadcast_to(matrices, (images, *matrices.shape)), self.runtime)

    def _rows(self, x: Any, groups: int, positions: int) -> Any:
        """(batch, channels, …, positions) as (batch, groups, rows of a group, positions)."""
        return x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups // max(positions, 1), positions)

    def _with_bias(self, out: Any, bias: Any) -> Any:
        if is_number(bias):
            return self.add(out, bias) if bias else out
        return self.add(out, bias.reshape(-1, *(1,) * (len(out.shape) - 2)) if bias.shape else bias, out=out)

    # patches

    def _windows(
        self, outer: Shape, size: Shape, lengths: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
    ) -> list[int]:
        """The numbers of the struct Windows; one spatial axis is a height of 1."""
        pairs = (size, 1), (kernel, 1), (lengths, 1), (stride, 1), (padding, 0), (dilation, 1)
        return [*outer, *(n for each, alone in pairs for n in ((alone, *each) if len(each) == 1 else each))]

    def _launch(self, family: str, out: Any, x: Any, windows: list[int], threads: int, *more: Any) -> Any:
        """Launch a kernel over the numbers of `_windows`."""
        if out.size:
            index = geometry.counter(out.size, x.size, *windows)
            kernel, stride = tuple(windows[4:6]), tuple(windows[8:10])
            unit = geometry.window_unit(family, ELEMENT[name_of(x.dtype)], index, kernel, stride)
            launch(self.runtime, unit, threads, out, x, *more, self.runtime.struct(windows, index))
        return out

    @planned
    def patches(
        self, x: Any, *, kernel_size: Shape, fill: float, stride: Shape, padding: Shape, dilation: Shape
    ) -> Any:
        """(batch, channels, *kernel, *positions)."""
        if name_of(x.dtype) not in ELEMENT or len(kernel_size) > MOST_AXES:
            return NotImplemented
        return self._patches(x, fill, kernel_size, {"stride": stride, "padding": padding, "dilation": dilation})

    def _patches(
        self, x: Any, fill: float, kernel: Shape, windows: dict[str, Shape], *, images_inside: bool = False
    ) -> Any:
        """(batch, channels, *kernel, *positions), or with `images_inside` (channels, *kernel, batch, *positions)."""
        lengths = lengths_of("patches", x.shape[2:], kernel, **windows)
        numbers = self._windows(x.shape[:2], x.shape[2:], lengths, kernel, **windows)
        images, channels = x.shape[:2]
        shape = (channels, *kernel, images, *lengths) if images_inside else (images, channels, *kernel, *lengths)
        out = self.runtime.empty(shape, x.dtype)
        threads = out.size // max(math.prod(kernel), 1)
        return self._launch("im2col", out, contiguous(x, self.runtime), numbers, threads, fill, int(images_inside))

    @planned
    def patches_gradient(
        self, g: Any, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
    ) -> Any:
        """Back to (batch, channels, *size), each element the sum of the patches it was in."""
        if name_of(g.dtype) not in ELEMENT or len(kernel_size) > MOST_AXES:
            return NotImplemented
        lengths = g.shape[2 + len(kernel_size) :]
        numbers = self._windows(g.shape[:2], size, lengths, kernel_size, stride, padding, dilation)
        out = self.runtime.empty((*g.shape[:2], *size), g.dtype)
        return self._launch("col2im", out, contiguous(g, self.runtime), numbers, out.size)
