"""Class indices in compiled programs: a kernel refuses one that names no class, and so does a program.

There losses become loops, in which such an index is just NaN. So the program computes beside its results whether there
is any. If so nothing has been changed yet, and its steps run as kernels, of which one raises.
"""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.compiler.program import Program, Ref
from micrograd_core.compiler.writer import Writer, Written
from micrograd_core.dtypes import int64, uint8

TARGETS: Final = {"cross_entropy": 1, "nll_loss": 1, "cross_entropy_gradient": 2}
"""Operations that take class indices, and at which position; before it are the logits."""


def checked(program: Program) -> tuple[Program, int]:
    """The program with more outputs, which are 0 unless an index names no class; how many these are."""
    if not any(step.op in TARGETS for step in program.steps):
        return program, 0
    k, flags = Writer(lambda name, operands: True), list[Written]()
    values: list[Any] = [k.input(x) for x in program.types[: program.inputs]]
    for step, made in program.numbered():
        operands = tuple([values[x.number] if isinstance(x, Ref) else x for x in step.operands])
        if step.op in TARGETS:
            position = TARGETS[step.op]
            logits, targets = operands[position - 1 : position + 1]
            if targets.dtype.is_integer and 0 not in targets.shape:
                count = logits.shape[1 if len(logits.shape) > 1 else 0]
                flags.append(_wrong(k, targets, count, step.params["ignore_index"]))
        found = k.step(step.op, operands, step.params, program.types[made.start : made.stop])
        values.extend(found if len(made) > 1 else (found,))
    outputs = [values[x.number] if isinstance(x, Ref) else x for x in program.outputs]
    flags = list({each.ref: each for each in flags}.values())  # of a loss and its gradient there is one
    return k.program([*outputs, *flags]), len(flags)


def _wrong(k: Any, targets: Any, count: int, ignore_index: int) -> Any:
    """1 if an index is neither a class nor ignored, else 0."""
    wide = targets if targets.dtype is int64 else k.astype(targets, dtype=int64)
    outside = k.bitwise_or(k.less(wide, 0), k.less(count - 1, wide))
    wrong = k.bitwise_and(outside, k.not_equal(wide, ignore_index))
    return k.max(k.astype(wrong, dtype=uint8), axis=None, keepdims=False)
