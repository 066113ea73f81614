"""How much memory there is, which what a file unpacks to is compared with before it is unpacked."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from micrograd_core.data.errors import DataError
from micrograd_core.engine.ingest import memory


def available() -> int:
    """Bytes that can be taken without swapping; where the system does not tell, all of the machine's."""
    with suppress(OSError, StopIteration), open("/proc/meminfo", encoding="ascii") as lines:
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    return memory()


def refuse_larger(path: Path, takes: int, free: int | None = None) -> None:
    """Raise DataError for a file whose contents take more memory than is `free`, by default what is available now."""
    free = available() if free is None else free
    if takes > free:
        raise DataError(
            f"{path.name!r} has {path.stat().st_size:,} bytes and unpacks to {takes:,} or more, and {free:,} bytes of "
            "memory are available; give a part of it, or take a machine with more memory"
        )
