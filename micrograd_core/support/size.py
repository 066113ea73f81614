"""The number of a tensor's elements, as the array API has it, which may also be called, as PyTorch has it."""

from __future__ import annotations

import math
from typing import Any, overload

from micrograd_core.errors import AxisError

Shape = tuple[int, ...]


class Size(int):
    """The number of elements: an integer. Called, it gives the shape, or the length of one axis.

    Copies and pickles of it, and what is computed with it, are plain integers.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.zeros((2, 3))
    >>> x.size, x.size(), x.size(-1)
    (6, (2, 3), 3)
    """

    _shape: Shape  # not `shape`, by which arrays are known

    def __new__(cls, shape: Shape) -> Size:
        """The product of a shape, which it remembers."""
        size = super().__new__(cls, math.prod(shape))
        size._shape = shape
        return size

    @overload
    def __call__(self, dim: None = None) -> Shape: ...

    @overload
    def __call__(self, dim: int) -> int: ...

    def __call__(self, dim: int | None = None) -> Shape | int:
        """``x.shape``, or ``x.shape[dim]``.

        Raises
        ------
        AxisError
            When there is no axis `dim`.
        """
        if dim is None:
            return self._shape
        try:
            return self._shape[dim]
        except (IndexError, TypeError):
            raise AxisError(f"size: there is no axis {dim!r}; this tensor's shape is {self._shape}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)
