"""Linear algebra: the ``linalg`` extension of the array API standard, with gradients. See docs/linalg.md.

`cross`, `diagonal`, `matmul`, `outer`, `trace` and `vector_norm` work on every device; the others need a backend that
claims the capability ``linalg``.
"""

from __future__ import annotations

from typing import Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.ops import TABLE
from micrograd_core.suggestions import door

SHARED: Final = ("matmul", "matrix_transpose", "outer", "tensordot", "vecdot")
"""Functions of the main namespace that the extension has too."""

_functions = {name: FUNCTIONS[name] for name, op in TABLE.items() if op.extension == "linalg" or name in SHARED}
globals().update(_functions)


__all__ = list(_functions)

door(globals())
