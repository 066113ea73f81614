"""Data on their way into tensors and out of them: Python's numbers and sequences, buffers, DLPack, C-order bytes.

Imports no array library.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from typing import Any

from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import DTYPES, DType, bfloat16, dtype as as_dtype, infer, pack, unpack
from micrograd_core.engine.array import wrap
from micrograd_core.engine.explain import explain
from micrograd_core.errors import DTypeError, GraphError, ShapeError, UnreadableHandle
from micrograd_core.layout import MAX_DIMENSIONS, Shape, nest
from micrograd_core.ops import TABLE
from micrograd_core.support.context import at_hand

_KIND_OF_FORMAT = {
    **dict.fromkeys("bhilqn", "int"),
    **dict.fromkeys("BHILQN", "uint"),
    **dict.fromkeys("efdg", "float"),
}


def as_array(
    kind: type[Any], data: Any, *, dtype: Any = None, device: str | Device | None = None, copy: bool | None = None
) -> Any:
    """A tensor of class `kind` with the elements of `data`: see `asarray`."""
    wanted = None if dtype is None else as_dtype(dtype)
    x: Any = data
    if x.__class__ is kind:
        x = x if device is None else x.to(device)
        x = x if wanted is None or wanted is x.dtype else x.astype(wanted)
        return x.copy() if copy and x is data else x
    if copy is False and not is_elsewhere(data):
        raise ValueError("asarray: host data is always copied to a device; only a Tensor can be taken without a copy")
    kernels: Any = at_hand((default_device() if device is None else Device(device)).kernels)
    try:
        buffer, shape, found = ingest(data, wanted)
    except TypeError:
        if not is_elsewhere(data):
            raise
        from micrograd_core.engine.dlpack import from_dlpack

        return as_array(kind, from_dlpack(kind, data, device=device, copy=copy), dtype=wanted)
    try:
        handle = kernels.upload(buffer, shape, found)
    except MemoryError as error:
        raise explain(TABLE["copy"], kernels, (), {}, error)
    x = wrap(kind, handle, kernels, found, None)
    return x if wanted is None or wanted is found else x.astype(wanted)


def ingest(data: Any, wanted: DType | None) -> tuple[Any, Shape, DType]:
    """`data` as C-order bytes, shape and dtype; the dtype is `wanted` where the data is Python numbers.

    Raises
    ------
    DTypeError, ShapeError
        When it is not numbers, or ragged, or nested without end.
    """
    try:
        return _ingest(data, wanted)
    except RecursionError as error:
        raise DTypeError(f"a tensor holds numbers; got {type(data).__name__}, which refers to itself") from error


def _ingest(data: Any, wanted: DType | None) -> tuple[Any, Shape, DType]:
    if isinstance(data, (bool, int, float, complex)) and not hasattr(data, "dtype"):
        dtype = wanted or infer([data])
        return pack([data], dtype), (), dtype
    if isinstance(data, (list, tuple)):
        flat, shape = flatten(data)
        if any(hasattr(kind, "backward") for kind in set(map(type, flat))):
            raise GraphError("a tensor of Values would lose their graph; use Value.stack([...]), or the .data of each")
        dtype = wanted or infer(flat)
        return pack(flat, dtype), shape, dtype
    if isinstance(data, (str, bytes, dict, set)) or data is None:
        raise DTypeError(f"a tensor holds numbers; got {type(data).__name__}")
    if getattr(getattr(data, "dtype", None), "name", "") == "bfloat16":
        raw, shape, _ = _ingest(data.view("uint16"), None)
        return raw, shape, bfloat16
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):
        array = data.__array__() if hasattr(data, "__array__") else data
        if type(array) is not type(data):
            return _ingest(array, wanted)
        if hasattr(data, "dtype"):
            raise DTypeError(f"a tensor holds numbers; got {type(data).__name__} of {data.dtype}") from None
        if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
            return _ingest(_items(data), wanted)
        raise DTypeError(f"a tensor holds numbers; got {type(data).__name__}") from None
    shape = tuple(view.shape or ())
    contents = b"" if 0 in shape else view.cast("B") if view.c_contiguous else view.tobytes()
    return contents, shape, _dtype_of(view)


def _dtype_of(view: memoryview) -> DType:
    """The dtype of a buffer, from its struct format."""
    format = view.format.lstrip("@=<")
    if format == "?":
        return DTYPES["bool"]
    complex_ = format.startswith("Z") or format in ("F", "D")
    kind = "complex" if complex_ else _KIND_OF_FORMAT.get(format)
    name = f"{kind}{view.itemsize * 8}"
    if name not in DTYPES:
        raise DTypeError(
            f"no dtype holds elements of buffer format {view.format!r}; convert the data first, for example to float32"
        )
    return DTYPES[name]


def flatten(nested: Sequence[Any]) -> tuple[list[Any], Shape]:
    """Nested sequences as a flat list and a shape.

    Raises
    ------
    ShapeError
        When rows differ in length or depth, or there is no end to them.
    """
    _measure(nested)
    level: list[Any] = list(nested)
    shape = [len(level)]
    while level and any(_is_row(item) for item in level):
        rows = [_items(item) if _is_row(item) else None for item in level]
        lengths = {None if row is None else len(row) for row in rows}
        if len(lengths) > 1:
            found = " and ".join(sorted("a number" if length is None else f"length {length}" for length in lengths))
            raise ShapeError(f"ragged data: along axis {len(shape)} there are items of {found}; all must be alike")
        level = [element for row in rows if row is not None for element in row]
        shape.append(len(rows[0] or ()))
    if any(getattr(item, "requires_grad", False) for item in level):
        raise GraphError("a list of tensors that record gradients would lose them; join them with stack([...])")
    return [item.item() if hasattr(item, "item") and hasattr(item, "dtype") else item for item in level], tuple(shape)


def _measure(nested: Any) -> None:
    """Refuse what has no end: rows are alike, so that the first ones tell, and nothing has been copied yet."""
    size, depth = 1, 0
    while _is_row(nested):
        depth += 1
        if depth > MAX_DIMENSIONS:
            raise ShapeError(
                f"data nested more than {MAX_DIMENSIONS} deep, and a tensor has at most {MAX_DIMENSIONS} axes; "
                "does a list hold itself?"
            )
        size *= len(nested)
        nested = next(iter(nested), None)
    if size * POINTER > 1 << 30 and size * POINTER > memory():
        raise ShapeError(f"nested data of {size:,} elements do not fit into this machine's memory; are lists shared?")


POINTER = 8  # bytes


def memory() -> int:
    """Bytes of this machine, or where it does not tell, more than any has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 43


def _items(row: Any) -> Any:
    """A row's items, as many as it says it has: one whose ``__getitem__`` never ends would fill the memory."""
    if isinstance(row, (list, tuple)):
        return row
    length = len(row)
    items = list(itertools.islice(row, length + 1))
    if len(items) != length:
        more = "more" if len(items) > length else len(items)
        raise ShapeError(f"{type(row).__name__} says that it has {length} items, and gives {more}")
    return items


def _is_row(item: Any) -> bool:
    return isinstance(item, (list, tuple)) or bool(getattr(item, "shape", None))


def read(kernels: Any, handle: Any, dtype: DType) -> Any:
    """C-order bytes of a handle that is taken for one of `dtype`, if it is one.

    Raises
    ------
    BackendBroken
        When a kernel has returned another dtype, or the device gives more or fewer bytes than there are elements.
    """
    data = kernels.to_host(handle)
    count, wanted = memoryview(data).nbytes, math.prod(handle.shape) * dtype.itemsize
    if count != wanted or kernels.native(dtype) != handle.dtype:
        raise UnreadableHandle(kernels.backend.device, str(dtype), tuple(handle.shape), wanted, handle.dtype, count)
    return data


def elements(data: Any, shape: Shape, dtype: DType) -> Any:
    """C-order bytes as nested lists of Python numbers."""
    return nest(unpack(data, dtype), shape)


def is_elsewhere(data: Any) -> bool:
    """Whether `data` says through DLPack that it is not in the host's memory."""
    place = getattr(data, "__dlpack_device__", None)
    return place is not None and int(place()[0]) != 1  # DLPack's number of the host
