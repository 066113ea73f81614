"""Nests as text for GPUs: a thread computes a pack of neighbours, and threads share the rows that are reduced.

Where nothing is reduced, a unit is a pack of `width` elements that lie next to each other along the last axis. Else it
is a row, which `threads` threads share: each takes every so-manyth pack of it, and all of them get what is reduced. The
body uses ``u``, the unit; ``lane``, the thread's place among those of its row; and ``count``, how many elements the
pack has. The language's preamble has what moves packs and reduces: ``part`` and ``put`` for packs, ``unpack`` and
``packed``, ``number`` and ``element`` between memory and lines, and ``reduce``.
"""

from __future__ import annotations

import math
from typing import Final

from micrograd_core.compiler.languages import Language
from micrograd_core.compiler.nests import Compute, Load, Nest, Part, Place, Reduce, Store
from micrograd_core.compiler.program import Ref
from micrograd_core.compiler.text import Printer
from micrograd_core.dtypes import DType

BYTES: Final = 16
"""What a thread moves at once."""
MOST: Final = 8
"""Elements of a pack."""
REGISTERS: Final = 96
"""Elements of all packs that a thread holds at most."""
TURNS: Final = 4
"""Packs of a row that a thread takes before more threads share it."""
FUNCTORS: Final = {"sum": "Sum", "prod": "Product", "max": "Max", "min": "Min"}


def is_line(nest: Nest) -> bool:
    """Whether memory is read and written in order, so that the last pack may have fewer elements."""
    lines = [line for part in nest.parts for line in part.lines if isinstance(line, (Load, Store))]
    return not nest.reduced and len(nest.kept) == 1 and all(line.place.strides[0] in (0, 1) for line in lines)


def width(nest: Nest) -> int:
    """How many neighbours make a pack. But in a line, packs are whole."""
    room = 1 << (REGISTERS // min(len(nest.buffers), REGISTERS)).bit_length() - 1
    most = math.gcd(MOST, room, BYTES // min([x.dtype.itemsize for x in nest.buffers]))
    return most if is_line(nest) else math.gcd(most, (1, *nest.kept, *nest.reduced)[-1])


def threads(nest: Nest, most: int) -> int:
    """How many threads share a row: a power of two, up to `most`."""
    packs = math.prod(nest.reduced) // width(nest)
    return min(most, 1 << (max(packs - 1, 0) // TURNS).bit_length())


class PackPrinter(Printer):
    """Prints one nest for blocks of `most` threads; with `aligned` its buffers begin at multiples of 16 bytes."""

    carries = False

    def __init__(self, nest: Nest, language: Language, most: int, aligned: bool) -> None:
        super().__init__(nest, language, 0)
        self.width, self.threads, self.aligned = width(nest), threads(nest, most), aligned
        self.lengths[-1:] = [n // self.width for n in self.lengths[-1:]]  # of packs
        self.packs: dict[tuple[int, Place], str] = {}
        self.head: list[str] = []  # what comes before the lines of a pack's elements, and after
        self.tail: list[str] = []
        self.inner = True
        lines = [line for part in nest.parts for line in part.lines if isinstance(line, (Compute, Reduce))]
        given = [x for line in lines for x in getattr(line, "operands", line[2:])]
        self.read = {x.number for x in given if isinstance(x, Ref)}

    def let(self, result: Ref, x: str, rounded: bool = False) -> None:
        """A value of the nest; one that is only stored is rounded there."""
        super().let(result, x, rounded and result.number in self.read)

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

    def place(self, buffer: int | None, place: Place) -> str:
        """That of element ``w`` of a pack."""
        return self.beginning(place) + "".join([f" + {step} * w" for step in place.strides[-1:] if step])

    def beginning(self, place: Place) -> str:
        """That of the first element: the counter of the last axis counts packs."""
        return super().place(
            None, Place(place.offset, (*place.strides[:-1], *(each * self.width for each in place.strides[-1:])))
        )

    def loaded(self, buffer: int, place: Place) -> str:
        """An element; neighbours are read together."""
        dtype = self.nest.buffers[buffer].dtype
        if place.strides[-1:] != (1,):
            return f"number({super().loaded(buffer, place)})"
        name = self.packs.get((buffer, place))
        if name is None:
            name = self.packs[buffer, place] = f"q{len(self.names)}"
            whole = self.aligned and not any(each % self.width for each in (place.offset, *place.strides[:-1]))
            facts = f"{self.language.memory_of(dtype)}, {self.width}, {str(whole).lower()}"
            self.head.append(f"{self.language.types[dtype.name]} {name}[{self.width}];")
            self.head.append(f"unpack(part<{facts}>(p{buffer} + {self.beginning(place)}, count), {name});")
        return f"{name}[w]"

    def drawn(self, place: Place, dtype: DType) -> tuple[str, str]:
        """Neighbours of one block share its words: the compiler sees that they are alike."""
        steps = 256 // dtype.bits, place.offset, *place.strides[:-1]
        whole = place.strides[-1:] == (1,) and not any(n % self.width for n in steps)
        return (self.beginning(place), "w") if whole else super().drawn(place, dtype)

    def store(self, buffer: int, place: Place, x: str) -> None:
        """Write an element; neighbours are written together, and what there is once a row by one thread."""
        dtype, name = self.nest.buffers[buffer].dtype, f"r{buffer}"
        memory = self.language.memory_of(dtype)
        if place.strides[-1:] != (1,):
            once = "if (lane == 0) " if self.nest.reduced and not self.inner else ""
            self.lines.append(f"{once}p{buffer}[{self.place(buffer, place)}] = element<{memory}>({x});")
            return
        self.head.append(f"{self.language.types[dtype.name]} {name}[{self.width}];")
        self.lines.append(f"{name}[w] = {x};")
        self.tail.append(f"put(p{buffer} + {self.beginning(place)}, count, packed<{memory}>({name}));")

    # ── loops ────────────────────────────────────────────────────────────────────────────────────────────────

    def part(self, part: Part) -> None:
        """The lines of a part: of packs of elements, or of a row."""
        self.inner, kept = part.inner, len(self.nest.kept)
        if part.inner:
            counter, turns = self.language.counter, math.prod(self.lengths[kept:])
            self.lines.append(f"for ({counter} r = lane; r < {turns}; r += {self.threads}) {{")
            self.counters("r", kept, self.lengths[kept:])
        if part.inner or not self.nest.reduced:
            self.elements(part)
        else:
            for line in part.lines:
                self.line(line)
        self.lines += ["}"] * part.inner

    def elements(self, part: Part) -> None:
        """The lines of a part, for each element of a pack."""
        before, self.lines, self.head, self.tail, self.packs = self.lines, [], [], [], {}
        for line in part.lines:
            self.line(line)
        turns = ["#pragma unroll", f"for (int w = 0; w < {self.width}; ++w) {{", *self.lines, "}"]
        self.lines = [*before, *self.head, *turns, *self.tail]

    def finish(self, line: Reduce) -> None:
        """Let all threads of a row have what they have combined."""
        n, dtype = line.result.number, self.nest.types[line.result.number]
        total = f"reduce<{FUNCTORS[line.op]}, {self.threads}>(v{n})"
        self.lines.append(f"v{n} = {self.language.rounded.get(dtype.name, '{x}').format(x=total)};")
