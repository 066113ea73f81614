"""Numbers that two ways of computing the same thing agree on, whatever the processor, the BLAS and the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np


class Near:
    """An array that equals others to some roundings, those of its size: `==` says so."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, numbers: Any, roundings: float = 64) -> None:
        self.numbers, self.roundings = np.asarray(numbers), roundings

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Near) or self.numbers.shape != other.numbers.shape:
            return False
        if self.numbers.dtype.kind not in "fc":
            return bool((self.numbers == other.numbers).all())
        finite = np.abs(self.numbers[np.isfinite(self.numbers)])
        allowed = self.roundings * np.finfo(self.numbers.dtype).eps
        return np.allclose(
            self.numbers, other.numbers, rtol=allowed, atol=allowed * finite.max(initial=0), equal_nan=True
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.numbers, dtype)

    def __repr__(self) -> str:
        return repr(self.numbers.tolist())
