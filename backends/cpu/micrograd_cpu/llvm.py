"""Prints loop nests as LLVM IR, one function each: ``@nest0(begin, end, pointers …)``, for a range of its units.

Units are what threads share out: elements, where nothing is reduced and memory is one run; else rows. Where rows are
next to each other in memory, rather than the numbers in one, a unit is a tile of rows, which the innermost loop
goes over, so that it reads memory in order. LLVM makes vectors of innermost loops.

A value that is the same in all turns of a loop is computed before the loop. LLVM moves most of these itself, but not
those that depend on a branch, and its vectoriser takes exponential time when it finds them in the innermost loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from micrograd_core.compiler.fusion import PROCESSOR
from micrograd_core.compiler.lengths import Length, longest
from micrograd_core.compiler.nests import (
    Compute,
    Draw,
    Line,
    Load,
    Nest,
    Number,
    Part,
    Place,
    Reduce,
    Store,
    size,
    varying,
)
from micrograd_core.compiler.program import Ref, operation
from micrograd_core.dtypes import DType, float64, int64
from micrograd_core.layout import contiguous_strides
from micrograd_core.ops.standard.random import MULTIPLIERS, WEYL
from micrograd_cpu.mathematics import definitions, number
from micrograd_cpu.objects import source
from micrograd_cpu.scalars import MEMORY, TYPES, Scalars, accumulator, combine, constant, start

TILE: Final = 64
"""Rows in a tile: of each line of columns, four vectors of the longest."""
STACK: Final = 1 << 18
"""Bytes of scratch memory, of all rows in a tile."""
BLOCK: Final = 512
"""Floats that are added before their sum is added to the others, in float64: it bounds how errors grow.

The error of a sum of ``n`` numbers is at most the sum of their sizes times 512 roundings of their dtype and ``n / 512``
of float64.
"""
DRAWN: Final = 512
"""Random numbers that are drawn at once, where nothing is reduced."""
DRAWN_OF_ROW: Final = 8192
"""The most that are drawn for a row before its loops."""
PHILOX: Final = {f"{name}{i}": pair[i] for name, pair in (("multiplier", MULTIPLIERS), ("weyl", WEYL)) for i in (0, 1)}
SHORT: Final = 64
"""Floats that are added before their sum is added to the others, where a vector holds sums of different rows."""
Sizes = dict[Length, int]
"""Symbolic lengths that a function loads from memory when it is called, and the place of each."""


def modules(nests: Sequence[Nest]) -> list[str]:
    """The IR of a program's nests, in modules of bounded size: no signal reaches LLVM while it compiles one."""
    found, total = list[list[Nest]](), PROCESSOR.lines
    for nest in nests:
        total += size(nest)
        if total > PROCESSOR.lines:
            found.append([])
            total = size(nest)
        found[-1].append(nest)
    firsts = accumulate(map(len, found), initial=0)
    return [module(each, first=first) for each, first in zip(found, firsts, strict=False)]


def module(nests: Sequence[Nest], sizes: Sizes | None = None, first: int = 0) -> str:
    """The IR of nests, whose functions are numbered from `first`."""
    declared, functions, texts = set[str](), set[tuple[str, str]](), list[str]()
    for i, nest in enumerate(nests, first):
        printers = {f"fast{i}": Printer(nest, sizes=sizes)}
        texts.append(printers[f"fast{i}"].text(f"fast{i}"))
        if printers[f"fast{i}"].noted:
            printers[f"careful{i}"] = Printer(nest, careful=True, sizes=sizes)
            texts.append(printers[f"careful{i}"].text(f"careful{i}"))
        texts.append(_either(i, nest, len(printers) > 1, sizes))
        for printer in printers.values():
            declared |= printer.declared
            functions |= printer.functions
    if any(isinstance(line, Draw) for nest in nests for part in nest.parts for line in part.lines):
        texts.append(source("philox", **PHILOX))
    texts += definitions(functions, declared)
    return "\n\n".join([*texts, "\n".join(sorted(declared))]) + "\n"


def arguments(nest: Nest, sizes: Sizes | None = None) -> str:
    """Of a nest's function: the range of units, `Sizes` if there are some, then pointers."""
    pointers = [
        f"ptr noalias {'readonly ' if x.role == 'in' else ''}%p{i}"
        for i, x in enumerate(nest.buffers)
        if x.role != "scratch"
    ]
    given = ["i64 %begin", "i64 %end"] if sizes is None else ["i64 %begin", "i64 %end", "ptr noalias readonly %sizes"]
    return ", ".join([*given, *pointers])


def _either(i: int, nest: Nest, careful: bool, sizes: Sizes | None) -> str:
    """``@nest0``: fast, and again with care where that finds large arguments. No output is an input."""
    given = ", ".join(each.split()[0] + " " + each.split()[-1] for each in arguments(nest, sizes).split(", "))
    lines = [f"define void @nest{i}({arguments(nest, sizes)}) nounwind {{", f"  %far = call i32 @fast{i}({given})"]
    if careful:
        lines += ["  %again = icmp ne i32 %far, 0", "  br i1 %again, label %large, label %done", "large:"]
        lines += [f"  %none = call i32 @careful{i}({given})", "  br label %done", "done:"]
    return "\n".join([*lines, "  ret void", "}"])


def tiles(nest: Nest) -> int:
    """How many rows a tile has, or 0 where rows are taken one by one."""
    if not nest.reduced or not nest.kept:
        return 0
    votes = 0
    for part in nest.parts:
        for line in part.lines if part.inner else ():
            if (
                isinstance(line, Load | Store)
                and line.buffer is not None
                and nest.buffers[line.buffer].role != "scratch"
            ):
                *_, across = line.place.strides[: len(nest.kept)]
                inner = line.place.strides[len(nest.kept) :]
                votes += any(inner) * (across != 0) * ((across in (1, -1)) - (inner[-1] in (1, -1)))
    if votes <= 0:
        return 0
    row = sum(x.dtype.itemsize for x in nest.buffers if x.role == "scratch") * longest(math.prod(nest.reduced))
    return max(8, min(TILE, longest(nest.kept[-1]), STACK // row if row else TILE))


def units(nest: Nest, width: int | None = None) -> int:
    """How many units a nest has, with tiles of a width that is its own, or another's."""
    if not nest.reduced:
        return math.prod(nest.kept) if len(nest.kept) < 2 else math.prod(nest.kept[:-1])
    width = tiles(nest) if width is None else width
    if not width:
        return math.prod(nest.kept)
    return math.prod(nest.kept[:-1]) * -(-nest.kept[-1] // width)


def blocks(reduced: Sequence[int], most: int) -> tuple[int, int]:
    """The axis that is reduced in blocks, and how many turns a block has; axis -1 where all are one block."""
    size = 1
    for axis in range(len(reduced) - 1, -1, -1):
        length = longest(reduced[axis])
        if size * length > most:
            return axis, max(1, most // size)
        size *= length
    return -1, size


class Printer(Scalars):
    """One nest as a function; `careful` is about arguments of sines, see `mathematics.FURTHEST`."""

    def __init__(self, nest: Nest, careful: bool = False, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes, self.read_sizes = sizes, set[int]()
        self.contracts = sizes is not None  # of one operation, the formula is ours; of a program it is the user's
        self.careful, self.noted = careful, False
        self.nest, self.tile = nest, tiles(nest)
        self.varying = varying(nest)
        self.counters = ["0"] * (len(nest.kept) + len(nest.reduced))
        self.lane = "0"
        self.values: dict[int, str] = {}  # computed before this point, in this loop or around it
        self.stacked: dict[int, tuple[str, DType]] = {}  # of a tile's rows: where each row's value lies
        self.scratch: dict[int, str] = {}
        lines = [line for part in nest.parts for line in part.lines if isinstance(line, Draw)]
        draws = dict.fromkeys((line.buffer, line.place, nest.types[line.result.number]) for line in lines)
        self.draws = [each for each in draws if self.in_a_row(each[1])]
        self.memory: dict[tuple[int, Place, DType], str] = {}
        self.drawn: dict[tuple[int, Place, DType], tuple[str, Place]] = {}  # where they lie, and the place there

    # ── places ───────────────────────────────────────────────────────────────────────────────────────────────────

    def size(self, value: Any) -> str:
        """A length, stride or count: itself, or what is read from memory."""
        if value.__class__ is not Length or self.sizes is None:
            return str(value)
        position = self.sizes.setdefault(value, len(self.sizes))
        self.read_sizes.add(position)
        return f"%s{position}"

    def unravelled(self, counter: str, lengths: Sequence[Any]) -> list[str]:
        """The counters of several axes from that of all, for which the first one's length is not read."""
        return super().unravelled(counter, [*lengths[:1], *map(self.size, lengths[1:])])

    def address(self, place: Place) -> str:
        """``offset + sum(stride * counter)``."""
        total = ""
        for stride, counter in zip(place.strides, self.counters, strict=True):
            if stride:
                term = counter if stride == 1 else self.emit(f"mul nsw i64 {counter}, {self.size(stride)}")
                total = self.emit(f"add nsw i64 {total}, {term}") if total else term
        if place.offset:
            offset = self.size(place.offset)
            total = self.emit(f"add nsw i64 {total}, {offset}") if total else offset
        return total or "0"

    # ── the function ─────────────────────────────────────────────────────────────────────────────────────────

    def text(self, name: str) -> str:
        """The whole. Unless it is careful, it tells whether an argument was too large for it."""
        nest = self.nest
        for i, buffer in enumerate(nest.buffers):
            if buffer.role == "scratch":
                row = longest(math.prod(nest.reduced))
                self.scratch[i] = self.alloca(MEMORY[buffer.dtype.name], row * max(self.tile, 1))
        self.ahead((), [line for part in nest.parts for line in part.lines])
        if nest.reduced or len(nest.kept) > 1:
            self.loop("%begin", "%end", self.unit)
        else:
            self.along("%begin", "%end", lambda counter: [counter] * len(nest.kept))
        result = "0"
        if self.noted:
            self.allocas += ["  %far = alloca i32", "  store i32 0, ptr %far"]
            result = self.emit("load i32, ptr %far")
        head = f"define internal i32 @{name}({arguments(nest, self.sizes)}) nounwind"
        for i in sorted(self.read_sizes):
            self.allocas.append(f"  %at{i} = getelementptr i64, ptr %sizes, i64 {i}\n  %s{i} = load i64, ptr %at{i}")
        return self.defined(head, f"i32 {result}")

    def note(self, far: str) -> None:
        """An argument may be too large for a loop without branches: remember it."""
        self.noted = True
        before, also = self.emit("load i32, ptr %far"), self.emit(f"zext i1 {far} to i32")
        self.do(f"store i32 {self.emit(f'or i32 {before}, {also}')}, ptr %far")

    def unit(self, counter: str) -> None:
        """An element, a row, or a tile of rows."""
        kept, nest = self.nest.kept, self.nest
        if nest.reduced and not self.tile:
            self.counters = [*self.unravelled(counter, kept), *["0"] * len(nest.reduced)]
            row = (*[0] * len(kept), *contiguous_strides(nest.reduced))
            for each in self.draws:
                self.drawn[each] = self.draw(each, math.prod(nest.reduced)), Place(0, row)
            self.parts()
        elif nest.reduced:
            count = self.times(kept[-1], self.tile)
            *outer, tile = self.unravelled(counter, (*kept[:-1], count))
            first = self.emit(f"mul nsw i64 {tile}, {self.tile}")
            left = self.emit(f"sub nsw i64 {self.size(kept[-1])}, {first}")
            lanes = self.intrinsic("smin", "i64", left, str(self.tile))
            self.counters = [*outer, "", *["0"] * len(nest.reduced)]
            self.first, self.lanes = first, lanes
            self.ahead(range(len(outer)), [line for part in nest.parts for line in part.lines])
            self.parts()
        else:
            outer = self.unravelled(counter, kept[:-1])
            self.counters = [*outer, ""]
            self.ahead(range(len(outer)), nest.parts[0].lines)
            self.along("0", self.size(kept[-1]), lambda last: [*outer, last])

    def along(self, begin: str, end: str, counters: Callable[[str], list[str]]) -> None:
        """Elements along the last axis; some at a time, where random numbers are drawn for them first."""

        def element(counter: str) -> None:
            self.counters = counters(counter)
            self.line_by_line(self.nest.parts[0].lines)

        def some(first: str) -> None:
            self.counters = counters(first)
            stop = self.intrinsic("smin", "i64", self.emit(f"add nsw i64 {first}, {DRAWN}"), end)
            count = self.emit(f"sub nsw i64 {stop}, {first}")
            back = self.emit(f"sub nsw i64 0, {first}")
            for each in self.draws:
                type = TYPES[each[2].name].replace("float", "i32").replace("double", "i64")
                base = self.emit(f"getelementptr {type}, ptr {self.draw(each, count)}, i64 {back}")
                self.drawn[each] = base, Place(0, (*[0] * (len(self.counters) - 1), 1)[: len(self.counters)])
            self.loop(first, stop, element)

        if self.draws:
            self.loop(begin, end, some, DRAWN)
        else:
            self.loop(begin, end, element)

    # ── random numbers ───────────────────────────────────────────────────────────────────────────────────────────

    def in_a_row(self, place: Place) -> bool:
        """Whether the innermost loops take random numbers one after the other."""
        kept, reduced = self.nest.kept, self.nest.reduced
        if not reduced:
            return not kept or kept[-1] == 1 or place.strides[-1] == 1
        inner = zip(reduced, place.strides[len(kept) :], contiguous_strides(reduced), strict=True)
        return (
            not self.tile and longest(math.prod(reduced)) <= DRAWN_OF_ROW and all(n == 1 or x == y for n, x, y in inner)
        )

    def draw(self, each: tuple[int, Place, DType], count: int | str) -> str:
        """Fill memory with random numbers from where the counters stand; the address of the first."""
        buffer, place, dtype = each
        type, in_block = ("i64", 4) if dtype.bits == 64 else ("i32", 8)
        most = count if isinstance(count, int) else DRAWN
        if each not in self.memory:
            self.memory[each] = self.alloca("i64", 4 * (most // in_block + 2))
        first = self.address(place)
        begin = self.emit(f"lshr i64 {first}, {in_block.bit_length() - 1}")
        after = self.emit(f"add nsw i64 {self.emit(f'add nsw i64 {first}, {count}')}, {in_block - 1}")
        end = self.emit(f"lshr i64 {after}, {in_block.bit_length() - 1}")
        self.do(f"call void @micrograd.draw(ptr {self.memory[each]}, i64 {begin}, i64 {end}, ptr %p{buffer})")
        return self.at(self.memory[each], type, self.emit(f"and i64 {first}, {in_block - 1}"))

    def random(self, line: Draw) -> str:
        """A random number: the leading bits of a word, or of half a word, as a fraction."""
        dtype = self.nest.types[line.result.number]
        double = dtype.bits == 64
        type, integer, digits = ("double", "i64", 53) if double else ("float", "i32", 24)
        each = line.buffer, line.place, dtype
        if each in self.drawn:
            base, place = self.drawn[each]
            address = self.emit(f"getelementptr {integer}, ptr {base}, i64 {self.address(place)}")
        else:
            address = self.draw(each, 1)
        word = self.emit(f"load {integer}, ptr {address}")
        leading = self.emit(f"lshr {integer} {word}, {64 - digits if double else 32 - digits}")
        fraction = self.emit(f"sitofp {integer} {leading} to {type}")
        return self.emit(f"fmul {type} {fraction}, {number(0.5**digits, type)}")

    def times(self, length: Any, step: int) -> str:
        """How often a step is taken along an axis, the last time perhaps in part."""
        if length.__class__ is not Length:
            return str(-(-length // step))
        return self.emit(f"udiv i64 {self.emit(f'add nsw i64 {self.size(length)}, {step - 1}')}, {step}")

    def parts(self) -> None:
        """What happens in a row, or in a tile of rows."""
        for part in self.nest.parts:
            before = set(self.values)
            if part.inner:
                self.inner(part)
            elif self.tile:
                self.over_lanes(lambda lines=part.lines: self.row_of_tile(lines))  # type: ignore[misc]
            else:
                self.line_by_line(part.lines)
                continue  # what is there once a row stays
            self.values = {n: x for n, x in self.values.items() if n in before or n in self.results(part)}

    def results(self, part: Part) -> set[int]:
        """The values of a part that stay: a tile's are on the stack."""
        return {line.result.number for line in part.lines if isinstance(line, Reduce)} if not self.tile else set()

    def over_lanes(self, body: Callable[[], None]) -> None:
        """`body` for each row of a tile."""
        outside = dict(self.values)

        def lane(counter: str) -> None:
            self.lane = counter
            self.counters[len(self.nest.kept) - 1] = self.emit(f"add nsw i64 {self.first}, {counter}")
            body()

        self.loop("0", self.lanes, lane)
        self.values = outside

    def row_of_tile(self, lines: Sequence[Line]) -> None:
        """What is computed once a row, for one row of a tile."""
        outside = set(self.values)
        self.line_by_line(lines)
        for line in lines:  # what comes later finds it on the stack
            if isinstance(line, (Load, Draw, Compute)) and line.result.number not in outside:
                self.keep(line.result.number)

    def of_rows(self, lines: Sequence[Line]) -> list[Line]:
        """The expensive functions that have one result for a whole row of a tile, and the lines that they need."""
        needed, found = set[int](), list[Line]()
        for line in reversed(lines):
            if not isinstance(line, Compute | Load):
                continue
            number, operands = line.result.number, line.operands if isinstance(line, Compute) else ()
            of_a_row = max(self.varying[number], default=0) < len(self.nest.kept)
            if of_a_row and (number in needed or (isinstance(line, Compute) and operation(line.op).cost > 1)):
                needed |= {x.number for x in operands if isinstance(x, Ref)}
                found.append(line)
        return found[::-1]

    def inner(self, part: Part) -> None:
        """A loop over the reduced axes; reductions are on the stack until it ends, from where LLVM takes them."""
        nest, kept = self.nest, len(self.nest.kept)
        reductions = [line for line in part.lines if isinstance(line, Reduce)]
        totals = {x.result.number: self.total(accumulator(nest.types[x.result.number])) for x in reductions}
        wide: dict[int, tuple[str, DType]] = {}  # of sums over many numbers, those of their blocks
        axis_of_blocks, length_of_block = blocks(nest.reduced, SHORT if self.tile else BLOCK)
        sums = [x for x in reductions if x.op == "sum" and nest.types[x.result.number].is_floating]
        if self.tile and (lines := self.of_rows(part.lines)):
            self.over_lanes(lambda: self.row_of_tile(lines))
        if axis_of_blocks >= 0:
            wide = {x.result.number: self.total(float64) for x in sums}
        outside = dict(self.values)
        over = self.over_lanes if self.tile else lambda body: body()

        def begin(lines: Sequence[Reduce], totals: dict[int, tuple[str, DType]]) -> None:
            for line in lines:
                pointer, type, dtype = self.place_of(totals[line.result.number])
                self.do(f"store {type} {start(line.op, dtype, 0 in nest.reduced)}, ptr {pointer}")

        def flush() -> None:
            for line in sums:
                part, dtype = self.read(totals[line.result.number])
                total, _ = self.read(wide[line.result.number])
                total = self.emit(f"fadd double {total}, {self.convert(part, dtype, float64)}")
                self.do(f"store double {total}, ptr {self.place_of(wide[line.result.number])[0]}")

        def end() -> None:
            for line in reductions:
                n = line.result.number
                found, dtype = self.read(wide.get(n, totals[n]))
                self.values[n] = self.rounded(self.convert(found, dtype, nest.types[n]), nest.types[n])
                if self.tile:
                    self.keep(n)

        def element() -> None:
            self.line_by_line(part.lines, totals)

        def along(axis: int) -> None:
            if self.tile or axis < len(nest.reduced):
                self.ahead([*range(kept - bool(self.tile)), *range(kept, kept + axis)], part.lines)
            if axis == len(nest.reduced):
                over(element)
                return

            def turn(counter: str) -> None:
                self.counters[kept + axis] = counter
                along(axis + 1)

            def block(counter: str) -> None:
                over(lambda: begin(sums, totals))
                first = self.emit(f"mul nsw i64 {counter}, {length_of_block}")
                after = self.emit(f"add nsw i64 {first}, {length_of_block}")
                self.loop(first, self.intrinsic("smin", "i64", after, self.size(nest.reduced[axis])), turn)
                over(flush)

            if axis == axis_of_blocks and sums:
                self.loop("0", self.times(nest.reduced[axis], length_of_block), block)
            else:
                self.loop("0", self.size(nest.reduced[axis]), turn)

        if reductions:
            over(lambda: begin(reductions, {**totals, **wide}))
            if wide:
                over(lambda: begin([x for x in reductions if x not in sums], totals))
        along(0)
        for axis in range(len(nest.reduced)):
            self.counters[kept + axis] = "0"
        self.values = dict(outside)
        if reductions:
            over(end)

    def total(self, dtype: DType) -> tuple[str, DType]:
        """Memory for what a row, or each row of a tile, has added up."""
        return self.alloca(TYPES[dtype.name], max(self.tile, 1)), dtype

    def place_of(self, total: tuple[str, DType]) -> tuple[str, str, DType]:
        """Where the sum of this row is, the type there, and its dtype."""
        base, dtype = total
        return self.at(base, TYPES[dtype.name], self.lane), TYPES[dtype.name], dtype

    def read(self, total: tuple[str, DType]) -> tuple[str, DType]:
        """The sum of this row so far."""
        pointer, type, dtype = self.place_of(total)
        return self.emit(f"load {type}, ptr {pointer}"), dtype

    def keep(self, n: int) -> None:
        """A row's value on the stack, where what comes later finds it."""
        dtype = self.nest.types[n]
        type = MEMORY[dtype.name]
        if n not in self.stacked:
            self.stacked[n] = self.alloca(type, self.tile), dtype
        self.store(self.values[n], self.at(self.stacked[n][0], type, self.lane), dtype)

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────────

    def operand(self, x: Ref | Number) -> str:
        """The value of an operand."""
        if isinstance(x, Number):
            return self.known(x.value, x.dtype)
        found = self.values.get(x.number)
        if found is None:  # a row's, in a tile
            base, dtype = self.stacked[x.number]
            found = self.load(self.at(base, MEMORY[dtype.name], self.lane), dtype)
            self.values[x.number] = found
        return found

    def known(self, value: Any, dtype: DType) -> str:
        """A number of the program; a length is read from memory."""
        return self.convert(self.size(value), int64, dtype) if value.__class__ is Length else constant(value, dtype)

    def chosen(self, x: Ref | Number) -> str:
        """An operand of `where`. An infinity is one that LLVM cannot see.

        For a maximum of what a mask chooses, or minus infinity, it would take a branch where the mask is false.
        """
        if isinstance(x, Number) and x.dtype.is_floating and math.isinf(x.value):
            type, infinity = TYPES[x.dtype.name], constant(math.inf, x.dtype)
            self.declared.add(f"@infinite_{type} = weak global {type} {infinity}")
            found = self.emit(f"load {type}, ptr @infinite_{type}")
            return found if x.value > 0 else self.emit(f"fneg {type} {found}")
        return self.operand(x)

    def ahead(self, axes: Iterable[int], lines: Sequence[Line]) -> None:
        """The lines whose results differ along no other axes than these, whose loops are around this point."""
        self.line_by_line(
            [x for x in lines if isinstance(x, Load | Compute) and self.varying[x.result.number].issubset(axes)]
        )

    def line_by_line(self, lines: Sequence[Line], totals: dict[int, tuple[str, DType]] | None = None) -> None:
        """The lines, except for those whose results are computed already."""
        types = self.nest.types
        for line in lines:
            if not isinstance(line, Store) and (
                line.result.number in self.values or line.result.number in self.stacked
            ):
                continue
            if isinstance(line, Load):
                self.values[line.result.number] = self.loaded(line)
            elif isinstance(line, Draw):
                self.values[line.result.number] = self.random(line)
            elif isinstance(line, Compute):
                dtypes = [x.dtype if isinstance(x, Number) else types[x.number] for x in line.operands]
                operand = self.chosen if line.op == "where" else self.operand
                operands = [operand(x) for x in line.operands]
                n = line.result.number
                self.values[n] = self.compute(line.op, operands, dtypes, types[n])
            elif isinstance(line, Store):
                dtype = self.nest.buffers[line.buffer].dtype
                self.store(self.operand(line.operand), self.pointer(line.buffer, line.place), dtype)
            elif totals is not None:
                pointer, type, dtype = self.place_of(totals[line.result.number])
                before = self.emit(f"load {type}, ptr {pointer}")
                after = combine(self, line.op, dtype, before, self.operand(line.operand))
                self.do(f"store {type} {after}, ptr {pointer}")

    def loaded(self, line: Load) -> str:
        """A number from memory, or one that is a place."""
        dtype = self.nest.types[line.result.number]
        if line.buffer is not None:
            return self.load(self.pointer(line.buffer, line.place), dtype)
        return self.convert(self.address(line.place), int64, dtype)

    def pointer(self, buffer: int, place: Place) -> str:
        """The address of an element."""
        dtype = self.nest.buffers[buffer].dtype
        type, index = MEMORY[dtype.name], self.address(place)
        if buffer not in self.scratch:
            return self.at(f"%p{buffer}", type, index)
        if self.tile:
            index = self.emit(f"add nsw i64 {self.emit(f'mul nsw i64 {index}, {self.tile}')}, {self.lane}")
        return self.at(self.scratch[buffer], type, index)
