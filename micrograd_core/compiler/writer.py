"""A kernel table that writes a program down: compositions run on it, and what they call becomes steps.

It is how a pass makes steps, and how an operation becomes those that it is composed of. Equal steps are one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.compiler.builder import INPUT, Builder
from micrograd_core.compiler.lengths import Length
from micrograd_core.compiler.program import Program, Ref, Step, width
from micrograd_core.compiler.specs import TensorSpec, expected_parts
from micrograd_core.dtypes import DType, float32
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import NEST
from micrograd_core.ops.shared import NARROW, is_scalar


class Unwritten(LookupError):
    """A composition asks for something that no step does, such as the elements of a constant."""


class Written:
    """A value of the program that is being written: an operand that has a shape and a dtype."""

    __slots__ = ("dtype", "ref", "shape")

    def __init__(self, ref: Ref, spec: TensorSpec) -> None:
        self.ref = ref
        self.shape, self.dtype = spec


Operand = Written | bool | int | float | complex


class Writer:
    """``k`` for compositions. `kept` says of which operations a step is made; others are composed of these.

    Parameters
    ----------
    kept : function
        Whether a call, ``(name, operands)``, becomes a step.
    """

    device = "a program"

    def __init__(self, kept: Callable[[str, tuple[Any, ...]], bool]) -> None:
        self.builder, self.kept = Builder(), kept
        self.inputs: list[Ref] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in TABLE:
            if name.startswith("__"):
                raise AttributeError(name)
            raise Unwritten(f"no step does {name!r}")
        return lambda *operands, **params: self.call(name, operands, params)  # not kept: it would refer back

    @staticmethod
    def dtype(x: Any) -> DType:
        """That of an operand that is an array."""
        found: DType = x.dtype
        return found

    def input(self, spec: TensorSpec) -> Written:
        """The next input of the program."""
        ref = self.builder.emit(Step(INPUT, (len(self.inputs),), {}), spec)
        self.inputs.append(ref)
        return Written(ref, spec)

    def call(self, name: str, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """A step, or those that an operation is composed of.

        Raises
        ------
        Unwritten
            When one that is needed is neither kept nor composed.
        """
        if name == "arange" and operands:  # which compositions give by position
            (stop,) = operands
            operands, params = (), {"stop": stop, **params}
        if any(x.__class__ is Length for x in operands):
            separate = TABLE[name].separate
            dtype, *_ = [x.dtype for i, x in enumerate(operands) if isinstance(x, Written) and i not in separate]
            numbers = [self.full(shape=(), fill_value=x, dtype=dtype) if x.__class__ is Length else x for x in operands]
            operands = tuple(numbers)
        return self.step(name, operands, params) if self.kept(name, operands) else self.composed(name, operands, params)

    def composed(self, name: str, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """What an operation is composed of. Two-byte floats are float32 in between, and rounded once, at the end."""
        op = TABLE[name]
        if op.compose is None or (op.parts is not None and op.lowering != NEST):
            raise Unwritten(f"{name} is not composed of others")
        arrays = [x for i, x in enumerate(operands) if not is_scalar(x) and i not in op.separate]
        narrow = next((x.dtype for x in arrays if x.dtype in NARROW), None)
        if narrow is None or op.view:
            return op.compose(self, *operands, **params)
        wide = [self.astype(x, dtype=float32) if getattr(x, "dtype", None) is narrow else x for x in operands]
        found = op.compose(self, *wide, **params)
        made = [self.astype(x, dtype=narrow) if x.dtype is float32 else x for x in (found if op.parts else (found,))]
        return tuple(made) if op.parts else made[0]

    def step(self, name: str, operands: Sequence[Any], params: dict[str, Any], types: Sequence[TensorSpec] = ()) -> Any:
        """One step; of an operation with parts, all of them."""
        if not types:
            types = expected_parts(TABLE[name], tuple(operands), params)
            if any(each.shape is None for each in types):
                raise Unwritten(f"the shape of {name} is not known")
        step = Step(name, tuple([x.ref if isinstance(x, Written) else x for x in operands]), params)
        if width(name) == 1:
            (type,) = types
            return Written(self.builder.emit(step, type), type)
        return tuple(map(Written, self.builder.emit_parts(step, types), types))

    def program(self, outputs: Sequence[Any]) -> Program:
        """What leads from all inputs to `outputs`."""
        wanted = [x.ref if isinstance(x, Written) else x for x in outputs]
        given = set(self.inputs)
        program, _ = self.builder.program([*wanted, *self.inputs], given.__contains__, len(self.builder.steps))
        return Program(program.inputs, program.steps, program.outputs[: len(wanted)], program.types)


def rewritten(
    program: Program,
    rule: Callable[[Writer, Step, tuple[Any, ...], Sequence[TensorSpec]], Any],
    k: Writer | None = None,
) -> Program:
    """A program with other steps: `rule` gives what stands for each.

    Parameters
    ----------
    rule : function
        ``(k, step, operands, types)`` → what the step makes, a tuple where it has parts; ``None`` leaves it as it is.
    k : Writer, optional
        By default one that keeps all operations.
    """
    k = Writer(lambda name, operands: True) if k is None else k
    values: list[Any] = [k.input(x) for x in program.types[: program.inputs]]
    for step, made in program.numbered():
        operands = tuple([values[x.number] if isinstance(x, Ref) else x for x in step.operands])
        types = program.types[made.start : made.stop]
        found = rule(k, step, operands, types)
        if found is None:
            found = k.step(step.op, operands, step.params, types)
        values.extend(found if len(made) > 1 else (found,))
    return k.program([values[x.number] if isinstance(x, Ref) else x for x in program.outputs])
