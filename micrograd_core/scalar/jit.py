"""``jit`` for scalars: the trace of a function of Values, and its call.

The function runs on Values as ever, and the graph that they leave is the trace. `Trace` takes note of what is not in
the graph: reading and assigning ``data`` and ``grad``, and ``backward()``.

`Replay` prints one Python function for each trace, as the replay of tensors does. That function gathers numbers, calls
the program, carries out the function's assignments and makes the results. The program is Python, or machine code where
that is faster. A function with one result computes its derivatives during the forward pass. Several results share
programs that carry their cotangents back; each is compiled when a sweep first needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from functools import cached_property, partial
from itertools import accumulate, count, islice
from math import prod
from numbers import Number
from typing import Any, Final

from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Program, Ref
from micrograd_core.compiler.python import CONSTANTS, FUNCTIONS, source
from micrograd_core.compiler.runs import INPUT, needed, runs
from micrograd_core.device import default_device
from micrograd_core.dtypes import float64
from micrograd_core.engine.modes import enable_grad, grad_mode
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.interpreters.expressions import Expressions, Operand
from micrograd_core.interpreters.floats import EXACT, Floats, number
from micrograd_core.scalar.bridge import DeviceValue, Matrix, Parameter, element, gather
from micrograd_core.scalar.sweep import Block, underway
from micrograd_core.scalar.value import OPERATIONS, REFLECTED, Value, leaf, node
from micrograd_core.support import pytrees
from micrograd_core.support.context import tracing
from micrograd_core.transforms.codegen import Static, Text, refuse_others, tuple_text


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
        what = self._positions.get(value, value)
        self.known[value] = expression = self.k.input("data", what)
        self.leaves[expression] = what

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
        self.assigned[part, self._positions.get(value, value)] = now

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
            "one; use relu() and arithmetic, or max and min of micrograd_core.scalar, decide outside, or call it "
            "without jit"
        )

    def choose(self, name: str, x: Any, y: Any) -> Value:
        """What Python's `max` or `min` takes of two: the second if it is greater, or less, than the first."""
        left, right = (self.expression(each) if isinstance(each, Value) else number(each, name) for each in (x, y))
        pair = (left, right) if name == "max" else (right, left)
        best = self.k.make("where", self.k.make("less", *pair), right, left)
        value = self._stand_in(0.0, best)
        value._name = name
        if not self.numbers.issuperset([each for each in (x, y) if isinstance(each, Value)]):
            self.numbers.discard(value)
        return value

    # what they compute

    def now(self, value: Value, part: str = "data") -> Operand:
        """The number or the gradient that a value has by now: what was assigned to it, or what it had before."""
        what = self._positions.get(value, value)
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
        known, numbers, stack = self.known, self.numbers, [value]
        while stack:
            each = stack.pop()
            if each in known:
                continue
            name, a, b = each._name, each._a, each._b
            x, y = known.get(a), None if b is None else known.get(b)
            if name and name != "jit" and x is not None and (b is None or y is not None):
                known[each] = self._compute(each, x, y)
                if a in numbers and (b is None or b in numbers):
                    numbers.add(each)
            elif name == "jit" or isinstance(each, DeviceValue) or (name and isinstance(a, Block)):
                raise TraceError(
                    f"jit: a traced function computes with Values on the cpu; this one came from {name!r}. Pass it as "
                    "an argument, or compute it without jit"
                )
            elif name:
                stack += [each, a] if b is None else [each, b, a]
            else:
                self._read(each)
        return known[value]

    def _compute(self, value: Value, x: Operand, y: Operand | None) -> Operand:
        name, other = value._name, value._db
        if self.assigned and any(("data", self._positions.get(x, x)) in self.assigned for x in (value._a, value._b)):
            raise TraceError(
                "jit: a value is used after its data was assigned in the same traced function; trace one step at a time"
            )
        if y is None and other is None:
            return self.k.make(OPERATIONS.get(name, name), x)
        y = float(other) if y is None else y
        if name in REFLECTED:
            x, y, name = y, x, REFLECTED[name]
        return self.k.make(OPERATIONS.get(name, name), x, y)


def is_leaf(value: Value) -> bool:
    """Whether a value was not computed. A parameter refers to its matrix, and is a leaf all the same."""
    return not value._name


# ── the call ─────────────────────────────────────────────────────────────────────────────────────────────────

Group = tuple[tuple[int, ...], list[Operand]]
"""Numbers that a program gives together, and the shape of a handle that they fill."""
Gradients = dict[Value, dict[Ref, Operand]]
"""Of each result, its derivatives by the leaves."""
RETURNED: Final = (Value, type(None), Number, str, bytes)
"""What a function may return, alone or in lists, tuples and dicts."""
FEW: Final = 100
"""Steps from which on machine code pays: a call of it takes longer than fewer."""
KEPT: Final = 128
"""Choices of results whose programs are kept."""
READ: Final = {"data": "{}._data", "grad": "{}._gradient()", "number": "{}"}
HANDLE: Final = "{}.handle({!r})"
ASSIGN: Final = {"data": "{}._assign({})", "grad": "{}._assign_gradient({})"}


class Compiled:
    """A compiled program: a function of floats and handles of whole matrices that returns groups of numbers.

    Attributes
    ----------
    given : dict from (str, Value or Matrix or int) to int
        What the arguments are, such as the ``data`` of a matrix, and their positions. An `int` is an argument of jit's.
    matrices : list of Matrix or None
        Which of the arguments are handles, and of what.
    """

    def __init__(self, k: Expressions, groups: Sequence[Group]) -> None:
        self._k, self._wanted = k, [x for _, numbers in groups for x in numbers]
        found = needed(k.steps, self._wanted)
        inputs = [n for n in found[0] if k.steps[n][0] == INPUT]
        self.given: dict[tuple[str, Any], int] = {}
        self._reads: list[tuple[int, int | None]] = []
        for n in inputs:
            part, what = k.steps[n][1]
            whole, i = (what._a, what._da) if isinstance(what, Parameter) else (what, None)
            self._reads.append((self.given.setdefault((part, whole), len(self.given)), i))
        self._shapes = [shape for shape, _ in groups]
        self.matrices = [what if isinstance(what, Matrix) else None for _, what in self.given]
        self.machine: Callable[..., Any] | None = None
        """The program through the kernel ``scalars``, which the host has; it takes and gives handles of float64."""
        plain = all(matrix is None or matrix.tensor.dtype is float64 for matrix in self.matrices)
        if plain and len(found[0]) - len(inputs) > FEW:
            kernel = default_device().kernels.backend.kernel("scalars")
            shapes = [None if matrix is None else matrix.shape for matrix in self.matrices]
            starts = [*accumulate([1 if shape is None else prod(shape) for shape in shapes], initial=0)]
            places = {n: starts[which] + (i or 0) for n, (which, i) in zip(inputs, self._reads, strict=True)}
            self.machine = kernel and kernel(
                partial(runs, k.steps, found, self._wanted, places, starts[-1]), shapes, self._shapes
            )

    @cached_property
    def program(self) -> Program:
        """The steps in operations of the op table."""
        return self._k.program(self._wanted)

    def _text(self) -> str:
        return source(self.program, self._reads, [*map(prod, self._shapes)])

    def source(self) -> str:
        """The Python or the LLVM IR that runs."""
        return self.machine.source() if self.machine else self._text()  # type: ignore[attr-defined]

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The program as a Python function that takes lists for matrices, and raises where IEEE 754 goes on."""
        scope: dict[str, Any] = {**CONSTANTS, **EXACT, **FUNCTIONS}
        exec(compile(self._text(), "<jit>", "exec"), scope)
        return scope.pop("run")  # type: ignore[no-any-return]  # which refers to the scope

    @cached_property
    def exact(self) -> Callable[..., Any]:
        """The program as calls of functions that follow IEEE 754, which takes longer: of the numbers that it reads."""
        return straight_line(self.program, partial(getattr, Floats))

    def __call__(self, *given: Any) -> Any:
        """Run the program."""
        if (found := self.machine and self.machine(*given)) is not None:
            return found
        plain = [x if matrix is None else matrix.numbers(x) for x, matrix in zip(given, self.matrices, strict=True)]
        try:
            return self.function(*plain)
        except (ArithmeticError, ValueError):
            numbers = iter(self.exact(*[plain[which] if i is None else plain[which][i] for which, i in self._reads]))
            return [tuple(islice(numbers, prod(shape))) for shape in self._shapes]


def with_slopes(inputs: Sequence[Any], slopes: Any) -> Block:
    """The one result of a compiled function, with its derivatives by all inputs."""
    numbers = slopes if isinstance(slopes, tuple) else memoryview(slopes)  # which machine code has filled
    return Block("jit", inputs, 1, lambda gradients: [gradients[0] * d for d in numbers])


class Reverse:
    """Programs that carry the cotangents of several results back to the leaves: one for each choice of results.

    A result that is not part of a sweep takes no part here either: its derivative may be infinite.
    """

    def __init__(self, trace: Trace, ends: list[Ref], slopes: Gradients, given: Any) -> None:
        self._k, self._given, self._roots = trace.k, given, [trace.known[x] for x in slopes]
        self._places = {x: i for i, x in enumerate(ends)}
        self._compiled: dict[tuple[int, ...], tuple[list[int], Compiled]] = {}
        self.columns = [[self._places[x] for x in found] for found in slopes.values()]
        """Of each result, which leaves it depends on."""

    def __call__(self, cotangents: dict[int, float], given: Sequence[Any]) -> dict[int, float]:
        """Gradients by the position of the leaf; `given` are the numbers that the function was computed from."""
        rows = tuple(sorted(cotangents))
        if rows not in self._compiled:
            if len(self._compiled) >= KEPT:
                self._compiled.clear()
            found = self._k.gradients([(self._roots[i], self._k.input("cotangent", i)) for i in rows], self._places)
            program = Compiled(self._k, [((len(found),), [*found.values()])])
            self._compiled[rows] = [self._places[x] for x in found], program
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
        record, trace, text = bool(grad_mode()), Trace(), Text()
        out = copy_context().run(trace.run, f, args, kwargs)
        leaves, _ = pytrees.flatten(out)
        for x in leaves:
            refuse_others(x, RETURNED, "Values")
        many = [what for part, what in trace.assigned if part == "data" and what.__class__ is Value]
        if len(many) > FEW:
            gather(many)
        results = [x for x in leaves if isinstance(x, Value)]
        slopes = {x: trace.gradients(x) if record and x not in trace.numbers else {} for x in results}
        ends = dict.fromkeys(each for found in slopes.values() for each in found)
        first = sorted(ends, key=lambda x: not isinstance(trace.leaves[x], int))  # the arguments
        loose = [trace.now(x) for x in slopes]
        together = [slopes[out][x] for x in first] if isinstance(out, Value) else []
        if len(together) <= 2:  # which a node holds itself
            loose, together = loose + together, []
        stores, matrices = list[str](), dict[tuple[str, Matrix], dict[int, Operand]]()
        for (part, what), assigned in trace.assigned.items():
            if isinstance(what, Parameter):
                matrices.setdefault((part, what._a), {})[what._da] = assigned
            else:
                stores.append(ASSIGN[part].format(_text(what, text), f"n{len(loose)}"))
                loose.append(assigned)
        groups: list[Group] = [((len(each),), each) for each in (loose, together) if each or each is loose]
        for (part, matrix), cells in matrices.items():
            stores.append(f"{text.name(matrix)}.assign({part!r}, m{len(groups)})")
            cells |= {i: trace.k.input(part, element(Parameter, matrix, i)) for i in {*range(matrix.width)} - {*cells}}
            groups.append((matrix.shape, [cells[i] for i in range(matrix.width)]))
        self.compiled = Compiled(trace.k, groups)
        self.holds = _holds(args, kwargs, record)
        self._call(trace, text)
        text.lines.append(f"{tuple_text([f'm{i}' for i in range(len(groups))])} = found")
        text.lines.append(f"{tuple_text([f'n{i}' for i in range(len(loose))])} = m0")
        text.lines += stores
        self._return(trace, text, out, slopes, first)
        self.run = text.function("def run(flat):")

    program = property(lambda self: self.compiled.program, doc="The steps in operations of the op table.")

    def _call(self, trace: Trace, text: Text) -> None:
        """Lines that gather numbers, and compute."""
        compiled, changed = self.compiled, {what for _, what in trace.assigned}
        if changed:
            closed = {x for x in (*changed, *trace.leaves.values()) if not isinstance(x, int)}
            ends = {what for part, what in trace.assigned if part == "grad"}
            text.lines.append(f"{text.name(_check)}(flat, {', '.join(map(text.name, (ends, changed, closed)))})")
        given = [
            (HANDLE if isinstance(what, Matrix) else READ[part]).format(_text(what, text), part)
            for part, what in compiled.given
        ]
        text.lines.append(f"given = {tuple_text(given)}")
        call = f"found = {text.name(compiled, 'compiled')}(*given)"
        if compiled.machine is None and not any(compiled.matrices):  # without a call between
            text.lines.append(f"try: found = {text.name(compiled.function)}(*given)")
            call = f"except (ArithmeticError, ValueError): {call}"
        text.lines.append(call)

    def _return(self, trace: Trace, text: Text, out: Any, slopes: Gradients, ends: list[Ref]) -> None:
        """Lines that make the results; `ends` are those of all results, arguments first."""
        name, lines, inputs = text.name, text.lines, [trace.leaves[x] for x in ends]
        closed = tuple([x for x in inputs if not isinstance(x, int)])
        given = [f"flat[{x}]" for x in inputs if isinstance(x, int)]
        listed = tuple_text([*given, f"*{name(closed)}"]) if given else name(closed)
        if isinstance(out, Value) and len(ends) > 2:
            lines.append(f"return {name(node)}('jit', n0, {name(with_slopes)}({listed}, m1), 0)")
        elif isinstance(out, Value) and ends:
            pairs = [f"{_text(x, text)}, n{i}" for i, x in enumerate(inputs, 1)]
            lines.append(f"return {name(node)}('jit', n0, {', '.join(pairs)})")
        else:
            if ends:
                reverse = Reverse(trace, ends, slopes, self.compiled.given)
                lines.append(f"call = {name(Call)}({name(reverse)}, {listed}, given)")
            for i, (x, found) in enumerate(slopes.items()):
                if found:
                    lines.append(f"n{i} = {name(node)}('jit', n{i}, {name(Result)}(call, {i}), 0)")
                elif x not in trace.numbers:
                    lines.append(f"n{i} = {name(leaf)}(n{i})")
            leaves, rebuild = pytrees.flatten(out)
            rows = {x: f"n{i}" for i, x in enumerate(slopes)}
            made = [rows[x] if isinstance(x, Value) else name(x) for x in leaves]
            lines.append(f"return {name(rebuild)}({tuple_text(made)})")


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


def _text(what: Any, text: Text) -> str:
    """An argument of the call by its position, or a Value, as Python."""
    return f"flat[{what}]" if isinstance(what, int) else text.name(what)


def _check(flat: Sequence[Any], ends: set[Any], changed: set[Any], closed: set[Value]) -> None:
    """Refuse a Value that the function assigns to, and knows by two names: it would lose one of two assignments.

    Parameters
    ----------
    ends, changed : set of int or Value
        What gets gradients, and what is assigned to: positions of arguments, and other Values.
    closed : set of Value
        The Values that the function closes over.
    """
    seen: dict[Value, int] = {}
    for position, x in enumerate(flat):
        if x.__class__ is float:
            continue
        if position in ends and not is_leaf(x):
            raise GraphError(
                f"jit: argument number {position} was computed, and a backward() inside the function would end "
                "there; pass a leaf, or call backward() on the result"
            )
        first = seen.setdefault(x, position)
        other = f"argument number {first}" if first != position else "a Value that the function closes over"
        if (first != position or x in closed) and not changed.isdisjoint((first, position, x)):
            raise GraphError(
                f"jit: argument number {position} is also {other}, and the function assigns to its data, or to its "
                "grad by backward(): give it one name, or call the function without jit"
            )
