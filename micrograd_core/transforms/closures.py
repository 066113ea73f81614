"""What a function can reach besides its arguments: its closure, globals, defaults, and the attributes of what is there.

`jit` makes inputs of the tensors found here, and looks at each call whether the rest is what it was.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from hashlib import blake2b
from itertools import count
from operator import is_, length_hint
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, NamedTuple
from weakref import ReferenceType

from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.dtypes import DType
from micrograd_core.random import Generator

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, DType, Device)
"""What is compared by value, and leads nowhere."""
OURS: Final = __name__.partition(".")[0]
ROOMS: Final = frozenset({"amp", "nn", "optim", "random", "scalar", "tools", "transforms"})
"""Of this package, where objects are that a function computes with."""
OPERATIONS: Final = (f"{OURS}.array.", f"{OURS}.ops.", f"{OURS}.engine.apply")
"""Of this package, where functions close over nothing that is a user's."""
OUTSIDE: Final = sys.stdlib_module_names | {"numpy"}
"""Libraries whose objects lead to no tensors."""
HOLDERS: Final = frozenset({"builtins", "types", "collections", "argparse", "functools", "itertools", "operator"})
"""Those of them whose objects hold whatever the user puts there."""
UNSET: Final = object()
ANY: Final = object()
"""Among the entries that a container had: a tensor, which may be another one at each call."""


@cache
def is_library(name: str) -> bool:
    """Whether a module is an installed library, whose globals lead to no tensors of the user's."""
    home = name.partition(".")[0]
    if home == "__main__":
        return False
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    return home in OUTSIDE or home == OURS or "site-packages" in file or "dist-packages" in file


class Place(NamedTuple):
    """Where a tensor is held: the entry `key` of a dict, a list or the like, or the attribute `key`.

    What is bound there anew from call to call is looked up at each call.
    """

    space: Any
    key: Any
    is_attribute: bool = False

    @property
    def identity(self) -> tuple[int, Any]:
        """The same for each `Place` of one entry."""
        return id(getattr(self.space, "about", self.space)), self.key

    def held(self) -> Any:
        """What is there now."""
        try:
            return getattr(self.space, self.key) if self.is_attribute else self.space[self.key]
        except (AttributeError, LookupError, ValueError):
            return UNSET

    def text(self, name: Callable[[Any], str]) -> str:
        """The place as Python, to be read and to be assigned to."""
        if self.is_attribute:
            return f"{name(self.space)}.{self.key}"
        return f"{name(self.space)}[{repr(self.key) if type(self.key) in (str, int) else name(self.key)}]"

    @property
    def is_plain(self) -> bool:
        """Whether no function of Python's runs when it is assigned to."""
        kind = type(self.space)
        return not isinstance(getattr(kind, "__setattr__" if self.is_attribute else "__setitem__"), FunctionType)


class Watch:
    """The entries of one container, and what they were: `now` reads them, `put` sets them.

    `what` tells the user what it is; `slot` gives the place of an entry where that can be bound anew, and `added` those
    of entries that came in addition. `text` says in Python when it holds, if that is more than that: a condition, and
    an expression for each of the last values.
    """

    __slots__ = ("added", "now", "put", "slot", "text", "values", "what")

    def __init__(
        self,
        what: Callable[[int], str],
        now: Callable[[], Any],
        put: Callable[[list[Any]], None],
        slot: Callable[[int], Place | None] = lambda i: None,
        text: Callable[[Callable[[Any], str], list[Any]], tuple[str, list[str]]] | None = None,
        added: Callable[[], list[Place]] = list,
    ) -> None:
        self.what, self.now, self.put, self.slot, self.text, self.added = what, now, put, slot, text, added
        self.values = list(now())

    def holds(self) -> bool:
        """Whether nothing has changed; plain values may be other objects that are equal."""
        now, values = self.now(), self.values
        return len(now) == len(values) and (all(map(is_, now, values)) or all(map(same, now, values)))

    def rebound(self) -> list[tuple[int, Place | None, Any, Any]]:
        """Entries that are otherwise now, and added ones: position, place, what was there, and what is."""
        now, added = self.now(), self.added()
        found = list[tuple[int, Place | None, Any, Any]]()
        if len(now) == len(self.values) or added:
            for i, was in enumerate(self.values):
                place = self.slot(i)
                new = now[i] if not added else was if place is None else place.held()
                if not same(new, was):
                    found.append((i, place, was, new))
        return found + [(0, place, UNSET, place.held()) for place in added]

    def tensors(self) -> list[tuple[int, Tensor]]:
        """The tensors among the entries, with their positions."""
        return [(i, x) for i, x in enumerate(self.values) if isinstance(x, Tensor)]


def same(x: Any, y: Any) -> bool:
    """Whether two entries are one object, or equal where that is all there is to them; 0.0 is not -0.0."""
    if x is y or y is ANY:
        return True
    return isinstance(x, PLAIN) and type(x) is type(y) and (x == y and (bool(x) or repr(x) == repr(y)))


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
        self._classes: set[type] = set()
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
            self.watches.append(_of_dict(x, "a dict"))
            yield from x.values()
            if type(x) is not dict:
                yield from self._object(x)
        elif isinstance(x, (list, tuple, set, frozenset)):
            if isinstance(x, list):
                self.watches.append(_of_list(x))
            elif isinstance(x, set):
                self.watches.append(Watch(lambda i: "a set", lambda: [*x], lambda values: _refill(x, values)))
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
            self.watches.append(_of_cell(cell, f.__name__))
            yield from _contents(cell)
        yield from f.__defaults__ or ()
        yield from (f.__kwdefaults__ or {}).values()
        if is_library(home):
            yield from (x for name, x in vars(f).items() if name == "__wrapped__")
            return
        self.watches.append(_of_function(f))
        yield from (f.__kwdefaults__, vars(f))
        names = tuple(dict.fromkeys(_names(f.__code__)))
        self._names.update(dict.fromkeys(names))
        yield from self._looked_up(f.__globals__, names)
        package = f.__globals__.get("__package__") or ""
        for name in names:  # what it imports itself
            for full in (name, f"{package}.{name}"):
                if full in sys.modules:
                    yield sys.modules[full]

    def _looked_up(self, space: dict[str, Any], names: Iterable[str]) -> Iterator[Any]:
        looked = self._looked.setdefault(id(space), set())
        found = tuple(name for name in names if name in space and name not in looked)
        if found:
            looked.update(found)
            self.watches.append(_of_names(space, found, "the global"))
        yield from [space[name] for name in found]

    def _class(self, kind: type) -> Iterator[Any]:
        """The attributes of a class and of those it inherits from."""
        for each in kind.__mro__:
            if not is_library(each.__module__ or "") and each not in self._classes:
                self._classes.add(each)
                names = tuple(name for name, x in vars(each).items() if not _is_internal(name, x))
                self.watches.append(_of_class(each, names))
                yield from [vars(each)[name] for name in names]

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
            place = None if isinstance(x, ReferenceType) else Place(_Variable(x), "value")
            self.watches.append(Watch(lambda i: f"a {kind.__name__}", now, lambda values: None, lambda i: place))
            yield from now()
            return
        if home in OUTSIDE and home not in HOLDERS:
            self.watches += _of_buffer(x)
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
            self.watches.append(_of_names(attributes, names, what) if skipped else _of_dict(attributes, what))
            yield from [attributes[name] for name in names]
        slots = [
            (name, member)
            for each in kind.__mro__
            for name, member in vars(each).items()
            if isinstance(member, MemberDescriptorType) and home not in OUTSIDE
        ]
        if slots:
            self.watches.append(_of_slots(x, slots))
            yield from self.watches[-1].values
        if isinstance(x, dict):
            yield getattr(x, "default_factory", None)
        elif home in HOLDERS:
            self.watches += _of_buffer(x) or _of_referents(x)
            yield from gc.get_referents(x)
        yield kind


def _of_dict(x: dict[Any, Any], what: str) -> Watch:
    keys = [*x]

    def put(values: list[Any]) -> None:
        x.clear()
        x.update(zip(values[: len(values) // 2], values[len(values) // 2 :], strict=True))

    def slot(i: int) -> Place | None:
        return Place(x, keys[i - len(keys)]) if i >= len(keys) else None

    def added() -> list[Place]:
        return [Place(x, key) for key in [*x][len(keys) :]] if [*x][: len(keys)] == keys else []

    def text(name: Callable[[Any], str], values: list[Any]) -> tuple[str, list[str]]:
        return f"[*{name(x)}] == {keys}", [f"{name(x)}[{each!r}]" for each in keys]

    plain = type(x) is dict and all(type(each) is str for each in x)
    about = lambda i: f"{what} {keys[i % len(keys)] if keys else None!r}"  # noqa: E731
    return Watch(about, lambda: [*x, *x.values()], put, slot, text if plain else None, added if plain else list)


def _of_list(x: list[Any]) -> Watch:
    def text(name: Callable[[Any], str], values: list[Any]) -> tuple[str, list[str]]:
        return f"len({name(x)}) == {len(values)}", [f"{name(x)}[{i}]" for i in range(len(values))]

    put, slot = partial(x.__setitem__, slice(None)), partial(Place, x)
    return Watch(lambda i: f"entry {i} of a list", lambda: [*x], put, slot, text if type(x) is list else None)


def _of_cell(cell: CellType, name: str) -> Watch:
    def put(values: list[Any]) -> None:
        for value in values:
            cell.cell_contents = value

    return Watch(
        lambda i: f"a variable that {name} closes over",
        partial(_contents, cell),
        put,
        lambda i: Place(cell, "cell_contents", True),
        text=(lambda name, values: ("", [f"{name(cell)}.cell_contents"])) if _contents(cell) else None,
    )


def _of_names(x: dict[Any, Any], names: tuple[str, ...], what: str) -> Watch:
    return Watch(
        lambda i: f"{what} {names[i]!r}",
        lambda: [x.get(name) for name in names],
        lambda values: x.update(zip(names, values, strict=True)),
        lambda i: Place(x, names[i]),
        text=lambda name, values: (
            "",
            [
                f"{name(x)}.get({key!r})" if value is None else f"{name(x)}[{key!r}]"
                for key, value in zip(names, values, strict=True)
            ],
        ),
    )


def _of_function(f: FunctionType) -> Watch:
    def put(values: list[Any]) -> None:
        f.__code__, f.__defaults__, f.__kwdefaults__ = values

    return Watch(
        lambda i: f"the code or the defaults of {f.__name__}",
        lambda: [f.__code__, f.__defaults__, f.__kwdefaults__],
        put,
        text=lambda name, values: ("", [f"{name(f)}.__{each}__" for each in ("code", "defaults", "kwdefaults")]),
    )


def _of_class(kind: type, names: tuple[str, ...]) -> Watch:
    def now() -> list[Any]:
        space = vars(kind)
        return [space.get(name, UNSET) for name in names]

    def put(values: list[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            setattr(kind, name, value)

    space = vars(kind)
    return Watch(
        lambda i: f"the class attribute {kind.__name__}.{names[i]}",
        now,
        put,
        lambda i: Place(kind, names[i], True) if names[i].isidentifier() else None,
        text=lambda name, values: ("", [f"{name(space)}[{each!r}]" for each in names]),
    )


def _of_slots(x: Any, slots: list[tuple[str, Any]]) -> Watch:
    def now() -> list[Any]:
        return [_held(member, x) for _, member in slots]

    def put(values: list[Any]) -> None:
        for (_, member), value in zip(slots, values, strict=True):
            if value is not UNSET:
                member.__set__(x, value)
            elif _held(member, x) is not UNSET:
                member.__delete__(x)

    what = type(x).__name__
    slot = lambda i: Place(_Slots(x), slots[i][1])  # noqa: E731
    return Watch(lambda i: f"the attribute of a {what}, {slots[i][0]!r}", now, put, slot)


class _Slots:
    """The slots of an object, read and assigned as the entries of a dict are."""

    def __init__(self, x: Any) -> None:
        self.about = x

    def __getitem__(self, member: Any) -> Any:
        return member.__get__(self.about)

    def __setitem__(self, member: Any, value: Any) -> None:
        member.__set__(self.about, value)


class _Variable:
    """A `ContextVar`, read and set as the entry of a dict is."""

    def __init__(self, x: ContextVar[Any]) -> None:
        self.about = x

    def __getitem__(self, key: str) -> Any:
        return self.about.get(None)

    def __setitem__(self, key: str, value: Any) -> None:
        self.about.set(value)


def _held(member: Any, x: Any) -> Any:
    try:
        return member.__get__(x)
    except AttributeError:  # not assigned yet
        return UNSET


def _of_referents(x: Any) -> list[Watch]:
    """What an object of Python's own holds, such as a deque, a property or a method of a list."""

    def put(values: list[Any]) -> None:
        if hasattr(x, "extend"):
            x.clear()
            x.extend(values[: len(values)])

    def held() -> list[Any]:
        left = repr(x) if isinstance(x, count) else length_hint(x, 0) if hasattr(x, "__next__") else None
        return [*gc.get_referents(x), left]

    if not hasattr(x, "extend"):
        return [Watch(lambda i: f"what a {type(x).__name__} holds", held, put)]
    return [Watch(lambda i: f"what a {type(x).__name__} holds", lambda: [*x], put, partial(Place, x))]


def _of_buffer(x: Any) -> list[Watch]:
    """The bytes of an array of another library. They are read at each call: a tensor in its place is not."""
    try:
        view = memoryview(x)
    except (TypeError, ValueError, BufferError):
        return []
    view.release()

    def now() -> list[Any]:
        with memoryview(x) as view:
            digest = blake2b(view if view.c_contiguous else view.tobytes(), digest_size=16)
            return [digest.digest(), view.format, repr(view.shape)]

    return [Watch(lambda i: f"what is in a {type(x).__name__}", now, lambda values: None)]


def _called(x: Any) -> list[Any]:
    return [x()]


def _is_internal(name: str, x: Any) -> bool:
    """Whether Python keeps an attribute of a class for itself."""
    return name.startswith(("__", "_abc_")) and not callable(x) and not isinstance(x, (property, classmethod))


def _refill(x: set[Any], values: list[Any]) -> None:
    x.clear()
    x.update(values)


def _contents(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not assigned yet
        return ()


def _names(code: CodeType) -> Iterator[str]:
    """The names that code looks up as globals or attributes (``getattr(x, "name")``), and of the functions in it."""
    yield from code.co_names
    for x in code.co_consts:
        if isinstance(x, str) and x.isidentifier():
            yield x
        elif isinstance(x, CodeType):
            yield from _names(x)


__all__ = ["ANY", "Place", "Reach", "Watch", "same"]
