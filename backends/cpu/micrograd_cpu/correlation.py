"""Convolutions as LLVM IR, for any sizes: products of a weight with places in an image, by vectors of positions.

An image is first copied with its padding, every `stride`-th element apart from the others ("phases"), so that what an
element of the kernel sees at all positions is a run of memory that starts at an offset of its own. Positions are those
of a row of this copy, one row after the other: some of them, at the ends of rows, see what nobody asked for.

A tile of 4 channels by 3 vectors of positions (or, for the gradient by the weight, by 3 elements of the kernel) stays
in registers while it is added up: 12 sums, 3 vectors and a number make the 16 registers that most processors have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from micrograd_cpu.convolution import FIELDS, PHASE
from micrograd_cpu.entries import part
from micrograd_cpu.llvm import Loops

CHANNELS: Final = 4
WIDE: Final = 3
"""A tile: channels, and vectors or elements of the kernel."""


class Code(Loops):
    """A function's text: `arguments` are ``type %name``."""

    def __init__(self, type: str, width: int) -> None:
        super().__init__()
        self.type, self.width, self.vector = type, width, f"<{width} x {type}>"

    def whole(self, head: str, arguments: Sequence[str]) -> str:
        """The whole."""
        body = "\n".join([*self.allocas, *self.lines])
        return f"define {head}({', '.join(arguments)}) nounwind {{\nentry:\n{body}\n  ret void\n}}"

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
        first = self.emit(f"insertelement {self.vector} poison, {self.type} {value}, i64 0")
        return self.emit(
            f"shufflevector {self.vector} {first}, {self.vector} poison, <{self.width} x i32> zeroinitializer"
        )

    def variable(self, value: str) -> str:
        """A vector that changes: memory of which LLVM makes a register."""
        self.allocas.append(f"  %a{len(self.allocas)} = alloca {self.vector}, align 64")
        name = f"%a{len(self.allocas) - 1}"
        self.write(value, name, self.vector)
        return name

    def accumulate(self, total: str, x: str, y: str) -> None:
        """``total += x * y``, rounded once where the processor does."""
        product = self.emit(f"fmul contract {self.vector} {x}, {y}")
        before = self.read(total, self.vector)
        self.write(self.emit(f"fadd contract {self.vector} {before}, {product}"), total, self.vector)

    def either(self, condition: str, body: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """One of two."""
        self.blocks += 1
        n = self.blocks
        self.do(f"br i1 {condition}, label %yes{n}, label %no{n}")
        for name, each in (("yes", body), ("no", otherwise)):
            self.label(f"{name}{n}")
            each()
            self.do(f"br label %both{n}")
        self.label(f"both{n}")

    def tiled(self, lengths: Sequence[str], sizes: Sequence[int], body: Callable[[list[str], list[str]], None]) -> None:
        """Loops over tiles: where each starts, and how long it is."""

        def along(starts: list[str], counts: list[str]) -> None:
            axis = len(starts)
            if axis == len(lengths):
                body(starts, counts)
                return

            def turn(counter: str) -> None:
                left = self.emit(f"sub nsw i64 {lengths[axis]}, {counter}")
                along([*starts, counter], [*counts, self.least(left, sizes[axis])])

            self.loop("0", lengths[axis], turn, sizes[axis])

        along([], [])

    def by_size(self, channels: str, wide: str, body: Callable[[int, int], None]) -> None:
        """A body for each size that a tile can have."""
        case = self.add(self.times(channels, WIDE), wide)
        sizes = [(c, w) for c in range(1, CHANNELS + 1) for w in range(1, WIDE + 1)]
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

    def fields(self, names: str) -> list[str]:
        """Some of `FIELDS`."""
        return [self.integer("%sizes", FIELDS.index(name)) for name in names.split()]


def _copy(c: Code) -> str:
    """Rows of numbers of some channels to another place; in runs of 4, where both are dense."""
    four = f"<4 x {c.type}>"
    dense = c.emit(f"icmp eq i64 {c.emit('or i64 %to_step, %from_step')}, 1")
    even, rest = c.emit("and i64 %columns, -4"), c.emit("and i64 %columns, 3")

    def row(channel: str, counter: str) -> None:
        target = c.place("%to", c.times(channel, "%to_channel"), c.times(counter, "%to_row"))
        source = c.place("%from", c.times(channel, "%from_channel"), c.times(counter, "%from_row"))

        def runs() -> None:
            c.loop("0", even, lambda i: c.write(c.read(c.place(source, i), four), c.place(target, i), four), 4)
            c.loop("0", rest, lambda i: c.write(c.read(c.place(source, even, i)), c.place(target, even, i)))

        def steps() -> None:
            def one(i: str) -> None:
                value = c.read(c.place(source, c.times(i, "%from_step")))
                c.write(value, c.place(target, c.times(i, "%to_step")))

            c.loop("0", "%columns", one)

        c.either(dense, runs, steps)

    c.loop("0", "%channels", lambda channel: c.loop("0", "%rows", lambda counter: row(channel, counter)))
    sizes = "to_channel to_row to_step from_channel from_row from_step channels rows columns".split()
    return c.whole(
        "internal void @copy", ["ptr noalias %to", "ptr noalias readonly %from", *[f"i64 %{n}" for n in sizes]]
    )


def _products(c: Code) -> str:
    """A tile of sums over all that is seen, and the bias."""

    def tile(channels: int, wide: int) -> None:
        rows = [c.place("%weight", c.times("%seen", i)) for i in range(channels)]
        totals = [[c.variable("zeroinitializer") for _ in range(wide)] for _ in range(channels)]

        def element(k: str) -> None:
            here = c.place("%image", c.integer("%offsets", k))
            vectors = [c.read(c.place(here, str(j * c.width)), c.vector) for j in range(wide)]
            for i in range(channels):
                factor = c.splat(c.read(c.place(rows[i], k)))
                for j in range(wide):
                    c.accumulate(totals[i][j], factor, vectors[j])

        c.loop("0", "%seen", element)
        for i in range(channels):
            bias = c.splat(c.read(c.place("%bias", str(i))))
            for j in range(wide):
                target = c.place("%to", c.times("%length", i), str(j * c.width))
                c.write(c.emit(f"fadd {c.vector} {c.read(totals[i][j], c.vector)}, {bias}"), target, c.vector)

    c.by_size("%channels", "%wide", tile)
    pointers = [f"ptr noalias readonly %{n}" for n in ("image", "offsets", "weight", "bias")]
    sizes = [f"i64 %{n}" for n in ("seen", "length", "channels", "wide")]
    return c.whole("internal void @products", ["ptr noalias %to", *pointers, *sizes])


def _sums(c: Code) -> str:
    """A tile of the weight's gradient, added up over all positions of some images."""

    def tile(channels: int, wide: int) -> None:
        zero = "zeroinitializer"
        totals = [[c.variable(zero) for _ in range(wide)] for _ in range(channels)]
        offsets = [c.integer("%offsets", j) for j in range(wide)]

        def image(n: str) -> None:
            seen = [c.place("%image", c.times(n, "%image_size"), each) for each in offsets]
            cotangents = [
                c.place("%cotangent", c.times(n, "%cotangent_size"), c.times("%length", i)) for i in range(channels)
            ]

            def vector(v: str) -> None:
                x = [c.read(c.place(each, v), c.vector) for each in seen]
                for i in range(channels):
                    g = c.read(c.place(cotangents[i], v), c.vector)
                    for j in range(wide):
                        c.accumulate(totals[i][j], g, x[j])

            c.loop("0", "%length", vector, c.width)

        c.loop("0", "%images", image)
        suffix = f"v{c.width}{'f32' if c.type == 'float' else 'f64'}"
        c.declared.add(f"declare {c.type} @llvm.vector.reduce.fadd.{suffix}({c.type}, {c.vector})")
        for i in range(channels):
            for j in range(wide):
                vector = c.read(totals[i][j], c.vector)
                given = f"{c.type} -0.0, {c.vector} {vector}"
                total = c.emit(f"call reassoc {c.type} @llvm.vector.reduce.fadd.{suffix}({given})")
                target = c.place("%to", c.times("%seen", i), str(j))
                c.write(c.emit(f"fadd {c.type} {c.read(target)}, {total}"), target)

    c.by_size("%channels", "%wide", tile)
    pointers = [f"ptr noalias readonly %{n}" for n in ("image", "offsets", "cotangent")]
    sizes = [f"i64 %{n}" for n in "image_size cotangent_size length images seen channels wide".split()]
    return c.whole("internal void @sums", ["ptr noalias %to", *pointers, *sizes])


def _call(c: Code, name: str, pointers: Sequence[str], sizes: Sequence[str]) -> None:
    given = [f"ptr {x}" for x in pointers] + [f"i64 {x}" for x in sizes]
    c.do(f"call void @{name}({', '.join(given)})")


def _phases(c: Code, image: str, target: str) -> None:
    """The copy of an image."""
    channels, phases, plane, plane_row = c.fields("channels phases plane plane_row")
    source_channel, source_row, source_step = c.fields("source_channel source_row source_step")
    between = c.times(phases, plane)

    def phase(n: str) -> None:
        at = c.add(c.times(n, len(PHASE)), len(FIELDS))
        facts = [c.integer("%sizes", c.add(at, i)) for i in range(len(PHASE))]
        to = c.place(target, c.times(n, plane), facts[1])
        strides = [between, plane_row, "1", source_channel, source_row, source_step]
        _call(c, "copy", [to, c.place(image, facts[0])], [*strides, channels, *facts[2:]])

    c.loop("0", phases, phase)


def _offsets(c: Code) -> str:
    """Where the offsets of the kernel's elements are."""
    (phases,) = c.fields("phases")
    return c.emit(f"getelementptr i64, ptr %sizes, i64 {c.add(c.times(phases, len(PHASE)), len(FIELDS))}")


def _correlate(c: Code) -> str:
    """Images ``begin .. end``, each group of channels for itself, times the weight."""
    channels, phases, plane, source, target, seen = c.fields("channels phases plane source target seen")
    outputs, vectors, length, groups, plane_row = c.fields("outputs vectors length groups plane_row")
    target_channel, target_row, target_step, start = c.fields("target_channel target_row target_step target_start")
    rows, columns = c.fields("rows columns")
    offsets = _offsets(c)
    grid = c.place("%scratch", c.add(c.times(c.times(channels, phases), plane), c.width))

    def unit(n: str) -> None:
        _phases(c, c.place("%image", c.times(n, source)), "%scratch")
        group = c.emit(f"urem i64 {n}, {groups}")
        first = c.times(group, outputs)

        def tile(starts: list[str], counts: list[str]) -> None:
            v, o = c.times(starts[0], c.width), starts[1]
            weight = c.place("%weight", c.times(c.add(first, o), seen))
            pointers = [
                c.place(grid, c.times(o, length), v), c.place("%scratch", v), offsets, weight,
                c.place("%bias", first, o),
            ]  # fmt: skip
            _call(c, "products", pointers, [seen, length, counts[1], counts[0]])

        c.tiled([vectors, outputs], [WIDE, CHANNELS], tile)
        to = c.place("%to", c.times(n, target), start)
        strides = [target_channel, target_row, target_step, length, plane_row, "1"]
        _call(c, "copy", [to, grid], [*strides, outputs, rows, columns])

    c.loop("%begin", "%end", unit)
    pointers = [f"ptr %{n}" for n in ("sizes", "to", "image", "weight", "bias", "scratch")]
    return c.whole("void @correlate", ["i64 %begin", "i64 %end", *pointers])


def _weigh(c: Code) -> str:
    """The gradient by the weight, from images ``begin .. end`` and cotangents, some images at a time."""
    channels, phases, plane, source, target, seen = c.fields("channels phases plane source target seen")
    outputs, length, groups, plane_row = c.fields("outputs length groups plane_row")
    rows, columns, target_channel, target_row, most = c.fields("rows columns target_channel target_row images")
    offsets = _offsets(c)
    image_size = c.times(c.times(channels, phases), plane)
    cotangent_size = c.times(outputs, length)
    cotangents = c.place("%scratch", c.add(c.times(image_size, most), c.width))

    def group(n: str) -> None:
        def some(first: str) -> None:
            count = c.least(c.emit(f"sub nsw i64 %end, {first}"), most)

            def image(i: str) -> None:
                unit = c.add(c.times(c.add(first, i), groups), n)
                _phases(c, c.place("%image", c.times(unit, source)), c.place("%scratch", c.times(i, image_size)))
                to = c.place(cotangents, c.times(i, cotangent_size))
                found = c.place("%cotangent", c.times(unit, target))
                strides = [length, plane_row, "1", target_channel, target_row, "1"]
                _call(c, "copy", [to, found], [*strides, outputs, rows, columns])

            def tile(starts: list[str], counts: list[str]) -> None:
                o, k = starts
                to = c.place("%to", c.times(c.add(c.times(n, outputs), o), seen), k)
                pointers = [
                    to, "%scratch", c.emit(f"getelementptr i64, ptr {offsets}, i64 {k}"),
                    c.place(cotangents, c.times(o, length)),
                ]  # fmt: skip
                _call(c, "sums", pointers, [image_size, cotangent_size, length, count, seen, *counts])

            c.loop("0", count, image)
            c.tiled([outputs, seen], [CHANNELS, WIDE], tile)

        c.loop("%begin", "%end", some, most)

    c.loop("0", groups, group)
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
    return "\n\n".join([*texts, *entries, *sorted(declared)]) + "\n"
