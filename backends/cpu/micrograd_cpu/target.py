"""The processor that code is compiled for: this one, or what ``MICROGRAD_CPU_TARGET`` names.

Importing this module imports neither NumPy nor llvmlite.

Some ways are bound to a platform, and have a plain way beside them. `PLAIN` names those that give way: of ``calls``
it is ctypes (`entries`), of ``linker`` LLVM, of ``pairs`` NumPy, of ``pool`` what the C library does with freed memory
(`memory`), and of ``threads`` a queue of Python's.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from functools import cache
from itertools import takewhile
from typing import Final

from micrograd_core.errors import DeviceUnavailable

KNOWN: Final = (
    sys.platform == "linux"
    and platform.machine() == "x86_64"
    and sys.implementation.name == "cpython"
    and getattr(sys, "_is_gil_enabled", lambda: True)()
)
"""Whether this platform is the one that object files, the threads and the objects of Python and NumPy are known of."""
TRICKS: Final = ("calls", "linker", "pairs", "pool", "threads")
"""What ``MICROGRAD_CPU_PLAIN`` takes, with commas between them; 1 stands for all. docs/jit.md says what each earns."""


def _plain() -> frozenset[str]:
    asked = os.environ.get("MICROGRAD_CPU_PLAIN", "0")
    if not KNOWN or asked == "1":
        return frozenset(TRICKS)
    return frozenset(TRICKS) & frozenset(asked.split(","))


PLAIN: Final = _plain()
NATIVE: Final = "native"
LEVELS: Final[dict[str, tuple[frozenset[str], int]]] = {
    "x86-64-v2": (frozenset({"ssse3", "popcnt"}), 16),
    "x86-64-v3": (frozenset({"avx2", "bmi2", "fma"}), 32),
    "x86-64-v4": (frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}), 64),
}
"""Levels of x86-64 that LLVM knows by these names: what sets each apart from the one before, and bytes of a vector."""
_TOLD: Final = ("vendor_id", "cpu family", "model", "stepping", "flags")
"""What Linux says of a processor that code depends on."""


@cache
def processor() -> str:
    """What sets this processor apart, in words such as ``avx2``. LLVM is asked only where the system does not tell."""
    if KNOWN:
        with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            told = [line for line in takewhile(str.strip, lines) if line.startswith(_TOLD)]
            if any(line.startswith("flags") for line in told):
                return "".join(told)
    from micrograd_cpu.assembler import host

    return " ".join(host()).replace(",+", " ")


@cache
def target() -> str:
    """``native``, or one of `LEVELS`.

    Raises
    ------
    DeviceUnavailable
        The environment names another, or one whose code this processor cannot run.
    """
    asked = os.environ.get("MICROGRAD_CPU_TARGET", "").strip().lower() or NATIVE
    if asked == NATIVE or (asked in LEVELS and not _lacks(asked)):
        return asked
    runs = [NATIVE, *(name for name in LEVELS if not _lacks(name))]
    why = f"this processor has no {', '.join(_lacks(asked))}" if asked in LEVELS else "no such target is known"
    raise DeviceUnavailable(
        "cpu:0", f"MICROGRAD_CPU_TARGET is {asked!r}, but {why}", f"set it to {' or '.join(runs)}, or unset it"
    )


def _lacks(name: str) -> list[str]:
    """What code for a level needs that the processor does not have."""
    levels = list(LEVELS)
    needed = frozenset[str]().union(*(LEVELS[each][0] for each in levels[: levels.index(name) + 1]))
    return sorted(needed - _words())


def _words() -> set[str]:
    return {each.lstrip("+") for each in processor().split()}


@cache
def converts_float16() -> bool:
    """Whether the target turns float16 into float32 and back; x86-64 does since F16C, which is part of its level 3."""
    if target() in LEVELS:
        return target() > "x86-64-v2"
    return platform.machine().lower() not in ("x86_64", "amd64", "i686", "x86") or "f16c" in _words()


def vector_bytes() -> int:
    """How long a vector of the target is."""
    if target() in LEVELS:
        return LEVELS[target()][1]
    words = _words()
    return 64 if "avx512f" in words else 32 if "avx" in words else 16
