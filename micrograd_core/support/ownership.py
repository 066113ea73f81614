"""Whether somebody else has an object, for what may then be done in place. What a program means never depends on it.

A count says more than there are at worst, and that costs a copy: it is taken from `attrgetter`, which gives a reference
of its own. Since Python 3.14 a variable may be read without one, and such a read would be missing from the count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import itemgetter
from typing import Any

UNKNOWN = float("nan")
"""A count that is equal to none, and no larger or smaller."""


def has_gil() -> bool:
    """Whether one thread at a time runs, so that objects die at once when their last owner lets go."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def counter() -> Callable[[Any], float]:
    """`sys.getrefcount` where one more owner makes one more; else a function that answers `UNKNOWN`."""
    count: Callable[[Any], float] = getattr(sys, "getrefcount", lambda x: UNKNOWN)
    first, sample = itemgetter(0), [object()]
    alone = count(first(sample))
    sample.append(sample[0])
    return count if has_gil() and count(first(sample)) == alone + 1 else lambda x: UNKNOWN
