"""Functions of Python's `math`, which read the number of a tensor or of a Value, and so lose its gradient."""

from __future__ import annotations

import math
import sys
from typing import Final

from micrograd_core.support.warning import warn

MATH: Final = {name for name in dir(math) if not name.startswith(("_", "is"))} - {"ceil", "floor", "trunc"}
"""Functions of Python's `math` that have a gradient, which their result does not."""


def warn_of_math(x: object) -> None:
    """Warn when the number of `x`, which records, is read for a function of `math`; not by ``float(x)``."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("micrograd_core."):
        frame = frame.f_back
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
