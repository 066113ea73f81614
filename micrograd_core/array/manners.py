"""Methods of tensors whose results are PyTorch's where its words are used: values with their places, n - 1, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from micrograd_core.engine.apply import reduction
from micrograd_core.engine.ingest import read
from micrograd_core.errors import GraphError
from micrograd_core.ops.shared import both_spellings
from micrograd_core.support.warning import warn

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
    found: Extreme = median(x, dim, keepdim) if name == "median" else extreme(name, x, dim, keepdim)
    return found


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
    """``x.median``: see `by_words`."""
    return by_words(reduction("median"), "median", x, args, named)


def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the two numbers in the middle; along an axis a pair, with places."""
    flat = x.reshape(-1) if dim is None else x
    axis = -1 if dim is None else dim
    xp: Any = x.__array_namespace__()
    found = Extreme(*xp.kthvalue(flat, (flat.shape[axis] + 1) // 2, axis, keepdim))
    return found.values if dim is None else found


def numpy(x: Tensor) -> Any:
    """A NumPy copy; of a tensor that records, write ``x.detach().numpy()``."""
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
    array = numpy.frombuffer(read(x._kernels, x._handle, x.dtype), dtype=dtype)
    return array.reshape(x.shape).copy()


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


def without_gradient(x: Tensor) -> None:
    """Warn that a computed tensor has no ``.grad``."""
    warn(
        "a computed tensor has no .grad: gradients are kept for the tensors it was computed from. To look at its own, "
        "use x.register_hook(print); to move a parameter, `with no_grad(): w -= lr * w.grad`, as w = w - lr * w.grad "
        "makes a computed tensor of w"
    )


@both_spellings
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Extreme:
    """The elements in order along an axis, and where they were."""
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
    """The places of what is not 0: an array for each axis, or, with ``as_tuple=False``, a row for each place."""
    if as_tuple is None:
        warn(
            "x.nonzero() gives an array for each axis, as NumPy's; PyTorch's gives a row for each place: write "
            "as_tuple=True for the arrays, or as_tuple=False for the rows"
        )
    xp: Any = x.__array_namespace__()
    return xp.argwhere(x) if as_tuple is False else xp.nonzero(x)


def add(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``x + alpha * other``."""
    return x.__array_namespace__().add(x, other if alpha == 1 else other * alpha)


def subtract(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``x - alpha * other``."""
    return x.__array_namespace__().subtract(x, other if alpha == 1 else other * alpha)


def addcmul(x: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """``x + value * tensor1 * tensor2``."""
    return x + tensor1 * tensor2 * value


def addcdiv(x: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """``x + value * tensor1 / tensor2``."""
    return x + tensor1 / tensor2 * value


@both_spellings
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The values that occur, in order; with them, where asked for, each element's place and how often each occurs."""
    if dim is not None:
        raise NotImplementedError("unique: rows are not compared; use numpy.unique(x.numpy(), axis=...)")
    found = x.__array_namespace__().unique_all(x)
    parts = [found.values, *[found.inverse_indices] * return_inverse, *[found.counts] * return_counts]
    return parts[0] if len(parts) == 1 else tuple(parts)


@both_spellings
def repeat(x: Tensor, *sizes: Any, axis: int | None = None) -> Tensor:
    """The tensor repeated so many times along each axis, as PyTorch does; with ``axis=`` each element, as NumPy does.

    Raises
    ------
    TypeError
        For one number, which PyTorch and NumPy read differently.
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
