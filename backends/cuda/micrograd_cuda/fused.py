"""Programs with fewer launches: elementwise steps in a row become one kernel, printed for them.

Steps that lead from one to the next are computed in registers, rounded after each as the kernels of single steps round.
What is computed alike for several sizes, as an optimiser's rule is for each parameter, is one launch for all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.executor import Function, bound, counted
from micrograd_core.compiler.program import Program, Ref, Step, operation
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Shape
from micrograd_cuda.kernels import OWN, PIECE, pieces
from micrograd_cuda.operands import alignment, contiguous
from micrograd_cuda.units import BLOCK, ELEMENT, FUNCTORS, source, variant

FUSED: Final = {
    name: functor
    for name, functor in OWN.items()
    if FUNCTORS[functor] in ("UNARY", "BINARY") and name not in ("copy", "nextafter", "pow")
}
"""Elementwise operations of floats."""
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
    found = FUSED.get(step.op)
    if step.op in ("gelu", "gelu_gradient"):
        tanh, gradient = step.params["approximate"] == "tanh", step.op == "gelu_gradient"
        found = f"Gelu{'Tanh' if tanh else ''}{'Gradient' if gradient else ''}"
    elif step.op == "astype":
        return "Copy"
    elif step.params:
        return None
    return None if found is None else variant(found, dtype)


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
    if step.op == "relu_gradient" and len(out.shape) == 2:  # whose own kernel adds up columns, for the bias
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
    together: dict[int, list[tuple[int, Step]]] = {}  # by the number of each step's value: the chain that it is in
    for made, step in run:
        chain = [(made, step)]
        for x in step.operands:
            found = together.get(x.number, chain) if isinstance(x, Ref) else chain
            if found is not chain:  # of the same shape: a run has no others that lead on
                chain, shorter = sorted((chain, found), key=len, reverse=True)
                chain += shorter
                together |= {number: chain for number, _ in shorter}
        together[made] = chain
    different = {id(chain): chain for chain in together.values()}
    return [_chain(program, sorted(steps), later) for steps in different.values()]


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
        sizes = [chain.size for chain in members]
        starts = pieces(sizes)
        self.blocks, self._head = starts[-1], [*starts, *sizes]
        self._launches: dict[bool, Any] = {}

    def __call__(self, before: Callable[[int], None], *operands: Any) -> list[Any]:
        """The outputs. An operand in another order is copied: a chain is longer than that."""
        given, made = list(map(contiguous, operands)), list[Any]()
        empty, address = self.runtime.empty, self.runtime.address
        for number, shape, dtype in self.made:
            before(number)
            made.append(empty(shape, dtype))
        if self.blocks:
            aligned = alignment(self.runtime, *(x for x in given if x.shape)) == 16
            numbers = [*self._head, *map(address, given), *map(address, made)]
            self._launch(aligned)((self.blocks, 1), (self.runtime.struct(numbers, "Long"),))
        return made

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


def function(
    backend: Any, program: Program, before: Callable[[int], None] = lambda number: None
) -> Callable[..., tuple[Any, ...]]:
    """A program as a function of its input handles. `before` is told of each value that is about to be made."""
    run = Executor(backend, program, before).run
    return counted(run.made(run.source(program.outputs)), program.inputs)


class Executor:
    """The work of `function`."""

    def __init__(self, backend: Any, program: Program, before: Callable[[int], None]) -> None:
        self.backend, self.program, self.before = backend, program, before
        self.run = Function(program.inputs)
        self.run.scope["before"] = before
        self.uses = Counter(x.number for step in program.steps for x in step.operands if isinstance(x, Ref))
        self.uses.update(x.number for x in program.outputs if isinstance(x, Ref))
        run: list[tuple[int, Step]] = []
        self._spread: dict[int, Any] = {}  # values that are views of others, or one number everywhere
        for step, made in program.numbered():
            fused = self._fused(step, made) if program.types else None
            if fused is None or any(self._broadcast(x, made[0], run) for x in fused.operands):
                self._close(run)
                run = []
            if fused is None:
                self._called(step, made)
            else:
                run.append((made[0], fused))
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
            for made, step in run:
                self._called(step, range(made, made + 1))
            return
        for group in grouped(self.backend, self.program, found):
            self.run.call(partial(group, self.before), [Ref(n) for n in group.inputs], group.outputs, True)

    def _called(self, step: Step, made: range) -> None:
        backend = self.backend
        function = bound(step, backend.kernel, partial(compose, backend=backend), backend.dtypes)
        if len(made) == 1:
            self.run.step([f"before({made[0]})"], ())
        self.run.call(function, step.operands, made, operation(step.op).parts is not None)
