"""Storage: which arrays hold tensors, how they are laid out and written to, and the backend itself.

A handle is an ``ndarray``, or (what NumPy makes of 0-d results) a NumPy scalar, which nothing else can look into.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from micrograd_core.adapters.array_api import ArrayAPIBackend
from micrograd_core.compiler.program import Program
from micrograd_core.dtypes import DTYPES as NAMES
from micrograd_core.interpreters.raw import renew
from micrograd_core.layout import Key, Layout
from micrograd_cpu import eager, memory
from micrograd_cpu.kernels import KERNELS
from micrograd_cpu.target import target
from micrograd_cpu.transfer import from_host, to_host

# NumPy knows bfloat16 by name since `micrograd_cpu.half` imported ml_dtypes.
DTYPES: Final = {name: np.dtype(name) for name in NAMES}


class CPUBackend(ArrayAPIBackend):
    """The host's memory and processor, through NumPy, which is the array API since its version 2.3."""

    capabilities = frozenset(
        "array-api boolean-indexing complex data-dependent-shapes dlpack eig fft linalg random strided".split()
    )

    def __init__(self) -> None:
        super().__init__(np, "cpu:0", dtypes=DTYPES, kernels=KERNELS)
        memory.keep()
        self.advice = ""
        if find_spec("llvmlite") is not None:
            target()  # refuses what it does not know
            self.capabilities |= {"jit"}
            eager.AWAITED.append(self._pairs_by_threads)
        else:
            self.advice = (
                "compiled programs run NumPy's kernels one by one; "
                "pip install 'micrograd-cpu[jit]' makes loops of them, which do more at once"
            )

    def _pairs_by_threads(self) -> None:
        """Kernels that share large arrays out, in the place of NumPy's: a backend made of this one keeps its own."""
        from micrograd_cpu.pairs import fronts

        better = {name: kernel for name, kernel in fronts().items() if self.kernels.get(name) is getattr(np, name)}
        self.kernels = {**self.kernels, **better}
        renew(self, better)

    from_host = staticmethod(from_host)
    to_host = staticmethod(to_host)
    memory, release_memory = staticmethod(memory.figures), staticmethod(memory.release)

    def layout(self, x: Any) -> Layout:
        """NumPy's strides in elements; the offset is from the start of the memory that `x` views."""
        owner = x
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start, first = (each.__array_interface__["data"][0] for each in (x, owner)) if owner is not x else (0, 0)
        return Layout(x.shape, tuple(stride // x.itemsize for stride in x.strides), (start - first) // x.itemsize)

    def shares_memory(self, x: Any, y: Any) -> bool:
        """Whether some element of one lies in the memory of the other."""
        return x is y or bool(np.may_share_memory(x, y) and np.shares_memory(x, y))

    def compile(self, program: Program) -> Callable[..., Any]:
        """Nests through LLVM where llvmlite is installed; else, and without types, the kernels in a row."""
        from micrograd_cpu import compiled  # which the first tensor need not wait for

        return compiled.function(program, self)

    def assign(self, x: Any, values: Any, key: Key) -> bool:
        """Assignment; NumPy scalars and broadcast views cannot be assigned to."""
        if not isinstance(x, np.ndarray) or not x.flags.writeable:
            return False
        x[key] = values
        return True
