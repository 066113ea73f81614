"""A program of scalars as runs: loops over steps that are the same operation, and wait for none of each other.

Values lie in one memory. The operands of a run lie equally far apart, and its results in order. So sums of products
that were written number by number are computed row by row, and a device computes programs of any length by a few loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.program import Program, Ref

FUSED: Final[dict[str, Callable[..., Any]]] = {
    "cube": lambda k, x: k.multiply(k.multiply(x, x), x),
    "reciprocal": lambda k, x: k.divide(1.0, x),
    "multiply_add": lambda k, x, y, z: k.add(z, k.multiply(x, y)),
}
"""Operations that runs have beside those of the op table, as compositions."""
POWERS: Final = {2.0: "square", 3.0: "cube", -1.0: "reciprocal"}


class Run(NamedTuple):
    """So many results of an operation, from a place on; of each operand the first place, and how far apart they are."""

    op: str
    length: int
    out: int
    firsts: Sequence[int]
    steps: Sequence[int]


class Runs(NamedTuple):
    """The runs in order, the constants, which lie before all results, where outputs are, and how large memory is."""

    runs: list[Run]
    constants: list[float]
    outputs: list[int]
    size: int


def composition(op: str) -> Callable[..., Any]:
    """An operation of a run as a function of a table and numbers."""
    return FUSED.get(op) or (lambda k, *operands: getattr(k, op)(*operands))


def runs(program: Program, places: Sequence[int], start: int) -> Runs:
    """The runs of a program whose inputs lie at `places`; what is computed, and constants, lie from `start` on."""
    constants: dict[str, int] = {}

    def number(x: Any) -> int:
        return x.number if x.__class__ is Ref else ~constants.setdefault(repr(float(x)), len(constants))

    inputs, names, rows = program.inputs, list[str](), list[list[int]]()
    for name, operands, _ in program.steps:
        if name == "pow" and operands[1].__class__ is float and operands[1] in POWERS:
            name, operands = POWERS[operands[1]], operands[:1]
        names.append(name)
        rows.append([number(x) for x in operands])
    outputs = [number(x) for x in program.outputs]
    absorbed = _with_products(inputs, names, rows, Counter(chain(outputs, *rows)))
    where = [*places, *[0] * len(rows), *range(start + len(constants) - 1, start - 1, -1)]  # -1 is the first constant
    start += len(constants)
    levels, groups = [0] * len(where), defaultdict[tuple[int, str], list[int]](list)
    for number_of_value, (name, row) in enumerate(zip(names, rows, strict=True), inputs):
        if number_of_value not in absorbed:
            levels[number_of_value] = level = 1 + max([levels[n] for n in row])
            groups[level, name].append(number_of_value)
    made = list[Run]()
    for (_, name), lanes in sorted(groups.items()):
        lanes, places_of_lanes, begins = min(
            (_split(each, [[where[n] for n in rows[i - inputs]] for i in each]) for each in (lanes, lanes[::-1])),
            key=lambda x: len(x[2]),
        )
        for at, i in enumerate(lanes, start):
            where[i] = at
        for begin, end in pairwise([*begins, len(lanes)]):
            first = places_of_lanes[begin]
            steps = [y - x for x, y in zip(first, places_of_lanes[begin + 1], strict=True)] if end > begin + 1 else []
            made.append(Run(name, end - begin, start + begin, first, steps or [1] * len(first)))
        start += len(lanes)
    return Runs(made, [float(x) for x in constants], [where[n] for n in outputs], start)


def _with_products(inputs: int, names: list[str], rows: list[list[int]], uses: Counter[int]) -> set[int]:
    """Sums with a product that nobody else reads become one operation; the products."""
    absorbed = set[int]()
    for i, name in enumerate(names):
        if name == "add":
            for n, other in (rows[i][::-1], rows[i]):
                if n >= inputs and names[n - inputs] == "multiply" and uses[n] == 1:
                    names[i], rows[i] = "multiply_add", [*rows[n - inputs], other]
                    absorbed.add(n)
                    break
    return absorbed


def _split(lanes: list[int], places: list[list[int]]) -> tuple[list[int], list[list[int]], list[int]]:
    """Where the operands of results stop to lie equally far apart, beside these."""
    codes = [sum([x << 32 * i for i, x in enumerate(each)]) for each in places]  # differences of all in one number
    begins, i = list[int](), 0
    while i < len(codes):
        begins.append(i)
        i += 1
        if i < len(codes):
            step = codes[i] - codes[i - 1]
            while i < len(codes) and codes[i] - codes[i - 1] == step:
                i += 1
    return lanes, places, begins
