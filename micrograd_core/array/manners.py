"""Methods of tensors whose results are PyTorch's where its words are used: values with their places, n - 1, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from micrograd_core.engine.apply import reduction
from micrograd_core.engine.ingest import read
from micrograd_core.engine.modes import is_grad_enabled
from micrograd_core.errors import GraphError
from micrograd_core.ops.shared import both_spellings
from micrograd_core.support.warning import warn, warn_of_number

Tensor = Any  # annotations that named it would close a ring


class Extreme(NamedTuple):
    """Values along an axis, and where they were."""

    values: Tensor
    indices: Tensor


def by_words(plain: Callable[..., Any], name: str, x: Tensor, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """``x.max``, ``min``, ``std`` or ``var``: with ``dim=`` or ``unbiased=`` PyTorch's, else `plain`, NumPy's."""
    spreads = name in ("std", "var")
    if not named.keys().isdisjoint(WORDS) and not ("axis" in named and "dim" not in named):
        if "axis" in named:
            raise TypeError(f"{name}: dim and axis are the same argument; give one of them")
        return spread(name, x, *args, **named) if spreads else _pair(name, x, *args, **named)
    if not named.keys() - ({"keepdims"} if spreads else ()):
        say_which(name, x, *args)
    return plain(x, *args, **named)


WORDS = frozenset(("dim", "unbiased", "keepdim"))
"""Arguments that only PyTorch's methods have."""


def _pair(name: str, x: Tensor, dim: int, keepdim: bool = False) -> Extreme:
    """What PyTorch's max, min or median gives along an axis."""
    return median(x, dim, keepdim) if name == "median" else extreme(name, x, dim, keepdim)


def say_which(name: str, x: Tensor, axis: Any = None, *others: Any) -> None:
    """Warn where PyTorch's method or function, called with the same arguments by position, gives something else."""
    if name in ("std", "var"):
        warn(f"x.{name}() divides by n, as NumPy's; PyTorch's divides by n - 1: write correction=0 or correction=1")
    elif axis is not None:
        warn(
            f"{name} along axis {axis}, given by position, is values alone, as NumPy's; PyTorch's is a pair of values "
            f"and indices: write axis={axis} for the values, or dim={axis} for the pair"
        )
    elif name == "median" and x.size % 2 == 0:
        warn(
            "x.median() is the mean of the two numbers in the middle, as NumPy's; PyTorch's is the lower one: write "
            "axis=None for the mean, or mg.quantile(x, 0.5, method='lower')"
        )


def extreme(name: str, x: Tensor, dim: int, keepdim: bool = False) -> Extreme:
    """The ``"max"`` or ``"min"`` along an axis, and the first place where it is."""
    xp: Any = x.__array_namespace__()
    places = getattr(xp, f"arg{name}")(x, dim, True)
    found = (xp.take_along_axis(x, places, dim), places)
    return Extreme(*(each if keepdim else xp.squeeze(each, dim) for each in found))


def middle(x: Tensor, *args: Any, **named: Any) -> Any:
    """The median: NumPy's, or with the word `dim` or `keepdim` PyTorch's.

    NumPy's is the mean of the two numbers in the middle, PyTorch's the lower of them, with its place.

    Parameters
    ----------
    x : Tensor
        Of real dtype.
    *args, **named
        ``axis`` and ``keepdims``, or ``dim`` and ``keepdim``.

    Returns
    -------
    Tensor, or named tuple of Tensor: values, indices
        A pair with ``dim``; the indices are int64.

    Warns
    -----
    RuntimeWarning
        When the two kinds differ, and no word says which is meant.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.asarray([3.0, 1.0, 2.0, 4.0])
    >>> x.median(axis=0), x.median(dim=0)
    (Tensor(2.5), Extreme(values=Tensor(2.), indices=Tensor(2)))
    """
    return by_words(reduction("median"), "median", x, args, named)


def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the two numbers in the middle; along an axis a pair, with places, as in PyTorch.

    Parameters
    ----------
    x : Tensor
        Of real dtype.
    dim : int, optional
        The axis; by default all elements are looked at.
    keepdim : bool, default False
        Whether the axis stays, with length 1.

    Returns
    -------
    Tensor, or named tuple of Tensor: values, indices
        A pair where there is an axis; the indices are int64.

    Raises
    ------
    AxisError
        When the tensor has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.torch.median(mg.asarray([3.0, 1.0, 2.0, 4.0]))
    Tensor(2.)
    """
    flat = x.reshape(-1) if dim is None else x
    axis = -1 if dim is None else dim
    xp: Any = x.__array_namespace__()
    found = Extreme(*xp.kthvalue(flat, (flat.shape[axis] + 1) // 2, axis, keepdim))
    return found.values if dim is None else found


def numpy(x: Tensor) -> Any:
    """A NumPy copy of the elements.

    Parameters
    ----------
    x : Tensor
        That does not record; of one that does, write ``x.detach().numpy()``.

    Returns
    -------
    numpy.ndarray
        Of the shape and dtype of `x`; bfloat16 is that of `ml_dtypes`.

    Raises
    ------
    GraphError
        When the tensor records gradients.
    TypeError
        For bfloat16, when `ml_dtypes` is not installed.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.asarray([1, 2]).numpy()
    array([1, 2])
    """
    import numpy

    if x.requires_grad:
        raise GraphError("numpy(): this tensor records gradients, and a NumPy array does not; write x.detach().numpy()")
    dtype: Any = x.dtype.name
    if dtype == "bfloat16":  # NumPy knows it from ml_dtypes
        try:
            import ml_dtypes
        except ModuleNotFoundError as error:
            raise TypeError("NumPy has no bfloat16; use x.astype('float32'), or pip install ml-dtypes") from error
        dtype = ml_dtypes.bfloat16
    return numpy.frombuffer(read(x._kernels, x._handle, x.dtype), dtype=dtype).reshape(x.shape).copy()


def as_ndarray(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """What ``np.asarray(x)`` gives."""
    if x.requires_grad:
        raise TypeError("this tensor records gradients, and a NumPy array cannot; convert it with x.detach().numpy()")
    if not x.device.is_cpu():
        raise TypeError(f"this tensor is on {x.device}; nothing is moved implicitly. Use x.numpy()")
    if copy is False:
        raise ValueError("a Tensor is always copied into a NumPy array")
    array = x.numpy()
    return array if dtype is None else array.astype(dtype)


def number(x: Tensor) -> Any:
    """The one element of a tensor that records, for ``float(x)``."""
    found = x.item()
    if is_grad_enabled():
        warn_of_number("x.item()")
    return found


def without_gradient(x: Tensor) -> None:
    """Warn that a computed tensor has no ``.grad``."""
    warn(
        "a computed tensor has no .grad: gradients are kept for the tensors it was computed from. To look at its own, "
        "use x.register_hook(print); to move a parameter, `with no_grad(): w -= lr * w.grad`, as w = w - lr * w.grad "
        "makes a computed tensor of w"
    )


@both_spellings
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Extreme:
    """The elements in order along an axis, and where they were.

    Parameters
    ----------
    x : Tensor
        Of real dtype.
    dim : int, default -1
        The axis.
    descending : bool, default False
        Whether the greatest come first.
    stable : bool, default False
        Accepted for PyTorch's sake: equal elements keep their order either way.

    Returns
    -------
    named tuple of Tensor: values, indices
        Of the shape of `x`; the indices are int64.

    Raises
    ------
    AxisError
        When the tensor has no such axis.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.asarray([3, 1, 2]).sort()
    Extreme(values=Tensor([1, 2, 3]), indices=Tensor([1, 2, 0]))
    """
    xp: Any = x.__array_namespace__()
    places = xp.argsort(x, dim, descending)
    return Extreme(xp.take_along_axis(x, places, dim), places)


def spread(
    name: str, x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """``"std"`` or ``"var"`` with n - 1, unless `unbiased` is false or `correction` says otherwise."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    by = float(unbiased) if correction is None else correction
    reduce = getattr(x.__array_namespace__(), name)
    return reduce(x, tuple(dim) if isinstance(dim, list) else dim, correction=by, keepdims=keepdim)


def nonzero(x: Tensor, *, as_tuple: bool | None = None) -> Any:
    """The places of what is not 0.

    Parameters
    ----------
    x : Tensor
        Of at least one axis.
    as_tuple : bool, optional
        Whether there is an array for each axis, as in NumPy and by default with a warning, rather than a row for each
        place, as in PyTorch.

    Returns
    -------
    tuple of Tensor, or Tensor (places, axes)
        Of int64 dtype.

    Warns
    -----
    RuntimeWarning
        When `as_tuple` is not given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.asarray([0, 5, 7]).nonzero(as_tuple=False)
    Tensor([[1],
            [2]])
    """
    if as_tuple is None:
        warn(
            "x.nonzero() gives an array for each axis, as NumPy's; PyTorch's gives a row for each place: write "
            "as_tuple=True for the arrays, or as_tuple=False for the rows"
        )
    xp: Any = x.__array_namespace__()
    return xp.argwhere(x) if as_tuple is False else xp.nonzero(x)


def add(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Compute ``x + alpha * other``.

    Parameters
    ----------
    x : Tensor
        The first summand.
    other : Tensor or number
        The second.
    alpha : number, default 1
        The factor of the second.

    Returns
    -------
    Tensor
        Of the common dtype, and the shape that both broadcast to.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.ones(2).add(mg.ones(2), alpha=3)
    Tensor([4., 4.])
    """
    return x.__array_namespace__().add(x, other if alpha == 1 else other * alpha)


def subtract(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Compute ``x - alpha * other``.

    Parameters
    ----------
    x : Tensor
        The number to subtract from.
    other : Tensor or number
        What is subtracted.
    alpha : number, default 1
        The factor of what is subtracted.

    Returns
    -------
    Tensor
        Of the common dtype, and the shape that both broadcast to.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.ones(2).subtract(mg.ones(2), alpha=3)
    Tensor([-2., -2.])
    """
    return x.__array_namespace__().subtract(x, other if alpha == 1 else other * alpha)


def addcmul(x: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """Compute ``x + value * tensor1 * tensor2``.

    Parameters
    ----------
    x : Tensor
        The first summand.
    tensor1, tensor2 : Tensor
        The factors.
    value : number, default 1
        The factor of the product.

    Returns
    -------
    Tensor
        Of the common dtype, and the shape that all broadcast to.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones(2)
    >>> x.addcmul(x, x, value=3)
    Tensor([4., 4.])
    """
    return x + tensor1 * tensor2 * value


def addcdiv(x: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """Compute ``x + value * tensor1 / tensor2``.

    Parameters
    ----------
    x : Tensor
        The first summand.
    tensor1, tensor2 : Tensor
        The dividend and the divisor.
    value : number, default 1
        The factor of the quotient.

    Returns
    -------
    Tensor
        Of the common dtype, and the shape that all broadcast to.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones(2)
    >>> x.addcdiv(x, x, value=3)
    Tensor([4., 4.])
    """
    return x + tensor1 / tensor2 * value


@both_spellings
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The values that occur, in order.

    Parameters
    ----------
    x : Tensor
        Of real dtype.
    sorted : bool, default True
        Accepted for PyTorch's sake: the values are in order either way.
    return_inverse : bool, default False
        Whether the place of each element among the values comes too, of the shape of `x`.
    return_counts : bool, default False
        Whether it comes too how often each value occurs.
    dim : None
        Rows are not compared.

    Returns
    -------
    Tensor, or tuple of Tensor
        Values (count,); then what was asked for, of int64 dtype.

    Raises
    ------
    NotImplementedError
        When `dim` is given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.asarray([3, 1, 3]).unique(return_counts=True)
    (Tensor([1, 3]), Tensor([1, 2]))
    """
    if dim is not None:
        raise NotImplementedError("unique: rows are not compared; use numpy.unique(x.numpy(), axis=...)")
    found = x.__array_namespace__().unique_all(x)
    parts = [found.values, *[found.inverse_indices] * return_inverse, *[found.counts] * return_counts]
    return parts[0] if len(parts) == 1 else tuple(parts)


@both_spellings
def repeat(x: Tensor, *sizes: Any, axis: int | None = None) -> Tensor:
    """Repeat the tensor so many times along each axis, as PyTorch does; with ``axis=`` each element, as NumPy does.

    Parameters
    ----------
    x : Tensor
        Of any shape and dtype.
    *sizes : int, or one tuple of int
        How often, for each axis of the result.
    axis : int, optional
        The axis along which each element is repeated.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    TypeError
        For one number without `axis`, which PyTorch and NumPy read differently.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.asarray([1, 2]).repeat(2, 2)
    Tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    >>> mg.asarray([1, 2]).repeat(2, axis=0)
    Tensor([1, 1, 2, 2])
    """
    if axis is not None:
        return x.__array_namespace__().repeat(x, *sizes, axis=axis)
    counts = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if len(sizes) == 1 and counts is sizes:
        raise TypeError(
            f"repeat({sizes[0]}): PyTorch repeats the tensor, x.tile({sizes[0]}); NumPy repeats each element, "
            f"x.repeat_interleave({sizes[0]})"
        )
    return x.__array_namespace__().tile(x, counts)
