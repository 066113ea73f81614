"""From LLVM IR to functions in memory, and object code that is kept on disk for the next process.

``MICROGRAD_CACHE`` is the folder, or ``off``; by default ``~/.cache/micrograd``. Only its owner may look into it, and
what is loaded must lie in files of the owner's and be whole: object code is executed. Old files go when there are too
many bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

LIMIT: Final = 256 << 20
"""Bytes on disk."""
_LOCK: Final = threading.Lock()  # LLVM's objects here are shared


@cache
def _machine(opt: int = 3) -> Any:
    """The processor that runs this, with all it can."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = _processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=opt, reloc="pic", jit=True
    )


def _processor() -> tuple[str, str]:
    try:
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # where LLVM cannot ask, code for any of the kind
        return "", ""


def vector_bytes() -> int:
    """How long a vector of this processor is."""
    features = _processor()[1]
    return 64 if "+avx512f" in features else 32 if "+avx," in features else 16


@cache
def _linker() -> Any:
    _machine()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(jit=True))


class Library:
    """Functions in memory, for as long as it lives."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def address(self, name: str) -> int:
        """Where a function is."""
        found: int = self._tracker[name]
        return found


_COUNT: Final = iter(range(sys.maxsize))


def library(ir: str, names: list[str], quickly: bool = False) -> Library:
    """The functions of a module; compiled `quickly`, they take a hundredth of the time, and run half as fast."""
    with _LOCK:
        key = _key(ir, quickly)
        code = _read(key)
        if code is None:
            code = compiled(ir, quickly)
            _write(key, code)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        return Library(builder.link(_linker(), f"micrograd{next(_COUNT)}"))


def compiled(ir: str, quickly: bool = False) -> bytes:
    """Object code, optimised for this processor unless it is to be there `quickly`."""
    machine = _machine(0 if quickly else 3)
    module = llvm.parse_assembly(ir)
    module.verify()
    if quickly:
        plain: bytes = machine.emit_object(module)
        return plain
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    options.loop_unrolling = False  # twice the code, and the time to make it, for little
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


# ── on disk ──────────────────────────────────────────────────────────────────────────────────────────────────


def folder() -> Path | None:
    """Where object code is kept, if it is."""
    asked = os.environ.get("MICROGRAD_CACHE", "")
    if asked.lower() in ("off", "0"):
        return None
    if asked:
        return Path(asked)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "micrograd"


def _key(ir: str, quickly: bool = False) -> str:
    about = (llvmlite.__version__, llvm.llvm_version_info, *_processor(), sys.platform, quickly, ir)
    return hashlib.sha256(repr(about).encode()).hexdigest()


def _safe(path: Path) -> bool:
    """Whether nobody else can have written a file or folder; taken as so where there are no owners, as on Windows."""
    if not hasattr(os, "getuid"):
        return True
    found = path.stat(follow_symlinks=False)
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(key: str) -> bytes | None:
    """What is kept under a key: a digest, then the code that it is of."""
    base = folder()
    if base is None:
        return None
    path = base / f"{key}.o"
    try:
        if not (_safe(base) and _safe(path)):
            return None
        data = path.read_bytes()
        os.utime(path)  # the oldest go first
    except OSError:
        return None
    digest, code = data[:32], data[32:]
    return code if hashlib.sha256(key.encode() + code).digest() == digest else None


def _write(key: str, code: bytes) -> None:
    """Under another name first, so that no one reads half a file. A disk that is full or read-only is no failure."""
    base = folder()
    if base is None:
        return
    with contextlib.suppress(OSError):
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _safe(base):
            return
        handle, name = tempfile.mkstemp(dir=base, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(key.encode() + code).digest() + code)
            os.replace(name, base / f"{key}.o")
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        _shrink(base)


def _shrink(base: Path) -> None:
    """The files used longest ago go, until half the room is free."""
    files = [(each.stat().st_mtime, each.stat().st_size, each) for each in base.glob("*.o")]
    total = sum(size for _, size, _ in files)
    if total <= LIMIT:
        return
    for _, size, path in sorted(files):
        path.unlink(missing_ok=True)
        total -= size
        if total <= LIMIT // 2:
            return
