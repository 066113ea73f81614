"""Warnings of this library: they name the user's line, the innermost that is not of the library."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Final

BETWEEN: Final = frozenset({"micrograd_core", "contextlib", "functools"})
"""Packages whose frames are passed over: the library, and what stands between it and its caller."""


def warn_of_number(spelling: str) -> None:
    """Warn that ``float(x)`` of what records gradients is a number alone, which is `spelling` without a warning."""
    warn(
        "float(x), which functions such as math.exp(x) call too, is a number, and no gradient comes through: write "
        f"x.exp(), or {spelling} where the number is meant"
    )


def warn(message: str) -> None:
    """Give a `RuntimeWarning` that names the user's line."""
    frame: FrameType = sys._getframe(1)
    level = 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
