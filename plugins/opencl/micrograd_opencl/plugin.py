"""The hooks. Listing devices imports this module, so it imports pyopencl only when a device is opened or counted."""

from __future__ import annotations

from typing import Any

from micrograd_core.errors import DeviceUnavailable
from micrograd_core.plugins import hookimpl

DRIVER = "install your vendor's OpenCL driver, or for the processor: pip install 'micrograd-opencl[pocl]'"


def devices() -> list[Any]:
    """All devices of all drivers; none where there is no driver."""
    import pyopencl as cl

    try:
        platforms = cl.get_platforms()
    except cl.LogicError:  # the loader found no driver
        return []
    found = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.RuntimeError:  # a driver without a device
            continue
    return found


@hookimpl
def micrograd_open(address: str) -> Any:
    """``opencl`` is ``opencl:0``, the first device of the first driver."""
    name = f"opencl:{address or 0}"
    if address and not (address.isdecimal() and address == str(int(address))):
        raise DeviceUnavailable(name, "an OpenCL device is named by its number", 'write Device("opencl:0")')
    found, index = devices(), int(address or 0)
    if not found:
        raise DeviceUnavailable(name, "no OpenCL driver is installed, or it finds no device", DRIVER)
    if index >= len(found):
        names = ", ".join(f"opencl:{i} ({each.name.strip()})" for i, each in enumerate(found))
        raise DeviceUnavailable(name, f"this machine has {names}", "use one of these")
    from micrograd_opencl.storage import OpenCLBackend

    return OpenCLBackend(name, found[index])


@hookimpl
def micrograd_addresses() -> list[str]:
    """Those that the drivers count; where they count none one, which says why."""
    try:
        return [str(index) for index in range(max(len(devices()), 1))]
    except ImportError:
        return ["0"]


@hookimpl
def micrograd_priority() -> int:
    """Before the cpu, after a vendor's own backend."""
    return 5
