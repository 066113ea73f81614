"""What operations of `micrograd_core.ops.network.convolution` are, in NumPy."""

from __future__ import annotations

from typing import Any

from tests.ops.definitions.patches import patches_reference, transposed


def _conv_reference(
    np: Any, x: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Element by element, from the definition."""
    patches = patches_reference(np, x, weight.shape[2:], stride, padding, dilation)
    rank = x.ndim - 2
    out = np.empty((x.shape[0], weight.shape[0], *patches.shape[2 + rank :]))
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    for o in range(weight.shape[0]):
        seen = patches[:, o // outputs * inputs : (o // outputs + 1) * inputs]
        out[:, o] = np.einsum(
            seen, [0, *range(1, seen.ndim)], weight[o], range(1, rank + 2), [0, *range(rank + 2, seen.ndim)]
        )
    return out + np.reshape(bias, (-1,) + (1,) * rank)


def _transpose_reference(
    np: Any, x: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Each element of the input sends the weight, times itself, to where it lies."""
    rank = x.ndim - 2
    kernel = np.array(weight.shape[2:])
    stride, padding, more, dilation = (np.broadcast_to(v, (rank,)) for v in (stride, padding, output_padding, dilation))
    reach = (np.array(x.shape[2:]) - 1) * stride + dilation * (kernel - 1) + 1
    inputs, outputs = weight.shape[0] // groups, weight.shape[1]
    full = np.zeros((x.shape[0], outputs * groups, *(reach + more)))
    for i in range(weight.shape[0]):
        channels = slice(i // inputs * outputs, (i // inputs + 1) * outputs)
        for position in np.ndindex(*x.shape[2:]):
            for offset in np.ndindex(*kernel):
                at = (slice(None), channels, *(stride * position + dilation * offset))
                full[at] += np.outer(x[(slice(None), i, *position)], weight[(i, slice(None), *offset)])
    inside = tuple(slice(p, n - p) for p, n in zip(padding, full.shape[2:], strict=True))
    return full[(slice(None), slice(None), *inside)] + np.reshape(bias, (-1,) + (1,) * rank)


def _weight_reference(
    np: Any, g: Any, x: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    shape = (g.shape[1], x.shape[1] // groups, *np.broadcast_to(kernel_size, (x.ndim - 2,)))
    return transposed(np, lambda w: _conv_reference(np, x, w, 0.0, stride, padding, dilation, groups), shape, g)


DEFINITIONS = {}
for _rank in (1, 2, 3):
    DEFINITIONS[f"conv{_rank}d"] = _conv_reference
    DEFINITIONS[f"conv_transpose{_rank}d"] = _transpose_reference
    DEFINITIONS[f"conv{_rank}d_weight_gradient"] = _weight_reference
