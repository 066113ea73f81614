"""How a traced function changes what was there before it, where plain assignments do not do."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.array import storage


def given(x: Tensor, handle: Any) -> list[Any]:
    """New memory for a tensor; who looks at the old one goes on to."""
    return [(x, "_handle", handle), (x, "_storage", None), (x, "_origin", None)]


def shared(x: Tensor, other: Tensor) -> list[Any]:
    """The memory of another tensor, as ``x.data = other``."""
    common = storage(other)
    common.replaced += 1
    return [(x, "_handle", other._handle), (x, "_storage", common), (x, "_origin", None)]


class Done:
    """Whether what a call changes is being assigned: from then on nothing is taken back."""

    all = False


class Memory:
    """The memory of a tensor, for `assign_all`; where the device cannot write, the tensor gets memory of its own."""

    def __init__(self, kernels: Any, x: Tensor) -> None:
        vars(self).update(kernels=kernels, x=x)

    def __setattr__(self, name: str, handle: Any) -> None:
        kernels, x = vars(self).values()
        if kernels.assign(x._handle, handle, (slice(None),) * len(x._handle.shape)):
            if x._storage is not None:
                x._storage.written()
        else:
            for owner, slot, value in given(x, handle):
                setattr(owner, slot, value)


class Slot:
    """An entry of a dict or the like, for `assign_all`."""

    def __init__(self, space: Any, key: Any) -> None:
        vars(self).update(space=space, key=key)

    def __setattr__(self, name: str, value: Any) -> None:
        space, key = vars(self).values()
        space[key] = value


__all__ = ["Done", "Memory", "Slot", "given", "shared"]
