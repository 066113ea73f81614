"""What is more than a record: an answer in Python, running sums of all elements, PyTorch's arguments of a norm."""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import bool_
from micrograd_core.errors import DTypeError, ShapeError

F: Final = FUNCTIONS


def allclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` says.

    Parameters
    ----------
    x, y : Tensor or number
        Of numeric dtype; their shapes broadcast.
    rtol, atol : float
        The tolerances relative to `y`, and absolute.
    equal_nan : bool
        Whether a NaN is close to another.

    Returns
    -------
    bool
        A Python bool: the answer is read from the device.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.allclose(mg.asarray([1.0, 2.0]), mg.asarray([1.0, 2.0 + 1e-9]))
    True
    """
    return bool(F["isclose"](x, y, rtol, atol, equal_nan).all())


def masked_fill(x: Any, /, mask: Any, value: Any) -> Tensor:
    """`value` where the mask is true, else `x`.

    Parameters
    ----------
    x : Tensor or number
        Of any dtype.
    mask : Tensor
        Of bool dtype; its shape broadcasts with that of `x`.
    value : Tensor or number
        The element where the mask is true; converted to the dtype of `x`.

    Returns
    -------
    Tensor
        Of the dtype of `x`, and the shape that `x` and the mask broadcast to.

    Raises
    ------
    DTypeError
        When the mask does not hold bools.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.masked_fill(mg.asarray([1.0, 2.0]), mg.asarray([True, False]), 0.0)
    Tensor([0., 2.])
    """
    x, mask = asarray(x), asarray(mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_fill: a mask holds bools; got {mask.dtype}. Write mask != 0")
    return F["masked_fill"](x, mask, value.astype(x.dtype) if isinstance(value, Tensor) else value)


def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Sums of the first 1, 2, … elements along `axis`; of the flattened tensor without one.

    Parameters
    ----------
    x : Tensor or number
        Of numeric dtype.
    axis : int, optional
        The axis to compute along; without one `x` is flattened.
    dtype : DType or str, optional
        By default that of `x`; of small integers int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d without an axis.

    Raises
    ------
    ShapeError
        When `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.cumsum(mg.asarray([1, 2, 3, 4]))
    Tensor([ 1,  3,  6, 10])
    """
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_sum"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Products of the first 1, 2, … elements along `axis`; of the flattened tensor without one.

    Parameters
    ----------
    x : Tensor or number
        Of numeric dtype.
    axis : int, optional
        The axis to compute along; without one `x` is flattened.
    dtype : DType or str, optional
        By default that of `x`; of small integers int64.

    Returns
    -------
    Tensor
        Of the shape of `x`, or 1-d without an axis.

    Raises
    ------
    ShapeError
        When `x` has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.cumprod(mg.asarray([1, 2, 3, 4]))
    Tensor([ 1,  2,  6, 24])
    """
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_prod"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


def norm(x: Any, /, ord: Any = 2, axis: Any = None, keepdims: bool = False, *, p: Any = None) -> Tensor:
    """The length of vectors along `axis`, by default of all elements: PyTorch's ``x.norm(p, dim)``.

    Parameters
    ----------
    x : Tensor
        Of floating dtype.
    ord : number or str
        Which norm: an order such as 1, 2 or ``inf``; ``'fro'`` and ``None`` are 2.
    axis : int or sequence of int, optional
        The axes to compute along; by default all of them.
    keepdims : bool
        Whether the axes stay, with length 1.
    p : number or str, optional
        PyTorch's name of `ord`.

    Returns
    -------
    Tensor
        Of the real dtype that goes with that of `x`.

    Raises
    ------
    ShapeError
        When the order is a word for matrices: `mg.linalg.matrix_norm` takes it.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.norm(mg.asarray([3.0, 4.0]))
    Tensor(5.)
    """
    word = ord if p is None else p
    if word not in ("fro", None) and isinstance(word, str):
        raise ShapeError(f"norm: {word!r} is of matrices; use mg.linalg.matrix_norm(x, ord={word!r})")
    places = tuple(axis) if isinstance(axis, list) else axis
    return F["vector_norm"](x, axis=places, keepdims=keepdims, ord=2 if word in ("fro", None) else word)
