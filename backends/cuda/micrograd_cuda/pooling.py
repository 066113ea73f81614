"""Poolings without patches: each window is read where it lies, and each element's gradient written once."""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cuda import geometry
from micrograd_cuda.operands import Kernel, Kernels, alignment, contiguous, name_of, planned_of_elements
from micrograd_cuda.plans import planned
from micrograd_cuda.runtime import CuPyRuntime
from micrograd_cuda.units import ELEMENT

MOST_READ: Final = 1024
"""Elements that the gradient of one may look at: of larger windows that overlap, patches are read less often."""


class Pooling(Kernels):
    """Maxima and means over one to three axes, and their gradients."""

    def __init__(self, xp: Any, runtime: CuPyRuntime, patches_gradient: Kernel) -> None:
        super().__init__(xp, runtime)
        self._patches_gradient = patches_gradient

    @planned_of_elements
    def max_pool1d(self, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
        """One read, one write."""
        return self._pooled("max_pool", x, kernel_size, stride, padding, dilation)

    @planned_of_elements
    def avg_pool1d(self, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape) -> Any:
        """One read, one write."""
        return self._pooled("avg_pool", x, kernel_size, stride, padding, (1,) * len(kernel_size))

    def _pooled(self, name: str, x: Any, *windows: Shape) -> Any:
        lengths = lengths_of(name, x.shape[2:], *windows)
        out = self.runtime.empty((*x.shape[:2], *lengths), x.dtype)
        return self._launch("pool", str(name == "max_pool").lower(), out, (x,), x.shape, lengths, windows)

    @planned_of_elements
    def max_pool1d_gradient(
        self, g: Any, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
    ) -> Any:
        """Of both one read, of windows that overlap from the cache some more; one write."""
        windows = kernel_size, stride, padding, dilation
        reach = math.prod(math.ceil(k / s) for k, s in zip(kernel_size, stride, strict=True))
        if reach > 1 and reach * math.prod(kernel_size) > MOST_READ:
            return NotImplemented
        out = self.runtime.empty(x.shape, x.dtype)
        return self._launch("pool_gradient", "true", out, (g, x), x.shape, g.shape[2:], windows)

    @planned
    def patches_gradient(
        self, g: Any, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
    ) -> Any:
        """Of what is the same for all elements of a window, as in the gradient of a mean: not written out before."""
        kernel, rank = kernel_size, len(kernel_size)
        alike = all(n == 1 or not s for n, s in zip(kernel, g.strides[2 : 2 + rank], strict=True))
        if name_of(g.dtype) not in ELEMENT or not alike or math.prod(kernel) == 1:
            return self._patches_gradient(
                g, size=size, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation
            )
        shares = g[(slice(None), slice(None), *(0,) * rank)]
        out = self.runtime.empty((*g.shape[:2], *size), g.dtype)
        windows = kernel_size, stride, padding, dilation
        return self._launch("pool_gradient", "false", out, (shares,), out.shape, shares.shape[2:], windows)

    max_pool2d = max_pool3d = max_pool1d
    max_pool2d_gradient = max_pool3d_gradient = max_pool1d_gradient
    avg_pool2d = avg_pool3d = avg_pool1d

    def _launch(
        self, family: str, maximum: str, out: Any, operands: tuple[Any, ...], shape: Shape, lengths: Shape,
        windows: tuple[Shape, ...],
    ) -> Any:  # fmt: skip
        if not out.size:
            return out
        operands = tuple(contiguous(x, self.runtime) for x in operands)
        start = alignment(self.runtime, out, *operands)
        name, itemsize = ELEMENT[name_of(out.dtype)], out.dtype.itemsize
        unit, numbers, threads = geometry.pooling(family, maximum, name, itemsize, start, shape, lengths, windows)
        index = unit.arguments[2]
        if family == "pool_gradient" and maximum == "false":
            operands = (*operands, 0)
        self.runtime.bind(unit)((geometry.blocks(threads), 1), (out, *operands, self.runtime.struct(numbers, index)))
        return out
