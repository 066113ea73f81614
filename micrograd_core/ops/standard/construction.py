"""Matrices and tensors made of others: triangles, diagonals, quarter turns, Kronecker's product, powers as columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from micrograd_core.dtypes import bool_, int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.batching import composed
from micrograd_core.ops.record import ANY, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, whole


def _triangle(name: str, doc: str) -> Op:
    """Zeros on one side of a diagonal: above it for the lower triangle, `tril`."""

    def parameters(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> dict[str, Any]:
        k = whole(name, "k", k if diagonal is None else diagonal)
        if len(x.shape) < 2:
            raise ShapeError(f"{name} is for matrices; this tensor has shape {x.shape}")
        rows, columns = x.shape[-2:]
        return {"diagonal": max(-rows, min(k, columns))}  # no diagonal is further out; k may be beyond int64

    def compose(k: Table, x: Handle, *, diagonal: int) -> Handle:
        rows, columns = x.shape[-2:]
        row = k.reshape(k.add(k.arange(rows, dtype=int64), diagonal), shape=(rows, 1))
        column = k.arange(columns, dtype=int64)
        keep = k.less_equal(column, row) if name == "tril" else k.less_equal(row, column)
        return k.where(keep, x, False if k.dtype(x) is bool_ else 0)

    return Op(
        name,
        doc,
        parameters=parameters,
        accepts=ANY,
        compose=compose,
        samples=(Sample((3, 4)), Sample((2, 3, 3), k=1), Sample((4, 3), k=-2), Sample((0, 3))),
    )


def _diag_parameters(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> dict[str, Any]:
    """The `k`-th diagonal of a matrix; of a vector the matrix that has it there, and zeros elsewhere."""
    k = k if diagonal is None else diagonal
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"diag: a vector or a matrix is needed; got shape {tuple(x.shape)}. Use diagonal")
    return {"offset": int(k)}


def _diag(k: Table, x: Handle, *, offset: int) -> Handle:
    if len(x.shape) == 2:
        return k.copy(k.diagonal(x, offset=offset))
    count, n = x.shape[0], x.shape[0] + abs(offset)
    rows = k.add(k.arange(count, dtype=int64), max(-offset, 0))
    places = k.add(k.multiply(rows, n + 1), offset)
    empty = k.full(shape=(n * n,), fill_value=0, dtype=k.dtype(x))
    return k.reshape(k.index_set(empty, places, x, axis=0), shape=(n, n))


def _turns(x: Any, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> dict[str, Any]:
    """Turned by `k` quarters, from the first of two `axes` towards the second. A view."""
    first, second = (resolve_axis("rot90", axis, len(x.shape)) for axis in axes)
    if first == second:
        raise ShapeError(f"rot90: axes {axes} are the same")
    return {"turns": int(k) % 4, "axes": (first, second)}


def _rot90(k: Table, x: Handle, *, turns: int, axes: tuple[int, int]) -> Handle:
    first, second = axes
    flipped = {1: (second,), 2: (first, second), 3: (first,)}.get(turns, ())
    order = list(range(len(x.shape)))
    if turns % 2:
        order[first], order[second] = second, first
    return k.permute_dims(k.flip(x, axis=flipped) if flipped else x, axes=tuple(order))


def _kron(k: Table, x: Operand, y: Operand) -> Handle:
    x, y = arrays(k, x, y)
    ndim = max(len(x.shape), len(y.shape))
    lengths = [(1,) * (ndim - len(each.shape)) + tuple(each.shape) for each in (x, y)]
    pairs = tuple(zip(*lengths, strict=True))
    x = k.reshape(x, shape=tuple(each for n, _ in pairs for each in (n, 1)))
    y = k.reshape(y, shape=tuple(each for _, n in pairs for each in (1, n)))
    return k.reshape(k.multiply(x, y), shape=tuple(map(math.prod, pairs)))


def _vander_parameters(x: Any, /, N: int | None = None, increasing: bool = False) -> dict[str, Any]:  # noqa: N803
    """The powers of a vector's elements as `N` columns, the highest first unless `increasing`."""
    if len(x.shape) != 1:
        raise ShapeError(f"vander: a vector is needed; got shape {tuple(x.shape)}")
    return {"count": x.shape[0] if N is None else int(N), "increasing": bool(increasing)}


def _vander(k: Table, x: Handle, *, count: int, increasing: bool) -> Handle:
    if not count:
        return k.full(shape=(x.shape[0], 0), fill_value=0, dtype=k.dtype(x))
    powers = [k.full(shape=x.shape, fill_value=1, dtype=k.dtype(x)), *([x] if count > 1 else [])]
    while len(powers) < count:
        powers.append(k.multiply(powers[-1], x))
    return k.stack(*(powers if increasing else powers[::-1]), axis=1)


OPS = (
    _triangle("tril", "The lower triangle of matrices; zeros above the `k`-th diagonal."),
    _triangle("triu", "The upper triangle of matrices; zeros below the `k`-th diagonal."),
    Op(
        "diag",
        parameters=_diag_parameters,
        accepts=ANY,
        compose=_diag,
        samples=(Sample((2, 3), k=1), Sample((2,), k=-1)),
    ),
    Op(
        "rot90",
        parameters=_turns,
        accepts=ANY,
        compose=_rot90,
        batching=composed,
        view=True,
        samples=(Sample((2, 3)), Sample((1, 2, 3), k=-1, axes=(2, 1)), Sample((2, 2), k=2)),
    ),
    Op(
        "kron",
        "Kronecker's product: each element of ``x1`` times all of ``x2``, in its place.",
        compose=_kron,
        samples=(Sample((2, 1), (2, 2)), Sample((2,), (1, 2))),
    ),
    Op(
        "vander",
        parameters=_vander_parameters,
        compose=_vander,
        samples=(Sample((3,)), Sample((2,), N=4, increasing=True)),
    ),
)
