"""`CompiledBackend`: a backend over a compiler for a C-like language. It prints nests; you compile and launch them.

You write six methods and name a `Language` (`micrograd_core.compiler.languages` has tables to start from):

==============================================  ====================================================================
``alloc(count, dtype)``                         a new buffer for `count` elements, contents undefined; or `MemoryError`
``write(buffer, data)``                         copy C-order bytes into the start of a buffer, in order with launches
``read_range(buffer, start, end)``              some bytes of a buffer, when they are there
``free(buffer)``                                give a buffer back, which nothing leads to any more
``build(text, nest)``                           compile the body of a kernel; what it returns is passed to ``launch``
``launch(function, units, integers, buffers)``  run the body `units` times, with ``u`` counting from 0
==============================================  ====================================================================

The body is text. It uses the names ``u`` (the unit), ``m`` (the integers that a launch passes), ``at0``, ``at1``, …
(the first integers: where each buffer's elements begin) and ``p0``, ``p1``, … (the buffers that are not scratch memory,
in order). Two units may run at the same time and in any order; two launches run in order. With `group`, a body runs for
whole workgroups and finds which units there are. Everything else, elementwise operations, reductions, fused eager
kernels and `jit`, comes from here.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar, Final

from micrograd_core.adapters import templates
from micrograd_core.adapters.pool import Pool
from micrograd_core.adapters.strided import MAPS, Owner, Strided, StridedBackend, cut
from micrograd_core.compiler import joint, nests
from micrograd_core.compiler.executor import Function, bound, counted, straight_line
from micrograd_core.compiler.fusion import Call, Limits, Plan, Run, plan
from micrograd_core.compiler.languages import ANY, ARITHMETIC, BITWISE, Language
from micrograd_core.compiler.lengths import Axis, Length, actual
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Program, Ref, Step, operation
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.text import Given
from micrograd_core.dtypes import DTYPES, pack
from micrograd_core.errors import ShapeError
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout, Shape
from micrograd_core.ops import TABLE
from micrograd_core.support.dumping import dump
from micrograd_core.support.locks import lock

BUILDING: Final = lock()
"""Held while a nest is printed and built, or a program is planned."""
LAYOUTS: Final = 8
"""Layouts of inputs that a program is planned for; in any others they are copied first."""
TIERS: Final = (2, 1 << 13, 1 << 62)
"""Lengths from one of these up to the next share a text: the scratch memory of a row has a limit."""
MODELS: Final = 64
"""Lists of parameters for which a rule of an optimiser has a launch."""
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
    limits: Limits = Limits(row_bytes=0)
    """What a kernel may hold; without scratch memory, more is computed twice."""
    threads: int = 1 << 6
    """Units that keep the device busy: of a product with more numbers each computes a tile of them."""
    tile: int = 16
    """Numbers of a product that the registers of a unit hold."""
    lanes: int = 8
    """Units beside each other that compute rows of a product; those of a workgroup, if its compiler can use that."""
    group: int = 0
    """Units of a workgroup; 0 where bodies may not name it, ``w``, a place in it, ``t``, and how many units, ``n``."""
    group_memory: int = 0
    """Bytes that a workgroup shares, where that memory is nearer than a cache."""

    def __init__(self, device: str, dtypes: Sequence[str] = ()) -> None:
        native = {name: DTYPES[name] for name in dtypes or self.language.types}
        super().__init__(device, native)
        self._pool: Any = Pool(self)
        spelled = (self.language.primitives(x) for x in self._core.values())
        own = {*ANY, *ARITHMETIC, *BITWISE, *itertools.chain(*spelled)} - {"astype", "copy"}
        self.kernels |= {name: partial(self._line, name) for name in own - MAPS}
        self.kernels |= {name: partial(self.reduction, name) for name, op in TABLE.items() if op.combine}
        self._built: dict[Hashable, tuple[Any, tuple[Length, ...]]] = {}
        self.kernels |= {name: partial(each, self) for name, each in templates.KERNELS.items()}
        self.kernels |= {"adam_step": self._adam_step, "sgd_step": self._sgd_step}
        self.kernels |= {"fused": lambda compose: partial(self._fused, compose, compose)}
        self._number = lru_cache(4096)(self._uploaded)
        self._plans: dict[tuple[Any, ...], Any] = {}
        self._compositions = nests.compositions_of_nests()
        if self.language.draws and {"int64", "uint64"} <= native.keys():
            self.kernels |= {each.__name__: partial(each, self) for each in templates.RANDOM}
            self.capabilities |= {"random"}

    # ── the author's part ────────────────────────────────────────────────────────────────────────────────────

    def build(self, text: str, nest: nests.Nest) -> Any:
        """Compile the body of a kernel.

        Parameters
        ----------
        text : str
            The body in the language of the device; scratch memory is declared in it.
        nest : Nest
            `nest.buffers` has the dtypes of its buffers.

        Returns
        -------
        Any object that `launch` takes
        """
        raise NotImplementedError

    def launch(self, function: Any, units: int, integers: Sequence[int], buffers: Sequence[Any]) -> None:
        """Run a kernel.

        Parameters
        ----------
        function
            What `build` returned.
        units : int
            The kernel runs for units 0 to `units` - 1.
        integers : sequence of int
            Offsets, lengths and strides, as the body names them.
        buffers : sequence
            From `alloc`.
        """
        raise NotImplementedError

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

    def memory(self) -> dict[str, int]:
        """Bytes of buffers: of those in use, of those that are kept as well, and the most that were in use."""
        return dict(self._pool.memory())

    def release_memory(self) -> None:
        """Free the buffers that are kept."""
        self._pool.release()

    def empty(self, shape: Shape, dtype: Any) -> Strided:
        """Make a contiguous handle on memory of the pool, for a kernel to fill."""
        layout = Layout.contiguous(shape)
        if not layout.size:
            return Strided(None, layout, dtype)
        count, size, owner = layout.size, layout.size * dtype.itemsize, Owner()
        buffer = self._pool.take(count, dtype, size)
        weakref.finalize(owner, self._pool.give, count, dtype, size, buffer).atexit = False
        return Strided(buffer, layout, dtype, owner)

    # ── nests ────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, key: Hashable, nest: Callable[[], nests.Nest], units: int, integers: Sequence[int],
            handles: Sequence[Any], lengths: Sequence[int] = (), text: Any = None) -> None:  # fmt: skip
        """Launch a nest, which is printed and built at the first call with a key.

        Parameters
        ----------
        key : hashable
            Says which nest it is.
        nest : function
            Makes the nest.
        units : int
            How many units of the kernel run.
        integers : sequence of int
            What the nest takes after the offsets of its buffers.
        handles : sequence of Strided
            Its buffers.
        lengths : sequence of int
            The lengths of axes that the nest has as symbols.
        text : function, optional
            Makes the text, of a nest without lines.
        """
        found = self._built.get(key)
        if found is None:
            with BUILDING:
                made, count = nest(), len(integers) + len(handles)
                body, sizes = (text(), ()) if text else joint.body(made, self.language, count, self.group)
                found = self._built[key] = self.build(body, made), sizes
        function, sizes = found
        given = [*(x.layout.offset for x in handles), *integers, *(actual(x, lengths) for x in sizes)]
        held = [self.empty((1,), x.dtype) if x.buffer is None else x for x in handles]  # none without elements
        self.launch(function, units, given, [x.buffer for x in held])

    # ── one operation: lengths and strides are integers of the launch ────────────────────────────────────────

    def map(self, op: str, out: Strided, *operands: Any) -> Any:
        """One kernel for an operation, its dtypes and its number of axes."""
        if op != "copy" and not self._covers(op, *operands):
            return NotImplemented
        dtype = next((x.dtype for x in reversed(operands) if isinstance(x, Strided)), out.dtype)
        given = [x if isinstance(x, Strided) else self._number(x, repr(x), dtype) for x in operands]
        given = [self._fresh("copy", x.shape, x.dtype, x) if x.buffer is out.buffer else x for x in given]
        repeated = (0,) * len(out.shape)
        strides = [x.layout.strides if x.shape == out.shape else repeated for x in given]
        self._launched("astype" if op == "copy" else op, out, given, out.shape, [out.layout.strides, *strides])
        return None

    def reduce(self, op: str, out: Strided, x: Strided) -> Any:
        """One kernel for an operation, its dtype and its number of axes; long rows go by chunks."""
        if not self._covers(op, x):
            return NotImplemented
        length = x.layout.size // out.layout.size
        if length > 2 * CHUNK and out.dtype is x.dtype:
            return self._in_chunks(op, out, x, length)
        strides = (*out.layout.strides, *(0,) * (len(x.shape) - len(out.shape)))
        self._launched(op, out, [x], x.shape, [strides, x.layout.strides], len(out.shape))
        return None

    def _in_chunks(self, op: str, out: Strided, x: Strided, length: int) -> Any:
        """Reduce chunks of each row, and then their results; the last chunk of a row is filled up."""
        count, rows = -(-length // CHUNK), self._reshape(x, shape=(*out.shape, length))
        parts = self.empty((*out.shape, count), out.dtype)
        for start, stop in ((0, length // CHUNK), (length // CHUNK, count)):
            if start < stop:
                part = cut(rows, -1, start * CHUNK, min(stop * CHUNK, length))
                chunks = self._reshape(part, shape=(*out.shape, stop - start, part.shape[-1] // (stop - start)))
                self.reduce(op, cut(parts, -1, start, stop), chunks)
        return self.reduce(op, out, parts)

    def _line(self, op: str, *operands: Any) -> Any:
        """An operation that is a line of a nest; declined where it is none for such dtypes."""
        return self.elementwise(op, *operands) if self._covers(op, *operands) else NotImplemented

    def _covers(self, op: str, *operands: Any) -> bool:
        specs = [TensorSpec(x.shape, self._core[x.dtype]) if isinstance(x, Strided) else x for x in operands]
        return self.language.covers(op, tuple(specs))

    def _uploaded(self, value: Any, text: str, dtype: Any) -> Strided:
        """A number as an array: one kernel serves all numbers. Its `text` tells True from 1, and -0.0 from 0.0."""
        return self.from_host(pack([value], self._core[dtype]), (), dtype)

    def _launched(
        self, op: str, out: Strided, given: list[Strided], shape: Shape, strides: list[Shape],
        kept: int | None = None,
    ) -> None:  # fmt: skip
        """Launch a primitive over the axes of `shape`, the first `kept` of which are the result's.

        `strides` are those of the result and of each operand.
        """
        kept = len(shape) if kept is None else kept
        groups = nests.neighbours(shape, strides, kept)
        if kept < len(shape) and (not groups or groups[-1][0] < kept):
            groups.append([len(shape) - 1])  # of length 1: a reduction needs a loop
        rows, arrays = sum(group[0] < kept for group in groups), [out, *given]
        integers = list[int]()
        for group in groups:
            integers += [math.prod([shape[axis] for axis in group]), *(each[group[-1]] for each in strides)]

        def nest() -> nests.Nest:
            count, first = len(arrays), [len(arrays) + i * (len(arrays) + 1) for i in range(len(groups))]
            places = [nests.Place(0, tuple([Given(n + 1 + j) for n in first])) for j in range(count)]  # type: ignore[misc]
            places[0] = nests.Place(0, (*places[0].strides[:rows], *(0,) * (len(groups) - rows)))
            lines: list[nests.Line] = [nests.Load(Ref(j), j + 1, places[j + 1]) for j in range(count - 1)]
            operands, made, reduces = tuple([Ref(j) for j in range(count - 1)]), Ref(count - 1), TABLE[op].combine
            lines.append(nests.Reduce(made, op, *operands) if reduces else nests.Compute(made, op, operands))
            types, store = [self._core[x.dtype] for x in (*given, out)], nests.Store(0, places[0], made)
            parts = nests.Part(kept < len(shape), (*lines,)), nests.Part(False, (store,))
            buffers = tuple([nests.Buffer("in" if j else "out", self._core[x.dtype], 0) for j, x in enumerate(arrays)])
            lengths = tuple([Given(n) for n in first])
            return nests.Nest(lengths[:rows], lengths[rows:], buffers, parts, tuple(types))  # type: ignore[arg-type]

        key = op, rows, len(groups), *(x.dtype.name for x in arrays)
        self.run(key, nest, out.layout.size, integers, arrays)

    # ── fused compositions: lengths are integers of the launch ───────────────────────────────────────────────

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """From the table; compositions that are nests run as such."""
        found = self.kernels.get(op)
        if found is None and op in self._compositions:
            found = self.kernels[op] = partial(self._fused, op, self._compositions[op])
        return found

    def _fused(self, name: Hashable, composition: Callable[..., Any], *operands: Any, **params: Any) -> Any:
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
            made = self._nest(step, (kind, i), lengths, *[values[n] for n in step.inputs])
            values.update(zip(step.outputs, made, strict=True))
        results = tuple([values[x.number] for x in found.outputs])
        return results if len(results) > 1 else results[0]

    def _adam_step(self, *lists: Any, step: float, eps: float, shrink: float, betas: Sequence[float],
                   weight_decay: float) -> tuple[list[Any], ...]:  # fmt: skip
        """See `_moved`."""
        numbers = step, eps, shrink, *(x for beta in betas for x in (beta, 1 - beta)), weight_decay
        return self._moved(adam_step, lists, numbers, decays=bool(weight_decay))

    def _sgd_step(self, *lists: Any, lr: float, momentum: float, dampening: float, weight_decay: float,
                  nesterov: bool) -> tuple[list[Any], ...]:  # fmt: skip
        """See `_moved`; a first velocity is the gradient."""
        share = 1.0 if lists[-1][0] is None else 1 - dampening
        flags = {"keeps": bool(momentum), "shares": share != 1, "decays": bool(weight_decay), "nesterov": nesterov}
        return self._moved(sgd_step, lists, (lr, momentum, share, weight_decay), **flags)

    def _moved(
        self, rule: Callable[..., Any], lists: Any, numbers: Sequence[float], **flags: bool
    ) -> tuple[list[Any], ...]:
        """A step for all parameters in one launch; in one for each without workgroups, or where lists are too many.

        `numbers` may change from step to step, and are no part of a text; states that are missing are 0.
        """
        rows, given, count = list[Any](), dict[int, Strided](), len(lists) - 1
        for p, *each in zip(*lists, strict=True):
            zero, *known = (self._number(x, repr(x), p.dtype) for x in (0.0, *numbers))
            rows.append([p, *(zero if x is None else x for x in each), *known])
            given |= {id(x): x for x in rows[-1]}
        place = {n: i for i, n in enumerate(given)}
        places = tuple([tuple([place[id(x)] for x in row]) for row in rows])
        kind = rule, places, *flags.values(), *((x.shape, x.dtype) for x in given.values())
        if self.group and kind not in self._plans and sum(each[0] is rule for each in self._plans) < MODELS:
            specs = [(x.shape, self._core[x.dtype]) for x in given.values()]
            program = written(for_all, specs, {"rule": rule, "rows": places, **flags})
            self._plans[kind] = program and self.compile(program)
        if self._plans.get(kind):
            made = self._plans[kind](*given.values())
            return tuple([[*made[i::count]] for i in range(count)])
        found = [self._fused(rule.__name__, rule, *row, **flags) for row in rows]
        # without elements there is nothing to compute
        whole = [row[:count] if x is NotImplemented else x for x, row in zip(found, rows, strict=True)]
        return tuple(map(list, zip(*whole, strict=True)))

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
        fused = all(isinstance(step, Run) for step in found.steps)
        return found if fused and all(isinstance(x, Ref) for x in found.outputs) else None

    def _plan(self, program: Program, layouts: Sequence[Layout]) -> Plan:
        found = plan(program, layouts, self.language.covers, self.limits, in_stages)
        return joint.joined(found, self.limits) if self.group else found

    # ── programs ─────────────────────────────────────────────────────────────────────────────────────────────

    def compile(self, program: Program) -> Callable[..., Any]:
        """A program as nests and calls, planned for each layout of its inputs."""
        if not program.types:
            return straight_line(program, self.kernel, partial(compose, backend=self), self.dtypes)
        missing = {name for name, op in TABLE.items() if op.compose is not None and self.kernel(name) is None}
        found = optimized(program, self.language.covers, (), missing)
        return counted(Planned(self, found, self._contiguous), program.inputs)

    def _nest(self, step: Run, key: Hashable, lengths: Sequence[int], *given: Strided) -> tuple[Strided, ...]:
        """Run one nest of a plan, where its symbolic lengths are these."""
        made = []
        for shape, dtype in step.types:
            made.append(self.empty(tuple([actual(n, lengths) for n in shape]), self.dtypes[dtype.name]))
        units = joint.units(step.nest, lengths, self.group)
        if units:
            self.run(key, lambda: step.nest, units, (), [*given, *made], lengths)
        return tuple(made)

    def _contiguous(self, x: Strided) -> Strided:
        """A handle whose elements lie in order."""
        return x if x.layout.is_contiguous else self.kernels["copy"](x)


class Planned:
    """A program as a function of handles, which is planned for each of their layouts, up to `LAYOUTS`.

    `contiguous` gives a handle whose elements lie in order.
    """

    def __init__(self, backend: Any, program: Program, contiguous: Callable[[Any], Any]) -> None:
        self.backend, self.program, self.contiguous = backend, program, contiguous
        self.runs: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *handles: Any) -> Any:
        """The results."""
        layouts = tuple(map(self.layout, handles))
        run = self.runs.get(layouts)
        if run is None:
            with BUILDING:
                if len(self.runs) >= LAYOUTS and layouts not in self.runs:
                    handles = tuple(map(self.contiguous, handles))
                    layouts = tuple(map(self.layout, handles))
                if layouts not in self.runs:
                    self.runs[layouts] = self.function(self.plan(layouts))
                run = self.runs[layouts]
        return run(*handles)

    def layout(self, x: Any) -> Any:
        """How a handle lies, from its own first element."""
        return Layout(x.shape, x.layout.strides, 0) if x.layout.size else Layout.contiguous(x.shape)

    def plan(self, layouts: Sequence[Any]) -> Plan:
        """The plan for such inputs."""
        return self.backend._plan(self.program, layouts)  # type: ignore[no-any-return]

    def function(self, found: Plan) -> Callable[..., Any]:
        """A plan as a Python function with a line for each nest and each call."""
        dump(found.__str__)
        run = Function(self.program.inputs)
        for kind, steps in itertools.groupby(found.steps, type):
            (self.nests if kind is Run else self.calls)(run, [*steps], found)  # type: ignore[list-item]
        return run.made(run.source(found.outputs))

    def calls(self, run: Function, steps: Sequence[Call], found: Plan) -> None:
        """Kernels, or the compositions for what they decline."""
        backend = self.backend
        for step in steps:
            function = bound(step, backend.kernel, partial(compose, backend=backend), backend.dtypes)
            run.call(function, step.operands, step.results, operation(step.op).parts is not None)
            turned = [n for n in step.results if n in found.contiguous]
            run.step([f"v{n} = {run.constant(self.contiguous)}(v{n})" for n in turned], turned)

    def nests(self, run: Function, steps: Sequence[Run], found: Plan) -> None:
        """Nests between which nothing is called."""
        for step in steps:
            function = partial(self.backend._nest, step, repr(step.nest), ())
            run.call(function, [*map(Ref, step.inputs)], step.outputs, True)


def adam_step(k: Any, p: Any, g: Any, m: Any, v: Any, step: Any, eps: Any, shrink: Any, beta1: Any, rest1: Any,
              beta2: Any, rest2: Any, weight_decay: Any, *, decays: bool) -> Any:  # fmt: skip
    """A parameter and its moments after a step of Adam, as docs/backends.md has it."""
    g = k.add(g, k.multiply(p, weight_decay)) if decays else g
    m = k.add(k.multiply(m, beta1), k.multiply(g, rest1))
    v = k.add(k.multiply(v, beta2), k.multiply(k.multiply(g, g), rest2))
    return k.subtract(k.multiply(p, shrink), k.divide(k.multiply(m, step), k.add(k.sqrt(v), eps))), m, v


def sgd_step(k: Any, p: Any, g: Any, v: Any, lr: Any, momentum: Any, share: Any, weight_decay: Any, *, keeps: bool,
             shares: bool, decays: bool, nesterov: bool) -> Any:  # fmt: skip
    """A parameter and its velocity, to which a share of the gradient is added, after a step of SGD."""
    g = k.add(g, k.multiply(p, weight_decay)) if decays else g
    if keeps:
        v = k.add(k.multiply(v, momentum), k.multiply(g, share) if shares else g)
        g = k.add(g, k.multiply(v, momentum)) if nesterov else v
    return k.subtract(p, k.multiply(g, lr)), v


def for_all(k: Any, *values: Any, rule: Callable[..., Any], rows: Sequence[Sequence[int]], **settings: Any) -> Any:
    """A step of several parameters: each row says where a rule's operands are among the values."""
    return tuple([x for row in rows for x in rule(k, *[values[i] for i in row], **settings)])


def in_stages(step: Step, operands: tuple[Any, ...]) -> bool:
    """Whether a reduction is a call of its own: of few rows, each of which would keep a unit for long."""
    if not operation(step.op).combine or not all(n.__class__ is int for n in operands[0].shape):
        return False
    shape, axis = operands[0].shape, step.params["axis"]
    length = math.prod(shape if axis is None else [shape[i] for i in axis])
    return bool(length > 2 * CHUNK and math.prod(shape) < CHUNK * length)


def _tier(n: int) -> tuple[int, int]:
    """The least and the most of the lengths that share a text with one."""
    return next((least, most) for least, most in itertools.pairwise(TIERS) if least <= n < most)


__all__ = ["CompiledBackend", "Planned"]
