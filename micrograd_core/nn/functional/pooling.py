"""Poolings over one to three axes: maxima, with their places and back from these, means, p-norms, adaptive ones.

An input may come without a batch. Elements tied for a maximum share its gradient evenly; where places are asked for,
the first of them has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.nn.functional.common import T, per_axis, with_batch, without_batch
from micrograd_core.ops.network.windows import Windows
from micrograd_core.random import uniform

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.

# ── maxima ───────────────────────────────────────────────────────────────────────────────────────────────────


def _with_places(name: str, rank: int, input: Any, *args: Any, **params: Any) -> Any:
    """Values and places of a record, without the batch if there was none."""
    x, absent = with_batch(name, input, rank)
    found: Any = T[args[0]](x, *args[1:], **params)
    return tuple(without_batch(each, absent) for each in found)


def _max_pool(
    name: str, rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    given = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    if return_indices:
        return _with_places(name, rank, input, "max_pool_with_indices", kernel_size, **given)
    x, absent = with_batch(name, input, rank)
    kernel, *where, _, beyond = Windows.of(name, x, kernel_size, **given)
    if any(beyond):
        widths = [(p, p + more) for p, more in zip(where[1], beyond, strict=True)]
        x, where[1] = T["pad"](x, [(0, 0), (0, 0), *widths], constant_values=-math.inf), (0,) * rank
    return without_batch(T[name](x, kernel, stride=where[0], padding=where[1], dilation=where[2]), absent)


def _max_unpool(
    name: str, rank: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    x, absent = with_batch(name, input, rank)
    places = with_batch(name, indices, rank)[0]
    kernel = per_axis(name, "kernel_size", kernel_size, rank)
    steps = kernel if stride is None else per_axis(name, "stride", stride, rank)
    around = per_axis(name, "padding", padding, rank)
    size = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[2:], steps, kernel, around, strict=True))
    return without_batch(
        T["max_unpool"](x, places, size if output_size is None else tuple(output_size)[-rank:]), absent
    )


# ── means and norms ──────────────────────────────────────────────────────────────────────────────────────────


def _avg_pool(
    name: str, rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    x, absent = with_batch(name, input, rank)
    kernel, steps, around, _, _, beyond = Windows.of(name, x, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is None and not any(beyond) and (count_include_pad or not any(around)):
        return without_batch(T[name](x, kernel, stride=steps, padding=around), absent)
    given = {"stride": steps, "padding": around, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return without_batch(T["padded_avg_pool"](x, kernel, divisor_override=divisor_override, **given), absent)


def _lp_pool(name: str, rank: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil: bool) -> Tensor:
    x, absent = with_batch(name, input, rank)
    return without_batch(T["lp_pool"](x, norm_type, kernel_size, stride=stride, ceil_mode=ceil), absent)


# ── adaptive and fractional ──────────────────────────────────────────────────────────────────────────────────


def _adaptive_avg_pool(rank: int, input: Any, output_size: Any) -> Tensor:
    x, absent = with_batch(f"adaptive_avg_pool{rank}d", input, rank)
    return without_batch(T["adaptive_avg_pool"](x, output_size), absent)


def _adaptive_max_pool(rank: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    found = _with_places(name, rank, input, "adaptive_max_pool_with_indices", output_size)
    return found if return_indices else found[0]


def _fractional_max_pool(
    name: str, rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Any,
) -> Any:  # fmt: skip
    """Windows whose distances vary by chance between two whole numbers (Graham 2014)."""
    x, absent = with_batch(name, input, rank)
    if (output_size is None) is (output_ratio is None):
        raise ValueError(f"{name}: give either output_size or output_ratio")
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        output_size = tuple(int(n * ratio) for n, ratio in zip(x.shape[2:], ratios, strict=True))
    drawn = uniform((*x.shape[:2], rank), dtype=x.dtype, device=x.device) if samples is None else asarray(samples)
    pooled: Any = T["fractional_max_pool_with_indices"](x, drawn, kernel_size, output_size)
    found = tuple(without_batch(each, absent) for each in pooled)
    return found if return_indices else found[0]


# ── by the number of axes ────────────────────────────────────────────────────────────────────────────────────


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _family(rank: int) -> dict[str, Callable[..., Any]]:
    """The poolings over `rank` axes."""

    def max_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        name = f"max_pool{rank}d"
        return _max_pool(name, rank, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def max_pool_with_indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def max_unpool(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Tensor:
        return _max_unpool(f"max_unpool{rank}d", rank, input, indices, kernel_size, stride, padding, output_size)

    def avg_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        name = f"avg_pool{rank}d"
        return _avg_pool(
            name, rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    def avg_pool_of_one(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:  # fmt: skip
        return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        return _lp_pool(f"lp_pool{rank}d", rank, input, norm_type, kernel_size, stride, ceil_mode)

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        return _adaptive_avg_pool(rank, input, output_size)

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return _adaptive_max_pool(rank, input, output_size, return_indices)

    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return _adaptive_max_pool(rank, input, output_size, True)

    def fractional_max_pool(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        name = f"fractional_max_pool{rank}d"
        return _fractional_max_pool(
            name, rank, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )

    def fractional_max_pool_with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return fractional_max_pool(input, kernel_size, output_size, output_ratio, True, _random_samples)

    places = "and where each is among the flattened spatial axes"
    made: dict[str, tuple[Callable[..., Any], str]] = {
        f"max_pool{rank}d": (max_pool, f"The maximum of each window; with `return_indices` {places}."),
        f"max_pool{rank}d_with_indices": (max_pool_with_indices, f"The maximum of each window, {places}."),
        f"max_unpool{rank}d": (max_unpool, f"Zeros but for maxima, back where `max_pool{rank}d` found them."),
        f"avg_pool{rank}d": (avg_pool if rank > 1 else avg_pool_of_one, "The mean of each window."),
        f"lp_pool{rank}d": (lp_pool, "The root of the sum of powers of each window."),
        f"adaptive_avg_pool{rank}d": (adaptive_avg_pool, "The means of windows that cover the input evenly."),
        f"adaptive_max_pool{rank}d": (adaptive_max_pool, "The maxima of windows that cover the input evenly."),
        f"adaptive_max_pool{rank}d_with_indices": (adaptive_max_pool_with_indices, f"Those maxima, {places}."),
    }
    if rank > 1:
        chance = "The maxima of windows that lie by chance (Graham 2014)"
        made[f"fractional_max_pool{rank}d"] = (fractional_max_pool, f"{chance}; with `return_indices` {places}.")
        made[f"fractional_max_pool{rank}d_with_indices"] = (fractional_max_pool_with_indices, f"{chance}, {places}.")
    return {name: _named(function, name, doc) for name, (function, doc) in made.items()}


POOLINGS = {name: function for rank in (1, 2, 3) for name, function in _family(rank).items()}
