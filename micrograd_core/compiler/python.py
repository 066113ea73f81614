"""Prints a program of scalars as Python: a line for each step, numbers in local variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from micrograd_core.compiler.program import Program, Ref
from micrograd_core.ops import TABLE

POWERS: Final = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", -1.0: "1.0 / {0}"}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(math, name) for name, op in TABLE.items() if op.scalar.startswith(f"{name}(") and hasattr(math, name)
}
"""What the text calls by the names of operations. They raise where IEEE 754 goes on."""
CONSTANTS: Final = {"inf": math.inf, "nan": math.nan}


def source(program: Program, reads: Sequence[tuple[int, int | None]], widths: Sequence[int]) -> str:
    """The text of a function ``run`` that computes a program.

    Parameters
    ----------
    reads : sequence of (int, int or None)
        For each input of the program, which argument of the function it is, or of which argument, a list, it is which
        element.
    widths : sequence of int
        The function returns a tuple of tuples, which have so many of the outputs.
    """
    arguments = {which: f"x{number}" if i is None else f"m{which}" for number, (which, i) in enumerate(reads)}
    lines = [f"def run({', '.join(arguments[which] for which in sorted(arguments))}):"]
    lines += [f"x{number} = m{which}[{i}]" for number, (which, i) in enumerate(reads) if i is not None]
    for step, (made,) in program.numbered():
        template = POWERS.get(step.operands[1], "") if step.op == "pow" else ""
        lines.append(f"x{made} = {(template or TABLE[step.op].scalar).format(*map(_text, step.operands))}")
    outputs = map(_text, program.outputs)
    groups = ["".join([f"{next(outputs)}, " for _ in range(width)]) for width in widths]
    lines.append(f"return {', '.join(f'({group})' for group in groups)},")
    return "\n    ".join(lines) + "\n"


def _text(x: Any) -> str:
    if isinstance(x, Ref):
        return f"x{x.number}"
    return repr(float(x)) if x >= 0 or x != x else f"({float(x)!r})"
