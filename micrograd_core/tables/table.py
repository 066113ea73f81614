"""`Table`: the type of ``k``, which gradient rules, tangents and compositions are written against."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from micrograd_core.dtypes import DType


class Table(Protocol):
    """The op table bound to something that can compute.

    **What an interpreter must provide.** Its own kind of operand, with ``.shape`` and ``.dtype`` where it is an array;
    a Python number is an operand, too, and stays one. Under the name of each operation that it covers, a function
    ``k.add(x, y)``, ``k.sum(x, axis=(0,), keepdims=False)``: operands by position, and by name the parameters as
    `Op.parameters` makes them. It never changes an operand. And `dtype`. Compositions that no gradient goes through may
    ask for ``constant``, ``upload``, ``to_host`` and ``device``, which only tables of a device and of batches have.

    **What it gets for it.** Every operation that the op table composes of those; every gradient, as
    ``rule(k, g, out, *operands, **params)``; every tangent. So a table that records gives gradients of gradients, one
    of batches `vmap`, one of floats `Value`, and one that writes down what it is asked for a compiled function.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def dtype(self, x: Any) -> DType:
        """The dtype of an operand that is an array."""
