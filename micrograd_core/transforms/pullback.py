"""The gradient of what a traced function returned: a program that carries cotangents back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.backend import member
from micrograd_core.compiler.program import Program, Ref
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import storage, wrap
from micrograd_core.engine.graph import Version
from micrograd_core.engine.hooks import conjugate
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.shared import by_position
from micrograd_core.transforms.custom import node_of, rule
from micrograd_core.transforms.grad import variable
from micrograd_core.transforms.linearized import Linearized
from micrograd_core.transforms.tracing import GradientOf, Trace, at

JIT = Op("jit", "A function under `jit`.", gradient=by_position(rule), gradient_aliases=True)


class Derivative:
    """The program that carries the cotangent of one result, `output` of the whole, back to what was given."""

    def __init__(self, trace: Trace, result: Tensor, before: int, output: int) -> None:
        g, slopes = trace.derivative(result)
        self.kernels: Any = trace.root
        self.owners, self.output = [trace.owner(key) for key in slopes], output
        self.program, reads = trace.builder.program(
            list(slopes.values()), lambda ref: ref.number < before or trace.given(ref)
        )
        self._at = [i for i, ref in enumerate(reads) if ref == g]
        constant = {i: trace.sources[ref.number][1] for i, ref in enumerate(reads) if _is_constant(trace, ref)}
        self._handles = [constant.get(i) for i in range(len(reads))]
        self._places = [i for i in range(len(reads)) if i not in constant and i not in self._at]
        self.reads = [reads[i] for i in self._places]
        self._compiled: Callable[..., Any] | None = None

    def settle(self, known: dict[Ref, tuple[bool, int]], forward: Program, sources: list[tuple[Any, ...]]) -> None:
        """Where in a call what is read comes from, and the program that a second derivative differentiates."""
        self._saved = [known[ref] for ref in self.reads]
        self.forward = forward
        self._kept = _places([sources[i] for is_input, i in self._saved if is_input])
        self._computed_from = _places(sources[: forward.inputs])
        places = [("argument", x) if isinstance(x, int) else ("tensor", x) for x in self.owners]
        self.variables = [
            next((i for i, source in enumerate(sources) if _is_source(source, place)), None) for place in places
        ]

    def node(self, value: Tensor, flat: list[Any], given: list[Any], found: list[Any]) -> Tensor:
        """The result as what the function made of the tensors that record."""
        inputs = [at(x, flat) for x in self.owners]
        count = len(inputs)  # what is recorded holds no tensor
        handles, versions = list(self._handles), _versions(self._computed_from, flat)
        for place, (is_input, i) in zip(self._places, self._saved, strict=True):
            handles[place] = given[i] if is_input else found[i]

        def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
            own = list(operands[:count])
            if records_at(self.kernels.depth) or g._kernels is not self.kernels:
                if any(each.stale for each in versions):
                    raise GraphError(
                        "jit: what the function computed from was written in place since, so its gradient cannot be "
                        "recorded any more; write into x.copy(), or write after backward(create_graph=True)"
                    )
                return self._pull_recorded(g, own, given)
            filled = list(handles)
            for i in self._at:
                filled[i] = conjugate(g)._handle
            if self._compiled is None:
                self._compiled = member(self.kernels.backend, "compile")(self.program)
            return [
                conjugate(wrap(Tensor, d, self.kernels, x.dtype, None))
                for d, x in zip(self._compiled(*filled), own, strict=True)
            ]

        return node_of(JIT, value, inputs, pull, versions=_versions(self._kept, flat))

    def _pull_recorded(self, g: Tensor, operands: list[Tensor], given: list[Any]) -> Sequence[Any]:
        """The program run on tensors that record, and swept: what can be differentiated again."""
        variables = [variable("jit", x, "an argument") for x in operands]
        filled = [wrap(Tensor, x, self.kernels, self.kernels.dtype(x), None) for x in given[: self.forward.inputs]]
        for i, x in zip(self.variables, variables, strict=True):
            if i is not None and i < len(filled):
                filled[i] = x
        with recording(True, variables[0]._kernels.depth):
            value = interpret(self.forward, filled, self.kernels)[self.output]
        create = records_at(value._kernels.depth)
        again = Linearized("jit", [value], variables, create)
        again.larger = create
        return again.pull([g])


def interpret(program: Program, tensors: Sequence[Any], kernels: Any) -> list[Any]:
    """The outputs of a program of tensors, recorded as any operations are."""
    values, k = list(tensors), Recorded.of(Tensor, kernels)
    for step in program.steps:
        op = TABLE[step.op]
        operands = [values[x.number] if isinstance(x, Ref) else x for x in step.operands]
        made = getattr(k, op.name)(*operands, **step.params)
        values.extend(made) if op.parts is not None else values.append(made)
    return [values[x.number] if isinstance(x, Ref) else x for x in program.outputs]


def _places(sources: list[tuple[Any, ...]]) -> list[Any]:
    """The tensors that inputs are, as `at` takes them."""
    found: list[Any] = [x[1] for x in sources if x[0] in ("tensor", "argument")]
    return found + [GradientOf(x[2]) for x in sources if x[0] == "grad"]


def _versions(places: list[Any], flat: list[Any]) -> list[Version]:
    """What notices that one of these tensors is written to."""
    return [storage(x).version() for x in (at(place, flat) for place in places) if x._record is None]


def _is_source(source: tuple[Any, ...], place: tuple[str, Any]) -> bool:
    return source[0] == place[0] and source[1] is place[1]


def _is_constant(trace: Trace, ref: Ref) -> bool:
    return trace.given(ref) and trace.sources[ref.number][0] == "constant"


__all__ = ["Derivative"]
