"""Patches, what a kernel sees at each of its positions: what convolutions and poolings share.

`patches` lays out, for every position of the result, the elements of the input that it sees; `patches_gradient` adds
them back to where they came from: each is the transpose, and so the gradient, of the other. Shapes are (batch,
channels, *spatial), for any number of spatial axes.
"""

from __future__ import annotations

from itertools import product
from operator import index
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, resolve_key
from micrograd_core.ops.record import FLOATING, REAL, Array, Op, Sample
from micrograd_core.ops.shared import in_float32
from micrograd_core.ops.tangents import linear

REAL_FLOATING = REAL & FLOATING
AXES = {1: "(batch, channels, length)", 2: "(batch, channels, height, width)"}

# ── lengths ──────────────────────────────────────────────────────────────────────────────────────────────────


def per_axis(op: str, name: str, value: Any, rank: int, least: int) -> Shape:
    """One integer for each spatial axis; a single one goes for all."""
    try:
        found = (index(value),) * rank if hasattr(value, "__index__") else tuple(map(index, value))
    except TypeError:
        raise ShapeError(f"{op}: {name} is an integer, or {rank} of them; got {value!r}") from None
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
                f"{op}: padding='same' needs stride 1 and kernels of odd length (dilated: an even reach); got stride "
                f"{stride}, kernel {kernel}, dilation {dilation}; give the padding in numbers"
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


def windows_of(
    op: str, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, rank: int
) -> dict[str, Any]:
    """The parameters of `patches`, validated against an input."""
    if len(x.shape) != rank + 2:
        raise ShapeError(f"{op}: the input has axes {AXES.get(rank, 'batch, channels and spatial')}; got {x.shape}")
    kernel = per_axis(op, "kernel_size", kernel_size, rank, 1)
    steps = kernel if stride is None else per_axis(op, "stride", stride, rank, 1)
    spread = per_axis(op, "dilation", dilation, rank, 1)
    around = _padding(op, padding, kernel, steps, spread)
    lengths_of(op, x.shape[2:], kernel, steps, around, spread)
    return {"kernel_size": kernel, "stride": steps, "padding": around, "dilation": spread}


# ── patches ──────────────────────────────────────────────────────────────────────────────────────────────────


def _patches_parameters(
    x: Any, /, *, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: float = 0.0
) -> dict[str, Any]:
    rank = len(x.shape) - 2
    if rank < 1:
        raise ShapeError(f"patches: the input has axes batch, channels and spatial ones; got shape {x.shape}")
    return {**windows_of("patches", x, kernel_size, stride, padding, dilation, rank), "fill": float(fill)}


def _patches_gradient_parameters(
    g: Any, /, *, size: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> dict[str, Any]:
    rank = (len(g.shape) - 2) // 2
    op = "patches_gradient"
    kernel, steps, spread = (
        per_axis(op, name, value, rank, 1)
        for name, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation))
    )
    size, around = per_axis(op, "size", size, rank, 1), _padding(op, padding, kernel, steps, spread)
    expected = (*kernel, *lengths_of(op, size, kernel, steps, around, spread))
    if g.shape[2:] != expected:
        raise ShapeError(f"{op}: patches of shape {g.shape} do not fit; after batch and channels it must be {expected}")
    return {"size": size, "kernel_size": kernel, "stride": steps, "padding": around, "dilation": spread}


def _keys(shape: Shape, lengths: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> list[Any]:
    """For each element of the kernel, in C order, the key of what it meets in a padded input of `shape`."""
    keys = []
    for offset in product(*map(range, kernel)):
        spatial = (
            slice(d * o, d * o + s * (n - 1) + 1, s)
            for o, n, s, d in zip(offset, lengths, stride, dilation, strict=True)
        )
        keys.append(resolve_key((slice(None), slice(None), *spatial), shape))
    return keys


def _interior(shape: Shape, padding: Shape) -> Any:
    """The key of what is not padding."""
    spatial = (slice(p, n - p) for n, p in zip(shape[2:], padding, strict=True))
    return resolve_key((slice(None), slice(None), *spatial), shape)


def _padded_shape(shape: Shape, padding: Shape) -> Shape:
    return (*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding, strict=True)))


def _patches(k: Any, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, fill: float) -> Any:
    """(batch, channels, *spatial) to (batch, channels, *kernel, *positions)."""
    lengths = lengths_of("patches", x.shape[2:], kernel_size, stride, padding, dilation)
    if any(padding):
        shape = _padded_shape(x.shape, padding)
        around = k.full(shape=shape, fill_value=fill, dtype=x.dtype)
        x = k.scatter(around, x, key=_interior(shape, padding))
    pieces = [k.getitem(x, key=key) for key in _keys(x.shape, lengths, kernel_size, stride, dilation)]
    return k.reshape(k.stack(*pieces, axis=2), shape=(*x.shape[:2], *kernel_size, *lengths))


@in_float32
def _patches_gradient(
    k: Any, g: Any, *, size: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    """(batch, channels, *kernel, *positions) to (batch, channels, *size): sums where patches overlap."""
    rank = len(size)
    shape = _padded_shape((*g.shape[:2], *size), padding)
    total = k.full(shape=shape, fill_value=0, dtype=g.dtype)
    every = (slice(None),) * (rank + 2)
    for offset, key in zip(
        product(*map(range, kernel_size)), _keys(shape, g.shape[2 + rank :], kernel_size, stride, dilation), strict=True
    ):
        piece = k.getitem(g, key=resolve_key((*every[:2], *offset, *every[2 : rank + 2]), g.shape))
        total = k.scatter(total, k.add(k.getitem(total, key=key), piece), key=key)
    return k.copy(k.getitem(total, key=_interior(shape, padding))) if any(padding) else total


def _patches_rule(k: Any, g: Any, out: Any, x: Any, *, fill: float, **windows: Any) -> Any:
    return k.patches_gradient(g, size=x.shape[2:], **windows)


def _patches_gradient_rule(k: Any, g: Any, out: Any, x: Any, *, size: Shape, **windows: Any) -> Any:
    return k.patches(g, fill=0.0, **windows)


def patches_reference(
    np: Any, x: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: float = 0.0
) -> Any:
    """Position by position."""
    rank = x.ndim - 2
    kernel, stride, padding, dilation = (np.broadcast_to(v, (rank,)) for v in (kernel_size, stride, padding, dilation))
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=fill)
    lengths = (np.array(x.shape[2:]) - dilation * (kernel - 1) - 1) // stride + 1
    out = np.empty((*x.shape[:2], *kernel, *lengths))
    for position in np.ndindex(*kernel, *lengths):
        at = stride * position[rank:] + dilation * position[:rank]
        out[(slice(None), slice(None), *position)] = x[(slice(None), slice(None), *at)]
    return out


def _patches_gradient_reference(np: Any, g: Any, size: Any, **windows: Any) -> Any:
    """The transpose of `patches`, taken from what it does to each unit vector."""
    shape = (*g.shape[:2], *np.broadcast_to(size, ((g.ndim - 2) // 2,)))
    out = np.zeros(shape)
    for at in np.ndindex(*shape):
        unit = np.zeros(shape)
        unit[at] = 1
        out[at] = np.sum(patches_reference(np, unit, **windows) * g)
    return out


OPS = (
    Op(
        "patches",
        "For each position of a kernel of spatial shape `kernel_size`, the elements it sees: (batch, channels, "
        "*spatial) to (batch, channels, *kernel, *positions). `fill` stands for the padding on both sides.",
        parameters=_patches_parameters,
        accepts=REAL_FLOATING,
        tangent=lambda op, k, tangents, out, x, *, fill, **windows: k.patches(*tangents, fill=0.0, **windows),
        gradient=(_patches_rule,),
        compose=_patches,
        samples=(
            Sample(Array((2, 2, 5)), kernel_size=2),
            Sample(Array((1, 2, 4, 5)), kernel_size=(3, 2), stride=(1, 2), padding=1),
            Sample(Array((1, 1, 5, 4)), kernel_size=2, dilation=(2, 1), padding=(0, 1), fill=-1.0),
        ),
        reference=patches_reference,
    ),
    Op(
        "patches_gradient",
        "Patches added back to where they lay in an input of spatial shape `size`: the transpose of `patches`.",
        parameters=_patches_gradient_parameters,
        accepts=REAL_FLOATING,
        tangent=linear,
        gradient=(_patches_gradient_rule,),
        compose=_patches_gradient,
        samples=(
            Sample(Array((2, 2, 2, 4)), size=5, kernel_size=2),
            Sample(Array((1, 2, 3, 2, 4, 3)), size=(4, 5), kernel_size=(3, 2), stride=(1, 2), padding=1),
            Sample(Array((1, 1, 2, 2, 3, 5)), size=(5, 4), kernel_size=2, dilation=(2, 1), padding=(0, 1)),
        ),
        reference=_patches_gradient_reference,
    ),
)
