"""The recorded graph: what a node is, and functions that read a node's fields.

A tensor's record is the graph node that made it, one flat list, which costs a third of what an object with slots does::

    [op, kernels, params, out, parent, operand, parent, operand, ...]

Only two other files know this: `engine.apply` writes such lists, and `engine.sweep` reads them at every step.

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
from collections.abc import Callable, Iterable
from typing import Any

Record = list[Any]
# Four facts, then links of two: from the fourth place on every second is a parent, and the one after it its operand.
OP, KERNELS, PARAMS, OUT, PARENTS, OPERANDS = 0, 1, 2, 3, slice(4, None, 2), slice(5, None, 2)


def new_record(
    op: Any, kernels: Any, params: dict[str, Any], out: Any, parents: Iterable[Any], operands: Iterable[Any]
) -> Record:
    """The record of an operation, off the hot path."""
    return [op, kernels, params, out, *(part for link in zip(parents, operands, strict=True) for part in link)]


def is_node(parent: Any) -> bool:
    """Whether this is the record of an operation, and neither a leaf nor a version."""
    return parent.__class__ is list


def made_by(record: Record) -> tuple[Any, Any, dict[str, Any], Any]:
    """Operation, kernels, parameters and result of a record that was not freed."""
    return record[OP], record[KERNELS], record[PARAMS], record[OUT]


def parents_of(record: Any) -> list[Any]:
    """What the operands were made by; of a leaf, and of what was freed, nothing."""
    return record[PARENTS] if record.__class__ is list else []


def ancestors(node: Any) -> list[Any]:
    """A node and all that it was computed from, leaves and versions included, each once; the freed lead nowhere."""
    found, seen = [node], {id(node)}
    for each in found:  # which grows meanwhile
        for parent in parents_of(each):
            if id(parent) not in seen:
                seen.add(id(parent))
                found.append(parent)
    return found


def links_of(record: Record) -> list[tuple[Any, Any]]:
    """Each operand of a record, behind what made it; of what was freed, nothing."""
    return list(zip(record[PARENTS], record[OPERANDS], strict=True))


def kernels_of(end: Any) -> Any:
    """The kernel table on which a record or a leaf was made."""
    return end.kernels if end.__class__ is Leaf else end[KERNELS]


def replace_op(record: Record, op: Any) -> None:
    """Let a record be one of another operation of the same operands."""
    record[OP] = op


def put_before(record: Record, op: Any, kernels: Any, params: dict[str, Any], out: Any) -> None:
    """Let a record be one of `op` of what it was, so that all who know it lead through `op`."""
    record[:] = new_record(op, kernels, params, out, [record[:]], [out])


class Leaf:
    """Where a gradient ends up: a tensor that records and was not computed.

    The tensor holds its leaf and its gradient, the leaf refers back weakly: a gradient that records (`create_graph`)
    leads to the leaf, and must not keep itself alive.
    """

    __slots__ = ("carry_on", "hooks", "kernels", "kind", "owner", "values")

    carry_on: Callable[[list[tuple[Leaf, Any]]], None]  # set on leaves that are no tensor's
    kind: type[Any]  # of the owner: hooks may outlive it

    def __init__(self, owner: Any) -> None:
        self.kernels, self.kind = owner._kernels, owner.__class__
        self.hooks: dict[object, Any] | None = None  # see `engine.hooks`
        self.owner: Callable[[], Any] = weakref.ref(owner)
        self.values: Any = None

    @classmethod
    def of_values(cls, kernels: Any, values: Any, carry_on: Callable[[list[tuple[Leaf, Any]]], None]) -> Leaf:
        """Where a gradient leaves the tensors: `carry_on` takes such leaves, with the cotangents found there."""
        leaf = object.__new__(cls)
        leaf.kernels, leaf.hooks, leaf.owner, leaf.values, leaf.carry_on = kernels, None, lambda: None, values, carry_on
        return leaf


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

    def plus(self, other: Any, add: Callable[[Any, Any], Any]) -> Parts:
        """The sum, part by part."""
        pairs = zip(self, other, strict=True)
        return Parts((y if x is None else x if y is None else add(x, y) for x, y in pairs), self.shape)


FREED = (
    "this graph was already swept, and freed; to call backward() on it more than once, "
    "pass retain_graph=True to all calls but the last"
)
