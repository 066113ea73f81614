"""The values of a program that is being planned. Views of them are not computed: this says where their elements lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.layout import Layout
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import CALL

DRAWN: Final = "random_uniform_from"
"""The primitive whose elements are told apart by where they are."""


def is_view(op: str) -> bool:
    """Whether an operation computes nothing: in a nest it is where a load reads. Other views are composed of these."""
    return TABLE[op].view and TABLE[op].compose is None


def role(op: str, operands: Sequence[Any], covers: Callable[[str, tuple[Any, ...]], bool]) -> str:
    """What an operation is in nests: its `Op.kind`, ``"view"``, or a call where they have no line for it.

    Parameters
    ----------
    covers : function
        Whether a device has one, ``(name, operands)``.
    """
    if any(x.dtype.is_complex for x in operands if hasattr(x, "dtype")):
        return CALL
    kind = "view" if is_view(op) else "elementwise" if op == DRAWN else TABLE[op].kind
    lines = kind in ("elementwise", "reduction") and covers(op, tuple(operands))
    return kind if lines or kind in ("view", "source") else CALL


class Node:
    """A value: what makes it, and where."""

    __slots__ = ("dtype", "number", "op", "operands", "owner", "params", "role", "shape")

    def __init__(
        self, op: str, operands: tuple[Any, ...], params: dict[str, Any], spec: TensorSpec, number: int, role: str
    ) -> None:
        self.op, self.operands, self.params, self.number = op, operands, params, number
        self.shape, self.dtype = spec
        self.owner = -1  # the position of the nest or call that makes it; inputs and sources are there before all
        self.role = role  # see `role`; "input" of an input

    @property
    def is_view(self) -> bool:
        """Whether loads look through it, to where its base lies."""
        return self.role == "view"


def viewed(layout: Layout, node: Node) -> Layout | None:
    """Where the elements of a view lie, if strides can say it."""
    if node.op == "reshape":
        return layout.reshape(node.shape)
    if node.op == "permute_dims":
        return layout.permute(node.params["axes"])
    return layout.index(node.params["key"]) if node.op == "getitem" else layout.broadcast_to(node.shape)


def through(node: Node) -> tuple[Node, list[Node]]:
    """What a view looks at in the end, and the views in between, the innermost first."""
    views: list[Node] = []
    while node.is_view:
        views.append(node)
        node = node.operands[0]
    return node, views[::-1]


def bases(node: Node) -> list[Node]:
    """What the operands of a node are views of, or are themselves."""
    return [through(x)[0] for x in node.operands if isinstance(x, Node)]


def composed(layout: Layout, views: Sequence[Node]) -> Layout | None:
    """Where elements lie after all these views."""
    found: Layout | None = layout
    for view in views:
        if found is None:
            return None
        found = viewed(found, view)
    return found


def same(x: Layout, y: Layout) -> bool:
    """Whether two layouts are of the same elements; how far it is along an axis of length 1 does not matter."""
    if x.shape != y.shape or x.offset != y.offset:
        return False
    triples = zip(x.shape, x.strides, y.strides, strict=True)
    return 0 in x.shape or all(length == 1 or one == other for length, one, other in triples)
