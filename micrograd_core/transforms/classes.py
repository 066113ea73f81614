"""Whether a class, and what it inherits from, is as it was.

CPython gives each class a number, which changes whenever an attribute of it, or of a class that it inherits from, is
set, added or deleted. To compare that takes a twentieth of a microsecond; to compare all attributes of a layer's class
takes some microseconds, and is what is done where the number cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final

from micrograd_core.transforms.watches import UNSET, Place, Watch

UNKNOWN: Final = -1
"""In place of a number that cannot be read, or is given no more."""
POINTERS: Final = 48
"""In a class of CPython's, so many words are before its number (``tp_version_tag``)."""


class ClassWatch(Watch):
    """The attributes of a class, and of those `parts` of what it inherits from that are given for it."""

    __slots__ = ("_kind", "_seen", "_version")

    def __init__(self, kind: type, parts: Callable[[type], list[type]]) -> None:
        def now() -> list[Any]:
            return [x for each in parts(kind) for name, value in own(each) for x in (each, name, value)]

        def put(values: list[Any]) -> None:
            wanted = {(each, name): value for each, name, value in zip(*[iter(values)] * 3, strict=True)}
            for each in parts(kind):
                for name, value in own(each):
                    if wanted.get((each, name), UNSET) is UNSET:
                        delattr(each, name)
                    elif wanted[each, name] is value:
                        del wanted[each, name]
            for (each, name), value in wanted.items():
                setattr(each, name, value)

        def slot(i: int) -> Place | None:
            is_value = i % 3 == 2 and self.values[i - 1].isidentifier()
            return Place(self.values[i - 2], self.values[i - 1], True) if is_value else None

        def what(i: int) -> str:
            each, name = self.values[i - i % 3 : i - i % 3 + 2] if self.values else (kind, "")
            return f"the class attribute {each.__name__}.{name}"

        def text(name: Any, values: list[Any]) -> tuple[str, list[str]]:
            slow = f"{name(self.holds)}()"
            return (
                slow if self._version is None else f"({name(self._version)}[0] == {name(self._seen)}[0] or {slow})",
                [],
            )

        self._kind, self._version = kind, _version(kind)
        self._seen = [UNKNOWN]
        number = self._number()
        super().__init__(what, now, put, slot, text)
        self._seen[0] = number

    def holds(self) -> bool:
        """Whether nothing has changed: at once where the number is the one that it was."""
        if self._version is not None and self._version[0] == self._seen[0]:
            return True
        number = self._number()
        if not super().holds():
            return False
        self._seen[0] = number
        return True

    def _number(self) -> int:
        """The number of the class, which it is given when somebody looks for an attribute."""
        if self._version is None:
            return UNKNOWN
        with suppress(AttributeError):
            type.__getattribute__(self._kind, "version")
        return self._version[0] or UNKNOWN


def own(kind: type) -> list[tuple[str, Any]]:
    """Attributes of a class but those that Python keeps there for itself."""
    return [(name, x) for name, x in [*vars(kind).items()] if not _is_internal(name, x)]


def _is_internal(name: str, x: Any) -> bool:
    return name.startswith(("__", "_abc_")) and not callable(x) and not isinstance(x, (property, classmethod))


def _version(kind: type) -> memoryview | None:
    """The number of a class, as it is in memory."""
    return _in_memory(kind) if _are_known() else None


def _in_memory(kind: type) -> memoryview:
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

    first = numbers()
    kinds[0].x = 1  # type: ignore[attr-defined]
    changed = [versions[0][0] != first[0], versions[1][0] == first[1]]
    second = numbers()
    base.x = 2  # type: ignore[attr-defined]
    changed += [versions[0][0] != second[0], versions[1][0] != second[1]]
    third = numbers()
    different = {*first, second[0], *third}
    return all(changed) and second[1] == first[1] and len(different) == 5 and 0 not in different


__all__ = ["ClassWatch", "own"]
