"""Class indices in compiled programs: a kernel refuses one that names no class, and so does a program.

There losses become loops, in which such an index is just NaN. So the program computes beside its results whether there
is any. If so nothing has been changed yet, and its steps run as kernels, of which one raises.
"""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import DType, bool_, int64, uint8

TARGETS: Final = {"cross_entropy": 1, "nll_loss": 1, "cross_entropy_gradient": 2}
"""Operations that take class indices, and at which position; before it are the logits."""


def checked(program: Program) -> tuple[Program, int]:
    """The program with more outputs, which are 0 unless an index names no class; how many these are."""
    steps, types = list(program.steps), list(program.types)
    flags = dict[tuple[Any, ...], Ref]()  # of a loss and its gradient there is one

    def emit(op: str, operands: tuple[Any, ...], result: DType, /, **params: Any) -> Ref:
        steps.append(Step(op, operands, params))
        types.append(TensorSpec(() if op == "max" else types[operands[0].number].shape, result))
        return Ref(len(types) - 1)

    for step in program.steps:
        if step.op not in TARGETS:
            continue
        logits, x = step.operands[TARGETS[step.op] - 1 : TARGETS[step.op] + 1]
        shape, dtype = types[x.number]
        count, ignore_index = types[logits.number].shape[:2][-1], step.params["ignore_index"]
        if not dtype.is_integer or 0 in shape or (x, count, ignore_index) in flags:
            continue
        wide = x if dtype is int64 else emit("astype", (x,), int64, dtype=int64)
        outside = emit(
            "bitwise_or", (emit("less", (wide, 0), bool_), emit("greater_equal", (wide, count), bool_)), bool_
        )
        wrong = emit("bitwise_and", (outside, emit("not_equal", (wide, ignore_index), bool_)), bool_)
        number = emit("astype", (wrong,), uint8, dtype=uint8)
        flags[x, count, ignore_index] = emit("max", (number,), uint8, axis=None, keepdims=False)
    return Program(program.inputs, steps, [*program.outputs, *flags.values()], types), len(flags)
