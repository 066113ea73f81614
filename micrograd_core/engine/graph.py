"""The recorded graph: its nodes, and walks over them.

A tensor's record is the graph node that made it, one flat list::

    [op, kernels, params, out, parent, operand, parent, operand, ...]

`out` and the operands are handles (or Python scalars), so a node never refers to a `Tensor`, and reference counting
alone frees a graph. A parent is

- ``None``: a scalar, or nothing to differentiate;
- a `Version`: an operand that records nothing, which must not be written to before the sweep;
- a `Leaf`: where a gradient ends up;
- a list: the record that made the operand.

An operation with several results has one record, whose `out` is a `Parts` of handles; each result is a record over it
that says which part it is. The cotangent of such a record is a `Parts` too, with ``None`` for what nobody used.

A record that a sweep has consumed is emptied, which frees what it held even while the user keeps its tensor.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any

from micrograd_core.errors import GraphError

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

Record = list[Any]


class Leaf:
    """Where a gradient ends up: a tensor that records and was not computed.

    The tensor holds its leaf and its gradient, the leaf refers back weakly: a gradient that records (`create_graph`)
    leads to the leaf, and must not keep itself alive.
    """

    __slots__ = ("carry_on", "hooks", "kernels", "kind", "owner", "values")

    carry_on: Callable[[list[tuple[Leaf, Any]]], None]  # set on leaves that are no tensor's
    kind: type[Tensor]  # of the owner: hooks may outlive it

    def __init__(self, owner: Tensor) -> None:
        self.kernels, self.kind = owner._kernels, owner.__class__
        self.hooks: dict[object, Any] | None = None  # see `engine.hooks`
        self.owner: Callable[[], Tensor | None] = weakref.ref(owner)
        self.values: Any = None

    @classmethod
    def of_values(cls, kernels: Any, values: Any, carry_on: Callable[[list[tuple[Leaf, Any]]], None]) -> Leaf:
        """Where a gradient leaves the tensors: `carry_on` takes such leaves, with the cotangents found there."""
        leaf = object.__new__(cls)
        leaf.kernels, leaf.hooks, leaf.owner, leaf.values, leaf.carry_on = kernels, None, _nobody, values, carry_on
        return leaf


def _nobody() -> None:
    """The owner of a leaf that is no tensor's."""


class Version:
    """The state of a piece of memory between two writes. A write makes it stale, and hands out a new one."""

    __slots__ = ("stale",)

    def __init__(self) -> None:
        self.stale = False


class Parts(tuple[Any, ...]):
    """The results of one operation, or their cotangents, as the sweep carries them: like one array with a shape."""

    shape: tuple[Any, ...]

    def __new__(cls, parts: Iterable[Any], shape: tuple[Any, ...] | None = None) -> Parts:
        """From handles or tensors; cotangents, some of them ``None``, are given the `shape` of what they belong to."""
        made = super().__new__(cls, parts)
        made.shape = tuple(tuple(part.shape) for part in made) if shape is None else shape
        return made

    def plus(self, other: Parts, add: Callable[[Any, Any], Any]) -> Parts:
        """The sum, part by part."""
        pairs = zip(self, other, strict=True)
        return Parts((y if x is None else x if y is None else add(x, y) for x, y in pairs), self.shape)


FREED = (
    "this graph was already swept, and freed; to call backward() on it more than once, "
    "pass retain_graph=True to all calls but the last"
)


def count_consumers(root: Record, ends: Container[int] = ()) -> dict[int, int]:
    """How many records that lead to `root` use the result of each, by identity. Nobody looks beyond `ends`.

    Raises
    ------
    GraphError
        When one was consumed by an earlier sweep, or an operand was written to since.
    """
    if not root:
        raise GraphError(FREED)
    consumers = {id(root): 0}
    stack = [root]
    while stack:
        record = stack.pop()
        for parent in record[4::2]:
            kind = parent.__class__
            if kind is list:
                key = id(parent)
                if key in consumers:
                    consumers[key] += 1
                elif parent:
                    consumers[key] = 1
                    if key not in ends:
                        stack.append(parent)
                else:
                    raise GraphError(FREED)
            elif kind is Version and parent.stale:
                raise GraphError(
                    f"an operand of {record[0].name} (result of shape {tuple(record[3].shape)} on {record[1].device}) "
                    "was written in place after it was used, so its gradient can no longer be computed; "
                    "write to a .copy(), or write after backward()"
                )
    return consumers


def in_order(root: Record, consumers: dict[int, int], ends: Container[int] = ()) -> list[Record]:
    """The records that lead to `root`, each before those that made its operands; not beyond `ends`."""
    waiting = dict(consumers)
    order, ready = [], [root]
    while ready:
        record = ready.pop()
        order.append(record)
        if id(record) in ends:
            continue
        for parent in record[4::2]:
            if parent.__class__ is list:
                left = waiting[id(parent)] = waiting.get(id(parent), 1) - 1
                if not left:
                    ready.append(parent)
    return order


def leading_to(targets: set[int], order: list[Record]) -> set[int]:
    """Identities of the nodes from which a gradient can reach a target."""
    needed = set(targets)
    for record in reversed(order):
        if any(id(parent) in needed for parent in record[4::2]):
            needed.add(id(record))
    return needed
