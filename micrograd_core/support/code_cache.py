"""Compiled code that is kept on disk for the next process: object code, and Python's own.

``MICROGRAD_CACHE`` is the folder, or ``off``; by default ``~/.cache/micrograd``. Only its owner may look into it, and
what is loaded must lie in files of the owner's and be whole: it is executed. Old files go when there are too many.

Every check is of what has been opened, never of a path, which can be another file a moment later. So a system must open
files relative to a folder's descriptor; where it does not, as on Windows, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from micrograd_core.support import __version__

LIMIT: Final = 256 << 20
"""Bytes on disk."""
_OURS: Final = re.compile(r"[0-9a-f]{64}(\.o|\.[0-9a-f]{16}\.part)")
"""How files are called here, whole and as they are written; others in the folder are somebody else's."""


def folder() -> Path | None:
    """Where object code is kept, if it is: an absolute path, since a relative one is another folder elsewhere."""
    asked = os.environ.get("MICROGRAD_CACHE", "")
    if asked.lower() in ("off", "0") or not {os.open, os.unlink, os.rename} <= os.supports_dir_fd:
        return None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(asked or os.path.join(base, "micrograd"))
    return path if path.is_absolute() else None


def read(key: str) -> bytes | None:
    """The code that was kept under a key, which is any text, unless it is not whole."""
    key = _digest(key)
    try:
        with _opened() as within, open(_open(f"{key}.o", os.O_RDONLY, within), "rb") as file:
            data = file.read()
            with contextlib.suppress(OSError):  # what is on a read-only disk is as good
                os.utime(file.fileno())  # the oldest go first
            file.close()  # here, as an interrupt on the way out of the block would leave it open
    except OSError:
        return None
    digest, code = data[:32], data[32:]
    return code if hashlib.sha256(key.encode() + code).digest() == digest else None


def write(key: str, code: bytes) -> None:
    """Keep code under a key. A disk that is full or read-only is no failure."""
    key = _digest(key)
    part = f"{key}.{os.urandom(8).hex()}.part"  # so that no process reads half a file
    with contextlib.suppress(OSError), _opened(make=True) as within:
        try:
            with open(_open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, within), "wb") as file:
                file.write(hashlib.sha256(key.encode() + code).digest() + code)
            os.rename(part, f"{key}.o", src_dir_fd=within, dst_dir_fd=within)
        except OSError:
            os.unlink(part, dir_fd=within)
            raise
        _shrink(within)


def _digest(key: str) -> str:
    """A key of this library and this Python: code of others may call what is no longer where it was."""
    return hashlib.sha256(repr((__version__, sys.version, key)).encode()).hexdigest()


@contextlib.contextmanager
def _opened(make: bool = False) -> Iterator[int]:
    """A descriptor of the folder. OSError if there is none."""
    if (base := folder()) is None:
        raise FileNotFoundError
    if make:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = _open(str(base), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(name: str, how: int, within: int | None = None) -> int:
    """A descriptor of a file or folder that only this process's user can have written. PermissionError for others."""
    descriptor = os.open(name, how | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=within)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(descriptor)
        raise PermissionError(name)
    return descriptor


def _shrink(within: int) -> None:
    """The files used longest ago go, until half the room is free."""
    with os.scandir(within) as entries:
        abouts = [(entry.stat(follow_symlinks=False), entry.name) for entry in entries if _OURS.fullmatch(entry.name)]
    total = sum(about.st_size for about, _ in abouts)
    if total <= LIMIT:
        return
    for about, name in sorted(abouts, key=lambda each: each[0].st_mtime):
        os.unlink(name, dir_fd=within)
        total -= about.st_size
        if total <= LIMIT // 2:
            return
