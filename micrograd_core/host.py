"""Between Python and tensors: what data becomes as C-order bytes, and how a tensor prints. Imports no array library."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import DTYPES, DType, bfloat16, infer, pack, unpack
from micrograd_core.errors import DTypeError, GraphError, ShapeError, UnreadableHandle
from micrograd_core.layout import MAX_DIMENSIONS, Shape
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor

_KIND_OF_FORMAT = {
    **dict.fromkeys("bhilqn", "int"),
    **dict.fromkeys("BHILQN", "uint"),
    **dict.fromkeys("efdg", "float"),
}


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
    if size * POINTER > 1 << 30 and size * POINTER > _memory():
        raise ShapeError(f"nested data of {size:,} elements do not fit into this machine's memory; are lists shared?")


POINTER = 8  # bytes


def _memory() -> int:
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


def nest(flat: list[Any], shape: Shape) -> Any:
    """A flat list as nested lists."""
    if not shape:
        return flat[0]
    for length in reversed(shape[1:]):
        count = len(flat) // length if length else math.prod(shape[:-1])
        flat = [flat[i * length : (i + 1) * length] for i in range(count)]
        shape = shape[:-1]
    return flat


# ── printing ─────────────────────────────────────────────────────────────────────────────────────────────────

SUMMARIZE = 1000  # elements above which only the edges of each axis are shown
EDGE = 3


def describe(x: Tensor) -> str:
    """The repr of a tensor: its numbers (the edges of a large one), then what is not the default."""
    if x._kernels.depth:
        return f"Tensor(<one of a batch>, shape={x.shape}, dtype={x.dtype})"
    size = math.prod(x.shape)
    cut = size > SUMMARIZE
    shown = x.detach()
    edges = [cut and length > 2 * EDGE for length in x.shape]
    for axis, edge in enumerate(edges):
        if edge:
            shown = _edges(shown, axis)
    flat = [_number(value) for value in _flat(shown.tolist(), len(x.shape))]
    width = max(map(len, flat), default=0)
    texts = nest([text.rjust(width) for text in flat], shown.shape) if flat or not x.shape else []
    body = _rows(texts, edges, len("Tensor(")) if flat else f"[], shape={x.shape}"
    extras = [f"dtype={x.dtype}"] if str(x.dtype) not in ("float32", "int64", "bool") or not flat else []
    extras += [f"shape={x.shape}"] if cut else []
    extras += [] if x.device.is_cpu() else [f"device='{x.device}'"]
    extras += ["requires_grad=True"] if x.requires_grad else []
    return f"Tensor({', '.join([body, *extras])})"


def _edges(x: Tensor, axis: int) -> Tensor:
    from micrograd_core.dispatch import apply

    before = (slice(None),) * axis
    return apply(TABLE["concat"], (x[(*before, slice(None, EDGE))], x[(*before, slice(-EDGE, None))]), {"axis": axis})


def _flat(values: Any, depth: int) -> list[Any]:
    values = values if depth else [values]
    for _ in range(depth - 1):
        values = [item for row in values for item in row]
    return list(values)


def _number(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.4g}"
        return text if any(mark in text for mark in ".ein") else text + "."
    return str(value)


def _rows(texts: Any, edges: list[bool], indent: int) -> str:
    if isinstance(texts, str):
        return texts.strip()
    inner = [_rows(row, edges[1:], indent + 1) if not isinstance(row, str) else row for row in texts]
    if edges[0]:
        inner.insert(EDGE, "...")
    gap = ", " if isinstance(texts[0], str) else "," + "\n" * (len(edges) - 1) + " " * (indent + 1)
    return f"[{gap.join(inner)}]"


HOST = 1  # DLPack's number of the host's memory


def is_elsewhere(data: Any) -> bool:
    """Whether `data` says through DLPack that it is not in the host's memory."""
    place = getattr(data, "__dlpack_device__", None)
    return place is not None and int(place()[0]) != HOST
