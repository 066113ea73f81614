"""Programs of scalars, such as a network of Values with its gradients, in loops of machine code over runs.

Arithmetic gives what Python's floats give, bit for bit; exponentials and the like are those of `mathematics`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Program, Ref
from micrograd_core.compiler.runs import Run, composition, runs
from micrograd_core.dtypes import bool_, float64
from micrograd_cpu import entries
from micrograd_cpu.mathematics import definitions
from micrograd_cpu.objects import library, source
from micrograd_cpu.scalars import Scalars, constant, covers

STEPS: Final = ((1, 1, 1), (0, 1, 1), (1, 0, 1))
"""How far apart operands lie in loops of their own, which LLVM makes vectors of."""
Loop = tuple[str, int, tuple[int, ...]]
"""An operation, how many operands it has, and how far apart they lie; nothing where the run says that."""


def arithmetic(
    program: Program, given: Sequence[tuple[int, ...] | None], reads: Sequence[tuple[int, int]], shapes: Sequence[Any]
) -> Callable[..., Any] | None:
    """A program of scalars as a function, or ``None`` where nothing is compiled.

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
    starts = [*accumulate([1 if shape is None else prod(shape) for shape in given], initial=0)]
    found = runs(program, [starts[which] + i for which, i in reads], starts[-1])
    loops = {loop: i for i, loop in enumerate(dict.fromkeys(map(_loop_of, found.runs)))}
    text = _text([*loops])
    held = library(text, ["run"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(held["run"])
    code = np.array([_words(loops[_loop_of(each)], each) for each in found.runs], np.int64)
    blank, outputs = np.zeros(found.size), np.array(found.outputs, np.int64)
    blank[starts[-1] : starts[-1] + len(found.constants)] = found.constants
    parts = np.split(outputs, np.cumsum([*map(prod, shapes)])[:-1])
    made_at = [each.reshape(shape) for each, shape in zip(parts, shapes, strict=True)]
    floats = [i for i, shape in enumerate(given) if shape is None]
    arrays = [(i, slice(starts[i], starts[i + 1]), shape) for i, shape in enumerate(given) if shape is not None]
    at_floats, memory = [starts[i] for i in floats], dict[str, tuple[Any, ...]](free=(blank,))  # which no call has

    def call(*arguments: Any) -> Any:
        (values,) = memory.pop("free", ()) or (blank.copy(),)  # in one step, whatever other threads do
        values[at_floats] = [arguments[i] for i in floats]
        for i, part, shape in arrays:
            x = arguments[i]
            if x.__class__ is not np.ndarray or x.dtype != np.float64 or x.shape != shape:
                return None
            values[part] = x.ravel()
        run(values.ctypes.data, code.ctypes.data, len(code))
        made = [values[at] for at in made_at]
        memory["free"] = (values,)
        made[0] = made[0].tolist()
        return made

    call.source, call.library = lambda: text, held  # type: ignore[attr-defined]  # the code lives as long as `call`
    return call


def _loop_of(run: Run) -> Loop:
    count = len(run.steps)
    return run.op, count, next((each[:count] for each in STEPS if [*each[:count]] == run.steps), ())


def _words(loop: int, run: Run) -> list[int]:
    pairs = [x for pair in zip(run.firsts, run.steps, strict=True) for x in pair]
    return [loop, run.length, run.out, *pairs, *[0] * (6 - len(pairs))]


def _text(loops: Sequence[Loop]) -> str:
    """``@run(values, runs, count)``, with these loops."""
    texts, functions, declared = list[str](), set[tuple[str, str]](), set[str]()
    for number, loop in enumerate(loops):
        s = _loop(*loop)
        head = "i64 %n, ptr noalias %out, ptr %p0, i64 %s0, ptr %p1, i64 %s1, ptr %p2, i64 %s2"
        texts.append(s.defined(f"define internal void @loop{number}({head}) nounwind"))
        functions |= s.functions
        declared |= s.declared
    texts += definitions(functions, declared)
    names = ", ".join([f"ptr @loop{number}" for number in range(len(loops))])
    texts.append(source("runs", count=len(loops), loops=names))
    return "\n\n".join([*texts, *sorted(declared)]) + "\n"


def _loop(op: str, count: int, steps: tuple[int, ...]) -> Scalars:
    dtypes = [bool_ if op.startswith("logical") or (op == "where" and not i) else float64 for i in range(count)]
    whole: Any = written(composition(op), [((), dtype) for dtype in dtypes], {})
    program, s = optimized(whole, covers), Scalars()

    def element(i: str) -> None:
        values = []
        for n, dtype in enumerate(dtypes):
            at = ("0", i)[steps[n]] if steps else s.emit(f"mul i64 {i}, %s{n}")
            values.append(s.convert(s.load(s.at(f"%p{n}", "double", at), float64), float64, dtype))
        for step in program.steps:
            made = program.types[len(values)].dtype
            computed = [program.types[x.number].dtype for x in step.operands if isinstance(x, Ref)]
            known = made if step.op == "where" else computed[0]  # of constants
            given = [program.types[x.number].dtype if isinstance(x, Ref) else known for x in step.operands]
            numbers = [values[x.number] if isinstance(x, Ref) else constant(x, known) for x in step.operands]
            values.append(s.compute(step.op, numbers, given, made))
        (out,) = program.outputs
        value = s.convert(values[out.number], program.types[out.number].dtype, float64)
        s.store(value, s.at("%out", "double", i), float64)

    s.loop("0", "%n", element)
    return s
