"""Runs programs: prints one as a Python function with a line for each step, in which values die after their last use.

Every device runs its programs so. One that compiles has lines of its own for what it compiles; the rest are calls of
its kernels, or of the compositions that stand in for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from micrograd_core.compiler.program import Program, Ref, native, operation


class Function:
    """A Python function that is being printed. Its values are called ``v0``, ``v1``, …; the inputs come first."""

    def __init__(self, inputs: int) -> None:
        self.inputs = [f"v{n}" for n in range(inputs)]
        self.scope: dict[str, Any] = {}
        self.steps: list[tuple[Sequence[str], tuple[int, ...]]] = []

    def constant(self, x: Any) -> str:
        """A name for something that the function refers to, such as a kernel, or an infinity, which has no literal."""
        name = f"c{len(self.scope)}"
        self.scope[name] = x
        return name

    def operand(self, x: Any) -> str:
        """A value of the program, or a number."""
        return f"v{x.number}" if isinstance(x, Ref) else self.constant(x)

    def step(self, lines: Sequence[str], values: Iterable[int]) -> None:
        """Add lines, which read or make these values."""
        self.steps.append((lines, tuple(values)))

    def call(self, function: Callable[..., Any], operands: Sequence[Any], made: Sequence[int], parts: bool) -> None:
        """Add a call that makes one value, or a tuple of them where there are `parts`."""
        results = ", ".join(f"v{n}" for n in made) + "," * parts
        line = f"{results} = {self.constant(function)}({', '.join(map(self.operand, operands))})"
        self.step([line], (*made, *[x.number for x in operands if isinstance(x, Ref)]))

    def source(self, outputs: Sequence[Any]) -> str:
        """The text of the function, which returns a tuple."""
        kept = {x.number for x in outputs if isinstance(x, Ref)} | {*range(len(self.inputs))}
        last = {n: i for i, (_, values) in enumerate(self.steps) for n in values if n not in kept}
        dead: dict[int, list[str]] = {}
        for n, i in last.items():
            dead.setdefault(i, []).append(f"v{n}")
        body = list[str]()
        for i, (lines, _) in enumerate(self.steps):
            body += [*lines, f"del {', '.join(dead[i])}"] if i in dead else lines
        body.append(f"return ({''.join(f'{self.operand(x)}, ' for x in outputs)})")
        return "\n    ".join([f"def run({', '.join(self.inputs)}):", *body])

    def made(self, source: str) -> Callable[..., Any]:
        """The function of a text."""
        exec(source, self.scope)
        found: Callable[..., Any] = self.scope.pop("run")
        return found


def bound(
    step: Any,
    kernel: Callable[[str], Callable[..., Any] | None],
    compose: Callable[[str], Callable[..., Any]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The function of a step's operands, or of a call's in a plan: the kernel, or the composition for what it declines.

    Raises
    ------
    KeyError
        When there is neither.
    """
    function, params = kernel(step.op), step.params if dtypes is None else native(step, dtypes)
    composed = None
    if compose is not None and operation(step.op).compose is not None:
        composed = partial(compose(step.op), **step.params)
    if function is None:
        if composed is None:
            raise KeyError(f"the program needs a kernel for {step.op!r}")
        return composed
    if composed is None:
        return partial(function, **params)

    def either(*operands: Any) -> Any:
        result = function(*operands, **params)
        return composed(*operands) if result is NotImplemented else result

    return either


def counted(run: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    """A function of handles that says how many it takes where there are others."""

    def checked(*handles: Any) -> Any:
        if len(handles) != inputs:
            raise TypeError(f"the program takes {inputs} handles; got {len(handles)}")
        return run(*handles)

    return checked


def straight_line(
    program: Program,
    kernel: Callable[[str], Callable[..., Any] | None],
    compose: Callable[[str], Callable[..., Any]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Callable[..., tuple[Any, ...]]:
    """`program` as a function of its input handles that calls one kernel after the other.

    `compose` gives the composition of an operation that has no kernel, or whose kernel declines a call; `dtypes` the
    device's own dtype for the name of one, for kernels that take these.

    Raises
    ------
    KeyError
        When there is neither kernel nor composition for a step.
    """
    run = Function(program.inputs)
    for step, made in program.numbered():
        run.call(bound(step, kernel, compose, dtypes), step.operands, made, operation(step.op).parts is not None)
    return counted(run.made(run.source(program.outputs)), program.inputs)
