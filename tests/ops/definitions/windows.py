"""What operations of `micrograd_core.ops.network.windows` are, in NumPy."""

from __future__ import annotations

from typing import Any

from micrograd_core.ops.network.resampling import sizes_of
from micrograd_core.ops.network.windows import Windows, _max_parameters, _mean_parameters, _seen


def _reference(np: Any, x: Any, tables: Any) -> Any:
    """Window by window; `tables` may be a function of example and channel."""
    found = []
    for lane in np.ndindex(*x.shape[:2]):
        rows = tables(lane) if callable(tables) else tables
        numbers = np.arange(x[lane].size).reshape(x[lane].shape)
        for place in np.ndindex(*map(len, rows)):
            seen = np.ix_(*(row[i] for row, i in zip(rows, place, strict=True)))
            best = np.argmax(x[lane][seen])
            found.append((x[lane][seen].flat[best], numbers[seen].flat[best]))
    shape = (*x.shape[:2], *map(len, rows))
    return np.reshape([value for value, _ in found], shape), np.reshape([place for _, place in found], shape)


def _max_reference(np: Any, x: Any, *args: Any, **params: Any) -> Any:
    return _reference(np, x, Windows.of("", x, **_max_parameters(x, *args, **params)).rows(x.shape[2:]))


def _adaptive_reference(np: Any, x: Any, output_size: Any) -> Any:
    lengths = zip(x.shape[2:], sizes_of("", x, output_size), strict=True)
    rows = [[range(i * n // count, -(-(i + 1) * n // count)) for i in range(count)] for n, count in lengths]
    return _reference(np, x, rows)


def _fractional_reference(np: Any, x: Any, samples: Any, kernel_size: Any, output_size: Any) -> Any:
    rank = x.ndim - 2
    kernel, size = (np.broadcast_to(each, (rank,)) for each in (kernel_size, output_size))

    def rows(lane: Any) -> Any:
        found = []
        for axis, (n, width, count) in enumerate(zip(x.shape[2:], kernel, size, strict=True)):
            u, step = (
                samples[lane][axis if rank == 3 else rank - 1 - axis],
                (n - width) / (count - 1) if count > 1 else 0,
            )
            starts = [int((i + u) * step) - int(u * step) for i in range(count - 1)] + [n - width]
            found.append([range(start, start + width) for start in starts])
        return found

    return _reference(np, x, rows)


def _unpool_reference(np: Any, x: Any, indices: Any, size: Any) -> Any:
    out = np.zeros((*x.shape[:2], np.prod(size)), x.dtype)
    for place in np.ndindex(*x.shape):
        out[(*place[:2], indices[place])] = x[place]
    return out.reshape(*x.shape[:2], *size)


def _mean_reference(np: Any, x: Any, *args: Any, **params: Any) -> Any:
    given = _mean_parameters(x, *args, **params)
    rank = x.ndim - 2
    found = Windows.of("", x, given["kernel_size"], given["stride"], given["padding"], 1, given["ceil_mode"])
    counted = _seen(found, x.shape[2:], given["count_include_pad"])
    out = np.zeros((*x.shape[:2], *found.counts))
    for place in np.ndindex(*found.counts):
        starts = [i * s - p for i, s, p in zip(place, found.stride, found.padding, strict=True)]
        kept = tuple(slice(max(a, 0), max(a + n, 0)) for a, n in zip(starts, found.kernel, strict=True))
        number = given["divisor_override"] or np.prod([row[i] for row, i in zip(counted, place, strict=True)])
        out[(..., *place)] = x[(..., *kept)].sum(axis=tuple(range(2, 2 + rank))) / number
    return out


def _norm_reference(np: Any, x: Any, norm_type: float, kernel_size: Any, **params: Any) -> Any:
    rank = x.ndim - 2
    means = _mean_reference(np, x**norm_type, kernel_size, **params)
    return (means * np.prod(np.broadcast_to(kernel_size, (rank,)))) ** (1 / norm_type)


DEFINITIONS = {
    "max_pool_with_indices": _max_reference,
    "adaptive_max_pool_with_indices": _adaptive_reference,
    "fractional_max_pool_with_indices": _fractional_reference,
    "max_unpool": _unpool_reference,
    "padded_avg_pool": _mean_reference,
    "lp_pool": _norm_reference,
}
