"""Casts to half types of what a program is given again at the next call, as weights are: made once, and kept."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from micrograd_core.compiler.program import Program, Ref
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.writer import Writer
from micrograd_core.dtypes import DType
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import NARROW


class Kept(NamedTuple):
    """Two programs in the place of one, and the casts that go from call to call: of which input, and to what.

    `making` computes the casts, which are outputs after all others; `taking` is given them as inputs after all others.
    The first casts, `renewed` of them, are of what an output takes the place of: both programs cast that output.
    `taking` has no output for those after these, which hold still.
    """

    making: Program
    taking: Program
    casts: tuple[tuple[int, DType], ...]
    renewed: int


def kept_casts(program: Program, weights: Collection[int], renewed: Mapping[int, int]) -> Kept:
    """Take out of a program the casts of `weights`, some of its inputs, of views of all their elements too.

    Of each weight it is one: that to the half type which the program asks for first. Casts that are given out, or views
    of them, stay: whoever has them may write into them.

    Parameters
    ----------
    program : Program
        With types.
    weights : collection of int
        The inputs that are there at the next call as well.
    renewed : mapping of int to int
        Which of these an output takes the place of, by its place.
    """
    types, steps = program.types, {n: step for step, (n, *_) in program.numbered()} if weights else {}

    def root(n: int) -> tuple[int, tuple[int, ...]]:
        """What a value is a view of, and the views that lead from there to it."""
        path: tuple[int, ...] = ()
        while n in steps and TABLE[steps[n].op].view:
            path, n = (n, *path), steps[n].operands[0].number
        return n, path

    given = {root(x.number)[0] for x in program.outputs}
    casts, found, refused = dict[int, DType](), dict[int, tuple[int, tuple[int, ...]]](), set[int]()
    of = {root(program.outputs[k].number)[0]: i for i, k in renewed.items()}
    for n, step in steps.items():
        if step.op != "astype" or types[n].dtype not in NARROW or not isinstance(step.operands[0], Ref):
            continue
        i, path = root(step.operands[0].number)
        if n in given:
            refused |= {i, of.get(i, i)}
            continue
        whole = i in weights and math.prod(types[n].shape) == math.prod(types[i].shape)
        if whole and casts.setdefault(i, types[n].dtype) is types[n].dtype:
            found[n] = i, path
    kept = sorted(
        ((i, dtype) for i, dtype in casts.items() if i not in refused), key=lambda cast: cast[0] not in renewed
    )
    if not kept:
        return Kept(program, program, (), 0)

    def changed(taking: bool, count: int) -> Program:
        k, values, made = Writer(lambda name, operands: True), list[Any](), dict[int, Any]()

        def cast(x: Any, dtype: DType) -> Any:
            return k.step("astype", [x], {"dtype": dtype}, [TensorSpec(x.shape, dtype)])

        values += [k.input(x) for x in types[: program.inputs]]
        for i, dtype in kept:
            made[i] = k.input(TensorSpec(types[i].shape, dtype)) if taking else cast(values[i], dtype)
        for step, numbers in program.numbered():
            i, path = found.get(numbers.start, (-1, ()))
            if i in made:
                x = made[i]
                for n in path:
                    x = k.step(steps[n].op, [x], steps[n].params, [TensorSpec(types[n].shape, x.dtype)])
                values.append(x)
                continue
            operands = [values[x.number] if isinstance(x, Ref) else x for x in step.operands]
            out = k.step(step.op, operands, step.params, types[numbers.start : numbers.stop])
            values.extend(out if len(numbers) > 1 else (out,))
        outputs = [values[x.number] for x in program.outputs]
        more = [cast(outputs[renewed[i]], dtype) if i in renewed else made[i] for i, dtype in kept[:count]]
        return k.program([*outputs, *more])

    count = sum(i in renewed for i, _ in kept)
    return Kept(changed(False, len(kept)), changed(True, count), tuple(kept), count)
