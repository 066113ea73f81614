"""Histograms, whose edges depend on the numbers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from micrograd_core.array.composed import searchsorted
from micrograd_core.array.creation import full, linspace
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray

F: Final = FUNCTIONS


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
        Of real dtype and any shape.
    bins : int or Tensor
        The number of bins, or their edges, 1-d and sorted.
    range : (float, float), optional
        The first and the last edge; by default the least and the greatest element, which are read.
    weight, weights : Tensor, optional
        How much each element counts: of as many elements as `x`.
    density : bool
        Whether to normalize, so that the sum over bins, times their widths, is 1.

    Returns
    -------
    named tuple of Tensor: hist, bin_edges
        Of shapes (bins,) and (bins + 1,). Counts are int64; weighted sums have the dtype of the weights.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.histogram(mg.asarray([0.0, 1.0, 1.0, 4.0]), 2)
    Histogram(hist=Tensor([3, 1]), bin_edges=Tensor([0., 2., 4.]))
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
