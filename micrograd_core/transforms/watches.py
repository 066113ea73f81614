"""Containers that a traced function reaches: what was in them, whether it still is, and how to bind it anew."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from hashlib import blake2b
from itertools import count
from operator import is_, length_hint
from types import CellType, FunctionType
from typing import Any, Final, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.dtypes import DType

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, DType, Device)
"""What is compared by value, and leads nowhere."""
UNSET: Final = object()
ANY: Final = object()
"""Among the entries that a container had: a tensor, which may be another one at each call."""


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
        return id(self.space.about if isinstance(self.space, (Variable, _Slots)) else self.space), self.key

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


def of_dict(x: dict[Any, Any], what: str) -> Watch:
    """The entries of a dict, and their order; `what` says what the dict is."""
    keys = [*x]

    def put(values: list[Any]) -> None:
        x.clear()
        x.update(zip(values[: len(values) // 2], values[len(values) // 2 :], strict=True))

    def slot(i: int) -> Place | None:
        return Place(x, keys[i - len(keys)]) if i >= len(keys) else None

    def added() -> list[Place]:
        return [Place(x, key) for key in [*x][len(keys) :]] if [*x][: len(keys)] == keys else []

    def text(name: Callable[[Any], str], values: list[Any]) -> tuple[str, list[str]]:
        return f"[*{name(x)}] == {name(keys)}", [f"{name(x)}[{each!r}]" for each in keys]

    plain = type(x) is dict and all(type(each) is str for each in x)
    about = lambda i: f"{what} {keys[i % len(keys)] if keys else None!r}"  # noqa: E731
    return Watch(about, lambda: [*x, *x.values()], put, slot, text if plain else None, added if plain else list)


def of_list(x: list[Any]) -> Watch:
    """The entries of a list."""

    def text(name: Callable[[Any], str], values: list[Any]) -> tuple[str, list[str]]:
        return f"len({name(x)}) == {len(values)}", [f"{name(x)}[{i}]" for i in range(len(values))]

    put, slot = partial(x.__setitem__, slice(None)), partial(Place, x)
    return Watch(lambda i: f"entry {i} of a list", lambda: [*x], put, slot, text if type(x) is list else None)


def of_cell(cell: CellType, name: str) -> Watch:
    """A variable that a function of some `name` closes over."""

    def put(values: list[Any]) -> None:
        for value in values:
            cell.cell_contents = value

    return Watch(
        lambda i: f"a variable that {name} closes over",
        partial(contents, cell),
        put,
        lambda i: Place(cell, "cell_contents", True),
        text=(lambda name, values: ("", [f"{name(cell)}.cell_contents"])) if contents(cell) else None,
    )


def of_names(x: dict[Any, Any], names: tuple[str, ...], what: str) -> Watch:
    """Some entries of a dict."""
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


def of_function(f: FunctionType) -> Watch:
    """The code and the defaults of a function."""

    def put(values: list[Any]) -> None:
        f.__code__, f.__defaults__, f.__kwdefaults__ = values

    return Watch(
        lambda i: f"the code or the defaults of {f.__name__}",
        lambda: [f.__code__, f.__defaults__, f.__kwdefaults__],
        put,
        text=lambda name, values: ("", [f"{name(f)}.__{each}__" for each in ("code", "defaults", "kwdefaults")]),
    )


def of_length(x: dict[Any, Any], what: str) -> Watch:
    """That nothing is added, where not all entries are looked at."""
    keys = [*x]

    def put(values: list[Any]) -> None:
        for key in x.keys() - set(keys):
            del x[key]

    return Watch(
        lambda i: what, lambda: [len(x)], put, text=lambda name, values: (f"len({name(x)}) == {len(keys)}", [])
    )


def of_absent(x: dict[Any, Any], names: tuple[str, ...], what: str) -> Watch:
    """That names which are found elsewhere are still not found in `x`."""

    def put(values: list[Any]) -> None:
        for name in names:
            x.pop(name, None)

    return Watch(
        lambda i: f"{what} {names[i]!r}",
        lambda: [name in x for name in names],
        put,
        text=lambda name, values: (" and ".join(f"{each!r} not in {name(x)}" for each in names), []),
    )


def of_kind(x: Any) -> Watch:
    """The class of an object."""

    def put(values: list[Any]) -> None:
        (x.__class__,) = values

    return Watch(
        lambda i: f"the class of a {type(x).__name__}",
        lambda: [type(x)],
        put,
        text=lambda name, values: ("", [f"{name(x)}.__class__"]),
    )


def of_slots(x: Any, slots: list[tuple[str, Any]]) -> Watch:
    """The slots of an object."""

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


class Variable:
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


def of_referents(x: Any) -> list[Watch]:
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


def of_buffer(x: Any) -> list[Watch]:
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


def refill(x: set[Any], values: list[Any]) -> None:
    """Give a set other entries."""
    x.clear()
    x.update(values)


def contents(cell: Any) -> tuple[Any, ...]:
    """What a variable is bound to, unless it is not bound yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:  # not assigned yet
        return ()


__all__ = [
    "ANY", "PLAIN", "UNSET", "Place", "Variable", "Watch", "contents", "of_absent", "of_buffer", "of_cell", "of_dict",
    "of_function", "of_kind", "of_length", "of_list", "of_names", "of_referents", "of_slots", "refill", "same",
]  # fmt: skip
