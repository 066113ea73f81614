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
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from micrograd_core.ground.locks import lock
from micrograd_cpu import linker
from micrograd_cpu.target import processor, target

LIMIT: Final = 256 << 20
"""Bytes on disk."""
COMPILING: Final = lock(awaited=True)
"""Held for a module: LLVM's objects are shared, and a forked child could not go on with half of them."""
PLANNING: Final = lock()
"""Held while a program is planned for new layouts: what a thread of the parent had begun, a child begins anew."""


@cache
def _versions() -> tuple[Any, ...]:
    """Which LLVM makes code here: where its library is, and when it came there, which needs no import."""
    folder = os.path.join(os.path.dirname(find_spec("llvmlite").origin), "binding")  # type: ignore[union-attr, arg-type]
    facts = [(each.name, each.stat()) for each in os.scandir(folder) if "llvmlite" in each.name]
    return folder, sorted((name, about.st_size, about.st_mtime_ns) for name, about in facts)


class Library:
    """Functions in memory, for as long as it lives."""

    def __init__(self, image: Any) -> None:
        self._image = image

    def address(self, name: str) -> int:
        """Where a function is."""
        found: int = self._image[name]
        return found


def library(ir: str | Sequence[str], names: list[str], quickly: bool = False) -> Library:
    """The functions of modules, each of which may call those of the modules before it.

    Compiled `quickly`, they take a hundredth of the time, and run half as fast. A KeyboardInterrupt is raised between
    two modules; those that are compiled by then are on the disk.
    """
    codes = list[bytes]()
    for text in [ir] if isinstance(ir, str) else ir:
        with COMPILING:
            key = _key(text, quickly)
            code = _read(key)
            if code is None:
                code = compiled(text, quickly)
                _write(key, code)
        codes.append(code)
    with COMPILING:
        if linker.KNOWN:
            with contextlib.suppress(linker.Unlinked):
                image: linker.Image | None = None
                for code in codes:
                    image = linker.Image(code, image)
                return Library(image)
        from micrograd_cpu.assembler import linked

        return Library(linked(codes, names))


def compiled(ir: str, quickly: bool = False) -> bytes:
    """Object code for a module."""
    from micrograd_cpu.assembler import compiled

    return compiled(ir, quickly)


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
    about = (_versions(), processor(), target(), sys.platform, quickly, ir)
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
