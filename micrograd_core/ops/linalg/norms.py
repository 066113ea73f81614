"""Linear algebra without factorisations: norms, diagonals, and products of vectors.

All but `matrix_norm`, two of whose norms need singular values, are composed from the core kernels, for every device.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from micrograd_core.dtypes import dtype as as_dtype, float32
from micrograd_core.errors import ShapeError
from micrograd_core.layout import broadcast_shapes, reduced_shape, resolve_axes, resolve_axis, resolve_key
from micrograd_core.ops.batching import leading
from micrograd_core.ops.core.reductions import accumulator, count, restore_axes
from micrograd_core.ops.linalg.matrices import LINALG, matrix, matrix_stack
from micrograd_core.ops.linalg.matrix_calculus import conj
from micrograd_core.ops.record import ANY, CALL, FLOATING, INEXACT, Handle, Op, Sample, Table
from micrograd_core.ops.shared import NARROW, at_least_single, cut, in_dtype_of, in_float32, real_dtype
from micrograd_core.ops.tangents import reduction


def _trace_parameters(x: Any, /, *, offset: int = 0, dtype: Any = None) -> dict[str, Any]:
    """The sum of the elements ``x[..., i, i + offset]``, in `dtype` if given. Integer results are 64 bits wide."""
    matrix_stack("trace", x.shape)
    return {"offset": int(offset), "dtype": None if dtype is None else as_dtype(dtype)}


def _cross_parameters(x1: Any, x2: Any, /, axis: int = -1) -> dict[str, Any]:
    """The cross product of vectors of three elements along `axis`."""
    shapes = x1.shape, x2.shape
    at = [resolve_axis("cross", axis, len(shape)) - len(shape) for shape in shapes]
    if at[0] != at[1]:
        raise ShapeError(
            f"cross: axis {axis} is not the same in shapes {shapes[0]} and {shapes[1]}; count it from the end"
        )
    if shapes[0][at[0]] != 3 or shapes[1][at[0]] != 3:
        raise ShapeError(f"cross: vectors have 3 elements; got shapes {shapes[0]} and {shapes[1]} and axis {axis}")
    broadcast_shapes("cross", *shapes)
    return {"axis": at[0]}


def _vector_norm_parameters(
    x: Any, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False, ord: float = 2
) -> dict[str, Any]:
    """``sum(abs(x)**ord)**(1/ord)`` over `axis`.

    The largest and the least absolute value for inf and -inf, the number of nonzero elements for 0. Nothing
    overflows on the way, and the gradient at the zero vector is 0.
    """
    axis = resolve_axes("vector_norm", axis, len(x.shape))
    if not hasattr(type(ord), "__float__"):
        raise TypeError(f"vector_norm: ord is a number, inf and -inf among them; got {ord!r}")
    if count(x, axis) == 0 and (ord < 0 or ord == math.inf):
        raise ShapeError(
            f"vector_norm: no result exists for zero elements with ord {ord} (shape {x.shape}, axis {axis})"
        )
    return {"axis": axis, "keepdims": bool(keepdims), "ord": float(ord)}


def _global_norm_parameters(*xs: Any) -> dict[str, Any]:
    """The Euclidean norm of all elements of all tensors, as of one vector, in float32 at least.

    Nothing overflows on the way. Source: ``optax.global_norm``.
    """
    if not xs:
        raise ShapeError("global_norm: at least one tensor is needed")
    return {}


MATRIX_NORMS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def _matrix_norm_parameters(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> dict[str, Any]:
    """The norm `ord` of each matrix, by default ``'fro'``, the root of the sum of squares.

    ``'nuc'``, 2 and -2 are the sum, the largest and the least singular value; 1 and -1 the largest and the least
    sum of absolute values in a column; inf and -inf those in a row.
    """
    matrix_stack("matrix_norm", x.shape)
    ord = "fro" if ord is None else ord
    if ord not in MATRIX_NORMS:
        raise ValueError(f"matrix_norm: ord is one of {', '.join(map(repr, MATRIX_NORMS))}; got {ord!r}")
    return {"keepdims": bool(keepdims), "ord": ord}


# ── norms ────────────────────────────────────────────────────────────────────────────────────────────────────


@in_float32
def _vector_norm(k: Table, x: Handle, *, axis: Any, keepdims: bool, ord: float) -> Handle:
    """``sum(|x|**ord)**(1/ord)`` of elements divided by the largest, so that no power overflows or vanishes."""
    size = k.abs(x)
    extremum = k.max if ord > 0 else k.min
    if ord in (math.inf, -math.inf):
        return extremum(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return k.sum(k.astype(k.not_equal(size, 0), dtype=size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1 or count(x, axis) == 0:
        return k.sum(size, axis=axis, keepdims=keepdims)
    scale = extremum(size, axis=axis, keepdims=True)
    scale = k.where(k.logical_and(k.isfinite(scale), k.not_equal(scale, 0)), scale, 1)
    total = k.sum(k.pow(k.divide(size, scale), ord), axis=axis, keepdims=True)
    result = k.multiply(scale, k.sqrt(total) if ord == 2 else k.pow(total, 1 / ord))
    return k.reshape(result, shape=reduced_shape(x.shape, axis, keepdims))


def _global_norm(k: Table, *xs: Handle) -> Handle:
    length = partial(k.vector_norm, axis=(0,), keepdims=False, ord=2.0)

    def own(x: Handle) -> Handle:
        wide = k.astype(x, dtype=float32) if k.dtype(x) in NARROW else x
        return length(k.reshape(wide, shape=(math.prod(x.shape),)))

    return length(k.stack(*map(own, xs), axis=0))


def _vector_norm_rule(k: Table, g: Handle, out: Handle, x: Handle, *, axis: Any, keepdims: bool, ord: float) -> Handle:
    """``sign(x) (|x| / norm)**(ord - 1)``, and 0 for the zero vector; elements tied for the maximum share evenly."""
    if ord == 0:
        return k.full(shape=x.shape, fill_value=0, dtype=x.dtype)
    g, out = (in_dtype_of(k, restore_axes(k, each, x, axis, keepdims), x) for each in (g, out))
    if ord == 2:  # x / inf is 0, and so are its derivatives
        return k.multiply(g, conj(k, k.divide(x, k.where(k.equal(out, 0), math.inf, out))))
    turn, size = conj(k, k.sign(x)), in_dtype_of(k, k.abs(x), x)
    if ord == 1:
        return k.multiply(g, turn)
    if ord in (math.inf, -math.inf):
        tied = k.astype(k.equal(size, out), dtype=x.dtype)
        return k.multiply(k.multiply(g, k.divide(tied, k.sum(tied, axis=axis, keepdims=True))), turn)
    absent = k.equal(size if 0 < ord < 2 else out, 0)
    numerator, divisor = (size, out) if ord > 1 else (out, size)  # the power is positive: of 0 it is 0
    ratio = k.where(absent, 1, k.divide(numerator, k.where(k.equal(divisor, 0), 1, divisor)))
    return k.where(absent, 0, k.multiply(g, k.multiply(k.pow(ratio, abs(ord - 1)), turn)))


def _matrix_norm(k: Table, x: Handle, *, keepdims: bool, ord: Any) -> Handle:
    ndim = len(x.shape)
    last, both = ndim - 1, (ndim - 2, ndim - 1)
    if ord == "fro":
        return k.vector_norm(x, axis=both, keepdims=keepdims, ord=2)
    if ord in (1, -1, math.inf, -math.inf):
        sums = k.sum(k.abs(x), axis=(ndim - 2,) if abs(ord) == 1 else (last,), keepdims=True)
        result = (k.max if ord > 0 else k.min)(sums, axis=both, keepdims=True)
    else:
        reduction = {"nuc": k.sum, 2: k.max, -2: k.min}[ord]
        result = reduction(k.svdvals(x), axis=(ndim - 2,), keepdims=True)
    return k.reshape(result, shape=reduced_shape(x.shape, both, keepdims))


# ── movement ─────────────────────────────────────────────────────────────────────────────────────────────────


def _diagonal(k: Table, x: Handle, *, offset: int = 0) -> Handle:
    """The elements ``x[..., i, i + offset]``. A view where strides allow it."""
    # every (n + 1)-th element of the flattened matrix
    *batch, rows, columns = x.shape
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = k.reshape(x, shape=(*batch, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    key = (..., slice(start, start + (length - 1) * (columns + 1) + 1, columns + 1) if length else slice(0, 0))
    return k.getitem(flat, key=resolve_key(key, flat.shape))


def _trace(k: Table, x: Handle, *, offset: int, dtype: Any) -> Handle:
    along = k.diagonal(x, offset=offset)
    wanted = accumulator(k.dtype(x)) if dtype is None else dtype
    along = along if wanted is k.dtype(x) else k.astype(along, dtype=wanted)
    return k.sum(along, axis=(len(x.shape) - 2,), keepdims=False)


def _cross(k: Table, x: Handle, y: Handle, *, axis: int) -> Handle:
    def at(z: Handle, i: int) -> Handle:
        return cut(k, z, len(z.shape) + axis, i, i + 1)

    parts = [
        k.subtract(k.multiply(at(x, i), at(y, j)), k.multiply(at(x, j), at(y, i))) for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return k.concat(*parts, axis=len(parts[0].shape) + axis)


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

_EVERYWHERE = partial(Op, extension="linalg")

OPS = (
    LINALG(
        "matrix_norm",
        standard=False,
        parameters=_matrix_norm_parameters,
        result=real_dtype,
        compose=_matrix_norm,
        samples=(
            *(Sample(matrix((2, 3, 2)), ord=ord) for ord in MATRIX_NORMS),
            Sample(matrix((2, 3)), keepdims=True),
            Sample(matrix((2, 3)), keepdims=True, ord=2),
        ),
    ),
    _EVERYWHERE(
        "vector_norm",
        kind="reduction",
        autocast="float32",
        parameters=_vector_norm_parameters,
        accepts=INEXACT,
        result=real_dtype,
        tangent=reduction,
        gradient=(_vector_norm_rule,),
        compose=_vector_norm,
        samples=(
            *(Sample((2, 3), ord=ord, axis=1) for ord in (1, 2, 3, 2.5, 0.5, -1, math.inf, -math.inf, 0)),
            Sample((2, 3)),
            Sample((2, 3, 2), axis=(0, 2), keepdims=True),
            Sample(()),
            Sample((0, 2), axis=0),
        ),
    ),
    Op(
        "global_norm",
        lowering=CALL,
        operands=-1,
        parameters=_global_norm_parameters,
        accepts=FLOATING,
        result=at_least_single,
        compose=_global_norm,
        samples=(Sample((2, 3), (), (4,)), Sample((3, 40)), Sample((0, 2), (2,))),
        reference=lambda np, *xs: np.sqrt(sum([np.sum(np.square(np.asarray(x, "float64"))) for x in xs])),
    ),
    _EVERYWHERE(
        "diagonal",
        batching=leading,
        refuses=lambda name, x, **_: matrix_stack(name, x.shape),
        accepts=ANY,
        compose=_diagonal,
        view=True,
        samples=(Sample((3, 3)), Sample((2, 3, 4), offset=1), Sample((4, 3), offset=-2), Sample((2, 2), offset=5)),
    ),
    _EVERYWHERE(
        "trace",
        batching=leading,
        parameters=_trace_parameters,
        result=lambda dtype, params: params.get("dtype") or accumulator(dtype),
        compose=_trace,
        samples=(Sample((3, 3)), Sample((2, 3, 4), offset=1), Sample((2, 2), offset=2)),
    ),
    _EVERYWHERE(
        "cross",
        parameters=_cross_parameters,
        compose=_cross,
        samples=(Sample((3,), (3,)), Sample((2, 3), (3,)), Sample((3, 2), (3, 2), axis=0), Sample((2, 1, 3), (4, 3))),
        reference=lambda np, x, y, axis=-1: np.cross(x, y, axis=axis),
    ),
)
