"""NVIDIA's libraries that CuPy does not wrap, or not for this: through ctypes, with a handle of their own."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any, ClassVar, Final, Self

MOST_PLANS: Final = 8192
"""They are kept for good: what else is asked for has none."""


@cache
def one_and_zero(dtype: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p, Any]:
    """The factors of a product and of what was there before, in the type that it is added up in; and their memory."""
    numbers = ((ctypes.c_double if dtype in ("float64", "complex128") else ctypes.c_float) * 4)(1)
    at = ctypes.addressof(numbers)
    return ctypes.c_void_p(at), ctypes.c_void_p(at + ctypes.sizeof(numbers) // 2), numbers


class Library:
    """One library on one device. A function that answers with another status than 0 raises ``RuntimeError``."""

    _known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, library: Any, create: str) -> None:
        self._library, self._lock = library, threading.RLock()
        self._plans: dict[Any, Any] = {}
        self._handle = self._made(create)

    @classmethod
    def of(cls, *facts: Any) -> Self | None:
        """The only one with these arguments; ``None`` where the library is not to be had."""
        key = cls, *facts
        if key not in cls._known:
            try:
                cls._known[key] = cls(*facts)
            except (OSError, RuntimeError, AttributeError):
                cls._known[key] = None
        found: Self | None = cls._known[key]
        return found

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise RuntimeError(f"{name} says {status}")

    def _made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """What a function gives by its first argument."""
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        return made

    def plan(self, *key: Any, more: tuple[Any, ...] = ()) -> Any:
        """What `_planned` makes of the key, and of `more`; ``None`` where the library refuses that."""
        if key not in self._plans and len(self._plans) < MOST_PLANS:
            try:
                with self._lock:
                    self._plans[key] = self._planned(*key, *more)
            except RuntimeError:
                self._plans[key] = None
        return self._plans.get(key)

    def _planned(self, *facts: Any) -> Any:
        """How the library is to be called; ``None`` where it has no algorithm."""
        raise NotImplementedError
