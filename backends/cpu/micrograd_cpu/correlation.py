"""Convolutions as LLVM IR, for any sizes: products of a weight with places in images, by vectors of positions.

Some channels of some images are first copied with their padding, every `stride`-th element apart from the others
("phases"), so that what an element of the kernel sees at all positions is a run of memory that starts at an offset of
its own. Positions are those of a row of this copy, in one image after the other, and then those of the next row: so
vectors are full of images that are smaller than they. What lies in rows between the positions is computed in vain;
where that costs more than a copy for each column of the kernel, there are such copies, and nothing lies between
(`convolution._sizes`).

A tile of channels by 3 vectors of positions (or, for the gradient by the weight, by 3 elements of the kernel) stays in
registers while it is added up. 4 channels make 12 sums, 3 vectors and a number, which is 16 registers; where vectors
have 64 bytes there are 32, for 8 channels. The weight is read where it lies, in any order of its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Final

from micrograd_cpu.convolution import FIELDS, PHASE
from micrograd_cpu.entries import part
from micrograd_cpu.lines import Lines

WIDE: Final = 3
"""Vectors, or elements of the kernel, of a tile."""
SHORT: Final = ", !llvm.loop !0"
"""Of a loop that LLVM would prepare for more turns than it has."""


class Code(Lines):
    """A function's text: `arguments` are ``type %name``."""

    def __init__(self, type: str, width: int) -> None:
        super().__init__()
        self.type, self.width, self.vector = type, width, f"<{width} x {type}>"
        self.tile = (8, 4) if width * (4 if type == "float" else 8) == 64 else (4,)  # channels, as registers allow

    def whole(self, head: str, arguments: Sequence[str], attribute: str = "") -> str:
        """The whole."""
        return self.defined(f"define {head}({', '.join(arguments)}) nounwind {attribute}")

    def add(self, x: str, y: str | int) -> str:
        """A sum of counters."""
        return self.emit(f"add nsw i64 {x}, {y}")

    def times(self, x: str, y: str | int) -> str:
        """A product of counters."""
        return self.emit(f"mul nsw i64 {x}, {y}")

    def least(self, x: str, y: str | int) -> str:
        """The smaller of two counters."""
        return self.intrinsic("smin", "i64", x, str(y))

    def place(self, base: str, *terms: str) -> str:
        """The address some numbers further."""
        for each in terms:
            base = self.emit(f"getelementptr {self.type}, ptr {base}, i64 {each}")
        return base

    def read(self, pointer: str, type: str = "") -> str:
        """What is at an address; vectors lie anywhere."""
        type = type or self.type
        return self.emit(f"load {type}, ptr {pointer}, align {8 if type == 'i64' else 4 if 'float' in type else 8}")

    def write(self, value: str, pointer: str, type: str = "") -> None:
        """Likewise."""
        type = type or self.type
        self.do(f"store {type} {value}, ptr {pointer}, align {4 if 'float' in type else 8}")

    def splat(self, value: str) -> str:
        """A vector of one number."""
        first, places = self.emit(f"insertelement {self.vector} poison, {self.type} {value}, i64 0"), self.width
        return self.emit(f"shufflevector {self.vector} {first}, {self.vector} poison, <{places} x i32> zeroinitializer")

    def variable(self, value: str) -> str:
        """A vector that changes: memory of which LLVM makes a register."""
        name = self.alloca(self.vector)
        self.write(value, name, self.vector)
        return name

    def accumulate(self, total: str, x: str, y: str) -> None:
        """``total += x * y``, rounded once where the processor does."""
        product = self.emit(f"fmul contract {self.vector} {x}, {y}")
        before = self.read(total, self.vector)
        self.write(self.emit(f"fadd contract {self.vector} {before}, {product}"), total, self.vector)

    def tiled(
        self, lengths: Sequence[str], sizes: Sequence[Sequence[int]], body: Callable[[list[str], list[str]], None]
    ) -> None:
        """Loops over tiles, of each axis large ones first: where each starts, and how long it is."""

        def along(starts: list[str], counts: list[str]) -> None:
            if len(starts) == len(lengths):
                body(starts, counts)
                return
            begin, length = "0", lengths[len(starts)]
            for size in sizes[len(starts)]:

                def turn(counter: str, size: int = size) -> None:
                    left = self.emit(f"sub nsw i64 {length}, {counter}")
                    along([*starts, counter], [*counts, self.least(left, size)])

                end = length if size <= 4 else self.emit(f"and i64 {length}, {-size}")
                self.loop(begin, end, turn, size)
                begin = end

        along([], [])

    def by_size(self, channels: str, wide: str, body: Callable[[int, int], None]) -> None:
        """A body for each size that a tile can have."""
        case = self.add(self.times(channels, WIDE), wide)
        sizes = list(product([*range(1, self.tile[-1]), *self.tile], range(1, WIDE + 1)))
        cases = " ".join(f"i64 {c * WIDE + w}, label %tile{c}x{w}" for c, w in sizes)
        self.do(f"switch i64 {case}, label %done [ {cases} ]")
        for c, w in sizes:
            self.label(f"tile{c}x{w}")
            body(c, w)
            self.do("br label %done")
        self.label("done")

    def integer(self, base: str, index: str | int) -> str:
        """One of the sizes or offsets at an address."""
        return self.read(self.emit(f"getelementptr i64, ptr {base}, i64 {index}"), "i64")

    def fields(self) -> None:
        """All `FIELDS`, by their names."""
        for n, name in enumerate(FIELDS):
            self.do(f"%{name} = load i64, ptr {self.emit(f'getelementptr i64, ptr %sizes, i64 {n}')}")

    def call(self, name: str, pointers: Sequence[str], sizes: Sequence[str]) -> None:
        """Call another of these functions."""
        given = [f"ptr {x}" for x in pointers] + [f"i64 {x}" for x in sizes]
        self.do(f"call void @{name}({', '.join(given)})")


def _copy(c: Code) -> str:
    """Rows of numbers of some channels to another place; in runs, where both are dense."""
    dense = c.emit(f"icmp eq i64 {c.emit('or i64 %to_step, %from_step')}, 1")

    def row(channel: str, counter: str) -> None:
        target = c.place("%to", c.times(channel, "%to_channel"), c.times(counter, "%to_row"))
        source = c.place("%from", c.times(channel, "%from_channel"), c.times(counter, "%from_row"))

        def run(i: str, type: str) -> None:
            c.write(c.read(c.place(source, i), type), c.place(target, i), type)

        def one(i: str) -> None:
            value = c.read(c.place(source, c.times(i, "%from_step")))
            c.write(value, c.place(target, c.times(i, "%to_step")))

        begin = "0"
        for count in (c.width, 4):
            end = c.emit(f"select i1 {dense}, i64 {c.emit(f'and i64 %columns, {-count}')}, i64 0")
            c.loop(begin, end, partial(run, type=f"<{count} x {c.type}>"), count, SHORT)
            begin = end
        c.loop(begin, "%columns", one, 1, SHORT)

    c.loop("0", "%channels", lambda channel: c.loop("0", "%rows", lambda counter: row(channel, counter)))
    names = "to_channel to_row to_step from_channel from_row from_step channels rows columns".split()
    arguments = ["ptr noalias %to", "ptr noalias readonly %from", *[f"i64 %{n}" for n in names]]
    # A call of memcpy, of which LLVM would make one, takes longer than most rows.
    return c.whole("internal void @copy", arguments, '"no-builtins"')


def _products(c: Code) -> str:
    """A tile of sums over all that is seen, added to what is there, or at the first channels to the bias."""
    begins = c.emit("icmp eq i64 %channel, 0")

    def first(place: str, bias: str) -> str:
        return c.emit(f"select i1 {begins}, {c.vector} {bias}, {c.vector} {c.read(place, c.vector)}")

    def tile(channels: int, wide: int) -> None:
        rows = [c.place("%weight", c.times("%weight_row", i)) for i in range(channels)]
        places = [
            [c.place("%to", c.times("%length", i), str(j * c.width)) for j in range(wide)] for i in range(channels)
        ]
        biases = [c.splat(c.read(c.place("%bias", str(i)))) for i in range(channels)]
        totals = [[c.variable(first(place, bias)) for place in row] for row, bias in zip(places, biases, strict=True)]

        def element(k: str) -> None:
            here, at = c.place("%image", c.integer("%offsets", k)), c.integer("%elements", k)
            vectors = [c.read(c.place(here, str(j * c.width)), c.vector) for j in range(wide)]
            for row, each in zip(rows, totals, strict=True):
                factor = c.splat(c.read(c.place(row, at)))
                for total, vector in zip(each, vectors, strict=True):
                    c.accumulate(total, factor, vector)

        c.loop("0", "%seen", element)
        for row, each in zip(places, totals, strict=True):
            for place, total in zip(row, each, strict=True):
                c.write(c.read(total, c.vector), place, c.vector)

    c.by_size("%channels", "%wide", tile)
    pointers = [f"ptr noalias readonly %{n}" for n in ("image", "weight", "bias", "offsets", "elements")]
    sizes = [f"i64 %{n}" for n in ("channel", "weight_row", "seen", "length", "channels", "wide")]
    return c.whole("internal void @products", ["ptr noalias %to", *pointers, *sizes])


def _sums(c: Code) -> str:
    """A tile of the weight's gradient, added up over all positions of some images."""
    suffix = f"v{c.width}{'f32' if c.type == 'float' else 'f64'}"
    c.declared.add(f"declare {c.type} @llvm.vector.reduce.fadd.{suffix}({c.type}, {c.vector})")

    def tile(channels: int, wide: int) -> None:
        totals = [[c.variable("zeroinitializer") for _ in range(wide)] for _ in range(channels)]
        seen = [c.place("%image", c.integer("%offsets", j)) for j in range(wide)]
        cotangents = [c.place("%cotangent", c.times("%length", i)) for i in range(channels)]

        def vector(v: str) -> None:
            x = [c.read(c.place(each, v), c.vector) for each in seen]
            for row, cotangent in zip(totals, cotangents, strict=True):
                g = c.read(c.place(cotangent, v), c.vector)
                for total, each in zip(row, x, strict=True):
                    c.accumulate(total, g, each)

        c.loop("0", c.times("%vectors", c.width), vector, c.width)
        for i, row in enumerate(totals):
            for j, each in enumerate(row):
                given = f"{c.type} -0.0, {c.vector} {c.read(each, c.vector)}"
                total = c.emit(f"call reassoc {c.type} @llvm.vector.reduce.fadd.{suffix}({given})")
                target = c.place("%to", c.times("%weight_row", i), c.integer("%elements", j))
                c.write(c.emit(f"fadd {c.type} {c.read(target)}, {total}"), target)

    c.by_size("%channels", "%wide", tile)
    pointers = [f"ptr noalias readonly %{n}" for n in ("image", "cotangent", "offsets", "elements")]
    sizes = [f"i64 %{n}" for n in ("weight_row", "vectors", "length", "channels", "wide")]
    return c.whole("internal void @sums", ["ptr noalias %to", *pointers, *sizes])


def _unit(c: Code, first: str, i: str, group: str) -> str:
    """The number of a group of channels of an image."""
    return c.add(c.times(c.add(first, i), "%groups"), group)


def _blocks(c: Code, first: str, count: str, group: str, body: Callable[[str, str, list[str]], None]) -> None:
    """Some channels of `count` images at a time, copied to the scratch.

    The body is told the first of them, how many elements they have, and where these are in the copy and in the weight.
    """
    table = c.emit(f"getelementptr i64, ptr %sizes, i64 {c.add(c.times('%phases', PHASE), len(FIELDS))}")
    further = c.emit(f"getelementptr i64, ptr {table}, i64 {c.times('%block', '%elements')}")
    strides = [c.times("%phases", "%plane"), "%plane_row", "1", "%source_channel", "%source_row", "%source_step"]

    def some(channel: str) -> None:
        here = c.least(c.emit(f"sub nsw i64 %channels, {channel}"), "%block")

        def phase(i: str, n: str) -> None:
            at = c.add(c.times(n, PHASE), len(FIELDS))
            source, target, rows, columns = (c.integer("%sizes", c.add(at, k)) for k in range(PHASE))
            unit = c.times(_unit(c, first, i, group), "%source")
            found = c.place("%image", unit, c.times(channel, "%source_channel"), source)
            to = c.place("%scratch", c.times(i, "%image_step"), c.times(n, "%plane"), target)
            c.call("copy", [to, found], [*strides, here, rows, columns])

        c.loop("0", count, lambda i: c.loop("0", "%phases", lambda n: phase(i, n)))
        body(channel, c.times(here, "%elements"), [table, further])

    c.loop("0", "%channels", some, "%block")


def _correlate(c: Code) -> str:
    """Blocks of images ``begin .. end``, each group of channels for itself, times the weight."""
    c.fields()
    grid = c.place("%scratch", "%grid")

    def some(n: str) -> None:
        group, first = c.emit(f"urem i64 {n}, %groups"), c.times(c.emit(f"udiv i64 {n}, %groups"), "%images")
        count, output = c.least(c.emit(f"sub nsw i64 %all, {first}"), "%images"), c.times(group, "%outputs")

        def block(channel: str, seen: str, tables: list[str]) -> None:
            weight = c.place("%weight", c.times(group, "%weight_group"), c.times(channel, "%weight_channel"))

            def tile(starts: list[str], counts: list[str]) -> None:
                v, o = c.times(starts[0], c.width), starts[1]
                to, row = c.place(grid, c.times(o, "%length"), v), c.place(weight, c.times(o, "%weight_row"))
                pointers = [to, c.place("%scratch", v), row, c.place("%bias", output, o), *tables]
                c.call("products", pointers, [channel, "%weight_row", seen, "%length", *reversed(counts)])

            c.tiled(["%vectors", "%outputs"], [[WIDE], c.tile], tile)

        def result(i: str) -> None:
            strides = ["%target_channel", "%target_row", "%target_step", "%length", "%plane_row", "1"]
            to = c.place("%to", c.times(_unit(c, first, i, group), "%target_size"), "%target_start")
            found = c.place(grid, c.times(i, "%image_step"))
            c.call("copy", [to, found], [*strides, "%outputs", "%rows", "%columns"])

        _blocks(c, first, count, group, block)
        c.loop("0", count, result)

    c.loop("%begin", "%end", some)
    pointers = [f"ptr %{n}" for n in ("sizes", "to", "image", "weight", "bias", "scratch")]
    return c.whole("void @correlate", ["i64 %begin", "i64 %end", *pointers])


def _weigh(c: Code) -> str:
    """Parts ``begin .. end`` of the gradient by the weight, some channels of cotangents each, some images at a time."""
    c.fields()
    grid = c.place("%scratch", "%grid")

    def part(n: str) -> None:
        group, output = c.emit(f"udiv i64 {n}, %parts"), c.times(c.emit(f"urem i64 {n}, %parts"), "%share")
        outputs = c.least(c.emit(f"sub nsw i64 %outputs, {output}"), "%share")

        def some(first: str) -> None:
            count = c.least(c.emit(f"sub nsw i64 %all, {first}"), "%images")

            def cotangent(i: str) -> None:
                strides = ["%length", "%plane_row", "1", "%target_channel", "%target_row", "1"]
                unit = c.times(_unit(c, first, i, group), "%target_size")
                found = c.place("%cotangent", unit, c.times(output, "%target_channel"))
                to = c.place(grid, c.times(i, "%image_step"))
                c.call("copy", [to, found], [*strides, outputs, "%rows", "%columns"])

            def block(channel: str, seen: str, tables: list[str]) -> None:
                weight = c.place("%to", c.times(group, "%weight_group"), c.times(output, "%weight_row"))
                weight = c.place(weight, c.times(channel, "%weight_channel"))

                def tile(starts: list[str], counts: list[str]) -> None:
                    o, k = starts
                    chosen = [c.emit(f"getelementptr i64, ptr {each}, i64 {k}") for each in tables]
                    to, cotangents = c.place(weight, c.times(o, "%weight_row")), c.place(grid, c.times(o, "%length"))
                    c.call(
                        "sums", [to, "%scratch", cotangents, *chosen], ["%weight_row", "%vectors", "%length", *counts]
                    )

                c.tiled([outputs, seen], [c.tile, [WIDE]], tile)

            end = c.times(outputs, "%length")
            c.loop("0", end, lambda v: c.write("zeroinitializer", c.place(grid, v), c.vector), c.width)
            c.loop("0", count, cotangent)
            _blocks(c, first, count, group, block)

        c.loop("0", "%all", some, "%images")

    c.loop("%begin", "%end", part)
    pointers = [f"ptr %{n}" for n in ("sizes", "to", "image", "cotangent", "scratch")]
    return c.whole("void @weigh", ["i64 %begin", "i64 %end", *pointers])


def module(type: str, bytes: int) -> str:
    """`@correlate` and `@weigh`, for floats of a type, with vectors of some bytes."""
    declared, texts = set[str](), list[str]()
    for each in (_copy, _products, _sums, _correlate, _weigh):
        code = Code(type, bytes // (4 if type == "float" else 8))
        texts.append(each(code))
        declared |= code.declared
    entries = [part("correlate_arrays", "correlate", 6), part("weigh_arrays", "weigh", 5)]
    return "\n\n".join(
        [*texts, *entries, *sorted(declared), '!0 = distinct !{!0, !{!"llvm.loop.vectorize.enable", i1 false}}\n']
    )
