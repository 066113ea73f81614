"""Images at other sizes and other places: `interpolate`, `grid_sample`, `affine_grid`.

Along one axis every mode is the same thing: each element of the result is a weighted sum of a few of the input, its
taps. Axes are taken one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from micrograd_core.array.creation import ones_like
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError, one_of
from micrograd_core.nn.functional.common import T, numbers, per_axis

Taps = Sequence[Sequence[tuple[int, float]]]  # for each element of the result, positions and their weights


def resampled(x: Tensor, axis: int, taps: Taps) -> Tensor:
    """`x` with another axis, whose elements are sums over their `taps`."""
    width = max(map(len, taps))
    full = [[*each, *[(each[0][0], 0.0)] * (width - len(each))] for each in taps]
    places = numbers([place for each in full for place, _ in each], x, (-1,), "int64")
    found = T["take"](x, places, axis=axis)
    if all(weight == 1 for each in full for _, weight in each) and width == 1:
        return found
    weights = numbers([w for each in full for _, w in each], x, (len(full), width, *(1,) * (x.ndim - axis - 1)))
    apart = found.reshape(*x.shape[:axis], len(full), width, *x.shape[axis + 1 :])
    return (apart * weights).sum(axis=axis + 1)


def averages(length: int, count: int) -> Taps:
    """Of `count` windows that cover an axis evenly, each the mean: adaptive pooling, and the mode 'area'."""
    windows = ((i * length // count, -(-(i + 1) * length // count)) for i in range(count))
    return [[(place, 1 / (stop - start)) for place in range(start, stop)] for start, stop in windows]


# ── interpolate ──────────────────────────────────────────────────────────────────────────────────────────────


def _triangle(t: float) -> float:
    return max(1 - abs(t), 0.0)


def _cubic(a: float) -> Callable[[float], float]:
    """Keys' kernel (1981), whose slope at 1 is `a`."""

    def weight(t: float) -> float:
        t = abs(t)
        if t < 1:
            return ((a + 2) * t - (a + 3)) * t * t + 1
        return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0

    return weight


_CUBIC = _cubic(-0.75)


def _nearest(length: int, count: int, scale: float, align: bool) -> Taps:
    return [[(min(math.floor(i * scale), length - 1), 1)] for i in range(count)]


def _nearest_exact(length: int, count: int, scale: float, align: bool) -> Taps:
    return [[(min(math.floor((i + 0.5) * scale), length - 1), 1)] for i in range(count)]


def _linear(length: int, count: int, scale: float, align: bool) -> Taps:
    taps = []
    for i in range(count):
        at = i * scale if align else max((i + 0.5) * scale - 0.5, 0.0)
        low = min(int(at), length - 1)
        taps.append([(low, 1 - (at - low)), (min(low + 1, length - 1), at - low)])
    return taps


def _bicubic(length: int, count: int, scale: float, align: bool) -> Taps:
    taps = []
    for i in range(count):
        at = i * scale if align else (i + 0.5) * scale - 0.5
        low = math.floor(at)
        near = range(low - 1, low + 3)
        taps.append([(min(max(place, 0), length - 1), _CUBIC(at - place)) for place in near])
    return taps


def _antialiased(kernel: Callable[[float], float], reach: float) -> Callable[..., Taps]:
    """A kernel as wide as the step between elements of the result, so that all of the input is seen."""

    def taps(length: int, count: int, scale: float, align: bool) -> Taps:
        wide = max(scale, 1.0)
        found = []
        for i in range(count):
            centre = scale * (i + 0.5)
            start = max(int(centre - reach * wide + 0.5), 0)
            stop = min(int(centre + reach * wide + 0.5), length)
            weights = [kernel((place - centre + 0.5) / wide) for place in range(start, stop)]
            total = sum(weights)
            found.append([(place, w / total) for place, w in zip(range(start, stop), weights, strict=True)])
        return found

    return taps


MODES: Final[dict[str, tuple[tuple[int, ...], Callable[..., Taps], Callable[..., Taps] | None]]] = {
    "nearest": ((1, 2, 3), _nearest, None),
    "nearest-exact": ((1, 2, 3), _nearest_exact, None),
    "linear": ((1,), _linear, None),
    "bilinear": ((2,), _linear, _antialiased(_triangle, 1.0)),
    "bicubic": ((2,), _bicubic, _antialiased(_cubic(-0.5), 2.0)),
    "trilinear": ((3,), _linear, None),
    "area": ((1, 2, 3), lambda length, count, scale, align: averages(length, count), None),
}
"""For each mode the numbers of spatial axes that it has, its taps, and those with `antialias`."""


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """(batch, channels, *spatial) at another `size`, or `scale_factor` times as large.

    Parameters
    ----------
    input : Tensor
    size, scale_factor : number, or one for each spatial axis
        One of the two.
    mode : str
        ``'nearest'``, ``'nearest-exact'``, ``'area'``; ``'linear'``, ``'bilinear'`` or ``'trilinear'`` by the number of
        spatial axes; ``'bicubic'``.
    align_corners : bool, optional
        Whether the first and last elements keep their places, rather than the edges of the image.
    recompute_scale_factor : bool, optional
        Whether elements are as far apart as the sizes say, rather than `scale_factor`.
    antialias : bool
        Whether, of ``'bilinear'`` and ``'bicubic'``, all elements of a larger input count.

    Raises
    ------
    ShapeError, ValueError
        When both or neither of size and scale are given, or the mode is not for so many axes.
    """
    x = asarray(input)
    rank = x.ndim - 2
    if mode not in MODES:
        raise ValueError(f"interpolate: mode is {one_of(map(repr, MODES))}; got {mode!r}")
    ranks, plain, smooth = MODES[mode]
    if rank not in ranks:
        fitting = one_of(repr(name) for name, (fits, _, _) in MODES.items() if rank in fits)
        raise ShapeError(
            f"interpolate: mode {mode!r} is not for shape {x.shape}, of {rank} spatial axes; try {fitting}"
        )
    if (size is None) is (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate: mode {mode!r} has no corners to align; leave align_corners=None")
    if antialias and smooth is None:
        raise ValueError("interpolate: antialias is for the modes 'bilinear' and 'bicubic'")
    factors: Sequence[float | None] = [None] * rank
    if size is None:
        given = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * rank
        sizes = tuple(math.floor(n * factor) for n, factor in zip(x.shape[2:], given, strict=True))
        factors = factors if recompute_scale_factor else given
    else:
        sizes = per_axis("interpolate", "size", size, rank)
    if min((*sizes, *x.shape[2:])) < 1:
        raise ShapeError(f"interpolate: nothing comes of shape {x.shape} at size {sizes}")
    chosen = smooth if antialias and smooth is not None else plain
    for axis, (count, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        length = x.shape[axis]
        scale = 1 / factor if factor else length / count
        if align_corners:
            scale = (length - 1) / (count - 1) if count > 1 else 0.0
        x = resampled(x, axis, chosen(length, count, scale, bool(align_corners)))
    return x


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Tensor:
    """`interpolate`, by its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by straight lines, with the corners aligned."""
    return interpolate(input, size, scale_factor, "bilinear", True)


# ── grids ────────────────────────────────────────────────────────────────────────────────────────────────────


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Where the elements of an output of `size` come from: (batch, 2, 3) to (batch, height, width, 2), or 3-d alike."""
    matrix, lengths = asarray(theta), tuple(size)[2:]
    rank = len(lengths)
    if rank not in (2, 3) or matrix.shape != (size[0], rank, rank + 1):
        raise ShapeError(
            f"affine_grid: theta is (batch, 2, 3) for a size of 4 lengths, (batch, 3, 4) for one of 5; got "
            f"{matrix.shape} and {tuple(size)}"
        )
    columns = []
    for axis, n in reversed([*enumerate(lengths)]):
        steps = [(2 * i - n + 1) / (max(n - 1, 1) if align_corners else n) for i in range(n)]
        along = numbers(steps, matrix, [n if each == axis else 1 for each in range(rank)])
        columns.append(T["broadcast_to"](along, lengths))
    base = T["stack"]([*columns, ones_like(columns[0])], axis=-1)
    return (base.reshape(1, -1, rank + 1) @ matrix.mT).reshape(size[0], *lengths, rank)


def _unnormalized(g: Tensor, n: int, align: bool) -> Tensor:
    """-1 to 1 as positions: of the first and last elements with `align`, else of the edges."""
    return (g + 1) * ((n - 1) / 2) if align else ((g + 1) * n - 1) / 2


def _kept_inside(at: Tensor, n: int, padding_mode: str, align: bool) -> Tensor:
    """Positions outside clipped to the border, or reflected at it."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
        if high == low:
            return at * 0
        span = high - low
        size = T["abs"](at - low)
        flips = T["floor"](size.detach() / span)
        rest = size - flips * span
        at = T["where"](T["remainder"](flips, 2) == 0, rest + low, high - rest)
    return T["clip"](at, 0.0, n - 1.0)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Elements of (batch, channels, *spatial) at the places of a grid (batch, *output, 2 or 3), between -1 and 1.

    Parameters
    ----------
    input, grid : Tensor
        The last axis of the grid counts the last spatial axis first.
    mode : str
        ``'bilinear'`` (of three axes too), ``'nearest'`` or, of two axes, ``'bicubic'``.
    padding_mode : str
        What is outside: ``'zeros'``, ``'border'`` or ``'reflection'``.
    align_corners : bool, optional
        Whether -1 and 1 are the places of the first and last elements, rather than the edges of the image.

    Raises
    ------
    ShapeError, ValueError
        When input and grid do not fit, or a mode is another word.
    """
    x, places, align = asarray(input), asarray(grid), bool(align_corners)
    rank = x.ndim - 2
    if rank not in (2, 3) or places.ndim != x.ndim or places.shape[0] != x.shape[0] or places.shape[-1] != rank:
        raise ShapeError(
            f"grid_sample: input {x.shape} and grid {places.shape} do not fit (batch, channels, height, width) and "
            "(batch, height, width, 2), or the same of three axes"
        )
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and rank == 3):
        raise ValueError(f"grid_sample: mode is 'bilinear', 'nearest' or, of two axes, 'bicubic'; got {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: padding_mode is 'zeros', 'border' or 'reflection'; got {padding_mode!r}")
    axes = []
    for axis, n in enumerate(x.shape[2:]):
        at = _unnormalized(places[..., rank - 1 - axis], n, align)
        if mode != "bicubic":
            at = _kept_inside(at, n, padding_mode, align)
        axes.append(_grid_taps(at, n, mode, padding_mode, align))
    flat = x.reshape(*x.shape[:2], -1)
    output = places.shape[1:-1]
    total: Any = None
    for corner in product(*axes):
        linear: Any = 0
        weight: Any = None
        inside: Any = None
        for (position, share), n in zip(corner, x.shape[2:], strict=True):
            within = (position >= 0) & (position < n)
            inside = within if inside is None else inside & within
            linear = linear * n + T["clip"](position, 0, n - 1)
            weight = share if weight is None else weight * share
        linear = linear.astype("int64").reshape(x.shape[0], 1, -1)
        found = T["take_along_axis"](flat, linear, axis=2).reshape(*x.shape[:2], *output)
        part = T["where"](inside.expand_dims(1), found * weight.expand_dims(1), 0)
        total = part if total is None else total + part
    return total


def _grid_taps(at: Tensor, n: int, mode: str, padding_mode: str, align: bool) -> list[tuple[Tensor, Tensor]]:
    """Positions along one axis, whole numbers that have no gradient, and their weights, which have."""
    if mode == "nearest":
        nearest = T["round"](at.detach())
        return [(nearest, ones_like(nearest))]
    low = T["floor"](at.detach())
    rest = at - low
    if mode == "bilinear":
        return [(low, 1 - rest), (low + 1, rest)]
    a = -0.75
    far = [((t - 5) * t + 8) * t * a - 4 * a for t in (rest + 1, 2 - rest)]
    near = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (rest, 1 - rest)]
    positions = [_kept_inside(low + offset, n, padding_mode, align) for offset in (-1, 0, 1, 2)]
    positions = [T["round"](each) for each in positions]
    return list(zip(positions, (far[0], near[0], near[1], far[1]), strict=True))
