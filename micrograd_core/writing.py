"""Memory that tensors share, and writing into it: ``x[key] = value``.

A write is real where nothing was recorded. What was recorded keeps its numbers: a copy takes the written tensor's
place, and where somebody else would have to see the write, it is refused. Never a silently wrong gradient.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from micrograd_core.autograd import Leaf, Version, is_grad_enabled
from micrograd_core.device import Device
from micrograd_core.dtypes import fits
from micrograd_core.errors import DTypeError, GraphError
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
    DTypeError
        Where the value's kind of number does not fit the tensor's.
    """
    from micrograd_core.dispatch import SCALARS, apply, prepare
    from micrograd_core.tensor import Tensor, asarray

    params = {"key": resolve_key(key, x.shape)}
    if not isinstance(value, (Tensor, *SCALARS)):
        value = asarray(value, device=x.device)
    if isinstance(value, Tensor) and value.dtype is not x.dtype:
        if not fits(value.dtype, x.dtype):
            raise DTypeError(
                f"a {value.dtype} value does not fit into a {x.dtype} tensor; convert it with .astype({str(x.dtype)!r})"
            )
        value = value.astype(x.dtype)
    if isinstance(value, Tensor) and value._kernels.depth > x._kernels.depth:
        raise GraphError(
            "inside vmap the value is one of a batch, but the tensor written to is the same for all; start from one "
            "that is batched, such as x * 0, or build the result with stack([...]) or where(...)"
        )
    scatter = TABLE["scatter"]
    assert scatter.parameters is not None
    scatter.parameters(x, value, **params)
    recorded = x.requires_grad
    if is_grad_enabled() and (recorded or getattr(value, "requires_grad", False)):
        refuse_leaf(x)
        _refuse_shared(x, value)
        out = apply(scatter, (x, value), params)
        x._handle, x._record, x._storage = out._handle, out._record, None
        return
    kernels, _, (_, value) = prepare(scatter, (x, value))
    handle = value._handle if isinstance(value, Tensor) else value
    if (
        not recorded
        and (x._storage is None or not x._storage.tracked)
        and kernels.assign(x._handle, handle, params["key"])
    ):
        if x._storage is not None:
            x._storage.written()
        return
    _refuse_shared(x, value)
    x._handle, x._storage = kernels.scatter(x._handle, handle, **params), None


def refuse_leaf(x: Tensor) -> None:
    """Refuse to write to a leaf that records, while what is computed is recorded."""
    if x._record.__class__ is Leaf and is_grad_enabled():
        raise GraphError(
            "this tensor is a leaf that records gradients: writing into it would lose what its gradient refers to; "
            "use `with no_grad():` to change its numbers, or write into x.copy(), or make a new tensor (x = x + 1)"
        )


def _refuse_shared(x: Tensor, value: Any) -> None:
    if shared_beyond(x, value):
        raise GraphError(
            "this tensor shares memory with another tensor (a view, or a detached one) that could not see the write, "
            "because gradients were recorded from one of them; write into x.copy(), or delete the other one first"
        )


def relocate(x: Tensor, device: str | Device) -> None:
    """Move this very tensor, a leaf, to another device. Its gradient stays behind, and so does what was recorded."""
    source, target = x._kernels, Device(device).kernels
    if target is not source:
        x._handle, x._kernels, x._storage = target.transfer(x._handle, source=source, target=target), target, None
        if x._record is not None:
            x._record, x._grad = Leaf(x), None
