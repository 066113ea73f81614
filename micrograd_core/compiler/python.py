"""Prints a program of scalars as Python: a line for each step, numbers in local variables."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.ops import TABLE

POWERS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", -1.0: "1.0 / {0}"}


def name(number: int) -> str:
    """The local variable of a value."""
    return f"x{number}"


def source(
    program: Program, reads: list[str], write: Callable[[list[str]], list[str]], width: int, exact: Collection[str] = ()
) -> str:
    """A function ``run(flat)`` that returns the first `width` outputs of a program.

    `reads` are lines that fill the inputs; `write` gives lines that store the other outputs, of which it gets the text.
    Operations that are `exact` are functions of their name: such as answer as IEEE 754 does where Python raises.
    """
    lines = [*reads]
    for step, (made,) in program.numbered():
        lines.append(f"x{made} = {_template(step, exact).format(*map(_text, step.operands))}")
    found = [_text(x) for x in program.outputs]
    lines += write(found[width:])
    lines.append(f"return ({''.join(x + ', ' for x in found[:width])})")
    return "\n    ".join(["def run(flat):", *lines]) + "\n"


def _template(step: Step, exact: Collection[str]) -> str:
    if step.op in exact:
        return f"{step.op}({', '.join(['{}'] * len(step.operands))})"
    if step.op == "pow" and step.operands[1] in POWERS:
        return POWERS[step.operands[1]]
    return TABLE[step.op].scalar


def _text(x: Any) -> str:
    if isinstance(x, Ref):
        return f"x{x.number}"
    return repr(float(x)) if x >= 0 or x != x else f"({float(x)!r})"
