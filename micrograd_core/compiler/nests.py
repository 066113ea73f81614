"""Loop nests: what a device compiles. A few loops, and in them straight lines of scalar primitives.

The outer loops go over the axes that are kept. In each of their turns ("row") come `Part`s, in order: straight lines
that are computed once, and inner loops over the axes that are reduced, which compute elements and add them up. Where
nothing is reduced there is one part, and its line is computed for each element. A printer for a device needs nothing
else: places in memory are affine in the loops' counters, and views have become such places.

`str` of a nest is pseudocode. Who makes nests from a program is `fusion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

from micrograd_core.compiler.program import Ref
from micrograd_core.dtypes import DType
from micrograd_core.layout import contiguous_strides
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import LONG, NEST


class Number(NamedTuple):
    """An operand that is known."""

    value: Any
    dtype: DType

    def __str__(self) -> str:
        return repr(self.value)


class Place(NamedTuple):
    """An element: ``offset + sum(stride * counter)``, counters of kept axes first. Elements, not bytes."""

    offset: int
    strides: tuple[int, ...]


class Load(NamedTuple):
    """``result = buffer[place]``; without a buffer the place itself is the number."""

    result: Ref
    buffer: int | None
    place: Place


class Draw(NamedTuple):
    """``result`` is a random number: that at a place in the stream that begins where `buffer` says.

    What it is `random_uniform_from` specifies, for dtypes of 32 and 64 bits; places count its numbers.
    """

    result: Ref
    buffer: int
    place: Place


class Compute(NamedTuple):
    """``result = op(operands)``, a scalar primitive of the op table."""

    result: Ref
    op: str
    operands: tuple[Ref | Number, ...]


class Reduce(NamedTuple):
    """``result`` is `operand` combined over the inner loops by ``sum``, ``prod``, ``max`` or ``min``."""

    result: Ref
    op: str
    operand: Ref | Number


class Store(NamedTuple):
    """``buffer[place] = operand``."""

    buffer: int
    place: Place
    operand: Ref | Number


Line = Load | Draw | Compute | Reduce | Store


class Part(NamedTuple):
    """Lines that are computed once for each row, or, `inner`, for each element of it."""

    inner: bool
    lines: tuple[Line, ...]


class Buffer(NamedTuple):
    """Memory of a nest: ``"in"``, ``"out"``, or ``"scratch"``, which is a row's own and forgotten after it.

    Products have some of the role ``"shared"``, which is a workgroup's.
    """

    role: str
    dtype: DType
    size: int


class Nest(NamedTuple):
    """Loops over `kept` and, within, over `reduced` axes; `types` are those of the numbers in the lines.

    Two outputs share no memory, and none with an input.
    """

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    buffers: tuple[Buffer, ...]
    parts: tuple[Part, ...]
    types: tuple[DType, ...]

    def __str__(self) -> str:
        return _text(self)


def varying(nest: Nest) -> dict[int, frozenset[int]]:
    """The axes along which each value differs, by its number: loops over other axes need it once.

    Values that must be computed where their line stands have axis -1 as well: random numbers, sums, and loads from
    memory that the nest writes.
    """
    kept = frozenset(range(-1, len(nest.kept)))
    every = frozenset(range(-1, len(nest.kept) + len(nest.reduced)))
    empty = 0 in (*nest.kept, *nest.reduced)  # an address that no turn looks at may be none
    found: dict[int, frozenset[int]] = {}
    for part in nest.parts:
        for line in part.lines:
            if isinstance(line, Store):
                continue
            number = line.result.number
            if isinstance(line, Compute) and not empty:
                found[number] = frozenset().union(*[found[x.number] for x in line.operands if isinstance(x, Ref)])
            elif (
                isinstance(line, Load) and not empty and (line.buffer is None or nest.buffers[line.buffer].role == "in")
            ):
                found[number] = frozenset([axis for axis, stride in enumerate(line.place.strides) if stride])
            else:
                found[number] = every if part.inner and not isinstance(line, Reduce) else kept
    return found


def compositions_of_nests() -> dict[str, Callable[..., Any]]:
    """By name, the compositions that a device which compiles runs as one kernel each where nothing is traced, too."""
    return {name: op.compose for name, op in TABLE.items() if op.lowering == NEST and op.compose is not None}


def length(op: str) -> int:
    """How long a primitive takes to compile, in additions."""
    return 10 if TABLE[op].cost >= LONG else 1


def size(nest: Nest) -> int:
    """How long a nest takes to compile, in additions."""
    lines = [line for part in nest.parts for line in part.lines]
    return sum(length(line.op) if isinstance(line, Compute) else 1 for line in lines)


def neighbours(lengths: Sequence[int], strides: Iterable[Sequence[int]], apart: int = 0) -> list[list[int]]:
    """Axes in groups that become one: neighbours along which memory goes on, in all operands; none of length 1.

    Axes before and after `apart` stay apart.
    """
    each = list(strides)
    groups: list[list[int]] = []
    for axis, length in enumerate(lengths):
        if length == 1:
            continue
        if groups and (groups[-1][-1] < apart) == (axis < apart):
            last = groups[-1][-1]
            if all(steps[last] == steps[axis] * length for steps in each):
                groups[-1].append(axis)
                continue
        groups.append([axis])
    return groups


def in_turn(shape: Sequence[int], reduced: Sequence[int]) -> list[tuple[bool, int]]:
    """Axes of memory that lies in order, those that are reduced and those that are kept in turn, with their lengths."""
    longer = [axis for axis, length in enumerate(shape) if length != 1]
    turns = groupby(longer, lambda axis: axis in reduced)
    return [(is_reduced, prod([shape[axis] for axis in axes])) for is_reduced, axes in turns]


def merged(nest: Nest) -> Nest:
    """The same nest with as few axes as can be: none of length 1, and neighbours are one where memory goes on."""
    kept, reduced = len(nest.kept), len(nest.reduced)
    lengths = [*nest.kept, *nest.reduced]
    places = [
        line.place
        for part in nest.parts
        for line in part.lines
        if isinstance(line, (Load, Draw, Store)) and not _is_scratch(nest, line)
    ]
    groups = neighbours(lengths, [place.strides for place in places], kept)
    outer = sum(axes[0] < kept for axes in groups)
    lengths_of = [prod([lengths[axis] for axis in axes]) for axes in groups]
    aside = Place(0, (0,) * outer + contiguous_strides(tuple(lengths_of[outer:])))

    def placed(line: Load | Draw | Store) -> Line:
        there = Place(line.place.offset, tuple(line.place.strides[axes[-1]] for axes in groups))
        return line._replace(place=aside if _is_scratch(nest, line) else there)

    parts = moved(nest.parts, placed)
    shorter = tuple(lengths_of[outer:]) or ((1,) if reduced else ())  # a sum over axes of length 1 is one, too
    if shorter == (1,) and outer == len(groups):
        parts = moved(parts, lambda x: x._replace(place=x.place._replace(strides=(*x.place.strides, 0))))
    return Nest(tuple(lengths_of[:outer]), shorter, nest.buffers, parts, nest.types)


def moved(parts: Sequence[Part], change: Callable[[Any], Line]) -> tuple[Part, ...]:
    """The same parts, where `change` says how each line that reads or writes memory does so."""

    def line(old: Line) -> Line:
        return change(old) if isinstance(old, (Load, Draw, Store)) else old

    return tuple(Part(part.inner, tuple(map(line, part.lines))) for part in parts)


def _is_scratch(nest: Nest, line: Load | Draw | Store) -> bool:
    return line.buffer is not None and nest.buffers[line.buffer].role == "scratch"


# ── reading one ──────────────────────────────────────────────────────────────────────────────────────────────

COUNTERS = "ijklmnopqrstuvwxyz"


def _text(nest: Nest) -> str:
    counters = [COUNTERS[i] if i < len(COUNTERS) else f"i{i}" for i in range(len(nest.kept) + len(nest.reduced))]
    rows, inner = counters[: len(nest.kept)], counters[len(nest.kept) :]
    names = [f"{buffer.role}{i}" for i, buffer in enumerate(nest.buffers)]
    given = [f"{name}: {buffer.dtype}[{buffer.size!r}]" for name, buffer in zip(names, nest.buffers, strict=True)]
    lines = [f"nest({', '.join(given)})", *_loops(rows, nest.kept, 1)]
    for part in nest.parts:
        depth = 1 + len(counters if part.inner else rows)
        lines += _loops(inner, nest.reduced, 1 + len(rows)) if part.inner else []
        lines += ["    " * depth + _line(line, names, counters) for line in part.lines]
    return "\n".join(lines)


def _loops(counters: Sequence[str], lengths: Sequence[int], depth: int) -> list[str]:
    pairs = enumerate(zip(counters, lengths, strict=True), depth)
    return ["    " * at + f"for {counter} < {length!r}:" for at, (counter, length) in pairs]


def _line(line: Line, names: Sequence[str], counters: Sequence[str]) -> str:
    if isinstance(line, Load):
        place = _place(line.place, counters)
        return f"{line.result} = {place}" if line.buffer is None else f"{line.result} = {names[line.buffer]}[{place}]"
    if isinstance(line, Draw):
        return f"{line.result} = random({names[line.buffer]})[{_place(line.place, counters)}]"
    if isinstance(line, Store):
        return f"{names[line.buffer]}[{_place(line.place, counters)}] = {line.operand}"
    if isinstance(line, Reduce):
        return f"{line.result} {line.op}= {line.operand}"
    spelling = TABLE[line.op].scalar or f"{line.op}({', '.join(['{}'] * len(line.operands))})"
    return f"{line.result} = {spelling.format(*line.operands)}"


def _place(place: Place, counters: Sequence[str]) -> str:
    found = [repr(place.offset)] if place.offset else []
    pairs = zip(place.strides, counters, strict=True)
    found += [counter if stride == 1 else f"{stride!r}*{counter}" for stride, counter in pairs if stride]
    return " + ".join(found) or "0"
