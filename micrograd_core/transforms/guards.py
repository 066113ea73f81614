"""Guards of a traced function: what it captured must hold what it held, and can be put back, or bound anew.

A `Guard` is about one container (a namespace, an object, a list …) or one fact. Its entries have `Place`s.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from hashlib import blake2b
from itertools import count
from operator import delitem, length_hint, setitem
from types import FunctionType
from typing import Any, Final, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.dtypes import DType
from micrograd_core.support.reconstruction import Made

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, DType, Device)
"""Types whose values are compared by equality, and lead to no tensors."""
UNSET: Final = object()
ANY: Final = object()
"""Among the entries that a container had: a tensor, which may be another one at each call."""
MANY: Final = 1000
"""Guards of more entries than this go through them in a loop; Python is printed for the others."""


class Place(NamedTuple):
    """Where an object is held: the entry `key` of a dict, a list or the like, or the attribute `key`."""

    space: Any
    key: Any
    is_attribute: bool = False

    @property
    def identity(self) -> tuple[int, Any]:
        """A key that is equal for all `Place`s of one entry."""
        return id(self.space.about if isinstance(self.space, Accessor) else self.space), self.key

    def held(self) -> Any:
        """What is there now."""
        try:
            return getattr(self.space, self.key) if self.is_attribute else self.space[self.key]
        except (AttributeError, LookupError, ValueError):
            return UNSET

    def put(self, value: Any) -> None:
        """Put something there; `UNSET` deletes the entry."""
        put, delete = (setattr, delattr) if self.is_attribute else (setitem, delitem)
        if value is UNSET:
            delete(self.space, self.key)
        else:
            put(self.space, self.key, value)

    def text(self, name: Callable[[Any], str]) -> str:
        """The place as Python, to be read and to be assigned to."""
        if self.is_attribute:
            return f"{name(self.space)}.{self.key}"
        return f"{name(self.space)}[{repr(self.key) if type(self.key) in (str, int) else name(self.key)}]"

    @property
    def is_plain(self) -> bool:
        """Whether an assignment runs no function written in Python."""
        kind = type(self.space)
        return not isinstance(getattr(kind, "__setattr__" if self.is_attribute else "__setitem__"), FunctionType)


class Accessor:
    """Entries that are neither attributes nor in a container, read and set like those of a dict."""

    def __init__(self, about: Any, read: Callable[[Any], Any], write: Any, delete: Any = None) -> None:
        self.about, self._read, self._write, self._delete = about, read, write, delete

    def __getitem__(self, key: Any) -> Any:
        return self._read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, value)

    def __delitem__(self, key: Any) -> None:
        self._delete(key)


class Guard:
    """What a container held, or what a fact was, when the function was traced.

    Parameters
    ----------
    about : str
        What the user reads of it; ``{}`` stands for the name of an entry.
    places : iterable of Place
        Where the entries are, as far as they can be bound anew.
    space : dict, list or the like
        Where no entries may be added or taken out; ``None``: nothing is said about that.
    read : function
        Gives the entries as they are now; left out, they are read from their places.
    counts : bool
        Of a dict, only the number of its entries must stay.
    """

    __slots__ = ("about", "counts", "known_keys", "places", "read", "space", "values")

    def __init__(
        self,
        about: str,
        places: Iterable[Place] = (),
        space: Any = None,
        read: Callable[[], Any] | None = None,
        counts: bool = False,
    ) -> None:
        self.about, self.places, self.space, self.counts = about, [*places], space, counts
        self.read = read or (lambda: [place.held() for place in self.places])
        self.known_keys, self.values = self.keys(), [*self.read()]

    def keys(self) -> list[Any]:
        """What must stay the same of the container besides its entries: its keys, or its length."""
        if self.space is None:
            return []
        return [*self.space] if isinstance(self.space, dict) and not self.counts else [len(self.space)]

    def holds(self) -> bool:
        """Whether nothing has changed; plain values may be other objects that are equal."""
        return _are_same(self.keys(), self.known_keys) and _are_same(self.read(), self.values)

    def changed(self) -> str:
        """What has changed, in words."""
        if not _are_same(self.keys(), self.known_keys):
            return f"{self.label()} has other entries now"
        return next((f"{label} has changed" for label, *_ in self.rebound()), "")

    def label(self, i: int = 0) -> str:
        """What an entry is, in words."""
        return self.about.replace("{}", repr(self.places[i].key) if self.places else "0")

    def conditions(self, text: Any) -> list[str]:
        """The guard as Python, for a `printed.Text`."""
        name = text.name
        plain = self.space is None or (
            type(self.space) is list or (type(self.space) is dict and all(type(each) is str for each in self.space))
        )
        if len(self.places) != len(self.values) or len(self.values) > MANY or not plain:
            return [f"{name(self.holds)}()"]
        found = []
        if self.space is not None and type(self.space) is dict and not self.counts:
            found.append(f"[*{name(self.space)}] == {name(self.known_keys)}")
        elif self.space is not None:
            found.append(f"len({name(self.space)}) == {self.known_keys[0]}")
        for place, value in zip(self.places, self.values, strict=True):
            if value is UNSET and type(place.space) is dict:
                found.append(f"{place.key!r} not in {name(place.space)}")
            elif value is UNSET:
                found.append(f"{name(place.held)}() is {name(UNSET)}")
            elif value is not ANY and type(value) is not Made:
                found.append(text.is_same(place.text(name), value))
        return found

    def restore(self) -> None:
        """Put everything back."""
        if not _are_same(self.keys(), self.known_keys) or (self.space is not None and not self.places):
            self._refill()
        for place, value in zip(self.places, self.values, strict=False):
            if place.held() is not value:
                place.put(value)

    def _refill(self) -> None:
        if isinstance(self.space, dict):
            kept = dict(self.space)
            self.space.clear()
            self.space.update({key: kept.get(key) for key in self.known_keys})
        else:
            self.space.clear()
            fill = self.space.update if isinstance(self.space, set) else self.space.extend
            fill(self.values)

    def rebound(self) -> list[tuple[str, Place | None, Any, Any]]:
        """Entries that are otherwise now, and added ones: label, place, what was there, and what is."""
        if self.holds():
            return []
        keys, count = self.keys(), len(self.known_keys)
        by_name = type(self.space) is dict and not self.counts
        if not _are_same(keys[:count] if by_name else keys, self.known_keys):
            return []
        added = [Place(self.space, key) for key in keys[count:]]
        places: list[Any] = [*self.places] or [None] * len(self.values)
        found = [
            (self.label(i), place, was, new)
            for i, (place, was, new) in enumerate(zip(places, self.values, self.read(), strict=False))
            if not same(new, was)
        ]
        return found + [(self.about.replace("{}", repr(place.key)), place, UNSET, place.held()) for place in added]

    def moved(self) -> set[Any]:
        """Places where another tensor is than was."""
        pairs = [(place, was, now) for _, place, was, now in self.rebound() if place is not None]
        return {place.identity for place, *both in pairs if all(isinstance(x, Tensor) for x in both)}


def same(x: Any, y: Any) -> bool:
    """Whether two entries are one object, or equal where they are plain; 0.0 is not -0.0, and a NaN is a NaN."""
    if x is y or y is ANY:
        return True
    return isinstance(x, PLAIN) and type(x) is type(y) and ((x == y and bool(x)) or repr(x) == repr(y))


def _are_same(xs: Any, ys: Any) -> bool:
    return len(xs) == len(ys) and all(map(same, xs, ys))


def of_dict(x: dict[Any, Any], about: str) -> Guard:
    """The entries of a dict, and their order."""
    return Guard(about, [Place(x, key) for key in x], x, lambda: [*x.values()])


def of_list(x: Any, about: str = "entry {} of a list") -> Guard:
    """The entries of a list or the like."""
    return Guard(about, [Place(x, i) for i in range(len(x))], x, lambda: [*x])


def of_names(x: dict[str, Any], names: Iterable[str], about: str, space: Any = None) -> Guard:
    """Some entries of a dict, which are there or not; and how many entries there are, of that `space`."""
    return Guard(about, [Place(x, each) for each in names], space, counts=True)


def of_attributes(x: Any, names: Iterable[str], about: str) -> Guard:
    """Some attributes of an object."""
    return Guard(about, [Place(x, each, True) for each in names])


def of_slots(x: Any, slots: dict[str, Any]) -> Guard:
    """The slots of an object, with the descriptor of each."""
    accessor = Accessor(
        x,
        lambda key: slots[key].__get__(x),
        lambda key, value: slots[key].__set__(x, value),
        lambda key: slots[key].__delete__(x),
    )
    return Guard(f"the attribute of a {type(x).__name__}, {{}}", [Place(accessor, key) for key in slots])


def of_variable(x: Any) -> Guard:
    """A context variable, or a weak reference."""
    if not isinstance(x, ContextVar):
        return Guard(f"a {type(x).__name__}", read=lambda: [x()])
    accessor = Accessor(x, lambda key: x.get(None), lambda key, value: x.set(value))
    return Guard("a ContextVar", [Place(accessor, "value")])


def of_referents(x: Any) -> Guard:
    """What an object of Python's own holds, such as a deque, a property or a method of a list."""
    about = f"what a {type(x).__name__} holds"
    if hasattr(x, "extend"):
        return of_list(x, about)

    def held() -> list[Any]:
        left = repr(x) if isinstance(x, count) else length_hint(x, 0) if hasattr(x, "__next__") else None
        return [*gc.get_referents(x), left]

    return Guard(about, read=held)


def of_buffer(x: Any) -> list[Guard]:
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

    return [Guard(f"what is in a {type(x).__name__}", read=now)]


# ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────
#
# CPython gives each class a number, which changes whenever an attribute of it, or of a class that it inherits from, is
# set, added or deleted. To compare that takes a twentieth of a microsecond; to compare all attributes of a layer's
# class takes some microseconds, and is what is done where the number cannot be read.

UNKNOWN: Final = -1
"""In place of a number that cannot be read, or is given no more."""
POINTERS: Final = 48
"""In a class of CPython's, so many words are before its number (``tp_version_tag``)."""


class ClassGuard(Guard):
    """The attributes of a class, and of those `parts` of what it inherits from that are given for it."""

    __slots__ = ("_kind", "_parts", "_seen", "_version")

    def __init__(self, kind: type, parts: Callable[[type], list[type]]) -> None:
        self._kind, self._parts, self._seen = kind, parts, [UNKNOWN]
        self._version = _in_memory(kind) if _are_known() else None
        number = self._number()
        super().__init__(
            "", [Place(space, name) for space in map(_attributes, parts(kind)) for name, _ in own(space.about)]
        )
        self._seen[0] = number

    def keys(self) -> list[Any]:
        """Each class with the names of its attributes."""
        return [x for each in self._parts(self._kind) for x in (each, *(name for name, _ in own(each)))]

    def label(self, i: int = 0) -> str:
        """What an attribute is, in words."""
        place = self.places[i]
        return f"the class attribute {place.space.about.__name__}.{place.key}"

    def holds(self) -> bool:
        """Whether nothing has changed: at once where the number is the one that it was."""
        if self._version is not None and self._version[0] == self._seen[0]:
            return True
        number = self._number()
        if not super().holds():
            return False
        self._seen[0] = number
        return True

    def conditions(self, text: Any) -> list[str]:
        """The guard as Python, for a `printed.Text`."""
        name, slow = text.name, f"{text.name(self.holds)}()"
        return [slow if self._version is None else f"({name(self._version)}[0] == {name(self._seen)}[0] or {slow})"]

    def _refill(self) -> None:
        known = {place.identity for place in self.places}
        for each in self._parts(self._kind):
            for name, _ in own(each):
                if (id(each), name) not in known:
                    delattr(each, name)

    def _number(self) -> int:
        """The number of the class, which it is given when somebody looks for an attribute."""
        if self._version is None:
            return UNKNOWN
        with suppress(AttributeError):
            type.__getattribute__(self._kind, "version")
        return self._version[0] or UNKNOWN


def _attributes(kind: type) -> Accessor:
    return Accessor(kind, lambda name: vars(kind)[name], partial(setattr, kind), partial(delattr, kind))


def own(kind: type) -> list[tuple[str, Any]]:
    """Attributes of a class but those that Python keeps there for itself."""
    return [
        (name, x)
        for name, x in [*vars(kind).items()]
        if callable(x) or isinstance(x, (property, classmethod)) or not name.startswith(("__", "_abc_"))
    ]


def _in_memory(kind: type) -> memoryview:
    """The number of a class."""
    import ctypes

    number = ctypes.c_uint.from_address(id(kind) + POINTERS * ctypes.sizeof(ctypes.c_void_p))
    return memoryview(number).cast("B").cast("I")


@cache
def _are_known() -> bool:
    """Whether the number is where it is looked for, and does what is said of it."""
    if sys.implementation.name != "cpython":
        return False
    base = type("Base", (), {"x": 0})
    kinds = type("First", (base,), {}), type("Second", (base,), {})
    versions = list(map(_in_memory, kinds))

    def numbers() -> list[int]:
        for kind in kinds:
            getattr(kind, "x", None)  # where somebody looks, it is given
        return [version[0] for version in versions]

    first, changed = numbers(), []
    for kind in (kinds[0], base):
        before = numbers()
        setattr(kind, "x", 1)  # noqa: B010
        changed += [version[0] != number for version, number in zip(versions, before, strict=True)]
    different = {*first, before[0], *numbers()}
    return changed == [True, False, True, True] and before[1] == first[1] and len(different - {0}) == 5
