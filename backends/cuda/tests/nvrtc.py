"""NVRTC, CUDA's run-time compiler, through ctypes: it compiles for any GPU, and needs none.

Its library comes with the distribution nvidia-cuda-nvrtc, with a CUDA toolkit, or with CuPy's extra ``ctk``.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

MISSING = (
    "there is no NVRTC to compile with: uv run --group cuda pytest backends/cuda/tests, or install nvidia-cuda-nvrtc"
)


def _candidates() -> list[str]:
    nvidia = find_spec("nvidia")
    folders = list(nvidia.submodule_search_locations or ()) if nvidia else []
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.1*"))]
    return [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The first that loads."""
    for path in _candidates():
        try:
            found = ctypes.CDLL(path)
        except OSError:
            continue
        found.nvrtcGetErrorString.restype = ctypes.c_char_p
        return found
    return None


def version() -> tuple[int, int]:
    """Of the library: ``(13, 2)``."""
    nvrtc, major, minor = library(), ctypes.c_int(), ctypes.c_int()
    assert nvrtc is not None, MISSING
    _run(nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


class Compiled(NamedTuple):
    """A kernel's machine code, and what it takes of a multiprocessor."""

    cubin: bytes
    ptx: str
    log: str
    registers: int
    spilled: int  # bytes stored because there were too few registers
    shared: int  # bytes of shared memory per block


def _run(status: int) -> None:
    nvrtc = library()
    assert nvrtc is not None
    if status:
        raise RuntimeError(nvrtc.nvrtcGetErrorString(status).decode())


def compile_text(text: str, architecture: str, options: Sequence[str] = ()) -> Compiled:
    """Compile for real machine code of one architecture, ``sm_90``; warnings are errors.

    Raises
    ------
    RuntimeError
        With the compiler's log.
    """
    nvrtc = library()
    assert nvrtc is not None, MISSING
    program = ctypes.c_void_p()
    _run(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None))
    flags = [f"-arch={architecture}", "--ptxas-options=-v", *options]
    try:
        status = nvrtc.nvrtcCompileProgram(
            program, len(flags), (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        )
        log = _text(program, "ProgramLog")
        if status or "warning" in log:
            raise RuntimeError(f"{nvrtc.nvrtcGetErrorString(status).decode() if status else 'warnings'}\n{log}")
        cubin, ptx = _bytes(program, "CUBIN"), _text(program, "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    facts = (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem")
    figures = [max(map(int, re.findall(fact, log)), default=0) for fact in facts]
    return Compiled(cubin, ptx, log, *figures)


def _bytes(program: ctypes.c_void_p, what: str) -> bytes:
    nvrtc, size = library(), ctypes.c_size_t()
    assert nvrtc is not None
    _run(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    made = ctypes.create_string_buffer(size.value)
    _run(getattr(nvrtc, f"nvrtcGet{what}")(program, made))
    return made.raw


def _text(program: ctypes.c_void_p, what: str) -> str:
    return _bytes(program, what).rstrip(b"\0").decode()
