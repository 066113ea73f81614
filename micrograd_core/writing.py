"""Memory that tensors share, and writing into it: ``x[key] = value``.

A write is real where nothing was recorded. What was recorded keeps its numbers: a copy takes the written tensor's
place, and where somebody else would have to see the write, it is refused. Never a silently wrong gradient.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from micrograd_core.autograd import Leaf, Version, is_grad_enabled
from micrograd_core.errors import GraphError
from micrograd_core.layout import resolve_key
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor


class Storage:
    """A piece of memory that several tensors share: who they are, and which version of it is current.

    Made when a tensor is first viewed, or first saved by a record although it records nothing itself.
    """

    __slots__ = ("holders", "tracked", "version")

    def __init__(self, first: Tensor) -> None:
        self.version = Version()
        self.tracked = first._record is not None  # some holder records gradients
        self.holders = [weakref.ref(first)]

    def add(self, tensor: Tensor) -> None:
        """Let `tensor` share this memory."""
        if len(self.holders) & (len(self.holders) - 1) == 0:  # at powers of two: drop those that are gone
            self.holders = [ref for ref in self.holders if ref() is not None]
        self.holders.append(weakref.ref(tensor))
        self.tracked |= tensor._record is not None
        tensor._storage = self

    def shared_beyond(self, *tensors: Any) -> bool:
        """Whether a living tensor other than these looks at this memory."""
        return any(
            holder is not None and all(holder is not t for t in tensors) for holder in (ref() for ref in self.holders)
        )

    def written(self) -> None:
        """Tell all records that saved this memory that it has changed."""
        self.version.stale = True
        self.version = Version()


def storage(tensor: Tensor) -> Storage:
    """The storage of a tensor, made if nobody needed it so far."""
    if tensor._storage is None:
        tensor._storage = Storage(tensor)
    return tensor._storage


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
    if x._storage is not None and x._storage.shared_beyond(x, value):
        raise GraphError(
            "this tensor shares memory with another tensor (a view, or a detached one) that could not see the write; "
            "write into x.copy(), or delete the other one first"
        )
