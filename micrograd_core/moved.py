"""Where modules stood before the rooms: pickles, plugins and programs that were made then still name them."""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any, Final

MOVED: Final = {
    "micrograd_core.cells": "micrograd_core.scalar.parameters",
    "micrograd_core.cli": "micrograd_core.tools.cli",
    "micrograd_core.functions": "micrograd_core.array.functions",
    "micrograd_core.kernels": "micrograd_core.tables.raw",
    "micrograd_core.nn.calls": "micrograd_core.nn",
    "micrograd_core.program": "micrograd_core.compiler.program",
    "micrograd_core.schedules": "micrograd_core.optim.schedules",
    "micrograd_core.tensor": "micrograd_core.array.tensor",
    "micrograd_core.value": "micrograd_core.scalar.value",
}


class Finder:
    """Imports a module of `MOVED` from where it is now. Asked only where no file has the name."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What the import system asks."""
        return ModuleSpec(name, Loader()) if name in MOVED else None  # type: ignore[arg-type]


class Loader:
    """One import of a module that moved."""

    def create_module(self, spec: ModuleSpec) -> Any:
        """The module at its new place."""
        found = import_module(MOVED[spec.name])
        self.spec = found.__spec__
        return found

    def exec_module(self, module: Any) -> None:
        """It has run already, and keeps its name."""
        module.__spec__ = self.spec
