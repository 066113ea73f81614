"""Convolutions and poolings as functions, which take what their records do not.

An input may come without a batch; padding may be "same" for kernels of even length; and `output_padding` may be the
stride or more, if it is less than the dilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.ops.network.convolution import check_bias, check_rest
from micrograd_core.ops.network.patches import per_axis

Function = Callable[..., Tensor]
Functions = Mapping[str, Function]


def widened(name: str, function: Function, functions: Functions) -> Function:
    """The function ``conv2d`` from the op table, say, with what its record does not take; others as they are."""
    wider = WIDER.get(name[:-2])
    return function if wider is None else wider(function, int(name[-2]), functions)


def _of_same_sizes(function: Function, rank: int, functions: Functions) -> Function:
    """Also where the zeros around an input are odd in number, of which the last comes behind."""
    name = function.__name__

    def either(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("padding", 0) != "same" or len(args) < 2:
            return function(*args, **kwargs)
        x, weight = map(asarray, args[:2])
        steps, spread = (per_axis(name, each, kwargs.get(each, 1), rank, 1) for each in ("stride", "dilation"))
        reach = [d * (n - 1) for d, n in zip(spread, weight.shape[2:], strict=False)]
        if weight.ndim != rank + 2 or x.ndim != rank + 2 or max(steps) > 1 or not any(each % 2 for each in reach):
            return function(x, weight, *args[2:], **kwargs)  # which says what is wrong, if something is
        around = [(0, 0), (0, 0), *((each // 2, each - each // 2) for each in reach)]
        return function(functions["pad"](x, around), weight, *args[2:], **{**kwargs, "padding": 0})

    return wraps(function)(either)


def _of_wide_dilations(function: Function, rank: int, functions: Functions) -> Function:
    """Also where `output_padding` is the stride or more: out of the transpose without padding, and zeros behind it."""
    name = function.__name__

    def either(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("output_padding", 0) == 0 or len(args) not in (2, 3):
            return function(*args, **kwargs)
        least = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
        steps, around, more, spread = (per_axis(name, each, kwargs.get(each, n), rank, n) for each, n in least.items())
        legal = all(m < max(s, d) for m, s, d in zip(more, steps, spread, strict=True))
        if not legal or all(m < s for m, s in zip(more, steps, strict=True)):
            return function(*args, **kwargs)  # which says what is wrong, if something is
        x, weight, bias = asarray(args[0]), asarray(args[1]), args[2] if len(args) == 3 else kwargs.get("bias")
        whole = function(x, weight, stride=steps, dilation=spread, groups=kwargs.get("groups", 1))
        ends = tuple(n - p + m for n, p, m in zip(whole.shape[2:], around, more, strict=True))
        check_rest(name, x, weight, around, tuple(end - p for end, p in zip(ends, around, strict=True)))
        behind = [(0, max(end - n, 0)) for end, n in zip(ends, whole.shape[2:], strict=True)]
        out = functions["pad"](whole, [(0, 0), (0, 0), *behind])
        out = out[(..., *(slice(p, end) for p, end in zip(around, ends, strict=True)))]
        if bias is None:
            return out
        check_bias(name, bias, out.shape[1])
        return out + (bias.reshape(-1, *(1,) * rank) if getattr(bias, "shape", ()) else bias)

    return wraps(function)(either)


WIDER = {"conv": _of_same_sizes, "conv_transpose": _of_wide_dilations}
