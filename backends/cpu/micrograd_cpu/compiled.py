"""`compile` of the cpu backend: a typed program as compiled nests, and NumPy's kernels for the rest.

For each layout of its inputs, as they come, there is a plan and a Python function that was printed for it: a line for a
nest or a call. What a nest writes is fresh memory. Without llvmlite, and for programs without types, the kernels run in
a row.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.assembly import DEAR
from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.nests import Compute, Nest
from micrograd_core.compiler.passes import optimized
from micrograd_core.compiler.program import Program, Ref, native, operation, straight_line
from micrograd_core.layout import Layout, contiguous_strides
from micrograd_core.tables.raw import compose
from micrograd_cpu.half import Half, as_half
from micrograd_cpu.llvm import Sizes, module, units
from micrograd_cpu.scalars import covers

DATA: Final = object.__basicsize__
"""Where in an array's object the address of its elements stands: right after what all objects begin with."""
LAYOUTS: Final = 8
"""Layouts of inputs that a program is compiled for; in any others they are copied first."""
LARGE: Final = 6_000_000
"""Elements, weighed by what is computed of each, from which on a loop is worth a second thread."""
DEAR_LINE: Final = 24
"""How much longer a function of `mathematics` takes than a sum."""


def available() -> bool:
    """Whether programs can be compiled: llvmlite is there, and arrays look as they should."""
    from importlib.util import find_spec

    probe = np.zeros(1)
    there = ctypes.c_void_p.from_address(id(probe) + DATA).value
    return find_spec("llvmlite") is not None and there == probe.__array_interface__["data"][0]


def function(program: Program, backend: Any) -> Callable[..., Any]:
    """A program as one function of its input handles."""
    if program.types and available():
        return Compiled(program, backend).function()
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
        self.program = optimized(program, covers)
        self.runs: dict[Any, Callable[..., Any]] = {}  # by what one sees of the inputs
        self.plans: dict[Any, Callable[..., Any]] = {}  # by layout
        self._lock = threading.Lock()
        types = program.types[: program.inputs]
        self.expected = [(x.shape, backend.dtypes[x.dtype.name]) for x in types]

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """A function of input handles: what one sees of them leads to the function that was printed for it.

        It is printed, too: to go through the inputs in a loop would take as long as all the rest.
        """
        names = [f"v{n}" for n in range(self.inputs)]
        seen = "".join(f"{v}.strides, {v}.shape, {v}.__class__, {v}.dtype.num, " for v in names)
        given = ", ".join(names)
        source = (
            f"def call(*handles):\n    try:\n        {given or '()'}{',' * bool(names)} = handles\n"
            f"        run = runs[({seen})]\n    except (KeyError, AttributeError, ValueError):\n"
            f"        run, handles = specialised(handles)\n    return run(*handles)\n"
        )
        scope: dict[str, Any] = {"runs": self.runs, "specialised": self.specialised}
        exec(source, scope)
        call: Any = scope["call"]
        call.compiled, call.source = self, self.source
        return call  # type: ignore[no-any-return]

    def source(self) -> str:
        """LLVM IR of the nests for contiguous inputs; calls of kernels are not part of it."""
        planned = plan(self.program, [Layout.contiguous(shape) for shape, _ in self.expected], covers)
        return module([step.nest for step in planned.steps if isinstance(step, Run)])

    def specialised(self, handles: Sequence[Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function for inputs that look new, and the inputs as it wants them."""
        if len(handles) != self.inputs:
            raise TypeError(f"the program takes {self.inputs} handles; got {len(handles)}")
        arrays = tuple([_whole(x) for x in handles])
        for i, (x, (shape, dtype)) in enumerate(zip(arrays, self.expected, strict=True)):
            if x.shape != shape or x.dtype != dtype:
                raise TypeError(
                    f"the program was compiled for a {dtype} of shape {shape} as input {i}; got a {x.dtype} of shape "
                    f"{x.shape}"
                )
        with self._lock:
            layouts = tuple([_layout(x) for x in arrays])
            if layouts not in self.plans and len(self.plans) >= LAYOUTS:
                arrays = tuple([as_half(np.array(x, order="C")) for x in arrays])
                layouts = tuple([Layout.contiguous(x.shape) for x in arrays])
            if layouts not in self.plans:
                self.plans[layouts] = self.printed(plan(self.program, layouts, covers))
            run = self.plans[layouts]
            if all(x is y for x, y in zip(arrays, handles, strict=True)):
                seen = [each for x in arrays for each in (x.strides, x.shape, x.__class__, x.dtype.num)]
                self.runs[tuple(seen)] = run
        return run, arrays

    def printed(self, plan: Plan) -> Callable[..., Any]:
        """A plan as a Python function."""
        if os.environ.get("MICROGRAD_JIT_DUMP", "0") not in ("", "0"):
            print(f"# nests\n{plan}", file=sys.stderr)
        scope: dict[str, Any] = {"empty": np.empty, "contiguous": contiguous, "half": as_half, "shared": shared}
        nests = [step.nest for step in plan.steps if isinstance(step, Run)]
        functions = iter(_functions(nests))
        lines, last = list[str](), _last_uses(plan)
        for i, step in enumerate(plan.steps):
            if isinstance(step, Call):
                scope[f"k{i}"] = self.kernel(step)
                operands = [f"v{x.number}" if isinstance(x, Ref) else repr_of(x, scope) for x in step.operands]
                results = ", ".join(f"v{n}" for n in step.results)
                lines.append(f"{results}{',' * (operation(step.op).parts is not None)} = k{i}({', '.join(operands)})")
                lines += [f"v{n} = contiguous(v{n})" for n in step.results if n in plan.contiguous]
            else:
                scope[f"n{i}"], parts = next(functions)
                for n, x in zip(step.outputs, step.types, strict=True):
                    scope[f"s{n}"], scope[f"d{n}"] = x.shape, self.backend.dtypes[x.dtype.name]
                    text = f"empty(s{n}, d{n})"
                    lines.append(
                        f"v{n} = half({text})" if x.dtype.bits == 16 and x.dtype.is_floating else f"v{n} = {text}"
                    )
                given = ", ".join(f"v{n}" for n in (*step.inputs, *step.outputs))
                count = units(step.nest)
                if count and not all(math.prod(x.shape) == 0 for x in step.types):
                    if count > 1 and work(step.nest) >= LARGE:
                        scope[f"p{i}"] = parts
                        lines.append(f"shared(p{i}, {count}, {given})")
                    else:
                        lines.append(f"n{i}({given})")
            gone = [f"v{n}" for n in last.get(i, ()) if n >= self.inputs]
            if gone:
                lines.append(f"del {', '.join(gone)}")
        outputs = [f"v{x.number}" if isinstance(x, Ref) else repr_of(x, scope) for x in plan.outputs]
        lines.append(f"return ({''.join(x + ', ' for x in outputs)})")
        head = f"def run({', '.join(f'v{n}' for n in range(self.inputs))}):"
        exec("\n    ".join([head, *lines]), scope)
        found: Callable[..., Any] = scope["run"]
        return found

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


def _last_uses(plan: Plan) -> dict[int, list[int]]:
    """The values that nobody reads after a step."""
    last: dict[int, int] = {}
    for i, step in enumerate(plan.steps):
        if isinstance(step, Call):
            read = [x.number for x in step.operands if isinstance(x, Ref)]
            made: Sequence[int] = step.results
        else:
            read, made = list(step.inputs), step.outputs
        for n in (*read, *made):
            last[n] = i
    kept = {x.number for x in plan.outputs if isinstance(x, Ref)}
    found: dict[int, list[int]] = {}
    for n, i in last.items():
        if n not in kept:
            found.setdefault(i, []).append(n)
    return found


# ── functions of nests ───────────────────────────────────────────────────────────────────────────────────────


def _functions(nests: Sequence[Nest]) -> Sequence[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Of each nest, a function of its arrays, and one of a range of its units and its arrays."""
    if not nests:
        return []
    from micrograd_cpu.objects import library

    names = [f"{kind}{i}" for i in range(len(nests)) for kind in ("all", "part")]
    held = library("\n".join([module(nests), *[entries(i, nest) for i, nest in enumerate(nests)]]), names)
    found = []
    for i, nest in enumerate(nests):
        arrays = [ctypes.py_object for x in nest.buffers if x.role != "scratch"]
        whole = ctypes.CFUNCTYPE(None, *arrays)(held.address(f"all{i}"))
        part = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *arrays)(held.address(f"part{i}"))
        for function in (whole, part):
            function.library = held  # type: ignore[attr-defined]  # the code lives as long as who calls it
        found.append((whole, part))
    return found


def entries(i: int, nest: Nest, sizes: Sizes | None = None) -> str:
    """``@part0(begin, end, arrays)`` and ``@all0(arrays)``, which take arrays as Python's objects.

    To ask an array for its address from Python takes longer than to multiply small ones. Where there are `sizes`, the
    first takes them before the arrays, and there is no second.
    """
    count = sum(x.role != "scratch" for x in nest.buffers)
    objects = ", ".join(f"ptr %o{n}" for n in range(count))
    addresses = "".join(
        f"  %f{n} = getelementptr i8, ptr %o{n}, i64 {DATA}\n  %d{n} = load ptr, ptr %f{n}\n" for n in range(count)
    )
    given = "".join(f", ptr %d{n}" for n in range(count))
    if sizes is not None:
        objects, given = f"ptr %sizes, {objects}", f", ptr %sizes{given}"
    whole = (
        f"define void @all{i}({objects}) {{\n{addresses}"
        f"  call void @nest{i}(i64 0, i64 {units(nest)}{given})\n  ret void\n}}\n"
    )
    part = (
        f"define void @part{i}(i64 %begin, i64 %end, {objects}) {{\n{addresses}"
        f"  call void @nest{i}(i64 %begin, i64 %end{given})\n  ret void\n}}\n"
    )
    return whole + part if sizes is None else part


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


def work(nest: Nest) -> int:
    """How long a nest takes, in elements of a sum."""
    weights = [
        DEAR_LINE if isinstance(line, Compute) and line.op in DEAR else 1
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
"""For each thread: one that comes late, because another program has its core, takes fewer."""


def shared(part: Callable[..., Any], count: int, *arrays: Any) -> None:
    """All units of a nest, by all threads, in ranges. Results do not depend on who takes which."""
    threads = min(_Threads.count, count)
    step = -(-count // (threads * RANGES if threads > 1 else 1))
    if step > ALIGNED:
        step = -(-step // ALIGNED) * ALIGNED
    left = deque(range(0, count, step))

    def take() -> None:
        while left:
            try:
                begin = left.popleft()
            except IndexError:  # another thread was faster
                return
            part(begin, min(begin + step, count), *arrays)

    helpers = [_Threads.of_process().submit(take) for _ in range(min(threads, len(left)) - 1)]
    take()
    for each in helpers:
        if not each.cancel():
            each.result()
