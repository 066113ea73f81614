"""Programs of scalars, such as a network of Values with its gradients, as one function of machine code.

Only what gives bit for bit what Python's floats give is taken: arithmetic, and ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.program import Program, Ref
from micrograd_core.layout import Layout
from micrograd_cpu import entries
from micrograd_cpu.mathematics import number

_FLOAT64: Final = np.dtype("float64")
_INSTRUCTIONS: Final[dict[Any, list[str]]] = {
    "add": ["fadd double {}, {}"],
    "subtract": ["fsub double {}, {}"],
    "multiply": ["fmul double {}, {}"],
    "divide": ["fdiv double {}, {}"],
    "negative": ["fneg double {}"],
    "square": ["fmul double {0}, {0}"],
    "relu": ["fcmp ole double {}, 0.0", "select i1 {last}, double 0.0, double {}"],
    "relu_gradient": ["fcmp ogt double {1}, 0.0", "select i1 {last}, double {0}, double 0.0"],
    ("pow", 2.0): ["fmul double {0}, {0}"],
    ("pow", 3.0): ["fmul double {0}, {0}", "fmul double {last}, {0}"],
    ("pow", -1.0): ["fdiv double 1.0, {0}"],
}
"""As `ops` says in Python: NaN stays NaN."""


def arithmetic(
    program: Program, given: Sequence[tuple[int, ...] | None], reads: Sequence[tuple[int, int]], shapes: Sequence[Any]
) -> Callable[..., Any] | None:
    """A program of scalars as a function, or ``None`` for one that is not taken.

    Parameters
    ----------
    given : sequence of tuple of int or None
        Of each argument the shape, where it is a handle of float64; else it is a float.
    reads : sequence of (int, int)
        For each input of the program, which argument it is, and which element of it.
    shapes : sequence of tuple of int
        The outputs of the program, in order, fill handles of these shapes.

    Returns
    -------
    function
        Of these arguments; what it returns is a list of such handles, the first one's elements as a list. ``None``
        where an argument is not what was said. Its ``source()`` is LLVM IR.
    """
    if not entries.compiles():
        return None
    from micrograd_cpu.objects import library

    entry = entries.Entry("scalars")
    places = [entry.number(i) if x is None else entry.array(i, Layout.contiguous(x), 8) for i, x in enumerate(given)]
    values = [places[i] if given[i] is None else entry.load("double", places[i], 8 * element) for i, element in reads]

    def text(x: Any) -> str:
        return values[x.number] if isinstance(x, Ref) else number(float(x), "double")

    for step in program.steps:
        lines = _INSTRUCTIONS.get((step.op, step.operands[1]) if step.op == "pow" else step.op)
        if lines is None:
            return None
        last = ""
        for line in lines:
            last = entry.emit(line.format(*map(text, step.operands), last=last))
        values.append(last)
    outputs = iter(program.outputs)
    for i, shape in enumerate(shapes, len(given)):
        pointer = entry.elements(i)
        for element in range(int(np.prod(shape))):
            entry.do(f"store double {text(next(outputs))}, ptr {entry.moved(pointer, 8 * element)}")
    llvm = entry.whole()
    held = library(llvm, ["scalars"], quickly=True)
    types = [(float, None) if shape is None else (np.ndarray, _FLOAT64) for shape in given]
    machine = entries.function(held, "scalars", types, [Layout.contiguous(shape or ()) for shape in given])

    def call(*arguments: Any) -> Any:
        made = [np.empty(shape, _FLOAT64) for shape in shapes]
        if machine(*arguments, *made):
            return None
        made[0] = made[0].tolist()
        return made

    call.source = lambda: llvm  # type: ignore[attr-defined]
    return call
