"""Memory that is kept for whoever asks for as much next: most devices give new memory slowly, and clear it first."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any, Final

from micrograd_core.errors import OutOfMemory
from micrograd_core.support.locks import lock

SPARE: Final = 1 << 26
"""Bytes: programs whose arrays are small use more sizes, one after the other, than memory at once."""


class Pool:
    """Buffers that nothing leads to any more, by how many elements of which dtype they hold.

    With what is in use it is at most `SPARE` more than ever was in use at once. What was not asked for longest is given
    back first.
    """

    def __init__(self, backend: Any) -> None:
        self._backend, self._lock = backend, lock()
        self._returned: deque[tuple[Any, int, Any]] = deque()  # by finalizers, which may run in the middle of anything
        self._kept: dict[Any, list[Any]] = {}
        self._in_use = self._peak = self._held = 0

    def take(self, count: int, dtype: Any, size: int) -> Any:
        """A buffer, which takes `size` bytes.

        Raises
        ------
        OutOfMemory
            When there is none though nothing is kept any more.
        """
        with self._lock:
            self._keep(self._peak + SPARE)
            found = self._kept.pop((count, dtype), [])
            if found:
                (_, buffer), self._held = found.pop(), self._held - size
                self._kept |= {(count, dtype): found} if found else {}
            else:
                buffer = self._new(count, dtype, size)
            self._in_use += size
            self._peak = max(self._peak, self._in_use)
            return buffer

    def _new(self, count: int, dtype: Any, size: int) -> Any:
        self._keep(max(self._peak, self._in_use + size) + SPARE - size)
        with suppress(MemoryError):
            return self._backend.alloc(count, dtype)
        self._keep(0)
        try:
            return self._backend.alloc(count, dtype)
        except MemoryError:
            raise OutOfMemory(self._backend.device, size, self._in_use) from None

    def give(self, count: int, dtype: Any, size: int, buffer: Any) -> None:
        """Nothing leads to a buffer any more."""
        self._returned.append(((count, dtype), size, buffer))

    def release(self) -> None:
        """Give back all that is kept."""
        with self._lock:
            self._keep(0)

    def memory(self) -> dict[str, int]:
        """Bytes of what is in use, of that and what is kept, and the most that were in use."""
        with self._lock:
            self._keep(self._peak + SPARE)
            return {"in_use": self._in_use, "reserved": self._in_use + self._held, "peak": self._peak}

    def _keep(self, total: int) -> None:
        """Take what was returned, and give back until so many bytes are there, or all is in use."""
        while self._returned:
            key, size, buffer = self._returned.popleft()
            self._kept.setdefault(key, []).append((size, buffer))
            self._in_use, self._held = self._in_use - size, self._held + size
        while self._kept and self._in_use + self._held > total:
            key, found = next(iter(self._kept.items()))
            if len(found) == 1:  # an interrupt never leaves an empty list
                del self._kept[key]
            size, buffer = found.pop()
            self._held -= size
            self._backend.free(buffer)
