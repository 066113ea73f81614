"""What makes `micrograd_core` an array API namespace, beside its functions: constants, dtypes, and what it can tell.

Array API standard 2025.12, sections "Data type functions", "Constants", "Inspection".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from typing import Any, Final, NamedTuple

from micrograd_core import dtypes, layout
from micrograd_core.array.tensor import Tensor, asarray, shares_memory
from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import DTYPES, DType, complex64, dtype as as_dtype, float32, int64, promote
from micrograd_core.errors import DTypeError, MicrogradError, one_of
from micrograd_core.ops.arguments import advising

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────────────────


class FloatInfo(NamedTuple):
    """Limits of a floating dtype, as Python numbers; of a complex one, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(x: Any) -> DType:
    return x.dtype if isinstance(x, Tensor) else as_dtype(x)


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating dtype, or of the dtype of a tensor.

    Parameters
    ----------
    type : DType, str or Tensor
        A floating dtype, its name, or a tensor of it.

    Returns
    -------
    FloatInfo
        ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` and ``dtype``; for a complex dtype, those of its parts.

    Raises
    ------
    DTypeError
        When it is not floating.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.finfo("float32").max
    3.4028234663852886e+38
    """
    dtype = _dtype_of(type)
    if not dtype.is_floating:
        raise DTypeError(f"finfo is for floating dtypes; {dtype} is not. Use iinfo for integers")
    dtype = dtypes.REAL_OF.get(dtype, dtype)
    digits, lowest = dtypes.FORMATS[dtype.name]
    largest = dtypes.greatest(dtype)
    return FloatInfo(dtype.bits, 2.0 ** (1 - digits), largest, -largest, 2.0**lowest, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer dtype, or of the dtype of a tensor.

    Parameters
    ----------
    type : DType, str or Tensor
        An integer dtype, its name, or a tensor of it.

    Returns
    -------
    IntegerInfo
        ``bits``, ``max``, ``min`` and ``dtype``.

    Raises
    ------
    DTypeError
        When it is not an integer dtype.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.iinfo("int8").max
    127
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo is for integer dtypes; {dtype} is not. Use finfo for floating ones")
    low, high = dtypes.integer_range(dtype)
    return IntegerInfo(dtype.bits, high, low, dtype)


_KINDS: Final = {kind: (kind,) for kind in dtypes.KINDS} | {"integral": dtypes.KINDS[1:3], "numeric": dtypes.KINDS[1:]}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Parameters
    ----------
    dtype : DType or str
        The dtype in question.
    kind : DType, str or tuple
        A dtype; ``'bool'``, ``'signed integer'``, ``'unsigned integer'``, ``'integral'``, ``'real floating'``,
        ``'complex floating'`` or ``'numeric'``; or a tuple of these, of which one must fit.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        When no kind has the name.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.isdtype("float32", ("integral", "real floating"))
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str) and kind not in _KINDS:
        raise ValueError(f"isdtype: {kind!r} is not a kind of dtype; kinds are {one_of(_KINDS)}")
    return as_dtype(dtype).kind in _KINDS[kind] if isinstance(kind, str) else as_dtype(dtype) is as_dtype(kind)


@advising
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors, dtypes and Python numbers promote to.

    Parameters
    ----------
    arrays_and_dtypes : Tensor, DType, str or number
        At least one tensor or dtype. Python numbers are weak: they do not widen a dtype of their kind.

    Returns
    -------
    DType

    Raises
    ------
    DTypeError
        When they do not promote, or all are Python numbers.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.result_type("int32", "int64", 1)
    micrograd_core.int64
    """
    weak = [x for x in arrays_and_dtypes if isinstance(x, (bool, int, float, complex)) and not hasattr(x, "dtype")]
    strong = [_dtype_of(x) for x in arrays_and_dtypes if not any(x is each for each in weak)]
    if not strong:
        raise DTypeError("result_type: at least one tensor or dtype is needed beside Python numbers, which are weak")
    result = reduce(partial(promote, "result_type"), strong)
    for number in weak:
        result = dtypes.beside(number, result)
        if isinstance(number, complex) and result in dtypes.COMPLEX_OF:
            result = dtypes.COMPLEX_OF[result]
        allowed = {bool: "bool", int: "integer floating", float: "floating", complex: "complex floating"}[type(number)]
        if not any(word in allowed for word in (result.kind, *result.kind.split()[-1:])):
            raise DTypeError(f"result_type: the Python {type(number).__name__} {number!r} does not go with {result}")
    return result


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all `shapes` broadcast to.

    Parameters
    ----------
    shapes : tuple of int
        Any number of shapes.

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        When two lengths of an axis differ and neither is 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return layout.broadcast_shapes("broadcast_shapes", *(layout.as_shape("broadcast_shapes", each) for each in shapes))


@advising
def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether type promotion leads from one dtype to another.

    Parameters
    ----------
    from_ : DType, str or Tensor
        The dtype to start from, or a tensor of it.
    to : DType or str
        The dtype to reach.

    Returns
    -------
    bool

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.can_cast("int32", "int64"), mg.can_cast("int64", "int32")
    (True, False)
    """
    return dtypes.promotes(_dtype_of(from_), as_dtype(to))


@advising
def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements converted to another dtype; with ``copy=False`` `x` itself where that changes nothing.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    dtype : DType or str
        The dtype of the result.
    copy : bool
        Whether to copy where nothing changes.
    device : Device or str, optional
        The device of the result; by default that of `x`.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        For complex to real: say which part, ``real(x)``, ``imag(x)`` or ``abs(x)``.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.astype(mg.asarray([1.7, -1.7]), "int64")
    Tensor([ 1, -1])
    """
    x = x if device is None else x.to(device)
    return x if not copy and x.dtype is as_dtype(dtype) else x.astype(dtype)


@advising
def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The same elements, in C order, in another shape; one length may be -1. A view where strides allow it.

    Parameters
    ----------
    x : Tensor
        Of any dtype.
    shape : int or sequence of int
        The shape of the result; one length may be -1, and follows from the others.
    copy : bool, optional
        ``True`` always copies, ``False`` never, ``None`` only where strides leave no other way.

    Returns
    -------
    Tensor
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        When the sizes differ.
    ValueError
        When `copy` is false, and a copy is needed.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.reshape(mg.arange(6), (2, -1))
    Tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    out = asarray(x).reshape(shape)
    if copy is False and x.size and not shares_memory(out, x):
        raise ValueError(f"reshape: {x.shape} with strides {x.strides} does not become {out.shape} without a copy")
    return out.copy() if copy and shares_memory(out, x) else out


# ── inspection ───────────────────────────────────────────────────────────────────────────────────────────────


class Info:
    """What ``__array_namespace_info__()`` tells."""

    def capabilities(self) -> dict[str, Any]:
        """Of the default device."""
        words = default_device().capabilities
        return {
            "boolean indexing": "boolean-indexing" in words,
            "data-dependent shapes": "data-dependent-shapes" in words,
            "max dimensions": layout.MAX_DIMENSIONS,
        }

    def default_device(self) -> Device:
        """Where tensors are made unless told otherwise."""
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Of Python numbers and of positions."""
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """By name, those of a device and of a kind, as `isdtype` takes it. Half precision is not in the standard."""
        had = (default_device() if device is None else Device(device)).kernels.backend.dtypes
        standard = (each for name, each in DTYPES.items() if name in had and name not in ("float16", "bfloat16"))
        return {each.name: each for each in standard if kind is None or isdtype(each, kind)}

    def devices(self) -> tuple[Device, ...]:
        """Those among which ``Device("auto")`` chooses. No other library is opened just to be told."""
        from micrograd_core import plugins

        found = []
        for name in plugins.names():
            with suppress(MicrogradError):
                if plugins.call(name, "micrograd_priority") >= 0:
                    found.append(Device(name))
        return tuple(found)


def __array_namespace_info__() -> Info:  # noqa: N807
    """Devices, dtypes, defaults and capabilities (array API standard, "Inspection").

    Returns
    -------
    Info
        Its methods are ``capabilities``, ``default_device``, ``default_dtypes``, ``dtypes`` and ``devices``.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.__array_namespace_info__().default_dtypes()["integral"]
    micrograd_core.int64
    """
    return Info()


NAMESPACE: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (astype, broadcast_shapes, can_cast, finfo, iinfo, isdtype, reshape, result_type)
}
