"""The trace of a function of Values: what `jit` writes down of them.

The function runs on Values as ever, and the graph that they leave is the trace. `Trace` takes note of what is not in
the graph: reading and assigning ``data`` and ``grad``, and ``backward()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from micrograd_core.compiler.program import Ref
from micrograd_core.engine.modes import enable_grad
from micrograd_core.errors import TraceError
from micrograd_core.interpreters.expressions import Expressions, Operand
from micrograd_core.interpreters.floats import number
from micrograd_core.scalar.device_value import DeviceValue
from micrograd_core.scalar.graph import OPERATIONS, REFLECTED
from micrograd_core.scalar.sweep import Block
from micrograd_core.scalar.value import Value, leaf
from micrograd_core.support import pytrees
from micrograd_core.support.context import tracing
from micrograd_core.transforms.codegen import Static


class Trace:
    """What a traced function computes, reads and assigns. Values are told apart by identity, as they are hashed.

    In `leaves` and `assigned` the position of an argument stands for it; other Values stand for themselves.
    """

    def __init__(self) -> None:
        self.k = Expressions()
        self.known: dict[Value, Operand] = {}
        self.leaves: dict[Ref, Any] = {}  # where gradients end
        self.assigned: dict[tuple[str, Any], Operand] = {}  # the data, or the grad, that something has by now
        self.numbers: set[Value] = set()  # values that stand for floats
        self._positions: dict[Value, int] = {}  # of those that stand for arguments
        self._derived: dict[Operand, dict[Ref, Operand]] = {}

    def run(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the function with Values in the places of the Values and floats among its arguments.

        Its context must be its own: however the trace ends, its modes end with it.
        """
        tracing.set(self)
        leaves, rebuild = pytrees.flatten((args, kwargs))
        positions = count()
        args, kwargs = rebuild([self._argument(x, positions) for x in leaves])
        with enable_grad():
            return f(*args, **kwargs)

    def _argument(self, x: Any, positions: Iterator[int]) -> Any:
        if isinstance(x, float):
            return self._stand_in(float(x), self.k.input("number", next(positions)))
        if isinstance(x, DeviceValue):
            raise TypeError(
                f"jit compiles functions of Values on the cpu; got a {type(x).__name__} on {x.device}. Call it "
                "without jit"
            )
        if not isinstance(x, Value):
            return x.x if isinstance(x, Static) else x
        inside: Value = leaf(x._data)
        self._positions[inside] = next(positions)
        self._read(inside)
        return inside

    def _read(self, value: Value) -> None:
        """A leaf: its number is read at each call."""
        what = self._holder(value)
        self.known[value] = expression = self.k.input("data", what)
        self.leaves[expression] = what

    def _holder(self, value: Value) -> Any:
        return self._positions.get(value, value)

    def _stand_in(self, x: float, expression: Operand) -> Value:
        """A Value in the place of a float."""
        value: Value = leaf(x)
        self.known[value] = expression
        self.numbers.add(value)
        return value

    # what Values say while the function runs

    def made(self, x: Value) -> Value:
        """``Value(x)`` of a float."""
        value: Value = leaf(x._data)
        self.known[value] = self.k.detach(self.expression(x))
        return value

    def read(self, value: Value, part: str) -> Value:
        """``value.data`` or ``value.grad``: a number, through which no gradient goes."""
        x = value._data if part == "data" else value._gradient()
        return self._stand_in(x, self.k.detach(self.now(value, part)))

    def write(self, value: Value, part: str, x: Any) -> None:
        """``value.data = x`` or ``value.grad = x``."""
        if part == "data":
            self.expression(value)
        now = self.k.detach(self.expression(x)) if isinstance(x, Value) else number(x, part)
        self.assigned[part, self._holder(value)] = now

    def backward(self, value: Value) -> None:
        """``value.backward()``."""
        for end, g in self.gradients(value).items():
            what = self.leaves[end]
            before = self.assigned.get(("grad", what), self.k.input("grad", what))
            self.assigned["grad", what] = self.k.add(before, g)

    def refuse(self, value: Value, what: str) -> float:
        """The value is asked for its number."""
        raise TraceError(
            f"jit: {what} of a Value inside a traced function would fix for all calls what was decided at the first "
            "one; use relu() and arithmetic instead, decide outside, or call the function without jit"
        )

    # what they compute

    def now(self, value: Value, part: str = "data") -> Operand:
        """The number or the gradient that a value has by now: what was assigned to it, or what it had before."""
        what = self._holder(value)
        if part == "grad" and (part, what) not in self.assigned and not is_leaf(value):
            raise TraceError("jit: inside a traced function only leaves have a .grad; this value was computed")
        before = self.expression(value) if part == "data" else self.k.input(part, what)
        return self.assigned.get((part, what), before)

    def gradients(self, value: Value) -> dict[Ref, Operand]:
        """The derivatives of a value by the leaves that it was computed from."""
        root = self.expression(value)
        if root not in self._derived:
            self._derived[root] = self.k.gradients([(root, 1.0)], self.leaves)
        return self._derived[root]

    def expression(self, value: Value) -> Operand:
        """What a value computes. Nothing recurses: operands come first."""
        stack = [value]
        while stack:
            each = stack.pop()
            if each in self.known:
                continue
            operands = [] if is_leaf(each) else [x for x in (each._a, each._b) if x is not None]
            if isinstance(each, DeviceValue) or any(isinstance(x, Block) for x in operands) or each._name == "jit":
                raise TraceError(
                    f"jit: a traced function computes with Values on the cpu; this one came from {each._name!r}. Pass "
                    "it as an argument, or compute it without jit"
                )
            waiting = [x for x in operands if x not in self.known]
            if waiting:
                stack += [each, *waiting[::-1]]
            elif not operands:
                self._read(each)
            else:
                self.known[each] = self._compute(each)
                if self.numbers.issuperset(operands):
                    self.numbers.add(each)
        return self.known[value]

    def _compute(self, value: Value) -> Operand:
        if any(x is not None and ("data", self._holder(x)) in self.assigned for x in (value._a, value._b)):
            raise TraceError(
                "jit: a value is used after its data was assigned in the same traced function; trace one step at a time"
            )
        symbol = REFLECTED.get(value._name, value._name)
        operands = [self.known[value._a]]
        if value._db is not None:
            operands.append(float(value._db) if value._b is None else self.known[value._b])
        return self.k.make(OPERATIONS.get(symbol, symbol), *operands[:: -1 if value._name in REFLECTED else 1])


def is_leaf(value: Value) -> bool:
    """Whether a value was not computed. A parameter refers to its matrix, and is a leaf all the same."""
    return not value._name
