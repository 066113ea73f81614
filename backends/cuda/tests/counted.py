"""A `Runtime` on the host that counts: the PTX that NVRTC makes of the sources, run instruction by instruction.

It tells what a GPU would read, write and execute, and nothing of how long that takes.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat.numpy as xp
import numpy as np

import nvrtc
from emulated import translate
from host import BEYOND, FOLDER, Arrays, HostRuntime
from micrograd_cuda import kernels, units
from micrograd_cuda.runtime import OPTIONS
from micrograd_cuda.units import Unit, name_of_kernel

MAP_32BIT = 0x40  # PTX holds addresses of shared memory in 32 bits


class Counts(NamedTuple):
    """What some launches have done: instructions of PTX, bytes between memory and registers; and what they need."""

    launches: int
    instructions: int
    read: int
    written: int
    registers: int  # of the kernel that has most
    spilled: int


class CountedRuntime(HostRuntime):
    """As its base, but that each unit is compiled for `architecture`, and translated: tensor cores, too."""

    capability = 90
    flags = ("-DCOUNTED", "-O0")  # compiled more slowly than it runs: gcc is not to optimise

    def __init__(self, architecture: str = "sm_90") -> None:
        super().__init__()
        self.architecture = architecture
        self.shared = mmap.mmap(-1, 1 << 18, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT)
        self.done: list[Counts] = []

    def bind(self, unit: Unit) -> Callable[..., None]:
        if unit not in self._bound:
            types = [part.rsplit(" ", 1)[0] for part in unit.parameters]
            self._bound[unit] = self._translated(name_of_kernel(unit), units.text(unit), unit.block, types, unit.shared)
        return self._bound[unit]

    def bind_source(self, name: str, source: str, threads: int) -> Callable[..., None]:
        """A kernel that takes a table."""
        return self._translated(name, source, threads, ["const Table"])

    def _translated(self, name: str, text: str, block: int, types: list[str], dynamic: int = 0) -> Callable[..., None]:
        made = nvrtc.compile_text(text, self.architecture, OPTIONS)
        FOLDER.mkdir(exist_ok=True)
        library = ctypes.CDLL(str(translate.build(made.ptx, FOLDER, *self.flags)))
        run = getattr(library, f"kernel_{name}")
        run.restype = ctypes.c_char_p
        counted = (ctypes.c_uint64 * 3).in_dll(library, "counted")
        count, *wanted = (ctypes.c_uint * 32).in_dll(library, f"sizes_{name}")
        shared = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.shared)))

        def launch(grid: tuple[int, int], arguments: tuple[Any, ...]) -> None:
            assert len(arguments) == count, f"{name} takes {types}"
            values = [self._value(*each) for each in zip(arguments, wanted, types, strict=False)]
            pointers = (ctypes.c_void_p * count)(*(ctypes.addressof(value) for value in values))
            counted[:] = [0, 0, 0]
            failure = run((ctypes.c_uint * 6)(*grid, 1, block, 1, 1), ctypes.c_size_t(dynamic), shared, pointers)
            assert failure is None, failure
            for memory, end in self._recent:
                assert memory[end : end + len(BEYOND)].tobytes() == BEYOND, f"{name} wrote beyond the end of an array"
            self.done.append(Counts(1, *counted, made.registers, made.spilled))

        return launch


def counts(work: Callable[[dict[str, Any], CountedRuntime], Callable[[], Any]]) -> Counts:
    """Of a function that `work` makes of the kernel table: what comes before it is not counted."""
    runtime = CountedRuntime()
    function = work(kernels.table(Arrays(xp), runtime), runtime)
    del runtime.done[:]
    function()
    launches, instructions, read, written, registers, spilled = zip(*runtime.done, strict=True)
    return Counts(sum(launches), sum(instructions), sum(read), sum(written), max(registers), max(spilled))


def numbers(runtime: HostRuntime, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Normal ones, aligned as a GPU's memory is."""
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16  # type: ignore[assignment]
    out = runtime.empty(shape, dtype)
    out[...] = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    return out
