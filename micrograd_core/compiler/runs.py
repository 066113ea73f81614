"""A program of scalars as runs: loops over steps that are the same operation, and wait for none of each other.

Values lie in one memory. The operands of a run lie equally far apart, and its results in order. A sum is one step,
however many terms it has, and its terms lie equally far apart, too. So products of matrices that were written number by
number are computed row by row, and a device computes programs of any length by a few loops.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.program import Ref

INPUT, DETACH, TOTAL = "input", "detach", "total"
"""What steps of scalars are beside the op table's operations. A total's operands are numbers, and pairs of factors."""
Steps = Sequence[tuple[str, Sequence[Any]]]
Needed = tuple[list[int], list[int]]
FOLDS: Final[dict[str, Callable[..., Any]]] = {
    "sum": lambda k, total, x: k.add(total, x),
    "dot": lambda k, total, x, y: k.add(total, k.multiply(x, y)),
    "greatest": lambda k, best, x: k.where(k.less(best, x), x, best),
    "least": lambda k, best, x: k.where(k.less(x, best), x, best),
}
"""What runs do again and again to one number: the next of its terms and of its factors is taken each time."""
SUMS: Final = ("sum", "dot")
OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "cube": lambda k, x: k.multiply(k.multiply(x, x), x),
    "reciprocal": lambda k, x: k.divide(1.0, x),
}
POWERS: Final = {2.0: "square", 3.0: "cube", -1.0: "reciprocal"}


class Run(NamedTuple):
    """Results of one operation.

    Attributes
    ----------
    op : str
        An operation of the op table, of `FOLDS`, or of `OTHERS`.
    length, out : int
        How many results there are, and the place of the first; the others follow it.
    firsts, steps : sequence of int
        Of each operand the place for the first result, and how far the place for the next result is from it.
    terms : int
        How often a fold takes operands beside its first one; otherwise 1.
    strides : sequence of int
        Of each operand how far the next term is; 0 for the first one.
    """

    op: str
    length: int
    out: int
    firsts: Sequence[int]
    steps: Sequence[int]
    terms: int
    strides: Sequence[int]


class Runs(NamedTuple):
    """The runs in order, the constants, which lie before all results, from where on outputs lie, and memory's size."""

    runs: list[Run]
    constants: list[float]
    outputs: int
    size: int


def composition(op: str) -> Callable[..., Any]:
    """An operation of a run as a function of a table and numbers."""
    return FOLDS.get(op) or OTHERS.get(op) or (lambda k, *operands: getattr(k, op)(*operands))


def needed(steps: Steps, wanted: Sequence[Any]) -> Needed:
    """The numbers of the steps that lead to what is `wanted`, and for each step how many operands of these it is."""
    uses = [0] * len(steps)
    for x in wanted:
        if x.__class__ is Ref:
            uses[x.number] += 1
    for number in range(len(steps) - 1, -1, -1):  # what a step takes comes before it
        name, operands = steps[number]
        if uses[number] and name is not INPUT:
            for x in operands:
                if x.__class__ is Ref:
                    uses[x.number] += 1
                elif x.__class__ is tuple:
                    for y in x:
                        uses[y.number] += 1
    return [number for number, count in enumerate(uses) if count], uses


class _Rows:
    """Steps as rows of numbers of values, in which chains of sums, and of choices, are one row.

    `rows` has the operation and the operands of each value. Constants have the numbers -1, -2, …; after the steps come
    the numbers of sums that are part of one with other terms.
    """

    def __init__(self, steps: Steps, numbers: Sequence[int], uses: Sequence[int]) -> None:
        self.rows: dict[int, tuple[str, list[int]]] = {}
        self.constants: dict[str, int] = {}
        self.values = len(steps)
        self._uses, self._alias = uses, dict[int, int]()
        for number in numbers:
            name, operands = steps[number]
            if name in ("add", TOTAL):
                self.rows[number] = self._sum(operands)
            elif name == DETACH:
                self._alias[number] = self.number(operands[0])
            elif name == "where":
                self.rows[number] = self._choice(operands)
            elif name == "pow" and operands[1].__class__ is float and operands[1] in POWERS:
                self.rows[number] = POWERS[operands[1]], [self.number(operands[0])]
            elif name != INPUT:
                self.rows[number] = name, [self.number(x) for x in operands]

    def number(self, x: Any) -> int:
        """Of a value or a constant."""
        if x.__class__ is Ref:
            return self._alias.get(x.number, x.number)
        return ~self.constants.setdefault(repr(float(x)), len(self.constants))

    def _own(self, x: Any, uses: int = 1) -> str:
        """The operation that makes a value, if it is used only so often; products of factors are made here."""
        if x.__class__ is not Ref:
            return "multiply" if x.__class__ is tuple else ""
        return self.rows.get(x.number, ("",))[0] if self._uses[x.number] == uses else ""

    def _sum(self, terms: Sequence[Any]) -> tuple[str, list[int]]:
        op, row = "", [self.number(-0.0)]
        if self._own(terms[1]) in SUMS:  # a product and a sum before it, in the other order
            terms = [terms[1], terms[0], *terms[2:]]
        if self._own(terms[0]) in SUMS:
            (op, row), terms = self.rows.pop(terms[0].number), terms[1:]
        elif self._own(terms[0]) != "multiply":
            row, terms = [self.number(terms[0])], terms[1:]
        for term in terms:
            if term.__class__ is tuple:
                kind, factors = "dot", [self._alias.get(n, n) for (n,) in term]
            elif self._own(term) == "multiply":
                kind, (_, factors) = "dot", self.rows.pop(term.number)
            else:
                kind, factors = "sum", [self.number(term)]
            if op not in ("", kind):
                self.rows[self.values] = op, row
                row = [self.values]
                self.values += 1
            op = kind
            row += factors
        return op, row

    def _choice(self, operands: Sequence[Any]) -> tuple[str, list[int]]:
        condition, _, best = operands
        row = [*map(self.number, operands)]
        if self._own(condition) == "less" and sorted(pair := self.rows[condition.number][1]) == sorted(row[1:]):
            del self.rows[condition.number]
            op = "greatest" if pair == row[:0:-1] else "least"
            return op, [*(self.rows.pop(best.number)[1] if self._own(best, 2) == op else row[2:]), row[1]]
        return "where", row


def runs(steps: Steps, found: Needed, wanted: Sequence[Any], places: Mapping[int, int], start: int) -> Runs:
    """What leads to the values that are `wanted`, as runs.

    Parameters
    ----------
    steps : sequence of (str, sequence)
        Those of `Expressions`.
    found : (list of int, list of int)
        What `needed` says of these steps, and of what is wanted.
    wanted : sequence of Ref or float
        The outputs.
    places : mapping from int to int
        Where the inputs lie, by their numbers.
    start : int
        From where constants and results may lie.
    """
    rows = _Rows(steps, *found)
    outputs = [rows.number(x) for x in wanted]
    constants = [float(x) for x in rows.constants]
    count = rows.values + len(constants)
    where, levels = list[Any]([None]) * count, [0] * count  # what has no place is no place
    for number, place in (*places.items(), *((~i, start + i) for i in range(len(constants)))):
        where[number] = place
    start += len(constants)
    groups = defaultdict[tuple[int, str, int], list[int]](list)
    for number, (op, row) in rows.rows.items():
        levels[number] = level = 1 + max([levels[n] for n in row])
        groups[level, op, len(row)].append(number)
    made = list[Run]()
    for (_, op, _), lanes in sorted(groups.items()):
        at = [[where[n] for n in rows.rows[i][1]] for i in lanes]
        begins, backwards = _begins(at), _begins(at[::-1])
        if (len(backwards), at[-1:] > at[-2:-1]) < (len(begins), at[:1] > at[1:2]):
            at, lanes, begins = at[::-1], lanes[::-1], backwards
        for place, number in enumerate(lanes, start):
            where[number] = place
        made += _pieces(op, begins, at, start)
        start += len(lanes)
    at = [[where[n]] for n in outputs]
    made += _pieces("copy", _begins(at), at, start)
    return Runs(made, constants, start, start + len(at))


def _begins(places: list[list[int]]) -> list[int]:
    """Of which results the operands do not lie equally far from those of the results before."""
    codes = [int.from_bytes(array("q", each).tobytes(), "little") for each in places]  # their differences in one number
    differences, begins, i = [y - x for x, y in pairwise(codes)], list[int](), 0
    while i < len(codes):
        begins.append(i)
        i += 1
        while i < len(codes) and differences[i - 1] == differences[begins[-1]]:
            i += 1
    return begins


def _pieces(op: str, begins: list[int], places: list[list[int]], out: int) -> Iterator[Run]:
    """Runs of results that begin at these; of folds a run for terms that lie equally far apart, and others go on."""
    width = 2 if op == "dot" else 1
    for begin, end in pairwise([*begins, len(places)]):
        length, here, first = end - begin, out + begin, places[begin]
        step = _less(places[min(begin + 1, end - 1)], first)
        if op not in FOLDS:
            yield Run(op, length, here, first, step, 1, [0] * len(first))
            continue
        terms = [(first[i : i + width], step[i : i + width]) for i in range(1, len(first), width)]
        strides = [*[_less(y, x) for (x, _), (y, _) in pairwise(terms)], [0] * width]
        head, at = (first[:1], step[:1]), 0
        while at < len(terms):
            until = at + 1
            while until < len(terms) and (strides[until - 1], terms[until][1]) == (strides[at], terms[at][1]):
                until += 1
            firsts, steps = (x + y for x, y in zip(head, terms[at], strict=True))
            yield Run(op, length, here, firsts, steps, until - at, [0, *strides[at]])
            head, at = ([here], [1]), until


def _less(x: Sequence[int], y: Sequence[int]) -> list[int]:
    return [a - b for a, b in zip(x, y, strict=True)]
