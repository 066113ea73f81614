"""Random numbers of other libraries, which a traced function must not draw: a program would repeat them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

ACCESS: Final = (("getstate", "setstate"), ("get_state", "set_state"))
"""What reads where a stream stands, and what sets it: of Python's, and of NumPy's older ones."""


def stream(x: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    """How to read and set where an object of another library stands in its stream, if it is one that has one."""
    bits: Any = getattr(x, "bit_generator", None)
    if hasattr(bits, "state"):
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    for read, put in ACCESS:
        if hasattr(x, read) and hasattr(x, put):
            return getattr(x, read), getattr(x, put)
    return None


class Streams:
    """Where all of them stand: those found, and those of the whole process."""

    def __init__(self, found: Iterable[Any]) -> None:
        everywhere = (random, sys.modules.get("numpy.random"))
        known = (stream(x) for x in (*found, *everywhere) if x is not None)
        self._known = [(*each, each[0]()) for each in known if each is not None]

    def restore(self) -> bool:
        """Let them go on where they stood; whether any had moved."""
        moved = [(put, state) for read, put, state in self._known if repr(read()) != repr(state)]
        for put, state in moved:
            put(state)
        return bool(moved)


__all__ = ["Streams", "stream"]
