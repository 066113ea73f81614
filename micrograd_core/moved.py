"""Where modules stood before the rooms: pickles, plugins and programs that were made then still name them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any, Final

from micrograd_core.elsewhere import TABLES, unknown

MOVED: Final = {
    f"micrograd_core.{old}": f"micrograd_core.{new}"
    for old, new in {
        "cells": "scalar.parameters",
        "cli": "tools.cli",
        "clipping": "optim.clipping",
        "compound": "array.composed",
        "creation": "array.creation",
        "differentiate": "transforms.grad",
        "functions": "array.functions",
        "hooks": "engine.hooks",
        "kernels": "tables.raw",
        "nn.calls": "nn",
        "program": "compiler.program",
        "scalar_jit": "scalar.jit",
        "scaling": "optim.scaling",
        "schedules": "optim.schedules",
        "tensor": "array.tensor",
        "value": "scalar.value",
        "vectorized": "transforms.vmap",
    }.items()
}


class Finder:
    """Imports a module of `MOVED` from where it is now. Asked only where no file has the name.

    Python asks, too, before ``from micrograd_core.nn import name`` fails without saying what to use.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What the import system asks."""
        if name in MOVED:
            return ModuleSpec(name, Loader())  # type: ignore[arg-type]
        package, _, last = name.rpartition(".")
        if package in TABLES and package in sys.modules:
            try:
                getattr(sys.modules[package], last)
            except AttributeError as error:
                if str(error) != unknown(package, last):
                    raise ModuleNotFoundError(str(error), name=package) from None  # of `name` Python would say less
        return None


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
