"""Images at other sizes and other places: `interpolate`, `grid_sample`, `affine_grid`, adaptive means.

Along one axis every mode is the same thing: each element of the result is a weighted sum of a few of the input, its
taps. Axes are taken one after the other. Taps turned round are those of the transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from itertools import product
from operator import index
from typing import Any, Final

from micrograd_core.dtypes import int64, pack
from micrograd_core.errors import ShapeError, one_of
from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import per_axis
from micrograd_core.ops.record import Array, Handle, Sample, Table
from micrograd_core.ops.shared import along_axis, chosen, in_float32, network, times
from micrograd_core.ops.standard.transcendental import horner
from micrograd_core.ops.tangents import linear, total

Taps = Sequence[Sequence[tuple[int, float]]]  # for each element of the result, positions and their weights

# ── taps ─────────────────────────────────────────────────────────────────────────────────────────────────────


def averages(length: int, count: int, *_: Any) -> Taps:
    """Of `count` windows that cover an axis evenly, each the mean: adaptive pooling, and the mode 'area'."""
    windows = ((i * length // count, -(-(i + 1) * length // count)) for i in range(count))
    return [[(place, 1 / (stop - start)) for place in range(start, stop)] for start, stop in windows]


def _triangle(t: float) -> float:
    """The kernel of straight lines."""
    return max(1 - abs(t), 0.0)


def _cubic(a: float, t: float) -> float:
    """Keys' kernel (1981), whose slope at 1 is `a`."""
    t = abs(t)
    if t < 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0


def _nearest(shift: float, length: int, count: int, scale: float, align: bool) -> Taps:
    """The one element in which a place lies, counted from `shift` of the distance of two."""
    return [[(min(math.floor((i + shift) * scale), length - 1), 1)] for i in range(count)]


Kernel = Callable[[float], float]


def _interpolating(kernel: Kernel, reach: int, length: int, count: int, scale: float, align: bool) -> Taps:
    """The elements within `reach` of a place; beyond the edges the last one stands for them."""
    found = []
    for i in range(count):
        at = i * scale if align else (i + 0.5) * scale - 0.5
        near = range(math.floor(at) - reach + 1, math.floor(at) + reach + 1)
        found.append([(min(max(place, 0), length - 1), kernel(at - place)) for place in near])
    return found


def _antialiased(kernel: Kernel, reach: float, length: int, count: int, scale: float, align: bool) -> Taps:
    """A kernel as wide as the step between elements of the result, so that all of the input is seen."""
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


_LINEAR, _CUBIC = partial(_interpolating, _triangle, 1), partial(_interpolating, partial(_cubic, -0.75), 2)
MODES: Final[dict[str, tuple[Shape, Callable[..., Taps], Callable[..., Taps] | None]]] = {
    "nearest": ((1, 2, 3), partial(_nearest, 0.0), None),
    "nearest-exact": ((1, 2, 3), partial(_nearest, 0.5), None),
    "linear": ((1,), _LINEAR, None),
    "bilinear": ((2,), _LINEAR, partial(_antialiased, _triangle, 1.0)),
    "bicubic": ((2,), _CUBIC, partial(_antialiased, partial(_cubic, -0.5), 2.0)),
    "trilinear": ((3,), _LINEAR, None),
    "area": ((1, 2, 3), averages, None),
}
"""For each mode the numbers of spatial axes that it has, its taps, and those with `antialias`."""


@lru_cache(maxsize=256)
def _table(
    length: int, count: int, mode: str, scale: float, align_corners: bool, antialias: bool, transposed: bool
) -> tuple[int, list[int], list[float]]:
    """How many taps each element has, where they are, and their weights: with weight 0 where there are fewer."""
    _, plain, smooth = MODES[mode]
    taps = (smooth if antialias and smooth is not None else plain)(length, count, scale, align_corners)
    if transposed:
        turned: list[list[tuple[int, float]]] = [[] for _ in range(length)]
        for i, each in enumerate(taps):
            for place, weight in each:
                turned[place].append((i, weight))
        taps = turned
    width = max(map(len, taps))
    full = [[*each, *[(0, 0.0)] * (width - len(each))] for each in taps]
    return width, [place for each in full for place, _ in each], [weight for each in full for _, weight in each]


# ── along one axis ───────────────────────────────────────────────────────────────────────────────────────────


@in_float32
def _resample(
    k: Table, x: Handle, *, axis: int, length: int, count: int, mode: str = "linear", scale: float = 1.0,
    align_corners: bool = False, antialias: bool = False, transposed: bool = False,
) -> Handle:  # fmt: skip
    """Elements along `axis`, of `length`, as weighted sums of neighbours, `count` of them.

    It is `interpolate` along one axis. `scale` is the distance of two of the result in the input. `transposed`: the
    transpose, from `count` to `length`.
    """
    lengthened, dtype = length if transposed else count, k.dtype(x)
    width, places, weights = _table(length, count, mode, scale, align_corners, antialias, transposed)
    found = k.take(x, k.upload(pack(places, int64), (len(places),), int64), axis=axis)
    if width == 1 and all(weight == 1 for weight in weights):
        return found
    before, after = tuple(x.shape[:axis]), tuple(x.shape[axis + 1 :])
    apart = k.reshape(found, shape=(*before, lengthened, width, *after))
    table = k.upload(pack(weights, dtype), (lengthened, width, *(1,) * len(after)), dtype)
    return k.sum(k.multiply(apart, table), axis=(axis + 1,), keepdims=False)


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────────


def _interpolate_parameters(
    x: Any, /, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """(batch, channels, *spatial) at another `size`, or `scale_factor` times as large.

    `mode` is ``'nearest'``, ``'nearest-exact'`` or ``'area'``; ``'linear'``, ``'bilinear'`` or ``'trilinear'`` by
    the number of spatial axes; ``'bicubic'``. `align_corners`: the first and last elements keep their places,
    rather than the edges of the image. `recompute_scale_factor`: elements are as far apart as the sizes say.
    `antialias`: of ``'bilinear'`` and ``'bicubic'`` all elements of a larger input count.
    """
    shape = tuple(x.shape)
    rank = len(shape) - 2
    ranks, _, smooth = MODES[chosen("interpolate", "mode", mode, MODES)]
    if rank not in ranks:
        fitting = one_of(repr(name) for name, (fits, _, _) in MODES.items() if rank in fits)
        raise ShapeError(f"interpolate: mode {mode!r} is not for shape {shape}, of {rank} spatial axes; try {fitting}")
    if (size is None) is (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate: mode {mode!r} has no corners to align; leave align_corners=None")
    if antialias and smooth is None:
        raise ValueError("interpolate: antialias is for the modes 'bilinear' and 'bicubic'")
    factors: Sequence[float | None] = [None] * rank
    if size is None:
        given = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * rank
        sizes = tuple(math.floor(n * factor) for n, factor in zip(shape[2:], given, strict=True))
        factors = factors if recompute_scale_factor else given
    else:
        sizes = per_axis("interpolate", "size", size, rank, 0)
    if min((*sizes, *shape[2:])) < 1:
        raise ShapeError(f"interpolate: nothing comes of shape {shape} at size {sizes}")
    scales = []
    for length, count, factor in zip(shape[2:], sizes, factors, strict=True):
        scale = 1 / factor if factor else length / count
        scales.append((length - 1) / max(count - 1, 1) * (count > 1) if align_corners else scale)
    return {
        "size": sizes, "scales": tuple(map(float, scales)), "mode": mode, "align_corners": bool(align_corners),
        "antialias": bool(antialias),
    }  # fmt: skip


def _interpolate(k: Table, x: Handle, *, size: Shape, scales: Sequence[float], mode: str, **how: bool) -> Handle:
    for axis, (count, scale) in enumerate(zip(size, scales, strict=True), 2):
        x = k.resample(x, axis=axis, length=x.shape[axis], count=count, mode=mode, scale=scale, transposed=False, **how)
    return x


def sizes_of(name: str, x: Any, output_size: Any) -> Shape:
    """The lengths of the spatial axes of a result; ``None`` stands for that of the input."""
    spatial = tuple(x.shape[2:])
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * len(spatial)
    if len(given) != len(spatial):
        raise ShapeError(f"{name}: output_size {output_size} does not fit the {len(spatial)} spatial axes of {spatial}")
    return tuple(n if count is None else index(count) for n, count in zip(spatial, given, strict=True))


def _adaptive_parameters(x: Any, /, output_size: Any) -> dict[str, Any]:
    """The means of `output_size` windows that cover the spatial axes of (batch, channels, *spatial) evenly."""
    return {"size": sizes_of("adaptive_avg_pool", x, output_size)}


def _adaptive_avg_pool(k: Table, x: Handle, *, size: Shape) -> Handle:
    scales = (1.0,) * len(size)
    return _interpolate(k, x, size=size, scales=scales, mode="area", align_corners=False, antialias=False)


# ── grids ────────────────────────────────────────────────────────────────────────────────────────────────────


def _affine_parameters(theta: Any, /, size: Any, align_corners: bool | None = None) -> dict[str, Any]:
    """Where the elements of an output of `size` come from: (batch, 2, 3) to (batch, height, width, 2), or in 3-d."""
    shape, lengths = tuple(theta.shape), tuple(size)[2:]
    rank = len(lengths)
    if rank not in (2, 3) or shape != (size[0], rank, rank + 1):
        raise ShapeError(
            f"affine_grid: theta is (batch, 2, 3) for a size of 4 lengths, (batch, 3, 4) for one of 5; got {shape} and "
            f"{tuple(size)}"
        )
    return {"size": tuple(map(index, size)), "align_corners": bool(align_corners)}


def _affine_grid(k: Table, theta: Handle, *, size: Shape, align_corners: bool) -> Handle:
    lengths, dtype = size[2:], k.dtype(theta)
    rank, columns = len(lengths), []
    for axis, n in reversed([*enumerate(lengths)]):
        steps = k.add(k.multiply(k.astype(k.arange(n, dtype=int64), dtype=dtype), 2.0), 1.0 - n)
        steps = k.multiply(steps, 1 / (max(n - 1, 1) if align_corners else n))
        along = k.reshape(steps, shape=along_axis(steps, axis, rank))
        columns.append(k.broadcast_to(along, shape=lengths))
    columns.append(k.full(shape=lengths, fill_value=1, dtype=dtype))
    base = k.reshape(k.stack(*columns, axis=rank), shape=(1, math.prod(lengths), rank + 1))
    return k.reshape(k.matmul(base, k.permute_dims(theta, axes=(0, 2, 1))), shape=(size[0], *lengths, rank))


PADDINGS: Final = ("zeros", "border", "reflection")


def _grid_parameters(
    x: Any, grid: Any, /, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> dict[str, Any]:
    """Elements of (batch, channels, *spatial) at the places of a grid (batch, *output, 2 or 3), between -1 and 1.

    The last axis of the grid counts the last spatial axis first. `mode` is ``'bilinear'`` (of three axes too),
    ``'nearest'`` or, of two axes, ``'bicubic'``; `padding_mode`, what is outside, ``'zeros'``, ``'border'`` or
    ``'reflection'``. `align_corners`: -1 and 1 are the places of the first and last elements, rather than the edges
    of the image.
    """
    shape, places = tuple(x.shape), tuple(grid.shape)
    rank = len(shape) - 2
    if rank not in (2, 3) or len(places) != len(shape) or places[0] != shape[0] or places[-1] != rank:
        raise ShapeError(
            f"grid_sample: input {shape} and grid {places} do not fit (batch, channels, height, width) and (batch, "
            "height, width, 2), or the same of three axes"
        )
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and rank == 3):
        raise ValueError(f"grid_sample: mode is 'bilinear', 'nearest' or, of two axes, 'bicubic'; got {mode!r}")
    chosen("grid_sample", "padding_mode", padding_mode, PADDINGS)
    return {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}


def _kept_inside(k: Table, at: Handle, n: int, padding_mode: str, align: bool) -> Handle:
    """Positions outside clipped to the border, or reflected at it."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
        if high == low:
            return k.multiply(at, 0)
        span = high - low
        size = k.abs(k.subtract(at, low))
        flips = k.floor(k.multiply(size, 1 / span))
        rest = k.subtract(size, k.multiply(flips, span))
        even = k.equal(k.remainder(flips, 2), 0)
        at = k.where(even, k.add(rest, low), k.subtract(high, rest))
    return k.clip(at, 0.0, n - 1.0)


def _grid_taps(k: Table, at: Handle, n: int, mode: str, padding_mode: str, align: bool) -> list[tuple[Any, Any]]:
    """Positions along one axis, whole numbers that have no gradient, and their weights, which have."""
    if mode == "nearest":
        return [(k.round(at), None)]
    low = k.floor(at)
    rest = k.subtract(at, low)
    if mode == "bilinear":
        return [(low, k.subtract(1, rest)), (k.add(low, 1), rest)]
    near, far = (1.0, 0.0, -2.25, 1.25), (3.0, -6.0, 3.75, -0.75)  # Keys' kernel of -0.75, up to 1 and up to 2
    at_taps = (far, k.add(rest, 1)), (near, rest), (near, k.subtract(1, rest)), (far, k.subtract(2, rest))
    weights = (horner(k, t, coefficients) for coefficients, t in at_taps)
    places = (_kept_inside(k, k.add(low, offset), n, padding_mode, align) for offset in (-1, 0, 1, 2))
    return list(zip(map(k.round, places), weights, strict=True))


def _tap(k: Table, position: Handle, share: Any, n: int, stride: int) -> tuple[Any, Any, Any]:
    """What a position along an axis adds to that of the flattened axes, its weight, and whether it is inside."""
    within = k.logical_and(k.less_equal(0, position), k.less(position, n))
    return times(k, k.astype(k.clip(position, 0.0, n - 1.0), dtype=int64), stride), share, within


def _grid_sample(k: Table, x: Handle, grid: Handle, *, mode: str, padding_mode: str, align_corners: bool) -> Any:
    (batch, channels, *lengths), output = x.shape, tuple(grid.shape[1:-1])
    rank, axes = len(lengths), []
    whole = tuple(slice(0, n, 1) for n in grid.shape[:-1])
    for axis, n in enumerate(lengths):
        shares = k.add(k.getitem(grid, key=(*whole, rank - 1 - axis)), 1)
        at = k.multiply(shares, (n - 1) / 2) if align_corners else k.add(k.multiply(shares, n / 2), -0.5)
        if mode != "bicubic":
            at = _kept_inside(k, at, n, padding_mode, align_corners)
        taps = _grid_taps(k, at, n, mode, padding_mode, align_corners)
        axes.append([_tap(k, position, share, n, math.prod(lengths[axis + 1 :])) for position, share in taps])
    flat = k.reshape(x, shape=(batch, channels, math.prod(lengths)))

    def part(corner: Any) -> Handle:
        """The elements at one corner around each place times their weights, and 0 outside."""
        places, shares, within = zip(*corner, strict=True)
        linear = k.reshape(total(k, places), shape=(batch, 1, math.prod(output)))
        found = k.reshape(k.take_along_axis(flat, linear, axis=2), shape=(batch, channels, *output))
        if mode != "nearest":
            found = k.multiply(found, k.expand_dims(reduce(k.multiply, shares), axis=(1,)))
        return k.where(k.expand_dims(reduce(k.logical_and, within), axis=(1,)), found, 0)

    return total(k, map(part, product(*axes)))


OPS = (
    network(
        "resample",
        tangent=linear,
        gradient=(lambda k, g, out, x, *, transposed, **how: k.resample(g, transposed=not transposed, **how),),
        compose=_resample,
        samples=(
            Sample((2, 3), axis=1, length=3, count=5, scale=0.6),
            Sample((2, 5), axis=1, length=3, count=5, scale=0.6, transposed=True),
        ),
    ),
    network(
        "interpolate",
        parameters=_interpolate_parameters,
        compose=_interpolate,
        samples=(
            Sample((1, 2, 2, 3), size=(3, 2), mode="bilinear"),
            Sample((1, 1, 3), scale_factor=1.7),
            Sample((1, 1, 3, 2), size=4, mode="bicubic", align_corners=True),
        ),
    ),
    network(
        "adaptive_avg_pool",
        parameters=_adaptive_parameters,
        compose=_adaptive_avg_pool,
        samples=(Sample((1, 2, 3, 4), output_size=(2, None)), Sample((1, 1, 5), output_size=3)),
    ),
    network(
        "affine_grid",
        parameters=_affine_parameters,
        compose=_affine_grid,
        samples=(Sample((2, 2, 3), size=(2, 1, 2, 3)), Sample((1, 3, 4), size=(1, 1, 2, 1, 2), align_corners=True)),
    ),
    network(
        "grid_sample",
        parameters=_grid_parameters,
        compose=_grid_sample,
        samples=(
            Sample((1, 2, 2, 3), Array((1, 2, 1, 2), -1.2, 1.2)),
            Sample((1, 1, 3, 2), Array((1, 1, 2, 2), -1.2, 1.2), padding_mode="border", align_corners=True),
        ),
    ),
)
