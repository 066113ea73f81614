"""Programs with fewer launches: elementwise steps in a row become one kernel, printed for them; two pairs have one.

Steps that lead from one to the next are computed in registers, rounded after each as the kernels of single steps round.
What is computed alike for several sizes, as an optimiser's rule is for each parameter, is one launch for all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.program import Program, Ref, Step, native, operation
from micrograd_core.tables.raw import compose
from micrograd_cuda.geometry import BLOCK, ceil_div
from micrograd_cuda.kernels import BINARY, UNARY
from micrograd_cuda.operands import alignment
from micrograd_cuda.units import ELEMENT, source

FUNCTORS: Final = {name: functor for name, functor in (UNARY | BINARY).items() if name != "nextafter"}
PARAMETERS: Final = 3900
"""Bytes of a kernel's parameters that a table may take."""
MOST_STEPS: Final = 64
"""Of one chain: beyond that there are too few registers."""


class Chain(NamedTuple):
    """Steps of one shape that hang together: numbers of values, and how they are computed, as text."""

    text: str  # the same for all that are computed alike
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    size: int
    steps: tuple[int, ...]


def fusable(step: Step, made: int, program: Program) -> bool:
    """Whether a step is elementwise, of one shape and dtype but for numbers and 0-d operands."""
    types = program.types
    if step.op not in FUNCTORS or step.params or types[made].dtype.name not in ELEMENT:
        return False
    shapes = set()
    for x in step.operands:
        if not isinstance(x, Ref):
            if not math.isfinite(x):
                return False
            continue
        if types[x.number].dtype is not types[made].dtype:
            return False
        shapes.add(types[x.number].shape)
    return types[made].shape in shapes and shapes <= {types[made].shape, ()} and bool(types[made].shape)


def chains(program: Program, run: Sequence[tuple[int, Step]], later: Callable[[int], bool]) -> list[Chain]:
    """Steps in a row by what hangs together. `later` says whether a value is needed beyond them."""
    leader: dict[int, int] = {}

    def find(x: int) -> int:
        while leader[x] != x:
            x = leader[x]
        return x

    for made, step in run:
        leader[made] = made
        for x in step.operands:
            if isinstance(x, Ref) and x.number in leader:
                leader[find(x.number)] = find(made)
    together: dict[int, list[tuple[int, Step]]] = {}
    for made, step in run:
        together.setdefault(find(made), []).append((made, step))
    return [_chain(program, steps, later) for steps in together.values()]


def _chain(program: Program, steps: list[tuple[int, Step]], later: Callable[[int], bool]) -> Chain:
    types, inputs, names = program.types, dict[int, None](), dict[int, str]()
    lines, outputs, whole = list[str](), list[int](), types[steps[0][0]]
    for place, (made, step) in enumerate(steps):
        given = []
        for x in step.operands:
            if not isinstance(x, Ref):
                given.append(f"weak<T>({float(x).hex()})")
                continue
            if x.number not in names:
                names[x.number] = f"{'b' if types[x.number].shape else 's'}{len(inputs)}"
                inputs[x.number] = None
            given.append(names[x.number] + ("[v]" if types[x.number].shape and names[x.number][0] == "b" else ""))
        lines.append(f"const Wide<T> r{place} = widen(narrowed<T>({FUNCTORS[step.op]}::of({', '.join(given)})));")
        names[made] = f"r{place}"
        if later(made):
            lines.append(f"o{len(outputs)}.at[v] = narrowed<T>(r{place});")
            outputs.append(made)
    loads = []
    for number in inputs:
        name = names[number]
        at = int(name[1:])
        loads.append(f"{'SCALAR' if name[0] == 's' else 'READ'}({name}, {at})")
    head = [f"typedef {ELEMENT[whole.dtype.name]} T;", f"constexpr int V = {16 // whole.dtype.itemsize};"]
    results = [f"Pack<T, V> o{i};" for i in range(len(outputs))]
    writes = [f"WRITE(o{i}, {i})" for i in range(len(outputs))]
    scalars, packs = ([x for x in loads if x.startswith(kind)] for kind in ("SCALAR", "READ"))
    text = "\n".join([*head, *scalars, "STEP {", *packs, *results, "EACH {", *lines, "}", *writes, "}"])
    return Chain(text, tuple(inputs), tuple(outputs), math.prod(whole.shape), tuple(made for made, _ in steps))


PIECE: Final = BLOCK * 16
"""Elements that a block takes."""
KERNEL: Final = """
#define SCALAR(name, k) const Wide<T> name = widen(*reinterpret_cast<const T*>(table.in[t][k]));
#define READ(name, k) \\
    Wide<T> name[V]; \\
    fetch<T, V, {width}>(reinterpret_cast<const T*>(table.in[t][k]) + at, false, count, name);
#define WRITE(name, k) put(reinterpret_cast<T*>(table.out[t][k]) + at, count, name);
#define STEP for (Long at = start + Long(threadIdx.x) * V; at < end; at += Long(blockDim.x) * V)
#define EACH _Pragma("unroll") for (int v = 0; v < V; ++v)
struct Table {{ Long first[{count} + 1], size[{count}], in[{count}][{inputs}], out[{count}][{outputs}]; }};
extern "C" __global__ void __launch_bounds__({block}) {name}(const Table table) {{
int t = 0;
while (t + 1 < {count} && table.first[t + 1] <= static_cast<Long>(blockIdx.x)) ++t;
const Long start = (static_cast<Long>(blockIdx.x) - table.first[t]) * {piece};
const Long end = start + {piece} < table.size[t] ? start + {piece} : table.size[t];
#define count static_cast<int>(end - at < V ? end - at : V)
{text}
#undef count
}}
"""


def kernel(text: str, count: int, inputs: int, outputs: int, aligned: bool) -> tuple[str, str]:
    """The name and the source of a kernel for so many chains that are computed alike."""
    width = "WIDEST<T, V>" if aligned else "1"
    facts = {"count": count, "inputs": inputs, "outputs": outputs, "width": width, "text": text}
    name = f"micrograd_fused_{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}"
    return name, source("elementwise") + KERNEL.format(**facts, name=name, block=BLOCK, piece=PIECE)


class Group:
    """Chains that are computed alike, as one launch."""

    def __init__(self, backend: Any, program: Program, members: list[Chain]) -> None:
        self.runtime, self.members, first = backend.runtime, members, members[0]
        self.outputs = [number for chain in members for number in chain.outputs]
        self.inputs = [number for chain in members for number in chain.inputs]
        self.made = [(number, program.types[number].shape, backend.dtypes[program.types[number].dtype.name])
                     for number in self.outputs]  # fmt: skip
        self.widths = len(first.inputs), len(first.outputs)
        starts = [0]
        for chain in members:
            starts.append(starts[-1] + ceil_div(chain.size, PIECE))
        self.blocks, self._head = starts[-1], [*starts, *(chain.size for chain in members)]
        self._launches: dict[bool, Any] = {}

    def __call__(self, values: list[Any], before: Callable[[int], None]) -> bool:
        """Whether it could be done: all operands lie as the kernel reads them."""
        given = [values[number] for number in self.inputs]
        if not all(x.flags.c_contiguous for x in given):
            return False
        empty, address = self.runtime.empty, self.runtime.address
        for number, shape, dtype in self.made:
            before(number)
            values[number] = empty(shape, dtype)
        if self.blocks:
            aligned = alignment(self.runtime, *(x for x in given if x.shape)) == 16
            numbers = [*self._head, *map(address, given), *(address(values[number]) for number in self.outputs)]
            self._launch(aligned)((self.blocks, 1), (self.runtime.struct(numbers, "Long"),))
        return True

    def _launch(self, aligned: bool) -> Any:
        found = self._launches.get(aligned)
        if found is None:
            made = kernel(self.members[0].text, len(self.members), *self.widths, aligned)
            found = self._launches[aligned] = self.runtime.bind_source(*made, BLOCK)
        return found


def grouped(backend: Any, program: Program, found: list[Chain]) -> list[Group]:
    """What is computed alike, as many at a time as a table holds."""
    alike: dict[str, list[Chain]] = {}
    for chain in found:
        alike.setdefault(chain.text, []).append(chain)
    groups = []
    for members in alike.values():
        first = members[0]
        most = max(1, (PARAMETERS // 8 - 1) // (2 + len(first.inputs) + len(first.outputs)))
        groups += [Group(backend, program, members[i : i + most]) for i in range(0, len(members), most)]
    return groups


def _called(single: tuple[Any, ...], operands: Sequence[Any]) -> Any:
    """One step, by the device's kernel or composed of others."""
    function, composed, step, params, _ = single
    result = NotImplemented if function is None else function(*operands, **params)
    if result is NotImplemented and composed is not None:
        result = composed(*operands, **step.params)
    return result


class Executor:
    """A program as a function of its input handles. `before` is told of each value that is about to be made."""

    def __init__(self, backend: Any, program: Program, before: Callable[[int], None] = lambda number: None) -> None:
        self.backend, self.program, self.before = backend, program, before
        self.uses = Counter(x.number for step in program.steps for x in step.operands if isinstance(x, Ref))
        self.uses.update(x.number for x in program.outputs if isinstance(x, Ref))
        self.plan: list[tuple[list[Group], list[Any]]] = []
        run: list[tuple[int, Step]] = []
        steps, done = list(program.numbered()), set[int]()
        for place, (step, made) in enumerate(steps):
            if made[0] in done:
                continue
            second = self._second(step, made, steps[place + 1 :]) if program.types else None
            if second is None and program.types and len(made) == 1 and fusable(step, made[0], program):
                run.append((made[0], step))
                continue
            self._close(run)
            run = []
            single = self._single(step, made) if second is None else self._pair(step, made[0], *second)
            self.plan.append(([], [single]))
            done |= {second[1]} if second else set()
        self._close(run)

    def _close(self, run: list[tuple[int, Step]]) -> None:
        """A run of elementwise steps is over. One step alone has a kernel of its own."""
        singles = [self._single(step, range(made, made + 1)) for made, step in run]
        inside = Counter(x.number for _, step in run for x in step.operands if isinstance(x, Ref))
        found = chains(self.program, run, lambda number: self.uses[number] > inside[number])
        if len(run) < 2 or any(len(chain.steps) > MOST_STEPS or not chain.outputs for chain in found):
            self.plan += [([], [each]) for each in singles]
        else:
            self.plan.append((grouped(self.backend, self.program, found), singles))

    def _second(self, step: Step, made: range, rest: list[tuple[Step, range]]) -> tuple[Step, int] | None:
        """The step that has one kernel with this one, and what it makes."""
        number, types = made[0], self.program.types
        if step.op == "linear" and rest and isinstance(step.operands[2], Ref) and self.uses[number] == 1:
            after, value = rest[0]
            if after.op == "relu" and after.operands == (Ref(number),) and types[number].dtype.name in ELEMENT:
                return after, value[0]
        if step.op == "relu_gradient" and len(types[number].shape) == 2:
            for after, value in rest:
                if after.op == "sum" and after.operands == (Ref(number),) and after.params["axis"] == (0,):
                    return None if after.params["keepdims"] else (after, value[0])
        return None

    def _pair(self, step: Step, number: int, after: Step, second: int) -> tuple[Any, Any, Step, dict[str, Any], Any]:
        """Two steps by one kernel; by two, where it declines."""
        name = {"relu": "linear_relu", "sum": "relu_gradient_sum"}[after.op]
        singles = [self._single(each, range(at, at + 1)) for each, at in ((step, number), (after, second))]

        def composed(*operands: Any, **params: Any) -> Any:
            first = _called(singles[0], operands)
            last = _called(singles[1], (first,))
            return last if name == "linear_relu" else (first, last)

        made = [second] if name == "linear_relu" else [number, second]
        return self.backend.kernel(name), composed, step, {}, made

    def _single(self, step: Step, made: range) -> tuple[Any, Any, Step, dict[str, Any], Any]:
        function, op = self.backend.kernel(step.op), operation(step.op)
        composed = compose(step.op, self.backend) if op.compose is not None else None
        if function is None and composed is None:
            raise KeyError(f"the program needs a kernel for {step.op!r}")
        return function, composed, step, native(step, self.backend.dtypes), made

    def __call__(self, *handles: Any) -> tuple[Any, ...]:
        """The program's outputs."""
        if len(handles) != self.program.inputs:
            raise TypeError(f"the program takes {self.program.inputs} handles; got {len(handles)}")
        values: list[Any] = [*handles, *[None] * (sum(len(made) for _, made in self.program.numbered()))]
        for groups, singles in self.plan:
            if groups and all(group(values, self.before) for group in groups):
                continue
            for function, composed, step, params, made in singles:
                operands = [values[x.number] if isinstance(x, Ref) else x for x in step.operands]
                if len(made) == 1:
                    self.before(made[0])
                result = _called((function, composed, step, params, made), operands)
                if operation(step.op).parts is None and len(made) == 1:
                    values[made[0]] = result
                else:
                    for number, part in zip(made, result, strict=True):
                        values[number] = part
        return tuple([values[x.number] if isinstance(x, Ref) else x for x in self.program.outputs])
