"""The page operations.md, which ``python docs/generate.py`` writes from the op table."""

from __future__ import annotations

import inspect
from pathlib import Path

from micrograd_core import ops
from micrograd_core.array import functions
from micrograd_core.ops import Op
from micrograd_core.ops.record import ANY, BITS, BOOLEAN, COMPLEX, FLOATING, INEXACT, INTEGER, NUMERIC, REAL

PAGE = Path(__file__).with_suffix(".md")

HEAD = """# Operations

Every operation of the op table, as `python docs/generate.py` writes it out. Each is a function of `micrograd_core`
(those of `linalg` and `fft` live there), works on every device, by composition where the device has no kernel of that
name, and is differentiable to any order unless the table says why not.

Where a gradient has a choice: elements tied for an extremum share it evenly; at 0, `abs`, `sign`, `relu` and `hypot`
have gradient 0, `sqrt` an infinite one; `0 ** 0` is constant in the base; the branch that `where` does not take gets 0,
which times an infinite derivative is NaN ([tensors.md](tensors.md#backward)); what steps has gradient 0. Complex
gradients are as PyTorch's: `z.grad` is the direction of steepest ascent.
"""

KINDS = {
    ANY: "any", NUMERIC: "numeric", REAL: "real", FLOATING: "floating", INEXACT: "floating, complex",
    COMPLEX: "complex", BITS: "integer, bool", BOOLEAN: "bool", INTEGER: "integer",
}  # fmt: skip


def dtypes(op: Op) -> str:
    """What an operation accepts; of several operands with different demands, each."""
    accepted = op.accepts if isinstance(op.accepts, tuple) else (op.accepts,)
    names = [KINDS.get(each, ", ".join(sorted(each))) for each in accepted]
    return names[0] if len(set(names)) == 1 else "; ".join(names)


def gradient(op: Op) -> str:
    """Yes, or the reason why not."""
    return f"no: {op.gradient}" if isinstance(op.gradient, str) else "yes"


def row(op: Op) -> str:
    """One line of the table."""
    parameters = ", ".join(
        f"{p.name}" if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in inspect.signature(functions.FUNCTIONS[op.name]).parameters.values()
    )
    name = f"{op.extension}.{op.name}" if op.extension else op.name
    text = " ".join(op.doc.split()).replace("``", "`").replace("|", "\\|")
    return f"| `{name}({parameters})` | {dtypes(op)} | {gradient(op)} | {text} |"


def page() -> str:
    """The whole page, a section per module of `micrograd_core.ops`."""
    parts = [HEAD]
    for family in map(ops.family, ops.FAMILIES):
        listed = [op for op in family.OPS if op.operands]
        title = (family.__doc__ or "").partition("\n")[0].rstrip(".").partition(". ")[0].partition(":")[0]
        parts += ["", f"## {title.replace('``', '`')}", ""]
        parts += ["| operation | dtypes | gradient | |", "|---|---|---|---|", *map(row, listed)]
    return "\n".join(parts) + "\n"
