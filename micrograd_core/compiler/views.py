"""The values of a program that is being planned. Views of them are not computed: this says where their elements lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from micrograd_core.compiler.passes import VIEWS
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.layout import Layout


class Node:
    """A value: what makes it, and where."""

    __slots__ = ("called", "dtype", "number", "op", "operands", "owner", "params", "shape")

    def __init__(
        self, op: str, operands: tuple[Any, ...], params: dict[str, Any], spec: TensorSpec, number: int
    ) -> None:
        self.op, self.operands, self.params, self.number = op, operands, params, number
        self.shape, self.dtype = spec
        self.owner = -1  # the position of the nest or call that makes it; inputs and sources are there before all
        self.called = False

    @property
    def is_view(self) -> bool:
        """Whether loads look through it, to where its base lies."""
        return self.op in VIEWS and not self.called


def viewed(layout: Layout, node: Node) -> Layout | None:
    """Where the elements of a view lie, if strides can say it."""
    if node.op in ("reshape", "expand_dims", "squeeze"):
        return layout.reshape(node.shape)
    if node.op == "permute_dims":
        return layout.permute(node.params["axes"])
    if node.op == "getitem":
        return layout.index(node.params["key"])
    if node.op == "flip":
        backwards, all_of_it = slice(None, None, -1), slice(None)
        return layout.index(tuple(backwards if i in node.params["axis"] else all_of_it for i in range(len(node.shape))))
    return layout.broadcast_to(node.shape)


def through(node: Node) -> tuple[Node, list[Node]]:
    """What a view looks at in the end, and the views in between, the innermost first."""
    views: list[Node] = []
    while node.is_view:
        views.append(node)
        node = node.operands[0]
    return node, views[::-1]


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
