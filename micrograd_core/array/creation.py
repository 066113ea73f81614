"""Creation functions: those of the array API standard, which have no tensor to start from, and `from_dlpack`.

They record nothing unless `requires_grad` is true. Without a dtype floats are float32, integers int64. Series are
computed on the device in the widest floating dtype it has, and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import DEFAULTS, DType, check_scalar, complex128, dtype as as_dtype, float32, float64, int64
from micrograd_core.engine.apply import apply, create
from micrograd_core.engine.dlpack import from_dlpack as engine_from_dlpack
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.layout import as_shape
from micrograd_core.ops import TABLE
from micrograd_core.ops.arguments import advising
from micrograd_core.ops.shared import whole
from micrograd_core.support.context import about_to_make, at_hand


def _kernels(device: Any) -> Any:
    return at_hand((default_device() if device is None else Device(device)).kernels)


def finished(x: Tensor, requires_grad: bool) -> Tensor:
    """The tensor, which from now on records gradients if asked."""
    if requires_grad:
        x.requires_grad = True
    return x


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` in which every element is the number `fill_value`, which may be a 0-d tensor.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the result; ``()`` makes a 0-d tensor.
    fill_value : number or Tensor
        A Python number, or a 0-d tensor, which is read.
    dtype : DType or str, optional
        The dtype of the elements; by default bool, int64, float32 or complex64, by the number.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of `shape`.

    Raises
    ------
    DTypeError
        When the number does not fit the dtype.
    ShapeError
        When a length is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.full((2, 3), 7)
    Tensor([[7, 7, 7],
            [7, 7, 7]])
    """
    number = fill_value.item() if hasattr(fill_value, "item") else fill_value
    number = int(number) if isinstance(number, int) and type(number) is not bool else number  # of a subclass, too
    given = fill_value.dtype if isinstance(fill_value, Tensor) else DEFAULTS.get(type(number), float32)
    chosen = given if dtype is None else as_dtype(dtype)
    if chosen.kind == "bool":
        number = bool(number)
    else:
        number = int(number) if isinstance(number, bool) else number
        check_scalar("full", number, chosen)
    wanted = as_shape("full", shape)
    about_to_make(math.prod(wanted))
    out = create(Tensor, TABLE["full"], _kernels(device), shape=wanted, fill_value=number, dtype=chosen)
    return finished(out, requires_grad)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros; float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the result; ``()`` makes a 0-d tensor.
    dtype : DType or str, optional
        The dtype of the elements; float32 by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of `shape`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.zeros((2, 3))
    Tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return full(shape, 0, dtype=dtype or float32, device=device, requires_grad=requires_grad)


def ones(shape: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones; float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the result; ``()`` makes a 0-d tensor.
    dtype : DType or str, optional
        The dtype of the elements; float32 by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of `shape`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.ones((2, 3))
    Tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    return full(shape, 1, dtype=dtype or float32, device=device, requires_grad=requires_grad)


def empty(shape: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor to write into. It holds zeros, so that a forgotten element is the same on every run.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the result; ``()`` makes a 0-d tensor.
    dtype : DType or str, optional
        The dtype of the elements; float32 by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of `shape`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.empty(3)
    >>> x[...] = 2.0
    >>> x
    Tensor([2., 2., 2.])
    """
    return zeros(shape, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`full` of the shape, and by default the dtype and the device, of `x`.

    Parameters
    ----------
    x : Tensor
        Gives the shape, and the dtype and the device unless they are named.
    fill_value : number or Tensor
        A Python number, or a 0-d tensor, which is read.
    dtype : DType or str, optional
        By default the dtype of `x`.
    device : Device or str, optional
        Where the tensor is made; by default on the device of `x`.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        When the number does not fit the dtype.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.full_like(mg.zeros((2, 2)), 3)
    Tensor([[3., 3.],
            [3., 3.]])
    """
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`zeros` of the shape, and by default the dtype and the device, of `x`.

    Parameters
    ----------
    x : Tensor
        Gives the shape, and the dtype and the device unless they are named.
    dtype : DType or str, optional
        By default the dtype of `x`.
    device : Device or str, optional
        Where the tensor is made; by default on the device of `x`.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.zeros_like(mg.asarray([1, 2]))
    Tensor([0, 0])
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`ones` of the shape, and by default the dtype and the device, of `x`.

    Parameters
    ----------
    x : Tensor
        Gives the shape, and the dtype and the device unless they are named.
    dtype : DType or str, optional
        By default the dtype of `x`.
    device : Device or str, optional
        Where the tensor is made; by default on the device of `x`.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.ones_like(mg.asarray([1, 2]))
    Tensor([1, 1])
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`empty` of the shape, and by default the dtype and the device, of `x`.

    Parameters
    ----------
    x : Tensor
        Gives the shape, and the dtype and the device unless they are named.
    dtype : DType or str, optional
        By default the dtype of `x`.
    device : Device or str, optional
        Where the tensor is made; by default on the device of `x`.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.empty_like(mg.asarray([1, 2]))
    Tensor([0, 0])
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


# ── series ───────────────────────────────────────────────────────────────────────────────────────────────────


def _counted(length: int, kernels: Any) -> Tensor:
    """``0 .. length - 1`` as int64."""
    return create(Tensor, TABLE["arange"], kernels, length, dtype=int64)


def _series(start: Any, step: Any, length: int, kernels: Any, wide: DType) -> Tensor:
    """``start + i step``."""
    return _counted(length, kernels).astype(wide) * step + start


def widest(kernels: Any) -> DType:
    """float64, or the float32 that every device has."""
    return float64 if float64 in kernels._native else float32


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``start, start + step, ...`` up to but without `stop`; int64 for integers, else float32.

    Parameters
    ----------
    start : number
        The first element; alone it is `stop`, and the first element is 0.
    stop : number, optional
        The end, which is left out.
    step : number
        The distance between neighbours; may be negative.
    dtype : DType or str, optional
        int64 where all three are integers, else float32, by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of shape ``(ceil((stop - start) / step),)``; empty where `stop` lies before `start`.

    Raises
    ------
    DTypeError
        When an element does not fit an integer dtype.
    ShapeError
        When the step is 0.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.arange(5)
    Tensor([0, 1, 2, 3, 4])
    >>> mg.arange(1.0, 2.0, 0.25)
    Tensor([  1., 1.25,  1.5, 1.75])
    """
    ends: tuple[Any, ...] = (0, start) if stop is None else (start, stop)
    first, last, step = (each.item() if hasattr(each, "item") else each for each in (*ends, step))
    if step == 0:
        raise ShapeError("arange: the step cannot be 0")
    integral = all(isinstance(each, int) for each in (first, last, step))
    chosen = as_dtype(dtype) if dtype is not None else int64 if integral else float32
    length: int = max(-((first - last) // step) if integral else math.ceil((last - first) / step), 0)
    kernels = _kernels(device)
    if integral and chosen.is_integer:
        kernels.native(chosen)
        for end in (first, first + (length - 1) * step) if length else ():
            check_scalar("arange", end, chosen)
        if max(abs(first), abs(step), abs(first + length * step)) < 1 << 63:
            return finished(_series(first, step, length, kernels, int64).astype(chosen), requires_grad)
        return asarray([first + i * step for i in range(length)], dtype=chosen, device=device)
    out = _series(float(first), float(step), length, kernels, widest(kernels))
    return finished(out.astype(chosen), requires_grad)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`, which is left out unless `endpoint`.

    Parameters
    ----------
    start, stop : number
        The first and the last element.
    num : int
        How many elements there are.
    endpoint : bool
        Whether `stop` is the last element; otherwise it would be the next one.
    dtype : DType or str, optional
        float32, or complex64 for complex ends, by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of shape (num,).

    Raises
    ------
    ShapeError
        When `num` is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.linspace(0.0, 1.0, 5)
    Tensor([  0., 0.25,  0.5, 0.75,   1.])
    """
    start, stop = (each.item() if hasattr(each, "item") else each for each in (start, stop))
    num = whole("linspace", "num", num)
    if num < 0:
        raise ShapeError(f"linspace: num cannot be negative; got {num}")
    kernels, numbers = _kernels(device), (start, stop)
    plane = any(isinstance(each, complex) for each in numbers)
    chosen = as_dtype(dtype) if dtype is not None else DEFAULTS[complex if plane else float]
    wide = complex128 if plane or chosen.is_complex else widest(kernels)
    kind = complex if wide.is_complex else float
    steps = max(num - endpoint, 1)
    if chosen.is_integer and all(isinstance(each, int) for each in numbers):  # beyond 2**53 floats are too coarse
        values = [start + (stop - start) * i // steps for i in range(num)]  # type: ignore[operator]
        return asarray(values, dtype=chosen, device=device)
    span = kind(stop) - kind(start)  # type: ignore[arg-type]
    if math.isinf(abs(span)) and math.isfinite(abs(start)) and math.isfinite(abs(stop)):  # too far apart
        t = _series(0.0, 1 / steps, num, kernels, wide)
        out = t * kind(stop) - (t - 1) * kind(start)  # type: ignore[arg-type]
    else:
        out = _series(kind(start), span / steps, num, kernels, wide)  # type: ignore[arg-type]
    if endpoint and num > 1:
        out[-1] = kind(stop)  # type: ignore[arg-type]
    if chosen.is_integer:
        out = apply(TABLE["floor"], (out,))
    return finished(out.astype(chosen), requires_grad)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """1 on the `k`-th diagonal (above the main one where `k` is positive), else 0; float32 by default.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns; by default that of rows.
    k : int
        Which diagonal: 0 is the main one, and positive ones lie above it.
    dtype : DType or str, optional
        The dtype of the elements; float32 by default.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    requires_grad : bool
        Whether gradients of it are recorded.

    Returns
    -------
    Tensor
        Of shape (n_rows, n_cols).

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.eye(2, 3)
    Tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    kernels = _kernels(device)
    given = {"n_rows": n_rows, "n_cols": n_rows if n_cols is None else n_cols, "k": k}
    n_rows, n_cols, k = (whole("eye", name, number) for name, number in given.items())
    rows, columns = _counted(n_rows, kernels), _counted(n_cols, kernels)
    k = max(-n_rows, min(k, n_cols))  # any diagonal further out is as empty, and may be beyond int64
    on = rows.reshape((-1, 1) if n_rows else (0, 1)) + k == columns
    return finished(on.astype(dtype or float32), requires_grad)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid, from those along its axes.

    Parameters
    ----------
    arrays : Tensor
        Coordinates along each axis, 1-d, of one dtype.
    indexing : str
        ``"xy"``: the first array runs along the second axis of the results, as in plots; ``"ij"``: along the first.

    Returns
    -------
    tuple of Tensor
        One for each array, all of the grid's shape. They are views, and gradients flow through them.

    Raises
    ------
    ShapeError, DTypeError
        When an array is not 1-d, or their dtypes differ.
    ValueError
        When `indexing` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x, y = mg.meshgrid(mg.asarray([1, 2, 3]), mg.asarray([10, 20]))
    >>> x
    Tensor([[1, 2, 3],
            [1, 2, 3]])
    >>> y
    Tensor([[10, 10, 10],
            [20, 20, 20]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij'; got {indexing!r}")
    xs = [asarray(x) for x in arrays]
    if any(x.ndim != 1 for x in xs):
        raise ShapeError(f"meshgrid: arrays must be 1-d; got shapes {', '.join(str(x.shape) for x in xs)}")
    if len({x.dtype for x in xs}) > 1:
        raise DTypeError(f"meshgrid: dtypes must be equal; got {', '.join(str(x.dtype) for x in xs)}")
    axes = list(range(len(xs)))
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    shape = tuple(xs[axes.index(axis)].size for axis in range(len(xs)))
    return tuple(
        x.reshape(tuple(x.size if each == axis else 1 for each in range(len(xs)))).broadcast_to(shape)
        for x, axis in zip(xs, axes, strict=True)
    )


# ── memory of other libraries ────────────────────────────────────────────────────────────────────────────────


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array: both see what either writes.

    Parameters
    ----------
    x : object with ``__dlpack__`` and ``__dlpack_device__``
        The array of another library.
    device : Device or str, optional
        By default the one the memory is on.
    copy : bool, optional
        ``True`` always copies, ``False`` never, ``None`` only to another device.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    DeviceUnavailable
        When no backend here takes memory of that kind of device.
    ValueError
        When `copy` is false, and a copy is needed.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> import numpy as np
    >>> x = np.zeros(2, dtype=np.float32)
    >>> y = mg.from_dlpack(x)
    >>> x[0] = 5.0
    >>> y
    Tensor([5., 0.])
    """
    return engine_from_dlpack(Tensor, x, device=device, copy=copy)


CREATION: dict[str, Callable[..., Any]] = {
    each.__name__: each if each is asarray else advising(each)  # here, so that they call each other without
    for each in (
        arange, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, meshgrid, ones, ones_like,
        zeros, zeros_like,
    )
}  # fmt: skip
