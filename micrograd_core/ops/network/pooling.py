"""Poolings: each a reduction of `patches` (see `micrograd_core.ops.network.patches`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import AXES, windows_of
from micrograd_core.ops.record import Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import calls, network
from micrograd_core.ops.tangents import linear, zero


def _check_padding(op: str, windows: dict[str, Any]) -> dict[str, Any]:
    """No window may see padding alone, which has no maximum."""
    if any(2 * p > n for p, n in zip(windows["padding"], windows["kernel_size"], strict=True)):
        raise ShapeError(
            f"{op}: padding may be at most half the kernel {windows['kernel_size']}; got {windows['padding']}"
        )
    return windows


def _max_parameters(op: str, rank: int) -> Callable[..., dict[str, Any]]:
    def parameters(
        x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> dict[str, Any]:
        return _check_padding(op, windows_of(op, x, kernel_size, stride, padding, dilation, rank))

    return parameters


def _max_gradient_parameters(op: str, rank: int) -> Callable[..., dict[str, Any]]:
    def parameters(
        g: Any, x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> dict[str, Any]:
        return _check_padding(op, windows_of(op, x, kernel_size, stride, padding, dilation, rank))

    return parameters


def _average_parameters(op: str, rank: int) -> Callable[..., dict[str, Any]]:
    def parameters(x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0) -> dict[str, Any]:
        windows = _check_padding(op, windows_of(op, x, kernel_size, stride, padding, 1, rank))
        del windows["dilation"]
        return windows

    return parameters


def _kernel_axes(kernel: Shape) -> Shape:
    """Where the kernel's axes are among those of patches."""
    return tuple(range(2, 2 + len(kernel)))


def _max_pool(k: Table, x: Handle, *, kernel_size: Shape, **windows: Any) -> Handle:
    patches = k.patches(x, fill=-math.inf, kernel_size=kernel_size, **windows)
    return k.max(patches, axis=_kernel_axes(kernel_size), keepdims=False)


def _shares(k: Table, x: Handle, **windows: Any) -> Handle:
    """For each position what each element of its patch has in the maximum: an even share of 1 if tied, else 0."""
    kernel = _kernel_axes(windows["kernel_size"])
    patches = k.patches(x, fill=-math.inf, **windows)
    tied = k.astype(k.equal(patches, k.max(patches, axis=kernel, keepdims=True)), dtype=x.dtype)
    return k.divide(tied, k.sum(tied, axis=kernel, keepdims=True))


def _max_gradient(k: Table, g: Handle, x: Handle, **windows: Any) -> Handle:
    received = k.multiply(_shares(k, x, **windows), k.expand_dims(g, axis=_kernel_axes(windows["kernel_size"])))
    return k.patches_gradient(received, size=x.shape[2:], **windows)


def _max_gradient_rule(k: Table, g: Handle, out: Handle, cotangent: Any, x: Handle, **windows: Any) -> Handle:
    """The derivative of the maximum along `g`: from those who share in it."""
    parts = k.multiply(_shares(k, x, **windows), k.patches(g, fill=0.0, **windows))
    return k.sum(parts, axis=_kernel_axes(windows["kernel_size"]), keepdims=False)


def _first_tangent(op: Op, k: Table, tangents: Any, out: Handle, cotangent: Handle, x: Handle, **windows: Any) -> Any:
    return None if tangents[0] is None else getattr(k, op.name)(tangents[0], x, **windows)


def _average_pool(k: Table, x: Handle, *, kernel_size: Shape, **windows: Any) -> Handle:
    patches = k.patches(x, fill=0.0, kernel_size=kernel_size, dilation=(1,) * len(kernel_size), **windows)
    return k.mean(patches, axis=_kernel_axes(kernel_size), keepdims=False)


def _average_rule(k: Table, g: Handle, out: Handle, x: Handle, *, kernel_size: Shape, **windows: Any) -> Handle:
    share = k.expand_dims(k.multiply(g, 1 / math.prod(kernel_size)), axis=_kernel_axes(kernel_size))
    shares = k.broadcast_to(share, shape=(*g.shape[:2], *kernel_size, *g.shape[2:]))
    once = (1,) * len(kernel_size)
    return k.patches_gradient(shares, size=x.shape[2:], kernel_size=kernel_size, dilation=once, **windows)


def _family(rank: int, *fewer: Sample) -> tuple[Op, Op, Op]:
    """Maxima, their gradient, and means, over `rank` spatial axes; `fewer` samples, one for each."""
    greatest, gradient, average = f"max_pool{rank}d", f"max_pool{rank}d_gradient", f"avg_pool{rank}d"
    image, positions = Array((1, 2, *(3, 4)[-rank:])), Array((1, 2, *(2, 2)[-rank:]))
    overlapping = {"kernel_size": 3, "stride": 2, "padding": 1}
    return (
        network(
            greatest,
            f"Maximum in each window of an input {AXES[rank]}; windows are `stride` apart, by default their own size. "
            "Tied elements share the gradient evenly.",
            parameters=_max_parameters(greatest, rank),
            tangent=lambda op, k, tangents, out, x, **windows: _max_gradient_rule(
                k, tangents[0], out, None, x, **windows
            ),
            gradient=(lambda k, g, out, x, **windows: getattr(k, gradient)(g, x, **windows),),
            compose=_max_pool,
            samples=fewer[0:1]
            or (
                Sample(image, kernel_size=2),
                Sample(image, **overlapping),
                Sample(image, kernel_size=2, stride=1, dilation=2),
            ),
        ),
        network(
            gradient,
            f"The vector-Jacobian product of `{greatest}` at ``x2`` with ``x1``.",
            parameters=_max_gradient_parameters(gradient, rank),
            tangent=_first_tangent,
            gradient=(
                _max_gradient_rule,
                lambda k, g, out, cotangent, x, **windows: zero(k, x),  # what is greatest changes by jumps alone
            ),
            compose=_max_gradient,
            samples=fewer[1:2]
            or (Sample(Array((1, 2, *(1, 2)[-rank:])), image, kernel_size=2), Sample(positions, image, **overlapping)),
        ),
        network(
            average,
            f"Mean of each window of an input {AXES[rank]}; windows are `stride` apart, by default their own size. The "
            "zeros of the padding count.",
            parameters=_average_parameters(average, rank),
            tangent=linear,
            gradient=(_average_rule,),
            compose=_average_pool,
            samples=fewer[2:3] or (Sample(image, kernel_size=2), Sample(image, **overlapping)),
        ),
    )


_CUBE = Array((1, 1, 2, 2, 2))

OPS = calls(
    *_family(1),
    *_family(2),
    *_family(
        3,
        Sample(_CUBE, kernel_size=(1, 2, 2)),
        Sample(Array((1, 1, 1, 1, 1)), _CUBE, kernel_size=2),
        Sample(_CUBE, kernel_size=2, padding=(1, 0, 0)),
    ),
)
