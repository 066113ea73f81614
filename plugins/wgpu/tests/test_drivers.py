"""What becomes of a device that its driver loses, and of memory that has run out."""

from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.errors import DeviceUnavailable, OutOfMemory
from micrograd_wgpu.plugin import adapters


def another(device: mg.Device) -> Any:
    """One more backend of the same device."""
    return type(device.kernels.backend)("wgpu:0", adapters()[0])


def test_a_lost_device_is_one_of_our_errors(device: mg.Device) -> None:
    backend = another(device)
    numbers = np.arange(3, dtype=np.float32)
    x = backend.from_host(numbers, (3,), backend.dtypes["float32"])
    backend._gpu.destroy()
    for act in (lambda: backend.to_host(x), lambda: backend.kernels["exp"](x), lambda: backend.empty((4,), x.dtype)):
        with pytest.raises(
            DeviceUnavailable, match="'wgpu:0' is unavailable: its driver has lost it.*from a checkpoint"
        ):
            act()
    assert mg.asarray(numbers, device=device).tolist() == [0.0, 1.0, 2.0]  # another one goes on


def test_memory_that_has_run_out_says_how_much_was_asked(device: mg.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    import wgpu

    def none_left(**given: object) -> None:
        raise wgpu.GPUOutOfMemoryError("not enough memory left")

    backend = another(device)
    monkeypatch.setattr(backend._gpu, "create_buffer", none_left)
    with pytest.raises(OutOfMemory, match="out of memory on wgpu:0: asked 4,000 bytes, in use 0 bytes"):
        backend.empty((1000,), backend.dtypes["float32"])
