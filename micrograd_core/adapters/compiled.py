"""`CompiledBackend`: a backend over a compiler for some C-like language. It prints loop nests; you compile and launch them.

You write six methods and name a `Language` (`micrograd_core.compiler.languages` has tables to start from):

==============================================  ====================================================================
``alloc(count, dtype)``                         a new buffer for `count` elements, contents undefined
``write(buffer, data)``                         copy C-order bytes into the start of a buffer
``read_range(buffer, start, end)``              some bytes of a buffer, when they are there
``free(buffer)``                                called once, when the last handle of a buffer is gone
``build(text, nest)``                           compile the body of a kernel; what it returns is passed to ``launch``
``launch(function, units, integers, buffers)``  run the body `units` times, with ``u`` counting from 0
==============================================  ====================================================================

The body is text. It uses the names ``u`` (the unit), ``m`` (the integers that a launch passes), ``at0``, ``at1``, …
(the first integers: where each buffer's elements begin) and ``p0``, ``p1``, … (the buffers that are not scratch memory,
in order). Two units may run at the same time and in any order; two launches run in order. Everything else, elementwise
operations, reductions, fused eager kernels and `jit`, comes from here.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from micrograd_core.adapters.strided import Strided, StridedBackend
from micrograd_core.compiler.executor import Function, bound, counted
from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.languages import ANY, ARITHMETIC, BITWISE, Language
from micrograd_core.compiler.lengths import Axis, Length, actual
from micrograd_core.compiler.nests import (
    Buffer,
    Compute,
    Line,
    Load,
    Nest,
    Number,
    Part,
    Place,
    Reduce,
    Store,
    compositions_of_nests,
    neighbours,
)  # fmt: skip
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Program, Ref, operation
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.text import Given, Printer
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import ShapeError
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout, Shape

LAYOUTS: Final = 8
"""Layouts of inputs that a program is planned for; in any others they are copied first."""
TIERS: Final = (2, 1 << 13, 1 << 62)
"""Lengths from one of these up to the next share a text: the scratch memory of a row has a limit."""
CHUNK: Final = 4096
"""Elements of a reduction that one unit combines; longer ones go by chunks, and then by their results."""


class CompiledBackend(StridedBackend):
    """A backend that compiles printed nests (see the module's table).

    Parameters
    ----------
    device : str
        Canonical name, such as ``"mine:0"``.
    dtypes : collection of str, optional
        Names of the core's dtypes that the device computes in; by default all that `language` has types for.
    """

    language: ClassVar[Language]
    capabilities = StridedBackend.capabilities | {"jit"}
    most_buffers: int = 1 << 30
    """Buffers that a kernel may have, scratch memory aside."""
    row_bytes: int = 0
    """Scratch memory that each unit may have; without it, more is computed twice."""

    def __init__(self, device: str, dtypes: Sequence[str] = ()) -> None:
        native = {name: DTYPES[name] for name in dtypes or self.language.types}
        super().__init__(device, native)
        own = [*ANY, *ARITHMETIC, *BITWISE, *self.language.functions]
        self.kernels |= {name: partial(self.elementwise, name) for name in own if name not in ("astype", "copy")}
        self.kernels |= {name: partial(self.reduction, name) for name in ("sum", "prod", "max", "min")}
        self._built: dict[Hashable, tuple[Any, tuple[Length, ...], tuple[int, ...]]] = {}
        self._plans: dict[Hashable, Any] = {}
        self._plan = partial(
            plan, covers=self.language.covers, most_buffers=self.most_buffers, row_bytes=self.row_bytes
        )
        self._compositions = compositions_of_nests()
        self._lock = threading.RLock()

    # ── the author's part ────────────────────────────────────────────────────────────────────────────────────

    def build(self, text: str, nest: Nest) -> Any:
        """Compile the body of a kernel. `nest.buffers` has the dtypes of its buffers; scratch memory is in the text."""
        raise NotImplementedError

    def launch(self, function: Any, units: int, integers: Sequence[int], buffers: Sequence[Any]) -> None:
        """Run what `build` returned for units 0 to `units` - 1, with these integers and buffers."""
        raise NotImplementedError

    def read(self, buffer: Any) -> Any:
        """Not asked for: `read_range` is."""
        raise NotImplementedError

    # ── nests ────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, key: Hashable, nest: Callable[[], Nest], units: int, integers: Sequence[int], handles: Sequence[Any],
            lengths: Sequence[int] = ()) -> None:  # fmt: skip
        """Launch a nest, which is printed and built at the first call with a key."""
        found = self._built.get(key)
        if found is None:
            with self._lock:
                made, count = nest(), len(integers) + len(handles)
                printer = Printer(made, self.language, count)
                function = self.build(printer.body(), made)
                found = self._built[key] = function, tuple(printer.sizes), ()
        function, sizes, _ = found
        given = [*(x.layout.offset for x in handles), *integers, *(actual(x, lengths) for x in sizes)]
        self.launch(function, units, given, [self._buffer(x) for x in handles])

    def _buffer(self, x: Strided) -> Any:
        """The buffer of a handle; without elements some other one, which no unit touches."""
        return x.buffer if x.buffer is not None else self._nothing(x.dtype)

    def _nothing(self, dtype: Any) -> Any:
        found = self.__dict__.setdefault("_nothings", {})
        if dtype not in found:
            found[dtype] = self.empty((1,), dtype)
        return found[dtype].buffer

    # ── one operation: lengths and strides are integers of the launch ────────────────────────────────────────

    def map(self, op: str, out: Strided, *operands: Any) -> Any:
        """One nest for an operation, its dtypes and its number of axes."""
        given = [x if isinstance(x, Strided) else None for x in operands]
        dtype = next((self._core[x.dtype] for x in reversed(given) if x is not None), self._core[out.dtype])
        if op != "copy" and not self.language.covers(op, [x if x is not None else 0 for x in self._specs(operands)]):
            return NotImplemented
        arrays = [out, *(x for x in given if x is not None)]
        if any(x.buffer is out.buffer for x in arrays[1:]):
            arrays[1:] = [self._fresh("copy", x.shape, x.dtype, x) if x.buffer is out.buffer else x for x in arrays[1:]]
        numbers = tuple([None if isinstance(x, Strided) else x for x in operands])
        repeated = (0,) * len(out.shape)
        strides = [x.layout.strides if x.shape == out.shape else repeated for x in arrays]
        groups = neighbours(out.shape, strides)
        return self._one(op, out, arrays, groups, [], strides, repr(numbers), numbers, dtype)

    def _specs(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Operands as `Language.covers` takes them."""
        return tuple([TensorSpec(x.shape, self._core[x.dtype]) if isinstance(x, Strided) else x for x in operands])

    def reduce(self, op: str, out: Strided, x: Strided) -> Any:
        """One nest for an operation, its dtype and its number of axes; long ones in two."""
        if not self.language.covers(op, self._specs([x])):
            return NotImplemented
        ndim, rows = len(out.shape), out.layout.size
        length = x.layout.size // rows
        if length > 2 * CHUNK and out.dtype is x.dtype:
            return self._in_chunks(op, out, x, length)
        shape = x.shape
        strides = [(*out.layout.strides, *(0,) * (len(shape) - ndim)), x.layout.strides]
        groups = neighbours(shape, strides, ndim)
        kept, gone = [g for g in groups if g[0] < ndim], [g for g in groups if g[0] >= ndim]
        return self._one(op, out, [out, x], kept, gone, strides, "", (None,), self._core[x.dtype], shape)

    def _in_chunks(self, op: str, out: Strided, x: Strided, length: int) -> Any:
        """Reduce chunks of each row, what is left of it, and then their results."""
        whole = x if x.layout.reshape((*out.shape, length)) is not None else self._fresh("copy", x.shape, x.dtype, x)
        rows = whole.view(whole.layout.reshape((*out.shape, length)))  # type: ignore[arg-type]
        count, rest = divmod(length, CHUNK)
        parts = self.empty((*out.shape, count + bool(rest)), out.dtype)
        every = tuple(slice(0, n, 1) for n in out.shape)

        def cut(of: Strided, start: int, stop: int) -> Strided:
            return of.view(of.layout.index((*every, slice(start, stop, 1))))

        chunks = cut(rows, 0, count * CHUNK)
        self.reduce(op, cut(parts, 0, count), chunks.view(chunks.layout.reshape((*out.shape, count, CHUNK))))  # type: ignore[arg-type]
        if rest:
            last = cut(rows, count * CHUNK, length)
            self.reduce(op, cut(parts, count, count + 1), last.view(last.layout.reshape((*out.shape, 1, rest))))  # type: ignore[arg-type]
        return self.reduce(op, out, parts)

    def _one(
        self, op: str, out: Strided, arrays: list[Strided], kept: list[list[int]], gone: list[list[int]],
        strides: list[Shape], key: str, operands: tuple[Any, ...], dtype: Any, shape: Shape | None = None,
    ) -> None:  # fmt: skip
        """Launch one operation over groups of axes, each of which is one loop."""
        shape = out.shape if shape is None else shape
        axes = [*kept, *(gone or ([[]] if op in REDUCED else []))]
        integers = [
            n
            for group in axes
            for n in (math.prod([shape[axis] for axis in group]), *(s[group[-1]] if group else 0 for s in strides))
        ]
        count, each = len(arrays), len(arrays) + 1

        def nest() -> Nest:
            lengths = [Given(count + each * i) for i in range(len(axes))]
            places = [
                Place(0, tuple(Given(count + each * i + 1 + j) if j or i < len(kept) else 0 for i in range(len(axes))))  # type: ignore[arg-type, misc]
                for j in range(count)
            ]
            types = [self._core[x.dtype] for x in (*arrays[1:], out)]
            lines: list[Line] = [Load(Ref(j), j + 1, places[j + 1]) for j in range(count - 1)]
            loaded = iter(map(Ref, range(count - 1)))
            given = tuple([next(loaded) if x is None else Number(x, dtype) for x in operands])
            made, store = Ref(count - 1), Store(0, places[0], Ref(count - 1))
            if op in REDUCED:
                parts = (Part(True, (*lines, Reduce(made, op, given[0]))), Part(False, (store,)))
            else:
                parts = (Part(False, (*lines, Compute(made, "astype" if op == "copy" else op, given), store)),)
            buffers = tuple([Buffer("in" if j else "out", self._core[x.dtype], 0) for j, x in enumerate(arrays)])
            return Nest(tuple(lengths[: len(kept)]), tuple(lengths[len(kept) :]), buffers, parts, tuple(types))  # type: ignore[arg-type]

        kind = op, len(kept), len(axes), key, *(x.dtype.name for x in arrays)
        self.run(kind, nest, out.layout.size, integers, arrays)

    # ── fused compositions: lengths are integers of the launch ───────────────────────────────────────────────

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """From the table; compositions that are nests run as such."""
        found = self.kernels.get(op)
        if found is None and op in self._compositions:
            found = self.kernels[op] = partial(self._fused, op, self._compositions[op])
        return found

    def _fused(self, name: str, composition: Callable[..., Any], *operands: Any, **params: Any) -> Any:
        """Run a composition as nests, planned once for arrays of every size; decline what nests do not compute."""
        handles = [self._contiguous(x) for x in operands if isinstance(x, Strided)]
        lengths = [*dict.fromkeys([n for x in handles for n in x.shape if n != 1])]
        if 0 in lengths:
            return NotImplemented
        symbols = {n: Length([Axis(i, *_tier(n))]) for i, n in enumerate(lengths)}
        specs = [
            TensorSpec(tuple([symbols.get(n, 1) for n in x.shape]), self._core[x.dtype])  # type: ignore[misc]
            if isinstance(x, Strided) else x for x in operands
        ]  # fmt: skip
        kind = name, repr(sorted(params.items())), *map(repr, specs), *(symbols[n].bounds for n in lengths)
        if kind not in self._plans:
            self._plans[kind] = self._planned_for_all(composition, specs, params)
        found = self._plans[kind]
        if found is None:
            return NotImplemented
        values: dict[int, Strided] = dict(enumerate(handles))
        for i, step in enumerate(found.steps):
            shapes = [tuple([actual(n, lengths) for n in type.shape]) for type in step.types]
            made = [
                self.empty(shape, self.dtypes[type.dtype.name]) for shape, type in zip(shapes, step.types, strict=True)
            ]
            values.update(zip(step.outputs, made, strict=True))
            units = math.prod([actual(n, lengths) for n in step.nest.kept])
            given = [*(values[n] for n in step.inputs), *made]
            self.run((kind, i), lambda nest=step.nest: nest, units, (), given, lengths)  # type: ignore[misc]
        results = tuple([values[x.number] for x in found.outputs])
        return results if len(results) > 1 else results[0]

    def _planned_for_all(self, composition: Any, specs: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """The nests of a composition over symbolic lengths; ``None`` where there is more, or a length decides."""
        try:
            program = written(composition, [(*x,) if isinstance(x, TensorSpec) else x for x in specs], dict(params))
            if program is None:
                return None
            layouts = [Layout.contiguous(x.shape) for x in specs if isinstance(x, TensorSpec)]
            found = self._plan(optimized(program, self.language.covers), layouts)
        except (ShapeError, TypeError):
            return None
        nests = all(isinstance(step, Run) for step in found.steps)
        return found if nests and all(isinstance(x, Ref) for x in found.outputs) else None

    # ── programs ─────────────────────────────────────────────────────────────────────────────────────────────

    def compile(self, program: Program) -> Callable[..., Any]:
        """A program as nests and calls, planned for each layout of its inputs."""
        if not program.types:
            run = Function(program.inputs)
            for step, made in program.numbered():
                parts = operation(step.op).parts is not None
                run.call(
                    bound(step, self.kernel, partial(compose, backend=self), self.dtypes), step.operands, made, parts
                )
            return counted(run.made(run.source(program.outputs)), program.inputs)
        whole, plans, lock = optimized(program, self.language.covers), dict[Any, Callable[..., Any]](), threading.Lock()

        def call(*handles: Strided) -> Any:
            layouts = tuple([_from_zero(x.layout) for x in handles])
            run = plans.get(layouts)
            if run is None:
                with lock:
                    if len(plans) >= LAYOUTS and layouts not in plans:
                        handles = tuple([self.kernels["copy"](x) for x in handles])
                        layouts = tuple([_from_zero(x.layout) for x in handles])
                    if layouts not in plans:
                        plans[layouts] = self._planned(self._plan(whole, layouts), program.inputs)
                    run = plans[layouts]
            return run(*handles)

        return counted(call, program.inputs)

    def _planned(self, found: Plan, inputs: int) -> Callable[..., Any]:
        """A plan as a Python function with a line for each nest and each call."""
        if os.environ.get("MICROGRAD_JIT_DUMP", "0") not in ("", "0"):
            print(found, file=sys.stderr)
        run = Function(inputs)
        for step in found.steps:
            if isinstance(step, Call):
                parts = operation(step.op).parts is not None
                run.call(
                    bound(step, self.kernel, partial(compose, backend=self), self.dtypes),
                    step.operands,
                    step.results,
                    parts,
                )
                turned = [n for n in step.results if n in found.contiguous]
                run.step([f"v{n} = {run.constant(self._contiguous)}(v{n})" for n in turned], turned)
            else:
                run.call(partial(self._nest, step), [*map(Ref, step.inputs)], step.outputs, True)
        return run.made(run.source(found.outputs))

    def _nest(self, step: Run, *given: Strided) -> tuple[Strided, ...]:
        """Run one nest of a plan."""
        made = tuple([self.empty(type.shape, self.dtypes[type.dtype.name]) for type in step.types])
        units = math.prod(step.nest.kept)
        if units:
            self.run(repr(step.nest), lambda: step.nest, units, (), [*given, *made])
        return made

    def _contiguous(self, x: Strided) -> Strided:
        """A handle whose elements lie in order."""
        return x if x.layout.is_contiguous else self.kernels["copy"](x)


def _tier(n: int) -> tuple[int, int]:
    """The least and the most of the lengths that share a text with one."""
    return next((least, most) for least, most in itertools.pairwise(TIERS) if least <= n < most)


REDUCED: Final = frozenset(("sum", "prod", "max", "min"))


def _from_zero(layout: Layout) -> Layout:
    """How a handle lies, from its own first element."""
    return Layout(layout.shape, layout.strides, 0) if layout.size else Layout.contiguous(layout.shape)


__all__ = ["CompiledBackend"]
