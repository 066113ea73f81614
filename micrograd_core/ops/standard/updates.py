"""Updates of what integers name along one axis: ``numpy.add.at`` and its kin, as functions with gradients.

A position that is named several times is updated several times. The values broadcast to the shape of the place: that of
the tensor, with the axis replaced by the shape of the indices. See `indexing` for what a device without kernels pays.
"""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import bool_
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.core.reductions import product_by_halves
from micrograd_core.ops.record import ANY, INTEGER, NUMERIC, REAL, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import calls, ends_of
from micrograd_core.ops.standard.indexing import as_tensor, rows, taken_shape, total
from micrograd_core.ops.tangents import linear


def _listed(k: Table, x: Handle, indices: Handle, values: Operand, axis: int) -> Handle:
    """The values as they go to the flattened indices."""
    values = as_tensor(k, values, x, taken_shape(x.shape, indices, axis))
    return k.reshape(values, shape=(*x.shape[:axis], math.prod(indices.shape), *x.shape[axis + 1 :]))


def _offered(k: Table, x: Handle, indices: Handle, values: Operand, axis: int) -> tuple[Any, Any]:
    """Which value is for which position (values along `axis`, positions along the next), and the values."""
    named = rows(k, indices, x.shape[axis], len(x.shape) - axis - 1)
    return named, k.expand_dims(_listed(k, x, indices, values, axis), axis=(axis + 1,))


def _index_add(k: Table, x: Handle, indices: Handle, values: Any, *, axis: int) -> Handle:
    named, values = _offered(k, x, indices, values, axis)
    return k.add(x, total(k, named, values, axis))


def _index_scale(k: Table, x: Handle, indices: Handle, values: Any, *, axis: int) -> Handle:
    """The product over the values that a position is offered, by halves."""
    named, values = _offered(k, x, indices, values, axis)
    if not named.shape[0]:
        return k.copy(x)
    factors = product_by_halves(k, k.where(named, values, 1), axis)
    return k.multiply(x, k.reshape(factors, shape=x.shape))


def _index_multiply(k: Table, x: Handle, indices: Handle, values: Operand, *, axis: int) -> Handle:
    """The product of the factors that are not 0, times that of those that are.

    The latter is a polynomial in them, 1, ``s`` or ``(s**2 - q) / 2`` for none, one or two (with their sum ``s`` and
    their sum of squares ``q``), so that it has the derivatives it should; three or more have none to second order.
    """
    if not k.dtype(x).is_floating:
        return k.index_scale(x, indices, values, axis=axis)
    values = as_tensor(k, values, x, taken_shape(x.shape, indices, axis))
    zero_x, zero_values = k.equal(x, 0), k.equal(values, 0)
    rest = k.index_scale(k.where(zero_x, 1, x), indices, k.where(zero_values, 1, values), axis=axis)
    a, b = k.where(zero_x, x, 0), k.where(zero_values, values, 0)
    s = k.index_add(a, indices, b, axis=axis)
    q = k.index_add(k.square(a), indices, k.square(b), axis=axis)
    counts = (k.astype(zero, dtype=x.dtype) for zero in (zero_x, zero_values))
    zeros = k.index_add(next(counts), indices, next(counts), axis=axis)
    pairs = k.where(k.equal(zeros, 2), k.multiply(k.subtract(k.square(s), q), 0.5), 0)
    return k.multiply(rest, k.where(k.equal(zeros, 1), s, k.where(k.equal(zeros, 0), 1, pairs)))


def _index_set(k: Table, x: Handle, indices: Handle, values: Operand, *, axis: int) -> Handle:
    """Every position takes the last value it is offered, if any: which is `take`, and has its gradient."""
    if 0 in indices.shape:  # adding nothing keeps the values in the graph
        return k.copy(x) if k.dtype(x) is bool_ else k.index_add(x, indices, values, axis=axis)
    last = k.last_position(indices, length=x.shape[axis])
    offered = k.take(_listed(k, x, indices, values, axis), k.maximum(last, 0), axis=axis)
    hit = k.reshape(k.less(-1, last), shape=(x.shape[axis],) + (1,) * (len(x.shape) - axis - 1))
    return k.where(hit, offered, x)


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────


def _shares(k: Table, g: Handle, out: Any, x: Handle, indices: Handle, values: Any, axis: int) -> tuple[Any, Any, Any]:
    """What one of those tied for the extremum gets; which elements are, and which values."""
    tied = k.astype(k.equal(out, x), dtype=x.dtype)
    tied_values = k.astype(k.equal(k.take(out, indices, axis=axis), values), dtype=x.dtype)
    return k.divide(g, k.index_add(tied, indices, tied_values, axis=axis)), tied, tied_values


def _extremum_kept(k: Table, g: Handle, out: Any, x: Handle, indices: Handle, values: Operand, *, axis: int) -> Handle:
    share, tied, _ = _shares(k, g, out, x, indices, values, axis)
    return k.multiply(share, tied)


def _extremum_taken(k: Table, g: Handle, out: Handle, x: Handle, indices: Handle, values: Any, *, axis: int) -> Handle:
    share, _, tied_values = _shares(k, g, out, x, indices, values, axis)
    return k.multiply(k.take(share, indices, axis=axis), tied_values)


# ── samples ──────────────────────────────────────────────────────────────────────────────────────────────────

_UPDATES = (
    Sample((3, 2), Array((4,), -3, 3, "int64"), (4, 2)),
    Sample((2, 3), Array((2, 2), 0, 3, "int32"), (2, 1), axis=1),
    Sample((3,), Array((), -3, 3, "int64"), ()),
    Sample((2, 3), Array((2,), 0, 3, "int64"), 0.5, axis=-1),
    Sample((2, 3), Array((0,), 0, 3, "int64"), (2, 0), axis=1),
)


def _update(name: str, ufunc: str, doc: str, *, accepts: frozenset[str] = NUMERIC, **facts: Any) -> Op:
    """An update of the slices along an axis that integers name, by NumPy's ufunc of that name; "" replaces them."""

    def parameters(x: Any, indices: Any, values: Any, /, axis: int = 0) -> dict[str, Any]:
        if hasattr(axis, "shape"):
            raise TypeError(f"{name}: PyTorch's {name}(x, dim, index, source) is {name}(x, index, source, axis=dim)")
        axis = resolve_axis(name, axis, len(x.shape))
        place, shape = taken_shape(tuple(x.shape), indices, axis), tuple(getattr(values, "shape", ()))
        if len(shape) > len(place) or any(n not in (1, m) for n, m in zip(shape[::-1], place[::-1], strict=False)):
            raise ShapeError(
                f"{name}: values of shape {shape} do not fit shape {place}, which indices of shape "
                f"{tuple(indices.shape)} select along axis {axis} of shape {tuple(x.shape)}"
            )
        return {"axis": axis}

    def reference(np: Any, x: Any, indices: Any, values: Any, axis: int = 0) -> Any:
        axis = axis % x.ndim
        result = np.moveaxis(np.array(x), axis, 0)
        values = np.broadcast_to(values, taken_shape(x.shape, indices, axis))
        values = np.moveaxis(values, range(axis, axis + indices.ndim), range(indices.ndim))
        if ufunc:
            getattr(np, ufunc).at(result, indices, values)
        else:
            result[indices] = values
        return np.moveaxis(result, 0, axis)

    usual = {"samples": _UPDATES, "parameters": parameters, "separate": (1,), "reference": reference}
    doc = f"A fresh copy of ``x``, whose slices along `axis` that integers name {doc}"
    return Op(name, doc, accepts=(accepts, INTEGER, accepts), **{**usual, **facts})


def _extremum(name: str, reduction: str, pair: str, end: int) -> Op:
    """`index_max` or `index_min`: every position chooses among itself and what it is offered."""

    def compose(k: Table, x: Handle, indices: Handle, values: Any, *, axis: int) -> Any:
        if 0 in indices.shape:
            return k.copy(x)
        named, values = _offered(k, x, indices, values, axis)
        worst = ends_of(k.dtype(x))[end]
        best = getattr(k, reduction)(k.where(named, values, worst), axis=(axis,), keepdims=False)
        return getattr(k, pair)(x, best)

    return _update(
        name,
        pair,
        f"are the elementwise {pair} of themselves and all values for them. Elements tied for it share the gradient "
        "evenly.",
        accepts=REAL,
        gradient=(_extremum_kept, None, _extremum_taken),
        compose=compose,
    )


OPS = calls(
    _update(
        "index_add",
        "add",
        "get the values added; a slice that is named twice gets both. Source: ``numpy.add.at``.",
        tangent=linear,
        gradient=(
            lambda k, g, out, x, i, v, *, axis: g,
            None,
            lambda k, g, out, x, i, v, *, axis: k.take(g, i, axis=axis),
        ),
        gradient_aliases=True,
        compose=_index_add,
    ),
    _update(
        "index_set",
        "",
        "are replaced by the values; for a slice that is named twice the last one counts.",
        accepts=ANY,
        compose=_index_set,
    ),
    _extremum("index_max", "max", "maximum", 0),
    _extremum("index_min", "min", "minimum", 1),
    _update(
        "index_multiply",
        "multiply",
        "are multiplied by all values for them. Gradients are right to second order also where factors are 0.",
        compose=_index_multiply,
    ),
    _update(
        "index_scale",
        "multiply",
        "are multiplied as by `index_multiply`, but with a gradient that divides by the factors: none may be 0.",
        gradient=(
            lambda k, g, out, x, i, v, *, axis: k.multiply(g, k.divide(out, x)),
            None,
            lambda k, g, out, x, i, v, *, axis: k.divide(k.take(k.multiply(g, out), i, axis=axis), v),
        ),
        compose=_index_scale,
        samples=(Sample(Array((3, 2), 0.5), Array((4,), -3, 3, "int64"), Array((4, 2), 0.5)), *_UPDATES[-2:]),
    ),
)
