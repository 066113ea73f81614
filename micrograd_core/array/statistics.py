"""What NumPy computes of samples and series: covariances, histograms, interpolation, integrals, convolution."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from micrograd_core.array.composed import searchsorted
from micrograd_core.array.creation import arange, full, linspace
from micrograd_core.array.functions import FUNCTIONS, both_spellings
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis

F: Final = FUNCTIONS


def cov(x: Any, /, *, correction: float = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of variables, rows of `x`, over observations, its columns.

    Parameters
    ----------
    x : Tensor
        1-d or 2-d.
    correction : float
        Subtracted from the number of observations.
    fweights, aweights : Tensor, optional
        How often an observation counts, and how much.
    """
    x = asarray(x)
    if x.ndim > 2:
        raise ShapeError(f"cov: variables are rows of a matrix; got shape {x.shape}")
    rows = x.reshape((1, -1)) if x.ndim < 2 else x
    count: Any = rows.shape[1]
    weights: Any = None
    if fweights is not None or aweights is not None:
        parts = [asarray(each).astype(rows.dtype) for each in (fweights, aweights) if each is not None]
        weights = parts[0] * parts[1] if len(parts) == 2 else parts[0]
        total = weights.sum()
        spread = (weights * parts[-1]).sum() if aweights is not None else total
        centre = (rows * weights).sum(axis=1, keepdims=True) / total
        count = total - correction * spread / total
    else:
        centre = rows.mean(axis=1, keepdims=True)
        count = count - correction
    apart = rows - centre
    left = apart if weights is None else apart * weights
    out = left @ apart.mT / count
    return out.reshape(()) if x.ndim < 2 else out


def corrcoef(x: Any, /) -> Tensor:
    """The correlations of variables, rows of `x`, over observations, its columns."""
    found = cov(x)
    if not found.ndim:
        return found / found
    spread = F["sqrt"](F["diagonal"](found))
    return found / spread.reshape(-1, 1) / spread


class Histogram(NamedTuple):
    """What `histogram` gives."""

    hist: Tensor
    bin_edges: Tensor


def histogram(
    x: Any, /, bins: Any = 10, range: Any = None, *, weight: Any = None, weights: Any = None, density: bool = False
) -> Histogram:
    """How many elements lie between neighbouring edges; the last bin has its upper edge too.

    Parameters
    ----------
    x : Tensor
    bins : int or Tensor
        How many there are, or their edges.
    range : (float, float), optional
        Of the edges; by default the least and the greatest element, which are read.
    weight, weights : Tensor, optional
        What an element counts.
    density : bool
        Whether the sum over bins, times their widths, is 1.
    """
    flat = asarray(x).reshape(-1).detach()
    share = weight if weights is None else weights
    if isinstance(bins, int):
        if range is None:
            low, high = (float(flat.min().item()), float(flat.max().item())) if flat.size else (0.0, 1.0)
        else:
            low, high = float(range[0]), float(range[1])
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        kind = flat.dtype if flat.dtype.is_floating else "float64"
        edges = linspace(low, high, bins + 1, dtype=kind, device=flat.device)
    else:
        edges = asarray(bins)
    count = edges.shape[0] - 1
    values = flat.astype(edges.dtype)
    place = searchsorted(edges, values, side="right") - 1
    place = F["where"](values == edges[-1], count - 1, place)
    inside = (place >= 0) & (place < count) & (values <= edges[-1])
    place = F["where"](inside, place, count)
    amounts: Any = 1 if share is None else asarray(share).reshape(-1)
    kind = "int64" if share is None else amounts.dtype
    hist = F["index_add"](full(count + 1, 0, dtype=kind, device=flat.device), place, amounts, axis=0)[:count]
    if density:
        hist = hist.astype(edges.dtype) if share is None else hist
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return Histogram(hist, edges)


def interp(x: Any, xp: Any, fp: Any, /, left: float | None = None, right: float | None = None) -> Tensor:
    """The line through the points (`xp`, `fp`) at `x`; `left` and `right` of them the nearest point's, or what is told.

    Raises
    ------
    ShapeError
        When the points are not two vectors of one length.
    """
    x, xp, fp = asarray(x), asarray(xp), asarray(fp)
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ShapeError(f"interp: points are two vectors of one length; got {xp.shape} and {fp.shape}")
    if xp.shape[0] == 1:
        out = x * 0 + fp[0]
    else:
        place = F["clip"](searchsorted(xp, x.detach(), side="right") - 1, 0, xp.shape[0] - 2)
        low, high = F["take"](xp, place, axis=0), F["take"](xp, place + 1, axis=0)
        first, second = F["take"](fp, place, axis=0), F["take"](fp, place + 1, axis=0)
        share = F["clip"]((x - low) / (high - low), 0.0, 1.0)
        out = first + share * (second - first)
    below: Any = fp[0] if left is None else left
    above: Any = fp[-1] if right is None else right
    return F["where"](x < xp[0], below, F["where"](x > xp[-1], above, out))


@both_spellings
def trapezoid(y: Any, x: Any = None, /, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along `axis` by trapezoids, at places `x`, or `dx` apart."""
    y = asarray(y)
    at = resolve_axis("trapezoid", axis, y.ndim)
    length = y.shape[at]
    middles = (y.slice(at, 1, length) + y.slice(at, 0, length - 1)) * 0.5
    if x is None:
        return (middles * dx).sum(axis=at)
    x = asarray(x)
    if x.ndim == 1:
        widths = (x[1:] - x[:-1]).reshape((*(1,) * at, -1, *(1,) * (y.ndim - at - 1)))
    else:
        along = x.ndim - y.ndim + at
        widths = x.slice(along, 1, length) - x.slice(along, 0, length - 1)
    return (middles * widths).sum(axis=at)


def convolve(x1: Any, x2: Any, /, mode: str = "full") -> Tensor:
    """The convolution of two vectors: ``'full'``, ``'same'`` as the longer, or ``'valid'`` where they overlap whole."""
    x, y = asarray(x1), asarray(x2)
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise ShapeError(f"convolve: two vectors with elements are needed; got shapes {x.shape} and {y.shape}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolve: mode is 'full', 'same' or 'valid'; got {mode!r}")
    x, y = (x, y) if x.size >= y.size else (y, x)
    n, m = x.size, y.size
    padded = F["pad"](x, m - 1)
    places = arange(n + m - 1, dtype="int64", device=x.device).reshape(-1, 1)
    windows = F["take"](padded, places + arange(m, dtype="int64", device=x.device), axis=0)
    out = windows @ y.flip()
    if mode == "full":
        return out
    start = (m - 1) // 2 if mode == "same" else m - 1
    return out[start : start + (n if mode == "same" else n - m + 1)]
