"""Memory of other libraries, which tensors share through DLPack."""

from __future__ import annotations

from typing import Any

from micrograd_core.device import Device
from micrograd_core.engine.array import T, detach, storage, wrap
from micrograd_core.errors import DeviceUnavailable

DLPACK_DEVICES = {1: "cpu", 2: "cuda", 10: "rocm", 8: "metal", 14: "oneapi"}
"""Device names by the numbers of DLPack's ``DLDeviceType``."""


def from_dlpack(kind: type[T], x: Any, *, device: Any = None, copy: bool | None = None) -> T:
    """A tensor of class `kind` over the memory of another library's array: see `creation.from_dlpack`."""
    if x.__class__ is kind and "dlpack" not in x.device.capabilities:
        out: Any = detach(x)
    else:
        place, index = x.__dlpack_device__()
        name = DLPACK_DEVICES.get(int(place), f"dlpack type {int(place)}")
        home = Device("cpu" if name == "cpu" else f"{name}:{index}")
        if "dlpack" not in home.capabilities:
            raise DeviceUnavailable(str(home), "its backend does not take memory through DLPack", "use asarray(...)")
        handle = home.kernels.from_dlpack(x)
        out = wrap(kind, handle, home.kernels, home.kernels.dtype(handle), None)
        storage(out).exported = True
    moved = out if device is None else out.to(device)
    if copy is False and moved is not out:
        raise ValueError(f"from_dlpack: memory of {out.device} cannot be seen from {moved.device} without a copy")
    return moved.copy() if copy and moved is out else moved
