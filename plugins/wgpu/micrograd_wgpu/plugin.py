"""The hooks. Listing devices imports this module, so it imports wgpu only when a device is opened or counted."""

from __future__ import annotations

from typing import Any

from micrograd_core.errors import DeviceUnavailable
from micrograd_core.plugins import hookimpl

DRIVER = "install your GPU's driver, or one for the processor (Debian: apt install mesa-vulkan-drivers libvulkan1)"


def adapters() -> list[Any]:
    """Those of Vulkan, Metal and Direct3D 12; OpenGL's are the same devices once more."""
    import wgpu

    return [each for each in wgpu.gpu.enumerate_adapters_sync() if each.info["backend_type"] != "OpenGL"]


@hookimpl
def micrograd_open(address: str) -> Any:
    """``wgpu`` is ``wgpu:0``, the first adapter."""
    name = f"wgpu:{address or 0}"
    if address and not (address.isdecimal() and address == str(int(address))):
        raise DeviceUnavailable(name, "a WebGPU device is named by its number", 'write Device("wgpu:0")')
    found, index = adapters(), int(address or 0)
    if not found:
        raise DeviceUnavailable(name, "there is no driver for Vulkan, Metal or Direct3D 12", DRIVER)
    if index >= len(found):
        names = ", ".join(f"wgpu:{i} ({each.info['device']})" for i, each in enumerate(found))
        raise DeviceUnavailable(name, f"this machine has {names}", "use one of these")
    from micrograd_wgpu.storage import WebGPUBackend

    return WebGPUBackend(name, found[index])


@hookimpl
def micrograd_addresses() -> list[str]:
    """Those that the drivers count; where they count none one, which says why."""
    try:
        return [str(index) for index in range(max(len(adapters()), 1))]
    except (ImportError, OSError, RuntimeError):
        return ["0"]


@hookimpl
def micrograd_priority() -> int:
    """Before the cpu, after a vendor's own backend."""
    return 4
