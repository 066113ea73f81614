"""`StridedBackend`: a backend over flat buffers.

The author writes five functions; views, broadcasting, selection and assignment are arithmetic on `Layout`, done here:

=======================  ===============================================================================
``alloc(count, dtype)``  a new buffer for `count` elements, contents undefined
``write(buffer, data)``  copy C-order bytes into the start of a buffer
``read(buffer)``         all bytes of a buffer
``map(op, out, *xs)``    ``out[i] = op(x[i], ...)`` for every index; operands have the shape of `out`, or
                         are numbers
``reduce(op, out, x)``   ``out[i] = op over j of x[i, j]``; the reduced axes of `x` are its last ones
=======================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from micrograd_core.backend import PROTOCOL
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Key, Layout, Shape, broadcast_shapes, reduced_shape

MAPS: Final = frozenset(
    "add multiply divide pow maximum less equal bitwise_and bitwise_or bitwise_xor exp log sin sqrt floor where".split()
)
"""Operations that ``map`` must know, beside ``"copy"``, which also converts between dtypes."""

REDUCTIONS: Final = frozenset({"sum", "max"})
"""Operations that ``reduce`` must know. The sum of nothing is 0; ``max`` is never asked of nothing."""


class Strided:
    """A handle: a buffer, where the elements lie in it, and their native dtype."""

    __slots__ = ("buffer", "dtype", "layout")

    def __init__(self, buffer: Any, layout: Layout, dtype: Any) -> None:
        self.buffer, self.layout, self.dtype = buffer, layout, dtype

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self.layout.shape

    def view(self, layout: Layout) -> Strided:
        """The same buffer through another layout."""
        return Strided(self.buffer, layout, self.dtype)


class StridedBackend:
    """A backend that needs only ``alloc``, ``write``, ``read``, ``map`` and ``reduce`` (see the module's table).

    Parameters
    ----------
    device : str
        Canonical name, such as ``"mine:0"``.
    dtypes : mapping
        Core dtype name to native dtype.
    kernels : mapping, optional
        Operations with kernels of their own, on `Strided` handles: for speed, where the composition is slow.
    """

    protocol = PROTOCOL
    capabilities: frozenset[str] = frozenset({"boolean-indexing", "data-dependent-shapes", "strided"})

    def __init__(
        self, device: str, dtypes: Mapping[str, Any], kernels: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self.device, self.dtypes = device, dtypes
        self._itemsize = {native: DTYPES[name].itemsize for name, native in dtypes.items()}
        self.kernels: dict[str, Callable[..., Any]] = {
            "astype": lambda x, *, dtype: self._fresh("copy", x.shape, dtype, x),
            "broadcast_to": lambda x, *, shape: x.view(x.layout.broadcast_to(shape)),
            "copy": lambda x: self._fresh("copy", x.shape, x.dtype, x),
            "getitem": lambda x, *, key: x.view(x.layout.index(key)),
            "permute_dims": lambda x, *, axes: x.view(x.layout.permute(axes)),
            "reshape": self._reshape,
            "scatter": self._scatter,
            **{name: partial(self._elementwise, name) for name in MAPS},
            **{name: partial(self._reduction, name) for name in REDUCTIONS},
            **(kernels or {}),
        }

    # ── the author's part ────────────────────────────────────────────────────────────────────────────────────

    def alloc(self, count: int, dtype: Any) -> Any:
        """A new buffer for `count` elements."""
        raise NotImplementedError

    def write(self, buffer: Any, data: Any) -> None:
        """Copy C-order bytes into the start of `buffer`."""
        raise NotImplementedError

    def read(self, buffer: Any) -> Any:
        """All bytes of `buffer`, when they are there."""
        raise NotImplementedError

    def map(self, op: str, out: Strided, *operands: Any) -> None:
        """Fill `out` elementwise. Operands are `Strided` of the shape of `out`, or Python numbers."""
        raise NotImplementedError

    def reduce(self, op: str, out: Strided, x: Strided) -> None:
        """Fill `out` by reducing `x`, whose first axes are those of `out`, over the remaining ones."""
        raise NotImplementedError

    # ── the protocol, from those ─────────────────────────────────────────────────────────────────────────────

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """From the table made at construction."""
        return self.kernels.get(op)

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Strided:
        """A contiguous handle."""
        out = self.empty(shape, dtype)
        self.write(out.buffer, data)
        return out

    def to_host(self, x: Strided) -> Any:
        """A slice of the buffer where `x` is contiguous, else a contiguous copy's."""
        if not x.layout.is_contiguous:
            x = self._fresh("copy", x.shape, x.dtype, x)
        itemsize = self._itemsize[x.dtype]
        start = x.layout.offset * itemsize
        return memoryview(self.read(x.buffer)).cast("B")[start : start + x.layout.size * itemsize]

    def layout(self, x: Strided) -> Layout:
        """Kept on the handle."""
        return x.layout

    def shares_memory(self, x: Strided, y: Strided) -> bool:
        """Whether the spans of two handles overlap in one buffer."""
        if x.buffer is not y.buffer or 0 in x.shape or 0 in y.shape:
            return False
        (first, last), (start, stop) = _span(x.layout), _span(y.layout)
        return first <= stop and start <= last

    def assign(self, x: Strided, values: Any, key: Key) -> bool:
        """In place."""
        self._fill(x.view(x.layout.index(key)), values)
        return True

    def empty(self, shape: Shape, dtype: Any) -> Strided:
        """A contiguous handle on new memory, for a kernel to fill."""
        layout = Layout.contiguous(shape)
        return Strided(self.alloc(layout.size, dtype), layout, dtype)

    def _fresh(self, op: str, shape: Shape, dtype: Any, *operands: Any) -> Strided:
        """A new handle, mapped from operands that broadcast to `shape`."""
        out = self.empty(shape, dtype)
        self.map(op, out, *(x.view(x.layout.broadcast_to(shape)) if isinstance(x, Strided) else x for x in operands))
        return out

    def _fill(self, view: Strided, values: Any) -> None:
        if isinstance(values, Strided):
            if self.shares_memory(view, values):
                values = self._fresh("copy", values.shape, values.dtype, values)
            values = values.view(values.layout.broadcast_to(view.shape))
        self.map("copy", view, values)

    def _elementwise(self, name: str, *operands: Any) -> Strided:
        handles = [x for x in operands if isinstance(x, Strided)]
        shape = broadcast_shapes(name, *(x.shape for x in handles))
        dtype = self.dtypes["bool"] if name in ("less", "equal") else handles[-1].dtype
        if name == "where" and len(handles) == 1:  # only the condition; two numbers choose among themselves
            raise TypeError("where needs at least one array beside the condition")
        return self._fresh(name, shape, dtype, *operands)

    def _reduction(self, name: str, x: Strided, *, axis: Shape | None, keepdims: bool) -> Strided:
        ndim = len(x.shape)
        gone = tuple(range(ndim)) if axis is None else axis
        kept = tuple(each for each in range(ndim) if each not in gone)
        out = self.empty(tuple(x.shape[each] for each in kept), x.dtype)
        self.reduce(name, out, x.view(x.layout.permute((*kept, *gone))))
        return out.view(Layout.contiguous(reduced_shape(x.shape, axis, keepdims)))

    def _reshape(self, x: Strided, *, shape: Shape) -> Strided:
        layout = x.layout.reshape(shape)
        return (
            x.view(layout)
            if layout is not None
            else self._fresh("copy", x.shape, x.dtype, x).view(Layout.contiguous(shape))
        )

    def _scatter(self, x: Strided, values: Any, *, key: Key) -> Strided:
        out = self._fresh("copy", x.shape, x.dtype, x)
        self._fill(out.view(out.layout.index(key)), values)
        return out


def _span(layout: Layout) -> tuple[int, int]:
    """The first and the last position that a layout reaches."""
    reach = [(length - 1) * stride for length, stride in zip(layout.shape, layout.strides, strict=True)]
    return layout.offset + sum(min(r, 0) for r in reach), layout.offset + sum(max(r, 0) for r in reach)
