"""The results of a compiled function of scalars, and what a sweep does at them. See `scalar.jit`.

The derivatives of a function with one result are computed during the forward pass. Of several, a sweep decides which
take part: what leads back from these is compiled when they are first swept together.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Callable, Iterable
from typing import Any

from micrograd_core.compiler.builder import INPUT
from micrograd_core.compiler.program import Program, Ref
from micrograd_core.compiler.python import name, source
from micrograd_core.device import default_device
from micrograd_core.ground import disk
from micrograd_core.ops import TABLE
from micrograd_core.scalar.sweep import Block, underway
from micrograd_core.tables.expressions import Expressions, Operand
from micrograd_core.tables.floats import EXACT

FAST = {
    name: getattr(math, name) for name, op in TABLE.items() if op.scalar.startswith(f"{name}(") and hasattr(math, name)
}
CONSTANTS = {"inf": math.inf, "nan": math.nan}
FEW, MANY = 100, 100_000
"""Steps between which machine code pays: a call of it takes longer than fewer, and to compile more takes too long."""
LONG = 1 << 18
"""Characters from which on Python takes a tenth of a second to compile a function, which is then kept on disk."""
KEPT = 128
"""Programs that are kept, of one function."""


class Compiled:
    """A program as a Python function of a list: fast, and another where that fails.

    `state` says which values of `k` are there to be read, and gives the lines that read them, and that write others.
    """

    def __init__(self, k: Expressions, wanted: list[Operand], state: Any) -> None:
        self.program, self.inputs = k.program([*wanted, *state.written], state.has)
        self._state, self._width = state, len(wanted)
        self.source, self._fast = self._machine_code() or self._compile(False)
        self._exact: Callable[[list[Any]], Any] | None = None

    def _compile(self, exact: bool) -> tuple[str, Callable[[list[Any]], Any]]:
        read, write = self._state.read, self._state.write
        text = source(self.program, read(self.inputs), write, self._width, EXACT if exact else ())
        functions = {**FAST, **EXACT} if exact else {**EXACT, **FAST}
        scope = {**CONSTANTS, **functions, **self._state.names}
        exec(code_of(text), scope)
        return text, scope.pop("run")  # which refers to the scope

    def _machine_code(self) -> tuple[str, Callable[[list[Any]], Any]] | None:
        """The same through a device's ``scalars``, where that pays: Python reads arrays, calls that, and assigns."""
        if not FEW < len(self.program.steps) < MANY:
            return None
        made = self._state.at_once(self.inputs, self._width)
        kernel = default_device().kernels.backend.kernel("scalars") if made and default_device().is_cpu() else None
        if made is None or kernel is None:
            return None
        order, given, reads, shapes, lines = made
        chosen = [self.program.outputs[i] for i in order]
        program = Program(self.program.inputs, self.program.steps, chosen)
        machine = kernel(program, given, reads, shapes)
        if machine is None:
            return None
        scope = {**self._state.names, "machine": machine, "otherwise": self._in_python}
        text = "\n    ".join(["def run(flat):", *lines]) + "\n"
        exec(compile(text, "<jit>", "exec"), scope)
        return text, scope.pop("run")

    def _in_python(self, flat: list[Any]) -> Any:
        """An argument is not what machine code takes, such as a number of another class."""
        self.source, self._fast = self._compile(False)
        return self(flat)

    def __call__(self, flat: list[Any]) -> Any:
        """Run it."""
        try:
            return self._fast(flat)
        except (ArithmeticError, ValueError):  # where Python raises, IEEE 754 goes on
            if self._exact is None:
                _, self._exact = self._compile(True)
            return self._exact(flat)


def code_of(text: str) -> Any:
    """Python's code for a function, from the disk if another process has compiled it."""
    if len(text) < LONG:
        return compile(text, "<jit>", "exec")
    kept = disk.read(text)
    if kept is not None:
        return marshal.loads(kept)
    code = compile(text, "<jit>", "exec")
    disk.write(text, marshal.dumps(code))
    return code


class Slopes(Block):
    """The one result of a compiled function, with its derivatives by all inputs."""

    __slots__ = ("slopes",)

    def __init__(self, inputs: list[Any], slopes: Iterable[float]) -> None:
        super().__init__("jit", inputs, 1)
        self.slopes = slopes

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """Each slope times the gradient of the one result."""
        (g,) = gradients
        return [g * d for d in self.slopes]


class Reverse:
    """The gradients of the inputs from those of some results, compiled for each choice of results that are swept.

    Only these take part, as in a sweep over the graph itself: what nobody swept may have an infinite derivative. It
    runs on the gradients, one for each result, and the `saved` numbers, which the function itself has computed.
    """

    def __init__(self, k: Expressions, roots: dict[int, Operand], leaves: list[Ref]) -> None:
        self.k, self.roots, self.leaves = k, roots, leaves
        self.width = max(roots, default=-1) + 1
        self.given = Given(k)
        _, inputs = k.program(list(self._gradients(roots).values()), self.given.has)
        self.saved: list[Operand] = [x for x in inputs if x not in self.given.positions]
        self.given.positions |= {x: self.width + i for i, x in enumerate(self.saved)}
        self._compiled: dict[int, tuple[list[int], Compiled]] = {}

    def _gradients(self, rows: Iterable[int]) -> dict[Ref, Operand]:
        cotangents = [(self.roots[row], self.given.cotangent(row)) for row in rows]
        return self.k.gradients(cotangents, self.leaves)

    def __call__(self, rows: int, gradients: list[Any], saved: tuple[float, ...]) -> Iterable[tuple[int, float]]:
        """Columns of inputs, each with its gradient. A bit of `rows` for each result that was swept."""
        compiled = self._compiled.get(rows)
        if compiled is None:
            if len(self._compiled) >= KEPT:
                self._compiled.clear()
            found = self._gradients(row for row in self.roots if rows >> row & 1)
            columns = [column for column, leaf in enumerate(self.leaves) if leaf in found]
            compiled = columns, Compiled(self.k, [found[self.leaves[i]] for i in columns], self.given)
            self._compiled[rows] = compiled
        columns, run = compiled
        return zip(columns, run([*gradients, *saved]), strict=True)


class Given:
    """What a compiled `Reverse` reads, at `positions`: gradients, and what `k` has computed by now."""

    names: dict[str, Any] = {}  # noqa: RUF012
    written = ()

    def __init__(self, k: Expressions) -> None:
        self.k, self.end = k, len(k.steps)
        self.positions: dict[Operand, int] = {}

    def cotangent(self, row: int) -> Ref:
        """The gradient of one result."""
        x = self.k.input("cotangent", row)
        self.positions[x] = row
        return x

    def has(self, x: Ref) -> bool:
        """Whether a value is read, not computed."""
        step = self.k.steps[x.number]
        return step.op == INPUT or (x.number < self.end and step.op != "detach")

    def read(self, inputs: list[Ref]) -> list[str]:
        """Lines that fill the inputs of a program."""
        return [f"{name(number)} = flat[{self.positions[x]}]" for number, x in enumerate(inputs)]

    def write(self, texts: list[str]) -> list[str]:
        """No lines: nothing is assigned."""
        return []

    def at_once(self, inputs: list[Ref], width: int) -> None:
        """A sweep runs as Python."""


class Call:
    """What the results of one call share."""

    __slots__ = ("inputs", "reverse", "saved", "swept")

    def __init__(self, reverse: Reverse, inputs: list[Any], saved: tuple[float, ...]) -> None:
        self.reverse, self.inputs, self.saved = reverse, inputs, saved
        self.swept: Swept | None = None


class Swept:
    """Which results of a call a sweep comes to, and what it has brought them by now."""

    __slots__ = ("gradients", "reached", "rows", "sweep", "waiting")

    def __init__(self, sweep: Any, width: int) -> None:
        self.sweep, self.waiting, self.rows = sweep, 0, 0
        self.reached: set[int] = set()
        self.gradients: list[Any] = [None] * width


class Result(Block):
    """One result of a call. The last of those that are swept carries on what came to all of them."""

    __slots__ = ("call", "columns", "row", "swept")

    swept: Swept

    def __init__(self, call: Call, row: int, columns: list[int]) -> None:
        super().__init__("jit", [call.inputs[column] for column in columns], 1)
        self.call, self.row, self.columns = call, row, columns

    def prepare(self) -> list[Any]:
        """Those of the inputs that no other result of this call has asked the sweep for."""
        super().prepare()
        call = self.call
        swept = call.swept
        if swept is None or swept.sweep is not underway[-1]:  # the first that this sweep comes to
            swept = call.swept = Swept(underway[-1], call.reverse.width)
        self.swept = swept
        swept.waiting += 1
        swept.rows |= 1 << self.row
        new = [column for column in self.columns if column not in swept.reached]
        swept.reached.update(new)
        return [call.inputs[column] for column in new]

    def carry(self) -> Iterable[tuple[Any, Any]]:
        """Nothing, until the last result that is swept comes: then what all of them give, at once."""
        call, swept = self.call, self.swept
        (swept.gradients[self.row],) = self.gradients
        swept.waiting -= 1
        if swept.waiting:
            return []
        return [(call.inputs[column], d) for column, d in call.reverse(swept.rows, swept.gradients, call.saved)]
