"""Programs under `jit`: kernel calls, and between them nests, which the core prints as CUDA C++.

Nests that are printed alike, as an optimiser's rule for each parameter, are one launch with a table of addresses.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final

from micrograd_core.adapters.compiled import Planned
from micrograd_core.compiler.executor import Function, counted, straight_line
from micrograd_core.compiler.fusion import Call, Limits, Plan, Run, plan
from micrograd_core.compiler.languages import CUDA
from micrograd_core.compiler.nests import Draw, Load, Store, moved
from micrograd_core.compiler.packs import MOST, PackPrinter, threads, width
from micrograd_core.compiler.passes import optimized
from micrograd_core.compiler.program import Program, Ref, Step, operation
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.writer import Writer, rewritten
from micrograd_core.dtypes import bfloat16, float16, float32
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout, Shape
from micrograd_cuda.geometry import FILLED, ceil_div
from micrograd_cuda.operands import contiguous, is_number, is_operation
from micrograd_cuda.units import BLOCK, FUNCTORS, INDEX, OWN, source

PARAMETERS: Final = 3900
"""Bytes of a kernel's parameters that a table may take."""
LONG: Final = 2**14
"""Elements of a row that one block reduces, however few there are."""
LIMITS: Final = Limits(buffers=48, row_bytes=0)
"""Of one nest: each takes a register or two, and a place in the table."""
LANGUAGE: Final = CUDA._replace(
    functions={
        name: f"{functor}::of({'{0}' if FUNCTORS[functor] in ('UNARY', 'PREDICATE') else '{0}, {1}'})"
        for name, functor in OWN.items()
        if is_operation(name) and name not in ("copy", "gelu", "gelu_gradient", "nextafter")
    },
    preamble=source("nests") + CUDA.preamble,
)
"""Functions of elements are those of the kernels for one operation."""
KERNEL: Final = """
struct Table {{ Long first[{count} + 1], size[{count}], at[{addresses}]; }};
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
ROW: Final = """constexpr int count = {width};
const {index} row = thread / {threads}, u = row < size ? row : 0, lane = u == row ? thread % {threads} : FAR;"""


def covers(name: str, operands: tuple[Any, ...]) -> bool:
    """Whether a line of a nest computes an operation."""
    # The gradient of relu has a kernel of its own, which adds up columns, for the bias.
    own = name == "relu_gradient" and len(getattr(operands[1], "shape", ())) == 2
    return not own and LANGUAGE.covers(name, operands)


def of_rows(x: Any, axis: Shape | None) -> bool:
    """Whether a reduction of floats is one of last axes: columns and planes have own kernels."""
    return x.dtype.is_floating and (axis is None or [*axis] == [*range(len(x.shape) - len(axis), len(x.shape))])


def called(used: Container[int], step: Step, operands: tuple[Any, ...]) -> bool:
    """Whether a step stays a call that nests compute, too: a reduction, or a cast of what its maker casts.

    Of reductions those of rows too few and long for a block each, and of what no nest reads or makes. `used` are the
    values that elementwise steps read.
    """
    if not operation(step.op).combine:
        return step.op == "astype" and "half" in operands[0].params
    (x,), axis = operands, step.params["axis"]
    few = math.prod(x.shape if axis is None else [x.shape[i] for i in axis]) > LONG
    alone = x.role != "elementwise" and x.number not in used
    return alone or not of_rows(x, axis) or (few and math.prod(x.shape) < FILLED * LONG // BLOCK)


def with_compositions(program: Program) -> Program:
    """Means of rows become sums, which nests compute, as they do what is set at one place of an axis.

    Means of columns and planes are there once `var` has been.
    """

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Any) -> Any:
        rows = step.op == "mean" and of_rows(operands[0], step.params["axis"])
        place = step.op == "index_set" and math.prod(operands[1].shape) == 1
        return k.composed(step.op, operands, step.params) if rows or place else None

    return rewritten(program, rule)


FEW: Final = 2**12
"""Elements of an input that is cast before all else."""
HALVES: Final = (float16, bfloat16)
WRITE: Final = "layer_norm rms_norm standardize standardize_gradient rms_norm_gradient cross_entropy_gradient".split()
READ: Final = (*WRITE, "layer_norm_weight_gradient", "rms_norm_weight_gradient", "cross_entropy", "sum")
"""Kernels that compute in float32 whatever they write, and whatever they read."""


def mixes(op: str, operands: Sequence[Any], params: Any, type: TensorSpec) -> bool:
    """Whether such a kernel takes a step that makes float32, with operands that may be halves."""
    if op not in READ or type.dtype is not float32 or not math.prod((*operands[0].shape, *type.shape)):
        return False
    if op.startswith("cross_entropy"):
        plain = is_number(operands[-1]) and operands[-1] == 1 and not params["label_smoothing"]
        return plain and operands[-2].dtype.name in INDEX
    axis, weights = params["axis"], operands[2 if "gradient" in op else 1 :]
    fits = of_rows(operands[0], axis) is not (op == "sum")
    return fits and all(len(getattr(each, "shape", ())) <= len(axis) for each in weights)


def with_halves(program: Program, dtypes: Mapping[str, Any]) -> Program:
    """Casts of halves to float32 for such kernels vanish, and of their results to halves: they read and write these.

    Casts of inputs that have few elements, or are read more than once, as those of weights are, come first, where they
    share a launch.
    """
    uses = Counter([*(x for step in program.steps for x in step.operands), *program.outputs])
    made, early = dict[Any, Any](), list[Any]()  # by value, the step that makes it
    for step, (n, *_) in program.numbered():
        few = math.prod(program.types[n].shape) <= FEW
        if step.op == "astype" and step.operands[0].number < program.inputs and (few or uses[Ref(n)] > 1):
            early.append((step, program.types[n : n + 1]))

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Any) -> Any:
        while early:  # what is asked for again is the same value
            cast, type = early.pop(0)
            k.step("astype", [k.inputs[cast.operands[0].number]], cast.params, type)
        op, given, params, to = step.op, operands, step.params, types[0].dtype
        before, mixing = made.get(operands[0].ref) if op == "astype" else None, mixes(op, operands, params, types[0])
        if mixing:
            casts = [made.get(getattr(x, "ref", None)) for x in operands]
            given = tuple([y[1][0] if y and y[0] == "astype" else x for x, y in zip(operands, casts, strict=True)])
            params = params if given == operands else {**params, "dtype": dtypes[to.name]}
        elif before and before[0] in WRITE and to in HALVES and uses[step.operands[0]] == 1:
            op, given, params = before[0], before[1], {**before[2], "dtype": dtypes[to.name]}
        found = k.step(op, given, params, types)
        if to is float32 and ((mixing and op in WRITE) or (op == "astype" and operands[0].dtype in HALVES)):
            made[found.ref] = op, given, params
        return found

    return rewritten(program, rule)


def with_more(program: Program, dtypes: Mapping[str, Any]) -> Program:
    """What is added to the gradient of a norm's input, and the cast of that to halves, are its kernel's work.

    The summand is one operand more than the operation has; it has to be there before, and the gradient without it must
    not be asked for.
    """
    steps, types, same, makers = list[Step](), program.types, dict[Any, Any](), dict[Any, int]()
    uses = Counter([*(x for step in program.steps for x in step.operands), *program.outputs])

    def change(x: Any, *more: Any, **params: Any) -> None:
        op, operands, before = steps[makers[x]]
        steps[makers[x]] = Step(op, (*operands, *more), before | params)

    for step, (n, *_) in program.numbered():
        step = step._replace(operands=tuple([same.get(x, x) for x in step.operands]))
        op, operands, params = step
        given = [types[x.number] if isinstance(x, Ref) else x for x in operands]
        if op in ("standardize_gradient", "rms_norm_gradient") and mixes(op, given, params, types[n]):
            makers[Ref(n)] = len(steps)
        for x, y in (operands, operands[::-1]) if op == "add" else ():
            alike = x in makers and isinstance(y, Ref) and types[x.number] == types[y.number] == types[n]
            if alike and uses[x] == 1 and y.number < x.number:
                change(x, y)
                same[Ref(n)], uses[x] = x, 2  # and it takes no other summand
                step = Step("reshape", (x,), {"shape": types[n].shape})  # a view, for outputs
        if op == "astype" and operands[0] in makers and types[n].dtype in HALVES:
            change(operands[0], half=dtypes[types[n].dtype.name])
        steps.append(step)
    return program._replace(steps=tuple(steps))


class Programs(Planned):
    """A program as a function of its input handles. `before` is told which output is made next; -1 says none."""

    def __init__(self, backend: Any, program: Program, before: Callable[[int], None]) -> None:
        found = with_halves(optimized(with_compositions(program), covers, backend.own), backend.dtypes)
        super().__init__(backend, with_more(found, backend.dtypes), partial(contiguous, backend.runtime))
        self.before, self.runtime = before, backend.runtime

    def layout(self, x: Any) -> Any:
        """Strides in bytes, of an array that is not contiguous."""
        return x.strides if x.__class__ is self.runtime.array and not x.flags.c_contiguous else None

    def plan(self, layouts: Sequence[Any]) -> Plan:
        """With the strides in elements."""
        lie = list[Layout]()
        for (shape, dtype), strides in zip(self.program.types[: self.program.inputs], layouts, strict=True):
            own = None if strides is None else tuple([stride // dtype.itemsize for stride in strides])
            lie.append(Layout.contiguous(shape) if own is None else Layout(shape, own))
        steps = [step for step in self.program.steps if operation(step.op).kind == "elementwise"]
        used = {x.number for step in steps for x in step.operands if isinstance(x, Ref)}
        return plan(self.program, lie, covers, LIMITS, partial(called, used))

    def function(self, found: Plan) -> Callable[..., Any]:
        """With what is known of the outputs."""
        self.outputs = {x.number: place for place, x in enumerate(found.outputs) if isinstance(x, Ref)}
        return super().function(found)

    def calls(self, run: Function, steps: Sequence[Call], found: Plan) -> None:
        """One after the other."""
        run.scope["before"] = self.before
        for step in steps:
            first, *others = step.results
            run.step([f"before({-1 if others else self.outputs.get(first, -1)})"], ())
            super().calls(run, [step], found)

    def nests(self, run: Function, steps: Sequence[Run], found: Plan) -> None:
        """Those that are printed alike together, as many as a table holds, if none reads what another makes."""
        groups: list[Group] = []
        at: dict[int, int] = {}  # by the number of a value, the group that makes it
        for step in steps:
            group, first = Group(self, step), 1 + max([at.get(n, -1) for n in step.inputs], default=-1)
            place = next((i for i in range(first, len(groups)) if groups[i].takes(group)), len(groups))
            if place == len(groups):
                groups.append(group)
            groups[place].members.append(step)
            at |= dict.fromkeys(step.outputs, place)
        for group in groups:
            inputs, outputs = group.ready(self)
            run.call(group, [*map(Ref, inputs)], outputs, True)


class Group:
    """Nests that are printed alike, as one launch: at first the one of a step, which is no member yet."""

    def __init__(self, owner: Programs, step: Run) -> None:
        self.before, self.runtime, self.members, nest = owner.before, owner.runtime, list[Run](), step.nest
        if not (nest.kept or nest.reduced):  # one element is a line, too
            parts = moved(nest.parts, lambda line: line._replace(place=line.place._replace(strides=(1,))))
            nest = nest._replace(kept=(1,), parts=parts)
        self.nest, self.width, self.threads = nest, width(nest), threads(nest, BLOCK)
        lengths, lines = (*nest.kept, *nest.reduced), [line for part in nest.parts for line in part.lines]
        places = [line.place for line in lines if isinstance(line, (Load, Draw, Store))]
        reach = [abs(x.offset) + sum(abs(s) * n for s, n in zip(x.strides, lengths, strict=True)) for x in places]
        small = max(*reach, math.prod(nest.kept) * self.threads) + BLOCK * MOST < 2**31
        self.language = LANGUAGE._replace(counter="int" if small else "Long")
        self.key = self.body(True), small, tuple([x.dtype.name for x in nest.buffers])
        self._launches: dict[bool, Any] = {}

    def body(self, aligned: bool) -> str:
        """The text of one unit."""
        return PackPrinter(self.nest, self.language, BLOCK, aligned).body()

    def takes(self, other: Group) -> bool:
        """Whether one more nest is printed alike, and has room in the table."""
        each = 2 + len(self.nest.buffers)
        return other.key == self.key and 8 * (1 + each * (len(self.members) + 1)) <= PARAMETERS

    def ready(self, owner: Programs) -> tuple[list[int], list[int]]:
        """All members are there: the values that they read, and those that they make."""
        made = [x for step in self.members for x in zip(step.outputs, step.types, strict=True)]
        dtypes, outputs = owner.backend.dtypes, owner.outputs
        self._made = [(outputs.get(n, -1), type.shape, dtypes[type.dtype.name]) for n, type in made]
        sizes, width = [math.prod(step.nest.kept) for step in self.members], 1 if self.nest.reduced else self.width
        first = [*accumulate((ceil_div(ceil_div(size, width) * self.threads, BLOCK) for size in sizes), initial=0)]
        self._blocks, self._head = first[-1], [*first, *sizes]
        return [n for step in self.members for n in step.inputs], [n for n, _ in made]

    def source(self, aligned: bool) -> tuple[str, str]:
        """The name and the source of the kernel."""
        language, count, pointers = self.language, len(self.members), list[str]()
        reads, writes = len(self.members[0].inputs), len(self.members[0].outputs)
        for i, x in enumerate(self.nest.buffers):
            type = f"{'const ' * (i < reads)}{language.memory_of(x.dtype)}*"
            at = f"t * {reads} + {i}" if i < reads else f"{count * reads} + t * {writes} + {i - reads}"
            pointers.append(f"{type} const p{i} = reinterpret_cast<{type}>(table.at[{at}]);")
        known = {"index": language.counter, "width": self.width, "threads": self.threads, "block": BLOCK}
        unit, addresses = (ROW if self.nest.reduced else PACK).format(**known), count * (reads + writes)
        facts = {**known, "unit": unit, "pointers": "\n".join(pointers), "text": self.body(aligned)}
        text = KERNEL.format(**facts, name="{name}", count=count, addresses=addresses)
        name = f"micrograd_nest_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return name, LANGUAGE.preamble + text.replace("{name}", name)

    def __call__(self, *given: Any) -> list[Any]:
        """The outputs."""
        made, empty, address, before = list[Any](), self.runtime.empty, self.runtime.address, self.before
        for place, shape, dtype in self._made:
            before(place)
            made.append(empty(shape, dtype))
        if self._blocks:
            aligned = not any(address(x) % 16 for x in given if x.shape)
            launch = self._launches.get(aligned)
            if launch is None:
                launch = self._launches[aligned] = self.runtime.bind_source(*self.source(aligned), BLOCK)
            numbers = [*self._head, *map(address, given), *map(address, made)]
            launch((self._blocks, 1), (self.runtime.struct(numbers, "Long"),))
        return made


def function(backend: Any, program: Program,
             before: Callable[[int], None] = lambda place: None) -> Callable[..., tuple[Any, ...]]:  # fmt: skip
    """A program as a function of its input handles; `before` as of `Programs`."""
    if not program.types:
        return straight_line(program, backend.kernel, partial(compose, backend=backend), backend.dtypes)
    return counted(Programs(backend, program, before), program.inputs)
