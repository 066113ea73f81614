"""What `jit` makes of a function, as text on stderr, where ``MICROGRAD_JIT_DUMP=1`` asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def dump(told: Callable[[], str]) -> None:
    """Print a text, which is made only where it was asked for."""
    if os.environ.get("MICROGRAD_JIT_DUMP", "0") not in ("", "0"):
        print(told(), file=sys.stderr)
