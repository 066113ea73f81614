"""What NumPy computes of samples and series: covariances, interpolation, integrals, convolution."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.record import FLOATING, INEXACT, REAL, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import chosen, cut, is_scalar

# ── covariances ──────────────────────────────────────────────────────────────────────────────────────────────


def _cov_parameters(x: Any, fweights: Any = None, aweights: Any = None, /, *, correction: float = 1) -> dict[str, Any]:
    """The covariances of variables, rows of ``x``, over observations, its columns.

    `fweights` say how often an observation counts, `aweights` how much; `correction` is subtracted from the number
    of observations.
    """
    if len(x.shape) > 2:
        raise ShapeError(f"cov: variables are rows of a matrix; got shape {tuple(x.shape)}")
    return {"correction": float(correction)}


def _cov(k: Table, x: Handle, counts: Operand, shares: Operand, *, correction: float) -> Handle:
    rows = k.reshape(x, shape=(1, math.prod(x.shape))) if len(x.shape) < 2 else x
    number: Operand = rows.shape[1] - correction
    given = [k.astype(each, dtype=k.dtype(x)) for each in (counts, shares) if not is_scalar(each)]
    if given:
        weights = k.multiply(*given) if len(given) == 2 else given[0]
        total = k.sum(weights, axis=None, keepdims=False)
        spread = total if is_scalar(shares) else k.sum(k.multiply(weights, given[-1]), axis=None, keepdims=False)
        centre = k.divide(k.sum(k.multiply(rows, weights), axis=(1,), keepdims=True), total)
        number = k.subtract(total, k.divide(k.multiply(spread, correction), total))
    else:
        centre = k.mean(rows, axis=(1,), keepdims=True)
    apart = k.subtract(rows, centre)
    out = k.matmul(k.multiply(apart, weights) if given else apart, k.matrix_transpose(apart, axes=(1, 0)))
    out = k.divide(out, number)
    return k.reshape(out, shape=()) if len(x.shape) < 2 else out


def _cov_reference(np: Any, x: Any, counts: Any, shares: Any, correction: float = 1) -> Any:
    counts, shares = (each if np.ndim(each) else None for each in (counts, shares))
    return np.cov(x, ddof=correction, fweights=counts, aweights=shares)


def _corrcoef(k: Table, x: Handle) -> Handle:
    found = k.cov(x, 1.0, 1.0, correction=1.0)
    if not found.shape:
        return k.divide(found, found)
    spread = k.sqrt(k.diagonal(found, offset=0))
    return k.divide(k.divide(found, k.reshape(spread, shape=(*spread.shape, 1))), spread)


# ── series ───────────────────────────────────────────────────────────────────────────────────────────────────


def _interp_parameters(
    x: Any, xp: Any, fp: Any, /, left: float | None = None, right: float | None = None
) -> dict[str, Any]:
    """The line through the points (``x2``, ``x3``) at ``x1``.

    Beyond the points it is `left` and `right`, by default those of the nearest point.
    """
    shapes = [tuple(getattr(each, "shape", ())) for each in (xp, fp)]
    if len(shapes[0]) != 1 or shapes[0] != shapes[1] or not shapes[0][0]:
        raise ShapeError(f"interp: points are two vectors of one length; got {shapes[0]} and {shapes[1]}")
    ends = {"left": left, "right": right}
    return {name: each if each is None else float(each) for name, each in ends.items()}


def _interp(k: Table, x: Operand, xp: Handle, fp: Handle, *, left: float | None, right: float | None) -> Handle:
    x = k.full(shape=(), fill_value=x, dtype=k.dtype(xp)) if is_scalar(x) else x
    count = xp.shape[0]
    first, last = ([k.reshape(cut(k, each, 0, i, i + 1), shape=()) for each in (xp, fp)] for i in (0, count - 1))
    if count == 1:
        out = first[1]
    else:
        place = k.clip(k.subtract(k.searchsorted(xp, x, side="right"), 1), 0, count - 2)
        ends = [[k.take(each, at, axis=0) for each in (xp, fp)] for at in (place, k.add(place, 1))]
        (low, start), (high, stop) = ends
        share = k.clip(k.divide(k.subtract(x, low), k.subtract(high, low)), 0.0, 1.0)
        out = k.add(start, k.multiply(share, k.subtract(stop, start)))
    above = k.where(k.less(last[0], x), last[1] if right is None else right, out)
    return k.where(k.less(x, first[0]), first[1] if left is None else left, above)


def _trapezoid_parameters(y: Any, x: Any = None, /, dx: float = 1.0, axis: int = -1) -> dict[str, Any]:
    """The integral of ``x1`` along `axis` by trapezoids, at places ``x2``, or `dx` apart."""
    return {"dx": float(dx), "axis": resolve_axis("trapezoid", axis, len(y.shape))}


def _trapezoid(k: Table, y: Handle, x: Operand, *, dx: float, axis: int) -> Handle:
    length = y.shape[axis]
    pieces = max(length - 1, 0)
    middles = k.multiply(k.add(cut(k, y, axis, length - pieces, length), cut(k, y, axis, 0, pieces)), 0.5)
    if is_scalar(x):
        return k.multiply(k.sum(middles, axis=(axis,), keepdims=False), dx)
    along = axis + len(x.shape) - len(y.shape) if len(x.shape) > 1 else 0
    widths = k.subtract(cut(k, x, along, 1, x.shape[along]), cut(k, x, along, 0, x.shape[along] - 1))
    if len(x.shape) == 1:
        widths = k.reshape(widths, shape=(widths.shape[0], *(1,) * (len(y.shape) - axis - 1)))
    return k.sum(k.multiply(middles, widths), axis=(axis,), keepdims=False)


def _convolve_parameters(x1: Any, x2: Any, /, mode: str = "full") -> dict[str, Any]:
    """The convolution of two vectors: ``'full'``, ``'same'`` as the longer, ``'valid'`` where they overlap whole."""
    shapes = [tuple(getattr(each, "shape", ())) for each in (x1, x2)]
    if any(len(shape) != 1 or not shape[0] for shape in shapes):
        raise ShapeError(f"convolve: two vectors with elements are needed; got shapes {shapes[0]} and {shapes[1]}")
    return {"mode": chosen("convolve", "mode", mode, ("full", "same", "valid"))}


def _convolve(k: Table, x: Handle, y: Handle, *, mode: str) -> Handle:
    x, y = (x, y) if x.shape[0] >= y.shape[0] else (y, x)
    n, m = x.shape[0], y.shape[0]
    padded = k.pad(x, pad_width=((m - 1, m - 1),), mode="constant", constant_values=0)
    places = k.add(k.reshape(k.arange(n + m - 1, dtype=int64), shape=(n + m - 1, 1)), k.arange(m, dtype=int64))
    out = k.matmul(k.take(padded, places, axis=0), k.flip(y, axis=(0,)))
    if mode == "full":
        return out
    start = (m - 1) // 2 if mode == "same" else m - 1
    return k.copy(cut(k, out, 0, start, start + (n if mode == "same" else n - m + 1)))


_POINTS = Array((4,), -2.0, 2.0, kind="ascending")

OPS = (
    Op(
        "cov",
        optional=(1.0, 1.0),
        separate=(1, 2),
        parameters=_cov_parameters,
        accepts=(FLOATING, REAL, REAL),
        compose=_cov,
        samples=(
            Sample((2, 4), 1.0, 1.0),
            Sample((3,), 1.0, 1.0, correction=0),
            Sample((2, 3), Array((3,), 1, 4, "int64"), Array((3,), 1, 4, "int64")),
        ),
        reference=_cov_reference,
    ),
    Op(
        "corrcoef",
        "The correlations of variables, rows of ``x``, over observations, its columns.",
        parameters=lambda x, /: _cov_parameters(x) and {},
        accepts=FLOATING,
        compose=_corrcoef,
        samples=(Sample(Array((2, 4), kind="ascending")), Sample(Array((3,), kind="ascending"))),  # no row of equals
    ),
    Op(
        "interp",
        parameters=_interp_parameters,
        accepts=FLOATING,
        compose=_interp,
        samples=(Sample(Array((2, 3), -3.0, 3.0), _POINTS, (4,)), Sample((3,), _POINTS, (4,), left=7.0, right=-7.0)),
    ),
    Op(
        "trapezoid",
        optional=(0.0,),
        parameters=_trapezoid_parameters,
        accepts=INEXACT,
        compose=_trapezoid,
        samples=(Sample((2, 4), (2, 4), axis=1), Sample((3, 2), (3,), axis=0), Sample((2, 3), 0.0, dx=0.5)),
        reference=lambda np, y, x, dx=1.0, axis=-1: np.trapezoid(y, x if np.ndim(x) else None, dx, axis),
    ),
    Op(
        "convolve",
        parameters=_convolve_parameters,
        compose=_convolve,
        samples=(Sample((4,), (2,)), Sample((3,), (3,), mode="same")),
    ),
)
