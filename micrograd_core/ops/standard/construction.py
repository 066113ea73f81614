"""Matrices and tensors made of others: diagonals, quarter turns, Kronecker's product, powers as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.batching import composed
from micrograd_core.ops.record import ANY, NUMERIC, Array, Op, Sample
from micrograd_core.ops.shared import arrays
from micrograd_core.ops.tangents import linear, product

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


def _diag_parameters(x: Any, /, k: int = 0, *, diagonal: int | None = None) -> dict[str, Any]:
    k = k if diagonal is None else diagonal
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"diag: a vector or a matrix is needed; got shape {tuple(x.shape)}. Use diagonal")
    return {"offset": int(k)}


def _diag(k: Table, x: Any, *, offset: int) -> Any:
    if len(x.shape) == 2:
        return k.copy(k.diagonal(x, offset=offset))
    count, n = x.shape[0], x.shape[0] + abs(offset)
    rows = k.add(k.arange(count, dtype=int64), max(-offset, 0))
    places = k.add(k.multiply(rows, n + 1), offset)
    empty = k.full(shape=(n * n,), fill_value=0, dtype=k.dtype(x))
    return k.reshape(k.index_set(empty, places, x, axis=0), shape=(n, n))


def _turns(x: Any, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> dict[str, Any]:
    first, second = (resolve_axis("rot90", axis, len(x.shape)) for axis in axes)
    if first == second:
        raise ShapeError(f"rot90: axes {axes} are the same")
    return {"turns": int(k) % 4, "axes": (first, second)}


def _rot90(k: Table, x: Any, *, turns: int, axes: tuple[int, int]) -> Any:
    first, second = axes
    flipped = {1: (second,), 2: (first, second), 3: (first,)}.get(turns, ())
    order = list(range(len(x.shape)))
    if turns % 2:
        order[first], order[second] = second, first
    return k.permute_dims(k.flip(x, axis=flipped) if flipped else x, axes=tuple(order))


def _kron(k: Table, x: Any, y: Any) -> Any:
    x, y = arrays(k, x, y)
    ndim = max(len(x.shape), len(y.shape))
    shapes = [(1,) * (ndim - len(each.shape)) + tuple(each.shape) for each in (x, y)]
    wide = [
        tuple(n for pair in zip(*each, strict=True) for n in pair)
        for each in ((shapes[0], (1,) * ndim), ((1,) * ndim, shapes[1]))
    ]
    made = k.multiply(k.reshape(x, shape=wide[0]), k.reshape(y, shape=wide[1]))
    return k.reshape(made, shape=tuple(a * b for a, b in zip(*shapes, strict=True)))


def _vander_parameters(x: Any, /, N: int | None = None, increasing: bool = False) -> dict[str, Any]:  # noqa: N803
    if len(x.shape) != 1:
        raise ShapeError(f"vander: a vector is needed; got shape {tuple(x.shape)}")
    return {"count": x.shape[0] if N is None else int(N), "increasing": bool(increasing)}


def _vander(k: Table, x: Any, *, count: int, increasing: bool) -> Any:
    if not count:
        return k.full(shape=(x.shape[0], 0), fill_value=0, dtype=k.dtype(x))
    powers = [k.full(shape=x.shape, fill_value=1, dtype=k.dtype(x)), *([x] if count > 1 else [])]
    while len(powers) < count:
        powers.append(k.multiply(powers[-1], x))
    return k.stack(*(powers if increasing else powers[::-1]), axis=1)


def _vander_reference(np: Any, x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803
    return np.vander(x, N, increasing=increasing)


OPS = (
    Op(
        "diag",
        "The `k`-th diagonal of a matrix; of a vector the matrix that has it there, and zeros elsewhere.",
        parameters=_diag_parameters,
        accepts=ANY,
        tangent=linear,
        compose=_diag,
        samples=(Sample(Array((2, 3)), k=1), Sample(Array((2,)), k=-1)),
    ),
    Op(
        "rot90",
        "Turned by `k` quarters, from the first of two `axes` towards the second. A view.",
        parameters=_turns,
        accepts=ANY,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, turns, axes: k.rot90(g, turns=-turns % 4, axes=axes),),
        gradient_aliases=True,
        compose=_rot90,
        batching=composed,
        view=True,
        samples=(Sample(Array((2, 3))), Sample(Array((1, 2, 3)), k=-1, axes=(2, 1)), Sample(Array((2, 2)), k=2)),
        reference=lambda np, x, k=1, axes=(0, 1): np.rot90(x, k, axes),
    ),
    Op(
        "kron",
        "Kronecker's product: each element of ``x1`` times all of ``x2``, in its place.",
        operands=2,
        accepts=NUMERIC,
        tangent=product,
        compose=_kron,
        samples=(Sample(Array((2, 1)), Array((2, 2))), Sample(Array((2,)), Array((1, 2)))),
    ),
    Op(
        "vander",
        "The powers of a vector's elements as `N` columns, the highest first unless `increasing`.",
        parameters=_vander_parameters,
        accepts=NUMERIC,
        compose=_vander,
        samples=(Sample(Array((3,))), Sample(Array((2,)), N=4, increasing=True)),
        reference=_vander_reference,
    ),
)
