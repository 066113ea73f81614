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
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.builder import PART
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Ref, Step
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import detach, storage, wrap
from micrograd_core.engine.graph import Leaf, Version, is_node, links_of, made_by, parents_of
from micrograd_core.engine.hooks import HOOKED, conjugate, register_hook, run
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.interpreters.host import HostNumber
from micrograd_core.interpreters.traced import Traced
from micrograd_core.transforms.custom import at_each_depth, node_of, op_with, pushed
from micrograd_core.transforms.linearized import IDENTITY, Linearized, variable
from micrograd_core.transforms.tracing import Trace, at
from micrograd_core.transforms.vmap import lifted

JIT = op_with("jit", "A function under `jit`.", pushed)
RULE: Final = "rule"
ORDERS: Final = 4
"""Rules within rules are written down so deep: a derivative of a higher order, of a rule that has such, is refused."""
GIVEN_RULE = op_with("rule", "A function with a gradient of its own, under `jit`.")


class At(NamedTuple):
    """An operand that a gradient flows to: the value of a node or leaf, by its place."""

    place: int


class Differentiable:
    """The nodes from leaves to results, and a program of the plain values among their operands.

    Within a rule, `outer` are the nodes that the rule belongs to: it captures nodes, and plain values that were there
    before, and is given a cotangent first.
    """

    def __init__(self, trace: Any, outer: Differentiable | None = None) -> None:
        self._trace, self._outer, self._before = trace, outer, len(trace.builder.steps)
        self._k = Recorded.of(Tensor, trace.root)
        self._order: int = 1 if outer is None else outer._order + 1
        self._places: dict[int, int] = {}  # by the identities of nodes and leaves
        self._alive: list[Any] = []  # which these are
        self._plain: dict[Ref, None] = {}  # that are wanted
        self.steps: list[Step | None] = []  # with `At` among operands; the value has the next place; None: it is given
        self.given: list[Any] = []  # the leaves among these; within a rule, places in `outer`
        self.outputs: list[Any] = []
        self.cotangent: Ref | None = None
        self.refused = ""  # why a rule cannot be recorded

    def close(self) -> None:
        """Let go of the trace: all is written down."""
        trace, outer = self._trace, self._outer
        known = trace.given if outer is None else lambda ref: ref.number < self._before or trace.given(ref)
        self.program, self.reads = trace.builder.program([*self._plain], known)
        self._numbers = {ref: i for i, ref in enumerate(self._plain)}
        del self._trace, self._outer, self._places, self._alive, self._plain

    @cached_property
    def _plainly(self) -> Callable[..., Any]:
        """The program, by the recorded operations, made when it was first needed."""
        return straight_line(self.program, partial(getattr, self._k))

    def want(self, tensors: Sequence[Tensor | None]) -> None:
        """These tensors are outputs; ``None`` is zero."""
        self.outputs += [None if x is None else self._operand(x._record, x._handle) for x in tensors]

    def give(self, x: Any, source: Any) -> None:
        """A node or a leaf whose value comes from outside."""
        self._places[id(x)] = len(self.steps)
        self._alive.append(x)
        self.steps.append(None)
        self.given.append(source)

    # writing nodes down

    def _operand(self, parent: Any, saved: Any, beside: Any = None) -> Any:
        """An operand of a node: what made it, where a gradient flows to it, and its numbers otherwise."""
        if self._is_variable(parent):
            return At(self._place(parent))
        if saved.__class__ is HostNumber:
            saved = self._trace.operand(None, saved, beside)
        if not hasattr(saved, "shape"):
            return saved
        self._plain[saved.ref] = None
        return saved.ref

    def _is_variable(self, parent: Any) -> bool:
        """Whether it is a node, or a leaf that is no variable of the function's own."""
        return is_node(parent) or (
            parent.__class__ is Leaf and (id(parent) in self._trace.leaves or self._known(parent) is not None)
        )

    def _place(self, wanted: Any) -> int:
        """The place of a node or leaf, once those that it was computed from have theirs."""
        stack = [wanted]
        while stack:
            each = stack.pop()
            if self._known(each) is None:
                missing = [x for x in parents_of(each) if self._is_variable(x) and self._known(x) is None]
                if missing:
                    stack += [each, *missing]
                else:
                    self._write(each)
        return self._places[id(wanted)]

    def _known(self, x: Any) -> int | None:
        """The place of a node or leaf, if it has one: here, or as one captured from the nodes around these."""
        if id(x) not in self._places and self._outer is not None and (found := self._outer._known(x)) is not None:
            self.give(x, found)
        return self._places.get(id(x))

    def _write(self, node: Any) -> None:
        if node.__class__ is Leaf:
            self.give(node, node if self._outer is None else self._outer._place(node))
            return
        if not node:
            raise GraphError("jit: the graph of a result was freed by a backward() within the function")
        op, kernels, params, out = made_by(node)
        name, links, parameters = op.name, links_of(node), params
        beside = next((x.dtype for _, x in links if x.__class__ is Traced), None)
        operands = [self._operand(*link, beside) for link in links]
        if "pull" in params or name == HOOKED.name:
            parameters = {"rule": self._rule(node)}
            operands = [x for x in operands if x.__class__ is At]
        elif "block" in params:  # of a dropout: the same numbers again
            ones = kernels.full(shape=out.shape, fill_value=1, dtype=out.dtype)
            operands.append(self._operand(None, getattr(kernels, name)(ones, **params)))
            name, parameters = "multiply", {}
        if "pull" in params:
            name, operands = RULE, [self._operand(None, out), *operands]
        if name == IDENTITY.name:  # another node for the same tensor
            self._places[id(node)] = operands[0].place
        else:
            self._places[id(node)] = len(self.steps)
            self.steps.append(Step(name, tuple(operands), parameters))
        self._alive.append(node)

    def _rule(self, node: Any) -> Differentiable:
        """The rule of a node, from a cotangent on."""
        op, kernels, params, out = made_by(node)
        k, links, steps = Recorded.of(Tensor, kernels), links_of(node), Differentiable(self._trace, self)
        real = self._trace.root.full(shape=out.shape, fill_value=1, dtype=out.dtype)
        g = wrap(Tensor, self._trace.input(("cotangent",), real), kernels, kernels.dtype(out), None)
        g._record, g._grad = Leaf(g), None
        steps.give(g._record, None)
        steps.cotangent = g._handle.ref
        try:
            if self._order > ORDERS:
                steps.refused = f"it is of an order above {ORDERS}, within gradients of its own within each other"
            else:
                with recording(True, kernels.depth):
                    if op.name == HOOKED.name:
                        found: Sequence[Any] = [conjugate(run(params["hooks"], conjugate(g)))]
                    else:
                        found = params["pull"].pull(g, [k.lift(saved, parent) for parent, saved in links])
                steps.want([d for d, (parent, _) in zip(found, links, strict=False) if self._is_variable(parent)])
        except (GraphError, TraceError, TypeError) as error:
            steps.refused = f"its rule does not record: {error}"
        steps.close()
        self._plain |= dict.fromkeys(ref for ref in steps.reads if ref != steps.cotangent)
        return steps

    # recording

    def run(self, given: Sequence[Tensor], read: Sequence[Tensor]) -> list[Tensor | None]:
        """The outputs, recorded: from the values of what is given, and of what the program reads."""
        if self.refused:
            raise GraphError(
                f"jit: this derivative of a function with a gradient of its own cannot be recorded, as {self.refused}; "
                "call the function without jit"
            )
        rest, values, plain = iter(given), list[Any](), self._plainly(*map(detach, read))

        def value(x: Any) -> Any:
            return values[x.place] if x.__class__ is At else plain[self._numbers[x]] if x.__class__ is Ref else x

        for step in self.steps:
            if step is None:
                values.append(next(rest))
                continue
            op, operands, params = step
            xs = list(map(value, operands))
            if op == PART:
                values.append(xs[0][params["index"]])
            elif "rule" in params:
                rule = params["rule"]
                captured = [values[place] for place in rule.given[1:]]
                seen = [None if ref == rule.cotangent else value(ref) for ref in rule.reads]
                values.append(_with_rule(op, xs, partial(_pulled, rule, captured, seen)))
            else:
                values.append(getattr(self._k, op)(*xs, **params))
        return [value(x) for x in self.outputs]


def _pulled(rule: Differentiable, captured: list[Tensor], seen: list[Any], g: Tensor) -> list[Any]:
    """What a rule makes of a cotangent, recorded."""
    return rule.run([g, *captured], [g if x is None else x for x in seen])


def _with_rule(op: str, operands: list[Tensor], pulled: Callable[[Tensor], list[Any]]) -> Tensor:
    """The first operand as what a function with a rule of its own made of the others; or itself, with a hook."""
    first, *inputs = operands
    if op == RULE:
        return at_each_depth(GIVEN_RULE, lifted(first), list(map(lifted, inputs)), lambda g, operands: pulled(g))
    if first.requires_grad:
        register_hook(first, lambda g: pulled(g)[0])
    return first


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
        self._steps.close()
        keys = [trace.leaves[id(leaf)] for leaf in self._steps.given]
        self.inputs = [*self._steps.reads, *(trace.entered[key].ref for key in keys)]
        at_first = {key: i for i, key in enumerate(slopes)}
        self._variables = [at_first.get(key) for key in keys]
        # Tensors that a gradient depends on, and the result does not (a gradient that was given closes over them).
        self._beside = [None if key in slopes else trace.owner(key) for key in keys]
        self._steps.given.clear()

    def settle(self, known: dict[Ref, int], sources: list[tuple[Any, ...]]) -> None:
        """Where in a call what is read comes from: what the program takes, by its `sources`, and what it gives."""
        self._saved = [None if ref is None else known[ref] for ref in self.reads]
        self._kept = _places([sources[i] for i in self._saved if i is not None and i < len(sources)])
        self._inputs = [known[ref] for ref in self.inputs]
        self._computed_from = _places([sources[i] for i in self._inputs if i < len(sources)])

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The program as the device compiled it, when it was first needed."""
        return self.kernels.compile(self.program)  # type: ignore[no-any-return]

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
        plain = [wrap(Tensor, x, self.kernels, self.kernels.dtype(x), None) for x in given]
        read, filled = plain[: len(self._steps.reads)], plain[len(self._steps.reads) :]
        for i, (position, record) in enumerate(zip(self._variables, beside, strict=True)):
            filled[i]._record = record
            filled[i] = filled[i] if position is None else variables[position]
        with recording(True, variables[0]._kernels.depth):
            found: Any = self._steps.run(filled, read)
        return Linearized.of_result("jit", found[0], variables)


def _places(sources: list[tuple[Any, ...]]) -> list[Any]:
    """The tensors that inputs are, as `at` takes them."""
    return [x[1] for x in sources if x[0] == "tensor"]


def _versions(places: list[Any], flat: list[Any]) -> list[Version]:
    """What notices that one of these tensors is written to."""
    return [storage(x).version() for x in (at(place, flat) for place in places) if x._record is None]
