"""Collectives as operations of the op table: each a call, with its gradient, on every device, under every transform.

Ranks compute one function of all their operands together; its value is the sum of what the ranks call their losses. So
the gradient of a sum over ranks is the sum of the cotangents of all ranks, that of a gather a scatter of sums, and that
of what goes to the next rank comes from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core import Tensor, asarray
from micrograd_core.dtypes import float32
from micrograd_core.engine.apply import apply_single
from micrograd_core.errors import ShapeError
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.record import ANY, CALL
from micrograd_core.ops.tangents import linear
from micrograd_core.support.context import is_traced
from micrograd_mpi.job import World, world
from micrograd_mpi.transport import TYPES, Call, Started, begin

REDUCTIONS = ("sum", "mean", "max", "min", "prod")


# ── on handles ───────────────────────────────────────────────────────────────────────────────────────────────


def run(k: Any, x: Any, call: Call, group: World) -> Any:
    """A collective on a handle; while `jit` traces, what it would be if all ranks had the same."""
    if not is_traced():
        return finish(group, begin(group, k, x, call))
    if tuple(x.shape) == call.shape:
        return k.copy(x)
    if call.kind == "all_gather":
        return k.concat(*[x] * group.size, axis=0)
    return k.copy(k.getitem(x, key=tuple(_all(length) for length in call.shape)))


def finish(group: World, started: Started) -> Any:
    """The result of what was begun, once it is there."""
    if started.pending is not None:
        group.wait(started.pending)
    return started.result()


def _reduced(kind: str, k: Any, x: Any, shape: Any, reduction: str, group: World) -> Any:
    """A reduction; the mean of a sum; numbers that MPI does not compute with are brought together, and reduced here."""
    dtype = k.dtype(x)
    if str(dtype) not in TYPES and not is_traced():
        parts = by_rank(k, x, group)
        found = run(k, parts, Call("all_to_all", tuple(parts.shape)), group)
        return added_up(k, found, shape, reduction, group, whole=kind == "all_reduce")
    made = run(k, x, Call(kind, shape, "sum" if reduction == "mean" else reduction), group)
    return k.multiply(made, 1 / group.size) if reduction == "mean" else made


def added_up(k: Any, parts: Any, shape: Any, reduction: str, group: World, whole: bool = True) -> Any:
    """The reduction of parts that came from all ranks, in float32; `whole`: and those of the other ranks beside it."""
    dtype = k.dtype(parts)
    wide = getattr(k, reduction)(k.astype(parts, dtype=float32), axis=(0,), keepdims=False)
    own = k.astype(wide, dtype=dtype)
    if whole:
        own = run(k, own, Call("all_gather", (group.size * own.shape[0],)), group)
        own = k.getitem(own, key=(slice(0, math.prod(shape), 1),))
    return k.reshape(own, shape=shape)


def by_rank(k: Any, x: Any, group: World) -> Any:
    """The elements as a row for each rank, the last filled up with zeros."""
    count = math.prod(x.shape)
    row = -(-count // group.size)
    flat = k.reshape(x, shape=(count,))
    if row * group.size > count:
        flat = k.concat(flat, k.full(shape=(row * group.size - count,), fill_value=0, dtype=k.dtype(x)), axis=0)
    return k.reshape(flat, shape=(group.size, row))


# ── gradients ────────────────────────────────────────────────────────────────────────────────────────────────


def _extreme(k: Any, g: Any, out: Any, x: Any, group: World) -> Any:
    """To those that have the greatest, or least, in equal shares."""
    here = k.astype(k.equal(x, out), dtype=k.dtype(g))
    sharing = k.all_reduce(here, reduction="sum", group=group)
    return k.multiply(here, k.divide(k.all_reduce(g, reduction="sum", group=group), sharing))


def _product(k: Any, g: Any, out: Any, x: Any, group: World) -> Any:
    """The product of what the other ranks have."""
    shape = tuple(x.shape)
    rows = k.all_gather(k.reshape(x, shape=(1, *shape)), group=group)
    before = k.getitem(rows, key=(slice(0, group.rank, 1), *map(_all, shape)))
    after = k.getitem(rows, key=(slice(group.rank + 1, group.size, 1), *map(_all, shape)))
    others = k.prod(k.concat(before, after, axis=0), axis=(0,), keepdims=False)
    return k.multiply(k.all_reduce(g, reduction="sum", group=group), others)


def _all(length: int) -> slice:
    return slice(0, length, 1)


def _all_reduce_gradient(k: Any, g: Any, out: Any, x: Any, *, reduction: str, group: World) -> Any:
    if reduction in ("sum", "mean"):
        return k.all_reduce(g, reduction=reduction, group=group)
    return (_product if reduction == "prod" else _extreme)(k, g, out, x, group)


def _reduce_scatter_gradient(k: Any, g: Any, out: Any, x: Any, *, reduction: str, group: World) -> Any:
    whole = k.all_gather(g, group=group)
    return k.multiply(whole, 1 / group.size) if reduction == "mean" else whole


def _broadcast_gradient(k: Any, g: Any, out: Any, x: Any, *, root: int, group: World) -> Any:
    total = k.all_reduce(g, reduction="sum", group=group)
    return total if group.rank == root else k.multiply(total, 0.0)


# ── batches of `vmap` ────────────────────────────────────────────────────────────────────────────────────────


def _behind(op: Op, k: Any, batched: Any, size: int, x: Any, **params: Any) -> Any:
    """Examples stand behind the axis that ranks share."""
    if len(x.shape) == 1:
        return NotImplemented
    swapped = 1, 0, *range(2, len(x.shape))
    return k.permute_dims(getattr(k, op.name)(k.permute_dims(x, axes=swapped), **params), axes=swapped)


def _beside(op: Op, k: Any, batched: Any, size: int, x: Any, **params: Any) -> Any:
    return getattr(k, op.name)(x, **params)


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────


def _same(x: Any, **params: Any) -> tuple[int, ...]:
    return tuple(x.shape)


def _more(x: Any, *, group: World) -> tuple[int, ...]:
    return (x.shape[0] * group.size, *x.shape[1:])


def _fewer(x: Any, *, reduction: str, group: World) -> tuple[int, ...]:
    return (x.shape[0] // group.size, *x.shape[1:])


def _add(
    name: str, doc: str, compose: Callable[..., Any], shape: Callable[..., Any], gradient: Any, **facts: Any
) -> Op:
    op = Op(
        name, doc, operands=1, accepts=ANY, lowering=CALL, compose=compose, shape=shape, gradient=(gradient,),
        collective=True, parameters=lambda x, /, **params: params, **{"tangent": linear, "batching": _beside, **facts},
    )  # fmt: skip
    TABLE[name] = op
    return op


ALL_REDUCE = _add(
    "all_reduce",
    "The reduction of what all ranks have, on each of them.",
    lambda k, x, *, reduction, group: _reduced("all_reduce", k, x, tuple(x.shape), reduction, group),
    _same,
    _all_reduce_gradient,
    tangent=None,
)
ALL_GATHER = _add(
    "all_gather",
    "What all ranks have, one after the other along the first axis.",
    lambda k, x, *, group: run(k, x, Call("all_gather", _more(x, group=group)), group),
    _more,
    lambda k, g, out, x, *, group: k.reduce_scatter(g, reduction="sum", group=group),
    batching=_behind,
)
REDUCE_SCATTER = _add(
    "reduce_scatter",
    "The reduction of what all ranks have; each gets its part of the first axis.",
    lambda k, x, *, reduction, group: _reduced(
        "reduce_scatter", k, x, _fewer(x, reduction=reduction, group=group), reduction, group
    ),
    _fewer,
    _reduce_scatter_gradient,
    batching=_behind,
)
BROADCAST = _add(
    "broadcast",
    "What one rank has.",
    lambda k, x, *, root, group: run(k, x, Call("broadcast", tuple(x.shape), place=root), group),
    _same,
    _broadcast_gradient,
)
ALL_TO_ALL = _add(
    "all_to_all",
    "Part i of the first axis goes to rank i; parts come in the order of the ranks they are from.",
    lambda k, x, *, group: run(k, x, Call("all_to_all", tuple(x.shape)), group),
    _same,
    lambda k, g, out, x, *, group: k.all_to_all(g, group=group),
    batching=_behind,
)
SHIFT = _add(
    "shift",
    "What the rank so many places before has; the ranks stand in a ring.",
    lambda k, x, *, by, group: run(k, x, Call("shift", tuple(x.shape), place=by), group),
    _same,
    lambda k, g, out, x, *, by, group: k.shift(g, by=-by, group=group),
)


# ── for users ────────────────────────────────────────────────────────────────────────────────────────────────


def all_reduce(x: Tensor, reduction: str = "sum", group: World | None = None) -> Tensor:
    """The sum, mean, maximum, minimum or product of what all ranks have, element by element, on each of them.

    Parameters
    ----------
    x : Tensor
        Of the same shape and dtype on every rank. float16 and bfloat16 are added in float32, and sent as they are.
    reduction : str
        ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`; gradients flow to all ranks.

    Raises
    ------
    ValueError, TypeError
        For another reduction; the mean, of integers.
    WorldError
        When a rank does not come.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> all_reduce(mg.asarray([1.0, 2.0])).tolist()  # of one rank
    [1.0, 2.0]
    """
    group, x = world() if group is None else group, asarray(x)
    _check_reduction("all_reduce", reduction, REDUCTIONS, x)
    return apply_single(ALL_REDUCE, x, {"reduction": reduction, "group": group})


def all_gather(x: Tensor, group: World | None = None) -> Tensor:
    """What all ranks have, one after the other along the first axis.

    Parameters
    ----------
    x : Tensor, (n, *rest)
        Of the same shape and dtype on every rank.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor, (n * ranks, *rest)

    Raises
    ------
    ShapeError
        Without a first axis.
    WorldError
        When a rank does not come.
    """
    group, x = world() if group is None else group, asarray(x)
    _first_axis("all_gather", x, 1)
    return apply_single(ALL_GATHER, x, {"group": group})


def reduce_scatter(x: Tensor, reduction: str = "sum", group: World | None = None) -> Tensor:
    """The sum or mean of what all ranks have, of which each rank gets its part of the first axis.

    Parameters
    ----------
    x : Tensor, (n * ranks, *rest)
        Of the same shape and dtype on every rank.
    reduction : str
        ``"sum"`` or ``"mean"``.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor, (n, *rest)

    Raises
    ------
    ShapeError
        When the ranks do not divide the first axis.
    ValueError, TypeError
        For another reduction; the mean, of integers.
    WorldError
        When a rank does not come.
    """
    group, x = world() if group is None else group, asarray(x)
    _check_reduction("reduce_scatter", reduction, REDUCTIONS[:2], x)
    _first_axis("reduce_scatter", x, group.size)
    return apply_single(REDUCE_SCATTER, x, {"reduction": reduction, "group": group})


def broadcast(x: Tensor, root: int = 0, group: World | None = None) -> Tensor:
    """What one rank has, on each.

    Parameters
    ----------
    x : Tensor
        Of the same shape and dtype on every rank.
    root : int
        The rank whose numbers are taken.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor
        Like `x`; gradients of all ranks flow to the root's, and zero to the others'.

    Raises
    ------
    ValueError
        When there is no such rank.
    WorldError
        When a rank does not come.
    """
    group, x = world() if group is None else group, asarray(x)
    if not 0 <= root < group.size:
        raise ValueError(f"broadcast: root is a rank from 0 to {group.size - 1}; got {root}")
    return apply_single(BROADCAST, x, {"root": root, "group": group})


def all_to_all(x: Tensor, group: World | None = None) -> Tensor:
    """Part i of the first axis goes to rank i; what comes is in the order of the ranks it is from.

    Parameters
    ----------
    x : Tensor, (n * ranks, *rest)
        Of the same shape and dtype on every rank.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    ShapeError
        When the ranks do not divide the first axis.
    WorldError
        When a rank does not come.
    """
    group, x = world() if group is None else group, asarray(x)
    _first_axis("all_to_all", x, group.size)
    return apply_single(ALL_TO_ALL, x, {"group": group})


def shift(x: Tensor, by: int = 1, group: World | None = None) -> Tensor:
    """Send to a rank further on in the ring, and get what the one as far behind sends.

    Parameters
    ----------
    x : Tensor
        Of the same shape and dtype on every rank.
    by : int
        How many ranks further; negative: back.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor
        Like `x`: that of rank ``(rank - by) % ranks``.

    Raises
    ------
    WorldError
        When a rank does not come.
    """
    group, x = world() if group is None else group, asarray(x)
    return apply_single(SHIFT, x, {"by": int(by), "group": group})


def _check_reduction(name: str, reduction: str, possible: tuple[str, ...], x: Tensor) -> None:
    if reduction not in possible:
        raise ValueError(f"{name}: reduction is one of {', '.join(possible)}; got {reduction!r}")
    if reduction == "mean" and not x.dtype.is_floating:
        raise TypeError(f"{name}: the mean of {x.dtype} is no {x.dtype}; write x.astype('float32') before")
    if str(x.dtype) == "bool":
        raise TypeError(f"{name}: there is no {reduction} of bool; write x.astype('int32') before")
    if x.dtype.is_complex and reduction in ("max", "min"):
        raise TypeError(f"{name}: {x.dtype} numbers have no order, so there is no {reduction}")


def _first_axis(name: str, x: Tensor, ranks: int) -> None:
    if not x.ndim or x.shape[0] % ranks:
        raise ShapeError(f"{name}: the first axis is parted among {ranks} ranks; got shape {tuple(x.shape)}")
