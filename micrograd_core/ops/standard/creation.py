"""Triangles of matrices: linear operations that the array API counts among its creation functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import bool_, int64
from micrograd_core.errors import ShapeError
from micrograd_core.ops.record import ANY, Array, Op, Sample
from micrograd_core.ops.shared import whole
from micrograd_core.ops.tangents import linear

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


def _diagonal(name: str) -> Any:
    def parameters(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> dict[str, Any]:
        k = whole(name, "k", k if diagonal is None else diagonal)
        if len(x.shape) < 2:
            raise ShapeError(f"{name} is for matrices; this tensor has shape {x.shape}")
        rows, columns = x.shape[-2:]
        return {"diagonal": max(-rows, min(k, columns))}  # no diagonal is further out; k may be beyond int64

    return parameters


def _triangle(lower: bool) -> Any:
    """Zeros on one side of a diagonal. The parameter is not `k` here, which is the kernel table."""

    def compose(k: Table, x: Any, *, diagonal: int) -> Any:
        rows, columns = x.shape[-2:]
        row = k.reshape(k.add(k.arange(rows, dtype=int64), diagonal), shape=(rows, 1))
        column = k.arange(columns, dtype=int64)
        keep = k.less_equal(column, row) if lower else k.less_equal(row, column)
        return k.where(keep, x, False if k.dtype(x) is bool_ else 0)

    return compose


def _triangle_op(name: str, doc: str, lower: bool) -> Op:
    return Op(
        name,
        doc,
        parameters=_diagonal(name),
        accepts=ANY,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, diagonal: getattr(k, name)(g, diagonal=diagonal),),
        compose=_triangle(lower),
        samples=(
            Sample(Array((3, 4))),
            Sample(Array((2, 3, 3)), k=1),
            Sample(Array((4, 3)), k=-2),
            Sample(Array((0, 3))),
            Sample(Array((3, 3), 0, 9, "int32"), k=-1),
        ),
    )


OPS = (
    _triangle_op("tril", "The lower triangle of matrices; zeros above the `k`-th diagonal.", True),
    _triangle_op("triu", "The upper triangle of matrices; zeros below the `k`-th diagonal.", False),
)
