"""What a function can reach besides its arguments: its closure, globals, defaults, and the attributes of what is there.

`jit` makes inputs of the tensors found here, and looks at each call whether the rest is what it was.
"""

from __future__ import annotations

import builtins
import dis
import gc
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final
from weakref import ReferenceType

from micrograd_core.array.tensor import Tensor
from micrograd_core.random import Generator
from micrograd_core.transforms.classes import ClassWatch, own
from micrograd_core.transforms.watches import (
    PLAIN,
    Place,
    Variable,
    Watch,
    contents,
    of_absent,
    of_buffer,
    of_cell,
    of_dict,
    of_function,
    of_kind,
    of_length,
    of_list,
    of_names,
    of_referents,
    of_slots,
    refill,
)  # fmt: skip

OURS: Final = __name__.partition(".")[0]
ROOMS: Final = frozenset({"amp", "nn", "optim", "random", "scalar", "tools", "transforms"})
"""Of this package, where objects are that a function computes with."""
OPERATIONS: Final = (f"{OURS}.array.", f"{OURS}.ops.", f"{OURS}.engine.apply")
"""Of this package, where functions close over nothing that is a user's."""
OUTSIDE: Final = sys.stdlib_module_names | {"numpy"}
"""Libraries whose objects lead to no tensors."""
HOLDERS: Final = frozenset({"builtins", "types", "collections", "argparse", "functools", "itertools", "operator"})
"""Those of them whose objects hold whatever the user puts there."""
BUILTINS: Final = vars(builtins)


@cache
def is_library(name: str) -> bool:
    """Whether a module is an installed library, whose globals lead to no tensors of the user's."""
    home = name.partition(".")[0]
    if home == "__main__":
        return False
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    return home in OUTSIDE or home == OURS or "site-packages" in file or "dist-packages" in file


class Reach:
    """All that functions and objects lead to."""

    def __init__(self, roots: list[Any]) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.met: dict[int, int] = {}  # from the identity of a tensor to the number of places that led to it
        self.changing: dict[int, Any] = {}  # optimisers and schedules: what has attributes that are `changing`
        self.generators: dict[int, Generator] = {}
        self.foreign: list[Any] = []  # objects of other libraries
        self.values = False  # whether there are scalar Values
        self.watches: list[Watch] = []
        self._seen: dict[int, Any] = {}
        self._names: dict[str, None] = {}  # that code reached looks up
        self._modules: dict[int, ModuleType] = {}
        self._looked: dict[int, set[str]] = {}
        stack = list(roots)
        while stack:
            while stack:
                stack.extend(self._visit(stack.pop()))
            for module in list(self._modules.values()):
                stack.extend(self._looked_up(vars(module), self._names))

    def _visit(self, x: Any) -> Iterator[Any]:
        if isinstance(x, str):  # perhaps the name in ``getattr(module, name)``
            self._names[x] = None
        if isinstance(x, Tensor):
            self.met[id(x)] = self.met.get(id(x), 0) + 1
        if isinstance(x, PLAIN) or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, Tensor):
            self.tensors[id(x)] = x
        elif isinstance(x, Generator):
            self.generators[id(x)] = x
        elif isinstance(x, ModuleType):
            if not is_library(x.__name__):
                self._modules[id(x)] = x
        elif isinstance(x, type):
            yield from self._class(x)
        elif isinstance(x, FunctionType):
            yield from self._function(x)
        elif isinstance(x, MethodType):
            yield from (x.__self__, x.__func__)
        elif isinstance(x, partial):
            yield from (x.func, *x.args, *x.keywords.values())
        elif isinstance(x, dict):
            self.watches.append(of_dict(x, "a dict"))
            yield from x.values()
            if type(x) is not dict:
                yield from self._object(x)
        elif isinstance(x, (list, tuple, set, frozenset)):
            if isinstance(x, list):
                self.watches.append(of_list(x))
            elif isinstance(x, set):
                self.watches.append(Watch(lambda i: "a set", lambda: [*x], lambda values: refill(x, values)))
            yield from x
            if type(x) not in (list, tuple, set, frozenset):
                yield from self._object(x)
        else:
            yield from self._object(x)

    def _function(self, f: FunctionType) -> Iterator[Any]:
        home = f.__globals__.get("__name__") or ""  # `functools.wraps` gives ``__module__`` another's
        if home.startswith(OPERATIONS):
            return
        for cell in f.__closure__ or ():
            self.watches.append(of_cell(cell, f.__name__))
            yield from contents(cell)
        yield from f.__defaults__ or ()
        yield from (f.__kwdefaults__ or {}).values()
        if is_library(home):
            yield from (x for name, x in vars(f).items() if name == "__wrapped__")
            return
        self.watches.append(of_function(f))
        yield from (f.__kwdefaults__, vars(f))
        names = tuple(dict.fromkeys(_names(f.__code__)))
        self._names.update(dict.fromkeys(names))
        yield from self._looked_up(f.__globals__, names)
        self._in_libraries(f.__globals__, names, set())
        absent = [name for name in _globals(f.__code__) if name in BUILTINS and name not in f.__globals__]
        new = self._new(f.__globals__, absent)
        if new:
            self.watches.append(of_absent(f.__globals__, new, "the global"))
        self._watch(BUILTINS, absent, "the builtin")
        package = f.__globals__.get("__package__") or ""
        for name in names:  # what it imports itself
            for full in (name, f"{package}.{name}"):
                if full in sys.modules:
                    yield sys.modules[full]

    def _looked_up(self, space: dict[str, Any], names: Iterable[str]) -> Iterator[Any]:
        yield from [space[name] for name in self._watch(space, names, "the global")]

    def _watch(self, space: dict[str, Any], names: Iterable[str], what: str) -> tuple[str, ...]:
        """Look at those of some names that are in a namespace; which are new."""
        found = self._new(space, [name for name in names if name in space])
        if found:
            self.watches.append(of_names(space, found, what))
        return found

    def _new(self, space: dict[str, Any], names: Iterable[str]) -> tuple[str, ...]:
        """Names that were not looked at so far."""
        looked = self._looked.setdefault(id(space), set())
        found = tuple(name for name in names if name not in looked)
        looked.update(found)
        return found

    def _in_libraries(self, space: dict[str, Any], names: Iterable[str], seen: set[int]) -> None:
        """Functions of libraries that code names by their modules, as ``nn.functional.relu``, may be replaced."""
        modules = [x for x in map(space.get, names) if isinstance(x, ModuleType) and is_library(x.__name__)]
        for module in modules:
            if id(module) not in seen:
                seen.add(id(module))
                self._watch(vars(module), names, f"{module.__name__},")
                self._in_libraries(vars(module), names, seen)

    def _class(self, kind: type) -> Iterator[Any]:
        """The attributes of a class and of those it inherits from."""
        parts = _parts(kind)
        if parts:
            self.watches.append(ClassWatch(kind, _parts))
        for each in parts:
            home = each.__module__ or ""
            if not is_library(home):
                yield from [x for _, x in own(each)]
            elif home.startswith(f"{OURS}.nn."):
                for method in [x for _, x in own(each) if isinstance(x, FunctionType)]:
                    functions = vars(sys.modules[f"{OURS}.nn.functional"])
                    if "functional" in method.__code__.co_names:
                        self._watch(functions, method.__code__.co_names, "nn.functional,")

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
        if isinstance(x, (ContextVar, ReferenceType)):
            now = partial(_called, x if isinstance(x, ReferenceType) else partial(x.get, None))
            place = None if isinstance(x, ReferenceType) else Place(Variable(x), "value")
            self.watches.append(Watch(lambda i: f"a {kind.__name__}", now, lambda values: None, lambda i: place))
            yield from now()
            return
        if home in OUTSIDE and home not in HOLDERS:
            self.watches += of_buffer(x)
            self.foreign.append(x)
            return
        self.values = self.values or hasattr(kind, "_da")
        if hasattr(x, "__wrapped__") and home in HOLDERS:  # what a cache holds is its own
            yield x.__wrapped__
            return
        attributes = getattr(x, "__dict__", None)
        if isinstance(attributes, dict):
            skipped = getattr(kind, "changing", ())
            names = tuple(name for name in attributes if name not in skipped)
            what = f"the attribute of a {kind.__name__},"
            self.watches.append(of_names(attributes, names, what) if skipped else of_dict(attributes, what))
            if skipped:
                self.watches.append(of_length(attributes, f"the attributes of a {kind.__name__}"))
            self.watches.append(of_kind(x))
            yield from [attributes[name] for name in names]
        slots = [
            (name, member)
            for each in kind.__mro__
            for name, member in vars(each).items()
            if isinstance(member, MemberDescriptorType) and home not in OUTSIDE
        ]
        if slots:
            self.watches.append(of_slots(x, slots))
            yield from self.watches[-1].values
        if isinstance(x, dict):
            yield getattr(x, "default_factory", None)
        elif home in HOLDERS:
            self.watches += of_buffer(x) or of_referents(x)
            yield from gc.get_referents(x)
        yield kind


def _called(x: Any) -> list[Any]:
    return [x()]


def _parts(kind: type) -> list[type]:
    """A class and what it inherits from, as far as its attributes may be set."""
    return [each for each in kind.__mro__ if (each.__module__ or "").partition(".")[0] not in OUTSIDE]


def _names(code: CodeType) -> Iterator[str]:
    """The names that code looks up as globals or attributes (``getattr(x, "name")``), and of the functions in it."""
    yield from code.co_names
    for x in code.co_consts:
        if isinstance(x, str) and x.isidentifier():
            yield x
        elif isinstance(x, CodeType):
            yield from _names(x)


def _globals(code: CodeType) -> Iterator[str]:
    """The names that code looks up as globals, or builtins, and those of the functions in it."""
    yield from {x.argval for x in dis.get_instructions(code) if x.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _globals(x)


__all__ = ["Reach"]
