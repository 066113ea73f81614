"""Memory that was freed stays with the process, up to a limit, so that the next array needs no new pages.

To fetch pages from the system, which clears them, takes several times as long as to add two arrays. The pool is the C
library's own heap: it takes small and large arrays, in every thread, and whoever else allocates in this process. GNU's
library (Linux) is told here to keep more of it. Others have policies of their own, which nothing here changes.

``MICROGRAD_POOL`` is the limit in bytes, or ``off``. Who set the C library's own variables is not overruled.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Final

from micrograd_core.errors import DeviceUnavailable
from micrograd_cpu.target import PLAIN

MOST: Final = 1 << 30
"""Bytes kept by default, at most an eighth of the machine's memory: the pages of one training step of a large model."""
TRIM_THRESHOLD: Final = -1
MMAP_THRESHOLD: Final = -3
OWN: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")
LARGEST: Final = (1 << 31) - 1
"""What a parameter of `mallopt` can be."""


class _Heap(ctypes.Structure):
    """What `mallinfo2` tells."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


@cache
def _library() -> Any:
    """The C library of the process, if it is GNU's."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (an attribute is looked up)
        library.mallinfo2.restype = _Heap
    except (OSError, AttributeError, TypeError):  # another system, or one from before 2021
        return None
    return library


def limit() -> int:
    """Bytes of freed memory that may stay; 0 where it goes back at once."""
    asked = os.environ.get("MICROGRAD_POOL", "").strip().lower()
    if asked in ("off", "0"):
        return 0
    if asked:
        if not asked.isdecimal():
            raise DeviceUnavailable(
                "cpu:0", f"MICROGRAD_POOL is {asked!r}", f"set it to a number of bytes, such as {MOST}, or off"
            )
        return min(int(asked), LARGEST)
    if not hasattr(os, "sysconf"):
        return MOST
    return min(MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)


@cache
def keep() -> bool:
    """From now on freed memory stays with the process, if it can; whether it does."""
    library = _library()
    own = any(name in os.environ for name in OWN) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    bytes_kept = limit()
    if "pool" in PLAIN or library is None or own or not bytes_kept:
        return False
    # An array that is larger than all that may stay is mapped, and goes back, on its own.
    return bool(library.mallopt(MMAP_THRESHOLD, bytes_kept) and library.mallopt(TRIM_THRESHOLD, bytes_kept))


def figures() -> dict[str, int]:
    """Bytes that the heap has from the system, used and free ones, of all that allocate in this process."""
    library = _library()
    if library is None:
        return {}
    heap = library.mallinfo2()
    return {"reserved": heap.arena + heap.hblkhd}


def release() -> None:
    """All free pages go back to the system."""
    library = _library()
    if library is not None:
        library.malloc_trim(0)
