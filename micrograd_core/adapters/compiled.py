"""`CompiledBackend`: a backend over a compiler for a C-like language. It prints nests; you compile and launch them.

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
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from string import Template
from typing import Any, ClassVar, Final

from micrograd_core.adapters.strided import MAPS, Strided, StridedBackend
from micrograd_core.compiler import nests
from micrograd_core.compiler.executor import Function, bound, counted, straight_line
from micrograd_core.compiler.fusion import Call, Limits, Plan, Run, plan
from micrograd_core.compiler.languages import ANY, ARITHMETIC, BITWISE, TEMPLATES, Language
from micrograd_core.compiler.lengths import Axis, Length, actual
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Program, Ref, Step, operation
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.text import Given, Printer, stream_at
from micrograd_core.dtypes import DTYPES, bool_, int64, pack, uint64
from micrograd_core.errors import ShapeError
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout, Shape, broadcast_shapes
from micrograd_core.ops import TABLE
from micrograd_core.ops.standard.random import PLACE, place_of
from micrograd_core.support.dumping import dump
from micrograd_core.support.locks import lock

BUILDING: Final = lock()
"""Held while a nest is printed and built, or a program is planned."""
LAYOUTS: Final = 8
"""Layouts of inputs that a program is planned for; in any others they are copied first."""
TIERS: Final = (2, 1 << 13, 1 << 62)
"""Lengths from one of these up to the next share a text: the scratch memory of a row has a limit."""
CHUNK: Final = 4096
"""Elements of a reduction that one unit combines; longer ones go by chunks, and then by their results."""

TILED: Final = 1 << 12
PART, FEW = 128, 1 << 19
"""Products that are added up before they join a sum; turns that are less than sorting."""
MERGED: Final = 8
"""Runs that a sort merges at once."""
LONGEST: Final = 1 << 14
"""Turns that a unit takes at most: some drivers end loops silently after 65,535."""
OWN: Final = tuple("take take_along_axis index_add embedding embedding_gradient sort argsort searchsorted".split())
"""Kernels that are no nests, each from a template."""
RANDOM: Final = ("random_uniform", "random_uniform_from", "random_integers", "random_permutation")
"""Kernels of devices that have 64-bit integers, and a language with words of random numbers."""


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
    tile: int = 4
    """Rows and columns of a product that a unit computes, of products of at least `TILED` numbers."""

    def __init__(self, device: str, dtypes: Sequence[str] = ()) -> None:
        native = {name: DTYPES[name] for name in dtypes or self.language.types}
        super().__init__(device, native)
        own = {*ANY, *ARITHMETIC, *BITWISE, *self.language.functions} - {"astype", "copy"}
        self.kernels |= {name: partial(self._line, name) for name in own - MAPS}
        self.kernels |= {name: partial(self.reduction, name) for name, op in TABLE.items() if op.combine}
        self._built: dict[Hashable, tuple[Any, tuple[Length, ...]]] = {}
        self.kernels |= {"matmul": self.matmul} | {name: getattr(self, f"_{name}") for name in OWN}
        self.kernels["cumulative_sum"] = partial(self._running, "add")
        self.kernels["cumulative_prod"] = partial(self._running, "multiply")
        self.kernels |= {"adam_step": self._adam_step, "fused": lambda compose: partial(self._fused, compose, compose)}
        self._number = lru_cache(4096)(self._uploaded)
        self._plans: dict[Hashable, Any] = {}
        self._compositions = nests.compositions_of_nests()
        if self.language.draws and {"int64", "uint64"} <= native.keys():
            self.kernels |= {name: getattr(self, f"_{name}") for name in RANDOM}
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

    # ── nests ────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, key: Hashable, nest: Callable[[], nests.Nest], units: int, integers: Sequence[int],
            handles: Sequence[Any], lengths: Sequence[int] = ()) -> None:  # fmt: skip
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
        """
        found = self._built.get(key)
        if found is None:
            with BUILDING:
                made, count = nest(), len(integers) + len(handles)
                printer = Printer(made, self.language, count)
                function = self.build(printer.body(), made)
                found = self._built[key] = function, tuple(printer.sizes)
        function, sizes = found
        given = [*(x.layout.offset for x in handles), *integers, *(actual(x, lengths) for x in sizes)]
        held = [
            x if x.buffer is not None else self.empty((1,), x.dtype) for x in handles
        ]  # without elements there is none
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
                cut = _cut(rows, -1, start * CHUNK, min(stop * CHUNK, length))
                chunks = self._reshape(cut, shape=(*out.shape, stop - start, cut.shape[-1] // (stop - start)))
                self.reduce(op, _cut(parts, -1, start, stop), chunks)
        return self.reduce(op, out, parts)

    def _line(self, op: str, *operands: Any) -> Any:
        """An operation that is a line of a nest; declined where it is none for such dtypes."""
        return self.elementwise(op, *operands) if self._covers(op, *operands) else NotImplemented

    def matmul(self, x: Strided, y: Strided) -> Any:
        """Multiply matrices, with a unit for each tile of the result.

        Parameters
        ----------
        x, y : Strided
            Of one dtype; leading axes are broadcast.

        Returns
        -------
        Strided or NotImplemented
            The latter for dtypes that the device cannot multiply.

        Raises
        ------
        ValueError
            When the shapes do not fit.
        """
        if x.dtype is not y.dtype or not self._covers("multiply", x, y):
            return NotImplemented
        left = x.layout if len(x.shape) > 1 else x.layout.index((None, slice(0, x.shape[0], 1)))
        right = y.layout if len(y.shape) > 1 else y.layout.index((slice(0, y.shape[0], 1), None))
        (m, k), n = left.shape[-2:], right.shape[-1]
        if right.shape[-2] != k:
            raise ValueError(f"matmul: shapes {x.shape} and {y.shape} do not fit")
        batch = broadcast_shapes("matmul", left.shape[:-2], right.shape[:-2])
        if k > LONGEST:
            halves = (0, k // 2), (k // 2, k)
            return self.kernels["add"](
                *[self.matmul(_cut(x, -1, *at), _cut(y, max(-2, -len(y.shape)), *at)) for at in halves]
            )
        out, given = self.empty((*batch, m, n), x.dtype), list[Strided]()
        for each, layout in ((x, left), (y, right)):  # matrices one after the other, if need be as a copy
            whole = each.view(layout.broadcast_to((*batch, *layout.shape[-2:])))
            given.append(self._reshape(whole, shape=(math.prod(batch), *layout.shape[-2:])))
        if out.layout.size:
            tile, (first, second) = self.tile if out.layout.size >= TILED else 1, (each.layout.strides for each in given)
            numbers = m, n, k, *first[:2], second[0], second[2], first[2], second[1]
            value, index = self.language.types[self._core[x.dtype].name], self.language.counter
            sizes = {"whole part": (value, tile * tile), "left right": (value, tile), "rows columns": (index, tile)}
            declare = self.language.scratch.format
            arrays = [declare(T=T, name=name, n=n) for names, (T, n) in sizes.items() for name in names.split()]
            units = -(-m // tile) * -(-n // tile) * math.prod(batch)
            self._text("matmul", units, numbers, [out, *given], tile=tile, some=PART, arrays=" ".join(arrays))
        return out.view(out.layout.reshape((*batch, *(m,) * (len(x.shape) > 1), *(n,) * (len(y.shape) > 1))))  # type: ignore[arg-type]

    # ── by index, and in order ───────────────────────────────────────────────────────────────────────────────────

    def _take(self, x: Strided, indices: Strided, *, axis: int, along: bool = False) -> Strided:
        """Elements that integers name along an axis, `along` lane by lane; NaN, or 0, where one names none."""
        after, length = math.prod(x.shape[axis + 1 :]), x.shape[axis]
        out = self.empty(indices.shape if along else (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
        language, source, dtype = self.language, self._core[indices.dtype], self._core[x.dtype]
        lost = language.cast.format(T=language.memory_of(dtype), x=language.nan if dtype.is_floating else "0")
        facts = {"at": "ui"[not along], "wrap": "length" if source.kind == "signed integer" else "0", "lost": lost}
        if out.layout.size:
            numbers = after, indices.shape[axis] if along else indices.layout.size, length
            given = map(self._contiguous, (x, indices))
            self._text("take", out.layout.size, numbers, [out, *given], **facts)
        return out

    def _embedding(self, indices: Strided, weight: Strided) -> Strided:
        """Rows that integers name."""
        return self._take(weight, indices, axis=0)

    def _take_along_axis(self, x: Strided, indices: Strided, *, axis: int) -> Any:
        """Lane by lane; the other axes are broadcast."""
        shape = broadcast_shapes("", *((*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (x, indices)))
        wide = [(*shape[:axis], each.shape[axis], *shape[axis + 1 :]) for each in (x, indices)]
        x, indices = (h.view(h.layout.broadcast_to(each)) for h, each in zip((x, indices), wide, strict=True))
        return self._take(x, indices, axis=axis, along=True)

    def _index_add(self, x: Strided, indices: Strided, values: Any, *, axis: int) -> Any:
        """Each number finds the integers that name it among all of them in order; negative ones come first."""
        before, after, n = x.shape[:axis], x.shape[axis + 1 :], indices.layout.size
        values = values if isinstance(values, Strided) else self._number(values, repr(values), x.dtype)
        values = self._contiguous(values.view(values.layout.broadcast_to((*before, *indices.shape, *after))))
        indices = self._reshape(indices, shape=(n,))
        order = self._order(indices, 0, False)
        out, places = self._fresh("copy", x.shape, x.dtype, x), self._take(indices, order, axis=0)
        given = [out, values, places, order]
        for start in range(0, n if x.layout.size else 0, LONGEST):
            numbers = math.prod(after), x.shape[axis], n, start, min(start + LONGEST, n)
            self._text("index_add", x.layout.size, numbers, given)
        return out

    def _embedding_gradient(self, g: Strided, indices: Strided, *, num_embeddings: int) -> Any:
        """Rows that integers name get theirs added; few rows are compared with all, which takes fewer launches."""
        zero = self._number(0.0, "0.0", g.dtype)
        if g.layout.size * num_embeddings < FEW:
            return NotImplemented
        return self._index_add(zero.view(zero.layout.broadcast_to((num_embeddings, g.shape[-1]))), indices, g, axis=0)

    def _running(self, op: str, x: Strided, *, axis: int, include_initial: bool = False) -> Any:
        """Running sums or products: a unit for each part of an axis, begun with that of the parts before."""
        if include_initial or not self._covers(op, x, x):
            return NotImplemented
        x, parts, dtype = self._contiguous(x), -(-x.shape[axis] // PART), self._core[x.dtype]
        joined = self.language.spelled(op, ("total", "value"), (dtype, dtype), dtype)
        facts = {"start": self.language.number(int(op == "multiply"), dtype), "joined": joined}
        out, carry = self.empty(x.shape, x.dtype), x
        numbers = x.shape[axis], math.prod(x.shape[axis + 1 :]), PART, parts
        if parts > 1 and out.layout.size:
            sums = self.empty((*x.shape[:axis], parts, *x.shape[axis + 1 :]), x.dtype)
            self._text("scan", sums.layout.size, (*numbers, 1), [sums, x, x], **facts)
            carry = self._running(op, sums, axis=axis)
        if out.layout.size:
            self._text("scan", out.layout.size // x.shape[axis] * parts, (*numbers, 0), [out, x, carry], **facts)
        return out

    def _order(self, x: Strided, axis: int, descending: bool, sort: bool = False) -> Strided:
        """A merge sort of positions, `MERGED` runs at a time; NaN comes last, equal elements stay in order."""
        order = (*(each for each in range(len(x.shape)) if each != axis), axis)
        rows, n, dtype = self._contiguous(x.view(x.layout.permute(order))), x.shape[axis], self._core[x.dtype]
        integer, facts = self.dtypes["int32"], self._orders(dtype, descending)
        places = self._fresh("copy", rows.shape, integer, self.from_host(array("i", range(n)), (n,), integer))
        run = 1
        while run < n and rows.layout.size:
            before, places = places, self.empty(rows.shape, integer)
            self._text("merge", rows.layout.size, (n, run), [places, before, rows], runs=MERGED, **facts)
            run *= MERGED
        out = self._take(rows, places, axis=len(order) - 1, along=True) if sort else places
        return out.view(out.layout.permute([order.index(i) for i in range(len(order))]))

    def _orders(self, dtype: Any, descending: bool = False) -> dict[str, str]:
        """Whether ``x`` comes before ``y``, and the other way round: NaN comes last."""
        less, nan = "greater" if descending else "less", self.language.isnan if dtype.is_floating else "false"
        found = {}
        for name, (x, y) in (("ahead", "xy"), ("behind", "yx")):
            first = self.language.spelled(less, (x, y), (dtype, dtype), bool_)
            found[name] = f"({first} || (!{nan.format(x)} && {nan.format(y)}))"
        return found

    def _searchsorted(self, x1: Any, x2: Any, *, side: str) -> Any:
        """By halves."""
        if any(not isinstance(x, Strided) or x.dtype is not x1.dtype for x in (x1, x2)):
            return NotImplemented
        dtype, out = self._core[x1.dtype], self.empty(x2.shape, self.dtypes["int64"])
        orders, place = self._orders(dtype), self.language.converted("low", int64, "int32")
        comes = orders["ahead"] if side == "left" else f"!{orders['behind']}"
        if out.layout.size:
            given = [out, *map(self._contiguous, (x1, x2))]
            self._text("search", out.layout.size, x1.shape, given, comes=comes, low=place)
        return out

    def _argsort(self, x: Strided, *, axis: int, descending: bool, stable: bool) -> Any:
        """See `_order`."""
        return self.kernels["astype"](self._order(x, axis, descending), dtype=self.dtypes["int64"])

    def _sort(self, x: Strided, *, axis: int, descending: bool, stable: bool) -> Strided:
        """See `_order`."""
        return self._order(x, axis, descending, sort=True)

    def _text(self, name: str, units: int, integers: Sequence[int], handles: Sequence[Strided], **facts: Any) -> None:
        """Run a kernel of a template, whose first line names the `integers`."""
        language, key = self.language, (name, *facts.values(), *(x.dtype.name for x in handles))
        buffers = tuple([nests.Buffer("in" if i else "out", self._core[x.dtype], 0) for i, x in enumerate(handles)])
        nest = nests.Nest((), (), buffers, (), ())
        if key not in self._built:
            facts |= {how: language.begun(how, language.counter) for how in ("let", "var")}
            for i, x in enumerate(buffers):
                facts |= {f"{how}{i}": language.begun(how, language.memory_of(x.dtype)) for how in ("let", "var")}
            first, row = buffers[0].dtype, buffers[min(2, len(buffers) - 1)].dtype  # `row` is that of indices
            place = language.places.get(row.name, "")
            wide = language.types["int64"] if row.bits == 64 and not place else language.counter
            cast = {T: language.cast.format(T=T, x="").removesuffix("()") for T in (wide, language.counter)}
            facts |= {"wide": cast[wide], "index": cast[language.counter], "place": place or cast[wide]}
            facts["row"] = language.begun("var", wide)
            facts["zero"] = language.cast.format(T=language.memory_of(first), x="0")
            facts["added"] = language.spelled("add", ("total", "value"), (first, first), first)
            facts["multiplied"] = language.spelled("multiply", ("x", "y"), (first, first), first)
            names, _, text = TEMPLATES.joinpath(f"{name}.txt").read_text(encoding="utf-8").partition("\n")
            given = [language.integer.format(n=i + len(handles)) for i in range(len(integers))]
            lines = [f"{facts['let']} {each} = {x};" for each, x in zip(names.split(), given, strict=True)]
            with BUILDING:
                self._built[key] = self.build("\n".join([*lines, Template(text).substitute(facts)]), nest), ()
        self.run(key, lambda: nest, units, integers, handles)

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

    # ── random numbers: a unit makes those of a block of four words ──────────────────────────────────────────────

    def _random_uniform(self, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
        """See `micrograd_core.ops.standard.random`, as of the others."""
        return self._random_uniform_from(self._stream(key, block), shape=shape, dtype=dtype)

    def _random_uniform_from(self, place: Strided, *, shape: Shape, dtype: Any) -> Any:
        """From a place of the device's own on; fractions of 16 bits are the host's."""
        each = {4: 8, 8: 4}.get(dtype.itemsize)
        number = f"fraction_{self._core[dtype]}(x[i * 4 / {each}], i % 2)"
        return self._drawn(number, each, self._contiguous(place), shape, dtype) if each else NotImplemented

    def _random_integers(self, *, shape: Shape, dtype: Any, key: int, block: int, low: int, high: int) -> Any:
        """A span of 2**64 is 0."""
        drawn = f"scaled(x[i], p1[at1 + {PLACE}], p1[at1 + {PLACE + 1}])"
        number = self.language.nearest(drawn, uint64, self._core[dtype])
        return self._drawn(number, 4, self._stream(key, block, low, high - low), shape, dtype)

    def _random_permutation(self, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
        """The device sorts words in whose lowest bits stands their position."""
        word, mask = self.dtypes["uint64"], (1 << (shape[0] - 1).bit_length()) - 1 if shape[0] else 0
        at = self.language.converted("(u * 4 + i)", uint64, "int32")
        words = self._drawn(f"marked(x[i], p1[at1 + {PLACE}], {at})", 4, self._stream(key, block, mask), shape, word)
        marks = self._sort(words, axis=0, descending=False, stable=False)
        return self.kernels["astype"](self.kernels["bitwise_and"](marks, mask), dtype=dtype)

    def _stream(self, key: int, block: int, *more: int) -> Strided:
        """A place in a stream, and more words."""
        words = [each % (1 << 64) for each in (*place_of(key, block), *more)]
        return self.from_host(pack(words, uint64), (len(words),), self.dtypes["uint64"])

    def _drawn(self, number: str, each: int, stream: Strided, shape: Shape, dtype: Any) -> Strided:
        """An array of what `number` makes of the words ``x``, for `each` ``i`` of a block."""
        out, place = self.empty(shape, dtype), stream_at("p1", "at1")
        draws = self.language.draws.format(place=place, block=self.language.converted("u", uint64, "int32"))
        units, given = -(-out.layout.size // each), [out, stream]
        if units:
            self._text("draw", units, [out.layout.size], given, draws=draws, each=each, number=number)
        return out

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

    def _adam_step(self, params: Sequence[Strided], *lists: Any, step: float, eps: float, shrink: float,
                   **settings: Any) -> tuple[list[Any], ...]:  # fmt: skip
        """One launch for each parameter. What changes from step to step is no part of the text, as zeros are not."""
        made = []
        for p, g, *moments in zip(params, *lists, strict=True):
            step_, eps_, shrink_, zero = (self._number(x, repr(x), p.dtype) for x in (step, eps, shrink, 0.0))
            m, v = (zero if x is None else x for x in moments)
            found = self._fused("adam_step", adam_step, p, g, m, v, step_, eps_, shrink_, **settings)
            made.append((p, g, g) if found is NotImplemented else found)  # of no elements
        return tuple(map(list, zip(*made, strict=True)))

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
        return plan(program, layouts, self.language.covers, self.limits, in_stages)

    # ── programs ─────────────────────────────────────────────────────────────────────────────────────────────

    def compile(self, program: Program) -> Callable[..., Any]:
        """A program as nests and calls, planned for each layout of its inputs."""
        if not program.types:
            return straight_line(program, self.kernel, partial(compose, backend=self), self.dtypes)
        return counted(Planned(self, optimized(program, self.language.covers), self._contiguous), program.inputs)

    def _nest(self, step: Run, key: Hashable, lengths: Sequence[int], *given: Strided) -> tuple[Strided, ...]:
        """Run one nest of a plan, where its symbolic lengths are these."""
        made = []
        for shape, dtype in step.types:
            made.append(self.empty(tuple([actual(n, lengths) for n in shape]), self.dtypes[dtype.name]))
        units = math.prod([actual(n, lengths) for n in step.nest.kept])
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


def adam_step(k: Any, p: Any, g: Any, m: Any, v: Any, step: Any, eps: Any, shrink: Any, *, betas: Any,
              weight_decay: float) -> Any:  # fmt: skip
    """A parameter and its moments after a step of Adam, as docs/backends.md has it."""
    g = k.add(g, k.multiply(p, weight_decay)) if weight_decay else g
    pairs = (m, g, betas[0]), (v, k.multiply(g, g), betas[1])
    m, v = (k.add(k.multiply(old, decay), k.multiply(new, 1 - decay)) for old, new, decay in pairs)
    return k.subtract(k.multiply(p, shrink), k.divide(k.multiply(m, step), k.add(k.sqrt(v), eps))), m, v


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


def _cut(x: Strided, axis: int, start: int, stop: int) -> Strided:
    """A part of an axis."""
    key = [slice(0, n, 1) for n in x.shape]
    key[axis] = slice(start, stop, 1)
    return x.view(x.layout.index((*key,)))


__all__ = ["CompiledBackend", "Planned"]
