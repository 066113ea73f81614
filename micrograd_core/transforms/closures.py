"""What a function can reach besides its arguments: its closure, globals, defaults, and the attributes of what is there.

`jit` makes inputs of the tensors found here, and looks at each call whether the rest is what it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from operator import is_
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.dtypes import DType
from micrograd_core.random import Generator

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, DType, Device)
"""What is compared by value, and leads nowhere."""
OURS: Final = __name__.partition(".")[0]
ROOMS: Final = frozenset({"amp", "nn", "optim", "random", "scalar", "transforms"})
"""Of this package, where objects are that a function computes with."""
OUTSIDE: Final = sys.stdlib_module_names | {"numpy"}
"""Libraries whose objects lead to no tensors."""


@cache
def is_library(name: str) -> bool:
    """Whether a module is an installed library, whose globals lead to no tensors of the user's."""
    home = name.partition(".")[0]
    if home == "__main__":
        return False
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    return home in OUTSIDE or home == OURS or "site-packages" in file or "dist-packages" in file


class Watch:
    """The entries of one container, and what they were: `now` reads them, `put` sets them.

    `what` tells the user what it is; `slot` gives, for the position of an entry, an assignment that sets it.
    """

    __slots__ = ("now", "put", "slot", "values", "what")

    def __init__(
        self,
        what: Callable[[int], str],
        now: Callable[[], Any],
        put: Callable[[list[Any]], None],
        slot: Callable[[int], tuple[Any, Any]] | None = None,
    ) -> None:
        self.what, self.now, self.put, self.slot = what, now, put, slot
        self.values = list(now())

    def holds(self) -> bool:
        """Whether nothing has changed; plain values may be other objects that are equal."""
        now, values = self.now(), self.values
        if len(now) != len(values):
            return False
        return all(map(is_, now, values)) or all(map(same, now, values))


def same(x: Any, y: Any) -> bool:
    """Whether two entries are one object, or equal where that is all there is to them."""
    return x is y or (isinstance(x, PLAIN) and type(x) is type(y) and x == y)


class Reach:
    """All that functions and objects lead to."""

    def __init__(self, roots: list[Any]) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.changing: dict[int, Any] = {}  # optimisers and schedules: what has attributes that are `changing`
        self.generators: dict[int, Generator] = {}
        self.values = False  # whether there are scalar Values
        self.watches: list[Watch] = []
        self._seen: dict[int, Any] = {}
        stack = list(roots)
        while stack:
            stack.extend(self._visit(stack.pop()))

    def _visit(self, x: Any) -> Iterator[Any]:
        if isinstance(x, (*PLAIN, type, ModuleType, BuiltinFunctionType)) or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, Tensor):
            self.tensors[id(x)] = x
        elif isinstance(x, Generator):
            self.generators[id(x)] = x
        elif isinstance(x, FunctionType):
            yield from self._function(x)
        elif isinstance(x, MethodType):
            yield from (x.__self__, x.__func__)
        elif isinstance(x, partial):
            yield from (x.func, *x.args, *x.keywords.values())
        elif isinstance(x, dict):
            self.watches.append(_of_dict(x, "a dict"))
            yield from x.values()
        elif isinstance(x, (list, tuple, set, frozenset)):
            if isinstance(x, list):
                self.watches.append(
                    Watch(lambda i: f"entry {i} of a list", x.copy, partial(x.__setitem__, slice(None)))
                )
            elif isinstance(x, set):
                self.watches.append(Watch(lambda i: "a set", lambda: [*x], lambda values: _refill(x, values)))
            yield from x
        else:
            yield from self._object(x)

    def _function(self, f: FunctionType) -> Iterator[Any]:
        for cell in f.__closure__ or ():
            self.watches.append(_of_cell(cell, f.__name__))
            yield from _contents(cell)
        yield from f.__defaults__ or ()
        yield from (f.__kwdefaults__ or {}).values()
        yield from (x for name, x in vars(f).items() if name == "__wrapped__")
        if is_library(f.__module__ or ""):
            return
        names = tuple(dict.fromkeys(_names(f.__code__)))
        yield from self._looked_up(f.__globals__, names)
        for name in names:
            module = f.__globals__.get(name)
            if isinstance(module, ModuleType) and not is_library(module.__name__):
                yield from self._looked_up(vars(module), names)

    def _looked_up(self, space: dict[str, Any], names: tuple[str, ...]) -> Iterator[Any]:
        found = tuple(name for name in names if name in space and not isinstance(space[name], ModuleType))
        if found:
            self.watches.append(_of_names(space, found, "the global"))
        yield from (space[name] for name in found)

    def _object(self, x: Any) -> Iterator[Any]:
        kind = type(x)
        if hasattr(kind, "call_with_tensors"):  # under jit, too
            yield x.__wrapped__
            return
        home = (kind.__module__ or "").partition(".")[0]
        if hasattr(kind, "changing"):
            self.changing[id(x)] = x
        if home == OURS and kind.__module__.split(".")[1] not in ROOMS:
            return
        if home in OUTSIDE:
            return
        self.values = self.values or hasattr(kind, "_da")
        attributes = getattr(x, "__dict__", None)
        if attributes is not None:
            skipped = getattr(kind, "changing", ())
            names = tuple(name for name in attributes if name not in skipped)
            what = f"the attribute of a {kind.__name__},"
            self.watches.append(_of_names(attributes, names, what) if skipped else _of_dict(attributes, what))
            yield from [attributes[name] for name in names]
        for each in kind.__mro__:
            for name in getattr(each, "__slots__", ()):
                value = getattr(x, name, None) if isinstance(name, str) and name != "__weakref__" else None
                yield value
            if not is_library(each.__module__ or ""):
                yield from (f for f in vars(each).values() if isinstance(f, FunctionType))


def _of_dict(x: dict[Any, Any], what: str) -> Watch:
    def put(values: list[Any]) -> None:
        x.clear()
        x.update(zip(values[: len(values) // 2], values[len(values) // 2 :], strict=True))

    def key(i: int) -> Any:
        return list(x)[i % len(x)] if x else None

    return Watch(lambda i: f"{what} {key(i)!r}", lambda: [*x, *x.values()], put, lambda i: (x, key(i)))


def _of_cell(cell: CellType, name: str) -> Watch:
    def put(values: list[Any]) -> None:
        for value in values:
            cell.cell_contents = value

    return Watch(lambda i: f"a variable that {name} closes over", partial(_contents, cell), put)


def _of_names(x: dict[Any, Any], names: tuple[str, ...], what: str) -> Watch:
    return Watch(
        lambda i: f"{what} {names[i]!r}",
        lambda: [x.get(name) for name in names],
        lambda values: x.update(zip(names, values, strict=True)),
        lambda i: (x, names[i]),
    )


def _refill(x: set[Any], values: list[Any]) -> None:
    x.clear()
    x.update(values)


def _contents(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not assigned yet
        return ()


def _names(code: CodeType) -> Iterator[str]:
    """The names that code looks up as globals or attributes, and those of the functions in it."""
    yield from code.co_names
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _names(x)


__all__ = ["Reach", "Watch", "same"]
