"""One representation of what a function computes: operations in a row, over numbered values. Tracing makes it.

Values are numbered through: the inputs first, then what each step makes. Operations and parameters are the op table's.
`str` of a program has one line for a step; `executor` runs one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from micrograd_core.compiler.specs import TensorSpec, expected_parts
from micrograd_core.dtypes import DType
from micrograd_core.errors import ProgramError
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.core.movement import requested


class Ref(NamedTuple):
    """Value number `number` of a program."""

    number: int

    def __str__(self) -> str:
        return f"%{self.number}"


class Step(NamedTuple):
    """One operation. Operands are `Ref` or Python scalars; parameters are complete, and a dtype is the core's."""

    op: str
    operands: tuple[Any, ...]
    params: dict[str, Any]

    def __str__(self) -> str:
        given = [*map(_text, self.operands), *(f"{name}={_text(x)}" for name, x in self.params.items())]
        return f"{self.op}({', '.join(given)})"


class _Fields(NamedTuple):
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[Any, ...]
    types: tuple[TensorSpec, ...] = ()
    donated: frozenset[int] = frozenset()


class Program(_Fields):
    """`inputs` values in, `steps` in order, the values that `outputs` name out.

    Parameters
    ----------
    inputs : int
        How many values are given.
    steps : tuple of Step
        Each makes the next value; one of an operation that has parts makes a value of each.
    outputs : tuple of Ref
        In a program of scalars a number may stand for one.
    types : tuple of TensorSpec, optional
        Shape and dtype of every value. A program by hand may go without; `typed` finds them from those of its inputs.
    donated : collection of int, optional
        Inputs whose memory nobody else has: the one step that reads such an input may write its result over it. What
        makes another program of this one leaves them out.

    Raises
    ------
    KeyError
        When there is no such operation.
    ProgramError
        When a step takes a value that is not there yet, or another number of operands than its operation has.

    Examples
    --------
    >>> from micrograd_core.dtypes import float32
    >>> steps = Step("multiply", (Ref(0), 2.0), {}), Step("sum", (Ref(1),), {"axis": (0,), "keepdims": False})
    >>> print(typed(Program(1, steps, (Ref(2),)), [TensorSpec((3, 4), float32)]))
    program(%0: float32[3, 4])
        %1: float32[3, 4] = multiply(%0, 2.0)
        %2: float32[4] = sum(%1, axis=(0,), keepdims=False)
        return %2
    """

    __slots__ = ()

    def __new__(
        cls, inputs: int, steps: Sequence[Step], outputs: Sequence[Any], types: Sequence[TensorSpec] = (),
        donated: Collection[int] = (),
    ) -> Program:  # fmt: skip
        """Refuse steps that do not fit together."""
        program = super().__new__(cls, inputs, tuple(steps), tuple(outputs), tuple(types), frozenset(donated))
        count, takes = inputs, {name: operation(name).operands for name in {step.op for step in program.steps}}
        for step, made in program.numbered():
            if takes[step.op] not in (-1, len(step.operands)):
                raise ProgramError(f"{step} has {len(step.operands)} operands; {step.op} takes {takes[step.op]}")
            for x in step.operands:
                if x.__class__ is Ref and not 0 <= x.number < count:
                    raise _too_early(f"step {program.steps.index(step)}, {step}, takes", x, count)
            count = made.stop
        for x in program.outputs:
            if isinstance(x, Ref) and not 0 <= x.number < count:
                raise _too_early("the program returns", x, count)
        if types and len(types) != count:
            raise ProgramError(f"the program has {count} values, and types of {len(types)}: every value has one")
        return program

    def numbered(self) -> Iterator[tuple[Step, range]]:
        """Each step with the numbers of the values that it makes."""
        start = self.inputs
        for step in self.steps:
            made = range(start, start + width(step.op))
            yield step, made
            start = made.stop

    def __str__(self) -> str:
        def named(numbers: range) -> str:
            return ", ".join(f"%{n}: {short(self.types[n])}" if self.types else f"%{n}" for n in numbers)

        lines = [f"    {named(made)} = {step}" for step, made in self.numbered()]
        last = f"    return {', '.join(map(str, self.outputs))}"
        return "\n".join([f"program({named(range(self.inputs))})", *lines, last])


def short(spec: TensorSpec) -> str:
    """A shape and dtype as a program shows them, such as ``float32[3, 4]``."""
    return f"{spec.dtype}[{', '.join(map(repr, spec.shape))}]"


def _text(x: Any) -> str:
    return str(x) if isinstance(x, (DType, Ref)) else repr(x)


def _too_early(who: str, x: Ref, count: int) -> ProgramError:
    there = f"only values up to %{count - 1} are" if count else "no value is"
    return ProgramError(f"{who} {x}, but {there} there by then: a step takes what comes before it")


def operation(name: str) -> Op:
    """What the op table has under a name.

    Raises
    ------
    KeyError
        When there is no such operation.
    """
    op = TABLE.get(name)
    if op is None:
        from difflib import get_close_matches

        close = get_close_matches(name, [*TABLE], n=1)
        raise KeyError(f"no operation is called {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return op


@cache
def width(name: str) -> int:
    """How many values a step of an operation makes: its parts, or one."""
    parts = operation(name).parts
    return 1 if parts is None else len(parts._fields)


def typed(program: Program, inputs: Sequence[TensorSpec]) -> Program:
    """The same program, with the shapes and dtypes of all values, which follow from those of the inputs.

    Raises
    ------
    ProgramError
        When there is another number of inputs, or a shape does not follow from shapes.
    ShapeError
        When shapes do not fit.
    """
    if len(inputs) != program.inputs:
        raise ProgramError(f"the program takes {program.inputs} values; got the types of {len(inputs)}")
    types = list(inputs)
    for step, made in program.numbered():
        operands = tuple([types[x.number] if isinstance(x, Ref) else x for x in step.operands])
        for number, found in zip(made, expected_parts(TABLE[step.op], operands, step.params), strict=True):
            if found.shape is None:
                raise ProgramError(
                    f"the shape of %{number} = {step} does not follow from those of its operands; give types to Program"
                )
            types.append(found)
    return Program(program.inputs, program.steps, program.outputs, types)


def native(step: Any, dtypes: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a step as kernels take them: with the device's own dtypes, which `dtypes` has by name."""
    params: dict[str, Any] = step.params
    wanted = params.get("dtype")
    if TABLE[step.op].result is requested and isinstance(wanted, DType):
        return {**params, "dtype": dtypes[wanted.name]}
    return params
