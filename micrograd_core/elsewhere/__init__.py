"""Names that are not here: what PyTorch's, NumPy's and JAX's users type, and what to use in their place.

One table for each place where names are looked up. A module asks `missing` for its error; tensors say what `TENSORS`
does. What a table does not name, but another room has, is found there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

TABLES: Final = {
    "micrograd_core": "package.PACKAGE",
    "micrograd_core.data": "rooms.DATA",
    "micrograd_core.fft": "rooms.FFT",
    "micrograd_core.linalg": "rooms.LINALG",
    "micrograd_core.nn": "rooms.NN",
    "micrograd_core.nn.functional": "functional.ABSENT",
    "micrograd_core.optim": "rooms.OPTIM",
    "micrograd_core.random": "rooms.RANDOM",
}
"""By module: where its table is. None is read before a name is missing."""


class Room(ModuleType):
    """A module of this library that is called as a function of PyTorch's or NumPy's is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Say what to use."""
        package, _, name = self.__name__.rpartition(".")
        raise TypeError(f"{self.__name__} is a module, not a function: {table(package)[name]}")


def table(module: str) -> dict[str, str]:
    """The names that a module does not have, and what to use in their place."""
    home, _, name = TABLES[module].partition(".")
    found: dict[str, str] = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def unknown(module: str, name: str) -> str:
    """What is said of a name of which nothing is known."""
    return f"module {module!r} has no attribute {name!r}"


def missing(
    module: str, name: str, rooms: Iterable[Any] = (), kinds: Iterable[tuple[str, type]] = ()
) -> AttributeError:
    """The error of a name that a module does not have.

    Parameters
    ----------
    module, name : str
    rooms : modules
        Where it may be instead, if no table knows it; the package itself comes last.
    kinds : pairs of what to write and a class
        Which may have a method of that name.
    """
    plain = unknown(module, name)
    if name.startswith("_"):
        return AttributeError(plain)
    said = table(module).get(name)
    if said is None:
        homes = (each.__name__ for each in (*rooms, sys.modules["micrograd_core"]) if name in each.__all__)
        found = [f"use {home.replace('micrograd_core', 'mg', 1)}.{name}" for home in homes]
        found += [f"use {written}.{name}" for written, kind in kinds if hasattr(kind, name)]
        said = next(iter(found), None)
    return AttributeError(plain if said is None else f"{plain}: {said}")
