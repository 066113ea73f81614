"""The hooks. Importing this module, and listing devices, imports neither NumPy nor CuPy."""

from __future__ import annotations

import warnings
from typing import Any

from micrograd_core.errors import DeviceUnavailable
from micrograd_core.plugins import hookimpl
from micrograd_cuda import probe


@hookimpl
def micrograd_open(address: str) -> Any:
    """One GPU, by its number among those that CUDA_VISIBLE_DEVICES shows."""
    index = address or "0"
    if not index.isdecimal() or index != str(int(index)):
        raise DeviceUnavailable(f"cuda:{address}", "a GPU is named by its number", 'write Device("cuda:0")')
    found = probe.facts()
    if refusal := probe.verdict(found, int(index)):
        raise DeviceUnavailable(f"cuda:{index}", *refusal)
    from micrograd_cuda.storage import CUDABackend

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy's, beside a newer NumPy, say nothing of the device
            return CUDABackend.open(int(index))
    except Exception as error:
        refusal = probe.compiler_verdict(str(error), found.driver)
        if refusal is None:
            raise
        raise DeviceUnavailable(f"cuda:{index}", *refusal) from error


@hookimpl
def micrograd_addresses() -> list[str]:
    """Those that the driver counts; where it counts none one, which says why."""
    return [str(index) for index in range(max(probe.driver().devices, 1))]


@hookimpl
def micrograd_priority() -> int:
    """Before any host."""
    return 10
