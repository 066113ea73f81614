"""The call of a traced function, printed as Python for that one function.

To go through lists of what is to be looked at, read and assigned would take longer than to do it.
`MICROGRAD_JIT_DUMP=1` shows the text. Objects have names in it, such as ``Linear_3``; ``x0`` is the first tensor among
the arguments, ``v0`` the first handle that the program gives, ``n0`` the first of Python's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, NamedTuple

from micrograd_core.errors import TraceError
from micrograd_core.interpreters.host import index_of
from micrograd_core.support.dumping import dump
from micrograd_core.transforms.guards import PLAIN, Guard, same

OTHER_ARGUMENTS: Final = "arguments of another kind"
Leaf = Callable[[Any, str], list[str] | None]
"""The conditions under which an argument of some name is a leaf like this one; ``None`` where this is none."""
LONGEST: Final = 1 << 19
"""Characters of conditions that are compiled: of a function that reaches more, they are gone through one by one."""


def tuple_text(texts: Sequence[str]) -> str:
    """A tuple as Python."""
    return f"({''.join(f'{x}, ' for x in texts)})"


def refuse_others(x: Any, kinds: Any, known: str) -> None:
    """Refuse that a traced function returns what a call could not make anew."""
    if not isinstance(x, kinds):
        raise TraceError(
            f"jit: a traced function returns {known}, numbers, strings and None, and lists, tuples and dicts of them; "
            f"what is in a {type(x).__name__} would be that of the first call for ever"
        )


class Count(NamedTuple):
    """A number that several entries of what an optimiser keeps have in common; where they differ, it is another trace.

    `texts` are the entries as Python, for who prints that.
    """

    owner: Any
    attribute: str
    paths: list[tuple[Any, ...]]

    def texts(self, name: Callable[[Any], str]) -> list[str]:
        """Each entry."""
        return [entry_text(name, self.owner, self.attribute, path) for path in self.paths]


def entry_text(name: Callable[[Any], str], owner: Any, attribute: str, path: tuple[Any, ...]) -> str:
    """An entry of what an optimiser keeps, as Python."""
    return f"{name(owner)}.{attribute}" + "".join(f"[{each!r}]" for each in path)


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
            named = isinstance(x, (BuiltinFunctionType, FunctionType, type))
            words = (word, x.__name__ if named else "", type(x).__name__, "object")
            word = next(each for each in words if each.isidentifier() and each.isascii())
            found = self._names[id(x)] = f"{word}_{len(self.scope)}"
            self.scope[found] = x
        return found

    def function(self, head: str) -> Callable[..., Any]:
        """What the lines are, under a ``def`` line: it and its names form no cycle."""
        source = "\n    ".join([head, *self.lines]) + "\n"
        about = "# call: what Python does around the program, or whether a call is of the kind it is for"
        dump(lambda: f"{about}\n{source}")
        exec(compile(source, "<jit>", "exec"), self.scope)
        found: Callable[..., Any] = self.scope.pop(head[4 : head.index("(")])
        return found

    # ── conditions ───────────────────────────────────────────────────────────────────────────────────────────

    def require(self, conditions: Iterable[str], reason: str | Guard = OTHER_ARGUMENTS) -> None:
        """Return the reason where a condition does not hold."""
        found = [each for each in conditions if each]
        about = reason if isinstance(reason, str) else reason.label() if reason.values else ""
        remark = f"  # {about}" if about.isprintable() and about and about is not reason else ""
        if found:
            told = repr(reason) if isinstance(reason, str) else self.name(reason, "guard")
            self.lines.append(f"if not ({' and '.join(found)}): return {told}{remark}")

    def is_same(self, expression: str, value: Any) -> str:
        """Whether an expression gives the `same` object, or an equal one, as Python."""
        known = self.name(value)
        if value is None or value is True or value is False or not isinstance(value, PLAIN):
            return f"{expression} is {known}"
        self.locals += 1
        found = f"t{self.locals}"
        return f"(({found} := {expression}) is {known} or {self.name(same)}({found}, {known}))"

    def guards(self, guards: Sequence[Guard]) -> None:
        """All of them hold. Those beyond `LONGEST` are gone through in a loop."""
        for i, guard in enumerate(guards):
            if sum(map(len, self.lines)) > LONGEST:
                self.lines.append(f"for guard in {self.name(guards[i:])}:")
                self.lines.append("    if not guard.holds(): return guard")
                return
            self.require(guard.conditions(self), guard)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaf: Leaf) -> list[Any]:
        """A call has arguments of the kind that these are; the leaves among these, named ``x0`` and so on."""
        leaves = list[Any]()
        self.require([f"len(args) == {len(args)}", f"[*kwargs] == {self.name([*kwargs])}" if kwargs else "not kwargs"])
        for i, x in enumerate(args):
            self._argument(x, f"args[{i}]", leaves, leaf)
        for key, x in kwargs.items():
            self._argument(x, f"kwargs[{key!r}]", leaves, leaf)
        return leaves

    def _argument(self, x: Any, at: str, leaves: list[Any], leaf: Leaf) -> None:
        name, local = self.name, f"x{len(leaves)}"
        conditions = leaf(x, local)
        if conditions is not None:
            leaves.append(x)
            self.lines.append(f"{local} = {at}")
            self.require(conditions)
        elif isinstance(x, (list, tuple, dict)):
            entries = x.items() if isinstance(x, dict) else enumerate(x)
            size = f"[*{at}] == {name([*x])}" if isinstance(x, dict) else f"len({at}) == {len(x)}"
            self.require([f"{at}.__class__ is {name(type(x))}", size])
            for key, each in entries:
                self._argument(each, f"{at}[{name(key) if isinstance(x, dict) else key}]", leaves, leaf)
        else:
            self.require([self.is_same(at, x.x if x.__class__ is Static else x)])

    # ── numbers of Python's ──────────────────────────────────────────────────────────────────────────────────

    def numbers(self, entries: Sequence[tuple[Callable[..., Any], tuple[Any, ...], Any]], otherwise: str) -> None:
        """What `interpreters.host` lists is computed at each call; `otherwise` is done where a condition is not met."""
        for i, (function, given, expected) in enumerate(entries):
            texts = [self.name(x) if index_of(x) is None else f"n{index_of(x)}" for x in given]
            if isinstance(function, Count):
                first, *others = function.texts(self.name)
                self.lines.append(f"n{i} = {first}")
                if others:
                    self.lines.append(f"if not n{i} == {' == '.join(others)}: {otherwise}")
                continue
            self.lines.append(f"n{i} = {self.name(function)}({', '.join(texts)})")
            if expected is not None:
                self.lines.append(f"if {'not ' * expected}n{i}: {otherwise}")
