"""The hooks. Listing devices imports this module, so it imports the backend only when a device is opened."""

from __future__ import annotations

from typing import Any

from micrograd_core.errors import DeviceUnavailable
from micrograd_core.plugins import hookimpl

ADDRESSES = ("0", "1")


@hookimpl
def micrograd_open(address: str) -> Any:
    """``rawbuffer`` is ``rawbuffer:0``."""
    address = address or ADDRESSES[0]
    if address not in ADDRESSES:
        raise DeviceUnavailable(
            f"rawbuffer:{address}",
            f"its addresses are {' and '.join(ADDRESSES)}",
            f'write Device("rawbuffer:{ADDRESSES[0]}")',
        )
    from micrograd_rawbuffer.storage import RawBufferBackend

    return RawBufferBackend(f"rawbuffer:{address}")


@hookimpl
def micrograd_addresses() -> list[str]:
    """Each is a device of its own: tensors have to be moved between them."""
    return list(ADDRESSES)


@hookimpl
def micrograd_priority() -> int:
    """Never what ``Device("auto")`` picks: it is for reading and testing."""
    return -1
