"""Nests that need nothing of each other, as one launch: each has workgroups of its own.

Where bodies may name their workgroup, ``w``, the compiler sees that all its units take the same branch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.compiler.fusion import REACH, Limits, Plan, Run
from micrograd_core.compiler.languages import Language
from micrograd_core.compiler.lengths import Length, actual
from micrograd_core.compiler.nests import Buffer, Nest, moved, size
from micrograd_core.compiler.program import Ref
from micrograd_core.compiler.text import Printer


class Joint(NamedTuple):
    """Several nests, whose lines name the buffers of all."""

    buffers: tuple[Buffer, ...]
    nests: tuple[Nest, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.nests))


def units(nest: Nest | Joint, lengths: Sequence[int], group: int) -> int:
    """How many units a launch has: of several nests all those of their workgroups."""
    if isinstance(nest, Joint):
        return sum(-(-units(each, lengths, group) // group) * group for each in nest.nests)
    return math.prod([actual(n, lengths) for n in nest.kept])


def body(nest: Nest | Joint, language: Language, integers: int, group: int) -> tuple[str, tuple[Length, ...]]:
    """The text of a unit, and the symbolic lengths that a launch passes after so many `integers`."""
    nests = nest.nests if isinstance(nest, Joint) else (nest,)
    begun, ends, chain, sizes = language.begun("let", language.counter), list[str](), list[str](), dict[Length, int]()
    for i, each in enumerate(nests):
        printer = Printer(each, language, integers, sizes)
        text, count = printer.body(), " * ".join(map(printer.integer, each.kept)) or "1"
        if len(nests) == 1:
            return guarded(text, group), tuple(sizes)
        start = f"end{i - 1}" if i else "0"
        ends.append(f"{begun} end{i} = {start} + ({count} + {group - 1}) / {group};")
        own = f"{begun} u = (w - {start}) * {group} + t; {begun} n = {count};"
        chain.append(f"if (w < end{i}) {{\n{own}\n{guarded(text, group)}\n}}")
    return "\n".join([*ends, " else ".join(chain)]), tuple(sizes)


def guarded(text: str, group: int) -> str:
    """The text of a unit, of which the last workgroup may have fewer."""
    return f"if (u < n) {{\n{text}\n}}" if group else text


def joined(found: Plan, limits: Limits) -> Plan:
    """The plan in which nests that need nothing of each other are one launch, as far as they fit."""
    steps: list[list[Any]] = []
    made: dict[int, int] = {}  # by the number of a value, the position of what makes it
    for step in found.steps:
        read = step.inputs if isinstance(step, Run) else [x.number for x in step.operands if isinstance(x, Ref)]
        near = range(max([0, len(steps) - REACH, *(made.get(n, -1) + 1 for n in read)]), len(steps))
        position = next((i for i in near if _fit([*steps[i], step], limits)), len(steps))
        if position == len(steps):
            steps.append([])
        steps[position].append(step)
        made |= dict.fromkeys(step.outputs if isinstance(step, Run) else step.results, position)
    return found._replace(steps=tuple([each[0] if len(each) == 1 else _joint(each) for each in steps]))


def _fit(steps: Sequence[Any], limits: Limits) -> bool:
    """Whether steps are nests that have room in one launch; scratch memory is a row's own."""
    if not all(isinstance(x, Run) and all(b.role != "scratch" for b in x.nest.buffers) for x in steps):
        return False
    buffers = {n for x in steps for n in (*x.inputs, *x.outputs)}
    return len(buffers) <= limits.buffers and sum(size(x.nest) for x in steps) <= limits.lines


def _joint(runs: Sequence[Run]) -> Run:
    """One run of several."""
    inputs = tuple(dict.fromkeys([n for x in runs for n in x.inputs]))
    outputs = tuple([n for x in runs for n in x.outputs])
    place = {n: i for i, n in enumerate((*inputs, *outputs))}
    dtypes = {n: b for x in runs for n, b in zip((*x.inputs, *x.outputs), x.nest.buffers, strict=True)}
    buffers, nests = tuple([dtypes[n] for n in place]), list[Nest]()
    for x in runs:
        at: dict[Any, Any] = {None: None} | {i: place[n] for i, n in enumerate((*x.inputs, *x.outputs))}
        parts = moved(x.nest.parts, partial(lambda at, y: y._replace(buffer=at[y.buffer]), at))
        nests.append(x.nest._replace(buffers=buffers, parts=parts))
    types = tuple([type for x in runs for type in x.types])
    return Run(Joint(buffers, tuple(nests)), inputs, outputs, types)  # type: ignore[arg-type]
