"""Patches, what a kernel sees at each of its positions: what convolutions and poolings share.

`patches` lays out, for every position of the result, the elements of the input that it sees; `patches_gradient` adds
them back to where they came from: each is the transpose, and so the gradient, of the other. Shapes are (batch,
channels, *spatial), for any number of spatial axes.
"""

from __future__ import annotations

from itertools import chain
from operator import index, mul
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, resolve_key
from micrograd_core.ops.record import Handle, Sample, Table
from micrograd_core.ops.shared import calls, in_float32, network
from micrograd_core.ops.tangents import linear

AXES = {
    1: "(batch, channels, length)",
    2: "(batch, channels, height, width)",
    3: "(batch, channels, depth, height, width)",
}

# ── lengths ──────────────────────────────────────────────────────────────────────────────────────────────────


def per_axis(op: str, name: str, value: Any, rank: int, least: int) -> Shape:
    """One integer for each spatial axis; a single one, in a list or not, goes for all."""
    try:
        found = (index(value),) if hasattr(value, "__index__") else tuple(map(index, value))
    except TypeError:
        raise ShapeError(f"{op}: {name} is an integer, or {rank} of them; got {value!r}") from None
    found = found * rank if len(found) == 1 else found
    if len(found) != rank or min(found) < least:
        raise ShapeError(f"{op}: {name} is an integer, or {rank} of them, at least {least}; got {value!r}")
    return found


def _padding(op: str, padding: Any, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    if padding == "valid":
        return (0,) * len(kernel)
    if padding == "same":
        reach = [d * (n - 1) for n, d in zip(kernel, dilation, strict=True)]
        if max(stride) > 1 or any(each % 2 for each in reach):
            raise ShapeError(
                f"{op}: padding='same' needs stride 1, and here kernels of odd length (dilated: an even reach); got "
                f"stride {stride}, kernel {kernel}, dilation {dilation}; give the padding in numbers"
            )
        return tuple(each // 2 for each in reach)
    return per_axis(op, "padding", padding, len(kernel), 0)


def lengths_of(op: str, size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape:
    """How many positions a kernel takes along each axis: ``(n + 2 p - d (k - 1) - 1) // s + 1``."""
    found = tuple(
        (n + 2 * p - d * (each - 1) - 1) // s + 1
        for n, each, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if min(found) < 1:
        raise ShapeError(
            f"{op}: a kernel of shape {kernel} (dilation {dilation}) does not fit into an input of spatial shape "
            f"{size} with padding {padding}"
        )
    return found


def steps_of(op: str, kernel_size: Any, stride: Any, dilation: Any, rank: int) -> tuple[Shape, Shape, Shape]:
    """Lengths of windows, how far they are apart (by default their own length), and their elements, for each axis."""
    kernel = per_axis(op, "kernel_size", kernel_size, rank, 1)
    steps = kernel if stride is None else per_axis(op, "stride", stride, rank, 1)
    return kernel, steps, per_axis(op, "dilation", dilation, rank, 1)


def check_half(op: str, kernel: Shape, padding: Shape) -> None:
    """No window of a pooling may see padding alone, which has no maximum."""
    if any(2 * p > n for p, n in zip(padding, kernel, strict=True)):
        raise ShapeError(f"{op}: it takes padding at most half the kernel {kernel}; got {padding}")


def windows_of(
    op: str, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, rank: int
) -> dict[str, Any]:
    """The parameters of `patches`, validated against an input."""
    if len(x.shape) != rank + 2:
        raise ShapeError(f"{op}: the input has axes {AXES.get(rank, 'batch, channels and spatial')}; got {x.shape}")
    kernel, steps, spread = steps_of(op, kernel_size, stride, dilation, rank)
    around = _padding(op, padding, kernel, steps, spread)
    lengths_of(op, x.shape[2:], kernel, steps, around, spread)
    return {"kernel_size": kernel, "stride": steps, "padding": around, "dilation": spread}


# ── patches ──────────────────────────────────────────────────────────────────────────────────────────────────


def _patches_parameters(
    x: Any, /, *, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: float = 0.0
) -> dict[str, Any]:
    """For each position of a kernel of spatial shape `kernel_size`, the elements it sees.

    From (batch, channels, *spatial) to (batch, channels, *kernel, *positions). `fill` stands for the padding on
    both sides.
    """
    rank = len(x.shape) - 2
    if rank < 1:
        raise ShapeError(f"patches: the input has axes batch, channels and spatial ones; got shape {x.shape}")
    return {**windows_of("patches", x, kernel_size, stride, padding, dilation, rank), "fill": float(fill)}


def _patches_gradient_parameters(
    g: Any, /, *, size: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> dict[str, Any]:
    """Patches added back to where they lay in an input of spatial shape `size`: the transpose of `patches`."""
    rank = (len(g.shape) - 2) // 2
    op = "patches_gradient"
    kernel, steps, spread = steps_of(op, kernel_size, stride, dilation, rank)
    size, around = per_axis(op, "size", size, rank, 1), _padding(op, padding, kernel, steps, spread)
    expected = (*kernel, *lengths_of(op, size, kernel, steps, around, spread))
    if g.shape[2:] != expected:
        raise ShapeError(f"{op}: patches of shape {g.shape} do not fit; after batch and channels it must be {expected}")
    return {"size": size, "kernel_size": kernel, "stride": steps, "padding": around, "dilation": spread}


def _rows(size: Shape, kernel: Shape, padding: Shape, dilation: Shape) -> tuple[Shape, Shape, Shape]:
    """How windows along each axis are read, all at once, from copies of the axis one behind the other.

    Read in rows that are longer than the axis by the dilation, each row starts that much later in its copy: row ``i``
    is what element ``i`` of the kernel sees. Given are the lengths of the axes, padding included, those of the rows,
    and copies enough for as many rows as the kernel has elements.
    """
    padded = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    rows = tuple(n + d * (m > 1) for n, m, d in zip(padded, kernel, dilation, strict=True))
    return padded, rows, tuple(-(-m * r // n) for m, r, n in zip(kernel, rows, padded, strict=True))


def _paired(first: Shape, second: Shape) -> Shape:
    return tuple(chain.from_iterable(zip(first, second, strict=True)))


def _products(first: Shape, second: Shape) -> Shape:
    return tuple(map(mul, first, second))


def _starts(lanes: Shape, lengths: Shape) -> Any:
    """The key of the first elements along each axis but two."""
    return tuple(slice(0, n, 1) for n in (*lanes, *lengths))


def _seen(lanes: Shape, kernel: Shape, lengths: Shape, stride: Shape) -> Any:
    """The key of what the kernel sees among all rows: (batch, channels, and a row and its elements for each axis)."""
    steps = (slice(0, s * (n - 1) + 1, s) for n, s in zip(lengths, stride, strict=True))
    spatial = chain.from_iterable(zip((slice(0, m, 1) for m in kernel), steps, strict=True))
    return (*_starts(lanes, ()), *spatial)


def _interior(shape: Shape, padding: Shape) -> Any:
    """The key of what is not padding."""
    spatial = (slice(p, n - p) for n, p in zip(shape[2:], padding, strict=True))
    return resolve_key((slice(None), slice(None), *spatial), shape)


def _patches(
    k: Table, x: Handle, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, fill: float
) -> Handle:
    """(batch, channels, *spatial) to (batch, channels, *kernel, *positions)."""
    lengths = lengths_of("patches", x.shape[2:], kernel_size, stride, padding, dilation)
    rank, lanes = len(lengths), tuple(x.shape[:2])
    padded, rows, copies = _rows(x.shape[2:], kernel_size, padding, dilation)
    if any(padding):
        around = k.full(shape=(*lanes, *padded), fill_value=fill, dtype=x.dtype)
        x = k.scatter(around, x, key=_interior((*lanes, *padded), padding))
    else:
        x = k.copy(x)  # of elements that are repeated already, all that follows are views
    x = k.reshape(x, shape=(*lanes, *_paired((1,) * rank, padded)))
    x = k.broadcast_to(x, shape=(*lanes, *_paired(copies, padded)))
    x = k.reshape(x, shape=(*lanes, *_products(copies, padded)))
    x = k.getitem(x, key=_starts(lanes, _products(kernel_size, rows)))
    x = k.reshape(x, shape=(*lanes, *_paired(kernel_size, rows)))
    x = k.getitem(x, key=_seen(lanes, kernel_size, lengths, stride))
    return x if rank == 1 else k.permute_dims(x, axes=(0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))


@in_float32
def _patches_gradient(
    k: Table, g: Handle, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Handle:
    """(batch, channels, *kernel, *positions) to (batch, channels, *size): each step of `_patches` undone."""
    rank, lanes = len(size), tuple(g.shape[:2])
    padded, rows, copies = _rows(size, kernel_size, padding, dilation)
    more = tuple(m + 1 for m in kernel_size)  # a row more holds the rest of the last copy
    zeros = k.full(shape=(*lanes, *_paired(more, rows)), fill_value=0, dtype=g.dtype)
    if rank > 1:
        g = k.permute_dims(g, axes=(0, 1, *_paired(tuple(range(2, 2 + rank)), tuple(range(2 + rank, 2 + 2 * rank)))))
    g = k.scatter(zeros, g, key=_seen(lanes, kernel_size, g.shape[3::2], stride))
    g = k.reshape(g, shape=(*lanes, *_products(more, rows)))
    g = k.getitem(g, key=_starts(lanes, _products(copies, padded)))
    g = k.reshape(g, shape=(*lanes, *_paired(copies, padded)))
    if any(padding):
        spatial = (slice(p, n - p, 1) for n, p in zip(padded, padding, strict=True))
        every = (slice(0, n, 1) for n in copies)
        g = k.getitem(g, key=(*_starts(lanes, ()), *chain.from_iterable(zip(every, spatial, strict=True))))
    return k.sum(g, axis=tuple(range(2, 2 + 2 * rank, 2)), keepdims=False)


OPS = calls(
    network(
        "patches",
        parameters=_patches_parameters,
        tangent=lambda op, k, tangents, out, x, *, fill, **windows: k.patches(*tangents, fill=0.0, **windows),
        gradient=(lambda k, g, out, x, *, fill, **windows: k.patches_gradient(g, size=x.shape[2:], **windows),),
        compose=_patches,
        samples=(
            Sample((2, 2, 5), kernel_size=2),
            Sample((1, 2, 4, 5), kernel_size=(3, 2), stride=(1, 2), padding=1),
            Sample((1, 1, 5, 4), kernel_size=2, dilation=(2, 1), padding=(0, 1), fill=-1.0),
        ),
    ),
    network(
        "patches_gradient",
        parameters=_patches_gradient_parameters,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, size, **windows: k.patches(g, fill=0.0, **windows),),
        gradient_aliases=True,  # composed patches are a view of a larger copy
        compose=_patches_gradient,
        samples=(
            Sample((2, 2, 2, 4), size=5, kernel_size=2),
            Sample((1, 2, 3, 2, 4, 3), size=(4, 5), kernel_size=(3, 2), stride=(1, 2), padding=1),
            Sample((1, 1, 2, 2, 3, 5), size=(5, 4), kernel_size=2, dilation=(2, 1), padding=(0, 1)),
        ),
    ),
)
