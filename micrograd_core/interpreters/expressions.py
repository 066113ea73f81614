"""Scalars whose numbers are not known yet: what rules compute with them becomes steps of a program.

`Expressions` is a kernel table: the op table's gradient rules run on it as they do on handles, and what they write down
is a derivative. Constants are folded. As in a node of a `Value`, a derivative is a local one times what comes from
above, so that both have the same numbers, infinite and NaN ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Final

from micrograd_core.compiler.builder import INPUT, Builder
from micrograd_core.compiler.program import Ref, Step
from micrograd_core.compiler.specs import TensorSpec, expected_parts
from micrograd_core.dtypes import float64
from micrograd_core.interpreters.floats import Floats
from micrograd_core.ops import TABLE, rules

Operand = Ref | float
FLOAT: Final = TensorSpec((), float64)
NOTHING: Final[dict[str, Any]] = {}
"""The parameters of all steps here."""


@cache
def _spec(op: str) -> TensorSpec:
    return TensorSpec((), expected_parts(TABLE[op], (FLOAT,) * 3, {}, shaped=False)[0].dtype)


class Expressions(Builder):
    """``k`` for gradient rules on scalars that are not known yet."""

    dtype = staticmethod(Floats.dtype)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        compose = TABLE[name].compose
        if compose is not None and not TABLE[name].scalar:
            return partial(compose, self)
        return partial(self.make, name)  # not kept: it would refer back

    def input(self, kind: str, what: Any) -> Ref:
        """A number that is read at each call: `kind` and `what`, an object or a position, say from where."""
        key = INPUT, kind, what if isinstance(what, int) else id(what)
        return self.emit(Step(INPUT, (kind, what), NOTHING), FLOAT, key)

    def detach(self, x: Operand) -> Operand:
        """The same number, through which no gradient goes."""
        return self.emit(Step("detach", (x,), NOTHING), FLOAT, ("detach", x)) if isinstance(x, Ref) else x

    def make(self, name: str, *operands: Operand) -> Operand:
        """An operation, simplified where that changes no number."""
        x, y = operands[0], operands[-1]
        if x.__class__ is not Ref is not y.__class__ and Ref not in map(type, operands) and hasattr(Floats, name):
            return getattr(Floats, name)(*operands)  # type: ignore[no-any-return]
        if name == "multiply" and (x == 1.0 or y == 1.0):
            return y if x == 1.0 else x
        if name == "multiply" and (x == -1.0 or y == -1.0):
            return self.make("negative", y if x == -1.0 else x)
        if name == "add" and (x == 0.0 or y == 0.0):
            return y if x == 0.0 else x
        if name in ("divide", "pow") and y == 1.0:
            return x
        key = (name, *[each.number if each.__class__ is Ref else repr(each) for each in operands])
        return self.emit(Step(name, operands, NOTHING), _spec(name), key)

    def gradients(self, roots: Iterable[tuple[Operand, Operand]], leaves: Iterable[Ref]) -> dict[Ref, Operand]:
        """What the cotangents of `roots` lead to, for those of the `leaves` that these depend on."""
        cotangents: dict[Ref, Operand] = {}
        for root, g in roots:
            if isinstance(root, Ref):
                cotangents[root] = self.make("add", cotangents[root], g) if root in cotangents else g
        for number in range(max(cotangents, default=Ref(-1)).number, -1, -1):
            out, (name, operands, _) = self.refs[number], self.steps[number]
            if out not in cotangents or name in (INPUT, "detach"):
                continue
            g = cotangents[out]
            found = rules(name)  # a condition has none
            for i, (x, rule) in enumerate(zip(operands[-len(found) :], found, strict=True)):
                if not isinstance(x, Ref):
                    continue
                if name in ("add", "multiply"):  # by far the most: what their rules say, in a fifth of the time
                    d = g if name == "add" else self.make(name, g, operands[1 - i])
                elif name in ("relu", "where"):
                    d = rule(self, g, out, *operands)  # which chooses, where a product with 0 could be NaN
                elif name == "pow" and i == 0:
                    d = self.make("multiply", g, self._power_slope(*operands))
                else:
                    d = self.make("multiply", g, rule(self, 1.0, out, *operands))
                cotangents[x] = self.make("add", cotangents[x], d) if x in cotangents else d
        return {leaf: cotangents[leaf] for leaf in leaves if leaf in cotangents}

    def _power_slope(self, x: Operand, y: Operand) -> Operand:
        """The derivative of ``x**y`` by `x`, which is 0 for every `x` where `y` is."""
        if isinstance(y, Ref):
            other = self.make("where", self.make("equal", y, 0.0), 1.0, y)
            return self.make("multiply", y, self.make("pow", x, self.make("subtract", other, 1.0)))
        return self.make("multiply", self.make("pow", x, y - 1.0), y) if y else 0.0
