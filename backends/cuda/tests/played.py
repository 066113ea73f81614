"""The cuda backend's kernels as a device of the host, ``played:0``: what the conformance suite runs where no GPU is."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as xp
import numpy as np

from host import Arrays, HostRuntime
from micrograd_core import plugins
from micrograd_core.adapters.array_api import ArrayAPIBackend
from micrograd_core.amp import matmul_precision
from micrograd_core.ops import TABLE
from micrograd_core.plugins import hookimpl
from micrograd_cpu.storage import DTYPES, CPUBackend
from micrograd_cpu.transfer import from_host
from micrograd_cuda.kernels import table


class PlayedBackend(ArrayAPIBackend):
    """NumPy arrays, aligned as a GPU's memory is; the kernels and launches of the cuda backend."""

    capabilities = frozenset({"complex", "random", "strided"})

    def __init__(self) -> None:
        self.runtime = HostRuntime()
        arrays = Arrays(xp)
        own = table(arrays, self.runtime, matmul_precision)
        self.own = frozenset(own)
        super().__init__(arrays, "played:0", dtypes=DTYPES, kernels=own)

    def kernel(self, op: str) -> Any:
        """NumPy makes scalars of single elements; CuPy does not."""
        found = super().kernel(op)

        def kernel(*operands: Any, **params: Any) -> Any:
            result = found(*operands, **params)  # type: ignore[misc]
            return np.asarray(result) if isinstance(result, np.generic) else result

        return None if found is None else kernel if op in TABLE else found

    layout = CPUBackend.layout
    shares_memory = CPUBackend.shares_memory

    def assign(self, x: Any, values: Any, key: Any) -> bool:
        """As on a GPU."""
        self.runtime.remembered.forget()
        return CPUBackend.assign(self, x, values, key)  # type: ignore[arg-type]

    def from_host(self, data: Any, shape: Any, dtype: Any) -> Any:
        """Into aligned memory."""
        out = self.runtime.empty(shape, dtype)
        out[...] = from_host(data, shape, dtype)
        return out

    def to_host(self, x: Any) -> bytes:
        """C-order bytes."""
        return x.tobytes()  # type: ignore[no-any-return]


class Plugin:
    """Its hooks."""

    @hookimpl
    def micrograd_open(self, address: str) -> PlayedBackend:
        return PlayedBackend()

    @hookimpl
    def micrograd_addresses(self) -> list[str]:
        return ["0"]


def register() -> None:
    """Make ``Device("played")`` known."""
    if "played" not in plugins.names():
        plugins.register("played", Plugin())
