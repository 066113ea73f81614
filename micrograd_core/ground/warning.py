"""Warnings that point at the user's line: the innermost that is not of this library."""

from __future__ import annotations

import sys
import warnings
from typing import Final

BETWEEN: Final = frozenset({"micrograd_core", "contextlib", "functools"})
"""Packages whose frames are passed over: the library, and what stands between it and who called it."""


def warn(message: str) -> None:
    """Give a `RuntimeWarning`, as if the user's line had."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
