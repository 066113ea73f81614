"""What a function can reach besides its arguments: its closure, globals, defaults, and the attributes of what is there.

`jit` makes inputs of the tensors found here, and looks at each call whether the rest is what it was.
"""

from __future__ import annotations

import builtins
import dis
import gc
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final
from weakref import ReferenceType

from micrograd_core.array.tensor import Tensor
from micrograd_core.random import Generator
from micrograd_core.transforms import guards
from micrograd_core.transforms.guards import PLAIN, UNSET, ClassGuard, Guard, own

OURS: Final = __name__.partition(".")[0]
PACKAGES: Final = frozenset({"amp", "nn", "optim", "random", "scalar", "tools", "transforms"})
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


class Captured:
    """All that functions and objects lead to, and the guards that say whether it is as it was."""

    def __init__(self, roots: list[Any], until_values: bool = False) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.met: dict[int, int] = {}  # from the identity of a tensor to the number of places that led to it
        self.changing: dict[int, Any] = {}  # optimisers and schedules: what has attributes that are `changing`
        self.generators: dict[int, Generator] = {}
        self.foreign: list[Any] = []  # objects of other libraries
        self.values = False  # whether there are scalar Values
        self.guards: list[Guard] = []
        self._seen: dict[int, Any] = {}
        self._names: dict[str, None] = {}  # that code reached looks up
        self._modules: dict[int, ModuleType] = {}
        self._looked: dict[int, set[str]] = {}
        stack = list(roots)
        while stack and not (until_values and self.values):
            while stack and not (until_values and self.values):
                stack.extend(self._visit(stack.pop()))
            for module in list(self._modules.values()):
                stack.extend(self._look(vars(module), self._names, "the global"))

    def _guarded(self, guard: Guard) -> list[Any]:
        """Add a guard; what it found."""
        self.guards.append(guard)
        return [x for x in guard.values if x is not UNSET]

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
        else:
            if isinstance(x, dict):
                yield from self._guarded(guards.of_dict(x, "a dict {}"))
            elif isinstance(x, list):
                yield from self._guarded(guards.of_list(x))
            elif isinstance(x, set):
                yield from self._guarded(Guard("a set", space=x, read=lambda: [*x]))
            elif isinstance(x, (tuple, frozenset)):
                yield from x
            if type(x) not in (dict, list, tuple, set, frozenset):
                yield from self._object(x)

    def _function(self, f: FunctionType) -> Iterator[Any]:
        home = f.__globals__.get("__name__") or ""  # `functools.wraps` gives ``__module__`` another's
        if home.startswith(OPERATIONS):
            return
        for cell in f.__closure__ or ():
            yield from self._guarded(
                guards.of_attributes(cell, ["cell_contents"], f"a variable that {f.__name__} closes over")
            )
        yield from f.__defaults__ or ()
        yield from (f.__kwdefaults__ or {}).values()
        if is_library(home):
            yield from (x for name, x in vars(f).items() if name == "__wrapped__")
            return
        parts = ("__code__", "__defaults__", "__kwdefaults__")
        self.guards.append(guards.of_attributes(f, parts, f"the code or the defaults of {f.__name__}"))
        yield from (f.__kwdefaults__, vars(f))
        names = tuple(dict.fromkeys(_names(f.__code__)))
        self._names.update(dict.fromkeys(names))
        yield from self._look(f.__globals__, names, "the global")
        self._in_libraries(f.__globals__, names, set())
        absent = [name for name in _globals(f.__code__) if name in BUILTINS and name not in f.__globals__]
        self._look(f.__globals__, absent, "the global", absent=True)
        self._look(BUILTINS, absent, "the builtin")
        package = f.__globals__.get("__package__") or ""
        imported = (full for name in names for full in (name, f"{package}.{name}"))  # by itself
        yield from (sys.modules[full] for full in imported if full in sys.modules)

    def _look(self, space: dict[str, Any], names: Iterable[str], about: str, absent: bool = False) -> list[Any]:
        """Guard the names in a namespace that were not looked up so far, or are `absent` there; what they are."""
        looked = self._looked.setdefault(id(space), set())
        found = [name for name in dict.fromkeys(names) if name not in looked and (absent or name in space)]
        looked.update(found)
        return self._guarded(guards.of_names(space, found, f"{about} {{}}")) if found else []

    def _in_libraries(self, space: dict[str, Any], names: Iterable[str], seen: set[int]) -> None:
        """Functions of libraries that code names by their modules, as ``nn.functional.relu``, may be replaced."""
        for module in [x for x in map(space.get, names) if isinstance(x, ModuleType) and is_library(x.__name__)]:
            if id(module) not in seen:
                seen.add(id(module))
                self._look(vars(module), names, f"{module.__name__},")
                self._in_libraries(vars(module), names, seen)

    def _class(self, kind: type) -> Iterator[Any]:
        """The attributes of a class and of those it inherits from."""
        parts = _parts(kind)
        if parts:
            self.guards.append(ClassGuard(kind, _parts))
        for each in parts:
            home = each.__module__ or ""
            if not is_library(home):
                yield from [x for _, x in own(each)]
            elif home.startswith(f"{OURS}.nn."):
                for method in [x for _, x in own(each) if isinstance(x, FunctionType)]:
                    functions = vars(sys.modules[f"{OURS}.nn.functional"])
                    if "functional" in method.__code__.co_names:
                        self._look(functions, method.__code__.co_names, "nn.functional,")

    def _object(self, x: Any) -> Iterator[Any]:
        kind = type(x)
        if hasattr(kind, "call_with_tensors"):  # under jit, too
            yield x.__wrapped__
            return
        home = (kind.__module__ or "").partition(".")[0]
        if hasattr(kind, "changing"):
            self.changing[id(x)] = x
        if home == OURS and kind.__module__.split(".")[1] not in PACKAGES:
            return
        if isinstance(x, (ContextVar, ReferenceType)):
            yield from self._guarded(guards.of_variable(x))
            return
        if home in OUTSIDE and home not in HOLDERS:
            self.guards += guards.of_buffer(x)
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
            about = f"the attribute of a {kind.__name__}, {{}}"
            guard = guards.of_names(attributes, names, about, attributes)
            yield from self._guarded(guard if skipped else guards.of_dict(attributes, about))
            self.guards.append(guards.of_attributes(x, ["__class__"], f"the class of a {kind.__name__}"))
        slots = {
            name: member
            for each in reversed(kind.__mro__)
            for name, member in vars(each).items()
            if isinstance(member, MemberDescriptorType) and home not in OUTSIDE
        }
        if slots:
            yield from self._guarded(guards.of_slots(x, slots))
        if isinstance(x, dict):
            yield getattr(x, "default_factory", None)
        elif home in HOLDERS:
            self.guards += guards.of_buffer(x) or [guards.of_referents(x)]
            yield from gc.get_referents(x)
        yield kind


def _parts(kind: type) -> list[type]:
    """A class and what it inherits from, as far as its attributes may be set."""
    return [each for each in kind.__mro__ if (each.__module__ or "").partition(".")[0] not in OUTSIDE]


def _names(code: CodeType) -> Iterator[str]:
    """The names that code looks up as globals or attributes (``getattr(x, "name")``), and of the functions in it."""
    for each in _codes(code):
        yield from (*each.co_names, *(x for x in each.co_consts if isinstance(x, str) and x.isidentifier()))


def _globals(code: CodeType) -> Iterator[str]:
    """The names that code looks up as globals, or builtins, and those of the functions in it."""
    for each in _codes(code):
        yield from {x.argval for x in dis.get_instructions(each) if x.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions in it."""
    yield code
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _codes(x)


# ── random numbers of other libraries, which a program would repeat ──────────────────────────────────────────

ACCESS: Final = (("getstate", "setstate"), ("get_state", "set_state"))
"""What reads where a stream stands, and what sets it: of Python's, and of NumPy's older ones."""


def stream(x: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    """How to read and set where an object of another library stands in its stream, if it is one that has one."""
    bits: Any = getattr(x, "bit_generator", None)
    if hasattr(bits, "state"):
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    for read, put in ACCESS:
        if hasattr(x, read) and hasattr(x, put):
            return getattr(x, read), getattr(x, put)
    return None


class Streams:
    """Where all of them stand: those found, and those of the whole process."""

    def __init__(self, found: Iterable[Any]) -> None:
        everywhere = (random, sys.modules.get("numpy.random"))
        known = (stream(x) for x in (*found, *everywhere) if x is not None)
        self._known = [(*each, each[0]()) for each in known if each is not None]

    def restore(self) -> bool:
        """Let them go on where they stood; whether any had moved."""
        moved = [(put, state) for read, put, state in self._known if repr(read()) != repr(state)]
        for put, state in moved:
            put(state)
        return bool(moved)
