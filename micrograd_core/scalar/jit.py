"""``jit`` for scalars: a function of Values, traced once into straight-line Python with its gradients.

The function runs on Values as ever; the graph they leave is the trace. What is not in the graph, reading and assigning
``data`` and ``grad``, and ``backward()``, is noted by `Trace`. Numbers become local variables: a replay makes no object
but its result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from numbers import Number
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.builder import INPUT
from micrograd_core.compiler.program import Program, Ref
from micrograd_core.engine.modes import enable_grad, is_grad_enabled
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.ground import trees
from micrograd_core.ground.context import tracing
from micrograd_core.scalar.device_value import OPERATIONS, DeviceValue
from micrograd_core.scalar.packing import unpack
from micrograd_core.scalar.parameters import DeviceParameter, Parameter
from micrograd_core.scalar.results import KEPT, Call, Compiled, Result, Reverse, Slopes
from micrograd_core.scalar.rules import REFLECTED
from micrograd_core.scalar.state import State
from micrograd_core.scalar.sweep import Block
from micrograd_core.scalar.value import Value, leaf, node
from micrograd_core.tables.expressions import Expressions, Operand
from micrograd_core.tables.floats import number

CONSTANTS = (type(None), Number, str, bytes)
"""What a function may return that is the same at each call."""


class _TensorGivenError(Exception):
    """An argument is a tensor, so that the function is none of Values this time."""


class Jitted:
    """A function of Values and floats, and what it was compiled to, by kind of arguments.

    Arguments are Values and floats, and lists and tuples of them; others must be hashable, and are part of the kind.
    The 128 kinds that were used last are kept; any other is compiled again when it comes back. Values that the function
    closes over, such as the parameters of a network, are read anew at each call; of a computed one, what it was
    computed from. It may call ``backward()``, and assign to ``data`` and ``grad``: a whole training step. A float that
    it closes over, or gets on its way, as from ``random.random()``, is a constant.

    Raises
    ------
    TraceError
        When a decision depends on a number: a comparison, ``float(value)``, ``value.data`` in an ``if``. When the
        function returns what a replay cannot make.
    GraphError
        When a Value that it assigns to comes by two names: twice as an argument, or as one and closed over.
    """

    # Not in `__dict__`, which `functools.wraps` copies to what is made of this.
    __slots__ = ("__dict__", "__weakref__", "_compiled", "_last")

    def __init__(self, f: Callable[..., Any]) -> None:
        if not callable(f):
            raise TypeError(f"jit takes a function; got {type(f).__name__} {f!r}")
        self.__wrapped__, self._compiled = f, dict[Any, Traced]()  # the one used last at the end
        self._last: Traced | None = None
        self.__doc__ = f.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function, after compiling it if need be."""
        if tracing.get() is not None:
            return self.__wrapped__(*args, **kwargs)
        flat: list[Any] = []
        try:
            kind: Any = tuple([_flatten(x, flat) for x in args])
            if kwargs:
                kind = kind, tuple((name, _flatten(x, flat)) for name, x in sorted(kwargs.items()))
        except _TensorGivenError:
            return self.call_with_tensors(args, kwargs)
        kind = kind, is_grad_enabled()
        program = self._compiled.get(kind)
        if program is None or program is not self._last:
            if program is None:
                program = compile_scalars(self.__wrapped__, args, kwargs, kind[1])
            self._keep(kind, program)
        return program(flat)

    def call_with_tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An argument is a tensor."""
        raise TypeError("jit compiles functions of Values here; got a Tensor")

    def _keep(self, kind: Any, program: Traced) -> None:
        """Make a program the one used last, and let go of those beyond `KEPT`. Other threads may do so too."""
        self._compiled.pop(kind, None)
        self._compiled[kind] = self._last = program
        for old in list(self._compiled)[:-KEPT]:
            self._compiled.pop(old, None)

    @property
    def source(self) -> str:
        """The Python that ran last."""
        return self._last.compiled.source if self._last else ""

    @property
    def program(self) -> Program | None:
        """The program that ran last. `str` shows it, a line for each step."""
        return self._last.compiled.program if self._last else None


def _flatten(x: Any, flat: list[Any]) -> Any:
    """Append the numbers in an argument to `flat`; what is left is its kind."""
    if x.__class__ is Value or x.__class__ is float:
        flat.append(x)
        return x.__class__
    if isinstance(x, (list, tuple)):
        return type(x), tuple([_flatten(each, flat) for each in x])
    if isinstance(x, Tensor):
        raise _TensorGivenError
    if isinstance(x, DeviceValue):
        raise TypeError(
            f"jit compiles functions of Values on the cpu; got a {type(x).__name__} on {x.device}. Call it without jit"
        )
    if isinstance(x, (Value, float)):  # a kind of its own, such as NumPy's float64
        flat.append(x if isinstance(x, Value) else float(x))
        return Value if isinstance(x, Value) else float
    try:
        hash(x)
    except TypeError:
        raise TypeError(
            f"jit: arguments are Values, floats, lists and tuples of them, or hashable; got {type(x).__name__}"
        ) from None
    return type(x), x  # 1 and True are equal


# ── tracing ──────────────────────────────────────────────────────────────────────────────────────────────────


class Trace:
    """What a traced function did beside computing: the state it read and wrote."""

    def __init__(self) -> None:
        self.k = Expressions()
        self.known: dict[int, Operand] = {}  # by identity of the value
        self.kept: list[Value] = []  # so that identities stay unique
        self.leaves: dict[Ref, Value] = {}  # where gradients end
        self.written: dict[int, tuple[Value, Operand]] = {}
        self.slopes: dict[int, tuple[Value, Operand]] = {}
        self.numbers: set[int] = set()  # values that stand for floats
        self.derived: dict[Operand, dict[Value, Operand]] = {}  # the derivatives of expressions

    def bind(self, value: Value, expression: Operand) -> Value:
        """Let `value` stand for an expression."""
        self.known[id(value)] = expression
        self.kept.append(value)
        return value

    def inside(self, x: Any) -> Any:
        """An argument as the traced function sees it."""
        if isinstance(x, (Value, float)):
            return self.argument(x)
        if not isinstance(x, (list, tuple)):
            return x
        leaves, rebuild = trees.flatten(x)
        return rebuild(map(self.inside, leaves))

    def argument(self, x: Any) -> Value:
        """A leaf in the place of one number among the arguments."""
        kind = "argument" if isinstance(x, Value) else "number"
        inside = self.bind(leaf(x._data if isinstance(x, Value) else float(x)), self.k.input(kind, len(self.kept)))
        if isinstance(x, Value):
            self.leaves[self.known[id(inside)]] = inside  # type: ignore[index]
        else:
            self.numbers.add(id(inside))
        return inside

    def outside(self, x: float, expression: Operand) -> Value:
        """A value that stands for a float."""
        value = self.bind(leaf(x), expression)
        self.numbers.add(id(value))
        return value

    def made(self, x: Value) -> Value:
        """``Value(x)`` of a float."""
        return self.bind(leaf(x._data), self.k.detach(self.expression(x)))

    def read_data(self, value: Value) -> Value:
        """``value.data``: its number, and no way for a gradient."""
        return self.outside(value._data, self.k.detach(self.now(value)))

    def now(self, value: Value) -> Operand:
        """The number that a value has by now: what it computes, or what was assigned to it."""
        expression = self.expression(value)
        return self.written[id(value)][1] if id(value) in self.written else expression

    def write_data(self, value: Value, x: Any) -> None:
        """``value.data = x``."""
        new = self.k.detach(self.expression(x)) if isinstance(x, Value) else number(x, "data")
        self.expression(value)
        self.kept.append(value)
        self.written[id(value)] = value, new

    def read_grad(self, value: Value) -> Value:
        """``value.grad``."""
        return self.outside(value._gradient(), self.k.detach(self.slope(value)))

    def write_grad(self, value: Value, x: Any) -> None:
        """``value.grad = x``."""
        new = self.k.detach(self.expression(x)) if isinstance(x, Value) else number(x, "grad")
        self.slopes[id(value)] = value, new

    def slope(self, value: Value) -> Operand:
        """The gradient that a leaf has by now."""
        if id(value) not in self.slopes:
            if not _is_leaf(value):
                raise TraceError("jit: inside a traced function only leaves have a .grad; this value was computed")
            kind = "argument grad" if self.position(value) is not None else "grad"
            key = self.position(value) if kind == "argument grad" else value
            self.slopes[id(value)] = value, self.k.input(kind, key)
        return self.slopes[id(value)][1]

    def position(self, value: Value) -> int | None:
        """Which argument a leaf stands for, if any."""
        found = self.known.get(id(value)) if _is_leaf(value) else None
        op, operands, _ = self.k.steps[found.number] if isinstance(found, Ref) else ("", (), {})
        return operands[1] if op == INPUT and operands[0] == "argument" else None

    def backward(self, value: Value) -> None:
        """``value.backward()``."""
        for inside, g in self.gradients(value).items():
            self.slopes[id(inside)] = inside, self.k.add(self.slope(inside), g)

    def gradients(self, value: Value) -> dict[Value, Operand]:
        """The derivatives of a value by the leaves it was computed from."""
        root = self.expression(value)
        if root not in self.derived:
            found = self.k.gradients([(root, 1.0)], self.leaves)
            self.derived[root] = {self.leaves[expression]: g for expression, g in found.items()}
        return self.derived[root]

    def refuse(self, value: Value, what: str) -> float:
        """The value is asked for its number."""
        raise TraceError(
            f"jit: {what} of a Value inside a traced function would fix for all calls what was decided at the first "
            "one; use relu() and arithmetic instead, decide outside, or call the function without jit"
        )

    def expression(self, value: Value) -> Operand:
        """What a value computes. Nothing recurses: operands come first."""
        stack = [value]
        while stack:
            each = stack[-1]
            if id(each) in self.known:
                stack.pop()
                continue
            unpack(each)
            operands = [x for x in (each._a, each._b) if x is not None] if not _is_leaf(each) else []
            foreign = each._name == "jit" or any(isinstance(x, Block) for x in operands)
            if foreign or isinstance(each, DeviceValue):
                raise TraceError(
                    f"jit: a traced function computes with Values on the cpu; this one came from {each._name!r}. Pass "
                    "it as an argument, or compute it without jit"
                )
            waiting = [x for x in operands if id(x) not in self.known]
            if waiting:
                stack += waiting[::-1]
                continue
            self.bind(stack.pop(), self._compute(each) if operands else self._read(each))
            if operands and all(id(x) in self.numbers for x in operands):
                self.numbers.add(id(each))
        return self.known[id(value)]

    def _read(self, value: Value) -> Operand:
        expression = self.k.input("data", value)
        self.leaves[expression] = value
        return expression

    def _compute(self, value: Value) -> Operand:
        for x in (value._a, value._b):
            if id(x) in self.written:
                raise TraceError(
                    "jit: a value is used after its data was assigned in the same traced function; "
                    "trace one step at a time"
                )
        name, x = value._name, self.known[id(value._a)]
        op = OPERATIONS.get(REFLECTED.get(name, name))
        if op is None:
            return getattr(self.k, "negative" if name == "neg" else name)(x)  # type: ignore[no-any-return]
        y = float(value._db) if value._b is None else self.known[id(value._b)]
        return getattr(self.k, op)(*((y, x) if name in REFLECTED and value._b is None else (x, y)))  # type: ignore[no-any-return]


def _is_leaf(value: Value) -> bool:
    return value._a is None or isinstance(value, (Parameter, DeviceParameter))


# ── compiling ────────────────────────────────────────────────────────────────────────────────────────────────


def compile_scalars(f: Callable[..., Any], args: Any, kwargs: dict[str, Any], record: bool) -> Traced:
    """Trace `f` and compile what it did, in a context of its own: whatever ends the trace, its modes end with it."""
    return copy_context().run(_compile_here, f, args, kwargs, record)


def _compile_here(f: Callable[..., Any], args: Any, kwargs: dict[str, Any], record: bool) -> Traced:
    trace = Trace()
    tracing.set(trace)
    with enable_grad():
        out = f(*map(trace.inside, args), **{name: trace.inside(x) for name, x in sorted(kwargs.items())})
        return Traced(trace, out, record)


class Traced:
    """Compiled Python, and the state around it.

    `assigned` has the positions of arguments, and the identities of other Values, that the function assigns to.
    """

    def __init__(self, trace: Trace, out: Any, record: bool) -> None:
        leaves, self.rebuild = trees.flatten(out)
        for x in leaves:
            if not isinstance(x, (Value, *CONSTANTS)):
                raise TraceError(
                    "jit: a traced function returns Values, numbers, strings and None, and lists, tuples and dicts of "
                    f"them; what is in a {type(x).__name__} would be that of the first call for ever"
                )
        outputs = {id(x): x for x in leaves if isinstance(x, Value)}
        rows = {each: row for row, each in enumerate(outputs)}
        self.leaves = [(rows.get(id(x)), None if id(x) in rows else x) for x in leaves]
        wanted = [trace.now(x) for x in outputs.values()]
        found = [trace.gradients(x) if record and each not in trace.numbers else {} for each, x in outputs.items()]
        inputs = {id(inside): inside for slopes in found for inside in slopes}
        columns = {each: column for column, each in enumerate(inputs)}
        self.inputs = [(at, x if at is None else None) for x in inputs.values() for at in [trace.position(x)]]
        self.results = [
            None if each in trace.numbers else [columns[id(x)] for x in slopes]
            for each, slopes in zip(outputs, found, strict=True)
        ]
        """The inputs that each result depends on; None for a number."""
        self.single = len(inputs) if isinstance(out, Value) and self.results[0] else 0
        if self.single:
            wanted += found[0].values()
        else:
            roots = {row: trace.expression(x) for row, x in enumerate(outputs.values()) if self.results[row]}
            self.reverse = Reverse(trace.k, roots, [trace.known[each] for each in inputs])  # type: ignore[misc]
            wanted += self.reverse.saved
        self.state = State(trace, self.single > 2)
        self._inputs_now = [inside for _, inside in self.inputs]
        self._moving = [(i, at) for i, (at, _) in enumerate(self.inputs) if at is not None]
        positions = (trace.position(x) for x, _ in trace.slopes.values())
        self.takes_gradients = [position for position in positions if position is not None]
        touched = {id(value) for _, value, _, _ in self.state.writes if value is not None}
        self.assigned = touched | {position for _, _, position, _ in self.state.writes if position is not None}
        self.closed_over = touched | {
            id(step.operands[1]) for step in trace.k.steps if step.op == INPUT and step.operands[0] in ("data", "grad")
        }
        self.compiled = Compiled(trace.k, wanted, self.state)

    def __call__(self, flat: list[Any]) -> Any:
        """Run on the numbers among the arguments."""
        for position in self.takes_gradients:
            if not _is_leaf(flat[position]):
                raise GraphError(
                    f"jit: argument number {position} was computed, and a backward() inside the function would end "
                    "there; pass a leaf, or call backward() on the result"
                )
        if self.assigned:
            self._refuse_two_names(flat)
        found = self.compiled(flat)
        if self.single:
            at, a = self.inputs[0]
            a = a if at is None else flat[at]
            if self.single == 1:
                return node("jit", found[0], a, found[1])
            if self.single > 2:
                slopes = found[1:] if len(found) > 2 else memoryview(found[1])  # which machine code has filled
                return node("jit", found[0], Slopes(self._inputs(flat), slopes), 0)
            at, b = self.inputs[1]
            return node("jit", found[0], a, found[1], b if at is None else flat[at], found[2])
        return self._assemble(found, flat)

    def _refuse_two_names(self, flat: list[Any]) -> None:
        """A Value that the function assigns to, and knows by two names, would lose one of two assignments."""
        seen: dict[int, int] = {}
        for position, x in enumerate(flat):
            if x.__class__ is float:
                continue
            first = seen.setdefault(id(x), position)
            other = f"argument number {first}" if first != position else "a Value that the function closes over"
            known = first != position or id(x) in self.closed_over
            if known and not self.assigned.isdisjoint((first, position, id(x))):
                raise GraphError(
                    f"jit: argument number {position} is also {other}, and the function assigns to its data, or to its "
                    "grad by backward(): give it one name, or call the function without jit"
                )

    def _inputs(self, flat: list[Any]) -> list[Any]:
        inputs = self._inputs_now.copy()
        for i, at in self._moving:
            inputs[i] = flat[at]
        return inputs

    def _assemble(self, found: tuple[float, ...], flat: list[Any]) -> Any:
        """The results in the shape in which the function returned them."""
        width = len(self.results)
        call = Call(self.reverse, self._inputs(flat), found[width:])
        made: list[Any] = []
        for row, (x, columns) in enumerate(zip(found, self.results, strict=False)):
            if columns is None:
                made.append(x)
            else:
                made.append(node("jit", x, Result(call, row, columns), 0) if columns else leaf(x))
        return self.rebuild([x if row is None else made[row] for row, x in self.leaves])
