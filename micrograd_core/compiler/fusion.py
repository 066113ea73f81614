"""From a program to kernel calls and loop nests.

Steps are taken in order. Each joins the earliest nest that may hold it, or starts one; what no nest computes is a call.
What is computed runs in the order of these nests and calls, and a step may join one only if that comes no earlier than
all that the step reads: so no store ever moves past a load. Views are not computed: a load goes through them.

A nest has a shape, and after its first reduction axes that are reduced. Its values are of that shape ("elements"), or
have a length of 1 along the reduced axes, or lack these ("rows").
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.assembly import Assembly
from micrograd_core.compiler.lengths import longest
from micrograd_core.compiler.nests import Nest, length, size
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.views import DRAWN, Node, bases, composed, role, same, through, viewed
from micrograd_core.layout import Layout, Shape, reduced_shape
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import CALL

REACH: Final = 16
"""How many nests are looked at for one that a step may join: of those that make or read what it reads, the last."""


class Limits(NamedTuple):
    """What a nest of a device may hold; as it stands, for a processor."""

    buffers: int = 1 << 30
    """Inputs and outputs; steps that need more become several nests."""
    row_bytes: int = 1 << 15
    """Scratch memory of a row: what the nearest cache holds beside the rest. What finds no room is computed again."""
    steps: int = 256
    """The length of its steps, see `nests.length`: compilers take more than linear time for long lines."""
    again: int = 4
    """Steps at most to a value that each nest computes again in place of a load, as `Fusion.steps_again` says."""

    @property
    def lines(self) -> int:
        """The size of a nest, see `nests.size`: each loop over a row may compute again what an earlier one has."""
        return 2 * self.steps


PROCESSOR: Final = Limits()


class Call(NamedTuple):
    """A kernel call; values have numbers, and results types."""

    op: str
    operands: tuple[Any, ...]
    params: dict[str, Any]
    results: tuple[int, ...]
    types: tuple[TensorSpec, ...]


class Run(NamedTuple):
    """A nest, and the values that its buffers are; types of the outputs, which are contiguous."""

    nest: Nest
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[TensorSpec, ...]


class Plan(NamedTuple):
    """What to run in order. Inputs are values 0, 1, …; those of `contiguous` must be, once they are there."""

    steps: tuple[Call | Run, ...]
    outputs: tuple[Any, ...]
    contiguous: frozenset[int]

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            if isinstance(step, Call):
                made = ", ".join(f"%{n}" for n in step.results)
                lines.append(f"{made} = {step.op}({', '.join(map(str, step.operands))})")
            else:
                made, read = (", ".join(f"%{n}" for n in each) for each in (step.outputs, step.inputs))
                lines.append(f"{made} = {step.nest}\n  of {read}")
        return "\n".join([*lines, f"return {', '.join(map(str, self.outputs))}"])


class Group:
    """A nest that is being made."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.reduced: tuple[int, ...] | None = None
        self.nodes: list[Node] = []
        self.rows: set[int] = set()  # the identities of values that have one element a row
        self.length = 0  # of all steps, as `Limits.steps` has it

    def halves(self) -> tuple[Group, Group]:
        """The first steps, up to half of the length, and the others."""
        lengths = [*accumulate(length(node.op) for node in self.nodes)]
        middle = max(1, bisect(lengths, lengths[-1] // 2))
        found = Group(self.shape), Group(self.shape)
        for half, nodes in zip(found, (self.nodes[:middle], self.nodes[middle:]), strict=True):
            half.nodes, half.rows = nodes, {id(node) for node in nodes} & self.rows
            half.reduced = self.reduced if half.rows else None
        return found

    def row_shapes(self) -> tuple[Shape, Shape]:
        """The shape of a row's values with the reduced axes as length 1, and without them."""
        return reduced_shape(self.shape, self.reduced, True), reduced_shape(self.shape, self.reduced, False)


class Fusion:
    """The work of `plan`."""

    def __init__(
        self, program: Program, layouts: Sequence[Layout], covers: Callable[..., bool], limits: Limits,
        called: Callable[[Step, tuple[Any, ...]], bool],
    ) -> None:  # fmt: skip
        self.limits = limits
        self.layouts = dict(enumerate(layouts))  # of values that need not be contiguous
        self.covers, self.values = covers, list[Node]()
        self.items: list[Group | Call] = []
        self.stored: set[int] = set()  # the numbers of values that must be in memory
        self.emitted: set[int] = set()  # of views and sources for which there is a call
        self.copied: set[int] = set()  # views that no strides can say
        self.again: dict[int, int] = {}  # steps to values that each nest computes again; none is made for them
        self.users: dict[int, dict[int, None]] = {}  # by a value's number, the positions that make or read it
        self.next = len(program.types)
        for n, type in enumerate(program.types[: program.inputs]):
            self.values.append(Node("input", (), {}, type, n, "input"))
        steps = list[list[Node]]()
        for step, made in program.numbered():
            operands = tuple([self.values[x.number] if isinstance(x, Ref) else x for x in step.operands])
            whole = len(made) > 1 or any(program.types[n].dtype.is_complex for n in made) or called(step, operands)
            kind = CALL if whole else role(step.op, operands, covers)
            steps.append([Node(step.op, operands, step.params, program.types[n], n, kind) for n in made])
            self.values += steps[-1]
        self.repeated = _repeated([nodes[0] for nodes in steps])
        for nodes in steps:
            self.place(nodes)
        self.outputs = [self.values[x.number] if isinstance(x, Ref) else x for x in program.outputs]
        for x in self.outputs:
            if isinstance(x, Node):
                self.in_memory(x)

    def layout(self, node: Node) -> Layout:
        """Where a value lies that is in memory."""
        return self.layouts.get(node.number) or Layout.contiguous(node.shape)

    def plan(self) -> Plan:
        """What was decided, with each nest assembled."""
        for position, group in enumerate(self.items):
            for node in group.nodes if isinstance(group, Group) else ():
                self.stored.update(base.number for base in bases(node) if base.owner not in (position, -1))
        steps: list[Call | Run] = []
        for item in self.items:
            if isinstance(item, Call):
                steps.append(item)
            elif item.nodes:
                steps += self.runs(item)
        contiguous = self.copied.union(*[step.inputs for step in steps if isinstance(step, Run)])
        called = {n for step in steps if isinstance(step, Call) for n in step.results}
        outputs = tuple([Ref(x.number) if isinstance(x, Node) else x for x in self.outputs])
        return Plan(tuple(steps), outputs, frozenset(contiguous & called))

    def runs(self, group: Group) -> list[Run]:
        """The nest that is made of steps, or two or more where one would be too large."""
        wanted = lambda node: node.number in self.stored  # noqa: E731
        nest, inputs, outputs = Assembly(group, wanted, self.layout, self.limits.row_bytes).nest()
        fits = size(nest) <= self.limits.lines and len(inputs) + len(outputs) <= self.limits.buffers
        if fits or len(group.nodes) == 1:
            types = tuple([TensorSpec(x.shape, x.dtype) for x in outputs])
            return [Run(nest, inputs, tuple([x.number for x in outputs]), types)]
        first, second = group.halves()
        read = {id(base) for node in second.nodes for base in bases(node)}
        self.stored.update(node.number for node in first.nodes if id(node) in read)
        return [*self.runs(first), *self.runs(second)]

    # ── where a step goes ────────────────────────────────────────────────────────────────────────────────────

    def place(self, nodes: list[Node]) -> None:
        """A step becomes part of a nest, or a call; views and sources stay what they are until somebody needs them."""
        node = nodes[0]
        if node.role in ("view", "source"):
            return
        if node.role == CALL:
            self.call(nodes)
        elif (steps := self.steps_again(node)) <= self.limits.again:
            self.again[node.number] = steps
        else:
            self.fuse(node)

    def steps_again(self, node: Node) -> int:
        """How many steps compute a value that is cheaper to compute again than to load; else more than `Limits.again`.

        Either counters alone decide it, or it is made of inputs and is the same along the last axis of whatever reads
        it: compilers take it out of the innermost loop.
        """
        if not _cheap(node):
            return self.limits.again + 1
        known = ("source", "input") if node.number in self.repeated else ("source",)
        return 1 + sum(0 if x.role in known else self.again.get(x.number, self.limits.again) for x in bases(node))

    def recomputed(self, x: Any, shape: Shape) -> Any:
        """An operand for a step of a shape; what is computed again is a step of its own, of views of its operands."""
        base, views = through(x) if isinstance(x, Node) else (None, [])
        if base is None or base.number not in self.again:
            return x
        shapes = [(view.op, view.params, view.shape) for view in views]
        shapes = [("broadcast_to", {}, base.shape), *shapes, ("broadcast_to", {}, shape)]
        operands = list[Any]()
        for y in base.operands:
            if isinstance(y, Node):
                for op, params, each in shapes:
                    y = self.new(op, (y,), params, TensorSpec(each, y.dtype))
                y = self.recomputed(y, shape)
                source, through_views = through(y)
                if source.owner == -1 and not self.is_loose(y) and composed(self.layout(source), through_views) is None:
                    self.in_memory(base)
                    return x
            operands.append(y)
        return self.new(base.op, tuple(operands), base.params, TensorSpec(shape, base.dtype))

    def new(self, op: str, operands: tuple[Any, ...], params: dict[str, Any], type: TensorSpec) -> Node:
        """A value that the program does not have."""
        self.next += 1
        return Node(op, operands, params, type, self.next - 1, role(op, (), lambda name, operands: True))

    def call(self, nodes: Sequence[Node]) -> None:
        """A kernel call, after all there is."""
        node = nodes[0]
        for x in node.operands:
            if isinstance(x, Node):
                self.in_memory(x)
        operands = tuple([Ref(x.number) if isinstance(x, Node) else x for x in node.operands])
        for each in nodes:
            self.emitted.add(each.number)
            if each.role not in ("view", "source"):
                each.owner = len(self.items)
        types = tuple([TensorSpec(each.shape, each.dtype) for each in nodes])
        self.items.append(Call(node.op, operands, node.params, tuple([each.number for each in nodes]), types))

    def in_memory(self, node: Node) -> None:
        """Whoever makes a value stores it; a view or a source becomes a call."""
        if self.again.pop(node.number, None):
            self.fuse(node)
        if node.op != "input" and node.number not in self.emitted:
            if node.role in ("view", "source"):
                base, views = through(node)
                if composed(self.layout(base), views) is None:
                    self.copied.add(node.number)
                self.call([node])
            else:
                self.stored.add(node.number)

    def fuse(self, node: Node) -> None:
        """Join the earliest nest that may hold it, or start one."""
        if node.role == "reduction" and not _axes(node):
            node.op, node.params, node.role = "copy", {}, "elementwise"
        shape = node.operands[0].shape if node.role == "reduction" else node.shape
        node.operands = tuple([self.recomputed(x, shape) for x in node.operands])
        for x in node.operands:
            if isinstance(x, Node):
                self.readable(x)
        ready = max([base.owner for base in bases(node)], default=-1)
        for position in self.related(node, max(ready, 0)):
            group = self.items[position]
            if not isinstance(group, Group) or not group.nodes or group.length + length(node.op) > self.limits.steps:
                continue
            if self.joins(group, position, node):
                self.gather(position, node)
                return
        group = Group(shape)
        self.items.append(group)
        if not self.joins(group, len(self.items) - 1, node):
            raise AssertionError(f"{node.op} of shape {node.shape} fits no nest")

    def gather(self, position: int, node: Node) -> None:
        """Nests before that of a step, which it reads, become part of it where they may wait for it."""
        if node.owner != position:  # a reduction that was split
            return
        group: Any = self.items[position]
        row = id(node) in group.rows and node.role != "reduction"
        shape = node.operands[0].shape if node.role == "reduction" else node.shape
        for x in node.operands:
            earlier = through(x)[0].owner if isinstance(x, Node) else position
            other = self.items[earlier] if 0 <= earlier < position else None
            if (
                isinstance(other, Group)
                and other.shape == group.shape
                and (other.reduced == group.reduced or None in (other.reduced, group.reduced))
                and other.length + group.length <= self.limits.steps
                and self.fits(other, earlier, x, shape, row)
                and not any(self.reads(i, earlier, node) for i in range(earlier + 1, position + 1))
            ):
                for each in other.nodes:
                    self.belongs(each, position)
                group.nodes[:0] = other.nodes
                group.rows |= other.rows
                group.length += other.length
                group.reduced = other.reduced if group.reduced is None else group.reduced
                other.nodes = []

    def reads(self, position: int, earlier: int, but: Node) -> bool:
        """Whether a nest, one step of it aside, or a call reads what an earlier nest makes."""
        item, other = self.items[position], self.items[earlier]
        if isinstance(item, Group):
            return any(base.owner == earlier for node in item.nodes if node is not but for base in bases(node))
        assert isinstance(other, Group)
        made = {node.number for node in other.nodes}
        return any(isinstance(x, Ref) and x.number in made for x in item.operands)

    def readable(self, node: Node) -> None:
        """A view that no strides can say is made in memory, by a call."""
        base, views = through(node)
        layout = self.layout(base)
        for view in views:
            moved = viewed(layout, view)
            if moved is None:
                view.role = CALL
                if view.number not in self.emitted:
                    self.call([view])
                else:  # for somebody else, and so after the last nest that may be joined
                    view.owner = len(self.items) - 1
                moved = Layout.contiguous(view.shape)
            layout = moved

    def related(self, node: Node, ready: int) -> list[int]:
        """Nests from which a step gains: they make or read what it reads, or it reads less than it makes, as masks do.

        Random numbers start a nest of their own, which becomes part of that of what they are used with.
        """
        if node.op == DRAWN:
            return []
        read = [through(x)[0] for x in node.operands if isinstance(x, Node) and not self.is_loose(x)]
        size = longest(math.prod(node.shape))
        if all(longest(math.prod(base.shape)) < size for base in read):
            return list(range(max(ready, len(self.items) - REACH), len(self.items)))
        users = [self.users[base.number] for base in read if base.number in self.users and base.op != "full"]
        near = {position for each in users for position in islice(reversed(each), REACH) if position >= ready}
        return sorted(near)

    def joins(self, group: Group, position: int, node: Node) -> bool:
        """Make a step part of a nest, if that can hold it."""
        if node.role == "reduction":
            return self.reduction_joins(group, position, node)
        if node.shape == group.shape and all(self.fits(group, position, x, group.shape) for x in node.operands):
            return self.join(group, position, node, False)
        if group.reduced is None or node.shape not in group.row_shapes():
            return False
        fit = all(self.fits(group, position, x, node.shape, row=True) for x in node.operands)
        return fit and self.join(group, position, node, True)

    def join(self, group: Group, position: int, node: Node, row: bool) -> bool:
        """Make a step part of a nest, and before it what is computed for it alone."""
        for x in node.operands:
            if self.is_loose(x):
                self.join(group, position, x, row and node.role != "reduction")
        group.nodes.append(node)
        group.length += length(node.op)
        self.belongs(node, position)
        if row:
            group.rows.add(id(node))
        return True

    def is_loose(self, x: Any) -> bool:
        """Whether an operand is a step that is in no nest yet."""
        return isinstance(x, Node) and x.role == "elementwise" and x.owner == -1

    def belongs(self, node: Node, position: int) -> None:
        """A step is part of the nest at a position, which others may join who read the same."""
        node.owner = position
        for x in (node, *node.operands):
            if isinstance(x, Node):
                self.users.setdefault(through(x)[0].number, {})[position] = None

    def reduction_joins(self, group: Group, position: int, node: Node) -> bool:
        """Whether a reduction joins a group; the first one decides over which axes the nest reduces."""
        (x,) = node.operands
        axes = _axes(node)
        if x.shape != group.shape or not self.fits(group, position, x, group.shape):
            return False
        base, _ = through(x)
        if base.owner == position and id(base) in group.rows:
            return False  # a row's value, repeated
        if group.reduced is None or group.reduced == axes:
            group.reduced = axes
            return self.join(group, position, node, True)
        if not set(group.reduced) < set(axes):
            return False
        # Over the reduced axes here, over the others in another nest.
        kept = group.row_shapes()[0]
        found = [
            each for each in group.nodes if each.op == node.op and each.operands == (x,) and id(each) in group.rows
        ]
        if not found:
            found = [self.new(node.op, (x,), {"axis": group.reduced, "keepdims": True}, TensorSpec(kept, x.dtype))]
            self.join(group, position, found[0], True)
        row = found[0]
        if row.shape != kept:
            row = self.new("reshape", (row,), {"shape": kept}, TensorSpec(kept, x.dtype))
        node.operands = (row,)
        self.fuse(node)
        return True

    def fits(self, group: Group, position: int, x: Any, shape: Shape, row: bool = False) -> bool:
        """Whether an operand, as part of elements of a shape, is at hand in each turn of the loops, or once a row."""
        if not isinstance(x, Node):
            return True
        base, views = through(x)
        if base.owner != position:  # in memory before the nest begins
            return True
        found = composed(Layout.contiguous(base.shape), views)
        if found is None or (row and (id(base) not in group.rows or x.shape != shape)):
            return False
        if row or id(base) not in group.rows:
            return same(found, Layout.contiguous(shape if row else group.shape))
        return same(found.broadcast_to(shape), Layout.contiguous(group.row_shapes()[0]).broadcast_to(group.shape))


def _cheap(node: Node) -> bool:
    """Whether a step may be computed again: a division only once for all turns of a loop."""
    once = node.op == "divide" and not math.prod(node.shape) > 1  # of lengths that are not known, too
    return node.role == "elementwise" and (once or TABLE[node.op].cost == 1)


def _repeated(steps: Sequence[Node]) -> set[int]:
    """The numbers of values that are the same along the last axis of whatever reads them in a loop."""
    found, other = set[int](), set[int]()
    for node in reversed(steps):
        operands = [x for x in node.operands if isinstance(x, Node)]
        if node.role in ("elementwise", "reduction") and node.op != DRAWN:
            shape = operands[0].shape if node.role == "reduction" else node.shape
            itself = node.number in found and node.number not in other and _cheap(node)
            for x in operands:
                base, views = through(x)
                layout = composed(Layout.contiguous(base.shape), views)
                along = layout is not None and shape[-1:] > (1,) and layout.broadcast_to(shape).strides[-1] == 0
                (found if along or itself else other).add(base.number)
        elif not node.is_view:
            other.update([base.number for base in bases(node)])
    return found - other


def _axes(node: Node) -> Shape:
    """The axes that a reduction goes over, in order."""
    axis = node.params["axis"]
    return tuple(range(len(node.operands[0].shape))) if axis is None else tuple(sorted(axis))


def plan(
    program: Program,
    layouts: Sequence[Layout],
    covers: Callable[[str, tuple[Any, ...]], bool],
    limits: Limits = PROCESSOR,
    called: Callable[[Step, tuple[Any, ...]], bool] = lambda step, operands: False,
) -> Plan:
    """The kernel calls and nests of a typed program.

    Parameters
    ----------
    layouts : sequence of Layout
        How the inputs lie in memory, each from its own first element: their offsets are 0.
    covers : function
        Whether a device computes a primitive, ``(name, operands)``, in a nest.
    limits : Limits, optional
        What a nest may hold.
    called : function, optional
        Whether a step is a kernel call although nests compute it, ``(step, operands)``.
    """
    return Fusion(program, layouts, covers, limits, called).plan()
