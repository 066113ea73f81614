"""``jit`` for scalars: the call of a traced function of Values.

`Replay` prints one Python function for each trace, as the replay of tensors does. That function gathers numbers, calls
the program, carries out the function's assignments and makes the results. The program is Python, or machine code where
that is faster. A function with one result computes its derivatives during the forward pass. Several results share
programs that carry their cotangents back; each is compiled when a sweep first needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from numbers import Number
from typing import Any, Final

from micrograd_core.compiler.builder import INPUT
from micrograd_core.compiler.program import Program
from micrograd_core.compiler.python import CONSTANTS, FUNCTIONS, source
from micrograd_core.device import default_device
from micrograd_core.dtypes import float64
from micrograd_core.engine.modes import grad_mode
from micrograd_core.errors import GraphError
from micrograd_core.interpreters.expressions import Expressions, Operand
from micrograd_core.interpreters.floats import EXACT
from micrograd_core.scalar.parameters import Matrix, Parameter, element
from micrograd_core.scalar.sweep import Block, underway
from micrograd_core.scalar.tracing import Trace, is_leaf, traced
from micrograd_core.scalar.value import Value, leaf, node
from micrograd_core.support import pytrees
from micrograd_core.support.context import tracing
from micrograd_core.transforms.codegen import Text, refuse_others, tuple_text

RETURNED: Final = (Value, type(None), Number, str, bytes)
"""What a function may return, alone or in lists, tuples and dicts."""
FEW, MANY = 100, 100_000
"""Steps between which machine code pays: a call of it takes longer than fewer, and to compile more takes too long."""
KEPT: Final = 128
"""Choices of results whose programs are kept."""
READ: Final = {"data": "{}._data", "grad": "{}._gradient()", "number": "{}"}
ASSIGN: Final = {"data": "{}._assign({})", "grad": "{}._assign_gradient({})"}


class Compiled:
    """A compiled program: a function of floats and whole matrices that returns groups of numbers.

    Attributes
    ----------
    given : dict from (str, Value or Matrix or int) to int
        What the arguments are, such as the ``data`` of a matrix, and their positions. An `int` is an argument of jit's.
    """

    def __init__(self, k: Expressions, groups: Sequence[tuple[tuple[int, ...], list[Operand]]]) -> None:
        wanted = [x for _, numbers in groups for x in numbers]
        self.program, inputs = k.program(wanted, lambda x: k.steps[x.number].op == INPUT)
        self.given: dict[tuple[str, Any], int] = {}
        self._reads: list[tuple[int, int | None]] = []
        for x in inputs:
            part, what = k.steps[x.number].operands
            whole, i = (what._a, what._da) if isinstance(what, Parameter) else (what, None)
            self._reads.append((self.given.setdefault((part, whole), len(self.given)), i))
        self._shapes = [shape for shape, _ in groups]
        self._functions: dict[bool, Callable[..., Any]] = {}
        self.machine: Callable[..., Any] | None = None
        """The program through the kernel ``scalars``, which the host has; it takes and gives handles of float64."""
        matrices = [what if isinstance(what, Matrix) else None for _, what in self.given]
        plain = all(matrix is None or matrix.tensor.dtype is float64 for matrix in matrices)
        if plain and FEW < len(self.program.steps) < MANY:
            kernel = default_device().kernels.backend.kernel("scalars")
            shapes = [None if matrix is None else matrix.shape for matrix in matrices]
            reads = [(which, i or 0) for which, i in self._reads]
            self.machine = kernel and kernel(self.program, shapes, reads, self._shapes)

    def source(self) -> str:
        """The Python or the LLVM IR that runs."""
        found: str = self.machine.source() if self.machine else self._text(exact=False)  # type: ignore[attr-defined]
        return found

    def _text(self, exact: bool) -> str:
        return source(self.program, self._reads, list(map(prod, self._shapes)), EXACT if exact else ())

    def function(self, exact: bool = False) -> Callable[..., Any]:
        """The program as a Python function that takes lists for matrices.

        An `exact` function follows IEEE 754 where Python's operators would raise, and is slower.
        """
        if exact not in self._functions:
            scope: dict[str, Any] = {**CONSTANTS, **(FUNCTIONS | EXACT if exact else EXACT | FUNCTIONS)}
            exec(compile(self._text(exact), "<jit>", "exec"), scope)
            self._functions[exact] = scope.pop("run")  # which refers to the scope
        return self._functions[exact]

    def __call__(self, *given: Any) -> Any:
        """Run the program on floats, and on handles or lists for matrices."""
        if (found := self.machine and self.machine(*given)) is not None:
            return found
        plain = [
            what.numbers_of(x) if isinstance(what, Matrix) and not isinstance(x, list) else x
            for x, (_, what) in zip(given, self.given, strict=True)
        ]
        try:
            return self.function()(*plain)
        except (ArithmeticError, ValueError):
            return self.function(exact=True)(*plain)


class Slopes(Block):
    """The one result of a compiled function, with its derivatives by all inputs."""

    __slots__ = ("slopes",)

    def __init__(self, inputs: Sequence[Any], slopes: Any) -> None:
        super().__init__("jit", inputs, 1)
        self.slopes = slopes if isinstance(slopes, tuple) else memoryview(slopes)  # which machine code has filled

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """Each slope times the gradient of the one result."""
        (g,) = gradients
        return [g * d for d in self.slopes]


class Reverse:
    """Programs that carry the cotangents of several results back to the leaves: one for each choice of results.

    A result that is not part of a sweep takes no part here either: its derivative may be infinite.
    """

    def __init__(
        self, trace: Trace, ends: list[Value], slopes: dict[Value, dict[Value, Operand]], given: dict[Any, int]
    ) -> None:
        self._k, self._given, known, place = trace.k, given, trace.known, {x: i for i, x in enumerate(ends)}
        self._leaves: list[Any] = [known[x] for x in ends]
        self._compiled: dict[tuple[int, ...], tuple[list[int], Compiled]] = {}
        self._roots = [known[x] for x in slopes]
        self.columns = [[place[x] for x in found] for found in slopes.values()]
        """Of each result, which leaves it depends on."""

    def __call__(self, cotangents: dict[int, float], given: Sequence[Any]) -> dict[int, float]:
        """Gradients by the position of the leaf; `given` are the numbers that the function was computed from."""
        rows = tuple(sorted(cotangents))
        if rows not in self._compiled:
            if len(self._compiled) >= KEPT:
                self._compiled.clear()
            found = self._k.gradients([(self._roots[i], self._k.input("cotangent", i)) for i in rows], self._leaves)
            columns = [i for i, x in enumerate(self._leaves) if x in found]
            program = Compiled(self._k, [((len(found),), [*found.values()])])
            self._compiled[rows] = columns, program
        columns, program = self._compiled[rows]
        taken = [cotangents[x] if part == "cotangent" else given[self._given[part, x]] for part, x in program.given]
        return dict(zip(columns, program(*taken)[0], strict=True))


class Call:
    """What the results of one call share."""

    __slots__ = ("cotangents", "given", "inputs", "reverse", "sweep")

    def __init__(self, reverse: Reverse, inputs: Sequence[Any], given: Sequence[Any]) -> None:
        self.reverse, self.inputs, self.given = reverse, inputs, given
        self.sweep: Any = None  # the one that came here last, and what it has brought
        self.cotangents: dict[int, Any] = {}


class Result(Block):
    """One result of a call. The last of those that a sweep comes to carries on what came to all of them."""

    __slots__ = ("call", "cotangents", "row")

    def __init__(self, call: Call, row: int) -> None:
        super().__init__("jit", [call.inputs[i] for i in call.reverse.columns[row]], 1)
        self.call, self.row = call, row

    def prepare(self) -> Sequence[Any]:
        """Note that the sweep will come to this result; its inputs are counted once for each result."""
        _, sweep = underway[-1]  # the list of nodes, for a root would lead back here
        if self.call.sweep is not sweep:
            self.call.sweep, self.call.cotangents = sweep, {}
        self.cotangents = self.call.cotangents
        self.cotangents[self.row] = None  # until the sweep is here
        return super().prepare()

    def carry(self) -> Iterable[tuple[Any, Any]]:
        """Nothing, until the sweep has come to the last of its results."""
        (self.cotangents[self.row],) = self.gradients
        if None in self.cotangents.values():
            return []
        call = self.call
        found = call.reverse(self.cotangents, call.given)
        return [(call.inputs[i], found.pop(i, 0.0)) for row in self.cotangents for i in call.reverse.columns[row]]


class Replay:
    """One program of Values, and the state around it."""

    def __init__(self, f: Callable[..., Any], args: Any, kwargs: Any) -> None:
        record = bool(grad_mode())
        trace, out = traced(f, args, kwargs)
        leaves, self._rebuild = pytrees.flatten(out)
        for x in leaves:
            refuse_others(x, RETURNED, "Values")
        results = [x for x in leaves if isinstance(x, Value)]
        slopes = {x: trace.gradients(x) if record and x not in trace.numbers else {} for x in results}
        single = _arguments_first(trace, slopes[out]) if isinstance(out, Value) else []
        loose, together = [trace.now(x) for x in slopes], [slopes[out][x] for x in single]
        if len(together) <= 2:  # which a node holds itself
            loose, together = loose + together, []
        assigned, matrices = list[tuple[str, Any]](), dict[tuple[str, Matrix], dict[int, Operand]]()
        for part, values in (("data", trace.written), ("grad", trace.slopes)):
            for value, x in values.items():
                if isinstance(value, Parameter):
                    matrices.setdefault((part, value._a), {})[value._da] = x
                else:
                    assigned.append((part, trace.positions.get(value, value)))
                    loose.append(x)
        groups: list[tuple[tuple[int, ...], list[Operand]]] = [((len(loose),), loose)]
        if together:
            groups.append(((len(together),), together))
        for (part, matrix), cells in matrices.items():
            for i in range(matrix.width):
                if i not in cells:
                    cells[i] = trace.k.input(part, element(Parameter, matrix, i))
            groups.append((matrix.shape, [cells[i] for i in range(matrix.width)]))
        self.compiled = Compiled(trace.k, groups)
        self.holds = _holds(args, kwargs, record)
        text = Text()
        self._call(trace, text)
        numbers, wholes = [f"n{i}" for i in range(len(loose))], [f"m{i}" for i in range(1, len(groups))]
        text.lines.append(f"{tuple_text(['loose', *wholes])} = found")
        if numbers:
            text.lines.append(f"{tuple_text(numbers)} = loose")
        for (part, what), x in zip(assigned[::-1], numbers[::-1], strict=False):
            text.lines.append(ASSIGN[part].format(_holder(what, text), x))
        for (part, matrix), x in zip([*matrices][::-1], wholes[::-1], strict=False):
            text.lines.append(f"{text.name(matrix)}.assign({part!r}, {x})")
        self._return(trace, text, leaves, slopes, single)
        self.run = text.function("def run(flat):")

    @property
    def program(self) -> Program:
        """What is computed."""
        return self.compiled.program

    def _call(self, trace: Trace, text: Text) -> None:
        """Lines that gather numbers, and compute."""
        compiled = self.compiled
        changed = {trace.positions.get(x, id(x)) for x in (*trace.written, *trace.slopes)}
        ends = [trace.positions[x] for x in trace.slopes if x in trace.positions]
        if changed:
            known = (*trace.written, *trace.slopes, *trace.leaves.values())
            closed = {id(x): x for x in known if x not in trace.positions}  # kept, so that identities stay theirs
            text.lines.append(f"{text.name(_check)}(flat, {ends}, {text.name(changed)}, {text.name(closed)})")
        whole = "{}.numbers({!r})" if compiled.machine is None else "{}.handle({!r})"
        given = [
            (whole if isinstance(what, Matrix) else READ[part]).format(_holder(what, text), part)
            for part, what in compiled.given
        ]
        text.lines.append(f"given = {tuple_text(given)}")
        call = f"found = {text.name(compiled, 'compiled')}(*given)"
        if compiled.machine is None:  # without a call between
            text.lines.append(f"try: found = {text.name(compiled.function())}(*given)")
            call = f"except (ArithmeticError, ValueError): {call}"
        text.lines.append(call)

    def _return(
        self, trace: Trace, text: Text, leaves: list[Any], slopes: dict[Value, dict[Value, Operand]], single: Any
    ) -> None:
        """Lines that make the results."""
        make, inputs = text.name(node), [_holder(trace.positions.get(x, x), text) for x in single]
        if len(single) > 2:
            text.lines.append(f"return {make}('jit', n0, {text.name(Slopes)}({_listed(single, trace, text)}, m1), 0)")
            return
        if single:
            pairs = [each for i, x in enumerate(inputs, 1) for each in (x, f"n{i}")]
            text.lines.append(f"return {make}('jit', n0, {', '.join(pairs)})")
            return
        ends = _arguments_first(trace, dict.fromkeys(each for found in slopes.values() for each in found))
        rows = {x: f"n{i}" for i, x in enumerate(slopes)}
        if ends:
            reverse = Reverse(trace, ends, slopes, self.compiled.given)
            text.lines.append(f"call = {text.name(Call)}({text.name(reverse)}, {_listed(ends, trace, text)}, given)")
        for i, (x, found) in enumerate(slopes.items()):
            if found:
                text.lines.append(f"n{i} = {make}('jit', n{i}, {text.name(Result)}(call, {i}), 0)")
            elif x not in trace.numbers:
                text.lines.append(f"n{i} = {text.name(leaf)}(n{i})")
        made = [rows[x] if isinstance(x, Value) else text.name(x) for x in leaves]
        text.lines.append(f"return {text.name(self._rebuild)}({tuple_text(made)})")


def _holds(args: tuple[Any, ...], kwargs: dict[str, Any], record: bool) -> Callable[..., Any]:
    """A function of the arguments of a call: the Values and floats among these, or why they are of another kind."""
    text = Text()

    def conditions(x: Any, name: str) -> list[str] | None:
        if isinstance(x, Value):
            return [f"{name}.__class__ is {text.name(type(x))}"]
        made = f"isinstance({name}, float) and ({name} := float({name})) is not None"  # one of NumPy's
        return [f"({name}.__class__ is float or {made})"] if isinstance(x, float) else None

    mode = f"{text.name(grad_mode, 'grad_mode')}()"
    text.require([f"{text.name(tracing.get, 'trace')}() is None", mode if record else f"not {mode}"])
    count = len(text.arguments(args, kwargs, conditions))
    text.lines.append(f"return {tuple_text([f'x{i}' for i in range(count)])}")
    return text.function("def holds(args, kwargs):")


def _arguments_first(trace: Trace, leaves: Iterable[Value]) -> list[Value]:
    return sorted(leaves, key=lambda x: x not in trace.positions)


def _holder(what: Any, text: Text) -> str:
    """An argument of the call by its position, or a Value, as Python."""
    return f"flat[{what}]" if isinstance(what, int) else text.name(what)


def _listed(inputs: Iterable[Value], trace: Trace, text: Text) -> str:
    """The inputs of a result as Python: arguments, then what the function closes over."""
    arguments = [_holder(trace.positions[x], text) for x in inputs if x in trace.positions]
    return tuple_text([*arguments, f"*{text.name(tuple([x for x in inputs if x not in trace.positions]))}"])


def _check(flat: Sequence[Any], ends: list[int], changed: set[int], closed: dict[int, Value]) -> None:
    """Refuse a Value that the function assigns to, and knows by two names: it would lose one of two assignments.

    Parameters
    ----------
    ends : list of int
        Positions of arguments that get gradients.
    changed : set of int
        Positions of arguments, and identities of other Values, that are assigned to.
    closed : dict from int to Value
        The Values that the function closes over, by their identities.
    """
    seen: dict[int, int] = {}
    for position in ends:
        if not is_leaf(flat[position]):
            raise GraphError(
                f"jit: argument number {position} was computed, and a backward() inside the function would end "
                "there; pass a leaf, or call backward() on the result"
            )
    for position, x in enumerate(flat):
        if x.__class__ is float:
            continue
        first = seen.setdefault(id(x), position)
        other = f"argument number {first}" if first != position else "a Value that the function closes over"
        if (first != position or id(x) in closed) and not changed.isdisjoint((first, position, id(x))):
            raise GraphError(
                f"jit: argument number {position} is also {other}, and the function assigns to its data, or to its "
                "grad by backward(): give it one name, or call the function without jit"
            )
