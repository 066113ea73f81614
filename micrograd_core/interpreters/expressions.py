"""Scalars whose numbers are not known yet: what rules compute with them becomes steps of a program.

`Expressions` is a kernel table: the op table's gradient rules run on it as they do on handles, and what they write down
is a derivative. Constants are folded. As in a node of a `Value`, a derivative is a local one times what comes from
above, so that both have the same numbers, infinite and NaN ones too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, reduce
from typing import Any, Final

from micrograd_core.compiler.builder import Builder
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.compiler.runs import DETACH, INPUT, TOTAL, needed
from micrograd_core.compiler.specs import TensorSpec, expected_parts
from micrograd_core.dtypes import float64
from micrograd_core.interpreters.floats import Floats
from micrograd_core.ops import TABLE, rules

Operand = Ref | float
Term = Operand | tuple[Ref, Ref]
"""What a derivative is a sum of: a number, or the product of two."""
_REF: Final[Callable[[tuple[int]], Ref]] = partial(tuple.__new__, Ref)  # in half the time
FLOAT: Final = TensorSpec((), float64)


@cache
def _spec(op: str) -> TensorSpec:
    return TensorSpec((), expected_parts(TABLE[op], (FLOAT,) * 3, {}, shaped=False)[0].dtype)


class Expressions:
    """``k`` for gradient rules on scalars that are not known yet.

    Attributes
    ----------
    steps : list of (str, sequence)
        An operation and its operands for each value, in the order in which they can be computed. Beside those of the op
        table there are inputs, ``detach``, and totals of `Term`s.
    """

    dtype = staticmethod(Floats.dtype)

    def __init__(self) -> None:
        self.steps: list[tuple[str, Sequence[Any]]] = []
        self._known: dict[Any, Ref] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        compose = TABLE[name].compose
        if compose is not None and not TABLE[name].scalar:
            return partial(compose, self)
        return partial(self.make, name)  # not kept: it would refer back

    def _emit(self, name: str, operands: Sequence[Any], key: Any) -> Ref:
        """The value that a step makes. Steps with the same `key` make one."""
        found = self._known.get(key)
        if found is None:
            found = _REF((len(self.steps),))
            self.steps.append((name, operands))  # an interrupt after it leaves a step that nobody knows
            self._known[key] = found
        return found

    def input(self, kind: str, what: Any) -> Ref:
        """A number that is read at each call: `kind` and `what`, an object or a position, say from where."""
        return self._emit(INPUT, (kind, what), (INPUT, kind, what if isinstance(what, int) else id(what)))

    def detach(self, x: Operand) -> Operand:
        """The same number, through which no gradient goes."""
        return self._emit(DETACH, (x,), (DETACH, x)) if isinstance(x, Ref) else x

    def make(self, name: str, *operands: Operand) -> Operand:
        """An operation, simplified where that changes no number."""
        for each in operands:
            if each.__class__ is not Ref:
                return self._simplified(name, operands)
        return self._emit(name, operands, (name, operands))

    def _simplified(self, name: str, operands: tuple[Operand, ...]) -> Operand:
        """An operation of which some operand is a number."""
        x, y = operands[0], operands[-1]
        if Ref not in map(type, operands) and hasattr(Floats, name):
            return getattr(Floats, name)(*operands)  # type: ignore[no-any-return]
        if name == "multiply" and (x == 1.0 or y == 1.0):
            return y if x == 1.0 else x
        if name == "multiply" and (x == -1.0 or y == -1.0):
            return self.make("negative", y if x == -1.0 else x)
        if name == "add" and (x == 0.0 or y == 0.0):
            return y if x == 0.0 else x
        if name in ("divide", "pow") and y == 1.0:
            return x
        return self._emit(name, operands, (name, *[x if x.__class__ is Ref else repr(x) for x in operands]))

    def gradients(self, roots: Iterable[tuple[Operand, Operand]], leaves: Iterable[Ref]) -> dict[Ref, Operand]:
        """What the cotangents of `roots` lead to, for those of the `leaves` that these depend on."""
        terms = defaultdict[int, list[Term]](list)
        for root, g in roots:
            if isinstance(root, Ref):
                terms[root.number].append(g)
        for number in range(max(terms, default=-1), -1, -1):
            name, operands = self.steps[number]
            if number not in terms or name in (INPUT, DETACH):
                continue
            g = self._total(terms.pop(number))
            if name == "add":  # by far the most are sums and products
                found: Iterable[tuple[Operand, Term]] = [(x, g) for x in operands]
            elif name == "multiply":
                x, y = operands
                found = (x, self._product(g, y)), (y, self._product(g, x))
            else:
                found = self._carried(name, operands, Ref(number), g)
            for x, term in found:
                if x.__class__ is Ref:
                    terms[x.number].append(term)
        return {leaf: self._total(terms[leaf.number]) for leaf in leaves if leaf.number in terms}

    def _carried(self, name: str, operands: Sequence[Operand], out: Ref, g: Operand) -> Iterable[tuple[Operand, Term]]:
        """What a step's rules give for its operands; a condition has none."""
        found = rules(name)
        for i, (x, rule) in enumerate(zip(operands[-len(found) :], found, strict=True)):
            if x.__class__ is not Ref:
                continue
            if name in ("relu", "where"):
                yield x, rule(self, g, out, *operands)  # which chooses, where a product with 0 could be NaN
            elif name == "pow" and i == 0:
                yield x, self._product(g, self._power_slope(*operands))
            else:
                yield x, self._product(g, rule(self, 1.0, out, *operands))

    def _product(self, x: Operand, y: Operand) -> Term:
        """A product that becomes part of a sum."""
        return (x, y) if x.__class__ is Ref is y.__class__ else self.make("multiply", x, y)

    def _total(self, terms: list[Term]) -> Operand:
        """The sum of terms, from left to right."""
        if len(terms) > 2 and float not in map(type, terms):
            return self._emit(TOTAL, terms, id(terms))  # which the step keeps alive
        numbers = [self.make("multiply", *x) if isinstance(x, tuple) and not isinstance(x, Ref) else x for x in terms]
        return reduce(partial(self.make, "add"), numbers)

    def _power_slope(self, x: Operand, y: Operand) -> Operand:
        """The derivative of ``x**y`` by `x`, which is 0 for every `x` where `y` is."""
        if isinstance(y, Ref):
            other = self.make("where", self.make("equal", y, 0.0), 1.0, y)
            return self.make("multiply", y, self.make("pow", x, self.make("subtract", other, 1.0)))
        return self.make("multiply", self.make("pow", x, y - 1.0), y) if y else 0.0

    def program(self, wanted: Sequence[Operand]) -> Program:
        """What leads to the values that are `wanted`, in operations of the op table; its inputs are in their order."""
        builder, there, inputs = Builder(), dict[int, Any](), set[Ref]()

        def now(x: Any) -> Any:
            return there[x.number] if x.__class__ is Ref else x

        def step(name: str, *given: Any) -> Ref:
            return builder.emit(Step(name, given, {}), FLOAT if name == INPUT else _spec(name))

        for number in needed(self.steps, wanted)[0]:
            name, operands = self.steps[number]
            if name == INPUT:
                inputs.add(made := step(INPUT, number))
            elif name == TOTAL:
                terms = [step("multiply", *map(now, x)) if x.__class__ is tuple else now(x) for x in operands]
                made = reduce(partial(step, "add"), terms)
            else:
                made = now(operands[0]) if name == DETACH else step(name, *map(now, operands))
            there[number] = made
        return builder.program([now(x) for x in wanted], inputs.__contains__)[0]
