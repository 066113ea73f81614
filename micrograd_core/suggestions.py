"""Errors for names that PyTorch's, NumPy's and JAX's users type: they say what to use in their place.

The sentences are in `suggestions.txt`. A module asks `missing` for its error; tensors and dtypes read their section.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any, Final

FILE: Final = __file__.removesuffix(".py") + ".txt"


class CallableName(ModuleType):
    """A module that has the name of a function of PyTorch or NumPy."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise TypeError, which says what to use."""
        package, _, name = self.__name__.rpartition(".")
        raise TypeError(f"{self.__name__} is a module, not a function: {table(package)[name]}")


@cache
def tables() -> dict[str, dict[str, str]]:
    """The sentences by section of the file, and by name."""
    found: dict[str, dict[str, str]] = {}
    with open(FILE, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("["):
            section = found.setdefault(line[1:-1], {})
        elif line and not line.startswith("#"):
            name, _, said = line.partition(": ")
            section[name] = said
    found["micrograd_core"] = found["Tensor"] | found["micrograd_core"]
    return found


def table(section: str) -> dict[str, str]:
    """The sentences of a module, of ``Tensor`` or of ``dtype``, by name."""
    return tables()[section]


def unknown(module: str, name: str) -> str:
    """The sentence for a name that no table has."""
    return f"module {module!r} has no attribute {name!r}"


def missing(
    module: str, name: str, modules: Iterable[Any] = (), kinds: Iterable[tuple[str, type]] = ()
) -> AttributeError:
    """The error for a name that a module does not have.

    Parameters
    ----------
    module, name : str
    modules : modules
        Where the name is looked up next, if no table has it; the package comes last.
    kinds : pairs of str and class
        What to write for an object of the class, which may have a method of that name.
    """
    plain = unknown(module, name)
    if name.startswith("_"):
        return AttributeError(plain)
    said = table(module).get(name)
    if said is None:
        homes = (each.__name__ for each in (*modules, sys.modules["micrograd_core"]) if name in each.__all__)
        found = [f"use {home.replace('micrograd_core', 'mg', 1)}.{name}" for home in homes]
        found += [f"use {written}.{name}" for written, kind in kinds if hasattr(kind, name)]
        said = next(iter(found), None)
    return AttributeError(plain if said is None else f"{plain}: {said}")


def door(scope: dict[str, Any], *modules: Any) -> None:
    """Give a public module its `dir`, and errors for names that it does not have.

    Parameters
    ----------
    scope : dict
        The module's ``globals()``, with its ``__all__``.
    modules : modules
        As for `missing`.
    """

    def absent(name: str) -> Any:
        raise missing(scope["__name__"], name, modules)

    scope["__dir__"] = lambda: sorted(scope["__all__"])
    if scope["__name__"] in tables():
        scope["__getattr__"] = absent


class Absent:
    """A name that a class does not have, which says what to use. `__getattr__` would slow down every attribute."""

    def __init__(self, section: str, name: str) -> None:
        self.section, self.name = section, name

    def __get__(self, x: Any, kind: Any = None) -> Any:
        raise AttributeError(f"{self.section} has no {self.name}: {table(self.section)[self.name]}")


def refuse(kind: type, section: str) -> None:
    """Give a class the names of a section, as attributes that raise, and that `dir` does not list."""
    for name in table(section):
        assert not hasattr(kind, name), name
        setattr(kind, name, Absent(section, name))
    kind.__dir__ = lambda self: [name for name in object.__dir__(self) if name not in table(section)]  # type: ignore


class Finder:
    """Makes ``from micrograd_core.nn import name`` say what to use. Python asks it only where no file has the name."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise ModuleNotFoundError if the module before the last dot has a sentence for the name."""
        package, _, last = name.rpartition(".")
        if package.startswith("micrograd_core") and package in sys.modules and package in tables():
            try:
                getattr(sys.modules[package], last)
            except AttributeError as error:
                if str(error) != unknown(package, last):
                    raise ModuleNotFoundError(str(error), name=package) from None
