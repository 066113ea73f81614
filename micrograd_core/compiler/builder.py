"""Writes a program down, step by step, while a function is traced; equal steps are one value.

What is in it may be more than anyone wants, and its inputs come as the function meets them. `Builder.program` takes out
the part that leads from some values to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.compiler.outlines import Outline
from micrograd_core.compiler.program import Program, Ref, Step

INPUT = "input"
"""In a builder, what a program takes from outside: a step whose operands say where from."""


class Builder:
    """Values in the order in which they can be computed, each with the step that makes it, and its type."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.types: list[Outline] = []
        self._known: dict[Any, Ref] = {}

    def emit(self, step: Step, outline: Outline, key: Any = None) -> Ref:
        """The value that a step makes. Steps with the same `key`, by default all that is in them, make one."""
        key = (step.op, same(step.operands), same(step.params)) if key is None else key
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Ref(len(self.steps))
            self.steps.append(step)
            self.types.append(outline)
        return found

    def program(self, wanted: Sequence[Any], given: Callable[[Ref], bool]) -> tuple[Program, list[Ref]]:
        """What leads from the values that are `given` to those that are `wanted`, and which values its inputs are.

        A ``detach`` computes nothing: it is its operand.
        """
        inputs, computed = set[Ref](), set[Ref]()
        stack = [x for x in wanted if isinstance(x, Ref)]
        while stack:
            x = stack.pop()
            if x in inputs or x in computed:
                continue
            if given(x):
                inputs.add(x)
            else:
                computed.add(x)
                stack += [y for y in self.steps[x.number].operands if isinstance(y, Ref)]
        reads = sorted(inputs)
        there: dict[Any, Ref] = {x: Ref(number) for number, x in enumerate(reads)}
        types = [self.types[x.number] for x in reads]
        steps = list[Step]()
        for x in sorted(computed):
            step = self.steps[x.number]
            if step.op == "detach":
                there[x] = there[step.operands[0]]
                continue
            there[x] = Ref(len(types))
            types.append(self.types[x.number])
            steps.append(step._replace(operands=tuple([there.get(y, y) for y in step.operands])))
        return Program(len(reads), steps, [there.get(x, x) for x in wanted], types), reads


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
