"""The gradient of what a traced function returned: a program that carries cotangents back.

A program of the device knows values only. What gradients need beside them to be differentiated themselves, the graph
knows that was recorded while the program was traced: which operand a gradient flows to, and which result has a rule of
its own (`custom_gradient`, `custom_jvp`, `checkpoint`, hooks). `Differentiable` writes that down. An operand that no
gradient flows to (`detach`, `no_grad`, integers) is computed again from inputs that do not record. A `RULE` gives a
value whose gradient is another such list of steps, of the cotangent; `STOP` gives the numbers of that cotangent. So
every derivative of what these steps record is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.backend import member
from micrograd_core.compiler.builder import INPUT, PART
from micrograd_core.compiler.program import Ref
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import detach, storage, wrap
from micrograd_core.engine.graph import Leaf, Parts, Version, is_node, links_of, made_by
from micrograd_core.engine.hooks import HOOKED, conjugate, register_hook, run
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.interpreters.host import HostNumber
from micrograd_core.ops import TABLE
from micrograd_core.transforms.custom import at_each_depth, node_of, op_with, pushed
from micrograd_core.transforms.linearized import IDENTITY, Linearized, variable
from micrograd_core.transforms.tracing import Trace, at
from micrograd_core.transforms.vmap import lifted

JIT = op_with("jit", "A function under `jit`.", pushed)
STOP: Final = "stop_gradient"
RULE: Final = "rule"
SAME: Final = "same"  # another node for the same tensor
ORDERS: Final = 4
"""Rules within rules are written down so deep: a derivative of a higher order, of a rule that has such, is refused."""
GIVEN_RULE = op_with("rule", "A function with a gradient of its own, under `jit`.")


class Value(NamedTuple):
    """One value: the number `ref` of the program, or what a `node` or leaf of the graph stands for."""

    kind: str  # "plain", "several", "node", "leaf", or "inner": a value between the operands of a node and its result
    ref: Any
    node: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for equal values."""
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
        self._cotangents: dict[int, Value] = {} if outer is None else dict(outer._cotangents)  # by their numbers
        self._between: dict[int, dict[int, Value]] = {}
        self._alive: list[Any] = []  # nodes, whose identities are keys
        self._count = 0
        self.inputs: list[tuple[Value, int]] = []
        self.captured: list[tuple[int, int]] = []  # places in `outer`, and here
        self.steps: list[Step] = []
        self.outputs: list[int | None] = []

    def close(self) -> Differentiable:
        """Let go of the trace: all is written down."""
        del self._trace, self._outer, self._places, self._cotangents, self._between, self._alive
        return self

    def want(self, tensors: Sequence[Tensor | None]) -> None:
        """These tensors are outputs; ``None`` is zero."""
        self._alive += [x._record for x in tensors if x is not None]
        self.outputs += [None if x is None else self._place(self._operand(x._record, x._handle)) for x in tensors]

    def _is_variable(self, leaf: Leaf) -> bool:
        return id(leaf) in self._trace.leaves or self._known(Value("leaf", None, leaf)) is not None

    # writing steps down

    def _place(self, wanted: Value) -> int:
        """Where a value is, once the steps that lead to it are written down."""
        stack = [wanted]
        while stack:
            value = stack[-1]
            if self._known(value) is not None:
                stack.pop()
                continue
            op, operands, params = self._made_by(value)
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
        if op == INPUT and self._outer is None:
            self.inputs.append((value, self._new(value)))
        elif op == INPUT:
            self._outer._place(value)  # type: ignore[union-attr]  # where it is captured from
        elif op == SAME:
            self._places[value.key] = self._places[operands[0].key]
        else:
            if op in (RULE, HOOKED.name):
                params = {"steps": self._rule(value.node)}
            named = tuple([Ref(self._places[x.key]) if x.__class__ is Value else x for x in operands])
            self.steps.append(Step(op, named, params, self._new(value)))

    def _made_by(self, value: Value) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The step that makes a value, with values as operands."""
        kind, ref, node = value
        if kind == "leaf":
            return INPUT, (), {}
        if kind == "node":
            return self._of_node(node)
        if kind == "plain" and ref.number in self._cotangents:
            return STOP, (self._cotangents[ref.number],), {}
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
            return RULE, (Value("plain", out.ref), *filter(_records, operands)), {}
        first = out[0] if op.parts is not None else out
        step = self._trace.builder.steps[first.ref.number]
        if step.op == op.name and len(step.operands) == len(operands):
            both = zip(operands, step.operands, strict=True)
            operands = tuple([x if x.__class__ is Value and x.kind != "plain" else _plain(y) for x, y in both])
            return op.name, operands, step.params
        return SAME, (Value("inner", first.ref, node),), {}  # the device was asked for something else in its place

    def _operand(self, parent: Any, saved: Any) -> Any:
        """An operand of a node: what made it, where a gradient flows to it, and its numbers otherwise."""
        if saved.__class__ is HostNumber or not hasattr(saved, "shape"):
            return saved
        if is_node(parent):
            return Value("node", None, parent)
        if parent.__class__ is Leaf and self._is_variable(parent):
            return Value("leaf", None, parent)
        return Value("plain", saved.ref)  # a leaf is a variable of the function's own

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
        steps._cotangents[g._handle.ref.number] = leaf
        try:
            with recording(True, kernels.depth):
                if op.name == HOOKED.name:
                    found: Sequence[Any] = [conjugate(run(params["hooks"], conjugate(g)))]
                else:
                    found = params["pull"].pull(g, [k.lift(saved, parent) for parent, saved in links])
            steps.want([d for d, link in zip(found, links, strict=False) if _records(self._operand(*link))])
        except (GraphError, TraceError, TypeError) as error:
            return f"its rule does not record: {error}"
        return steps.close()

    # recording

    def run(self, given: Sequence[Tensor], captured: Sequence[Tensor], kernels: Any) -> list[Tensor | None]:
        """The outputs, recorded. `given` is in the order of `inputs`; a rule gets its cotangent alone."""
        values: list[Any] = [None] * self._count
        for x, (_, place) in zip((*given, *captured), (*self.inputs, *self.captured), strict=True):
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


def _records(x: Any) -> bool:
    """Whether a gradient flows to an operand."""
    return x.__class__ is Value and x.kind in ("node", "leaf")


def _plain(x: Any) -> Any:
    return Value("plain", x) if isinstance(x, Ref) else x


class Derivative:
    """The program that carries the cotangent of one result back to what was given."""

    def __init__(self, trace: Trace, result: Tensor, before: int) -> None:
        cotangent, slopes = trace.derivative(result)
        self.kernels: Any = trace.root
        self.owners = [trace.owner(key) for key in slopes]
        self.program, reads = trace.builder.program(
            list(slopes.values()), lambda ref: ref.number < before or trace.given(ref)
        )
        self.reads = [None if ref == cotangent else ref for ref in reads]
        self._steps = Differentiable(trace)
        self._steps.want([result])
        given = [x for x, _ in self._steps.inputs]
        keys = [trace.leaves[id(x.node)] if x.kind == "leaf" else None for x in given]
        self.inputs = [x.ref if key is None else trace.entered[key].ref for x, key in zip(given, keys, strict=True)]
        at_first = {key: i for i, key in enumerate(slopes)}
        self._variables = [at_first.get(key) for key in keys]  # type: ignore[arg-type]
        # Tensors that a gradient depends on, and the result does not (a gradient that was given closes over them).
        self._beside = [None if key is None or key in slopes else trace.owner(key) for key in keys]
        self._steps.close()

    def settle(self, known: dict[Ref, int], sources: list[tuple[Any, ...]]) -> None:
        """Where in a call what is read comes from: what the program takes, by its `sources`, and what it gives."""
        self._saved = [None if ref is None else known[ref] for ref in self.reads]
        self._kept = _places([sources[i] for i in self._saved if i is not None and i < len(sources)])
        self._inputs = [known[ref] for ref in self.inputs]
        self._computed_from = _places([sources[i] for i in self._inputs if i < len(sources)])

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The program as the device compiled it, when it was first needed."""
        return member(self.kernels.backend, "compile")(self.program)  # type: ignore[no-any-return]

    def node(self, value: Tensor, flat: list[Any], seen: Sequence[Any]) -> Tensor:
        """The result as what the function made of the tensors that record."""
        inputs = [at(x, flat) for x in self.owners]
        count = len(inputs)  # what is recorded holds no tensor
        beside = [None if owner is None else at(owner, flat)._record for owner in self._beside]
        saved = [None if i is None else seen[i] for i in self._saved]
        given = [seen[i] for i in self._inputs]
        versions = _versions(self._computed_from, flat)

        def recorded(operands: Sequence[Tensor]) -> Linearized:
            if any(each.stale for each in versions):
                raise GraphError(
                    "jit: what the function computed from was written in place since, so its gradient cannot be "
                    "recorded any more; write into x.copy(), or write after backward(create_graph=True)"
                )
            return self._recorded(operands[:count], given, beside)

        def push(tangents: Sequence[Tensor], operands: Sequence[Tensor]) -> Tensor:
            return recorded(operands).push(tangents[:count])[0]

        def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
            own = list(operands[:count])
            if records_at(self.kernels.depth) or g._kernels is not self.kernels:
                return recorded(own).pull([g])
            handles = [conjugate(g)._handle if x is None else x for x in saved]
            return [
                conjugate(wrap(Tensor, d, self.kernels, x.dtype, None))
                for d, x in zip(self.compiled(*handles), own, strict=True)
            ]

        return node_of(JIT, value, inputs, pull, push, versions=_versions(self._kept, flat))

    def _recorded(self, operands: Sequence[Tensor], given: list[Any], beside: list[Any]) -> Linearized:
        """What the result was computed from, recorded again, so that its derivative can be differentiated."""
        variables = [variable("jit", x, "an argument") for x in operands]
        filled = []
        for x, position, record in zip(given, self._variables, beside, strict=True):
            plain = wrap(Tensor, x, self.kernels, self.kernels.dtype(x), record)
            filled.append(plain if position is None else variables[position])
        with recording(True, variables[0]._kernels.depth):
            (value,) = self._steps.run(filled, [], self.kernels)
        assert value is not None
        return Linearized.of_result("jit", value, variables)


def _places(sources: list[tuple[Any, ...]]) -> list[Any]:
    """The tensors that inputs are, as `at` takes them."""
    return [x[1] for x in sources if x[0] == "tensor"]


def _versions(places: list[Any], flat: list[Any]) -> list[Version]:
    """What notices that one of these tensors is written to."""
    return [storage(x).version() for x in (at(place, flat) for place in places) if x._record is None]
