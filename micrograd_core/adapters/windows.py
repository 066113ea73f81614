"""Windows of flat memory: `patches` as one strided read, and its gradient as one strided write, or one sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.layout import Layout, Shape
from micrograd_core.ops.network.patches import lengths_of

if TYPE_CHECKING:
    from micrograd_core.adapters.strided import Strided


def patches(
    backend: Any, x: Strided, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, fill: float
) -> Strided:
    """Windows into a padded copy of the input; of those that overlap a copy, as each may be written to."""
    size, lengths = x.shape[2:], lengths_of("patches", x.shape[2:], kernel_size, stride, padding, dilation)
    around = _around(x.shape[:2], size, padding)
    whole = _spread(backend, x, around, _interior(around, size, padding), fill)
    found = whole.view(_windows(around, kernel_size, lengths, stride, dilation))
    return backend.kernels["copy"](found) if found.layout.may_overlap else found


def patches_gradient(
    backend: Any, g: Strided, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    """Patches written where they lay; where they overlap, for each element of the kernel apart, to be added."""
    rank, lanes = len(size), g.shape[:2]
    counts, around = g.shape[2 + rank :], _around(lanes, size, padding)
    windows = _windows(around, kernel_size, counts, stride, dilation)
    if not windows.may_overlap:
        found = _spread(backend, g, around, windows).view(_interior(around, size, padding))
        return found if found.layout.is_contiguous else backend.kernels["copy"](found)
    if g.dtype is backend.dtypes.get("float16") or g.dtype is backend.dtypes.get("bfloat16"):
        return NotImplemented  # the composition adds in float32
    before, lengths, steps = list[int](), list[int](), list[slice]()
    for n, m, count, s, p, d in zip(size, kernel_size, counts, stride, padding, dilation, strict=True):
        before.append(max(d * (m - 1) - p, 0))
        lengths.append(before[-1] + max(n + p, s * (count - 1) + 1))
        steps.append(slice(before[-1], before[-1] + s * (count - 1) + 1, s))
    apart = Layout.contiguous((*lanes, *kernel_size, *lengths))
    whole = _spread(backend, g, apart, apart.index((..., *steps)))
    kernel, spatial = apart.strides[2 : 2 + rank], apart.strides[2 + rank :]
    first = sum((b + p) * each for b, p, each in zip(before, padding, spatial, strict=True))
    back = (each - d * step for each, d, step in zip(kernel, dilation, spatial, strict=True))
    seen = whole.view(Layout((*lanes, *kernel_size, *size), (*apart.strides[:2], *back, *spatial), first))
    return backend.reduction("sum", seen, axis=tuple(range(2, 2 + rank)))


def _spread(backend: Any, x: Strided, layout: Layout, places: Layout, fill: float = 0) -> Strided:
    """A number everywhere, but for the elements of `x`, which are at some places."""
    out: Strided = backend.empty(layout.shape, x.dtype)
    if layout.size:
        if places.size < layout.size:
            backend.map("copy", out, fill)
        if places.size:
            backend.map("copy", out.view(places), x)
    return out


def _around(lanes: Shape, size: Shape, padding: Shape) -> Layout:
    """An input with its padding."""
    return Layout.contiguous((*lanes, *(n + 2 * p for n, p in zip(size, padding, strict=True))))


def _interior(layout: Layout, size: Shape, padding: Shape) -> Layout:
    """What is not padding."""
    return layout.index((..., *(slice(p, p + n) for n, p in zip(size, padding, strict=True))))


def _windows(layout: Layout, kernel: Shape, lengths: Shape, stride: Shape, dilation: Shape) -> Layout:
    """(batch, channels, *kernel, *positions) of (batch, channels, *spatial)."""
    lanes, spatial = layout.strides[:2], layout.strides[2:]
    steps = [s * each for scale in (dilation, stride) for s, each in zip(spatial, scale, strict=True)]
    return Layout((*layout.shape[:2], *kernel, *lengths), (*lanes, *steps), layout.offset)
