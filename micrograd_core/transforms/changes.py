"""How a traced function changes what was there before it, where plain assignments do not do."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.array import shared_beyond, wrap
from micrograd_core.ops import TABLE

WHOLE = TABLE["scatter"].parameters


def written(kernels: Any, x: Tensor, handle: Any) -> list[Any]:
    """New numbers for a tensor: in place where others look at its memory and nothing was recorded."""
    common = x._storage
    if common is not None and x._record is None and shared_beyond(x):
        assert WHOLE is not None
        key = WHOLE(x, wrap(Tensor, handle, kernels, x.dtype, None), key=...)["key"]
        if not common.tracked:
            return [(Memory(kernels, x, key), "numbers", handle)]
    return given(x, handle)


def given(x: Tensor, handle: Any) -> list[Any]:
    """New memory for a tensor; who looks at the old one goes on to."""
    return [(x, "_handle", handle), (x, "_storage", None), (x, "_origin", None)]


class Done:
    """Whether what a call changes is being assigned: from then on nothing is taken back."""

    all = False


class Memory:
    """The memory that a tensor shares, for `assign_all`; a device that cannot write there gives the tensor its own."""

    def __init__(self, kernels: Any, x: Tensor, key: Any) -> None:
        vars(self).update(kernels=kernels, x=x, key=key)

    def __setattr__(self, name: str, handle: Any) -> None:
        kernels, x, key = vars(self).values()
        if kernels.assign(x._handle, handle, key):
            if x._storage is not None:
                x._storage.written()
        else:
            for owner, slot, value in given(x, handle):
                setattr(owner, slot, value)


class Slot:
    """An entry of a dict, for `assign_all`."""

    __slots__ = ("_space",)
    _space: dict[Any, Any]

    def __init__(self, space: dict[Any, Any]) -> None:
        object.__setattr__(self, "_space", space)

    def __setattr__(self, name: Any, value: Any) -> None:
        self._space[name] = value


__all__ = ["Done", "Slot", "given", "written"]
