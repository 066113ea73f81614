"""Memory that tensors share, and writing into it: ``x[key] = value``.

A write is real where nothing was recorded. What was recorded keeps its numbers: a copy takes the written tensor's
place, and what the written tensor is a view of, and what is written from the same memory, is made again from that copy.
Where somebody else would have to see the write, it is refused. Never silently wrong numbers, or a wrong gradient.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from micrograd_core.engine.apply import Recorded, apply, prepare
from micrograd_core.engine.array import BaseTensor, Storage, detach, refuse_leaf, shared_beyond
from micrograd_core.engine.graph import Leaf, parents_of
from micrograd_core.engine.keys import fitting, updated
from micrograd_core.engine.modes import records_at
from micrograd_core.errors import GraphError
from micrograd_core.layout import holds_arrays
from micrograd_core.ops import TABLE
from micrograd_core.ops.core.movement import unbroadcast

GETITEM, SCATTER = TABLE["getitem"], TABLE["scatter"]
MAY_COPY = ("reshape", "diagonal", "spread")  # where strides cannot express the view


def write(x: BaseTensor, key: Any, value: Any, operand: Any = None) -> None:
    """``x[key] = value``. In place where nothing was recorded; else a copy takes the tensor's place in the graph.

    Where `x` is itself a view of a tensor that is still there, as in ``y[0][1] = value`` and ``y.T[0] += value``, that
    one is written, and `x` becomes the same view of it; likewise the value, or, in an augmented assignment, the
    `operand` that it was computed from.

    Raises
    ------
    GraphError
        Where the write would have to change what others see of a recorded tensor: a leaf, or memory shared with views.
    DTypeError
        Where the value's kind of number does not fit the tensor's.
    """
    if x._storage is not None and x._storage.saved:
        raise GraphError("a copy from state_dict(): no module sees a write. Use load_state_dict(), or x.clone()")
    source, value = value if operand is None else operand, fitting(x, value)
    _refuse_batched(x, value)
    records = records_at(x._kernels.depth) and (x._record is not None or getattr(value, "_record", None) is not None)
    real = not records and x._record is None and (x._storage is None or not x._storage.tracked)
    selects = holds_arrays(key)
    if selects:
        key, value = ..., updated(x, key, value)
    whole = selects or (operand is not None and _is_whole(x, value, records))
    params = {} if whole and not real else SCATTER.parameters(x, value, key=key)
    kin = x._storage is not None and getattr(source, "_storage", None) is x._storage
    place = kin and not whole and operand is None and _is_place(x, params, source)
    if place and (not records or _in_graph(source, x)) and not (real and "strided" not in x._kernels.capabilities):
        return  # ``x[key] += 1`` has written already, unless the device gave a copy as ``x[key]``
    if real and _assigned(x, params["key"], value):
        return
    chain, top = _written(x, augmented=operand is not None)
    for tensor in chain[: top + 1]:
        refuse_leaf(tensor)
    path = _path(chain, source, place) if kin else []
    if shared_beyond(*chain, *path):
        raise _unseen(x, records)
    new = value if whole else apply(SCATTER, (x, value), params)
    _replace(chain, top, new, _followers(chain, top, path), records)


def _is_whole(x: BaseTensor, value: Any, records: bool) -> bool:
    """Whether what an operator gave is fresh, and all that `x` has to become, unless it lost what `x` records."""
    return value._handle.shape == x._handle.shape and (value._record is not None) is records


def _unseen(x: BaseTensor, records: bool) -> GraphError:
    """The error for a tensor that shares the memory, and could not see a write."""
    why = "gradients were recorded from one of them"
    if not records and not x._storage.tracked:  # type: ignore[union-attr]
        why = f"{x.device} cannot write into memory, nor can a function under jit"
    return GraphError(
        "this tensor shares memory with another tensor (a view, or a detached one) that could not see the write, "
        f"because {why}; write into x.copy(), or under no_grad(), or delete the other one first"
    )


def _refuse_batched(x: BaseTensor, value: Any) -> None:
    if value.__class__ is x.__class__ and value._kernels.depth > x._kernels.depth:
        raise GraphError(
            "inside vmap the value is one of a batch, but the tensor written to is the same for all; start from one "
            "that is batched, such as x * 0, or build the result with stack([...]) or where(...)"
        )


def _assigned(x: BaseTensor, key: Any, value: Any) -> bool:
    """Write into the memory of `x` itself, where the device can."""
    _, kernels, _, (_, ready) = prepare(SCATTER, (x, value))
    if not kernels.assign(x._handle, getattr(ready, "_handle", ready), key):
        return False
    if x._storage is not None:
        x._storage.written()
    return True


def _replace(chain: list[Any], top: int, new: Any, followers: list[Any], records: bool) -> None:
    """Let the first of a chain become `new`, its base what it has to be for that, and so on; then the followers."""
    fresh = [new]
    for view, base in pairwise(chain):
        fresh.append(_put_back(view, base, fresh[-1]))
    last = len(chain) - 1
    _become(chain[last], fresh[last], None, records and top == last)
    for level in range(last - 1, -1, -1):
        made = _remade(chain[level]._origin, chain[level + 1])
        if level == top:
            made._record = fresh[level]._record
        _become(chain[level], made, made._storage, records and level <= top)
    for view, base, recorded in followers:
        made = _remade(view._origin, base)
        _become(view, made, made._storage, records and recorded)


def _is_place(x: Any, params: dict[str, Any], value: Any) -> bool:
    """Whether `value` is ``x[key]`` itself."""
    origin = getattr(value, "_origin", None)
    return origin is not None and origin[1] is GETITEM and origin[2] == params and _base(value) is x


def _remade(origin: Any, base: Any) -> Any:
    """The view that `origin` tells of, made of `base` as it is now."""
    return detach(base) if origin[1] is None else apply(origin[1], (base,), origin[2])


def _base(x: Any) -> Any:
    """The tensor that `x` is a view of, if their memory is still what it was then; made again if nobody holds it."""
    origin = getattr(x, "_origin", None)
    if origin is None:
        return None
    base = _named_by(origin, x._storage)
    if base is None or not _is_view(origin, x, base):
        return None
    if origin[0]() is None:
        base._record = next(iter(parents_of(x._record)), None)
    return base


def _named_by(origin: Any, common: Storage | None) -> Any:
    living, _, _, before, replaced, _ = origin
    if common is None or common.replaced != replaced:
        return None
    base: Any = living()
    if base is None and before is not None and (under := _named_by(before, common)) is not None:
        base = _remade(before, under)
        base = base if _is_view(before, base, under) else None
    return base if base is not None and base._storage is common else None


def _is_view(origin: Any, x: Any, base: Any) -> bool:
    """Whether `x` looks at the memory of `base`: where the operation may copy, only if the device says so."""
    return getattr(origin[1], "name", None) not in MAY_COPY or bool(x._kernels.shares_memory(x._handle, base._handle))


def _in_graph(view: Any, base: Any) -> bool:
    """Whether gradients flow from `view` to its base, or would if the base recorded."""
    record = view._record
    if record is None:
        return base._record is None and view._origin[1] is not None
    return any(parent is base._record for parent in parents_of(record)[:1])


def _written(x: Any, augmented: bool) -> tuple[list[Any], int]:
    """What a write to `x` changes: `x`, its base, the base's, ...; and the number of the last that has to record it.

    What is beyond a detached tensor is given numbers only: without grad mode, and a leaf by ``p.data -= 1``.
    """
    chain, top = [x], 0
    while (base := _base(chain[-1])) is not None and _can_be_put_back(chain[-1], base):
        if _in_graph(chain[-1], base):
            top += top == len(chain) - 1
        elif records_at(x._kernels.depth) and not (augmented and base._record.__class__ is Leaf):
            break
        chain.append(base)
    return chain, top


def _can_be_put_back(view: Any, base: Any) -> bool:
    op = view._origin[1]
    if op is None or op is GETITEM:
        return True
    return bool(op.gradient_aliases) and math.prod(view._handle.shape) == math.prod(base._handle.shape)


def _put_back(view: Any, base: Any, new: Any) -> Any:
    """What `base` has to become for its view to be `new`. A view of all elements is undone by its gradient rule."""
    _, op, params, *_ = view._origin
    if op is None:
        return new
    if op is not GETITEM:
        k = Recorded.of(base.__class__, base._kernels)
        new = op.gradient[0](k, new, view, base, **params)
        new = new if new.shape == base.shape else unbroadcast(k, new, base.shape)
        params = SCATTER.parameters(base, new, key=...)
    return apply(SCATTER, (base, new), params)


def _path(chain: list[Any], value: Any, place: bool) -> list[Any]:
    """What has to see the write because `value` is a view of the same memory: it, its base, … up to one of the chain.

    Or what need not see it, although it comes from the same memory: it has no element of it.
    """
    path = [value]
    while not any(path[-1] is tensor for tensor in chain):
        view, base = path[-1], _base(path[-1])
        if base is None or not (place or _carries(view, base)):
            return path if _apart(chain[-1], view) else []
        path.append(base)
    return path


def _carries(view: Any, base: Any) -> bool:
    """Whether the gradient of a view would change with its numbers, where its base is written to."""
    return view._record is None or not records_at(view._kernels.depth) or _in_graph(view, base)


def _followers(chain: list[Any], top: int, path: list[Any]) -> list[tuple[Any, Any, bool]]:
    """Each view on a path that ends in the chain, with its base, and whether it records."""
    end = [place for place, tensor in enumerate(chain) if path and tensor is path[-1]]
    if not end:
        return []
    recorded, followers = end[0] <= top, []
    for base, view in pairwise(reversed(path)):
        recorded = recorded and _in_graph(view, base)
        followers.append((view, base, recorded))
    return followers


def _apart(x: BaseTensor, y: BaseTensor) -> bool:
    """Whether a device that can tell says that two tensors have no memory in common."""
    kernels = x._kernels
    return not kernels.depth and "strided" in kernels.capabilities and not kernels.shares_memory(x._handle, y._handle)


def _become(x: Any, new: Any, common: Storage | None, records: bool) -> None:
    x._handle, x._storage, x._origin = new._handle, common, common and new._origin
    if records:
        x._record = new._record
