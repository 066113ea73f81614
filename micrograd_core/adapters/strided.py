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

They are never asked for nothing: no ``alloc(0)``, no empty ``write``, ``map`` or ``reduce``. A handle without elements
has no buffer, and the sum of nothing is filled in. `out` is fresh and contiguous, and no operand overlaps it; that of
``map("copy", …)`` may be any view. ``map``, but for ``"copy"``, and ``reduce`` may answer `NotImplemented` for integers
and truth values, of a dtype that the device keeps but does not compute in: the host computes then, in Python, slowly.
Three more may be written where they pay:

=================================  =====================================================================
``read_range(buffer, start, end)`` some bytes of a buffer, without the others
``free(buffer)``                   called once, when the last handle of a buffer is gone
``scan(op, out, x)``               ``out[i, j] = op over x[i, 0], …, x[i, j]``, for `scanned`
=================================  =====================================================================
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from micrograd_core.backend import PROTOCOL
from micrograd_core.dtypes import DTYPES, pack, unpack
from micrograd_core.errors import KernelBroken
from micrograd_core.layout import Key, Layout, Shape, broadcast_shapes, reduced_shape
from micrograd_core.ops import CORE_KERNELS, SAME, TABLE
from micrograd_core.ops.shared import span

MAPS: Final = frozenset(
    op.name for op in map(TABLE.__getitem__, CORE_KERNELS) if op.kind == "elementwise" and op.parameters is None
)
"""Operations that ``map`` must know, beside ``"copy"``, which also converts between dtypes, as `astype` asks."""

REDUCTIONS: Final = frozenset(name for name in CORE_KERNELS if TABLE[name].kind == "reduction")
"""Operations that ``reduce`` must know."""

OF_NOTHING: Final[Mapping[str, Any]] = {
    "sum": 0, "prod": 1, "any": False, "all": True, "count_nonzero": 0, "mean": float("nan"),
    "cumulative_sum": 0, "cumulative_prod": 1,
}  # fmt: skip
"""What reductions and scans of no elements are. Of those that are not here, such as ``max``, there is no answer."""


class Strided:
    """A handle: a buffer, where the elements lie in it, and their native dtype. Without elements there is no buffer."""

    __slots__ = ("buffer", "dtype", "layout", "owner")

    def __init__(self, buffer: Any, layout: Layout, dtype: Any, owner: Any = None) -> None:
        self.buffer, self.layout, self.dtype, self.owner = buffer, layout, dtype, owner

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self.layout.shape

    def view(self, layout: Layout) -> Strided:
        """The same buffer through another layout."""
        return Strided(self.buffer, layout, self.dtype, self.owner)


def cut(x: Strided, axis: int, start: int, stop: int) -> Strided:
    """A part of an axis."""
    return x.view(x.layout.index(span(x.shape, axis, start, stop)))


class Owner:
    """What all handles of a buffer hold: many a buffer, such as a number or ``bytes``, has no weak references."""

    __slots__ = ("__weakref__",)


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
    capabilities: frozenset[str] = frozenset({"array-api", "boolean-indexing", "data-dependent-shapes", "strided"})

    def __init__(
        self, device: str, dtypes: Mapping[str, Any], kernels: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self.device, self.dtypes = device, dtypes
        self._core = {native: DTYPES[name] for name, native in dtypes.items()}
        self._frees = type(self).free is not StridedBackend.free
        self.kernels: dict[str, Callable[..., Any]] = {
            "astype": lambda x, *, dtype: self._fresh("copy", x.shape, dtype, x),
            "broadcast_to": lambda x, *, shape: x.view(x.layout.broadcast_to(shape)),
            "copy": lambda x: self._fresh("copy", x.shape, x.dtype, x),
            "getitem": lambda x, *, key: x.view(x.layout.index(key)),
            "permute_dims": lambda x, *, axes: x.view(x.layout.permute(axes)),
            "reshape": self._reshape,
            "scatter": self._scatter,
            **{name: partial(self.elementwise, name) for name in MAPS},
            **{name: partial(self.reduction, name) for name in REDUCTIONS},
            **(kernels or {}),
        }

    # ── the author's part ────────────────────────────────────────────────────────────────────────────────────

    def alloc(self, count: int, dtype: Any) -> Any:
        """Allocate a buffer.

        Parameters
        ----------
        count : int
            The number of elements, at least one.
        dtype
            A native dtype.

        Returns
        -------
        buffer
            Any object: only this backend looks at it.
        """
        raise NotImplementedError

    def write(self, buffer: Any, data: Any) -> None:
        """Copy bytes into the start of a buffer.

        Parameters
        ----------
        buffer
            From `alloc`.
        data : buffer
            Elements in C order, as what supports the buffer protocol.
        """
        raise NotImplementedError

    def read(self, buffer: Any) -> Any:
        """All bytes of a buffer, when they are there.

        Parameters
        ----------
        buffer
            From `alloc`.

        Returns
        -------
        buffer
            What supports the buffer protocol.
        """
        raise NotImplementedError

    def map(self, op: str, out: Strided, *operands: Any) -> Any:
        """Fill a handle elementwise.

        Parameters
        ----------
        op : str
            The operation, or ``"copy"``, which converts to the dtype of `out`.
        out : Strided
            What is filled.
        *operands : Strided or number
            Of the shape of `out`.

        Returns
        -------
        None or NotImplemented
            The latter declines, and nothing is written.
        """
        raise NotImplementedError

    def reduce(self, op: str, out: Strided, x: Strided) -> Any:
        """Fill a handle by reducing another one.

        Parameters
        ----------
        op : str
            The operation, such as ``"sum"``.
        out : Strided
            What is filled.
        x : Strided
            Its first axes are those of `out`; the others are reduced.

        Returns
        -------
        None or NotImplemented
            The latter declines, and nothing is written.
        """
        raise NotImplementedError

    # ── what the author may add ──────────────────────────────────────────────────────────────────────────────

    def read_range(self, buffer: Any, start: int, end: int) -> Any:
        """Some bytes of a buffer. By default they are cut out of all of them, which costs as much as all.

        Parameters
        ----------
        buffer
            From `alloc`.
        start, end : int
            The first byte, and the one after the last.

        Returns
        -------
        buffer
            What supports the buffer protocol.
        """
        return memoryview(self.read(buffer)).cast("B")[start:end]

    def free(self, buffer: Any) -> None:
        """Give memory back to the device. By default nothing is done: the buffer frees itself.

        Parameters
        ----------
        buffer
            From `alloc`; no handle leads to it any more.
        """

    def scan(self, op: str, out: Strided, x: Strided) -> None:
        """Fill a handle with what an operation makes of the elements so far along the last axis.

        Parameters
        ----------
        op : str
            The operation, such as ``"cumulative_sum"``.
        out : Strided
            What is filled.
        x : Strided
            Of the shape of `out`.
        """
        raise NotImplementedError

    # ── kernels over names of the author's own ───────────────────────────────────────────────────────────────

    def elementwise(self, name: str, *operands: Any, dtype: Any = None) -> Strided:
        """A kernel made of ``map(name, …)``: operands are broadcast, and the result is allocated.

        ``self.kernels["tanh"] = partial(self.elementwise, "tanh")`` is all that a ``map`` which knows tanh takes.

        Parameters
        ----------
        name : str
            What `map` is called with.
        *operands : Strided or number
            The operands.
        dtype : optional
            The native dtype of the result; by default what the op table says for `name`, or that of the operands.

        Returns
        -------
        Strided
        """
        handles = [x for x in operands if isinstance(x, Strided)]
        shape = broadcast_shapes(name, *(x.shape for x in handles))
        if name == "where" and len(handles) == 1:  # only the condition; two numbers choose among themselves
            raise TypeError("where needs at least one array beside the condition")
        return self._fresh(name, shape, dtype or self._result(name, handles[-1].dtype), *operands)

    def reduction(
        self, name: str, x: Strided, *, axis: Shape | int | None = None, keepdims: bool = False, dtype: Any = None
    ) -> Strided:
        """A kernel made of ``reduce(name, …)``: the axes are moved to the end.

        Parameters
        ----------
        name : str
            What `reduce` is called with.
        x : Strided
            The operand.
        axis : int or tuple of int, optional
            The axes to reduce; by default all.
        keepdims : bool, default False
            Whether they stay, with length 1.
        dtype : optional
            The native dtype of the result; by default what the op table says for `name`, or that of the operand.

        Returns
        -------
        Strided

        Raises
        ------
        ValueError
            When there are no elements, and the operation needs one.
        """
        ndim = len(x.shape)
        gone = tuple(range(ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
        kept = tuple(each for each in range(ndim) if each not in gone)
        out = self.empty(tuple(x.shape[each] for each in kept), dtype or self._result(name, x.dtype))
        if x.layout.size:
            moved = x.view(x.layout.permute((*kept, *gone)))
            if self.reduce(name, out, moved) is NotImplemented:
                self._on_host("reduce", name, out, [moved])
        elif out.layout.size:
            if name not in OF_NOTHING:
                raise ValueError(f"{name} of no elements: shape {x.shape}, axes {gone}")
            self.map("copy", out, OF_NOTHING[name])
        return out.view(Layout.contiguous(reduced_shape(x.shape, gone, keepdims)))

    def scanned(self, name: str, x: Strided, *, axis: int, include_initial: bool = False, dtype: Any = None) -> Strided:
        """A kernel made of ``scan(name, …)``: the axis is moved to the end.

        Parameters
        ----------
        name : str
            What `scan` is called with.
        x : Strided
            The operand.
        axis : int
            The axis.
        include_initial : bool, default False
            Whether the result begins with the identity of the operation.
        dtype : optional
            The native dtype of the result; by default what the op table says for `name`, or that of the operand.

        Returns
        -------
        Strided
        """
        order = (*(each for each in range(len(x.shape)) if each != axis), axis)
        moved = x.view(x.layout.permute(order))
        shape = (*moved.shape[:-1], moved.shape[-1] + include_initial)
        out = self.empty(shape, dtype or self._result(name, x.dtype))
        if include_initial and out.layout.size:
            self.map("copy", cut(out, -1, 0, 1), OF_NOTHING[name])
        if x.layout.size:
            self.scan(name, cut(out, -1, int(include_initial), shape[-1]), moved)
        return out.view(out.layout.permute(tuple(order.index(each) for each in range(len(order)))))

    def _result(self, name: str, dtype: Any) -> Any:
        """The native dtype of the result of `name`, from the op table where it has that."""
        told = TABLE[name].result if name in TABLE else SAME
        return dtype if told == SAME else self.dtypes[told(self._core[dtype], {}).name]  # type: ignore[operator]

    # ── the protocol, from those ─────────────────────────────────────────────────────────────────────────────

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """From the table made at construction."""
        return self.kernels.get(op)

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Strided:
        """A contiguous handle."""
        out = self.empty(shape, dtype)
        if out.layout.size:
            self.write(out.buffer, data)
        return out

    def to_host(self, x: Strided) -> Any:
        """A part of the buffer where `x` is contiguous, else of a contiguous copy's."""
        if not x.layout.size:
            return b""
        if not x.layout.is_contiguous:
            x = self._fresh("copy", x.shape, x.dtype, x)
        itemsize = self._core[x.dtype].itemsize
        start = x.layout.offset * itemsize
        return self.read_range(x.buffer, start, start + x.layout.size * itemsize)

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
        """In place, but where several elements are one in memory."""
        if x.layout.may_overlap:
            return False
        self._fill(x.view(x.layout.index(key)), values)
        return True

    def empty(self, shape: Shape, dtype: Any) -> Strided:
        """Make a contiguous handle on new memory, for a kernel to fill.

        Parameters
        ----------
        shape : tuple of int
            The lengths of the axes.
        dtype
            A native dtype.

        Returns
        -------
        Strided
        """
        layout = Layout.contiguous(shape)
        if not layout.size:
            return Strided(None, layout, dtype)
        buffer, owner = self.alloc(layout.size, dtype), None
        if self._frees:
            owner = Owner()
            weakref.finalize(owner, self.free, buffer).atexit = False
        return Strided(buffer, layout, dtype, owner)

    def _fresh(self, op: str, shape: Shape, dtype: Any, *operands: Any) -> Strided:
        """A new handle, mapped from operands that broadcast to `shape`."""
        out = self.empty(shape, dtype)
        aligned = [x.view(x.layout.broadcast_to(shape)) if isinstance(x, Strided) else x for x in operands]
        if out.layout.size and self.map(op, out, *aligned) is NotImplemented:
            self._on_host("map", op, out, aligned)
        return out

    def _on_host(self, asked: str, op: str, out: Strided, operands: list[Any]) -> None:
        """What `map` or `reduce` has declined, of integers and truth values."""
        from micrograd_core.adapters import integers  # which devices that compute everything never need

        dtypes = {self._core[x.dtype] for x in (out, *operands) if isinstance(x, Strided)}
        if op not in integers.COMPUTE[asked] or any(dtype.is_floating for dtype in dtypes):
            raise KernelBroken(
                self.device,
                op,
                f"NotImplemented from {asked} in {' and '.join(sorted(map(str, dtypes)))}",
                f"{asked} may decline integers and truth values, and of them {', '.join(integers.COMPUTE[asked])}",
                "Compute it on the device, or on the host within the backend",
            )
        given = [unpack(self.to_host(x), self._core[x.dtype]) if isinstance(x, Strided) else x for x in operands]
        dtype = self._core[out.dtype]
        self.write(out.buffer, pack(integers.compute(asked, op, given, out.layout.size, dtype), dtype))

    def _fill(self, view: Strided, values: Any) -> None:
        if isinstance(values, Strided):
            if self.shares_memory(view, values):
                values = self._fresh("copy", values.shape, values.dtype, values)
            values = values.view(values.layout.broadcast_to(view.shape))
        if view.layout.size:
            self.map("copy", view, values)

    def _reshape(self, x: Strided, *, shape: Shape) -> Strided:
        layout = x.layout.reshape(shape)
        if layout is None:
            return self._fresh("copy", x.shape, x.dtype, x).view(Layout.contiguous(shape))
        return x.view(layout)

    def _scatter(self, x: Strided, values: Any, *, key: Key) -> Strided:
        out = self._fresh("copy", x.shape, x.dtype, x)
        self._fill(out.view(out.layout.index(key)), values)
        return out


def _span(layout: Layout) -> tuple[int, int]:
    """The first and the last position that a layout reaches."""
    reach = [(length - 1) * stride for length, stride in zip(layout.shape, layout.strides, strict=True)]
    return layout.offset + sum(min(r, 0) for r in reach), layout.offset + sum(max(r, 0) for r in reach)
