"""The gradient of what a traced function returned: a program that carries cotangents back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.backend import member
from micrograd_core.compiler.program import Ref
from micrograd_core.engine.array import storage, wrap
from micrograd_core.engine.graph import Version
from micrograd_core.engine.hooks import conjugate
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError
from micrograd_core.ops import Op
from micrograd_core.ops.shared import by_position
from micrograd_core.transforms.custom import node_of, pushed, rule
from micrograd_core.transforms.differentiable import Differentiable
from micrograd_core.transforms.grad import variable
from micrograd_core.transforms.linearized import Linearized
from micrograd_core.transforms.tracing import GradientOf, Trace, at

JIT = Op("jit", "A function under `jit`.", tangent=pushed, gradient=by_position(rule), gradient_aliases=True)


class Derivative:
    """The program that carries the cotangent of one result back to what was given."""

    def __init__(self, trace: Trace, result: Tensor, before: int) -> None:
        g, slopes = trace.derivative(result)
        self.kernels: Any = trace.root
        self.owners = [trace.owner(key) for key in slopes]
        self.program, reads = trace.builder.program(
            list(slopes.values()), lambda ref: ref.number < before or trace.given(ref)
        )
        self._at = [i for i, ref in enumerate(reads) if ref == g]
        constant = {i: trace.sources[ref.number][1] for i, ref in enumerate(reads) if _is_constant(trace, ref)}
        self._handles = [constant.get(i) for i in range(len(reads))]
        self._places = [i for i in range(len(reads)) if i not in constant and i not in self._at]
        self.reads = [reads[i] for i in self._places]
        self._compiled: Callable[..., Any] | None = None
        self._steps = Differentiable(trace)
        self._steps.want([result])
        keys = [trace.leaves[id(x.node)] if x.kind == "leaf" else None for x, _ in self._steps.inputs]
        self.inputs = [
            x.ref if key is None else trace.entered[key].ref
            for key, (x, _) in zip(keys, self._steps.inputs, strict=True)
        ]
        at_first = list(slopes)
        self._variables = [at_first.index(key) if key in slopes else None for key in keys]
        # Tensors that a gradient depends on, and the result does not (a gradient that was given closes over them).
        self._beside = [None if key is None or key in slopes else trace.owner(key) for key in keys]
        self._steps.close()

    def settle(self, known: dict[Ref, tuple[bool, int]], sources: list[tuple[Any, ...]]) -> None:
        """Where in a call what is read comes from."""
        self._saved = [known[ref] for ref in self.reads]
        self._kept = _places([sources[i] for is_input, i in self._saved if is_input])
        self._inputs = [known[ref][1] for ref in self.inputs]
        self._computed_from = _places([sources[i] for i in self._inputs])

    def node(self, value: Tensor, flat: list[Any], given: list[Any], found: list[Any]) -> Tensor:
        """The result as what the function made of the tensors that record."""
        inputs = [at(x, flat) for x in self.owners]
        count = len(inputs)  # what is recorded holds no tensor
        beside = [None if owner is None else at(owner, flat)._record for owner in self._beside]
        handles, versions = list(self._handles), _versions(self._computed_from, flat)
        for place, (is_input, i) in zip(self._places, self._saved, strict=True):
            handles[place] = given[i] if is_input else found[i]

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
            filled = list(handles)
            for i in self._at:
                filled[i] = conjugate(g)._handle
            if self._compiled is None:
                self._compiled = member(self.kernels.backend, "compile")(self.program)
            return [
                conjugate(wrap(Tensor, d, self.kernels, x.dtype, None))
                for d, x in zip(self._compiled(*filled), own, strict=True)
            ]

        return node_of(JIT, value, inputs, pull, push, versions=_versions(self._kept, flat))

    def _recorded(self, operands: Sequence[Tensor], given: list[Any], beside: list[Any]) -> Linearized:
        """What the result was computed from, recorded again, so that its derivative can be differentiated."""
        variables = [variable("jit", x, "an argument") for x in operands]
        filled = []
        for i, position, record in zip(self._inputs, self._variables, beside, strict=True):
            plain = wrap(Tensor, given[i], self.kernels, self.kernels.dtype(given[i]), record)
            filled.append(plain if position is None else variables[position])
        with recording(True, variables[0]._kernels.depth):
            (value,) = self._steps.run(filled, [], self.kernels)
        assert value is not None
        create = records_at(value._kernels.depth)
        again = Linearized("jit", [value], variables, create)
        again.larger = create
        return again


def _places(sources: list[tuple[Any, ...]]) -> list[Any]:
    """The tensors that inputs are, as `at` takes them."""
    found: list[Any] = [x[1] for x in sources if x[0] in ("tensor", "argument")]
    return found + [GradientOf(x[2]) for x in sources if x[0] == "grad"]


def _versions(places: list[Any], flat: list[Any]) -> list[Version]:
    """What notices that one of these tensors is written to."""
    return [storage(x).version() for x in (at(place, flat) for place in places) if x._record is None]


def _is_constant(trace: Trace, ref: Ref) -> bool:
    return trace.given(ref) and trace.sources[ref.number][0] == "constant"


__all__ = ["Derivative"]
