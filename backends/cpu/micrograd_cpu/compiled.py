"""`compile` of the cpu backend: a typed program as compiled nests, and NumPy's kernels for the rest.

For each layout of its inputs, as they come, there is a plan and a Python function that was printed for it: a line for a
nest or a call. What a nest writes is fresh memory. Without llvmlite, and for programs without types, the kernels run in
a row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.executor import Function, bound, straight_line
from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.nests import Compute, Draw, Nest
from micrograd_core.compiler.passes import optimized
from micrograd_core.compiler.program import Program, Ref, operation
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import float16
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout, contiguous_strides
from micrograd_core.support.dumping import dump
from micrograd_cpu import blas, entries
from micrograd_cpu.entries import STACK, SegmentEntry
from micrograd_cpu.half import Half, as_half
from micrograd_cpu.kernels import set_in_place
from micrograd_cpu.llvm import module, modules
from micrograd_cpu.products import ALONE, alone
from micrograd_cpu.refusals import checked
from micrograd_cpu.scalars import covers
from micrograd_cpu.segments import Planned, Product, Segment, count, empty, segments
from micrograd_cpu.target import converts_float16
from micrograd_cpu.threads import multiplied, ranges_of, together

LAYOUTS: Final = 8
"""Layouts of inputs that a program is compiled for; in any others they are copied first."""
LARGE: Final = 750_000
"""Elements, weighed by what is computed of each, from which on a loop is worth a second thread."""
KEPT: Final = 1 << 20
"""Bytes of an arena that is kept for the next call: to get memory anew costs a fault for each page."""
LONGEST: Final = 100_000
"""Characters of a module: what LLVM compiles in half a second."""
DEAR_LINE: Final = 24
"""How much longer a function of `mathematics` takes than a sum."""


def function(program: Program, backend: Any) -> Callable[..., Any]:
    """A program as one function of its input handles."""
    needs_float16 = any(x.dtype is float16 for x in program.types)  # LLVM would call functions that nobody has
    if program.types and entries.compiles() and (converts_float16() or not needs_float16):
        return Compiled(program, backend).function()
    return by_kernels(program, backend)


def by_kernels(program: Program, backend: Any) -> Callable[..., Any]:
    """A program as calls of kernels in a row."""
    return straight_line(program, backend.kernel, partial(compose, backend=backend), backend.dtypes)


class Compiled:
    """A program that is compiled for the layouts that come."""

    def __init__(self, program: Program, backend: Any) -> None:
        self.backend, self.inputs = backend, program.inputs
        with_flags, self.flags = checked(program)
        self.program, self.original = optimized(with_flags, covers), program
        self.runs: list[Callable[..., Any]] = []
        self.plans: dict[Any, Callable[..., Any]] = {}  # the same by layout
        types = program.types[: program.inputs]
        self.expected = [(x.shape, backend.dtypes[x.dtype.name]) for x in types]

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """A function of input handles, which asks one after the other what was printed whether it is for such."""
        runs, specialised, inputs = self.runs, self.specialised, self.inputs

        def call(*handles: Any) -> Any:
            if len(handles) == inputs:
                for run in runs:
                    found = run(*handles)
                    if found is not None:
                        return found
            return specialised(handles)

        call.compiled, call.source = self, self.source  # type: ignore[attr-defined]
        return call

    def source(self) -> str:
        """LLVM IR of the nests for contiguous inputs; calls of kernels are not part of it."""
        planned = plan(self.program, [Layout.contiguous(shape) for shape, _ in self.expected], covers)
        return module([step.nest for step in planned.steps if isinstance(step, Run)])

    def specialised(self, handles: Sequence[Any]) -> tuple[Any, ...]:
        """The results for inputs whose layouts have not been seen."""
        if len(handles) != self.inputs:
            raise TypeError(f"the program takes {self.inputs} handles; got {len(handles)}")
        arrays = tuple([_whole(x) for x in handles])
        for i, (x, (shape, dtype)) in enumerate(zip(arrays, self.expected, strict=True)):
            if x.shape != shape or x.dtype != dtype:
                raise TypeError(
                    f"the program was compiled for a {dtype} of shape {shape} as input {i}; got a {x.dtype} of shape "
                    f"{x.shape}"
                )
        from micrograd_cpu.objects import PLANNING

        with PLANNING:
            layouts = tuple([_layout(x) for x in arrays])
            if layouts not in self.plans and len(self.plans) >= LAYOUTS:
                arrays = tuple([as_half(np.array(x, order="C")) for x in arrays])
                layouts = tuple([Layout.contiguous(x.shape) for x in arrays])
            if layouts not in self.plans:
                self.plans[layouts] = self.printed(plan(self.program, layouts, covers), layouts)
                self.runs.append(self.plans[layouts])
            run = self.plans[layouts]
        return run(*arrays)  # type: ignore[no-any-return]

    def printed(self, plan: Plan, layouts: Sequence[Layout]) -> Callable[..., Any]:
        """A plan as a Python function, which returns ``None`` where its inputs are others than it is for."""
        dump(partial("# nests: loops, and calls of kernels, in the order in which they run\n{}".format, plan))
        steps = segments(plan, [*zip(layouts, self.program.types, strict=False)], _shared, _multiplied)
        functions = iter(_functions(steps, layouts, [dtype for _, dtype in self.expected]))
        run = Function(self.inputs)
        run.scope |= {"empty": np.empty, "contiguous": contiguous, "half": as_half, "single": alone()}
        run.scope |= {"together": together, "multiplied": multiplied}
        for i, step in enumerate(steps):
            if isinstance(step, Call):
                backend, parts = self.backend, operation(step.op).parts is not None
                kernel = bound(step, backend.kernel, partial(compose, backend=backend), backend.dtypes)
                if step.op == "index_set" and step.operands[0] in map(Ref, self.original.donated):
                    kernel = partial(set_in_place, **step.params)
                run.call(kernel, step.operands, step.results, parts)
                turned = [n for n in step.results if n in plan.contiguous]
                run.step([f"v{n} = contiguous(v{n})" for n in turned], turned)
            else:
                lines = self.called(step, next(functions), run, run.inputs if i == 0 else [])
                run.step(lines, (*step.inputs, *step.outputs))
        outputs = plan.outputs[: len(plan.outputs) - self.flags]
        if self.flags:
            flags = plan.outputs[-self.flags :]
            refused = f"{run.constant(by_kernels(self.original, self.backend))}({', '.join(run.inputs)})"
            test = f"if {' or '.join(map(run.operand, flags))}: return {refused}"
            run.step([test], [x.number for x in (*flags, *outputs) if isinstance(x, Ref)])
        source = run.source(outputs)
        head = "# program: the same as Python runs it, with loops in a row as one function of machine code"
        dump(lambda: f"{head}\n{source}")
        return run.made(source)

    def called(self, step: Run | Product | Segment, function: Any, run: Function, inputs: list[str]) -> list[str]:
        """The call of a segment, or of a step that threads share, as Python; `inputs` are looked at, too."""
        lines, name = [], run.constant(function)
        for n, x in zip(step.outputs, step.types, strict=True):
            text = f"empty({run.constant(x.shape)}, {run.constant(self.backend.dtypes[x.dtype.name])})"
            lines.append(f"v{n} = half({text})" if x.dtype.bits == 16 and x.dtype.is_floating else f"v{n} = {text}")
        given = [f"v{n}" for n in (*step.inputs, *step.outputs)]
        if isinstance(step, Product):
            address = run.constant(np.array([blas.routines(step.types[0].dtype.name)[step.routine]], "uint64"))
            return [*lines, f"multiplied({name}, {count(step)}, {', '.join([address, *given])})"]
        if isinstance(step, Run):
            return [*lines, f"together({name}, {count(step)}, {ranges_of(work(step.nest))}, {', '.join(given)})"]
        if step.size > STACK:
            arenas = run.constant(list[Any]())  # those that no call has at the moment
            bytes_ = run.constant(np.dtype("uint8"))
            lines.append(f"arena = {arenas}.pop() if {arenas} else empty({step.size}, {bytes_})")
            given.append("arena")
        text = f"{f'single({name}, ' if _single(step) else f'{name}('}{', '.join([*inputs, *given])})"
        lines.append(f"if {text}: return None" if inputs else text)
        if step.size > STACK:
            lines.append(f"{arenas}.append(arena)" if step.size <= KEPT else "del arena")
        return lines


def _whole(x: Any) -> Any:
    """An input as an array whose elements lie a whole number of elements apart; 0-d results of NumPy are scalars."""
    x = as_half(np.asarray(x))
    return x if not any(stride % x.itemsize for stride in x.strides) else as_half(np.array(x, order="C"))


def _layout(x: Any) -> Layout:
    """How an array lies from its first element on; strides along axes of length 1 do not count."""
    if 0 in x.shape:
        return Layout.contiguous(x.shape)
    usual = contiguous_strides(x.shape)
    strides = [u if n == 1 else s // x.itemsize for n, s, u in zip(x.shape, x.strides, usual, strict=True)]
    return Layout(x.shape, tuple(strides), 0)


def contiguous(x: Any) -> Any:
    """What a kernel returned as an array whose elements lie in order."""
    whole = x.__class__ in (np.ndarray, Half) and x.flags.c_contiguous
    return x if whole else as_half(np.array(x, order="C"))


# ── functions of nests ───────────────────────────────────────────────────────────────────────────────────────


def _multiplied(x: TensorSpec) -> bool:
    """Whether BLAS is called for a product."""
    return bool(blas.routines(x.dtype.name))


def _shared(step: Run | Product) -> bool:
    """Whether threads share a nest, or a stack of products. One product is OpenBLAS's own threads' to share."""
    return count(step) > 1 and weight(step) >= LARGE and not empty(step)


def _single(step: Segment) -> bool:
    """Whether OpenBLAS is told to use one thread for a segment, as `products` says of its largest product."""
    largest = max([math.prod(x.sizes) for x in step.steps if isinstance(x, Product) and not x.stack], default=0)
    return ALONE[0] < largest <= ALONE[1] and alone() is not None


def _functions(
    steps: Sequence[Planned], layouts: Sequence[Layout], dtypes: Sequence[Any]
) -> Iterator[Callable[..., Any]]:
    """Of each segment, a function of arrays; of a nest that threads share, `entries.share`."""
    from micrograd_cpu.objects import library

    each = [x for step in steps for x in (step.steps if isinstance(step, Segment) else (step,))]
    runs = [x for x in each if isinstance(x, Run)]
    products = [x for x in each if isinstance(x, Product) and x.stack]
    nests = {repr(x.nest): x.nest for x in runs}  # the layers of a network have the same
    numbers = {text: i for i, text in enumerate(nests)}
    names = {id(x): f"nest{numbers[repr(x.nest)]}" for x in runs}
    names |= {id(x): f"product{i}" for i, x in enumerate(products)}
    texts: dict[str, str] = {}
    for i, step in enumerate(steps):
        if isinstance(step, Segment):
            entry = SegmentEntry(f"call{i}", step, layouts if i == 0 else (), [x.itemsize for x in dtypes])
            texts[f"call{i}"] = entry.text(names, sum(weight(x) for x in step.steps))
        elif not isinstance(step, Call):
            texts[f"share{i}"] = entries.share(f"share{i}", names[id(step)], entries.arrays(step))
    called = [*[entries.ranged(names[id(x)], x) for x in products], *texts.values()]
    held = library(_bounded(modules([*nests.values()]), called), [*texts])
    types = [(as_half(np.empty(0, x)).__class__, x) for x in dtypes]
    for i, step in enumerate(steps):
        if isinstance(step, Segment):
            yield entries.function(held, f"call{i}", types if i == 0 else (), layouts)
        elif not isinstance(step, Call):
            yield entries.function_of_share(held, f"share{i}")


def _bounded(nests: Sequence[str], others: Sequence[str]) -> list[str]:
    """Modules: one where that is short, else those of the nests, and some for what calls them."""
    if len(nests) <= 1 and sum(map(len, (*nests, *others))) <= LONGEST:
        return ["\n".join((*nests, *others))]
    heads = {name: head for text in (*nests, *others) for head, name in _HEAD.findall(text)}
    found, chunk = list(nests), list[str]()
    for text, more in zip_longest(others, others[1:], fillvalue=""):
        chunk.append(text)
        if not more or sum(map(len, chunk)) + len(more) > LONGEST:
            whole = "\n".join(chunk)
            needed = {*_CALLED.findall(whole)} - {name for _, name in _HEAD.findall(whole)}
            found.append("\n".join([*(f"declare {heads[name]}" for name in sorted(needed)), whole]))
            chunk = []
    return found


_HEAD: Final = re.compile(r"^define (void @((?:nest|product)\d+)\(.*\))", re.MULTILINE)
_CALLED: Final = re.compile(r"call void @((?:nest|product)\d+)\(")


# ── weights ──────────────────────────────────────────────────────────────────────────────────────────────────


def weight(step: Run | Product) -> int:
    """How long a step takes, in elements of a sum; small products take longer."""
    if isinstance(step, Run):
        return work(step.nest)
    return math.prod(step.sizes) * math.prod(step.stack) // (4 if step.stack else 8)


def work(nest: Nest) -> int:
    """How long a nest takes, in elements of a sum."""
    weights = [
        DEAR_LINE if isinstance(line, Draw) or (isinstance(line, Compute) and operation(line.op).cost > 1) else 1
        for part in nest.parts
        if part.inner or not nest.reduced
        for line in part.lines
    ]
    return math.prod(nest.kept) * math.prod(nest.reduced) * sum(weights) // 4
