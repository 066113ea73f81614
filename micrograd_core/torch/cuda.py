"""What programs ask of GPUs, answered by the devices that are installed."""

from __future__ import annotations

from typing import Any

from micrograd_core import random
from micrograd_core.device import Device
from micrograd_core.torch import amp as amp

is_available = Device.is_cuda_available


def device_count() -> int:
    """How many GPUs there are."""
    count = 0
    while Device.is_available(f"cuda:{count}"):
        count += 1
    return count


def current_device() -> int:
    """0."""
    return 0


def is_bf16_supported() -> bool:
    """Whether the first GPU has bfloat16."""
    return bool(is_available()) and "bfloat16" in Device("cuda").kernels.backend.dtypes


def synchronize(device: Any = None) -> None:
    """Wait for a GPU."""
    if is_available():
        Device("cuda" if device is None else device).synchronize()


def empty_cache() -> None:
    """Give cached memory of the first GPU back."""
    if is_available():
        Device("cuda").release_memory()


def manual_seed(seed: int) -> None:
    """Start the default generator, which serves all devices, anew."""
    random.manual_seed(seed)


manual_seed_all = manual_seed
