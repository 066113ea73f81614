"""What is more than a record: an answer in Python, running sums of all elements, PyTorch's arguments of a norm."""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS, both_spellings
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import bool_
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.ops.arguments import advising

F: Final = FUNCTIONS


@advising
def allclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` says. The answer is read: it is a Python bool."""
    return bool(F["isclose"](x, y, rtol, atol, equal_nan).all())


@advising
def masked_fill(x: Any, /, mask: Any, value: Any) -> Tensor:
    """`value` where the mask is true, else `x`."""
    x, mask = asarray(x), asarray(mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_fill: a mask holds bools; got {mask.dtype}. Write mask != 0")
    return F["masked_fill"](x, mask, value.astype(x.dtype) if isinstance(value, Tensor) else value)


@both_spellings
def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Sums of the first 1, 2, … elements along `axis`; of the flattened tensor without one."""
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_sum"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


@both_spellings
def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Products of the first 1, 2, … elements along `axis`; of the flattened tensor without one."""
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_prod"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


@both_spellings
def norm(x: Any, /, ord: Any = 2, axis: Any = None, keepdims: bool = False, *, p: Any = None) -> Tensor:
    """The length of vectors along `axis`, by default of all elements: PyTorch's ``x.norm(p, dim)``."""
    word = ord if p is None else p
    if word not in ("fro", None) and isinstance(word, str):
        raise ShapeError(f"norm: {word!r} is of matrices; use mg.linalg.matrix_norm(x, ord={word!r})")
    places = tuple(axis) if isinstance(axis, list) else axis
    return F["vector_norm"](x, axis=places, keepdims=keepdims, ord=2 if word in ("fro", None) else word)
