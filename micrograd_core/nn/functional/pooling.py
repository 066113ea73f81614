"""Poolings over one to three axes: maxima, with their places and back from these, means, p-norms, adaptive ones.

An input may come without a batch. Elements tied for a maximum share its gradient evenly; where places are asked for,
the first of them has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from micrograd_core.array.creation import zeros
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, numbers, per_axis, with_batch, without_batch
from micrograd_core.nn.functional.resampling import averages, resampled
from micrograd_core.random import uniform

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.

Table = Sequence[Sequence[int]]  # for each position along an axis, which elements it sees


class _Windows(NamedTuple):
    """Where windows lie along the spatial axes."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    counts: tuple[int, ...]
    beyond: tuple[int, ...]  # elements missing behind the padding for the last window, with `ceil_mode`

    @classmethod
    def of(
        cls, name: str, shape: tuple[int, ...], kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
    ) -> _Windows:
        rank = len(shape)
        sizes = per_axis(name, "kernel_size", kernel, rank)
        steps = sizes if stride is None or stride == [] else per_axis(name, "stride", stride, rank)
        around, spread = per_axis(name, "padding", padding, rank), per_axis(name, "dilation", dilation, rank)
        if min((*sizes, *steps, *spread)) < 1 or any(p < 0 or 2 * p > k for p, k in zip(around, sizes, strict=True)):
            raise ShapeError(
                f"{name}: kernel_size, stride and dilation are at least 1, and padding at most half the kernel; got "
                f"{sizes}, {steps}, {spread} and {around}"
            )
        counts, beyond = [], []
        for n, k, s, p, d in zip(shape, sizes, steps, around, spread, strict=True):
            reach = d * (k - 1) + 1
            count = (n + 2 * p - reach + (s - 1 if ceil else 0)) // s + 1
            if ceil and (count - 1) * s >= n + p:  # a window starts in the input, or in the padding before it
                count -= 1
            if count < 1:
                raise ShapeError(f"{name}: a kernel of {sizes} (dilation {spread}) does not fit into {shape}")
            counts.append(count)
            beyond.append(max((count - 1) * s + reach - n - 2 * p, 0))
        return cls(sizes, steps, around, spread, tuple(counts), tuple(beyond))

    def padded(self, x: Tensor, fill: float) -> Tensor:
        widths = [(p, p + more) for p, more in zip(self.padding, self.beyond, strict=True)]
        return T["pad"](x, [(0, 0), (0, 0), *widths], constant_values=fill)

    def tables(self, shape: tuple[int, ...]) -> list[Table]:
        """What each window sees; in the place of padding it sees an element of its own again."""
        found: list[Table] = []
        for n, k, s, p, d, count in zip(shape, *self[:5], strict=True):
            rows = [[i * s - p + j * d for j in range(k)] for i in range(count)]
            inside = [[place for place in row if 0 <= place < n] for row in rows]
            found.append([[*row, *[row[-1]] * (k - len(row))] for row in inside])
        return found


# ── maxima ───────────────────────────────────────────────────────────────────────────────────────────────────


def _places(x: Tensor, tables: Sequence[Table]) -> Tensor:
    """Positions among the flattened spatial axes, (windows, elements of a window)."""
    rank = len(tables)
    total: Any = 0
    for axis, (table, n) in enumerate(zip(tables, x.shape[2:], strict=True)):
        count, width = len(table), len(table[0])
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, width
        total = total * n + numbers([place for row in table for place in row], x, shape, "int64")
    return total.reshape(math.prod(total.shape[:rank]), -1)


def _greatest(x: Tensor, places: Tensor, counts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The greatest element of each window, and where it is; `places` may differ between examples and channels."""
    flat = x.reshape(*x.shape[:2], -1)
    windows, width = places.shape[-2:]
    places = places.reshape(*(1,) * (4 - places.ndim), *places.shape)
    wide = T["broadcast_to"](places, (*x.shape[:2], windows, width))
    seen = T["take_along_axis"](flat.detach(), wide.reshape(*x.shape[:2], -1), axis=2).reshape(wide.shape)
    best = T["take_along_axis"](wide, T["argmax"](seen, axis=-1, keepdims=True), axis=-1)[..., 0]
    values = T["take_along_axis"](flat, best, axis=2)
    return values.reshape(*x.shape[:2], *counts), best.reshape(*x.shape[:2], *counts)


def _max_pool(
    name: str, rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    x, absent = with_batch(name, input, rank)
    windows = _Windows.of(name, x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        found = _greatest(x, _places(x, windows.tables(x.shape[2:])), windows.counts)
        return tuple(without_batch(each, absent) for each in found)
    around = windows.padding
    if any(windows.beyond):
        x, around = windows.padded(x, -math.inf), (0,) * rank
    given = {"stride": windows.stride, "padding": around, "dilation": windows.dilation}
    if rank < 3:
        return without_batch(T[name](x, windows.kernel, **given), absent)
    patches = T["patches"](x, kernel_size=windows.kernel, fill=-math.inf, **given)
    return without_batch(_first(patches, windows.counts).max(axis=(2, 3, 4)), absent)


def _first(patches: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Patches of the first positions: the padding for the last may have room for one more."""
    rank = len(counts)
    return patches[(slice(None),) * (2 + rank) + tuple(slice(0, count) for count in counts)]


def _max_unpool(
    name: str, rank: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    x, absent = with_batch(name, input, rank)
    places = with_batch(name, indices, rank)[0]
    kernel = per_axis(name, "kernel_size", kernel_size, rank)
    steps = kernel if stride is None else per_axis(name, "stride", stride, rank)
    around = per_axis(name, "padding", padding, rank)
    size = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[2:], steps, kernel, around, strict=True))
    if output_size is not None:
        size = tuple(output_size)[-rank:]
    if places.shape != x.shape:
        raise ShapeError(f"{name}: indices of shape {places.shape} do not fit values of shape {x.shape}")
    lanes, length = math.prod(x.shape[:2]), math.prod(size)
    starts = numbers([lane * length for lane in range(lanes)], x, (lanes, 1), "int64")
    flat = (places.reshape(lanes, -1) + starts).reshape(-1)
    empty = zeros(lanes * length, dtype=x.dtype, device=x.device)
    out = T["index_set"](empty, flat, x.reshape(-1), axis=0)
    return without_batch(out.reshape(*x.shape[:2], *size), absent)


# ── means and norms ──────────────────────────────────────────────────────────────────────────────────────────


def _avg_pool(
    name: str, rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    x, absent = with_batch(name, input, rank)
    windows = _Windows.of(name, x.shape[2:], kernel_size, stride, padding, 1, ceil_mode)
    size = x.shape[2:]
    around = windows.padding
    if any(windows.beyond):
        x, around = windows.padded(x, 0), (0,) * rank
    if rank < 3:
        out = T[name](x, windows.kernel, stride=windows.stride, padding=around)
    else:
        patches = T["patches"](x, kernel_size=windows.kernel, stride=windows.stride, padding=around)
        out = _first(patches, windows.counts).mean(axis=(2, 3, 4))
    whole = math.prod(windows.kernel)
    if divisor_override is not None:
        out = out * (whole / divisor_override)
    elif any(windows.beyond) or (any(windows.padding) and not count_include_pad):
        for axis, (n, k, s, p, count) in enumerate(
            zip(size, windows.kernel, windows.stride, windows.padding, windows.counts, strict=True)
        ):
            ends = n + p if count_include_pad else n
            start = -p if count_include_pad else 0
            seen = [min(i * s - p + k, ends) - max(i * s - p, start) for i in range(count)]
            shape = [count if each == axis else 1 for each in range(rank)]
            out = out * numbers([k / each for each in seen], out, shape)
    return without_batch(out, absent)


def _lp_pool(name: str, rank: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil: bool) -> Tensor:
    kernel = per_axis(name, "kernel_size", kernel_size, rank)
    powers = asarray(input) ** norm_type
    means = _avg_pool(f"avg_pool{rank}d", rank, powers, kernel, stride, 0, ceil, True, None)
    return (T["sign"](means) * T["relu"](T["abs"](means)) * math.prod(kernel)) ** (1 / norm_type)


# ── adaptive and fractional ──────────────────────────────────────────────────────────────────────────────────


def _sizes(name: str, output_size: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * len(shape)
    if len(given) != len(shape):
        raise ShapeError(f"{name}: output_size {output_size} does not fit the {len(shape)} spatial axes of {shape}")
    return tuple(n if count is None else int(count) for n, count in zip(shape, given, strict=True))


def _adaptive_avg_pool(rank: int, input: Any, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    x, absent = with_batch(name, input, rank)
    for axis, count in enumerate(_sizes(name, output_size, x.shape[2:]), 2):
        x = resampled(x, axis, averages(x.shape[axis], count))
    return without_batch(x, absent)


def _adaptive_max_pool(rank: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    x, absent = with_batch(name, input, rank)
    counts = _sizes(name, output_size, x.shape[2:])
    tables = []
    for n, count in zip(x.shape[2:], counts, strict=True):
        rows = [[place for place, _ in row] for row in averages(n, count)]
        width = max(map(len, rows))
        tables.append([[*row, *[row[-1]] * (width - len(row))] for row in rows])
    found = tuple(without_batch(each, absent) for each in _greatest(x, _places(x, tables), counts))
    return found if return_indices else found[0]


def _fractional_max_pool(
    name: str, rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Any,
) -> Any:  # fmt: skip
    """Windows whose distances vary by chance between two whole numbers (Graham 2014)."""
    x, absent = with_batch(name, input, rank)
    kernel = per_axis(name, "kernel_size", kernel_size, rank)
    if (output_size is None) is (output_ratio is None):
        raise ValueError(f"{name}: give either output_size or output_ratio")
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        counts = tuple(int(n * ratio) for n, ratio in zip(x.shape[2:], ratios, strict=True))
    else:
        counts = per_axis(name, "output_size", output_size, rank)
    if any(count < 1 or count + k - 1 > n for n, k, count in zip(x.shape[2:], kernel, counts, strict=True)):
        raise ShapeError(f"{name}: {counts} windows of {kernel} do not fit into shape {x.shape}")
    drawn = uniform((*x.shape[:2], rank), dtype=x.dtype, device=x.device) if samples is None else asarray(samples)
    total: Any = 0
    for axis, (n, k, count) in enumerate(zip(x.shape[2:], kernel, counts, strict=True)):
        at = drawn[..., axis if rank == 3 else 1 - axis].expand_dims(-1)  # PyTorch draws the width's number first
        step = (n - k) / (count - 1) if count > 1 else 0.0
        steps = numbers(range(count), drawn, (count,))
        starts = T["floor"]((steps + at) * step) - T["floor"](at * step)
        starts = T["where"](steps == count - 1, n - k, starts).astype("int64")
        shape = [*x.shape[:2], *[1] * (2 * rank)]
        shape[2 + axis] = count
        offsets = [1] * (2 * rank)
        offsets[rank + axis] = k
        total = total * n + starts.reshape(shape) + numbers(range(k), x, offsets, "int64")
    places = total.reshape(*x.shape[:2], math.prod(counts), math.prod(kernel))
    found = tuple(without_batch(each, absent) for each in _greatest(x, places, counts))
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
