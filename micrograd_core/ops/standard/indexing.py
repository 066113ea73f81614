"""Selection and updates by integers: `take` and what undoes it, along one axis or by position; and where to select.

All indexing by arrays comes down to these (`engine.keys` turns keys into axes and integers). Indices count
from the end where they are negative. `take` and `index_add`, `take_along_axis` and `add_along_axis` are each other's
gradients: a slice that is taken twice gets both cotangents.

A device without kernels for them compares every index with every position, in O(indices × length) memory. An index out
of range raises ``IndexError`` on devices that can tell at once; elsewhere it selects NaN (0 among integers), and adds
to nothing.

Updates of what integers name along one axis are ``numpy.add.at`` and its kin, as functions with gradients. A position
that is named several times is updated several times. The values broadcast to the shape of the place: that of the
tensor, with the axis replaced by the shape of the indices.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import bool_, int64, pack, uint64, unpack
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes, contiguous_strides, resolve_axis
from micrograd_core.ops.core.reductions import product_by_halves
from micrograd_core.ops.record import ANY, INTEGER, NUMERIC, REAL, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, calls, ends_of, locating, to_int64, whole
from micrograd_core.ops.tangents import linear, zero

# ── parameters as the user writes them → as kernels receive them ─────────────────────────────────────────────


def taken_shape(shape: Shape, indices: Any, axis: int) -> Shape:
    """The shape of what is taken: the axis gives way to the axes of the indices."""
    return (*shape[:axis], *indices.shape, *shape[axis + 1 :])


def _take_parameters(x: Any, indices: Any, /, axis: int | None = None) -> dict[str, Any]:
    """The slices of `x` along `axis` that integers name; `indices` may have any shape, which replaces the axis.

    The axis may be left out if it is the only one.
    """
    if axis is None and len(x.shape) != 1:
        raise ShapeError(
            f"take: an axis is needed for shape {tuple(x.shape)}; to take from all elements, flatten it: x.reshape(-1)"
        )
    return {"axis": resolve_axis("take", axis or 0, len(x.shape))}


def _check_along(name: str, x: Any, indices: Any, values: Any = 0, *, axis: int) -> None:
    shape, places = tuple(x.shape), tuple(indices.shape)
    axis = resolve_axis(name, axis, len(shape))
    if len(places) != len(shape):
        raise ShapeError(
            f"{name}: indices of shape {places} need as many axes as the tensor of shape {shape}; "
            "broadcast them, or use take"
        )
    place = _along_shape(name, shape, places, axis)
    if getattr(values, "shape", ()) and broadcast_shapes(name, place, tuple(values.shape)) != place:
        raise ShapeError(f"{name}: values of shape {tuple(values.shape)} do not fit shape {place}")


def _along_shape(name: str, shape: Shape, places: Shape, axis: int) -> Shape:
    """The shape of the elements selected: axes other than `axis` broadcast."""
    rest = broadcast_shapes(name, *((*each[:axis], 1, *each[axis + 1 :]) for each in (shape, places)))
    return (*rest[:axis], places[axis], *rest[axis + 1 :])


def _added_along(np: Any, x: Any, indices: Any, values: Any, axis: int = -1) -> Any:
    result = np.array(x)
    for lane in np.ndindex(indices.shape):
        at = list(lane)
        at[axis] = indices[lane]
        result[tuple(at)] += np.broadcast_to(values, indices.shape)[lane]
    return result


def _linear_parameters(*indices: Any, shape: Shape) -> dict[str, Any]:
    """Positions in the flattened tensor of `shape`, from one tensor of indices per axis, which broadcast."""
    return {"shape": tuple(whole("linear_index", "a length", n) for n in shape)}


def _last_parameters(indices: Any, /, *, length: int) -> dict[str, Any]:
    """For each position of an axis of `length`, where in the flattened indices it is named last; -1 if nowhere."""
    return {"length": whole("last_position", "length", length)}


# ── compositions ─────────────────────────────────────────────────────────────────────────────────────────────


def _from_start(k: Table, indices: Handle, length: int) -> Handle:
    """As int64, those counted from the end counted from the start."""
    if k.dtype(indices) is not int64:
        indices = k.astype(indices, dtype=int64)
    return k.where(k.less(indices, 0), k.add(indices, length), indices)


def _names(k: Table, indices: Handle, length: int, axis: int) -> Handle:
    """True where an index names a position: the positions along a new axis behind `axis`."""
    shape = tuple(indices.shape)
    indices = k.reshape(indices, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    places = k.reshape(k.arange(length, dtype=int64), shape=(length,) + (1,) * (len(shape) - axis - 1))
    return k.equal(_from_start(k, indices, length), places)


def total(k: Table, named: Handle, x: Handle, axis: int) -> Handle:
    """The sum over `axis` of the elements that are named; integers are summed in 64 bits and cut back."""
    dtype = k.dtype(x)
    wide = dtype if dtype.is_floating else uint64 if dtype is uint64 else int64
    if wide is dtype:
        return k.sum(k.where(named, x, 0), axis=(axis,), keepdims=False)
    return k.astype(k.sum(k.where(named, k.astype(x, dtype=wide), 0), axis=(axis,), keepdims=False), dtype=dtype)


def _pick(k: Table, named: Handle, x: Handle, axis: int) -> Handle:
    """The one element along `axis` that is named; NaN where none is."""
    picked = total(k, named, x, axis)
    if not k.dtype(x).is_floating:
        return picked
    aligned = axis + len(named.shape) - len(x.shape)  # axes broadcast from the right
    return k.where(k.any(named, axis=(aligned,), keepdims=False), picked, math.nan)


def rows(k: Table, indices: Handle, length: int, after: int) -> Handle:
    """`_names` of flattened indices, with `after` axes of length 1 at the end."""
    count = math.prod(indices.shape)
    named = _names(k, k.reshape(indices, shape=(count,)), length, 0)
    return k.reshape(named, shape=(count, length) + (1,) * after)


def _take(k: Table, x: Handle, indices: Handle, *, axis: int) -> Handle:
    before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    named = rows(k, indices, length, len(after))
    picked = _pick(k, named, k.reshape(x, shape=(*before, 1, length, *after)), axis + 1)
    return k.reshape(picked, shape=taken_shape(x.shape, indices, axis))


def _take_along_axis(k: Table, x: Handle, indices: Handle, *, axis: int = -1) -> Handle:
    named = _names(k, indices, x.shape[axis], axis)
    return _pick(k, named, k.expand_dims(x, axis=(axis,)), axis + 1)


def _add_along_axis(k: Table, x: Handle, indices: Handle, values: Handle, *, axis: int = -1) -> Handle:
    """A fresh copy of `x`, to whose elements that integers name along `axis`, lane by lane, values are added."""
    values = as_tensor(k, values, x, _along_shape("", x.shape, indices.shape, axis))
    named = _names(k, indices, x.shape[axis], axis)
    return k.add(x, total(k, named, k.expand_dims(values, axis=(axis + 1,)), axis))


def as_tensor(k: Table, values: Operand, like: Operand, shape: Shape) -> Handle:
    """Values that may be a number, or have fewer elements, in `shape`."""
    values, _ = arrays(k, values, like)
    return k.broadcast_to(values, shape=shape)


def _last_position(k: Table, indices: Handle, *, length: int) -> Handle:
    count = math.prod(indices.shape)
    if not count:
        return k.full(shape=(length,), fill_value=-1, dtype=int64)
    places = k.reshape(k.arange(count, dtype=int64), shape=(count, 1))
    return k.max(k.where(rows(k, indices, length, 0), places, -1), axis=(0,), keepdims=False)


def _linear_index(k: Table, *indices: Handle, shape: Shape) -> Handle:
    """Out of range along any axis is out of range: the size, which names no element."""
    linear: Any = None
    outside: Any = None
    for each, length in zip(indices, shape, strict=True):
        each = _from_start(k, each, length)
        bad = k.logical_or(k.less(each, 0), k.less(length - 1, each))
        linear = each if linear is None else k.add(k.multiply(linear, length), each)
        outside = bad if outside is None else k.logical_or(outside, bad)
    return k.where(outside, math.prod(shape), linear)


def _argwhere(k: Table, x: Handle) -> Handle:
    """The truth values are read: how many are true is the shape of the result. Nothing else leaves the device."""
    truth = x if k.dtype(x) is bool_ else k.not_equal(x, 0)
    shape = tuple(x.shape)
    strides = contiguous_strides(shape)
    found = [i for i, true in enumerate(unpack(k.to_host(truth), bool_)) if true]
    places = [i // stride % length for i in found for stride, length in zip(strides, shape, strict=True)]
    return k.upload(pack(places, int64), (len(found), len(shape)), int64)


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────


def _take_along_rule(k: Table, g: Handle, out: Handle, x: Handle, indices: Handle, *, axis: int) -> Handle:
    shape = (*out.shape[:axis], x.shape[axis], *out.shape[axis + 1 :])
    return k.add_along_axis(k.full(shape=shape, fill_value=0, dtype=x.dtype), indices, g, axis=axis)


# ── samples ──────────────────────────────────────────────────────────────────────────────────────────────────

_selection = partial(Op, accepts=(ANY, INTEGER), separate=(1,), tangent=linear)

OPS = calls(
    _selection(
        "take",
        parameters=_take_parameters,
        gradient=(lambda k, g, out, x, indices, *, axis: k.index_add(zero(k, x), indices, g, axis=axis), None),
        compose=_take,
        samples=(
            Sample((3,), Array((5,), -3, 3, "int64")),
            Sample((2, 3, 2), Array((3,), -3, 3, "int64"), axis=1),
            Sample((3, 2), Array((2, 2), -3, 3, "int32"), axis=0),
            Sample((2, 3), Array((), 0, 3, "uint8"), axis=-1),
            Sample((2, 3), Array((0,), 0, 3, "int64"), axis=1),
        ),
    ),
    _selection(
        "take_along_axis",
        "Along `axis`, the elements that integers name, lane by lane; the other axes broadcast.",
        refuses=_check_along,
        gradient=(_take_along_rule, None),
        compose=_take_along_axis,
        samples=(
            Sample((2, 3), Array((2, 4), -3, 3, "int64")),
            Sample((3, 2), Array((2, 2), 0, 3, "int64"), axis=0),
            Sample((2, 3), Array((1, 2), 0, 3, "int64"), axis=1),
            Sample((2, 3), Array((2, 0), 0, 3, "int64"), axis=1),
        ),
    ),
    Op(
        "add_along_axis",
        refuses=_check_along,
        accepts=(NUMERIC, INTEGER, NUMERIC),
        separate=(1,),
        tangent=linear,
        gradient=(
            lambda k, g, out, x, indices, values, *, axis: g,
            None,
            lambda k, g, out, x, indices, values, *, axis: k.take_along_axis(g, indices, axis=axis),
        ),
        gradient_aliases=True,
        compose=_add_along_axis,
        reference=_added_along,
        samples=(
            Sample((2, 3), Array((2, 4), -3, 3, "int64"), (2, 4)),
            Sample((3, 2), Array((2, 2), 0, 3, "int64"), (2, 2), axis=0),
            Sample((2, 3), Array((2, 0), 0, 3, "int64"), (2, 0), axis=1),
        ),
    ),
    locating(
        "last_position",
        parameters=_last_parameters,
        accepts=INTEGER,
        compose=_last_position,
        samples=(Sample(Array((2, 3), -4, 4, "int64"), length=4), Sample(Array((0,), 0, 4, "int64"), length=4)),
    ),
    Op(
        "linear_index",
        operands=-1,
        parameters=_linear_parameters,
        accepts=INTEGER,
        result=to_int64,
        check=lambda name, *shapes, shape: broadcast_shapes(name, *shapes),
        gradient="indices are not differentiable",
        compose=_linear_index,
        samples=(
            Sample(Array((2, 3), -4, 4, "int64"), Array((3,), -2, 2, "int64"), shape=(4, 2)),
            Sample(Array((3,), 0, 4, "int32"), shape=(4,)),
        ),
    ),
    locating(
        "argwhere",
        "The indices of the elements that are not 0, one row each, in C order. The number of rows depends on the "
        "elements: a device without a kernel of that name sends the truth values, and nothing else, to the host.",
        shape=lambda x: None,
        accepts=ANY,
        compose=_argwhere,
        samples=(
            Sample(Array((3, 4), dtype="bool")),
            Sample(Array((3, 4), -1, 2, "int64")),
            Sample((0, 4)),
            Sample(()),
        ),
    ),
)


# ── updates ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
    after = len(x.shape) - axis - 1
    if math.prod(indices.shape) == 1:  # a new key in a cache: elementwise, without a row for each index
        hit = k.reshape(rows(k, indices, x.shape[axis], after), shape=(x.shape[axis],) + (1,) * after)
        return k.where(hit, _listed(k, x, indices, values, axis), x)
    last = k.last_position(indices, length=x.shape[axis])
    offered = k.take(_listed(k, x, indices, values, axis), k.maximum(last, 0), axis=axis)
    hit = k.reshape(k.less(-1, last), shape=(x.shape[axis],) + (1,) * after)
    return k.where(hit, offered, x)


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────


def _extremum_rule(of_values: bool) -> Any:
    """Elements and values that are tied for the extremum share its cotangent alike: the rule of one or of the other."""

    def rule(k: Table, g: Handle, out: Handle, x: Handle, indices: Handle, values: Any, *, axis: int) -> Handle:
        tied = k.astype(k.equal(out, x), dtype=x.dtype)
        tied_values = k.astype(k.equal(k.take(out, indices, axis=axis), values), dtype=x.dtype)
        share = k.divide(g, k.index_add(tied, indices, tied_values, axis=axis))
        return k.multiply(k.take(share, indices, axis=axis), tied_values) if of_values else k.multiply(share, tied)

    return rule


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
        gradient=(_extremum_rule(of_values=False), None, _extremum_rule(of_values=True)),
        compose=compose,
    )


OPS += calls(
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
        samples=(*_UPDATES, Sample((2, 4, 3), Array((1,), -4, 4, "int64"), (2, 1, 3), axis=1)),
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
