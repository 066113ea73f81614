"""A program as lines of C that need no Python: nests as loops, and a template for what nests do not compute.

Every value lies in order. Inputs are where the caller says; memory of others is freed after their last use. What every
file has is in ``c_file.txt``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.fusion import Call, Run, plan
from micrograd_core.compiler.languages import C as LANGUAGE
from micrograd_core.compiler.nests import Place
from micrograd_core.compiler.passes import optimized
from micrograd_core.compiler.program import Program, Ref, Step, short
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.text import Printer
from micrograd_core.compiler.views import Node, role, viewed
from micrograd_core.compiler.writer import Writer, rewritten
from micrograd_core.errors import ProgramError
from micrograd_core.layout import Layout, Shape
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import CALL

C: Final = LANGUAGE._replace(draws="")
"""Random numbers are made block by block, by a template."""
FILE: Final = Template(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))


class LoopPrinter(Printer):
    """Prints a nest as a function that goes over all units; each buffer begins with its first element."""

    def place(self, buffer: int | None, place: Place) -> str:
        """Where an element lies in its buffer."""
        return super().place(None, place)

    def counters(self, unit: str, first: int, lengths: Sequence[Any]) -> None:
        """A loop for each axis."""
        self.lines += _loops(lengths)

    def function(self, name: str) -> str:
        """The text of the function."""
        given = [(i, x) for i, x in enumerate(self.nest.buffers) if x.role != "scratch"]
        types = [f"{'const ' * (x.role == 'in')}{C.types[x.dtype.name]} *restrict p{i}" for i, x in given]
        return f"static void {name}({', '.join(types)}) {{\n{self.body()}\n{'}' * len(self.nest.kept)}\n}}\n"


def _loops(lengths: Sequence[Any]) -> list[str]:
    return [f"for (long c{i} = 0; c{i} < {n}; c{i}++) {{" for i, n in enumerate(lengths)]


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────


class Array(NamedTuple):
    """An operand or a result of a call: its name in C, shape and dtype."""

    name: str
    type: TensorSpec

    def at(self, layout: Layout | None = None) -> str:
        """The element that counters name."""
        layout = Layout.contiguous(self.type.shape) if layout is None else layout
        terms = [f"{step} * c{i}" for i, step in enumerate(layout.strides) if step]
        return f"{self.name}[{' + '.join([str(layout.offset), *terms])}]"


def _each(shape: Shape, line: str) -> list[str]:
    """A line for each element."""
    return [*_loops(shape), line, "}" * len(shape)]


def _product(call: Call, out: Array, x: Array, y: Array) -> list[str]:
    batch, (m, k), n = out.type.shape[:-2], x.type.shape[-2:], y.type.shape[-1]
    layouts = [Layout.contiguous(each.type.shape).broadcast_to((*batch, *each.type.shape[-2:])) for each in (out, x, y)]
    places = [each.at(Layout(batch, layout.strides[:-2], 0)) for each, layout in zip((out, x, y), layouts, strict=True)]
    return _each(batch, f"PRODUCT({C.types[out.type.dtype.name]}, {m}, {k}, {n}, {', '.join(places)})")


def _taken(call: Call, out: Array, x: Array, indices: Array) -> list[str]:
    """Elements by index, of which negative ones count from the end; NaN, or 0, for one that names none."""
    x, indices = (indices, x) if call.op == "embedding" else (x, indices)
    axis, many, along = call.params.get("axis", 0), math.prod(indices.type.shape), call.op == "take_along_axis"
    before, length, after = x.type.shape[:axis], x.type.shape[axis], x.type.shape[axis + 1 :]
    if along and indices.type.shape != (*before, many := indices.type.shape[axis], *after):
        raise ProgramError(f"export: take_along_axis of {short(x.type)} by {short(indices.type)}; broadcast them first")
    size, lost = math.prod(after), "NAN" if out.type.dtype.is_floating else "0"
    place = f"({many} * c0 + c1) * {size} + c2"
    found = f"is ? {x.name}[({length} * c0 + row) * {size} + c2] : {lost}"
    row = f"ROW({indices.name}[{place if along else 'c1'}], {length})"
    return _each((math.prod(before), many, size), f"{row} {out.name}[{place}] = {found};")


def _received(call: Call, out: Array, g: Array, indices: Array) -> list[str]:
    """The gradient of `embedding`: each row is the sum of what its index received."""
    rows, length, count = math.prod(indices.type.shape), out.type.shape[0], math.prod(out.type.shape[1:])
    line = f"ROW({indices.name}[c0], {length}) if (is) {out.name}[{count} * row + c1] += {g.name}[{count} * c0 + c1];"
    return [*_each((length * count,), f"{out.name}[c0] = 0;"), *_each((rows, count), line)]


def _scattered(call: Call, out: Array, x: Array, *values: Array) -> list[str]:
    part, value = Layout.contiguous(out.type.shape).index(call.params["key"]), call.operands[1]
    new = [each.at(Layout.contiguous(each.type.shape).broadcast_to(part.shape)) for each in values]
    line = f"{out.at(part)} = {new[0] if new else C.number(value, out.type.dtype)};"
    return [*_each(out.type.shape, f"{out.at()} = {x.at()};"), *_each(part.shape, line)]


def _drawn(call: Call, out: Array, place: Array) -> list[str]:
    return [f"uniform_{C.types[out.type.dtype.name]}({place.name}, {math.prod(out.type.shape)}, {out.name});"]


def _view(call: Call, out: Array, *x: Array) -> list[str]:
    """Views are copies: every value lies in order. Of no operands are a number everywhere, and counters."""
    if not x:
        value = C.number(call.params["fill_value"], out.type.dtype) if call.op == "full" else "c0"
        return _each((math.prod(out.type.shape),), f"{out.name}[c0] = {value};")
    layout = viewed(Layout.contiguous(x[0].type.shape), Node(call.op, (), call.params, out.type, 0, "view"))
    return _each(out.type.shape, f"{out.at()} = {x[0].at(layout)};")


TEMPLATES: Final[Mapping[str, Callable[..., list[str]]]] = {
    "matmul": _product, "take": _taken, "embedding": _taken, "take_along_axis": _taken, "scatter": _scattered,
    "embedding_gradient": _received, "random_uniform_from": _drawn, "reshape": _view, "permute_dims": _view,
    "broadcast_to": _view, "getitem": _view, "full": _view, "arange": _view,
}  # fmt: skip
"""The lines of calls: functions of a call, and of the arrays of result and operands."""


def size_of(type: TensorSpec) -> int:
    """The bytes of an array."""
    return math.prod(type.shape) * type.dtype.itemsize


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────


def composed(program: Program) -> Program:
    """The program of what nests compute and `TEMPLATES` has.

    Raises
    ------
    ProgramError
        When a step is composed of something else.
    """

    def kept(name: str, operands: tuple[Any, ...]) -> bool:
        if name == "matmul":
            return all(len(x.shape) > 1 and x.dtype.is_floating for x in operands)
        return name in TEMPLATES or role(name, operands, C.covers) != CALL

    def rule(k: Any, step: Step, operands: tuple[Any, ...], types: Sequence[TensorSpec]) -> Any:
        compose: Any = TABLE[step.op].compose
        try:
            return None if kept(step.op, operands) else compose(k, *operands, **step.params)
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            made = f"{step.op!r}, which makes {', '.join(map(short, types))}"
            raise ProgramError(f"export: there is no C for {made}; compute it outside of the function") from error

    for x in program.types:
        if x.dtype.name not in C.types:
            raise ProgramError(f"export: C has no {x.dtype}, and the program {short(x)}; compute in float32 or float64")
    return optimized(rewritten(program, rule, Writer(kept)), C.covers)


def code(program: Program) -> tuple[list[str], list[str], list[str]]:
    """Functions of nests; lines that compute ``v0``, ``v1``, …; the names of outputs. The program is `composed`."""
    types, functions, lines = dict(enumerate(program.types[: program.inputs])), list[str](), list[str]()
    found = plan(program, [Layout.contiguous(x.shape) for x in types.values()], C.covers)
    steps, outputs = found.steps, [x.number for x in found.outputs]
    reads = [x.inputs if isinstance(x, Run) else [y.number for y in x.operands if isinstance(y, Ref)] for x in steps]
    last = {n: i for i, read in enumerate(reads) for n in read}
    for i, (step, read) in enumerate(zip(steps, reads, strict=True)):
        made = step.outputs if isinstance(step, Run) else step.results
        types.update(zip(made, step.types, strict=True))
        lines += [f"NEW({C.types[types[n].dtype.name]}, v{n}, {size_of(types[n])})" for n in made]
        if isinstance(step, Run):
            functions.append(LoopPrinter(step.nest, C, 0).function(f"nest{i}"))
            lines.append(f"nest{i}({', '.join(f'v{n}' for n in (*read, *made))});")
        else:
            lines += TEMPLATES[step.op](step, *[Array(f"v{n}", types[n]) for n in (*made, *read)])
        freed = {n for n in (*made, *read) if last.get(n, i) == i and n >= program.inputs and n not in outputs}
        lines += [f"free(v{n});" for n in sorted(freed)]
    given = {n for n in outputs if n < program.inputs}  # state, which may be overwritten before an output is read
    lines += [f"NEW(char, w{n}, {size_of(types[n])}) memcpy(w{n}, v{n}, {size_of(types[n])});" for n in sorted(given)]
    return functions, lines, [f"{'w' if n in given else 'v'}{n}" for n in outputs]
