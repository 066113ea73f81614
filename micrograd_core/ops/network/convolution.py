"""Convolutions and poolings over one to three spatial axes: matrix products with `patches`, and reductions of them.

Shapes are (batch, channels, *spatial), as in PyTorch. The three members of the family, convolution, transpose and the
gradient by the weight, are bilinear, and each one's gradients are the other two: that closes it to any order.
"""

from __future__ import annotations

import math
from functools import partial
from operator import index
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.core.matmul import transposed
from micrograd_core.ops.network.patches import AXES, check_half, per_axis, windows_of
from micrograd_core.ops.record import Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import by_channel, calls, in_float32, network, plus
from micrograd_core.ops.tangents import affine, linear, product, zero

# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def _check_channels(
    op: str, x: Any, weight: Any, bias: Any, groups: int, inputs: int, outputs: int, order: str
) -> None:
    if groups < 1 or inputs % groups or outputs % groups or x.shape[1] != inputs:
        raise ShapeError(
            f"{op}: input {x.shape} and weight {weight.shape} do not fit in {groups} groups: the input's channels "
            f"(axis 1) must be {inputs}, and groups must divide input and output channels; the weight is {order}"
        )
    check_bias(op, bias, outputs)


def check_bias(op: str, bias: Any, channels: int) -> None:
    """Refuse a bias that is not one number for each channel, or for all."""
    if getattr(bias, "shape", ()) not in ((), (channels,)):
        raise ShapeError(f"{op}: bias of shape {bias.shape} does not fit {channels} output channels")


def _check_rank(op: str, weight: Any, rank: int, order: str) -> None:
    if len(weight.shape) != rank + 2:
        raise ShapeError(f"{op}: the weight is {order}, of {rank + 2} axes; got shape {weight.shape}")


def check_rest(op: str, x: Any, weight: Any, padding: Shape, size: Shape) -> None:
    """Refuse a transpose of which nothing is left."""
    if min(size) < 1:
        raise ShapeError(f"{op}: nothing is left of input {x.shape} with weight {weight.shape} and padding {padding}")


def transposed_size(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, output_padding: Shape, dilation: Shape
) -> Shape:
    """``(n - 1) s - 2 p + d (k - 1) + 1 + output_padding``: the largest of the sizes that `lengths_of` takes to `n`."""
    return tuple(
        (n - 1) * s - 2 * p + d * (each - 1) + 1 + more
        for n, each, s, p, more, d in zip(size, kernel, stride, padding, output_padding, dilation, strict=True)
    )


def _rows(k: Table, x: Handle, groups: int, count: int) -> Handle:
    """(batch, channels, …, `count` positions in all) as (batch, groups, rows of a group, positions)."""
    return k.reshape(x, shape=(x.shape[0], groups, math.prod(x.shape[1:]) // groups // count, count))


def _grouped(k: Table, weight: Handle, groups: int) -> Handle:
    """A weight as one matrix for each group."""
    return k.reshape(weight, shape=(groups, weight.shape[0] // groups, math.prod(weight.shape[1:])))


@in_float32
def _conv(k: Table, x: Handle, weight: Handle, bias: Operand, *, groups: int, **windows: Shape) -> Handle:
    """Each group's weight, as a matrix, times its patches."""
    patches = k.patches(x, fill=0.0, kernel_size=weight.shape[2:], **windows)
    lengths = patches.shape[len(weight.shape) :]
    columns = _rows(k, patches, groups, math.prod(lengths))
    out = k.reshape(k.matmul(_grouped(k, weight, groups), columns), shape=(x.shape[0], weight.shape[0], *lengths))
    return plus(k, out, by_channel(k, bias, len(out.shape)))


@in_float32
def _conv_transpose(
    k: Table, x: Handle, weight: Handle, bias: Operand, *, output_padding: Shape, groups: int, **windows: Shape
) -> Handle:
    """Each group's transposed weight times its input gives patches, which are added up."""
    kernel = weight.shape[2:]
    size = transposed_size(x.shape[2:], kernel, output_padding=output_padding, **windows)
    columns = k.matmul(transposed(k, _grouped(k, weight, groups)), _rows(k, x, groups, math.prod(x.shape[2:])))
    patches = k.reshape(columns, shape=(x.shape[0], weight.shape[1] * groups, *kernel, *x.shape[2:]))
    out = k.patches_gradient(patches, size=size, kernel_size=kernel, **windows)
    return plus(k, out, by_channel(k, bias, len(out.shape)))


@in_float32
def _conv_weight(k: Table, g: Handle, x: Handle, *, groups: int, **windows: Any) -> Handle:
    """Each group's cotangent times its transposed patches, summed over the batch."""
    count = math.prod(g.shape[2:])
    columns = _rows(k, k.patches(x, fill=0.0, **windows), groups, count)
    products = k.matmul(_rows(k, g, groups, count), transposed(k, columns))
    shape = (g.shape[1], x.shape[1] // groups, *windows["kernel_size"])
    return k.reshape(k.sum(products, axis=(0,), keepdims=False), shape=shape)


def _bias_rule(k: Table, g: Handle, out: Handle, x: Handle, weight: Handle, bias: Any, **params: Any) -> Handle:
    return k.sum(g, axis=(0, *range(2, len(g.shape))), keepdims=False) if bias.shape else g


_convolution = partial(network, autocast="half", optional=(0.0,), tangent=affine)


def _family(rank: int, *fewer: Sample) -> tuple[Op, Op, Op]:
    """Convolution, transpose, and gradient by the weight, over `rank` spatial axes; `fewer` samples, one for each."""
    conv, transpose, by_weight = f"conv{rank}d", f"conv_transpose{rank}d", f"conv{rank}d_weight_gradient"

    def conv_parameters(
        x: Any, weight: Any, /, bias: Any = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> dict[str, Any]:  # fmt: skip
        order = "(outputs, inputs / groups, *kernel)"
        _check_rank(conv, weight, rank, order)
        windows = windows_of(conv, x, weight.shape[2:], stride, padding, dilation, rank)
        del windows["kernel_size"]
        _check_channels(conv, x, weight, bias, groups, weight.shape[1] * groups, weight.shape[0], order)
        return {**windows, "groups": index(groups)}

    def transpose_parameters(
        x: Any, weight: Any, /, bias: Any = None, *, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> dict[str, Any]:  # fmt: skip
        op, order = transpose, "(inputs, outputs / groups, *kernel)"
        _check_rank(op, weight, rank, order)
        if len(x.shape) != rank + 2:
            raise ShapeError(f"{op}: the input has axes {AXES[rank]}; got shape {x.shape}")
        steps, spread = per_axis(op, "stride", stride, rank, 1), per_axis(op, "dilation", dilation, rank, 1)
        around = per_axis(op, "padding", padding, rank, 0)
        more = per_axis(op, "output_padding", output_padding, rank, 0)
        if any(m >= s for m, s in zip(more, steps, strict=True)):
            raise ShapeError(
                f"{op}: output_padding must be less than the stride {steps} or the dilation {spread} of its axis; "
                f"got {more}"
            )
        check_rest(op, x, weight, around, transposed_size(x.shape[2:], weight.shape[2:], steps, around, more, spread))
        _check_channels(op, x, weight, bias, groups, weight.shape[0], weight.shape[1] * groups, order)
        found = {"stride": steps, "padding": around, "output_padding": more, "dilation": spread}
        return {**found, "groups": index(groups)}

    def weight_parameters(
        g: Any, x: Any, /, *, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> dict[str, Any]:
        return {**windows_of(by_weight, x, kernel_size, stride, padding, dilation, rank), "groups": index(groups)}

    def backward(k: Table, g: Handle, weight: Handle, size: Shape, groups: int, **windows: Any) -> Any:
        """From positions back to an input of `size`, which says what ``output_padding`` is missing."""
        least = transposed_size(g.shape[2:], weight.shape[2:], output_padding=(0,) * rank, **windows)
        more = tuple(n - m for n, m in zip(size, least, strict=True))
        return getattr(k, transpose)(g, weight, 0.0, output_padding=more, groups=groups, **windows)

    def shape(*lengths: int) -> Shape:
        """A sample's spatial lengths: the last ones."""
        return lengths[-rank:]

    axes = AXES[rank]
    x, weight, bias = Array((2, 2, *shape(3, 4))), Array((2, 2, *shape(3, 2))), Array((2,))
    bigger = {"stride": 2, "padding": 1}
    grouped = Array((2, 1, *shape(2, 3)))
    return (
        _convolution(
            conv,
            f"Cross-correlation of {axes} with a weight (outputs, inputs / groups, *kernel), plus a bias (outputs,): "
            "the convolution of networks. `stride`, `padding` (zeros on both sides, or 'valid' or 'same') and "
            "`dilation` are integers, or one for each spatial axis.",
            parameters=conv_parameters,
            gradient=(
                lambda k, g, out, x, w, bias, **params: backward(k, g, w, x.shape[2:], **params),
                lambda k, g, out, x, w, bias, **params: getattr(k, by_weight)(g, x, kernel_size=w.shape[2:], **params),
                _bias_rule,
            ),
            compose=_conv,
            samples=fewer[0:1]
            or (
                Sample(x, weight, bias),
                Sample(x, grouped, 0.0, groups=2, **bigger),
                Sample((1, 2, *shape(3, 6)), (1, 2, *shape(2, 2)), 0.0, dilation=2, stride=3),
            ),
        ),
        _convolution(
            transpose,
            f"The transpose of `{conv}` in its input, from {axes} and a weight (inputs, outputs / groups, *kernel), "
            "plus a bias (outputs,). `output_padding`, less than the stride, chooses among the sizes that the "
            "convolution would take to that of the input; the function takes one that is less than the dilation, too.",
            parameters=transpose_parameters,
            gradient=(
                lambda k, g, out, x, w, bias, *, output_padding, **params: getattr(k, conv)(g, w, 0.0, **params),
                lambda k, g, out, x, w, bias, *, output_padding, **params: getattr(k, by_weight)(
                    x, g, kernel_size=w.shape[2:], **params
                ),
                _bias_rule,
            ),
            compose=_conv_transpose,
            samples=fewer[1:2]
            or (
                Sample((2, 2, *shape(2, 3)), weight, bias),
                Sample((1, 2, *shape(2, 2)), grouped, 0.0, groups=2, output_padding=1, **bigger),
                Sample((1, 2, *shape(2, 3)), (2, 1, *shape(2, 2)), 0.0, dilation=2),
            ),
        ),
        network(
            by_weight,
            f"The gradient of `{conv}` by its weight of spatial shape `kernel_size`, from the cotangent ``x1`` and the "
            "input ``x2``.",
            parameters=weight_parameters,
            tangent=product,
            gradient=(
                lambda k, g, out, cotangent, x, *, kernel_size, **params: getattr(k, conv)(x, g, 0.0, **params),
                lambda k, g, out, cotangent, x, *, kernel_size, **params: backward(
                    k, cotangent, g, x.shape[2:], **params
                ),
            ),
            compose=_conv_weight,
            samples=fewer[2:3]
            or (
                Sample((2, 1, *shape(2, 3)), (2, 2, *shape(3, 4)), kernel_size=shape(2, 2)),
                Sample((1, 2, *shape(2, 3)), (1, 2, *shape(3, 4)), kernel_size=2, groups=2, **bigger),
            ),
        ),
    )


_CUBE, _WEIGHT, _BIAS = Array((1, 1, 2, 2, 2)), Array((1, 1, 1, 2, 2)), Array((1,))

OPS = calls(
    *_family(1),
    *_family(2),
    *_family(
        3,
        Sample(_CUBE, _WEIGHT, _BIAS),
        Sample((1, 1, 1, 2, 1), _WEIGHT, _BIAS),
        Sample((1, 1, 1, 1, 1), _CUBE, kernel_size=2),
    ),
)


# ── poolings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _pooling(op: str, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, rank: int) -> dict[str, Any]:
    """The windows of a pooling."""
    windows = windows_of(op, x, kernel_size, stride, padding, dilation, rank)
    check_half(op, windows["kernel_size"], windows["padding"])
    return windows


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


def _poolings(rank: int, *fewer: Sample) -> tuple[Op, Op, Op]:
    """Maxima, their gradient, and means, over `rank` spatial axes; `fewer` samples, one for each."""
    greatest, gradient, average = f"max_pool{rank}d", f"max_pool{rank}d_gradient", f"avg_pool{rank}d"

    def max_parameters(
        x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> dict[str, Any]:
        return _pooling(greatest, x, kernel_size, stride, padding, dilation, rank)

    def gradient_parameters(
        g: Any, x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> dict[str, Any]:
        return _pooling(gradient, x, kernel_size, stride, padding, dilation, rank)

    def average_parameters(x: Any, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0) -> dict[str, Any]:
        windows = _pooling(average, x, kernel_size, stride, padding, 1, rank)
        del windows["dilation"]
        return windows

    image, positions = Array((1, 2, *(3, 4)[-rank:])), Array((1, 2, *(2, 2)[-rank:]))
    overlapping = {"kernel_size": 3, "stride": 2, "padding": 1}
    return (
        network(
            greatest,
            f"Maximum in each window of an input {AXES[rank]}; windows are `stride` apart, by default their own size. "
            "Tied elements share the gradient evenly.",
            parameters=max_parameters,
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
            parameters=gradient_parameters,
            tangent=_first_tangent,
            gradient=(
                _max_gradient_rule,
                lambda k, g, out, cotangent, x, **windows: zero(k, x),  # what is greatest changes by jumps alone
            ),
            compose=_max_gradient,
            samples=fewer[1:2]
            or (Sample((1, 2, *(1, 2)[-rank:]), image, kernel_size=2), Sample(positions, image, **overlapping)),
        ),
        network(
            average,
            f"Mean of each window of an input {AXES[rank]}; windows are `stride` apart, by default their own size. The "
            "zeros of the padding count.",
            parameters=average_parameters,
            tangent=linear,
            gradient=(_average_rule,),
            compose=_average_pool,
            samples=fewer[2:3] or (Sample(image, kernel_size=2), Sample(image, **overlapping)),
        ),
    )


OPS += calls(
    *_poolings(1),
    *_poolings(2),
    *_poolings(
        3,
        Sample(_CUBE, kernel_size=(1, 2, 2)),
        Sample((1, 1, 1, 1, 1), _CUBE, kernel_size=2),
        Sample(_CUBE, kernel_size=2, padding=(1, 0, 0)),
    ),
)
