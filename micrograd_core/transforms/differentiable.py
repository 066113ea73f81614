"""What a traced result was computed from, as steps that can be recorded again: how a program is differentiated twice.

A program of the device knows values only. What gradients need beside them, the graph knows that was recorded while the
program was traced: which operand a gradient flows to, and which it does not (`detach`, `no_grad`, integers); and which
result has a rule of its own (`custom_gradient`, `custom_jvp`, `checkpoint`, hooks). `Differentiable` writes both down,
as two kinds of step among the operations: `STOP` gives the same numbers outside the graph, and `RULE` a value whose
gradient is another such list of steps, of the cotangent. Every derivative of what these steps record is right, then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.builder import INPUT, PART
from micrograd_core.compiler.program import Ref
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import detach, wrap
from micrograd_core.engine.graph import Leaf, Parts, is_node, links_of, made_by
from micrograd_core.engine.hooks import HOOKED, conjugate, register_hook, run
from micrograd_core.engine.modes import recording
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.shared import by_position
from micrograd_core.tables.host import HostNumber
from micrograd_core.tables.traced import Traced
from micrograd_core.transforms.batching import lifted
from micrograd_core.transforms.custom import at_each_depth, rule
from micrograd_core.transforms.grad import IDENTITY

STOP: Final = "stop_gradient"
RULE: Final = "rule"
SAME: Final = "same"  # another node for the same tensor
ORDERS: Final = 4
"""Rules within rules are written down so deep: a derivative of a higher order, of a rule that has such, is refused."""
GIVEN_RULE = Op("rule", "A function with a gradient of its own, under `jit`.", gradient=by_position(rule))


class Value(NamedTuple):
    """One value: the number `ref` of the program, or what a `node` or leaf of the graph stands for."""

    kind: str  # "plain", "several", "node", "leaf", or "inner": a value between the operands of a node and its result
    ref: Any
    node: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for the same value."""
        return self.kind, self.ref, id(self.node)


class Step(NamedTuple):
    """One operation: operands are places of values, wrapped in `Ref`, or numbers; the result goes to place `to`."""

    op: str
    operands: tuple[Any, ...]
    params: dict[str, Any]
    to: int


class Differentiable:
    """Steps from given values to wanted ones. Within a rule, `outer` are the steps that the rule belongs to.

    `inputs` says what is given: the numbers of the program's own inputs, and leaves.
    """

    def __init__(self, trace: Any, outer: Differentiable | None = None) -> None:
        self._trace, self._outer = trace, outer
        self._order: int = 1 if outer is None else outer._order + 1
        self._places: dict[tuple[Any, ...], int] = {}
        self._nodes: dict[int, Value] = {} if outer is None else dict(outer._nodes)  # by the number of what they made
        self._between: dict[int, dict[int, Value]] = {}
        self._alive: list[Any] = []  # nodes, whose identities are keys
        self._count = 0
        self.inputs: list[tuple[Value, int]] = []
        self.captured: list[tuple[int, int]] = []  # places in `outer`, and here
        self.steps: list[Step] = []
        self.outputs: list[int | None] = []

    def close(self) -> Differentiable:
        """Let go of the trace: all is written down."""
        del self._trace, self._outer, self._places, self._nodes, self._between, self._alive
        return self

    def want(self, tensors: Sequence[Tensor | None]) -> None:
        """These tensors are outputs; ``None`` is zero."""
        for x in tensors:
            if x is not None:
                self._alive.append(x._record)
                self._note(x._record)
        self.outputs += [None if x is None else self._place(_operand(x._record, x._handle)) for x in tensors]

    def _note(self, root: Any) -> None:
        """Which nodes made which values: where such a value does not record, it is that of the node, stopped."""
        stack, seen = [root], set[int]()
        while stack:
            node = stack.pop()
            if not is_node(node) or not node or id(node) in seen:
                continue
            seen.add(id(node))
            op, _, params, out = made_by(node)
            if out.__class__ is Traced and op.name in TABLE and "pull" not in params:
                self._nodes.setdefault(out.ref.number, Value("node", None, node))
            for parent, saved in links_of(node):
                if parent.__class__ is Leaf and self._is_variable(parent):
                    self._nodes.setdefault(saved.ref.number, Value("leaf", None, parent))
                stack.append(parent)

    def _is_variable(self, leaf: Leaf) -> bool:
        return id(leaf) in self._trace.leaves or self._known(Value("leaf", None, leaf)) is not None

    # writing steps down

    def _place(self, wanted: Value) -> int:
        """Where a value is, once the steps that lead to it are written down."""
        stack, begun = [wanted], set[Any]()
        while stack:
            value = stack[-1]
            if self._known(value) is not None:
                stack.pop()
                continue
            op, operands, params = self._made_by(value, begun)
            begun.add(value.key)
            missing = [x for x in operands if x.__class__ is Value and self._known(x) is None]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._write(value, op, operands, params)
        place = self._known(wanted)
        assert place is not None
        return place

    def _known(self, value: Value) -> int | None:
        """The place of a value, if there is one: here, or as one captured from the steps around these."""
        place = self._places.get(value.key)
        if place is None and self._outer is not None:
            found = self._outer._known(value)
            if found is not None:
                place = self._new(value)
                self.captured.append((found, place))
        return place

    def _new(self, value: Value) -> int:
        self._places[value.key] = place = self._count
        self._count += 1
        return place

    def _write(self, value: Value, op: str, operands: tuple[Any, ...], params: dict[str, Any]) -> None:
        if op == INPUT:
            if self._outer is None:
                self.inputs.append((value, self._new(value)))
            else:
                self._outer._place(value)  # where it is captured from
            return
        if op == SAME:
            place = self._known(operands[0])
            assert place is not None
            self._places[value.key] = place
            return
        if op in (RULE, HOOKED.name):
            params = {"steps": self._rule(value.node)}
        named = tuple([Ref(self._places[x.key]) if x.__class__ is Value else x for x in operands])
        self.steps.append(Step(op, named, params, self._new(value)))

    def _made_by(self, value: Value, begun: set[Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The step that makes a value, with values as operands."""
        kind, ref, node = value
        if kind == "leaf":
            return INPUT, (), {}
        if kind == "node":
            return self._of_node(node)
        if kind == "plain" and ref.number in self._nodes:
            made = self._nodes[ref.number]
            if made.key not in begun or self._known(made) is not None:
                return STOP, (made,), {}
        op, operands, params = self._trace.builder.steps[ref.number]
        if op == INPUT:
            return INPUT, (), {}
        if op == PART:
            return PART, (Value("several", operands[0]),), {"index": operands[1]}
        if kind == "plain" and TABLE[op].parts is not None:
            return PART, (Value("several", ref),), {"index": 0}
        inside = self._inside(node) if kind == "inner" else {}
        return op, tuple([inside.get(x.number) or _plain(x) if isinstance(x, Ref) else x for x in operands]), params

    def _of_node(self, node: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        if not node:
            raise GraphError("jit: the graph of a result was freed by a backward() within the function")
        op, _, params, out = made_by(node)
        operands = tuple([self._operand(parent, saved) for parent, saved in links_of(node)])
        if op.name == IDENTITY.name:
            return SAME, operands, {}
        if op.name == PART:
            return PART, operands, {"index": params["index"]}
        if op.name == HOOKED.name:
            return HOOKED.name, operands, {}
        if "pull" in params:
            recorded = [x for x in operands if x.__class__ is Value and x.kind in ("node", "leaf")]
            return RULE, (Value("plain", out.ref), *recorded), {}
        first = out[0] if op.parts is not None else out
        step = self._trace.builder.steps[first.ref.number]
        if step.op == op.name and len(step.operands) == len(operands):
            both = zip(operands, step.operands, strict=True)
            operands = tuple([x if x.__class__ is Value and x.kind != "plain" else _plain(y) for x, y in both])
            return op.name, operands, step.params
        return SAME, (Value("inner", first.ref, node),), {}  # the device was asked for something else in its place

    def _operand(self, parent: Any, saved: Any) -> Any:
        if parent.__class__ is Leaf and not self._is_variable(parent):
            parent = None  # a variable of the function's own
        return _operand(parent, saved)

    def _inside(self, node: Any) -> dict[int, Value]:
        """By their numbers, the values between the operands of a node and its result through which gradients flow."""
        if id(node) not in self._between:
            out = made_by(node)[3]
            last, steps = (out[0] if out.__class__ is Parts else out).ref.number, self._trace.builder.steps
            found = {saved.ref.number: self._operand(parent, saved) for parent, saved in links_of(node)}
            found = {number: x for number, x in found.items() if x.kind != "plain"}
            for number in range(min(found), last):
                operands = () if steps[number].op == INPUT else steps[number].operands
                if number not in found and any(isinstance(x, Ref) and x.number in found for x in operands):
                    found[number] = Value("inner", Ref(number), node)
            self._between[id(node)] = found
        return self._between[id(node)]

    def _rule(self, node: Any) -> Any:
        """The rule of a node as steps from a cotangent; or the sentence why there are none."""
        if self._order > ORDERS:
            return f"it is of an order above {ORDERS}, within gradients of its own within each other"
        op, kernels, params, out = made_by(node)
        k = Recorded.of(Tensor, kernels)
        links = links_of(node)
        steps = Differentiable(self._trace, self)
        real = self._trace.root.full(shape=out.shape, fill_value=1, dtype=out.dtype)
        g = wrap(Tensor, self._trace.input(("cotangent",), real), kernels, kernels.dtype(out), None)
        g._record, g._grad = Leaf(g), None
        leaf = Value("leaf", None, g._record)
        steps.inputs.append((leaf, steps._new(leaf)))
        steps._nodes[g._handle.ref.number] = leaf
        try:
            with recording(True, kernels.depth):
                if op.name == HOOKED.name:
                    found: Sequence[Any] = [conjugate(run(params["hooks"], conjugate(g)))]
                else:
                    found = params["pull"].pull(g, [k.lift(saved, parent) for parent, saved in links])
            recorded = [self._operand(*link) for link in links]
            steps.want(
                [
                    d
                    for d, x in zip(found, recorded, strict=False)
                    if x.__class__ is Value and x.kind in ("node", "leaf")
                ]
            )
        except (GraphError, TraceError, TypeError) as error:
            return f"its rule does not record: {error}"
        return steps.close()

    # recording

    def run(self, given: Sequence[Tensor], captured: Sequence[Tensor], kernels: Any) -> list[Tensor | None]:
        """The outputs, recorded. `given` is in the order of `inputs`; a rule gets its cotangent alone."""
        values: list[Any] = [None] * self._count
        for x, (_, place) in zip(given, self.inputs, strict=True):
            values[place] = x
        for x, (_, place) in zip(captured, self.captured, strict=True):
            values[place] = x
        k = Recorded.of(Tensor, kernels)
        for op, operands, params, to in self.steps:
            xs = [values[x.number] if isinstance(x, Ref) else x for x in operands]
            if op == STOP:
                values[to] = detach(xs[0])
            elif op == PART:
                values[to] = xs[0][params["index"]]
            elif op in (RULE, HOOKED.name):
                values[to] = _with_rule(op, xs, params["steps"], values, kernels)
            else:
                values[to] = getattr(k, op)(*xs, **params)
        return [None if place is None else values[place] for place in self.outputs]


def _with_rule(op: str, operands: list[Tensor], steps: Any, values: list[Any], kernels: Any) -> Tensor:
    """The first operand as what a function with a rule of its own made of the others; or itself, with a hook."""
    captured = [] if steps.__class__ is str else [values[place] for place, _ in steps.captured]

    def found(g: Tensor) -> Sequence[Any]:
        if steps.__class__ is str:
            raise GraphError(
                f"jit: this derivative of a function with a gradient of its own cannot be recorded, as {steps}; call "
                "the function without jit"
            )
        return steps.run([g], captured, kernels)  # type: ignore[no-any-return]

    first, *inputs = operands
    if op == RULE:
        return at_each_depth(GIVEN_RULE, lifted(first), list(map(lifted, inputs)), lambda g, operands: found(g))
    if first.requires_grad:
        register_hook(first, lambda g: found(g)[0])
    return first


def _operand(parent: Any, saved: Any) -> Any:
    """An operand of a node: what made it, where a gradient flows to it, and its numbers otherwise."""
    if saved.__class__ is HostNumber or not hasattr(saved, "shape"):
        return saved
    if is_node(parent):
        return Value("node", None, parent)
    return Value("leaf", None, parent) if parent.__class__ is Leaf else Value("plain", saved.ref)


def _plain(x: Any) -> Any:
    return Value("plain", x) if isinstance(x, Ref) else x
