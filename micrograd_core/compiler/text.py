"""Nests as text: prints the body of a kernel in a language that a table describes.

The body computes unit ``u``: a row of the nest, or an element where nothing is reduced. Buffers are called ``p0``,
``p1``, …, and ``at0``, ``at1``, … are the places of their first elements. Numbers that are not known when a nest is
printed (`Given`, and symbolic lengths) are integers that each launch passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from micrograd_core.compiler.languages import Language
from micrograd_core.compiler.lengths import Length
from micrograd_core.compiler.nests import Compute, Draw, Line, Load, Nest, Number, Part, Place, Reduce, Store
from micrograd_core.compiler.program import Ref, operation
from micrograd_core.dtypes import DType, bool_, integer_range, uint64
from micrograd_core.ops.standard.random import PLACE


class Given(NamedTuple):
    """An integer that a launch passes, by its position."""

    position: int

    def __repr__(self) -> str:
        return f"m{self.position}"


def stream_at(buffer: str, start: str) -> str:
    """The words of a place in a stream of random numbers, as arguments of a function."""
    return ", ".join([f"{buffer}[{start} + {i}]" for i in range(PLACE)])


class Printer:
    """Prints one nest; `sizes` gathers the symbolic lengths that a launch must pass, after `integers` others."""

    carries = True
    """Whether sums of floats carry what each addition rounds off."""

    def __init__(self, nest: Nest, language: Language, integers: int, sizes: dict[Length, int] | None = None) -> None:
        self.nest, self.language, self.first = nest, language, integers
        self.sizes = {} if sizes is None else sizes
        self.lines: list[str] = []
        self.lengths: list[Any] = [*nest.kept, *nest.reduced]
        self.names: dict[int, str] = {}

    # ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────

    def integer(self, x: Any) -> str:
        """A length, a stride or an offset."""
        if isinstance(x, Length):
            return self.integer(Given(self.first + self.sizes.setdefault(x, len(self.sizes))))
        return self.language.integer.format(n=x.position) if isinstance(x, Given) else str(x)

    def place(self, buffer: int | None, place: Place) -> str:
        """Where an element lies in its buffer."""
        terms = [
            f"c{i}" if stride == 1 else f"{self.integer(stride)} * c{i}"
            for i, stride in enumerate(place.strides)
            if isinstance(stride, Given) or stride
        ]
        if buffer is not None and self.nest.buffers[buffer].role != "scratch":
            terms.append(f"at{buffer}")
        if isinstance(place.offset, Given) or place.offset:
            terms.append(self.integer(place.offset))
        return " + ".join(terms) or "0"

    def operand(self, x: Ref | Number) -> str:
        """A value of the nest, or a known number."""
        if isinstance(x, Ref):
            return self.names[x.number]
        if isinstance(x.value, Length):
            return self.language.converted(self.integer(x.value), x.dtype, "int32")
        return self.language.number(x.value, x.dtype)

    def dtype(self, x: Ref | Number) -> DType:
        """That of an operand."""
        return x.dtype if isinstance(x, Number) else self.nest.types[x.number]

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────────

    def let(self, result: Ref, x: str, rounded: bool = False) -> None:
        """A value of the nest, which gets a name."""
        dtype = self.nest.types[result.number]
        self.names[result.number] = name = f"v{result.number}"
        if rounded and dtype.is_floating:
            x = self.language.rounded.get(dtype.name, self.language.exact).format(x=x)
        narrow = dtype.is_integer and dtype.bits < 32 and rounded  # C computes in int
        x = self.language.converted(x, dtype) if narrow else x
        self.lines.append(self.language.let.format(T=self.language.types[dtype.name], name=name, x=x))

    def line(self, line: Line) -> None:
        """One line of a part."""
        language, types = self.language, self.nest.types
        match line:
            case Load(result, None, place):
                self.let(result, language.converted(self.place(None, place), types[result.number], "int32"))
            case Load(result, int(buffer), place):
                x = self.loaded(buffer, place)
                self.let(result, f"{x} != 0" if types[result.number] is bool_ else x)
            case Draw(result, buffer, place):
                dtype, stream = types[result.number], stream_at(f"p{buffer}", self.place(buffer, Place(0, ())))
                first, more = self.drawn(place, dtype)
                self.let(result, f"uniform_{dtype}({stream}, {language.converted(first, uint64, 'int32')}, {more})")
            case Compute(result, op, operands):
                given, dtypes = [*map(self.operand, operands)], [*map(self.dtype, operands)]
                x = language.spelled(op, given, dtypes, types[result.number])
                self.let(result, x, op not in ("where", "copy"))
            case Store(buffer, place, operand):
                x = self.operand(operand)
                x = language.boolean.format(x=x) if self.dtype(operand) is bool_ else x
                self.store(buffer, place, x)
            case Reduce(result, op, operand):
                self.combine(f"{result.number}", op, self.operand(operand), types[result.number])
            case _:
                raise TypeError(f"no language prints {type(line).__name__}")

    def drawn(self, place: Place, dtype: DType) -> tuple[str, str]:
        """Where a random number is in its stream: the position of one of its block, and how far it is from that."""
        return self.place(None, place), "0"

    def loaded(self, buffer: int, place: Place) -> str:
        """An element of a buffer, as an expression."""
        return f"p{buffer}[{self.place(buffer, place)}]"

    def store(self, buffer: int, place: Place, x: str) -> None:
        """Write an element of a buffer."""
        self.lines.append(f"p{buffer}[{self.place(buffer, place)}] = {x};")

    def combine(self, n: str, op: str, x: str, dtype: DType) -> None:
        """One turn of a reduction; sums of floats carry what each addition rounds off, as Neumaier's do."""
        language, primitive, total = self.language, operation(op).combine, f"v{n}"
        if primitive != "add" or not dtype.is_floating or not self.carries:
            step = language.spelled(primitive, [total, x], [dtype, dtype], dtype)
            self.lines.append(f"{total} = {language.converted(step, dtype)};")
            return
        exact, type = language.exact, language.types[dtype.name]
        self.lines.append(language.let.format(T=type, name=f"t{n}", x=exact.format(x=f"{total} + {x}")))
        (a, b) = (exact.format(x=f"{y} - t{n}") for y in (total, x))
        absolute = language.functions["abs"].format
        larger = language.chosen(f"{absolute(total)} >= {absolute(x)}", f"({a}) + {x}", f"({b}) + {total}")
        self.lines.append(f"e{n} += {larger};")
        self.lines.append(f"{total} = t{n};")

    def body(self) -> str:
        """The text of one unit, ``u``."""
        nest, language = self.nest, self.language
        for i, buffer in enumerate(nest.buffers):
            if buffer.role == "scratch":
                type = language.memory_of(buffer.dtype)
                self.lines.append(language.scratch.format(T=type, name=f"p{i}", n=self.integer(buffer.size or 1)))
        self.counters("u", 0, self.lengths[: len(nest.kept)])
        for part in nest.parts:
            reduces = [line for line in part.lines if isinstance(line, Reduce)]
            for each in reduces:
                self.start(each)
            self.part(part)
            for each in reduces:
                self.finish(each)
        return "\n".join(self.lines)

    def part(self, part: Part) -> None:
        """The lines of a part, in loops over what is reduced."""
        language, reduced = self.language, self.nest.reduced if part.inner else ()
        for i, n in enumerate(reduced, len(self.nest.kept)):
            self.lines.append(language.loop.format(I=language.counter, i=f"c{i}", n=self.integer(n)))
        for line in part.lines:
            self.line(line)
        self.lines += ["}"] * len(reduced)

    def counters(self, unit: str, first: int, lengths: Sequence[Any]) -> None:
        """Those of several axes, from that of all of them."""
        for i in reversed(range(len(lengths))):
            length = self.integer(lengths[i])
            at = f"{unit} % {length}" if i else unit
            self.lines.append(self.language.let.format(T=self.language.counter, name=f"c{first + i}", x=at))
            unit = f"({unit} / {length})"

    def start(self, line: Reduce) -> None:
        """What a reduction begins with."""
        language, n, dtype = self.language, line.result.number, self.nest.types[line.result.number]
        low, high = (-float("inf"), float("inf")) if dtype.is_floating else integer_range(dtype)
        first = {"sum": 0, "prod": 1, "max": low, "min": high}[line.op]
        type, self.names[n] = language.types[dtype.name], f"v{n}"
        self.lines.append(language.var.format(T=type, name=f"v{n}", x=language.number(first, dtype)))
        if line.op == "sum" and dtype.is_floating and self.carries:
            self.lines.append(language.var.format(T=type, name=f"e{n}", x=language.number(0, dtype)))

    def finish(self, line: Reduce) -> None:
        """Add what a sum's additions have rounded off; of infinities that is NaN, and left out."""
        n, dtype = line.result.number, self.nest.types[line.result.number]
        if line.op == "sum" and dtype.is_floating:
            whole = self.language.exact.format(x=f"v{n} + e{n}")
            lost = self.language.isnan.format(f"({whole})")
            self.lines.append(f"v{n} = {self.language.chosen(lost, f'v{n}', whole)};")
