"""Expressions over floats, and the straight-line Python they become. See `scalar.jit`.

`Expressions` is a kernel table: the op table's gradient rules run on it as they do on handles, and what they compute is
the expression of a derivative. Equal expressions are one object, and constants are folded. As in a node of a `Value`, a
derivative is a local one times what comes from above, so that both have the same numbers, infinite and NaN ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from micrograd_core.ops import rules
from micrograd_core.tables.floats import Floats

INPUTS = frozenset(("argument", "number", "argument grad", "data", "grad", "cotangent"))
TEMPLATES = {
    "add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "divide": "{} / {}", "negative": "-{}",
    "square": "{0} * {0}", "relu": "0.0 if {0} <= 0.0 else {0}", "relu_gradient": "{0} if {1} > 0.0 else 0.0",
    "abs": "abs({})", "equal": "{} == {}", "less": "{} < {}", "logical_and": "{} and {}",
    "logical_not": "not {}", "isfinite": "{0} - {0} == 0.0", "where": "{1} if {0} else {2}",
    "power_slope": "{1} * pow({0}, {1} - 1.0) if {1} else 0.0",
}  # fmt: skip
"""An operation as Python; those that are not here are functions of their name."""
EXACT = {"divide": "divide({}, {})"}
POWERS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", -1.0: "1.0 / {0}"}


class Expression:
    """An operation on expressions and numbers; an input, with what it reads as its operand."""

    __slots__ = ("name", "number", "operands")

    def __init__(self, name: str, operands: tuple[Any, ...], number: int) -> None:
        self.name, self.operands, self.number = name, operands, number


Operand = Expression | float


class Expressions:
    """``k`` for gradient rules on expressions, which are kept in the order in which they can be computed."""

    def __init__(self) -> None:
        self.order: list[Expression] = []
        self._known: dict[Any, Expression] = {}

    dtype = staticmethod(Floats.dtype)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        return partial(self.make, name)  # not kept: it would refer back

    def input(self, kind: str, what: Any) -> Expression:
        """A number that is read at each call."""
        return self._keep(kind, (what,), (kind, id(what) if kind in ("data", "grad") else what))

    def detach(self, x: Operand) -> Operand:
        """The same number, through which no gradient goes."""
        return self._keep("detach", (x,), ("detach", x)) if isinstance(x, Expression) else x

    def make(self, name: str, *operands: Operand) -> Operand:
        """An operation, simplified where that changes no number."""
        if not any(isinstance(x, Expression) for x in operands) and hasattr(Floats, name):
            return getattr(Floats, name)(*operands)  # type: ignore[no-any-return]
        x, y = operands[0], operands[-1]
        if name == "multiply" and (x == 1.0 or y == 1.0):
            return y if x == 1.0 else x
        if name == "multiply" and (x == -1.0 or y == -1.0):
            return self.make("negative", y if x == -1.0 else x)
        if name == "add" and (x == 0.0 or y == 0.0):
            return y if x == 0.0 else x
        if name in ("divide", "pow") and y == 1.0:
            return x
        key = tuple(x if isinstance(x, Expression) else (repr(x),) for x in operands)
        return self._keep(name, operands, (name, *key))

    def _keep(self, name: str, operands: tuple[Any, ...], key: Any) -> Expression:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Expression(name, operands, len(self.order))
            self.order.append(found)
        return found

    def gradients(
        self, roots: Iterable[tuple[Operand, Operand]], leaves: Iterable[Expression]
    ) -> dict[Expression, Operand]:
        """What the cotangents of `roots` lead to, for those of the `leaves` that these depend on."""
        cotangents: dict[Expression, Operand] = {}
        for root, g in roots:
            if isinstance(root, Expression):
                cotangents[root] = self.make("add", cotangents[root], g) if root in cotangents else g
        last = max((root.number for root in cotangents), default=-1)
        for each in self.order[: last + 1][::-1]:
            if each not in cotangents or each.name in INPUTS or each.name == "detach":
                continue
            g = cotangents[each]
            for i, (x, rule) in enumerate(zip(each.operands, rules(each.name), strict=True)):
                if not isinstance(x, Expression):
                    continue
                if each.name == "relu":
                    d = rule(self, g, each, x)  # which chooses, where a product with 0 could be NaN
                elif each.name == "pow" and i == 0:
                    d = self.make("multiply", g, self._power_slope(*each.operands))
                else:
                    d = self.make("multiply", g, rule(self, 1.0, each, *each.operands))
                cotangents[x] = self.make("add", cotangents[x], d) if x in cotangents else d
        return {leaf: cotangents[leaf] for leaf in leaves if leaf in cotangents}

    def _power_slope(self, x: Operand, y: Operand) -> Operand:
        """The derivative of ``x**y`` by `x`, which is 0 for every `x` where `y` is."""
        if isinstance(y, Expression):
            return self.make("power_slope", x, y)
        return self.make("multiply", self.make("pow", x, y - 1.0), y) if y else 0.0


def source(k: Expressions, wanted: list[Operand], state: Any, exact: bool) -> str:
    """A function ``run(flat)`` that reads `state`, computes, writes `state`, and returns the `wanted` numbers.

    `state` says of an expression whether it is there to be read, and gives the lines that read and write.
    With `exact`, operations that Python refuses are functions, which answer as IEEE 754 does.
    """
    needed = needed_for([*wanted, *(x for *_, x in state.writes)], state.has)
    local: dict[Expression, str] = {}

    def text(x: Operand) -> str:
        if isinstance(x, Expression):
            while isinstance(x, Expression) and x.name == "detach":
                x = x.operands[0]
            return local[x] if isinstance(x, Expression) else repr(float(x))
        return repr(float(x)) if x >= 0 or x != x else f"({float(x)!r})"

    order = [each for each in k.order if each in needed and each.name != "detach"]
    for each in order:
        local[each] = f"x{each.number}"
    lines = state.read({local[each]: each for each in order if state.has(each)})
    for each in order:
        if not state.has(each):
            template = TEMPLATES.get(each.name) or f"{each.name}({', '.join(['{}'] * len(each.operands))})"
            if exact:
                template = EXACT.get(each.name, template)
            elif each.name == "pow" and each.operands[1] in POWERS:
                template = POWERS[each.operands[1]]
            lines.append(f"{local[each]} = {template.format(*map(text, each.operands))}")
    lines += state.write(text)
    lines.append(f"return ({''.join(text(x) + ', ' for x in wanted)})")
    return "\n    ".join(["def run(flat):", *lines]) + "\n"


def needed_for(roots: list[Operand], has: Callable[[Expression], bool]) -> set[Expression]:
    """All expressions that the roots are computed from, back to those that are there."""
    found: set[Expression] = set()
    stack = [x for x in roots if isinstance(x, Expression)]
    while stack:
        each = stack.pop()
        if each not in found:
            found.add(each)
            if not has(each):
                stack += [x for x in each.operands if isinstance(x, Expression)]
    return found
