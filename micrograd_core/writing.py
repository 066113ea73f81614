"""Memory that tensors share, and writing into it: ``x[key] = value``.

A write is real where nothing was recorded. What was recorded keeps its numbers: a copy takes the written tensor's
place, and where somebody else would have to see the write, it is refused. Never a silently wrong gradient.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from micrograd_core.autograd import Leaf, Version, is_grad_enabled
from micrograd_core.errors import GraphError
from micrograd_core.layout import Key
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor

SCATTER = TABLE["scatter"]


class Storage:
    """A piece of memory that several tensors share: each holds the one `Storage`, and nothing else does.

    Made when a tensor is first viewed, or first saved by a record although it records nothing itself.
    """

    __slots__ = ("_version", "tracked")

    def __init__(self, tracked: bool) -> None:
        self.tracked = tracked  # some tensor that shares the memory records gradients
        self._version: Version | None = None

    @classmethod
    def of(cls, version: Version) -> Storage:
        """A storage that is in the state `version`."""
        common = cls(False)
        common._version = version
        return common

    def version(self) -> Version:
        """What a record keeps to notice a write."""
        if self._version is None:
            self._version = Version()
        return self._version

    def written(self) -> None:
        """Tell all records that saved this memory that it has changed."""
        if self._version is not None:
            self._version.stale = True
            self._version = None


def storage(tensor: Tensor) -> Storage:
    """The storage of a tensor, made if nobody needed it so far."""
    found = tensor._storage
    if found is None:
        found = tensor._storage = Storage(tensor._record is not None)
    return found


def share(tensor: Tensor, view: Tensor) -> None:
    """Let `view` share the memory of `tensor`."""
    common = tensor._storage
    if common is None:
        common = tensor._storage = Storage(tensor._record is not None)
    view._storage = common
    if view._record is not None:
        common.tracked = True


def _references(common: Storage) -> int:
    return sys.getrefcount(common)


def _alone() -> int:
    common = Storage(False)
    return _references(common)


ALONE = _alone()  # what `_references` says of a storage that no tensor holds


def shared_beyond(*tensors: Any) -> bool:
    """Whether a living tensor other than these (or numbers) looks at the memory of the first."""
    common = tensors[0]._storage
    if common is None:
        return False
    holders = [tensor for tensor in tensors if getattr(tensor, "_storage", None) is common]
    for tensor in holders:
        tensor._storage = None
    others = _references(common) > ALONE
    for tensor in holders:
        tensor._storage = common
    return others


def write(x: Tensor, key: Any, value: Any, operand: Any = None) -> None:
    """``x[key] = value``. In place where nothing was recorded; else a copy takes the tensor's place in the graph.

    Where `x` was itself indexed from a tensor that is still there, as in ``y[0][1] = value`` and ``y[0] += value``,
    that one is written, and `x` becomes what the same key selects from it; likewise the value, and the `operand` that
    it was computed from in an augmented assignment.

    Raises
    ------
    GraphError
        Where the write would have to change what others see of a recorded tensor: a leaf, or memory shared with views.
    DTypeError
        Where the value's kind of number does not fit the tensor's.
    """
    from micrograd_core.dispatch import apply, prepare
    from micrograd_core.indexing import fitting, holds_arrays, updated

    value = fitting(x, value)
    if value.__class__ is x.__class__ and value._kernels.depth > x._kernels.depth:
        raise GraphError(
            "inside vmap the value is one of a batch, but the tensor written to is the same for all; start from one "
            "that is batched, such as x * 0, or build the result with stack([...]) or where(...)"
        )
    whole = holds_arrays(key)
    if whole:
        key, value = ..., updated(x, key, value)
    assert SCATTER.parameters is not None
    params = SCATTER.parameters(x, value, key=key)
    if _is_place(x, params["key"], value):
        return
    records = is_grad_enabled() and (x.requires_grad or getattr(value, "requires_grad", False))
    if not records and not x.requires_grad and (x._storage is None or not x._storage.tracked):
        kernels, _, (_, ready) = prepare(SCATTER, (x, value))
        if kernels.assign(x._handle, getattr(ready, "_handle", ready), params["key"]):
            if x._storage is not None:
                x._storage.written()
            return
    chain = _indexed_from(x)
    if records:
        for tensor in chain:
            refuse_leaf(tensor)
    elif any(tensor.requires_grad for tensor in chain):
        chain = [x]
    beside = [*_beside(chain, value), *_beside(chain, operand)]
    if shared_beyond(*chain, *beside, value):
        raise GraphError(
            "this tensor shares memory with another tensor (a view, or a detached one) that could not see the write, "
            "because gradients were recorded from one of them; write into x.copy(), or delete the other one first"
        )
    for tensor in chain:
        value, whole = value if whole else apply(SCATTER, (tensor, value), params), False
        params = {"key": tensor._origin[1]} if tensor is not chain[-1] else params
    _become(chain[-1], value, None, records)
    for tensor in (*chain[-2::-1], *beside):
        view = tensor._origin[0]()[tensor._origin[1]]
        _become(tensor, view, view._storage, records)


def _is_place(x: Tensor, key: Key, value: Any) -> bool:
    """Whether `value` is ``x[key]`` itself, to which ``x[key] += 1`` has written already."""
    return _base(value) is x and value._origin[1] == key


def _base(x: Any) -> Tensor | None:
    """The tensor that `x` was indexed from, if both still are what they were then: in memory, and in the graph."""
    origin = getattr(x, "_origin", None)
    base: Tensor | None = origin and origin[0]()
    if base is None or base._storage is not x._storage:
        return None
    record = x._record
    same = base._record is None if record is None else record.__class__ is list and record[4:5] == [base._record]
    return base if same else None


def _indexed_from(x: Tensor) -> list[Tensor]:
    """`x`, the tensor it was indexed from, the one that was indexed from, ..."""
    chain = [x]
    while (base := _base(chain[-1])) is not None:
        chain.append(base)
    return chain


def _beside(chain: list[Tensor], other: Any) -> list[Tensor]:
    """`other` and what it was indexed from, outermost first, as far as a tensor of the chain; nothing otherwise."""
    found = _indexed_from(other) if hasattr(other, "_record") else []
    own = [tensor for tensor in found if not any(tensor is each for each in chain)]
    return own[::-1] if 0 < len(own) < len(found) else []


def _become(x: Tensor, new: Tensor, common: Storage | None, records: bool) -> None:
    x._handle, x._storage = new._handle, common
    if records:
        x._record = new._record


def refuse_leaf(x: Tensor) -> None:
    """Refuse to write to a leaf that records, while what is computed is recorded."""
    if x._record.__class__ is Leaf and is_grad_enabled():
        raise GraphError(
            "this tensor is a leaf that records gradients: writing into it would lose what its gradient refers to; "
            "use `with no_grad():` to change its numbers, or write into x.copy(), or make a new tensor (x = x + 1)"
        )
