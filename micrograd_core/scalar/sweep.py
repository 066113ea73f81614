"""The reverse sweep over a graph of scalars, and the node that is not one scalar operation.

A node is a `Value` or a `Block`. The sweep asks it for its operands `_a` and `_b` and the local derivatives `_da` and
`_db`, adds up `_grad`, and counts in `_uses`. Both passes are the hot path: written out, and iterative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from micrograd_core.errors import GraphError
from micrograd_core.support.locks import lock

Pull = Callable[[list[Any]], Iterable[Any]]
"""Gives the gradients of inputs from those of results."""
BLOCK = "block"
"""What a block has in the place of its first operand."""


class Block:
    """A node that is not one scalar operation: several values in, several out.

    Results are nodes with the block as their `_a` and their position as `_da`. A sweep adds up their gradients, then
    asks `pull` for those of the inputs, once: numbers as the respective device has them.
    """

    __slots__ = ("_a", "_b", "_grad", "_uses", "gradients", "inputs", "label", "pull", "width")

    def __init__(self, label: str, inputs: Sequence[Any], width: int, pull: Pull | None = None) -> None:
        self._a, self._b, self._uses = BLOCK, None, 0
        self.label, self.inputs, self.width = label, inputs, width
        """`inputs` has None for constants."""
        self.gradients: list[Any] = []
        if pull is not None:  # else it is a method
            self.pull = pull

    def prepare(self) -> Sequence[Any]:
        """A sweep will come here: what would fail is to fail now, while no leaf has got anything.

        Returns
        -------
        sequence
            The inputs that the sweep is to come to after this block, apart from those it heard of here before.
        """
        self.gradients = [0.0] * self.width
        return self.inputs

    def carry(self) -> Iterable[tuple[Any, Any]]:
        """Inputs, and what is to be added to their gradients: all those that `prepare` returned."""
        gradients, self.gradients = self.gradients, []
        return zip(self.inputs, self.pull(gradients), strict=True)

    def opened(self) -> Sequence[Any] | None:
        """For who looks inside: a node for each result, with the operands that it has then; ``None``: it stays shut."""
        return None


underway: list[tuple[Any, list[Any]]] = []
"""For each sweep that has not returned, its root and the nodes it is about to visit: a hook of a tensor may start
another inside."""


def _never_finished() -> None:
    """In a forked child: make the graphs that another thread was sweeping ready for sweeps here."""
    for root, _ in underway:
        _forget(root)
    del underway[:]


sweeping = lock(_never_finished)  # two threads may sweep graphs that share nodes


def sweep(root: Any) -> None:
    """Carry the gradient of `root`, which is 1, back to the leaves. Every node is visited once, after all its uses.

    The first pass counts for each node how often it is used, and clears the gradients in between; the second pass
    takes a node when the last of its uses is done. Nothing recurses.
    """
    # One line: an interrupt that came between the sweep and the release would keep the lock.
    with sweeping: _sweep(root)  # fmt: skip  # noqa: E701


def _sweep(root: Any) -> None:
    if underway:
        refuse_underway("called backward() on", reachable(root))
    outside, stack = len(underway), [root]
    try:
        underway.append((root, stack))
        _count(root)
        root._grad = 1.0  # not before: another sweep may just have been there
        _carry(stack)
        del underway[outside:]  # in here, so that an interrupt before it is caught
    except BaseException:
        try:
            _forget(root)
        finally:
            del underway[outside:]
            stack.clear()
        raise


def refuse_underway(what: str, nodes: Iterable[Any]) -> None:
    """Refuse what would disturb a sweep around this call."""
    waiting = {id(node) for _, stack in underway for node in stack}
    if any(node._uses or id(node) in waiting for node in nodes):
        raise GraphError(
            f"a hook {what} Values that a backward() which has not returned is on its way to; use other Values inside "
            "the hook, or these after that backward()"
        )


def _count(root: Any) -> None:
    stack = [root]
    push, pop = stack.append, stack.pop
    while stack:
        node = pop()
        b = node._b
        if b is not None and b._a is not None:
            uses = b._uses
            b._uses = uses + 1
            if not uses:
                b._grad = 0.0
                push(b)
        a = node._a
        if a is BLOCK:
            for x in node.prepare():
                if x is not None and x._a is not None:
                    uses = x._uses
                    x._uses = uses + 1
                    if not uses:
                        x._grad = 0.0
                        push(x)
        elif a._a is not None:
            uses = a._uses
            a._uses = uses + 1
            if not uses:
                a._grad = 0.0
                push(a)


def _carry(stack: list[Any]) -> None:
    push, pop = stack.append, stack.pop
    while stack:
        node = pop()
        g = node._grad
        a = node._a
        b = node._b
        if b is not None:
            b._grad = b._grad + g * node._db
            if b._a is not None:
                uses = b._uses = b._uses - 1
                if not uses:
                    push(b)
            a._grad = a._grad + g * node._da
        elif a is BLOCK:
            for x, d in node.carry():
                if x is not None:
                    x._grad = x._grad + d
                    if x._a is not None:
                        uses = x._uses = x._uses - 1
                        if not uses:
                            push(x)
            continue
        elif a._a is BLOCK:
            i = node._da
            a.gradients[i] = a.gradients[i] + g
        else:
            a._grad = a._grad + g * node._da
        if a._a is not None:
            uses = a._uses = a._uses - 1
            if not uses:
                push(a)


def _forget(root: Any) -> None:
    """Set all counts back after a sweep was interrupted, however often this is interrupted too."""
    try:
        for each in reachable(root):
            each._uses = 0
    except BaseException:
        _forget(root)
        raise


def reachable(*roots: Any) -> Iterator[Any]:
    """All nodes that the roots were computed from, roots and blocks included, each once."""
    seen = {id(root) for root in roots}
    stack = list(roots)
    while stack:
        node = stack.pop()
        yield node
        for each in node.inputs if node._a is BLOCK else (node._a, node._b):
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                stack.append(each)
