"""Compiled code that is kept on disk for the next process: object code, and Python's own.

``MICROGRAD_CACHE`` is the folder, or ``off``; by default ``~/.cache/micrograd``. Only its owner may look into it, and
what is loaded must lie in files of the owner's and be whole: it is executed. Old files go when there are too many.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

LIMIT: Final = 256 << 20
"""Bytes on disk."""


def folder() -> Path | None:
    """Where object code is kept, if it is."""
    asked = os.environ.get("MICROGRAD_CACHE", "")
    if asked.lower() in ("off", "0"):
        return None
    if asked:
        return Path(asked)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "micrograd"


def _safe(path: Path) -> bool:
    """Whether nobody else can have written a file or folder; taken as so where there are no owners, as on Windows."""
    if not hasattr(os, "getuid"):
        return True
    found = path.stat(follow_symlinks=False)
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(key: str) -> bytes | None:
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


def write(key: str, code: bytes) -> None:
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
