"""The hooks. Importing this module does not import NumPy."""

from __future__ import annotations

from typing import Any

from micrograd_core.errors import DeviceUnavailable
from micrograd_core.plugins import hookimpl


@hookimpl
def micrograd_open(address: str) -> Any:
    """The host is one device, ``cpu:0``."""
    if address not in ("", "0"):
        raise DeviceUnavailable(f"cpu:{address}", "the host is one device", 'write Device("cpu")')
    from micrograd_cpu.storage import CPUBackend

    return CPUBackend()


@hookimpl
def micrograd_addresses() -> list[str]:
    """Always there."""
    return ["0"]
