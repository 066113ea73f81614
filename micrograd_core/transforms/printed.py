"""The call of a traced function, printed as Python for that one function.

To go through lists of what is to be looked at, read and assigned would take longer than to do it.
`MICROGRAD_JIT_DUMP=1` shows the text. Objects have names in it, such as ``Linear_3``; ``x0`` is the first tensor among
the arguments, ``v0`` the first handle that the program gives, ``n0`` the first of Python's numbers.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, Final

from micrograd_core.ground.made import Made
from micrograd_core.tables.host import index_of
from micrograd_core.transforms.tracing import Count
from micrograd_core.transforms.watches import ANY, PLAIN, Watch, same

INFIX: Final = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.lt: "<", operator.le: "<=", operator.eq: "==", operator.ne: "!=",
    operator.gt: ">", operator.ge: ">=",
}  # fmt: skip

LONGEST: Final = 1 << 19
"""Characters of conditions that are compiled: of a function that reaches more, they are gone through one by one."""


class Static:
    """An argument that is part of the kind of a call, whatever it is."""

    def __init__(self, x: Any) -> None:
        self.x = x


class Text:
    """Lines of one function, and the objects that have names in them."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {"__name__": __name__}
        self._names: dict[int, str] = {}
        self.lines: list[str] = []
        self.locals = 0

    def name(self, x: Any, word: str = "") -> str:
        """The name of an object, which stays alive with the function; a literal of what needs none."""
        if x is None or x is True or x is False:
            return repr(x)
        found = self._names.get(id(x))
        if found is None:
            words = (x.__name__ if isinstance(x, (FunctionType, type)) else word, type(x).__name__, "object")
            word = next(each for each in words if each.isidentifier() and each.isascii())
            found = self._names[id(x)] = f"{word}_{len(self.scope)}"
            self.scope[found] = x
        return found

    def local(self) -> str:
        """The name of a new local variable."""
        self.locals += 1
        return f"t{self.locals}"

    def function(self, head: str) -> Callable[..., Any]:
        """What the lines are, under a ``def`` line: it and its names form no cycle."""
        source = "\n    ".join([head, *self.lines]) + "\n"
        if os.environ.get("MICROGRAD_JIT_DUMP", "0") not in ("", "0"):
            print(
                f"# call: what Python does around the program, or whether a call is of the kind it is for\n{source}",
                file=sys.stderr,
            )
        exec(compile(source, "<jit>", "exec"), self.scope)
        found: Callable[..., Any] = self.scope.pop(head[4 : head.index("(")])
        return found

    @property
    def is_long(self) -> bool:
        """Whether to compile it would cost more than it gains."""
        return sum(map(len, self.lines)) > LONGEST

    # ── conditions ───────────────────────────────────────────────────────────────────────────────────────────

    def refuse_unless(self, conditions: Iterable[str], about: str = "") -> None:
        """Return ``None`` where a condition does not hold."""
        found = [each for each in conditions if each]
        if found:
            about = f"  # {about}" if about.isprintable() and about else ""
            self.lines.append(f"if not ({' and '.join(found)}): return None{about}")

    def is_same(self, expression: str, value: Any) -> str:
        """Whether an expression is an object, or equal where that is all there is to it."""
        if value is None or value is True or value is False or not isinstance(value, PLAIN):
            return f"{expression} is {self.name(value)}"
        found, known = self.local(), self.name(value)
        return f"(({found} := {expression}) is {known} or {self.name(same)}({found}, {known}))"

    def watch(self, watch: Watch) -> None:
        """A container has the entries that it had."""
        if watch.text is None:
            self.refuse_unless([f"{self.name(watch.holds)}()"], _about(watch))
            return
        condition, expressions = watch.text(self.name, watch.values)
        values = watch.values[len(watch.values) - len(expressions) :]
        known = [
            each for each in zip(expressions, values, strict=True) if not (each[1] is ANY or type(each[1]) is Made)
        ]
        self.refuse_unless([condition, *(self.is_same(*each) for each in known)], _about(watch))

    def argument(self, x: Any, at: str, tensors: list[str], is_tensor: Callable[[Any], bool]) -> None:
        """An argument is of the kind that it was; what is one of the tensors gets a name."""
        if is_tensor(x):
            tensors.append(f"x{len(tensors)}")
            handle, known = x._handle, self.name
            self.lines.append(f"{tensors[-1]} = {at}")
            self.refuse_unless([
                f"{tensors[-1]}.__class__ is {known(x.__class__)}",
                f"{tensors[-1]}._handle.shape == {tuple(handle.shape)}",
                f"{tensors[-1]}.dtype is {known(x.dtype)}",
                f"{tensors[-1]}._kernels is {known(x._kernels)}",
                f"{tensors[-1]}._record is {'' if x._record is None else 'not '}None",
            ])  # fmt: skip
        elif isinstance(x, (list, tuple)):
            self.refuse_unless([f"{at}.__class__ is {self.name(type(x))}", f"len({at}) == {len(x)}"])
            for i, each in enumerate(x):
                self.argument(each, f"{at}[{i}]", tensors, is_tensor)
        elif isinstance(x, dict):
            self.refuse_unless([f"{at}.__class__ is {self.name(type(x))}", f"[*{at}] == {self.name([*x])}"])
            for key, each in x.items():
                self.argument(each, f"{at}[{self.name(key)}]", tensors, is_tensor)
        else:
            self.refuse_unless([self.is_same(at, x.x if x.__class__ is Static else x)])

    # ── numbers of Python's ──────────────────────────────────────────────────────────────────────────────────

    def numbers(self, entries: Sequence[tuple[Callable[..., Any], tuple[Any, ...], Any]], otherwise: str) -> None:
        """What `tables.host` says is computed at each call; `otherwise` is done where a condition comes out so."""
        for i, (function, given, expected) in enumerate(entries):
            texts = [self.name(x) if index_of(x) is None else f"n{index_of(x)}" for x in given]
            if isinstance(function, Count):
                first, *others = function.texts(self.name)
                self.lines.append(f"n{i} = {first}")
                if others:
                    self.lines.append(f"if not n{i} == {' == '.join(others)}: {otherwise}")
                continue
            if function in INFIX and len(texts) == 2:
                text = f"{texts[0]} {INFIX[function]} {texts[1]}"
            elif isinstance(function, partial) and function.func is getattr and function.args[1].isidentifier():
                text = f"{self.name(function.args[0])}.{function.args[1]}"
            else:
                text = f"{self.name(function)}({', '.join(texts)})"
            self.lines.append(f"n{i} = {text}")
            if expected is not None:
                self.lines.append(f"if {'not ' * expected}n{i}: {otherwise}")


def _about(watch: Watch) -> str:
    return watch.what(0) if watch.values else ""


__all__ = ["Static", "Text"]
