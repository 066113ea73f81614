"""What every Python of the emulated environment loads first: CUDA's libraries are the host's from here on.

``count("launch")`` tells how often something happened; `device.cpp` has the names.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
DEVICE: Final = HERE / "lib" / "libemulated_cuda.so"
DRIVER: Final = "libcuda.so.1"

os.environ["CUPY_COMPILE_WITH_PTX"] = "1"  # PTX is what the driver is given
os.environ["CUPY_ACCELERATORS"] = ""  # CUB is compiled into CuPy, for GPUs
KERNELS: Final = Path(os.environ.setdefault("CUPY_CACHE_DIR", str(HERE / "kernels")))  # and translations are kept there
os.environ.setdefault("MICROGRAD_CACHE", str(KERNELS))  # PTX, where a GPU's own code would be

device = ctypes.CDLL(str(DEVICE))
ctypes.CDLL(str(DEVICE.with_name("libnccl.so.2")))  # CuPy looks for NVIDIA's package, and then for what is loaded


class CDLL(ctypes.CDLL):
    """To Python this is the driver; to NVRTC, which looks for one as well, there is none."""

    def __init__(self, name: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(str(DEVICE) if name == DRIVER else name, *args, **kwargs)


ctypes.CDLL = CDLL  # type: ignore[misc]


def _translate(text: bytes) -> int | None:
    """The path of a library made from PTX, as the address of a string that stays."""
    from . import translate

    try:
        path = translate.build(text.decode(), KERNELS, *["-DFIND_RACES"] * bool(os.environ.get("EMULATED_RACES")))
    except Exception as error:  # it cannot leave through C
        print(f"emulated: {error}", file=sys.stderr)
        return None
    _paths.append(ctypes.create_string_buffer(str(path).encode()))
    return ctypes.addressof(_paths[-1])


_paths: list[Any] = []
_called = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(_translate)  # C keeps no reference
device.emulated_translator(_called)
device.emulated_count.restype = ctypes.c_long
device.emulated_recorded.restype = ctypes.c_char_p

if os.environ.get("EMULATED_GUARD"):
    import cupy

    cupy.cuda.set_allocator(None)  # no pool: each array has a block of its own

if os.environ.get("EMULATED_POISON"):
    import cupy

    class Poison(cupy.cuda.MemoryHook):
        """The pool gives the memory of a stream to that stream only, and so its turn is among the stream's work."""

        name, streams = "poison", dict[int, int]()

        def malloc_postprocess(self, mem_ptr: int, **of: int) -> None:
            self.streams[mem_ptr] = cupy.cuda.get_current_stream().ptr

        def free_preprocess(self, mem_ptr: int, mem_size: int, device_id: int, **of: int) -> None:
            of_streams = self.streams.pop(mem_ptr, 0), device_id, cupy.cuda.get_current_stream().ptr
            device.emulated_poison(*map(ctypes.c_int64, (mem_ptr, mem_size, *of_streams)))

    Poison().__enter__()


def count(event: str) -> int:
    return int(device.emulated_count(event.encode()))


@contextmanager
def late() -> Iterator[None]:
    """Meanwhile work is done when somebody waits for it; in the end what is left is."""
    device.emulated_late(1)
    try:
        yield
    finally:
        device.emulated_late(0)


@contextmanager
def idle() -> Iterator[None]:
    """Meanwhile no work is done, and arrays hold nothing of worth: what a call costs then is the host's alone."""
    device.emulated_idle(1)
    try:
        yield
    finally:
        device.emulated_idle(0)


def recorded(work: Callable[[], Any]) -> list[str]:
    """What was asked of the device meanwhile: launches, copies, products, allocations, each with all its arguments."""
    device.emulated_record(1)
    try:
        work()
    finally:
        device.emulated_record(0)
    return str(device.emulated_recorded().decode()).splitlines()
