"""What operations of `micrograd_core.ops.network.resampling` are, in NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

from micrograd_core.ops.network.resampling import MODES, _interpolate_parameters, sizes_of


def _along(
    np: Any, x: Any, axis: int, length: int, count: int, mode: str = "linear", scale: float = 1.0,
    align_corners: bool = False, antialias: bool = False, transposed: bool = False,
) -> Any:  # fmt: skip
    matrix = np.zeros((count, length))
    for i, each in enumerate(MODES[mode][1](length, count, scale, align_corners)):
        for place, weight in each:
            matrix[i, place] += weight
    return np.moveaxis(np.moveaxis(x, axis, -1) @ (matrix if transposed else matrix.T), -1, axis)


def _interpolate_reference(np: Any, x: Any, *args: Any, **params: Any) -> Any:
    given = _interpolate_parameters(x, *args, **params)
    for axis, (count, scale) in enumerate(zip(given["size"], given["scales"], strict=True), 2):
        x = _along(np, x, axis, x.shape[axis], count, given["mode"], scale, given["align_corners"])
    return x


def _affine_reference(np: Any, theta: Any, size: Any, align_corners: Any = None) -> Any:
    lengths = size[2:]
    axes = [(2 * np.arange(n) - n + 1) / (max(n - 1, 1) if align_corners else n) for n in lengths]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(lengths)], axis=-1)
    return np.einsum("...j,bij->b...i", places, theta)


def _grid_reference(
    np: Any, x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None
) -> Any:
    """Of the modes 'bilinear' and 'nearest', with zeros or the border outside, place by place."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(grid.shape[0], *grid.shape[1:-1]):
        at = []
        for n, share in zip(x.shape[2:], grid[place][::-1], strict=True):
            where = (share + 1) * (n - 1) / 2 if align_corners else ((share + 1) * n - 1) / 2
            at.append(np.clip(where, 0, n - 1) if padding_mode == "border" else where)
        low = np.rint(at) if mode == "nearest" else np.floor(at)
        for corner in product((0,) if mode == "nearest" else (0, 1), repeat=len(at)):
            seen = [int(each) for each in low + corner]
            weight = 1.0 if mode == "nearest" else np.prod(1 - np.abs(np.array(at) - seen))
            if all(0 <= i < n for i, n in zip(seen, x.shape[2:], strict=True)):
                out[(place[0], slice(None), *place[1:])] += weight * x[(place[0], slice(None), *seen)]
    return out


DEFINITIONS = {
    "resample": _along,
    "interpolate": _interpolate_reference,
    "adaptive_avg_pool": lambda np, x, output_size: _interpolate_reference(
        np, x, sizes_of("", x, output_size), mode="area"
    ),
    "affine_grid": _affine_reference,
    "grid_sample": _grid_reference,
}
