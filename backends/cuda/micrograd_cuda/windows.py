"""Windows: poolings without patches, which read each window where it lies; patches, which write it out; gradients."""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cuda import geometry
from micrograd_cuda.geometry import Steps
from micrograd_cuda.operands import Kernels, launched, name_of, planned_of_elements

MOST_READ: Final = 1024
"""Elements that the gradient of one may look at: of larger windows that overlap, patches are read less often."""


class Windows(Kernels):
    """Maxima and means over one to three axes, patches, and the gradients of all; each element is written once."""

    @planned_of_elements
    def max_pool1d(self, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
        """One read, one write."""
        return self._pooled("max_pool", x, kernel_size, stride, padding, dilation)

    @planned_of_elements
    def avg_pool1d(self, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape) -> Any:
        """One read, one write."""
        return self._pooled("avg_pool", x, kernel_size, stride, padding, (1,) * len(kernel_size))

    def _pooled(self, name: str, x: Any, *steps: Shape) -> Any:
        lengths, kind = lengths_of(name, x.shape[2:], *steps), "MAXIMUM" if name == "max_pool" else "MEAN"
        return self._launch("windows", kind, (*x.shape[:2], *lengths), (x, 0.0, 0), x.shape, lengths, steps)

    @planned_of_elements
    def max_pool1d_gradient(self, g: Any, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape,
                            dilation: Shape) -> Any:  # fmt: skip
        """Of both one read, of windows that overlap from the cache some more; one write."""
        steps = kernel_size, stride, padding, dilation
        reach = math.prod(math.ceil(k / s) for k, s in zip(kernel_size, stride, strict=True))
        if reach > 1 and reach * math.prod(kernel_size) > MOST_READ:
            return NotImplemented
        return self._launch("windows_gradient", "MAXIMUM", x.shape, (g, x), x.shape, g.shape[2:], steps)

    @planned_of_elements
    def patches(self, x: Any, *, kernel_size: Shape, fill: float, stride: Shape, padding: Shape,
                dilation: Shape) -> Any:  # fmt: skip
        """(batch, channels, *kernel, *positions)."""
        return self.patched(x, (kernel_size, stride, padding, dilation), fill)

    def patched(self, x: Any, steps: Steps, fill: float = 0.0, *, images_inside: bool = False) -> Any:
        """(batch, channels, *kernel, *positions), or with `images_inside` (channels, *kernel, batch, *positions)."""
        (images, channels, *size), kernel = x.shape, steps[0]
        lengths = lengths_of("patches", tuple(size), *steps)
        shape = (channels, *kernel, images, *lengths) if images_inside else (images, channels, *kernel, *lengths)
        given = x, fill, channels if images_inside else 0
        return self._launch("windows", "PATCHES", shape, given, x.shape, lengths, steps)

    @planned_of_elements
    def patches_gradient(self, g: Any, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape,
                         dilation: Shape) -> Any:  # fmt: skip
        """Back to (batch, channels, *size), each element the sum of the patches it was in."""
        return self.added(g, size, (kernel_size, stride, padding, dilation))

    def added(self, g: Any, size: Shape, steps: Steps) -> Any:
        """What is the same for all elements of a window, as in the gradient of a mean, is not written out before."""
        rank, shape = len(size), (*g.shape[:2], *size)
        kind, lengths = "PATCHES", g.shape[2 + rank :]
        if all(n == 1 or not s for n, s in zip(steps[0], g.strides[2 : 2 + rank], strict=True)):
            kind, g = "MEAN", g[(slice(None), slice(None), *(0,) * rank)]
        return self._launch("windows_gradient", kind, shape, (g, 0), shape, lengths, steps)

    max_pool2d = max_pool3d = max_pool1d
    max_pool2d_gradient = max_pool3d_gradient = max_pool1d_gradient
    avg_pool2d = avg_pool3d = avg_pool1d

    def _launch(self, family: str, kind: str, made: Shape, given: tuple[Any, ...], *facts: Any) -> Any:
        """A result of the shape `made`, of arrays and numbers; `facts` are those that geometry asks for."""
        dtype = given[0].dtype
        out = self.runtime.empty(made, dtype)
        given = tuple(self.contiguous(x) if hasattr(x, "shape") else x for x in given)
        start = self.alignment(out, *(x for x in given if hasattr(x, "shape")))
        return launched(self.runtime, geometry.windows(family, kind, name_of(dtype), start, *facts), out, *given)
