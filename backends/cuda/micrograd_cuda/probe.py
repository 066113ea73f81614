"""What stands between this machine and a CUDA device, said in a sentence. Imports neither NumPy nor CuPy.

`Facts` are what was found, `verdict` is what they mean: the first is the only place that touches the machine, the
second is a pure function, in the order in which a user has to solve the problems.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from typing import Final, NamedTuple

OLDEST_CUPY: Final = (14, 0)
OLDEST_DRIVER: Final = 12000  # CUDA 12.0, as cuDriverGetVersion tells it: 1000 major + 10 minor
DRIVER: Final = {"win32": "nvcuda.dll"}.get(sys.platform, "libcuda.so.1")


class Facts(NamedTuple):
    """What was found on a machine."""

    driver: int | None = None  # the newest CUDA that the driver runs; None: there is no driver
    driver_error: str = ""  # the loader's, or the driver's own words
    devices: int = 0
    cupy: str | None = None  # its version; None: not installed
    built_for: int | None = None  # the major version of CUDA that this CuPy was built for
    conflicts: tuple[str, ...] = ()  # several distributions of CuPy, which overwrite each other's files


def spelled(version: int) -> str:
    """``12040`` as ``12.4``."""
    return f"{version // 1000}.{version % 1000 // 10}"


def extra(driver: int | None) -> str:
    """The extra of this distribution for what the driver runs."""
    return "cuda13" if driver is not None and driver >= 13000 else "cuda12"


def verdict(facts: Facts, index: int = 0) -> tuple[str, str] | None:
    """Why ``cuda:<index>`` cannot be used and what to do about it; ``None`` where nothing speaks against it."""
    install = f"pip install 'micrograd-cuda[{extra(facts.driver)}]'"
    if facts.driver is None:
        return (
            f"there is no NVIDIA driver ({facts.driver_error})",
            'install the driver of your GPU, or in a container pass it through (--gpus all); else use Device("cpu")',
        )
    if facts.driver < OLDEST_DRIVER:
        return (
            f"the driver runs CUDA up to {spelled(facts.driver)}, and {spelled(OLDEST_DRIVER)} is the oldest supported",
            "update the NVIDIA driver",
        )
    if facts.devices == 0:
        return (f"the driver finds no device{f' ({facts.driver_error})' if facts.driver_error else ''}",
                "look at `nvidia-smi`, and at CUDA_VISIBLE_DEVICES, which may hide it")  # fmt: skip
    if index >= facts.devices:
        there = "cuda:0" if facts.devices == 1 else f"cuda:0 to cuda:{facts.devices - 1}"
        return (f"this machine has {facts.devices} CUDA device{'s' * (facts.devices > 1)}", f"use {there}")
    if facts.cupy is None:
        return (f"CuPy is not installed, and the driver runs CUDA {spelled(facts.driver)}", install)
    if len(facts.conflicts) > 1:
        return (f"several distributions of CuPy are installed over each other: {', '.join(facts.conflicts)}",
                f"pip uninstall {' '.join(facts.conflicts)}; {install}")  # fmt: skip
    if version_of(facts.cupy) < OLDEST_CUPY:
        return (f"CuPy {facts.cupy} is too old: {'.'.join(map(str, OLDEST_CUPY))} is the oldest supported", install)
    if facts.built_for is not None and facts.built_for > facts.driver // 1000:
        return (f"CuPy {facts.cupy} was built for CUDA {facts.built_for}, the driver runs CUDA {spelled(facts.driver)}",
                f"update the driver, or pip uninstall {' '.join(facts.conflicts) or 'cupy'}; {install}")  # fmt: skip
    return None


def compiler_verdict(message: str, driver: int | None) -> tuple[str, str] | None:
    """Which of CUDA's libraries an error on opening misses, and what to do; ``None`` for another error."""
    text = message.lower().partition("listdir(")[0]  # beyond: what is there
    install = f"pip install 'micrograd-cuda[{extra(driver)}]', which brings it, or set CUDA_PATH to a CUDA toolkit"
    if "libcublas" in text:
        return ("matrices cannot be multiplied: cuBLAS is missing", install)
    if "nvrtc" in text and any(word in text for word in ("libnvrtc", "cannot open shared", "not found", "load")):
        return ("kernels cannot be compiled: NVRTC, CUDA's run-time compiler, is missing", install)
    if "cannot open source file" in text or "failed to find cuda headers" in text or "cuda_fp16.h" in text:
        return ("kernels cannot be compiled: the CUDA headers are missing", install)
    if "invalid value for --gpu-architecture" in text or "no kernel image" in text:
        return ("kernels cannot be compiled for this GPU: CuPy's CUDA is too old for it, or no longer knows it",
                f"install the CuPy that fits: pip install --upgrade 'micrograd-cuda[{extra(driver)}]'")  # fmt: skip
    return None


def version_of(text: str) -> tuple[int, ...]:
    """``"14.2.0rc1"`` as ``(14, 2)``."""
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in text.split(".")[:2])


# ── the machine ──────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=1)
def driver() -> Facts:
    """What the driver's own library says; nothing of CuPy."""
    try:
        cuda = ctypes.CDLL(DRIVER)
    except OSError as error:
        return Facts(driver_error=str(error))
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    return Facts(driver=version.value, driver_error=_name(cuda, status) if status else "", devices=count.value)


def _name(cuda: ctypes.CDLL, status: int) -> str:
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(status, ctypes.byref(name))
    return (name.value or b"error %d" % status).decode()


def facts() -> Facts:
    """All of them. Looks at what is installed without importing it."""
    found = driver()
    if find_spec("cupy") is None:
        return found
    installed = {}
    for name in ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"):
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    built_for = next((int(name[9:11]) for name in installed if name != "cupy"), None)
    version = next(iter(installed.values()), "0")
    return found._replace(cupy=version, built_for=built_for, conflicts=tuple(sorted(installed)))
