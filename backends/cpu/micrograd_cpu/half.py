"""Half precision: float16, and bfloat16 of ml_dtypes, as arrays that compute in float32.

NumPy adds float16 numbers in float16, one rounding each, and promotes bfloat16 to float32 beside a Python number. A
`Half` is an ``ndarray`` whose functions convert to float32 first and round the result once, reductions included. That
costs other dtypes nothing: NumPy asks only subclasses.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

_HALVES: Final = frozenset((np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)))
_EXACT: Final = frozenset((np.nextafter, np.spacing))  # about the numbers that the dtype itself has
# About memory rather than numbers.
_VIEWS: Final = frozenset((
    np.broadcast_to, np.copyto, np.diagonal, np.expand_dims, np.flip, np.may_share_memory, np.moveaxis,
    np.permute_dims, np.put_along_axis, np.reshape, np.shares_memory, np.squeeze, np.swapaxes, np.transpose,
    np.lib.stride_tricks.as_strided, np.lib.stride_tricks.sliding_window_view,
))  # fmt: skip
FLOAT32: Final = np.dtype("float32")


class Half(np.ndarray):
    """An array of two-byte floats."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """In float32, but for the few functions that look at bits."""
        out = options.pop("out", None)
        dtype = next(x.dtype for x in (*inputs, *(out or ())) if isinstance(x, Half))
        convert = wide
        if ufunc in _EXACT:
            inputs, convert = tuple(np.asarray(x, dtype) for x in inputs), plain
        if options.get("dtype") in _HALVES:
            options["dtype"] = FLOAT32
        result = getattr(ufunc, method)(*map(convert, inputs), **{k: convert(v) for k, v in options.items()})
        if out is None or out[0] is Ellipsis:
            return narrow(result, dtype)
        plain(out[0])[...] = result
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Likewise what is not a ufunc: sorting, joining, products of matrices."""
        if function in _VIEWS:
            return as_half(function(*_map(plain, args), **{name: _map(plain, value) for name, value in kwargs.items()}))
        dtypes = {x.dtype for x in _flat((args, tuple(kwargs.values()))) if isinstance(x, Half)}
        if kwargs.get("dtype") in _HALVES:
            dtypes, kwargs = {kwargs["dtype"]}, {**kwargs, "dtype": FLOAT32}
        result = function(*_map(wide, args), **{name: _map(wide, value) for name, value in kwargs.items()})
        return _map(lambda x: narrow(x, dtypes.pop() if len(dtypes) == 1 else FLOAT32), result) if dtypes else result

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Of another dtype, a plain array."""
        return as_half(plain(self).astype(dtype, *args, **kwargs))

    def dot(self, other: Any, out: Any = None) -> Any:
        """Summed in float32."""
        return narrow(wide(self).dot(wide(other)), self.dtype)


def as_half(x: Any) -> Any:
    """`x`, as a `Half` if its dtype is one."""
    return np.asarray(x).view(Half) if getattr(x, "dtype", None) in _HALVES else x


def plain(x: Any) -> Any:
    """The same memory without the arithmetic."""
    return x.view(np.ndarray) if isinstance(x, Half) else x


def wide(x: Any) -> Any:
    """As float32."""
    return x.view(np.ndarray).astype(FLOAT32) if isinstance(x, Half) else x


def narrow(x: Any, dtype: Any) -> Any:
    """Float32 rounded to `dtype`; anything else as it is."""
    if getattr(x, "dtype", None) in (FLOAT32, dtype):
        return np.asarray(x).astype(dtype, copy=False).view(Half)
    return x


def once(kernel: Any, *operands: Any, **params: Any) -> Any:
    """A whole kernel in float32, rounded once."""
    dtype = next(x.dtype for x in operands if isinstance(x, Half))
    found = kernel(*map(wide, operands), **params)
    return tuple([narrow(x, dtype) for x in found]) if isinstance(found, tuple) else narrow(found, dtype)


def rounding_once(kernel: Any) -> Any:
    """A kernel that goes by `once` where an operand is a `Half`."""

    def either(*operands: Any, **params: Any) -> Any:
        for x in operands:
            if x.__class__ is Half:
                return once(kernel, *operands, **params)
        return kernel(*operands, **params)

    either.__wrapped__ = kernel  # type: ignore[attr-defined]
    return either


def _map(f: Any, x: Any) -> Any:
    """`f` of the arrays in nested lists and tuples."""
    if isinstance(x, (list, tuple)):
        mapped = [_map(f, each) for each in x]
        return mapped if isinstance(x, list) else type(x)(*mapped) if hasattr(x, "_fields") else tuple(mapped)
    return f(x)


def _flat(x: Any) -> Any:
    return [leaf for each in x for leaf in _flat(each)] if isinstance(x, (list, tuple)) else [x]
