"""Writes a program down, step by step, while a function is traced; equal steps are one value, but for collectives.

What is in it may be more than anyone wants, and its inputs come as the function meets them. `Builder.program` takes out
the part that leads from some values to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.compiler.program import Program, Ref, Step, width
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.ops import TABLE

INPUT = "input"
"""In a builder, what a program takes from outside: a step whose operands say where from."""
PART = "part"
"""In a builder, what a step makes beside its first value: the numbers of all follow each other."""


class Builder:
    """Values in the order in which they can be computed, each with the step that makes it, and its type."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.types: list[TensorSpec] = []
        self.refs: list[Ref] = []
        self._known: dict[Any, Ref] = {}

    def emit(self, step: Step, spec: TensorSpec, key: Any = None) -> Ref:
        """The value that a step makes. Steps with the same `key`, by default all that is in them, make one."""
        if key is None:
            key = object() if is_collective(step) else (step.op, same(step.operands), same(step.params))
        found = self._known.get(key)
        if found is None:
            found = Ref(len(self.steps))
            self.types[found.number :] = [spec]  # in this order, so that an interrupt harms nothing
            self.refs[found.number :] = [found]
            self.steps.append(step)
            self._known[key] = found
        return found

    def emit_parts(self, step: Step, specs: Sequence[TensorSpec]) -> tuple[Ref, ...]:
        """The values that a step of an operation with parts makes."""
        first = self.emit(step, specs[0])
        return first, *[self.emit(Step(PART, (first, i), {}), x) for i, x in enumerate(specs) if i]

    def program(self, wanted: Sequence[Any], given: Callable[[Ref], bool], whole: int = 0) -> tuple[Program, list[Ref]]:
        """What leads from the values that are `given` to those that are `wanted`, and which values its inputs are.

        Collectives among the first `whole` steps are part of it, as other processes may want what they make.
        """
        steps, refs = self.steps, self.refs
        needed = {x.number for x in wanted if x.__class__ is Ref}
        needed.update([number for number in range(whole) if is_collective(steps[number])])
        reads, computed = list[int](), list[int]()
        for number in range(max(needed, default=-1), -1, -1):  # what a step takes comes before it
            if number not in needed:
                continue
            if given(refs[number]):
                reads.append(number)
            else:
                computed.append(number)
                needed.update([x.number for x in steps[number].operands if x.__class__ is Ref])
        reads.reverse()
        there = dict(zip(reads, refs, strict=False))
        types = [self.types[number] for number in reads]
        made = list[Step]()
        for number in reversed(computed):
            op, operands, params = steps[number]
            operands = tuple([there[x.number] if x.__class__ is Ref else x for x in operands])
            if op != PART:  # which came with the first
                for part in range(number, number + width(op)):
                    there[part] = refs[len(types)]
                    types.append(self.types[part])
                made.append(Step(op, operands, params))
        outputs = [there[x.number] if isinstance(x, Ref) else x for x in wanted]
        return Program(len(reads), made, outputs, types), [refs[number] for number in reads]


def is_collective(step: Step) -> bool:
    """Whether several processes compute it together, each with what it knows: a rank's constants are not another's."""
    op = TABLE.get(step.op)
    return op is not None and op.collective


def same(x: Any) -> Any:
    """Something that is equal for operands and parameters that are the same: 1, 1.0 and True are not, 0.0 and -0.0."""
    if isinstance(x, Ref):
        return x
    if isinstance(x, (list, tuple)):
        return type(x), *map(same, x)
    if isinstance(x, dict):
        return tuple([(name, same(each)) for name, each in x.items()])
    if isinstance(x, slice):
        return slice, same(x.start), same(x.stop), same(x.step)
    try:
        hash(x)
    except TypeError:
        return id(x)  # which its step keeps alive
    return x if isinstance(x, str) else (type(x), repr(x) if isinstance(x, (float, complex)) else x)
