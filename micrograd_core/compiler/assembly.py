"""From the values that a nest computes to its parts and lines.

Values have levels: what depends on a reduction comes after the loop that reduces, so in the next level. In each level
what there is once a row comes first, then one inner loop. What a later level needs of an earlier one's elements is read
back where it was stored; else it is computed again where that is cheap, or kept in scratch memory of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core.compiler import nests
from micrograd_core.compiler.lengths import longest
from micrograd_core.compiler.program import Ref
from micrograd_core.compiler.views import DRAWN, Node, bases, composed, through
from micrograd_core.dtypes import DType, bool_
from micrograd_core.layout import Layout
from micrograd_core.ops import TABLE


class Assembly:
    """The nest of a group of steps; `wanted` values are stored, and `layout` knows where a value lies.

    A row may have `room` bytes of scratch memory.
    """

    def __init__(self, group: Any, wanted: Callable[[Node], bool], layout: Callable[[Node], Layout], room: int) -> None:
        self.group, self.layout, self.room = group, layout, room
        reduced = group.reduced or ()
        self.axes = [*(i for i in range(len(group.shape)) if i not in reduced), *reduced]
        self.reduced = reduced
        self.stored = [node for node in group.nodes if wanted(node)]
        self.here = {id(node): node for node in group.nodes}
        self.levels: dict[int, int] = {}
        self.types: list[DType] = []
        self.buffers: list[nests.Buffer] = []
        self.inputs: dict[int, int] = {}  # buffer by the number of the value
        self.kept: dict[int, int] = {}  # buffer by the identity of the value that is stored or spilled
        self.once: dict[Any, Ref] = {}  # what is there for the whole row
        self.dear: set[int] = set()  # what takes long to compute again
        self.compared: set[int] = set()  # with a row's: must be the same number again, which not all compilers promise
        for node in group.nodes:
            self.levels[id(node)] = self.level(node)
            if TABLE[node.op].cost > 1 or any(id(x) in self.dear for x in self.elements_of(node)):
                self.dear.add(id(node))
            if node.dtype is bool_ and any(map(self.is_row, self.sources(node))):
                self.compared |= {id(x) for x in self.elements_of(node)}

    # ── levels ───────────────────────────────────────────────────────────────────────────────────────────────

    def level(self, node: Any) -> int:
        """The level of a value, from those of what it is made of."""
        found = max([self.levels.get(id(x), 0) for x in self.sources(node)], default=0)
        return found + 1 if self.reduces(node) else found

    def sources(self, node: Any) -> list[Any]:
        """The values of this nest that a value is made of."""
        return [x for x in bases(node) if id(x) in self.here]

    def is_row(self, node: Any) -> bool:
        """Whether there is one in each row."""
        return id(node) in self.group.rows

    def reduces(self, node: Any) -> bool:
        """Whether it is a reduction, in this nest."""
        return self.is_row(node) and node.role == "reduction"

    def spilled(self) -> dict[int, list[Any]]:
        """By level, the elements that are kept in scratch memory once they are computed there."""
        size = longest(math.prod(self.group.shape[axis] for axis in self.reduced))
        room = self.room
        first: dict[int, int] = {}
        found: dict[int, list[Any]] = {}
        chosen = {id(node) for node in self.stored}
        for level in range(max(self.levels.values(), default=0) + 1):
            seen = set[int]()
            stack = self.elements(self.roots(level))
            while stack:
                node = stack.pop()
                if id(node) in seen:
                    continue
                seen.add(id(node))
                if first.setdefault(id(node), level) < level:
                    if id(node) in chosen:
                        continue
                    if id(node) in self.dear and 0 < size * node.dtype.itemsize <= room:
                        room -= size * node.dtype.itemsize
                        chosen.add(id(node))
                        found.setdefault(first[id(node)], []).append(node)
                        continue
                    if id(node) in self.compared and id(node) in self.dear:
                        self.stored.append(node)
                        chosen.add(id(node))
                        continue
                stack += self.elements_of(node)
        return found

    def elements(self, roots: list[Any]) -> list[Any]:
        """The elements that the inner loop for some values needs first."""
        return [x for node in roots for x in (self.elements_of(node) if self.reduces(node) else [node])]

    def elements_of(self, node: Any) -> list[Any]:
        """The elements that a value is made of."""
        return [x for x in self.sources(node) if not self.is_row(x)]

    def roots(self, level: int) -> list[Any]:
        """What the inner loop of a level is for."""
        reductions = [node for node in self.group.nodes if self.reduces(node) and self.levels[id(node)] == level + 1]
        elements = [node for node in self.stored if not self.is_row(node) and self.levels[id(node)] == level]
        return reductions + elements

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────────

    def nest(self) -> tuple[nests.Nest, tuple[int, ...], tuple[Any, ...]]:
        """The nest, the numbers of the values it reads, and the values it stores."""
        parts: list[nests.Part] = []
        spilled = self.spilled()
        for node in self.stored:
            self.kept[id(node)] = self.buffer("out", node.dtype, math.prod(node.shape))
        self.ready: set[int] = set()  # stored, in an earlier loop
        for level in range(max(self.levels.values(), default=0) + 1):
            lines: list[nests.Line] = []
            for node in self.group.nodes:
                if self.is_row(node) and self.levels[id(node)] == level:
                    found = self.once[id(node)] if self.reduces(node) else self.value(node, lines, self.once)
                    if id(node) in self.kept:
                        lines.append(nests.Store(self.kept[id(node)], self.place(node), found))
            if lines:
                parts.append(nests.Part(False, tuple(lines)))
            lines, local = [], dict[Any, Ref]()
            for node in self.in_order(self.elements([*self.roots(level), *spilled.get(level, ())])):
                self.value(node, lines, local)
            for node in self.roots(level):
                if self.reduces(node):
                    operand = self.operand(node.operands[0], node, lines, local)
                    result = self.once[id(node)] = self.number(node.dtype)
                    lines.append(nests.Reduce(result, node.op, operand))
                else:
                    lines.append(nests.Store(self.kept[id(node)], self.place(node), self.value(node, lines, local)))
            for node in spilled.get(level, ()):
                size = math.prod(self.group.shape[axis] for axis in self.reduced)
                self.kept[id(node)] = self.buffer("scratch", node.dtype, size)
                lines.append(nests.Store(self.kept[id(node)], self.place(node), self.value(node, lines, local)))
            self.ready |= {line.buffer for line in lines if isinstance(line, nests.Store)}
            if lines:
                parts.append(nests.Part(self.group.reduced is not None, tuple(lines)))
        kept = tuple(self.group.shape[axis] for axis in self.axes[: len(self.axes) - len(self.reduced)])
        reduced = tuple(self.group.shape[axis] for axis in self.reduced)
        order = sorted(range(len(self.buffers)), key=lambda i: ("in", "out", "scratch").index(self.buffers[i].role))
        there: dict[int | None, Any] = {None: None, **{old: new for new, old in enumerate(order)}}
        in_order = nests.moved(parts, lambda line: line._replace(buffer=there[line.buffer]))
        nest = nests.Nest(kept, reduced, tuple([self.buffers[i] for i in order]), in_order, tuple(self.types))
        return nests.merged(nest), tuple(self.inputs), tuple(self.stored)

    def in_order(self, wanted: list[Any]) -> list[Any]:
        """Elements and those that they are made of, as far as no earlier loop stored them, each after what it needs."""
        needed, stack = set[int](), list(wanted)
        while stack:
            node = stack.pop()
            if id(node) not in needed:
                needed.add(id(node))
                if self.kept.get(id(node)) not in self.ready:
                    stack += self.elements_of(node)
        return [node for node in self.group.nodes if id(node) in needed]

    def buffer(self, role: str, dtype: DType, size: int) -> int:
        """One more buffer."""
        self.buffers.append(nests.Buffer(role, dtype, size))
        return len(self.buffers) - 1

    def number(self, dtype: DType) -> Ref:
        """One more value."""
        self.types.append(dtype)
        return Ref(len(self.types) - 1)

    def value(self, node: Any, lines: list[nests.Line], local: dict[Any, Ref]) -> Ref:
        """An element of what the nest computes."""
        for scope in (local, self.once):
            if id(node) in scope:
                return scope[id(node)]
        buffer = self.kept.get(id(node))
        if buffer is not None and buffer in self.ready:
            result = self.number(node.dtype)
            lines.append(nests.Load(result, buffer, self.place(node)))
        elif node.op == DRAWN:
            result = self.number(node.dtype)
            place = self.spread(Layout.contiguous(node.shape))
            lines.append(nests.Draw(result, self.read(through(node.operands[0])[0]), place))
        else:
            operands = tuple([self.operand(x, node, lines, local) for x in node.operands])
            result = self.number(node.dtype)
            lines.append(nests.Compute(result, node.op, operands))
        local[id(node)] = result
        return result

    def operand(self, x: Any, node: Any, lines: list[nests.Line], local: dict[Any, Ref]) -> Ref | nests.Number:
        """An operand of a line: a number, a value of this nest, or a load."""
        if not isinstance(x, Node):
            separate = TABLE[node.op].separate
            arrays = [y for i, y in enumerate(node.operands) if isinstance(y, Node) and i not in separate]
            return nests.Number(x, arrays[0].dtype)
        base, views = through(x)
        if base.op == "full":
            return nests.Number(base.params["fill_value"], base.dtype)
        if id(base) in self.here:
            return self.value(base, lines, self.once if self.is_row(base) else local)
        shape = node.operands[0].shape if self.reduces(node) else node.shape
        layout: Any = composed(self.layout(base), views)
        place = self.spread(layout.broadcast_to(shape))
        key = base.number, place
        for scope in (local, self.once):
            if key in scope:
                return scope[key]
        source = None if base.op == "arange" else self.read(base)
        result = local[key] = self.number(base.dtype)
        lines.append(nests.Load(result, source, place))
        return result

    def read(self, base: Any) -> int:
        """The buffer of a value that is in memory before."""
        if base.number not in self.inputs:
            self.inputs[base.number] = self.buffer("in", base.dtype, math.prod(base.shape))
        return self.inputs[base.number]

    def place(self, node: Any) -> nests.Place:
        """Where a value that the nest stores lies, in memory of its own."""
        if self.buffers[self.kept[id(node)]].role == "scratch":  # whose place `merged` knows
            return nests.Place(0, (0,) * len(self.axes))
        return self.spread(Layout.contiguous(node.shape))

    def spread(self, layout: Layout) -> nests.Place:
        """A layout of elements or of rows as strides along the nest's axes."""
        strides: list[int] = list(layout.strides)
        if len(strides) < len(self.group.shape):  # rows without the reduced axes
            left = iter(strides)
            strides = [0 if axis in self.reduced else next(left) for axis in range(len(self.group.shape))]
        lengths = self.group.shape
        is_row = layout.shape != tuple(lengths)
        strides = [
            0 if lengths[axis] == 1 or (is_row and axis in self.reduced) else stride
            for axis, stride in enumerate(strides)
        ]
        return nests.Place(layout.offset, tuple(strides[axis] for axis in self.axes))
