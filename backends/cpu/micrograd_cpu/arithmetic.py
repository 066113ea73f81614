"""Programs of scalars, such as a network of Values with its gradients, in loops of machine code over runs.

Arithmetic gives what Python's floats give, bit for bit; exponentials and the like are those of `mathematics`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Final

import numpy as np

from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Ref
from micrograd_core.compiler.runs import FOLDS, Run, Runs, composition
from micrograd_core.dtypes import bool_, float64
from micrograd_cpu import entries
from micrograd_cpu.mathematics import definitions
from micrograd_cpu.objects import library, source
from micrograd_cpu.scalars import Scalars, constant, covers

STEPS: Final = ((1, 1, 1), (0, 1, 1), (1, 0, 1))
"""How far apart operands lie in loops of their own, which LLVM makes vectors of."""
LANES, FEW = 8, 4
"""How many sums of products are computed at once where they lie side by side, as one vector, and where apart."""
LONG: Final = 64
"""From how many results on a loop of its own pays."""
NOT_WIDE, UNROLLED, WIDE = (f", !llvm.loop !{n}" for n in range(3))
"""Of loops, see `sources/runs.ll`: vectors of numbers that lie apart gain nothing, and take long to compile."""
Loop = tuple[str, tuple[int | None, ...]]
"""An operation, and how far apart its operands lie for results that are neighbours; ``None``: the run says that."""


def arithmetic(
    runs: Callable[[], Runs], given: Sequence[tuple[int, ...] | None], shapes: Sequence[Any]
) -> Callable[..., Any] | None:
    """A program of scalars as a function, or ``None`` where nothing is compiled.

    Parameters
    ----------
    runs : function
        It returns the program. In its memory the arguments come first, in order.
    given : sequence of tuple of int or None
        Of each argument the shape, where it is a handle of float64; else it is a float.
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
    found = runs()
    each_loop = [_loop_of(each) for each in found.runs]
    loops = {loop: i for i, loop in enumerate(dict.fromkeys(loop for loop, _ in each_loop))}
    text = _text([*loops])
    held = library(text, ["run"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(held["run"])
    code = np.array([_words(loops[loop], each) for loop, each in each_loop], np.int64)
    blank, dtype = np.zeros(found.size), np.dtype("float64")
    blank[starts[-1] : starts[-1] + len(found.constants)] = found.constants
    ends = [*accumulate(map(prod, shapes), initial=found.outputs)]
    floats = [i for i, shape in enumerate(given) if shape is None]
    arrays = [(i, shape) for i, shape in enumerate(given) if shape is not None]
    places, count = code.ctypes.data, len(code)

    def seen(values: Any) -> tuple[Any, ...]:
        inputs = [values[starts[i] : starts[i + 1]].reshape(shape) for i, shape in arrays]
        outputs = [values[slice(*x)].reshape(shape) for x, shape in zip(pairwise(ends), shapes, strict=True)]
        return values, values.ctypes.data, inputs, outputs

    memory = {"free": seen(blank)}

    def call(*arguments: Any) -> Any:
        held = memory.pop("free", None) or seen(blank.copy())  # in one step, whatever other threads do
        values, address, inputs, (first, *others) = held
        for i in floats:
            values[starts[i]] = arguments[i]
        for (i, shape), part in zip(arrays, inputs, strict=True):
            x = arguments[i]
            if x.__class__ is not np.ndarray or x.dtype is not dtype or x.shape != shape:
                return None
            part[...] = x
        run(address, places, count)
        made = [first.tolist(), *[x.copy() for x in others]]
        memory["free"] = held
        return made

    call.source, call.library, call.code = lambda: text, held, code  # type: ignore[attr-defined]  # for as long as `call`
    return call


def _loop_of(run: Run) -> tuple[Loop, Run]:
    """The loop of a run, and the run with its factors in the order of that loop."""
    steps = tuple(run.steps)
    if run.op == "dot" and (steps[1] != 0, steps[1]) > (steps[2] != 0, steps[2]):
        head, x, y = zip(run.firsts, run.steps, run.strides, strict=True)
        firsts, steps, strides = zip(head, y, x, strict=True)
        run = run._replace(firsts=firsts, steps=steps, strides=strides)
    if run.op == "dot" and run.length >= LANES and steps[0] in (0, 1) and steps[1] in (0, 1) and steps[2] == 1:
        return (run.op, steps), run
    if run.op == "dot":
        return (run.op, (None, steps[1] and None, None)), run
    own = run.op not in FOLDS and run.length >= LONG and steps in [each[: len(steps)] for each in STEPS]
    return (run.op, steps if own else (None,) * len(steps)), run


def _words(loop: int, run: Run) -> list[int]:
    triples = [x for each in zip(run.firsts, run.steps, run.strides, strict=True) for x in each]
    return [loop, run.length, run.terms, run.out, *triples, *[0] * (9 - len(triples))]


def _text(loops: Sequence[Loop]) -> str:
    """``@run(values, runs, count)``, with these loops."""
    texts, functions, declared = list[str](), set[tuple[str, str]](), set[str]()
    for number, loop in enumerate(loops):
        s = _loop(*loop)
        own = "" if loop[0] in FOLDS else "noalias "  # a fold may go on with what it made before
        head = f"i64 %n, i64 %terms, ptr {own}%out" + "".join(f", ptr %p{i}, i64 %s{i}, i64 %t{i}" for i in range(3))
        texts.append(s.defined(f"define internal void @loop{number}({head}) nounwind"))
        functions |= s.functions
        declared |= s.declared
    texts += definitions(functions, declared)
    names = ", ".join([f"ptr @loop{number}" for number in range(len(loops))])
    word = "  %a$ = getelementptr i64, ptr %run, i64 $\n  %w$ = load i64, ptr %a$"
    words = [word.replace("$", str(i)) for i in range(13)]
    texts.append(source("runs", count=len(loops), loops=names, words="\n".join(words), lanes=LANES))
    return "\n\n".join([*texts, *sorted(declared)]) + "\n"


def _loop(op: str, steps: tuple[int | None, ...]) -> Scalars:
    s, every, apart = Scalars(), range(len(steps)), NOT_WIDE if None in steps else ""
    dtypes = [bool_ if op.startswith("logical") or (op == "where" and not n) else float64 for n in every]

    def address(n: int, i: str) -> str:
        step = steps[n]
        return s.at(f"%p{n}", "double", s.emit(f"mul i64 {i}, %s{n}") if step is None else i if step else 0)

    def element(i: str) -> None:
        places = [address(n, i) for n in every]
        values = [s.convert(s.load(x, float64), float64, dtype) for x, dtype in zip(places, dtypes, strict=True)]
        s.store(_computed(s, op, values, dtypes), s.at("%out", "double", i), float64)

    def fold(first: str, count: int) -> None:
        totals = s.alloca("double", count)

        def lanes(body: Callable[[str, str], None]) -> None:
            def lane(j: str) -> None:
                body(s.emit(f"add i64 {first}, {j}"), s.at(totals, "double", j))

            s.loop("0", str(count), lane, about=UNROLLED if apart else WIDE)

        def term(k: str) -> None:
            further = [s.emit(f"mul i64 {k}, %t{n}") for n in every[1:]]

            def add(i: str, total: str) -> None:
                places = [total, *[s.at(address(n, i), "double", each) for n, each in enumerate(further, 1)]]
                s.store(_computed(s, op, [s.load(x, float64) for x in places], dtypes), total, float64)

            lanes(add)

        lanes(lambda i, total: s.store(s.load(address(0, i), float64), total, float64))
        s.loop("0", "%terms", term, about=NOT_WIDE)
        lanes(lambda i, total: s.store(s.load(total, float64), s.at("%out", "double", i), float64))

    if op not in FOLDS:
        s.loop("0", "%n", element, about=apart)
        return s
    begin = "0"
    if op == "dot":
        count = FEW if apart else LANES
        begin = s.emit(f"and i64 %n, -{count}")
        s.loop("0", begin, lambda i: fold(i, count), count, NOT_WIDE)
    s.loop(begin, "%n", lambda i: fold(i, 1), about=NOT_WIDE)
    return s


def _computed(s: Scalars, op: str, given: Sequence[str], dtypes: Sequence[Any]) -> str:
    """An operation of numbers, as float64."""
    whole: Any = written(composition(op), [((), dtype) for dtype in dtypes], {})
    program, values = optimized(whole, covers), [*given]
    for step in program.steps:
        made = program.types[len(values)].dtype
        computed = [program.types[x.number].dtype for x in step.operands if isinstance(x, Ref)]
        known = made if step.op == "where" else computed[0]  # of constants
        types = [program.types[x.number].dtype if isinstance(x, Ref) else known for x in step.operands]
        numbers = [values[x.number] if isinstance(x, Ref) else constant(x, known) for x in step.operands]
        values.append(s.compute(step.op, numbers, types, made))
    (out,) = program.outputs
    return s.convert(values[out.number], program.types[out.number].dtype, float64)
