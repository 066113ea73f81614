"""Matrix product, and the linear layer."""

from __future__ import annotations

import math

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_core.ops.batching import products
from micrograd_core.ops.record import APART, Handle, Op, Sample, Table
from micrograd_core.ops.shared import calls, plus
from micrograd_core.ops.tangents import affine, product

# ── matmul ───────────────────────────────────────────────────────────────────────────────────────────────────


def _check_matmul(op: str, x: Shape, y: Shape) -> None:
    if not x or not y:
        raise ShapeError(f"{op}: shapes {x} and {y}: a 0-d operand cannot be matrix-multiplied; use *")
    inner = y[-2] if len(y) > 1 else y[0]
    if x[-1] != inner:
        raise ShapeError(
            f"{op}: shapes {x} and {y} do not fit: the last axis of the first ({x[-1]}) "
            f"must equal the {'second to last' if len(y) > 1 else 'only'} axis of the second ({inner})"
        )
    broadcast_shapes(op, x[:-2], y[:-2])


def transposed(k: Table, x: Handle) -> Handle:
    """The matrix transpose: the last two axes exchanged."""
    ndim = len(x.shape)
    return k.permute_dims(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def column(k: Table, x: Handle) -> Handle:
    """The last axis as columns: an axis of length 1 after it."""
    return k.reshape(x, shape=(*x.shape, 1))


def row(k: Table, x: Handle) -> Handle:
    """The last axis as rows: an axis of length 1 before it."""
    return k.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def _as_matrix(k: Table, x: Handle) -> Handle:
    """All rows one below the other."""
    return x if len(x.shape) == 2 else k.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


def _matmul(k: Table, x: Handle, y: Handle) -> Handle:
    """``sum_j x[..., i, j] * y[..., j, l]``, with vectors as a row and a column."""
    _check_matmul("matmul", x.shape, y.shape)
    if len(y.shape) == 1:
        return k.sum(k.multiply(x, y), axis=(len(x.shape) - 1,), keepdims=False)
    if len(x.shape) > 1 and len(y.shape) > 2:  # other matrices are repeated along the rows as they are
        y = k.expand_dims(y, axis=(len(y.shape) - 2,))
    terms = k.multiply(column(k, x), y)
    return k.sum(terms, axis=(len(terms.shape) - 2,), keepdims=False)


def _matmul_left(k: Table, g: Handle, out: Handle, x: Handle, y: Handle) -> Handle:
    """``g @ y.T``."""
    if len(y.shape) == 1:
        return k.multiply(column(k, g) if len(x.shape) > 1 else g, y)
    if len(x.shape) == 1 and len(y.shape) > 2:
        return k.sum(k.multiply(y, row(k, g)), axis=(len(y.shape) - 1,), keepdims=False)
    return k.matmul(y, g) if len(x.shape) == 1 else k.matmul(g, transposed(k, y))


def _matmul_right(k: Table, g: Handle, out: Handle, x: Handle, y: Handle) -> Handle:
    """``x.T @ g``."""
    if len(y.shape) == 1 < len(x.shape):
        rows = math.prod(x.shape[:-1])
        return k.matmul(k.reshape(g, shape=(rows,)), k.reshape(x, shape=(rows, x.shape[-1])))
    if len(y.shape) == 1:
        return k.multiply(x, g)
    if len(x.shape) == 1:
        return k.multiply(column(k, x), row(k, g))
    if len(y.shape) == 2 < len(x.shape):  # one matrix for the whole batch: one product, not a batch of them to sum
        x, g = _as_matrix(k, x), _as_matrix(k, g)
    return k.matmul(transposed(k, x), g)


# ── linear ───────────────────────────────────────────────────────────────────────────────────────────────────


def _check_linear(op: str, x: Shape, weight: Shape, bias: Shape) -> None:
    if not x or len(weight) != 2 or x[-1] != weight[1] or bias not in ((), weight[:1]):
        raise ShapeError(
            f"{op}: shapes {x}, {weight} and {bias} do not fit (..., inputs), (outputs, inputs) and (outputs,)"
        )


SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 2, 3), (3, 2)), ((2, 1, 2, 3), (3, 3, 2)),
    ((3,), (2, 3, 2)), ((2, 2, 3), (3,)), ((2, 0), (0, 3)), ((0, 2, 3), (0, 3, 2)),
)  # fmt: skip
"""Of the operands of `matmul` in its samples."""

OPS = calls(
    Op(
        "matmul",
        "Matrix product of the last two axes, broadcast over the others; 1-d operands are a row and a column.",
        batching=products,
        autocast="half",
        standard=True,
        check=_check_matmul,
        tangent=product,
        gradient=(_matmul_left, _matmul_right),
        compose=_matmul,
        samples=tuple([Sample(*shapes) for shapes in SHAPES]),
    ),
    Op(
        "linear",
        "``x1 @ x2.T + x3``: inputs (..., i), weight (o, i) and bias (o,), or 0 for none.",
        lowering=APART,
        autocast="half",
        check=_check_linear,
        tangent=affine,
        gradient=(
            lambda k, g, out, x, weight, bias: k.matmul(g, weight),
            # g.T @ x: in the weight's own order, so that neither it nor the update has to be transposed
            lambda k, g, out, x, weight, bias: k.matmul(transposed(k, _as_matrix(k, g)), _as_matrix(k, x)),
            lambda k, g, out, x, weight, bias: g,
        ),
        gradient_aliases=(2,),
        compose=lambda k, x, weight, bias: plus(k, k.matmul(x, transposed(k, weight)), bias),
        samples=(
            Sample((4, 3), (2, 3), (2,)),
            Sample((2, 2, 3), (2, 3), (2,)),
            Sample((3,), (2, 3), (2,)),
            Sample((4, 3), (2, 3), 0.0),
        ),
    ),
)
