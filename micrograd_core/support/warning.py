"""Warnings of this library: they name the user's line, the innermost that is not of the library."""

from __future__ import annotations

import math
import sys
import warnings
from types import FrameType
from typing import Final

BETWEEN: Final = frozenset({"micrograd_core", "contextlib", "functools"})
"""Packages whose frames are passed over: the library, and what stands between it and its caller."""


MATH: Final = {name for name in dir(math) if not name.startswith(("_", "is"))} - {"ceil", "floor", "trunc"}
"""Functions of Python's `math` that have a gradient, which their result does not."""


def warn_of_math(x: object) -> None:
    """Warn when the number of `x`, which records, is read for a function of `math`; not by ``float(x)``."""
    frame = sys._getframe(2)
    if MATH.isdisjoint(frame.f_code.co_names):
        return
    from dis import get_instructions

    steps = list(get_instructions(frame.f_code))
    call = next(step.positions for step in steps if step.offset == frame.f_lasti)
    if call is None or call.lineno is None:
        return
    for step in steps:  # ``math.exp`` begins where its call does
        at, name = step.positions, step.argval
        begins = at is not None and (at.lineno, at.col_offset) == (call.lineno, call.col_offset)
        if begins and isinstance(name, str) and name in MATH:
            way = f"x.{name}()" if hasattr(x, name) else "operations of x"
            warn(f"math.{name} reads a number, and no gradient comes through: write {way}, or float(x) if it is meant")
            return


def warn(message: str) -> None:
    """Give a `RuntimeWarning` that names the user's line."""
    frame: FrameType = sys._getframe(1)
    level = 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
