"""Memory that tensors share, and writing into it: ``x[key] = value``.

A write is real where nothing was recorded. What was recorded keeps its numbers: a copy takes the written tensor's
place, and where somebody else would have to see the write, it is refused. Never a silently wrong gradient.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from micrograd_core.autograd import Leaf, Version, is_grad_enabled
from micrograd_core.errors import GraphError
from micrograd_core.layout import resolve_key
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor


class Storage:
    """A piece of memory that several tensors share: each holds the one `Storage`, and nothing else does.

    Made when a tensor is first viewed, or first saved by a record although it records nothing itself.
    """

    __slots__ = ("_version", "tracked")

    def __init__(self, tracked: bool) -> None:
        self.tracked = tracked  # some tensor that shares the memory records gradients
        self._version: Version | None = None

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


def shared_beyond(x: Tensor, value: Any) -> bool:
    """Whether a living tensor other than these two looks at the memory of `x`."""
    common = x._storage
    if common is None:
        return False
    holders = [tensor for tensor in (x, value) if getattr(tensor, "_storage", None) is common]
    for tensor in holders:
        tensor._storage = None
    others = _references(common) > ALONE
    for tensor in holders:
        tensor._storage = common
    return others


def write(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``. In place where nothing was recorded; else a copy takes the tensor's place in the graph.

    Raises
    ------
    GraphError
        Where the write would have to change what others see of a recorded tensor: a leaf, or memory shared with views.
    """
    from micrograd_core.dispatch import SCALARS, apply, prepare
    from micrograd_core.tensor import Tensor, asarray

    params = {"key": resolve_key(key, x.shape)}
    if not isinstance(value, (Tensor, *SCALARS)):
        value = asarray(value, device=x.device)
    if isinstance(value, Tensor):
        value = value if value.dtype is x.dtype else value.astype(x.dtype)
    scatter = TABLE["scatter"]
    assert scatter.parameters is not None
    scatter.parameters(x, value, **params)
    recorded = x.requires_grad
    if is_grad_enabled() and (recorded or getattr(value, "requires_grad", False)):
        if x._record.__class__ is Leaf:
            raise GraphError(
                "this tensor is a leaf that records gradients: writing into it would lose what its gradient refers to; "
                "use `with no_grad():` to change its numbers, or write into x.copy()"
            )
        _refuse_shared(x, value)
        out = apply(scatter, (x, value), params)
        x._handle, x._record, x._storage = out._handle, out._record, None
        return
    kernels, _, (_, value) = prepare(scatter, (x, value))
    handle = value._handle if isinstance(value, Tensor) else value
    if not recorded:
        if x._storage is not None and x._storage.tracked:
            raise GraphError(
                "this tensor shares memory with one that records gradients, which would change unnoticed; "
                "write into a .copy(), or into that tensor under `with no_grad():`"
            )
        if kernels.assign(x._handle, handle, params["key"]):
            if x._storage is not None:
                x._storage.written()
            return
    _refuse_shared(x, value)
    x._handle, x._storage = kernels.scatter(x._handle, handle, **params), None


def _refuse_shared(x: Tensor, value: Any) -> None:
    if shared_beyond(x, value):
        raise GraphError(
            "this tensor shares memory with another tensor (a view, or a detached one) that could not see the write; "
            "write into x.copy(), or delete the other one first"
        )
