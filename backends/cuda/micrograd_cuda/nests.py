"""Programs under `jit`: kernel calls, and between them nests, which the core prints as CUDA C++.

Nests that are printed alike, as an optimiser's rule for each parameter, are one launch with a table of addresses.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from micrograd_core.adapters.compiled import Planned
from micrograd_core.compiler.executor import Function, counted, straight_line
from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.languages import CUDA
from micrograd_core.compiler.nests import Draw, Load, Nest, Place, Store, moved
from micrograd_core.compiler.packs import PackPrinter, threads, width
from micrograd_core.compiler.passes import PASSES, by_rows, optimized
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout
from micrograd_core.ops import TABLE
from micrograd_cuda.geometry import FILLED, ceil_div
from micrograd_cuda.kernels import OWN
from micrograd_cuda.operands import alignment, contiguous
from micrograd_cuda.units import BLOCK, FUNCTORS, source

PARAMETERS: Final = 3900
"""Bytes of a kernel's parameters that a table may take."""
LONG: Final = 2**14
"""Elements of a row that one block reduces, however few there are."""
MOST_BUFFERS: Final = 48
"""Of one nest: each takes a register or two."""
LANGUAGE: Final = CUDA._replace(
    functions={
        name: f"{functor}::of({'{0}' if FUNCTORS[functor] in ('UNARY', 'PREDICATE') else '{0}, {1}'})"
        for name, functor in OWN.items()
        if name in TABLE and name not in ("copy", "gelu", "gelu_gradient", "nextafter")
    },
    preamble=source("nests") + CUDA.preamble,
)
"""Functions of elements are those of the kernels for one operation."""
KERNEL: Final = """
struct Table {{ Long first[{count} + 1], size[{count}], at[{count}][{buffers}]; }};
extern "C" __global__ void __launch_bounds__({block}) {name}(const Table table) {{
int t = 0;
while (t + 1 < {count} && table.first[t + 1] <= static_cast<Long>(blockIdx.x)) ++t;
const {index} size = table.size[t], thread = (blockIdx.x - table.first[t]) * {block} + threadIdx.x;
{unit}
{pointers}
{text}
}}
"""
PACK: Final = """const {index} u = thread;
if (u * {width} >= size) return;
const int count = size - u * {width} < {width} ? size - u * {width} : {width};"""
ROW: Final = """const {index} u = thread / {threads} < size ? thread / {threads} : size - 1, lane = thread % {threads};
constexpr int count = {width};"""


def covers(name: str, operands: tuple[Any, ...]) -> bool:
    """Whether a line of a nest computes an operation."""
    if name == "relu_gradient" and len(getattr(operands[1], "shape", ())) == 2:
        return False  # whose own kernel adds up columns, for the bias
    return LANGUAGE.covers(name, operands)


def called(step: Step, operands: tuple[Any, ...]) -> bool:
    """Whether a reduction stays a call: of integers, of columns, and of rows too few and long for a block each."""
    if not TABLE[step.op].combine:
        return False
    (x,), axis = operands, step.params["axis"]
    axes = [*range(len(x.shape))] if axis is None else axis
    length = math.prod([x.shape[i] for i in axes])
    few = length > LONG and math.prod(x.shape) < FILLED * LONG // BLOCK
    return not x.dtype.is_floating or len(x.shape) - 1 not in axes or few


class Programs(Planned):
    """A program as a function of its input handles. `before` is told which output is made next; -1 says none."""

    def __init__(self, backend: Any, program: Program, before: Callable[[int], None]) -> None:
        passes = [each for each in PASSES if each is not by_rows]
        super().__init__(backend, optimized(program, covers, stays=backend.own, passes=passes))
        self.before, self.runtime = before, backend.runtime

    def layout(self, x: Any) -> Any:
        """Strides in bytes, of an array that is not contiguous."""
        return x.strides if x.__class__ is self.runtime.array and not x.flags.c_contiguous else None

    def contiguous(self, x: Any) -> Any:
        """An array itself, or a copy in order."""
        return contiguous(x, self.runtime)

    def plan(self, layouts: Sequence[Any]) -> Plan:
        """With the strides in elements."""
        types = self.program.types[: self.program.inputs]
        lie = [
            Layout.contiguous(x.shape)
            if each is None
            else Layout(x.shape, tuple([n // x.dtype.itemsize for n in each]))
            for x, each in zip(types, layouts, strict=True)
        ]
        return plan(self.program, lie, covers, MOST_BUFFERS, 0, called)

    def calls(self, run: Function, steps: Sequence[Call], found: Plan) -> None:
        """One after the other."""
        for step in steps:
            self.tell(run, found, step.results)
            super().calls(run, [step], found)

    def tell(self, run: Function, found: Plan, made: Sequence[int]) -> None:
        """Say what a call is about to make."""
        if len(made) == 1:
            run.scope["before"] = self.before
            run.step([f"before({_place(found, made[0])})"], ())

    def nests(self, run: Function, steps: Sequence[Run], found: Plan) -> None:
        """Those that are printed alike together, as many as a table holds, if none reads what another makes."""
        groups: list[Group] = []
        at: dict[int, int] = {}  # by the number of a value, the group that makes it
        for step in steps:
            text, first = Text(step.nest), 1 + max([at.get(n, -1) for n in step.inputs], default=-1)
            place = next((i for i in range(first, len(groups)) if groups[i].takes(text)), len(groups))
            if place == len(groups):
                groups.append(Group(self, text))
            groups[place].members.append(step)
            at |= dict.fromkeys(step.outputs, place)
        for group in groups:
            inputs, outputs = group.ready(found)
            run.call(group, [*map(Ref, inputs)], outputs, True)


def _place(found: Plan, number: int) -> int:
    """Which output a value is."""
    return next((j for j, x in enumerate(found.outputs) if isinstance(x, Ref) and x.number == number), -1)


class Text:
    """How a nest is printed; `key` is the same for those that are one kernel."""

    def __init__(self, nest: Nest) -> None:
        if not (nest.kept or nest.reduced):  # one element is a line, too
            parts = moved(nest.parts, lambda line: line._replace(place=line.place._replace(strides=(1,))))
            nest = nest._replace(kept=(1,), parts=parts)
        self.nest, self.width, self.threads = nest, width(nest), threads(nest, BLOCK)
        lines = [line for part in nest.parts for line in part.lines]
        reach = max([_reach(nest, line.place) for line in lines if isinstance(line, (Load, Draw, Store))])
        small = max(reach, math.prod(nest.kept) * self.threads) + BLOCK < 2**31
        self.language = LANGUAGE._replace(counter="int" if small else "Long")
        self.size = math.prod(nest.kept)
        self.key = self.body(True), self.language.counter, tuple([x.dtype.name for x in nest.buffers])

    def body(self, aligned: bool) -> str:
        """Of one unit."""
        return PackPrinter(self.nest, self.language, BLOCK, aligned).body()

    def source(self, count: int, aligned: bool) -> tuple[str, str]:
        """The name and the source of a kernel for so many nests."""
        language, index, nest = self.language, self.language.counter, self.nest
        types = [language.memory.get(x.dtype.name, language.types[x.dtype.name]) for x in nest.buffers]
        pointers = [
            f"{'const ' * (x.role == 'in')}{type}* const p{i} = "
            f"reinterpret_cast<{'const ' * (x.role == 'in')}{type}*>(table.at[t][{i}]);"
            for i, (x, type) in enumerate(zip(nest.buffers, types, strict=True))
        ]
        unit = (ROW if nest.reduced else PACK).format(index=index, width=self.width, threads=self.threads)
        facts = {"count": count, "buffers": len(nest.buffers), "unit": unit, "pointers": "\n".join(pointers)}
        text = KERNEL.format(**facts, name="{name}", block=BLOCK, index=index, text=self.body(aligned))
        name = f"micrograd_nest_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return name, LANGUAGE.preamble + text.replace("{name}", name)


def _reach(nest: Nest, place: Place) -> int:
    """How far from the start of a buffer elements lie, at most."""
    lengths = (*nest.kept, *nest.reduced)
    return abs(place.offset) + sum(abs(s) * n for s, n in zip(place.strides, lengths, strict=True))


class Group:
    """Nests that are printed alike, as one launch."""

    def __init__(self, owner: Programs, text: Text) -> None:
        self.text, self.runtime, self.before = text, owner.runtime, owner.before
        self.dtypes, self.members = owner.backend.dtypes, list[Run]()
        self._launches: dict[bool, Any] = {}

    def takes(self, text: Text) -> bool:
        """Whether one more nest is printed alike, and has room in the table."""
        size = (len(self.members) + 1) * (2 + len(text.nest.buffers)) + 1
        return text.key == self.text.key and size * 8 <= PARAMETERS

    def ready(self, found: Plan) -> tuple[list[int], list[int]]:
        """All members are there: the values that they read, and those that they make."""
        self.made = [
            (_place(found, n), type.shape, self.dtypes[type.dtype.name])
            for step in self.members
            for n, type in zip(step.outputs, step.types, strict=True)
        ]
        sizes = [math.prod(step.nest.kept) for step in self.members]
        each = self.text.width if not self.text.nest.reduced else 1
        first = [0]
        for size in sizes:
            first.append(first[-1] + ceil_div(ceil_div(size, each) * self.text.threads, BLOCK))
        self.blocks, self._head = first[-1], [*first, *sizes]
        self.inputs = len(self.members[0].inputs)
        return [n for step in self.members for n in step.inputs], [n for step in self.members for n in step.outputs]

    def __call__(self, *given: Any) -> list[Any]:
        """The outputs."""
        made, empty, address = list[Any](), self.runtime.empty, self.runtime.address
        for place, shape, dtype in self.made:
            self.before(place)
            made.append(empty(shape, dtype))
        if self.blocks:
            arrays = [x for x in given if x.shape]
            aligned = not arrays or alignment(self.runtime, *arrays) == 16
            places = list(map(address, given)), list(map(address, made))
            reads, writes = self.inputs, len(made) // len(self.members)
            numbers = [*self._head]
            for i in range(len(self.members)):
                numbers += places[0][i * reads : (i + 1) * reads] + places[1][i * writes : (i + 1) * writes]
            self._launch(aligned)((self.blocks, 1), (self.runtime.struct(numbers, "Long"),))
        return made

    def _launch(self, aligned: bool) -> Any:
        found = self._launches.get(aligned)
        if found is None:
            made = self.text.source(len(self.members), aligned)
            found = self._launches[aligned] = self.runtime.bind_source(*made, BLOCK)
        return found


def function(
    backend: Any, program: Program, before: Callable[[int], None] = lambda place: None
) -> Callable[..., tuple[Any, ...]]:
    """A program as a function of its input handles; `before` as of `Programs`."""
    if not program.types:
        return straight_line(program, backend.kernel, partial(compose, backend=backend), backend.dtypes)
    return counted(Programs(backend, program, before), program.inputs)
