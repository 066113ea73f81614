"""``x.at[key].add(value)``: a new tensor with other elements where a key says, in JAX's manner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.engine.keys import getitem, updated

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor


class At:
    """``x.at``: ``x.at[key]`` names elements, whose update gives a new tensor and leaves `x` alone.

    The manner is JAX's. A key is any that indexing takes. Elements that are named several times are updated several
    times; of the values to `set` the last one counts.
    """

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Place:
        return Place(self._x, key)


class Place:
    """Elements of a tensor that a key names. Each method gives a new tensor, through which gradients flow."""

    __slots__ = ("_key", "_x")

    def __init__(self, x: Tensor, key: Any) -> None:
        self._x, self._key = x, key

    def get(self) -> Tensor:
        """``x[key]``."""
        return getitem(self._x, self._key)

    def set(self, value: Any) -> Tensor:
        """The elements replaced by `value`, which broadcasts."""
        return updated(self._x, self._key, value)

    def add(self, value: Any) -> Tensor:
        """`value` added to the elements."""
        return updated(self._x, self._key, value, "add")

    def multiply(self, value: Any) -> Tensor:
        """The elements multiplied by `value`."""
        return updated(self._x, self._key, value, "multiply")

    def min(self, value: Any) -> Tensor:
        """The lesser of the elements and `value`."""
        return updated(self._x, self._key, value, "min")

    def max(self, value: Any) -> Tensor:
        """The greater of the elements and `value`."""
        return updated(self._x, self._key, value, "max")
