"""What programs ask of GPUs, answered by the devices that are installed."""

from __future__ import annotations

import itertools
from typing import Any

from micrograd_core import random
from micrograd_core.device import Device
from micrograd_core.torch import amp as amp

is_available = Device.is_cuda_available


def device_count() -> int:
    """Count the GPUs.

    Returns
    -------
    int

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.cuda.device_count() > 0 or not torch.cuda.is_available()
    True
    """
    return next(index for index in itertools.count() if not Device.is_available(f"cuda:{index}"))


def current_device() -> int:
    """The number of the GPU that is used where none is named: 0, the first, always.

    Returns
    -------
    int

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.cuda.current_device()
    0
    """
    return 0


def is_bf16_supported() -> bool:
    """Whether the first GPU has bfloat16.

    Returns
    -------
    bool
        False where there is no GPU.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    """
    return bool(is_available()) and "bfloat16" in Device("cuda").kernels.backend.dtypes


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all its work; without a GPU, do nothing.

    Parameters
    ----------
    device : Device or str, optional
        By default the first GPU.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.cuda.synchronize()
    """
    if is_available():
        Device("cuda" if device is None else device).synchronize()


def empty_cache() -> None:
    """Give cached memory of the first GPU back to the system; without a GPU, do nothing.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.cuda.empty_cache()
    """
    if is_available():
        Device("cuda").release_memory()


def manual_seed(seed: int) -> None:
    """Restart the default generator, which serves all devices.

    Parameters
    ----------
    seed : int
        From 0 to 2**128 - 1.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.cuda.manual_seed(0)
    """
    random.manual_seed(seed)


manual_seed_all = manual_seed
