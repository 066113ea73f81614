"""`Tensor`: a handle, a device, and a record of how it was made.

To follow one ``x * y``: `binary` below calls the device's kernel and appends the record; `micrograd_core.ops` holds the
gradient rule; `autograd.sweep` applies it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from micrograd_core import autograd
from micrograd_core.autograd import Leaf, Record, Version, is_grad_enabled
from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import DType, check_scalar, promote
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.errors import (
    DeviceMismatch,
    DTypeError,
    GraphError,
    MicrogradError,
    OutOfMemory,
    ShapeError,
    UnsupportedDType,
    one_of,
)
from micrograd_core.host import describe, elements, ingest
from micrograd_core.layout import Layout, resolve_axis, resolve_key
from micrograd_core.ops import TABLE, Op

new = object.__new__
NO_PARAMS: dict[str, Any] = {}
ALL_AXES: dict[str, Any] = {"axis": None, "keepdims": False}
SCALARS = (bool, int, float, complex)


class Storage:
    """A piece of memory that several tensors share: who they are, and which version of it is current.

    Made when a tensor is first viewed, or first saved by a record although it records nothing itself.
    """

    __slots__ = ("holders", "tracked", "version")

    def __init__(self, first: Tensor) -> None:
        self.version = Version()
        self.tracked = first._record is not None  # some holder records gradients
        self.holders = [weakref.ref(first)]

    def add(self, tensor: Tensor) -> None:
        """Let `tensor` share this memory."""
        if len(self.holders) & (len(self.holders) - 1) == 0:  # at powers of two: drop those that are gone
            self.holders = [ref for ref in self.holders if ref() is not None]
        self.holders.append(weakref.ref(tensor))
        self.tracked |= tensor._record is not None
        tensor._storage = self

    def shared_beyond(self, *tensors: Any) -> bool:
        """Whether a living tensor other than these looks at this memory."""
        return any(holder is not None and all(holder is not t for t in tensors) for holder in (ref() for ref in self.holders))

    def written(self) -> None:
        """Tell all records that saved this memory that it has changed."""
        self.version.stale = True
        self.version = Version()


def storage(tensor: Tensor) -> Storage:
    """The storage of a tensor, made if nobody needed it so far."""
    if tensor._storage is None:
        tensor._storage = Storage(tensor)
    return tensor._storage


# ── the path of every operation ──────────────────────────────────────────────────────────────────────────────


def wrap(handle: Any, kernels: Any, dtype: DType, record: Any) -> Tensor:
    """A tensor around a handle."""
    out = new(Tensor)
    out._handle, out._kernels, out.dtype, out._record, out._storage = handle, kernels, dtype, record, None
    return out


def apply(op: Op, operands: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS) -> Tensor:
    """Run `op` on tensors and Python scalars: check, promote, call the kernel, record.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError, UnsupportedOp, OutOfMemory
    """
    kernels, dtype, operands = prepare(op, operands)
    if op.gradient is None and op.compose is not None and is_grad_enabled() and any(map(_records, operands)):
        result: Tensor = op.compose(Recorded.of(kernels), *operands, **params)
        return result
    handles = [x._handle if x.__class__ is Tensor else x for x in operands]
    try:
        handle = getattr(kernels, op.name)(*handles, **params)
    except Exception as error:
        raise explain(op, kernels, operands, params, error) from error
    result_dtype = dtype if op.result == "same" else op.result(dtype, params)  # type: ignore[operator]
    out = wrap(handle, params.get("target", kernels), result_dtype, None)
    if not isinstance(op.gradient, str) and is_grad_enabled() and result_dtype.is_floating and any(map(_records, operands)):
        record = [op, out._kernels, params, handle]
        for x, saved in zip(operands, handles, strict=True):
            record += (_parent(x), saved)
        out._record = record
    if op.view:
        storage(operands[0]).add(out)
    return out


def _records(x: Any) -> bool:
    return x.__class__ is Tensor and x._record is not None


def _parent(x: Any) -> Any:
    """What a record keeps of where an operand came from."""
    if x.__class__ is not Tensor:
        return None
    return x._record if x._record is not None else storage(x).version


def prepare(op: Op, operands: tuple[Any, ...]) -> tuple[Any, DType, tuple[Any, ...]]:
    """The kernels, the common dtype, and the operands as tensors of that dtype or scalars that fit it."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        operands = (asarray(operands[0]), *operands[1:])
        tensors = [operands[0]]
    kernels = tensors[0]._kernels
    prepared: list[Any] = [x if isinstance(x, (Tensor, *SCALARS)) else _host_operand(op, x, tensors[0]) for x in operands]
    if any(x._kernels is not kernels for x in prepared if isinstance(x, Tensor)):
        raise DeviceMismatch(op.name, [(x.device, x.shape) for x in prepared if isinstance(x, Tensor)])
    dtype: DType | None = None
    for position, x in enumerate(prepared):
        if isinstance(x, Tensor):
            if x.dtype.kind not in op.accepted(position):
                raise _refusal(op, position, x)
            if position not in op.separate and x.dtype is not dtype:
                dtype = x.dtype if dtype is None else promote(op.name, dtype, x.dtype)
    if dtype is None:  # only scalars take part in promotion: where(condition, 1.0, 0.0)
        dtype = asarray(max((x for i, x in enumerate(prepared) if i not in op.separate), key=lambda x: SCALARS.index(type(x)))).dtype
        first = next(i for i in range(len(prepared)) if i not in op.separate)
        prepared[first] = asarray(prepared[first], dtype=dtype, device=kernels.device)
    if op.cast is not None:
        dtype = op.cast(dtype)
    for position, x in enumerate(prepared):
        if not isinstance(x, Tensor):
            check_scalar(op.name, x, dtype)
            if type(x) not in SCALARS:  # a NumPy scalar is a float too, but not a weak one
                prepared[position] = next(kind for kind in SCALARS if isinstance(x, kind))(x)
        elif position not in op.separate and x.dtype is not dtype:
            prepared[position] = apply(TABLE["astype"], (x,), {"dtype": dtype})
    return kernels, dtype, tuple(prepared)


def _host_operand(op: Op, x: Any, beside: Tensor) -> Any:
    """A number or an array of another library: the first is a scalar, the second welcome where nothing has to move."""
    if getattr(x, "shape", None) == () and hasattr(x, "item"):
        return x.item()
    if not hasattr(x, "__array__") and not hasattr(x, "__array_interface__"):
        raise TypeError(f"{op.name}: operands are tensors and numbers; got {type(x).__name__}. Wrap it with Tensor(...) or asarray(...)")
    if not beside.device.is_cpu():
        raise DeviceMismatch(op.name, [(beside.device, beside.shape), ("the host", tuple(x.shape))])
    return asarray(x, device=beside.device)


def _refusal(op: Op, position: int, x: Tensor) -> DTypeError:
    accepted = op.accepted(position)
    where = f" as operand {position + 1}" if op.operands > 1 else ""
    advice = "; convert it with x.astype('float32')" if "real floating" in accepted and "bool" not in accepted else ""
    return DTypeError(f"{op.name} takes {one_of(sorted(accepted))} dtypes{where}; got {x.dtype} (shape {x.shape}){advice}")


def explain(op: Op, kernels: Any, operands: tuple[Any, ...], params: dict[str, Any], error: Exception) -> BaseException:
    """The error to raise when a kernel refused: our sentence where we know one, else its own with a note."""
    if isinstance(error, MicrogradError):
        return error
    shapes = [getattr(x, "shape", ()) for x in operands]
    if op.check is not None:
        try:
            op.check(op.name, *shapes, **params)
        except MicrogradError as ours:
            return ours
    if isinstance(error, MemoryError):
        return OutOfMemory(str(kernels.device), getattr(error, "asked", None), **_pick(kernels.memory(), "in_use", "reserved"))
    dtypes = [str(x.dtype) if isinstance(x, Tensor) else repr(x) for x in operands]
    error.add_note(f"in {op.name} on {kernels.device}: shapes {shapes}, dtypes {dtypes}, parameters {params}")
    return error


def _pick(figures: dict[str, int], *names: str) -> dict[str, int]:
    return {name: figures[name] for name in names if name in figures}


class Recorded:
    """A kernel table whose functions take and give tensors, and record: what makes a sweep differentiable."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels

    @staticmethod
    def of(kernels: Any) -> Recorded:
        """The recorded table of a device, made once."""
        table: Recorded | None = kernels.__dict__.get("recorded")
        if table is None:
            table = kernels.recorded = Recorded(kernels)
        return table

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        op = TRANSFER if name == "transfer" else TABLE.get(name)
        if op is None:
            raise AttributeError(name)
        if op.operands == 0:
            function: Callable[..., Tensor] = partial(create, op, self._kernels)
        else:
            function = lambda *operands, **params: apply(op, operands, params)  # noqa: E731
        setattr(self, name, function)
        return function

    def lift(self, handle: Any, parent: Any) -> Any:
        """A saved operand as the tensor it was; scalars as they are."""
        if parent is None:
            return handle
        kernels = parent[1] if parent.__class__ is list else parent.kernels if parent.__class__ is Leaf else self._kernels
        return wrap(handle, kernels, kernels.dtype(handle), None if parent.__class__ is Version else parent)

    def dtype(self, x: Tensor) -> DType:
        return x.dtype


def create(op: Op, kernels: Any, *args: Any, dtype: DType, **params: Any) -> Tensor:
    """Run an operation without operands on a device."""
    kernels.native(dtype)
    try:
        handle = getattr(kernels, op.name)(*args, dtype=dtype, **params)
    except Exception as error:
        raise explain(op, kernels, (), params, error) from error
    return wrap(handle, kernels, dtype, None)


TRANSFER = Op(
    "transfer",
    "The same numbers on another device.",
    accepts=TABLE["copy"].accepts,
    gradient=(lambda k, g, out, x, *, source, target: k.transfer(g, source=target, target=source),),
    gradient_aliases=True,
)


# ── methods made from the table ──────────────────────────────────────────────────────────────────────────────


def binary(name: str, *, same_dtype: bool = True) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflection. The hot path: two recorded tensors of one device and dtype need no preparation."""
    op = TABLE[name]
    floating = not isinstance(op.gradient, str)

    def operator(x: Tensor, y: Any) -> Any:
        kernels = x._kernels
        if y.__class__ is not Tensor or y._kernels is not kernels or y.dtype is not x.dtype or x.dtype.kind not in op.accepts:
            return _fallback(op, x, y)
        a, b = x._handle, y._handle
        try:
            handle = getattr(kernels, name)(a, b)
        except Exception as error:
            raise explain(op, kernels, (x, y), NO_PARAMS, error) from error
        out = new(Tensor)
        out._handle, out._kernels, out.dtype, out._storage = handle, kernels, x.dtype, None
        p, q = x._record, y._record
        if (p is None and q is None) or not is_grad_enabled():
            out._record = None
        else:
            out._record = [
                op, kernels, NO_PARAMS, handle,
                p if p is not None else storage(x).version, a,
                q if q is not None else storage(y).version, b,
            ]  # fmt: skip
        return out

    def unrecorded(x: Tensor, y: Any) -> Any:
        return _fallback(op, x, y)

    def reflected(x: Tensor, y: Any) -> Any:
        return _fallback(op, y, x)

    operator.__doc__ = unrecorded.__doc__ = op.doc
    return (operator if floating and same_dtype else unrecorded), reflected


def _fallback(op: Op, x: Any, y: Any) -> Any:
    for operand in (x, y):
        if not isinstance(operand, (Tensor, *SCALARS)) and not hasattr(operand, "__array__"):
            return NotImplemented
    return apply(op, (x, y))


def unary(name: str) -> Callable[[Any], Tensor]:
    """A method without parameters."""
    op = TABLE[name]

    def method(x: Tensor) -> Tensor:
        if op.result != "same" or x.dtype.kind not in op.accepts:
            return apply(op, (x,))
        kernels, a, p = x._kernels, x._handle, x._record
        try:
            handle = getattr(kernels, name)(a)
        except Exception as error:
            raise explain(op, kernels, (x,), NO_PARAMS, error) from error
        record: Record | None = None
        if p is not None and is_grad_enabled():
            record = [op, kernels, NO_PARAMS, handle, p, a]
        return wrap(handle, kernels, x.dtype, record)

    method.__doc__ = op.doc
    return method


def reduction(name: str) -> Callable[..., Tensor]:
    """A method that reduces over axes; over all of them by default."""
    op = TABLE[name]
    parameters = op.parameters
    assert parameters is not None

    def method(x: Tensor, axis: Any = None, keepdims: bool = False, **others: Any) -> Tensor:
        if axis is None and not keepdims and not others and name in ("sum", "mean"):
            return apply(op, (x,), ALL_AXES)
        return apply(op, (x,), parameters(x, axis=axis, keepdims=keepdims, **others))

    method.__doc__ = op.doc
    return method


def along(name: str) -> Callable[..., Tensor]:
    """A method that works along one axis, the last by default."""
    op = TABLE[name]

    def method(x: Tensor, axis: int = -1) -> Tensor:
        return apply(op, (x,), {"axis": resolve_axis(name, axis, len(x.shape))})

    method.__doc__ = op.doc
    return method


# ── Tensor ───────────────────────────────────────────────────────────────────────────────────────────────────


class Tensor:
    """An n-d array on some device that remembers how it was made.

    Parameters
    ----------
    data : number, nested sequence, Tensor, or any object with the buffer protocol or ``__array__``
        Copied.
    dtype : DType or str, optional
        By default that of `data`; for Python numbers ``float32``, ``int64``, ``bool`` or ``complex64``.
    device : Device or str, optional
        By default that of `data` if it is a tensor, else `default_device`.
    requires_grad : bool, optional
        Record what is computed from this tensor. By default true for floating dtypes.

    Raises
    ------
    DTypeError, ShapeError
        When `data` is not numbers, or ragged.
    """

    __slots__ = ("__weakref__", "_handle", "_kernels", "_record", "_storage", "dtype")
    __array_ufunc__: ClassVar[None] = None  # so that ndarray * Tensor comes here

    _handle: Any
    _kernels: Any
    _record: Any
    _storage: Storage | None
    dtype: DType

    def __init__(
        self, data: Any, *, dtype: Any = None, device: str | Device | None = None, requires_grad: bool | None = None
    ) -> None:
        made = asarray(data, dtype=dtype, device=device)
        self._handle, self._kernels, self.dtype, self._storage, self._record = made._handle, made._kernels, made.dtype, None, None
        self.requires_grad = self.dtype.is_floating if requires_grad is None else requires_grad

    # attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self._handle.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._handle.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return Layout.contiguous(self.shape).size

    @property
    def device(self) -> Device:
        """Where the elements are."""
        device: Device = self._kernels.device
        return device

    @property
    def layout(self) -> Layout:
        """Shape, strides and offset in memory, in elements."""
        layout: Layout = self._kernels.layout(self._handle)
        return layout

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in memory between neighbours along each axis, in elements."""
        return self.layout.strides

    @property
    def offset(self) -> int:
        """Position of the first element in the memory it views, in elements."""
        return self.layout.offset

    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        return self.layout.is_contiguous

    def contiguous(self) -> Tensor:
        """This tensor if it is contiguous, else a contiguous copy."""
        return self if self.is_contiguous() else self.copy()

    # autograd

    @property
    def requires_grad(self) -> bool:
        """Whether what is computed from this tensor is recorded. Settable on tensors that were not computed."""
        return self._record is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted == self.requires_grad:
            return
        if wanted and not self.dtype.is_floating:
            raise DTypeError(f"only floating-point tensors record gradients; this one is {self.dtype}. Use x.astype('float32')")
        if not self.is_leaf:
            raise GraphError("a computed tensor records because its operands do; use .detach() for one that does not")
        self._record = Leaf(self._kernels) if wanted else None
        if self._storage is not None:
            self._storage.tracked |= wanted

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was not computed by a recorded operation."""
        return self._record.__class__ is not list

    @property
    def grad(self) -> Tensor | None:
        """What `backward` accumulated here: a tensor of this shape. ``None`` before, and on computed tensors."""
        return self._record.grad if self._record.__class__ is Leaf else None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if self._record.__class__ is not Leaf:
            raise GraphError("only a tensor that was not computed, and records, has a gradient to set")
        if value is not None:
            if not isinstance(value, Tensor):
                value = asarray(value, dtype=self.dtype, device=self.device)
            if value.shape != self.shape or value.dtype is not self.dtype:
                raise ShapeError(f"grad has shape {value.shape} and dtype {value.dtype}, the tensor {self.shape} and {self.dtype}")
            if value._kernels is not self._kernels:
                raise DeviceMismatch("grad", [(self.device, self.shape), (value.device, value.shape)])
        self._record.grad = value

    def zero_grad(self) -> None:
        """Forget the gradient."""
        if self._record.__class__ is Leaf:
            self._record.grad = None

    def backward(self, gradient: Any = None, *, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add the gradient of this tensor to ``.grad`` of every leaf it was computed from.

        Parameters
        ----------
        gradient : Tensor of this shape, optional
            The cotangent to start from; 1 for a tensor of shape ``()``, required for any other.
        retain_graph : bool, optional
            Keep the graph for another sweep; by default it is freed, unless `create_graph`.
        create_graph : bool
            Record the sweep itself, so that the gradients can be differentiated again.

        Raises
        ------
        GraphError
            When nothing was recorded, the graph was freed, or a saved operand was written to.
        """
        autograd.backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph)

    def detach(self) -> Tensor:
        """The same memory, outside the graph."""
        out = wrap(self._handle, self._kernels, self.dtype, None)
        storage(self).add(out)
        return out

    @property
    def data(self) -> Tensor:
        """The numbers without the graph, as `detach`. Assigning replaces them and keeps the tensor's place as a leaf."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not self.is_leaf:
            raise GraphError("the numbers of a computed tensor cannot be replaced; assign to the tensors it was computed from")
        value = value if isinstance(value, Tensor) else asarray(value, dtype=self.dtype, device=self.device)
        if value.shape != self.shape or value.dtype is not self.dtype:
            raise ShapeError(f"data has shape {value.shape} and dtype {value.dtype}, the tensor {self.shape} and {self.dtype}")
        if value._kernels is not self._kernels:
            raise DeviceMismatch("data", [(self.device, self.shape), (value.device, value.shape)])
        self._handle = value._handle
        storage(value).add(self)

    # elementwise

    __add__, __radd__ = binary("add")
    __sub__, __rsub__ = binary("subtract")
    __mul__, __rmul__ = binary("multiply")
    __truediv__, __rtruediv__ = binary("divide")
    __pow__, __rpow__ = binary("pow")
    __matmul__, __rmatmul__ = binary("matmul")
    __and__, __rand__ = binary("bitwise_and")
    __or__, __ror__ = binary("bitwise_or")
    __xor__, __rxor__ = binary("bitwise_xor")
    __lt__, __gt__ = binary("less", same_dtype=False)[0], binary("greater", same_dtype=False)[0]
    __le__, __ge__ = binary("less_equal", same_dtype=False)[0], binary("greater_equal", same_dtype=False)[0]
    __eq__ = binary("equal", same_dtype=False)[0]
    __ne__ = binary("not_equal", same_dtype=False)[0]
    __hash__ = object.__hash__
    __neg__ = unary("negative")
    __pos__ = unary("positive")
    __abs__ = unary("abs")
    __invert__ = unary("bitwise_invert")

    abs = unary("abs")
    exp = unary("exp")
    log = unary("log")
    sqrt = unary("sqrt")
    square = unary("square")
    sin = unary("sin")
    cos = unary("cos")
    tanh = unary("tanh")
    sigmoid = unary("sigmoid")
    relu = unary("relu")
    copy = unary("copy")

    # reductions and softmaxes

    sum = reduction("sum")
    mean = reduction("mean")
    max = reduction("max")
    min = reduction("min")
    var = reduction("var")
    std = reduction("std")
    any = reduction("any")
    all = reduction("all")
    argmax = reduction("argmax")
    logsumexp = reduction("logsumexp")
    softmax = along("softmax")
    log_softmax = along("log_softmax")

    def matmul(self, other: Tensor) -> Tensor:
        """``self @ other``."""
        return apply(TABLE["matmul"], (self, other))

    def dot(self, other: Tensor) -> Tensor:
        """``self @ other``."""
        return apply(TABLE["matmul"], (self, other))

    # shape and selection

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``. A view where strides allow it."""
        return _call("reshape", self, shape[0] if len(shape) == 1 else shape)

    def permute_dims(self, *axes: Any) -> Tensor:
        """Axes in another order. A view."""
        return _call("permute_dims", self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def transpose(self, *axes: Any) -> Tensor:
        """Two axes exchanged: ``x.transpose(0, 1)``; without arguments, all axes reversed. A view.

        Three or more axes, or a tuple of them, give the whole new order.
        """
        if len(axes) == 2:
            order = list(range(self.ndim))
            i, j = (resolve_axis("transpose", axis, self.ndim) for axis in axes)
            order[i], order[j] = j, i
            return _call("permute_dims", self, tuple(order))
        return self.permute_dims(*axes) if axes else _call("permute_dims", self, tuple(range(self.ndim))[::-1])

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The transpose of a matrix. A view."""
        if self.ndim != 2:
            raise ShapeError(f"T is for matrices; this tensor has shape {self.shape}. Use .mT, or .transpose(i, j)")
        return self.mT

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged. A view."""
        if self.ndim < 2:
            raise ShapeError(f"mT needs at least two axes; this tensor has shape {self.shape}")
        return self.transpose(-2, -1)

    def slice(self, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
        """``x[start:stop:step]`` along the axis `dim`. A view."""
        axis = resolve_axis("slice", dim, self.ndim)
        return self[tuple(slice(start, stop, step) if each == axis else slice(None) for each in range(self.ndim))]

    def broadcast_to(self, *shape: Any) -> Tensor:
        """Axes of length 1, or missing on the left, repeated to `shape`. A view."""
        return _call("broadcast_to", self, shape[0] if len(shape) == 1 else shape)

    def expand_dims(self, axis: Any) -> Tensor:
        """Axes of length 1 inserted. A view."""
        return _call("expand_dims", self, axis=axis)

    def squeeze(self, axis: Any) -> Tensor:
        """Axes of length 1 dropped. A view."""
        return _call("squeeze", self, axis)

    def flip(self, axis: Any = None) -> Tensor:
        """Elements in reverse order. A view."""
        return _call("flip", self, axis=axis)

    def __getitem__(self, key: Any) -> Tensor:
        return apply(TABLE["getitem"], (self,), {"key": resolve_key(key, self.shape)})

    def __setitem__(self, key: Any, value: Any) -> None:
        write(self, key, value)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    # type and place

    def astype(self, dtype: Any) -> Tensor:
        """Elements converted to `dtype`."""
        return apply(TABLE["astype"], (self,), {"dtype": as_dtype(dtype)})

    def float(self) -> Tensor:
        """As float32."""
        return self.astype("float32")

    def to(self, device: str | Device) -> Tensor:
        """The same numbers on another device, in the same graph; this tensor if it is there already."""
        target = Device(device).kernels
        if target is self._kernels:
            return self
        return apply(TRANSFER, (self,), {"source": self._kernels, "target": target})

    def cpu(self) -> Tensor:
        """``to("cpu")``."""
        return self.to("cpu")

    def cuda(self, index: int = 0) -> Tensor:
        """``to("cuda:index")``."""
        return self.to(Device.cuda(index))

    # out of the library

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor."""
        return elements(self._kernels.to_host(self._handle), self.shape, self.dtype)

    def item(self) -> Any:
        """The one element as a Python number."""
        if self.size != 1:
            raise ShapeError(f"item() is for tensors of one element; this one has shape {self.shape}. Use .tolist()")
        return _call("reshape", self.detach(), ()).tolist()

    def numpy(self) -> Any:
        """A NumPy copy."""
        import numpy

        array = numpy.frombuffer(self._kernels.to_host(self._handle), dtype=self.dtype.name)
        return array.reshape(self.shape).copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self.requires_grad:
            raise TypeError("this tensor records gradients, and a NumPy array cannot; convert it with x.detach().numpy()")
        if not self.device.is_cpu():
            raise TypeError(f"this tensor is on {self.device}; nothing is moved implicitly. Use x.numpy()")
        if copy is False:
            raise ValueError("a Tensor is always copied into a NumPy array")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(f"the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()")
        return bool(self.item())

    def __index__(self) -> int:
        if not (self.dtype.is_integer and self.ndim == 0):
            raise TypeError(f"only 0-d integer tensors can be an index; this one is {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __repr__(self) -> str:
        return describe(self)

    def __reduce__(self) -> Any:
        return _restore, (bytes(self._kernels.to_host(self._handle)), self.shape, self.dtype, self.device, self.requires_grad)


def _restore(data: bytes, shape: tuple[int, ...], dtype: DType, device: Device, requires_grad: bool) -> Tensor:
    out = wrap(device.kernels.upload(data, shape, dtype), device.kernels, dtype, None)
    out.requires_grad = requires_grad
    return out


def _call(name: str, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """An operation with parameters as the user writes them."""
    op = TABLE[name]
    assert op.parameters is not None
    return apply(op, (x,), op.parameters(x, *args, **kwargs))


def asarray(data: Any, *, dtype: Any = None, device: str | Device | None = None, copy: bool | None = None) -> Tensor:
    """A tensor that records nothing, with the elements of `data`. Parameters and errors as for `Tensor`.

    A tensor that already has the dtype and the device is returned as it is, unless `copy` is true.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if data.__class__ is Tensor:
        x = data if device is None else data.to(device)
        x = x if wanted is None or wanted is x.dtype else x.astype(wanted)
        return x.copy() if copy and x is data else x
    if copy is False:
        raise ValueError("asarray: host data is always copied to a device; only a Tensor can be taken without a copy")
    kernels = (default_device() if device is None else Device(device)).kernels
    buffer, shape, found, wanted = *ingest(data, wanted), wanted
    if found not in kernels._native:
        raise UnsupportedDType(found.name, str(kernels.device), kernels.backend.dtypes)
    try:
        handle = kernels.upload(buffer, shape, found)
    except MemoryError as error:
        raise explain(TABLE["copy"], kernels, (), NO_PARAMS, error) from error
    x = wrap(handle, kernels, found, None)
    return x if wanted is None or wanted is found else x.astype(wanted)


def write(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``. In place where nothing was recorded; on a recorded tensor a copy takes its place in the graph.

    Raises
    ------
    GraphError
        Where the write would have to change what others see of a recorded tensor: a leaf, or memory shared with views.
    """
    params = {"key": resolve_key(key, x.shape)}
    if not isinstance(value, (Tensor, *SCALARS)):
        value = asarray(value, device=x.device)
    if isinstance(value, Tensor):
        value = value if value.dtype is x.dtype else value.astype(x.dtype)
    scatter = TABLE["scatter"]
    assert scatter.parameters is not None
    scatter.parameters(x, value, **params)
    recorded = _records(x)
    if is_grad_enabled() and (recorded or _records(value)):
        if x._record.__class__ is Leaf:
            raise GraphError(
                "this tensor is a leaf that records gradients: writing into it would lose what its gradient refers to; "
                "use `with no_grad():` to change its numbers, or write into x.copy()"
            )
        _refuse_shared(x, value)
        out = apply(scatter, (x, value), params)
        x._handle, x._record, x._storage = out._handle, out._record, None
        return
    kernels, _, (_, value) = prepare(scatter, (x, value))
    handle = value._handle if isinstance(value, Tensor) else value
    if not recorded:
        if x._storage is not None and x._storage.tracked:
            raise GraphError(
                "this tensor shares memory with one that records gradients, which would change unnoticed; "
                "write into a .copy(), or into that tensor under `with no_grad():`"
            )
        if kernels.assign(x._handle, handle, params["key"]):
            if x._storage is not None:
                x._storage.written()
            return
    _refuse_shared(x, value)
    x._handle, x._storage = kernels.scatter(x._handle, handle, **params), None


def _refuse_shared(x: Tensor, value: Any) -> None:
    if x._storage is not None and x._storage.shared_beyond(x, value):
        raise GraphError(
            "this tensor shares memory with another tensor (a view, or a detached one) that could not see the write; "
            "write into x.copy(), or delete the other one first"
        )


def shares_memory(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors look at common memory: false as soon as they are on different devices."""
    return x._kernels is y._kernels and bool(x._kernels.shares_memory(x._handle, y._handle))
