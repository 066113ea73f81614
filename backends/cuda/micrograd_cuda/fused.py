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
from micrograd_core.layout import Shape
from micrograd_core.tables.raw import compose
from micrograd_cuda.geometry import BLOCK, ceil_div
from micrograd_cuda.kernels import BINARY, OF_HALVES, UNARY
from micrograd_cuda.operands import alignment, contiguous
from micrograd_cuda.units import ELEMENT, source

FUNCTORS: Final = {name: functor for name, functor in (UNARY | BINARY).items() if name != "nextafter"}
NARROW: Final = frozenset({"float16", "bfloat16", "float32"})
"""What is computed in float32."""
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


def functor(step: Step, dtype: str) -> str | None:
    """Of an elementwise step, as the sources have it; ``None`` of any other."""
    found = FUNCTORS.get(step.op)
    if step.op in ("gelu", "gelu_gradient"):
        tanh, gradient = step.params["approximate"] == "tanh", step.op == "gelu_gradient"
        found = f"Gelu{'Tanh' if tanh else ''}{'Gradient' if gradient else ''}"
    elif step.op == "astype":
        return "Copy"
    elif step.params:
        return None
    return OF_HALVES.get(found or "", found) if dtype in ("float16", "bfloat16") else found


def spread(shape: Shape, whole: Shape) -> tuple[int, int] | None:
    """How what is broadcast lies in the whole: for how many neighbours each of its elements is, and how many it has.

    ``None`` where that does not say it all: axes that it lacks lie between those that it has.

    >>> spread((4,), (2, 3, 4)), spread((3, 1), (2, 3, 4)), spread((2, 1, 4), (2, 3, 4))
    ((1, 4), (4, 3), None)
    """
    padded = (1,) * (len(whole) - len(shape)) + shape
    own = [d for d, n in enumerate(padded) if n > 1]
    if not own or padded[own[0] : own[-1] + 1] != whole[own[0] : own[-1] + 1]:
        return None
    return math.prod(whole[own[-1] + 1 :]), math.prod(shape)


def fusable(step: Step, made: int, program: Program) -> bool:
    """Whether a step is elementwise, of one dtype, and of operands of one shape or broadcast to it."""
    types = program.types
    out = types[made]
    if out.dtype.name not in ELEMENT or not out.shape or functor(step, out.dtype.name) is None:
        return False
    whole = False
    for x in step.operands:
        if not isinstance(x, Ref):
            if not math.isfinite(x):
                return False
            continue
        given = types[x.number]
        if step.op == "astype":  # between what is computed in float32: nothing is rounded twice
            if not {given.dtype.name, out.dtype.name} <= NARROW:
                return False
        elif given.dtype is not out.dtype:
            return False
        if given.shape and given.shape != out.shape and spread(given.shape, out.shape) is None:
            return False
        whole |= given.shape == out.shape
    return whole


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
            if isinstance(x, Ref) and x.number in leader:  # of the same shape: a run has no others that lead on
                leader[find(x.number)] = find(made)
    together: dict[int, list[tuple[int, Step]]] = {}
    for made, step in run:
        together.setdefault(find(made), []).append((made, step))
    return [_chain(program, steps, later) for steps in together.values()]


def _chain(program: Program, steps: list[tuple[int, Step]], later: Callable[[int], bool]) -> Chain:
    types, whole = program.types, program.types[steps[0][0]].shape
    index = "unsigned" if math.prod(whole) < 2**31 else "Long"
    inputs, names, read = dict[int, str](), dict[int, str](), list[str]()
    lines, outputs, results = list[str](), list[int](), list[str]()
    for place, (made, step) in enumerate(steps):
        given, element = [], ELEMENT[types[made].dtype.name]
        for x in step.operands:
            if not isinstance(x, Ref):
                given.append(f"weak<{element}>({float(x).hex()})")
                continue
            if x.number not in names:
                k, (shape, dtype) = len(inputs), types[x.number]
                inputs[x.number] = ELEMENT[dtype.name]
                names[x.number] = f"x{k}[v]" if shape else f"x{k}"
                how = "READ" if shape == whole else "SPREAD" if shape else "SCALAR"
                more = (index, *(spread(shape, whole) or ())) if how == "SPREAD" else ()
                read.append(f"{how}({', '.join(map(str, (inputs[x.number], f'x{k}', k, *more)))})")
            given.append(names[x.number])
        computed = f"{functor(step, types[made].dtype.name)}::of({', '.join(given)})"
        lines.append(f"const Wide<{element}> r{place} = widen(narrowed<{element}>({computed}));")
        names[made] = f"r{place}"
        if later(made):
            results.append(f"Pack<{element}, V> o{len(outputs)};")
            lines.append(f"o{len(outputs)}.at[v] = narrowed<{element}>(r{place});")
            outputs.append(made)
    writes = [f"WRITE({ELEMENT[types[made].dtype.name]}, o{i}, {i})" for i, made in enumerate(outputs)]
    size = min(types[number].dtype.itemsize for number in (*outputs, *inputs))
    scalars, packs = ([x for x in read if x.startswith("SCALAR") is once] for once in (True, False))
    body = [*scalars, "STEP {", *packs, *results, "EACH {", *lines, "}", *writes, "}"]
    text = "\n".join([f"constexpr int V = {16 // size};", *body])
    return Chain(text, tuple(inputs), tuple(outputs), math.prod(whole), tuple(made for made, _ in steps))


PIECE: Final = BLOCK * 16
"""Elements that a block takes."""
KERNEL: Final = """
#define IN(T, k) reinterpret_cast<const T*>(table.in[t][k])
#define SCALAR(T, name, k) const Wide<T> name = widen(*IN(T, k));
#define READ(T, name, k) Wide<T> name[V]; fetch<T, V, {width}>(IN(T, k) + at, false, count, name);
#define SPREAD(T, name, k, Index, inner, n) \\
    Wide<T> name[V]; spread<T, V, {width}, Index, inner, n>(IN(T, k), static_cast<Index>(at), count, name);
#define WRITE(T, name, k) put(reinterpret_cast<T*>(table.out[t][k]) + at, count, name);
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
    width = "(WIDEST<T, V>)" if aligned else "1"
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

    def __call__(self, values: list[Any], before: Callable[[int], None]) -> None:
        """Compute the outputs. An operand in another order is copied: a chain is longer than that."""
        given = [contiguous(values[number]) for number in self.inputs]
        empty, address = self.runtime.empty, self.runtime.address
        for number, shape, dtype in self.made:
            before(number)
            values[number] = empty(shape, dtype)
        if self.blocks:
            aligned = alignment(self.runtime, *(x for x in given if x.shape)) == 16
            numbers = [*self._head, *map(address, given), *(address(values[number]) for number in self.outputs)]
            self._launch(aligned)((self.blocks, 1), (self.runtime.struct(numbers, "Long"),))

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
        self.plan: list[tuple[list[Group], list[Any]]] = []  # one of the two
        run: list[tuple[int, Step]] = []
        self._spread: dict[int, Any] = {}  # values that are views of others, or one number everywhere
        steps, done = list(program.numbered()), set[int]()
        for place, (step, made) in enumerate(steps):
            if made[0] in done:
                continue
            second = self._second(step, made, steps[place + 1 :]) if program.types else None
            fused = self._fused(step, made) if second is None and program.types else None
            if fused is not None:
                if any(self._broadcast(x, made[0], run) for x in fused.operands):
                    self._close(run)
                    run = []
                run.append((made[0], fused))
                continue
            self._close(run)
            run = []
            single = self._single(step, made) if second is None else self._pair(step, made[0], *second)
            self.plan.append(([], [single]))
            done |= {second[1]} if second else set()
        self._close(run)

    def _fused(self, step: Step, made: range) -> Step | None:
        """An elementwise step that reads what is broadcast as it was before; ``None`` of any other."""
        program = self.program
        if step.op in ("broadcast_to", "spread"):
            self._spread[made[0]] = step.operands[0]
        elif step.op == "full" and isinstance(step.params.get("fill_value"), float):
            self._spread[made[0]] = step.params["fill_value"]
        elif len(made) == 1:
            operands = tuple([self._spread.get(getattr(x, "number", -1), x) for x in step.operands])
            for each in (step._replace(operands=operands), step):
                if fusable(each, made[0], program):
                    return each
        return None

    def _broadcast(self, x: Any, made: int, run: list[tuple[int, Step]]) -> bool:
        """Whether an operand is of another shape than the result, and made in this run: no loop has both."""
        types = self.program.types
        return (
            isinstance(x, Ref)
            and types[x.number].shape != types[made].shape
            and any(x.number == number for number, _ in run)
        )

    def _close(self, run: list[tuple[int, Step]]) -> None:
        """A run of elementwise steps is over. One step alone has a kernel of its own."""
        inside = Counter(x.number for _, step in run for x in step.operands if isinstance(x, Ref))
        found = chains(self.program, run, lambda number: self.uses[number] > inside[number])
        if len(run) < 2 or any(len(chain.steps) > MOST_STEPS or not chain.outputs for chain in found):
            self.plan += [([], [self._single(step, range(made, made + 1))]) for made, step in run]
        else:
            self.plan.append((grouped(self.backend, self.program, found), []))

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
            for group in groups:
                group(values, self.before)
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
