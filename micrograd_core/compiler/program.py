"""A recorded program: operations in the order they ran, over numbered values. What `Backend.compile` is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Ref(NamedTuple):
    """Value number `number` of a program: first its inputs, then one per step."""

    number: int


class Step(NamedTuple):
    """One kernel call. Operands are `Ref` or Python scalars; parameters are as kernels receive them."""

    op: str
    operands: tuple[Any, ...]
    params: dict[str, Any]


class Program(NamedTuple):
    """`inputs` handles in, `steps` in order, the values that `outputs` name out."""

    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[Ref, ...]


def straight_line(
    program: Program,
    kernel: Callable[[str], Callable[..., Any] | None],
    compose: Callable[[str], Callable[..., Any]] | None = None,
) -> Callable[..., tuple[Any, ...]]:
    """`program` as a function of its input handles that calls one kernel after the other.

    `compose` gives the composition of an operation, for a call that its kernel declines.

    Raises
    ------
    KeyError
        When `kernel` knows none for a step: a program holds operations that its device has.
    """
    bound = []
    for step in program.steps:
        function = kernel(step.op)
        if function is None:
            raise KeyError(f"the program needs a kernel for {step.op!r}")
        bound.append((step.op, function, step.operands, step.params))

    def run(*handles: Any) -> tuple[Any, ...]:
        if len(handles) != program.inputs:
            raise TypeError(f"the program takes {program.inputs} handles; got {len(handles)}")
        values = list(handles)
        for op, function, numbered, params in bound:
            operands = [values[o.number] if isinstance(o, Ref) else o for o in numbered]
            result = function(*operands, **params)
            if result is NotImplemented and compose is not None:
                result = compose(op)(*operands, **params)
            values.append(result)
        return tuple(values[output.number] for output in program.outputs)

    return run
