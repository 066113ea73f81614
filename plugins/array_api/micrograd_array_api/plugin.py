"""The hooks, once per namespace. Neither importing this module nor listing devices imports an array library."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from micrograd_array_api.namespaces import NAMESPACES
from micrograd_core.errors import DeviceUnavailable
from micrograd_core.plugins import hookimpl


class Plugin:
    """The devices of one namespace, whose name in `NAMESPACES` is the device name."""

    def __init__(self, name: str) -> None:
        self.name, self.namespace = name, NAMESPACES[name]

    @hookimpl
    def micrograd_open(self, address: str) -> Any:
        """Without an address, the first of `micrograd_addresses`."""
        address = address or self.namespace.addresses[0]
        asked, missing = f"{self.name}:{address}", self.namespace.library
        try:
            library, xp = import_module(self.namespace.library), import_module(self.namespace.module)
        except ModuleNotFoundError as error:
            if error.name != missing:
                raise
            remedy = f"pip install 'micrograd-array-api[{self.name}]'"
            raise DeviceUnavailable(asked, f"{missing} is not installed", remedy) from error
        from micrograd_array_api.storage import NamespaceBackend

        try:
            canonical, place = self.namespace.locate(library, address)
        except Exception as error:  # each library has its own for a device that is not there
            raise DeviceUnavailable(asked, str(error).partition(". ")[0]) from error
        return NamespaceBackend(self.namespace, library, xp, f"{self.name}:{canonical}", place)

    @hookimpl
    def micrograd_addresses(self) -> list[str]:
        """Those worth trying; where the library is missing one, which says what to install."""
        return list(self.namespace.addresses[: None if find_spec(self.namespace.library) else 1])

    @hookimpl
    def micrograd_priority(self) -> int:
        """Never what ``Device("auto")`` picks: whoever wants another library's arrays says so."""
        return -1


strict, torch, jax, dask = map(Plugin, ("strict", "torch", "jax", "dask"))
