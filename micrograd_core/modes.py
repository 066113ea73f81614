"""Setting a context variable for a while, so that no interrupt leaves it set.

Python may raise KeyboardInterrupt after any call, also between setting a variable and entering the ``try`` that sets it
back. So the ``try`` begins first, and nothing is called after it.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any, Self

from micrograd_core.errors import TransformError


class during:  # noqa: N801
    """Within ``with during(variable, value):`` a context variable has a value; then again the one it had before.

    One object may be entered several times, also inside itself.
    """

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value, self._before = variable, value, list[Any]()

    def __enter__(self) -> Self:
        before = self._variable.get()
        self._before.append(before)
        try:
            self._variable.set(self._value)
        except BaseException:
            self._variable.set(before)
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._variable.set(self._before.pop())


levels: ContextVar[tuple[Any, ...]] = ContextVar("micrograd_vmap_levels", default=())
"""The calls of `vmap` that this context is inside of, outermost first: `batching.Level`."""


def depth() -> int:
    """How many calls of `vmap` this context is inside of."""
    return len(levels.get())


def draws() -> int:
    """How many sets of random numbers one drawing takes: one, or inside `vmap` perhaps one for each example.

    Raises
    ------
    TransformError
        When a `vmap` around this does not say.
    """
    around = levels.get()
    if any(level.randomness == "error" for level in around):
        raise TransformError(
            "random numbers are drawn inside vmap, which does not say whether each example gets its own: write "
            'vmap(f, randomness="different"), or randomness="same" for the same numbers in all'
        )
    return math.prod(level.size for level in around if level.randomness == "different")
