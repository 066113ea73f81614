"""CuPy's functions, also of bfloat16: CuPy stores it, but computes nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Any, Final

MOVING: Final = frozenset(
    "arange asarray ascontiguousarray astype broadcast_to concat empty expand_dims flip from_dlpack full "
    "moveaxis permute_dims repeat reshape result_type roll squeeze stack take tile unstack zeros".split()
)
"""Functions that make or move elements, whatever these are: they take bfloat16 as it is."""


class Namespace:
    """The namespace `xp`, whose functions, but those that are `plain`, are called by `call`."""

    def __init__(self, xp: Any, call: Callable[..., Any], plain: Container[str] = MOVING) -> None:
        self._xp, self._call, self._plain = xp, call, plain

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if name not in self._plain and callable(found) and not isinstance(found, type):
            found = partial(self._call, found)
        setattr(self, name, found)  # which is found at once from here on
        return found


def widened(narrow: Any, wide: Any, function: Callable[..., Any], /, *operands: Any, **params: Any) -> Any:
    """`function`, with operands and results of dtype `narrow` computed as `wide`, and rounded once, at the end."""
    if all(getattr(x, "dtype", None) != narrow for x in operands):
        return function(*operands, **params)
    operands = tuple(x.astype(wide) if getattr(x, "dtype", None) == narrow else x for x in operands)
    params = {name: wide if isinstance(x, type(narrow)) and x == narrow else x for name, x in params.items()}
    result = function(*operands, **params)
    return result.astype(narrow) if getattr(result, "dtype", None) == wide else result
