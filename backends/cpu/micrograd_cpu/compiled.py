"""`compile` of the cpu backend: a typed program as compiled nests, and NumPy's kernels for the rest.

For each layout of its inputs, as they come, there is a plan and a Python function that was printed for it: a line for a
nest or a call. What a nest writes is fresh memory. Without llvmlite, and for programs without types, the kernels run in
a row.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import zip_longest
from struct import Struct
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.assembly import DEAR
from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.nests import Compute, Draw, Nest
from micrograd_core.compiler.outlines import Outline
from micrograd_core.compiler.passes import optimized
from micrograd_core.compiler.program import Program, Ref, native, operation, straight_line
from micrograd_core.ground.warning import WITHHELD
from micrograd_core.layout import Layout, contiguous_strides
from micrograd_core.tables.raw import compose
from micrograd_cpu import blas, entries, team
from micrograd_cpu.entries import STACK, SegmentEntry, weight
from micrograd_cpu.half import Half, as_half
from micrograd_cpu.llvm import module, modules
from micrograd_cpu.networks import COMPOSED
from micrograd_cpu.products import ALONE, alone
from micrograd_cpu.refusals import checked
from micrograd_cpu.scalars import covers
from micrograd_cpu.segments import Product, Segment, Step, count, empty, makes, reads, segments, types_of
from micrograd_cpu.target import PLAIN

__warningregistry__ = WITHHELD

LAYOUTS: Final = 8
"""Layouts of inputs that a program is compiled for; in any others they are copied first."""
LARGE: Final = 1_000_000
"""Elements, weighed by what is computed of each, from which on a loop is worth a second thread."""
KEPT: Final = 1 << 20
"""Bytes of an arena that is kept for the next call: to get memory anew costs a fault for each page."""
LONGEST: Final = 100_000
"""Characters of a module: what LLVM compiles in half a second."""
DEAR_LINE: Final = 24
"""How much longer a function of `mathematics` takes than a sum."""


def available() -> bool:
    """Whether programs can be compiled: llvmlite is there, and objects look as they should."""
    return find_spec("llvmlite") is not None and entries.available()


def function(program: Program, backend: Any) -> Callable[..., Any]:
    """A program as one function of its input handles."""
    if program.types and available():
        return Compiled(program, backend).function()
    return by_kernels(program, backend)


def by_kernels(program: Program, backend: Any) -> Callable[..., Any]:
    """A program as calls of kernels in a row."""
    return straight_line(
        program,
        lambda op: backend.kernel(op) or compose(op, backend),
        partial(compose, backend=backend),
        backend.dtypes,
    )


class Compiled:
    """A program that is compiled for the layouts that come."""

    def __init__(self, program: Program, backend: Any) -> None:
        self.backend, self.inputs = backend, program.inputs
        with_flags, self.flags = checked(program)
        self.program, self.original = optimized(with_flags, covers, COMPOSED), program
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

        made: Any = call
        made.compiled, made.source = self, self.source
        return made  # type: ignore[no-any-return]

    def source(self) -> str:
        """LLVM IR of the nests for contiguous inputs; calls of kernels are not part of it."""
        planned = plan(self.program, [Layout.contiguous(shape) for shape, _ in self.expected], covers)
        return module([step.nest for step in planned.steps if isinstance(step, Run)])

    def specialised(self, handles: Sequence[Any]) -> tuple[Any, ...]:
        """The same of inputs that look new."""
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
        found: tuple[Any, ...] = run(*arrays)
        return found

    def printed(self, plan: Plan, layouts: Sequence[Layout]) -> Callable[..., Any]:
        """A plan as a Python function, which returns ``None`` where its inputs are others than it is for."""
        dumps = os.environ.get("MICROGRAD_JIT_DUMP", "0") not in ("", "0")
        if dumps:
            print(f"# nests: loops, and calls of kernels, in the order in which they run\n{plan}", file=sys.stderr)
        steps = segments(plan, [*zip(layouts, self.program.types, strict=False)], _shared, _multiplied)
        scope: dict[str, Any] = {"empty": np.empty, "contiguous": contiguous, "half": as_half}
        scope |= {"together": together, "multiplied": multiplied, "__warningregistry__": WITHHELD}
        functions = iter(_functions(steps, layouts, [dtype for _, dtype in self.expected]))
        lines, last = list[str](), _last_uses(steps, plan)
        inputs = [f"v{n}" for n in range(self.inputs)]
        for i, step in enumerate(steps):
            if isinstance(step, Call):
                scope[f"k{i}"] = self.kernel(step)
                operands = [f"v{x.number}" if isinstance(x, Ref) else repr_of(x, scope) for x in step.operands]
                results = ", ".join(f"v{n}" for n in step.results)
                lines.append(f"{results}{',' * (operation(step.op).parts is not None)} = k{i}({', '.join(operands)})")
                lines += [f"v{n} = contiguous(v{n})" for n in step.results if n in plan.contiguous]
            else:
                lines += self.called(i, step, next(functions), scope, inputs if i == 0 else [])
            gone = [f"v{n}" for n in last.get(i, ()) if n >= self.inputs]
            if gone:
                lines.append(f"del {', '.join(gone)}")
        outputs = [f"v{x.number}" if isinstance(x, Ref) else repr_of(x, scope) for x in plan.outputs]
        if self.flags:
            scope["refused"] = by_kernels(self.original, self.backend)
            flags, outputs = outputs[-self.flags :], outputs[: -self.flags]
            lines.append(f"if {' or '.join(flags)}: return refused({', '.join(inputs)})")
        lines.append(f"return ({''.join(x + ', ' for x in outputs)})")
        source = "\n    ".join([f"def run({', '.join(inputs)}):", *lines])
        if dumps:
            print(
                f"# program: the same as Python runs it, with loops in a row as one function of machine code\n{source}",
                file=sys.stderr,
            )
        exec(source, scope)
        found: Callable[..., Any] = scope.pop("run")
        return found

    def called(
        self, i: int, step: Run | Product | Segment, function: Any, scope: dict[str, Any], inputs: list[str]
    ) -> list[str]:
        """The call of a segment, or of a step that threads share, as Python; `inputs` are looked at, too."""
        lines = []
        for n, x in zip(makes(step), types_of(step), strict=True):
            scope[f"s{n}"], scope[f"d{n}"] = x.shape, self.backend.dtypes[x.dtype.name]
            text = f"empty(s{n}, d{n})"
            lines.append(f"v{n} = half({text})" if x.dtype.bits == 16 and x.dtype.is_floating else f"v{n} = {text}")
        given = [f"v{n}" for n in (*reads(step), *makes(step))]
        scope[f"n{i}"] = function
        if not isinstance(step, Segment):
            if isinstance(step, Product):
                scope[f"b{i}"] = np.array([blas.product(step.type.dtype.name)], "uint64")
                given.insert(0, f"b{i}")
                return [*lines, f"multiplied(n{i}, {count(step)}, {', '.join(given)})"]
            return [*lines, f"together(n{i}, {count(step)}, {ranges_of(work(step.nest))}, {', '.join(given)})"]
        if step.size > STACK:
            scope["bytes"] = np.dtype("uint8")
            scope[f"arenas{i}"] = list[Any]()  # those that no call has at the moment
            lines.append(f"arena = arenas{i}.pop() if arenas{i} else empty({step.size}, bytes)")
            given.append("arena")
        scope["single"] = alone()
        text = f"{f'single(n{i}, ' if _single(step) else f'n{i}('}{', '.join([*inputs, *given])})"
        lines.append(f"if {text}: return None" if inputs else text)
        if step.size > STACK:
            lines.append(f"arenas{i}.append(arena)" if step.size <= KEPT else "del arena")
        return lines

    def kernel(self, step: Call) -> Callable[..., Any]:
        """A kernel with its parameters, and the composition for what it declines."""
        function, params = self.backend.kernel(step.op), native(step, self.backend.dtypes)
        if function is None:
            return partial(compose(step.op, self.backend), **step.params)
        if operation(step.op).compose is None:
            return partial(function, **params)
        composed = compose(step.op, self.backend)

        def either(*operands: Any) -> Any:
            result = function(*operands, **params)
            return composed(*operands, **step.params) if result is NotImplemented else result

        return either


def repr_of(x: Any, scope: dict[str, Any]) -> str:
    """A Python number in the source: by name, because infinities have no literal."""
    name = f"c{len(scope)}"
    scope[name] = x
    return name


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
    if x.__class__ in (np.ndarray, Half) and x.flags.c_contiguous:
        return x
    return as_half(np.array(x, order="C"))


def _last_uses(steps: Sequence[Step], plan: Plan) -> dict[int, list[int]]:
    """The values that nobody reads after a step."""
    last = {n: i for i, step in enumerate(steps) for n in (*reads(step), *makes(step))}
    kept = {x.number for x in plan.outputs if isinstance(x, Ref)}
    found: dict[int, list[int]] = {}
    for n, i in last.items():
        if n not in kept:
            found.setdefault(i, []).append(n)
    return found


# ── functions of nests ───────────────────────────────────────────────────────────────────────────────────────


def _multiplied(x: Outline) -> bool:
    """Whether BLAS is called for a product."""
    return blas.product(x.dtype.name) != 0


def _shared(step: Run | Product) -> bool:
    """Whether threads share a nest, or a stack of products. One product is OpenBLAS's own threads' to share."""
    return count(step) > 1 and weight(step, work) >= LARGE and not empty(step)


def _single(step: Segment) -> bool:
    """Whether OpenBLAS is told to use one thread for a segment, as `products` says of its largest product."""
    largest = max([math.prod(x.sizes) for x in step.steps if isinstance(x, Product) and not x.stack], default=0)
    return ALONE[0] < largest <= ALONE[1] and alone() is not None


def _functions(steps: Sequence[Step], layouts: Sequence[Layout], dtypes: Sequence[Any]) -> Iterator[Callable[..., Any]]:
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
            texts[f"call{i}"] = entry.text(names, sum(weight(x, work) for x in step.steps))
        elif not isinstance(step, Call):
            texts[f"share{i}"] = entries.share(f"share{i}", names[id(step)], entries.arrays(step))
    shares = [f"{name}.job" for name in texts if name.startswith("share")]
    called = [*[entries.ranged(names[id(x)], x) for x in products], *texts.values()]
    held = library(_bounded(modules([*nests.values()]), called), [*texts, *shares])
    types = [(as_half(np.empty(0, x)).__class__, x) for x in dtypes]
    for i, step in enumerate(steps):
        if isinstance(step, Segment):
            yield entries.function(held, f"call{i}", types if i == 0 else (), layouts)
        elif not isinstance(step, Call):
            yield entries.function_of_share(held, f"share{i}", entries.arrays(step), ctypes.c_int64)


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


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


def work(nest: Nest) -> int:
    """How long a nest takes, in elements of a sum."""
    weights = [
        DEAR_LINE if isinstance(line, Draw) or (isinstance(line, Compute) and line.op in DEAR) else 1
        for part in nest.parts
        if part.inner or not nest.reduced
        for line in part.lines
    ]
    return math.prod(nest.kept) * math.prod(nest.reduced) * sum(weights) // 4


class _Threads:
    """The pool of the process, made when it is first needed; a process that is forked off makes its own."""

    pool: ThreadPoolExecutor | None = None
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @classmethod
    def of_process(cls) -> ThreadPoolExecutor:
        if cls.pool is None:
            cls.pool = ThreadPoolExecutor(max(cls.count - 1, 1), thread_name_prefix="micrograd")
        return cls.pool

    @classmethod
    def forget(cls) -> None:
        cls.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Threads.forget)


ALIGNED: Final = 64
"""Ranges of threads begin at multiples of this, where there are enough units: no two write to one cache line."""
RANGES: Final = 8
"""For each thread, at most: one that comes late, because another program has its core, takes fewer."""
GRAIN: Final = 300_000
"""What is worth a range of its own, weighed as `LARGE` is."""


def ranges_of(work: int) -> int:
    """Into how many ranges a nest is divided for each thread."""
    return max(1, min(RANGES, work // (GRAIN * _Threads.count)))


def _step(count: int, threads: int, ranges: int) -> int:
    step = -(-count // (threads * ranges if threads > 1 else 1))
    return -(-step // ALIGNED) * ALIGNED if step > ALIGNED else step


def together(share: Callable[..., Any], count: int, ranges: int, *arrays: Any) -> None:
    """All units of a nest, by all threads, which take ranges of it. Results do not depend on who takes which.

    Each begins with a part of its own, the same at each call, which is in its core's cache; then it helps the others.
    """
    _divided(share, count, ranges, _Threads.count, arrays)


def multiplied(share: Callable[..., Any], count: int, *arrays: Any) -> None:
    """The same of a stack of products, by no more threads than OpenBLAS is told to use, of which each calls it."""
    single = alone()
    if single is None:
        _divided(share, count, 1, _Threads.count, arrays)
    else:
        single(lambda: _divided(share, count, 1, min(_Threads.count, single.threads()), arrays))


def _divided(share: Callable[..., Any], count: int, ranges: int, most: int, arrays: Sequence[Any]) -> None:
    threads, layout, begins = _division(count, ranges, most, len(arrays))
    if PLAIN:
        left = array("q", [0])
        _by_threads(lambda _: share(left.buffer_info()[0], count, begins[2], *arrays), threads)
        return
    words = [x if x.__class__ is int else id(x) for x in arrays]
    if not team.do(threads, layout, share.job, *begins, *words):  # type: ignore[attr-defined]
        taken = array("q", [0])
        share(taken.buffer_info()[0], count, count, *arrays)


@lru_cache(maxsize=1024)
def _division(count: int, ranges: int, most: int, arrays: int) -> tuple[int, Struct, tuple[int, ...]]:
    """For how many threads, how the words of a job lie, and what it begins with after its function."""
    threads = min(most, count, team.SEATS)
    most = _step(count, threads, 1)
    begins = range(0, count, most)
    words = count, most, -(-most // ranges), len(begins), *begins
    return len(begins), Struct(f"{1 + len(words) + arrays}q"), words


def shared(part: Callable[[int, int], Any], count: int) -> None:
    """The same of a function of Python, ``part(begin, end)``."""
    threads = min(_Threads.count, count)
    step = _step(count, threads, RANGES)
    left = deque(range(0, count, step))

    def take(first: int) -> None:
        while left:
            try:
                begin = left.popleft()
            except IndexError:  # another thread was faster
                return
            part(begin, min(begin + step, count))

    _by_threads(take, min(threads, len(left)))


def _by_threads(take: Callable[[int], Any], threads: int) -> None:
    """`take` of its number by each thread, this one's is 0; without those that have not begun when this one is done."""
    helpers = []
    with suppress(RuntimeError):  # the system gives no more threads, or Python is about to end
        # A handler that interrupted this would wait for the pool's own lock, which its thread holds.
        for i in range(1, 1 if team.is_amid(_by_threads) else threads):
            helpers.append(_Threads.of_process().submit(take, i))
    take(0)
    for each in helpers:
        if not each.cancel():
            each.result()
