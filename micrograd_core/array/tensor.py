"""`Tensor`: a handle, a device, and a record of how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from micrograd_core import errors
from micrograd_core.array.methods import Methods
from micrograd_core.array.places import At
from micrograd_core.device import Device, destination
from micrograd_core.dtypes import DType
from micrograd_core.engine.apply import TRANSFER, apply, apply_single
from micrograd_core.engine.array import detach, share, storage, wrap
from micrograd_core.engine.backward import backward
from micrograd_core.engine.graph import Leaf, is_node
from micrograd_core.engine.hooks import hook_leaf, register_hook
from micrograd_core.engine.ingest import as_array, elements, read
from micrograd_core.engine.keys import getitem
from micrograd_core.engine.modes import no_grad
from micrograd_core.engine.write import write
from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, MissingAxes, ShapeError
from micrograd_core.layout import Layout
from micrograd_core.ops import TABLE
from micrograd_core.support.context import at_hand, programs
from micrograd_core.support.size import Size

PERMUTE_DIMS = TABLE["permute_dims"]
SWAP_LAST_TWO = [{"axes": (*range(ndim - 2), ndim - 1, ndim - 2)} for ndim in range(65)]


class Tensor(Methods):
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

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, 2.0, 3.0])
    >>> (x * x).sum().backward()
    >>> x.grad
    Tensor([2., 4., 6.])
    """

    __slots__ = ()

    _grad: Tensor | None

    def __init__(
        self, data: Any, *, dtype: Any = None, device: str | Device | None = None, requires_grad: bool | None = None
    ) -> None:
        with no_grad():
            made = asarray(data, dtype=dtype, device=device, copy=True)
        self._handle, self._kernels, self.dtype = made._handle, made._kernels, made.dtype
        self._storage = self._record = None
        if self.dtype.is_floating if requires_grad is None else requires_grad:
            self.requires_grad = True

    # attributes

    @property
    def size(self) -> Size:
        """The number of elements, as an int; ``x.size()`` is the shape, and ``x.size(dim)`` the length of an axis."""
        return Size(self.shape)

    @property
    def layout(self) -> Layout:
        """The `Layout` in memory: shape, strides and offset, in elements."""
        return self._kernels.layout(self._handle)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance in memory between neighbours along each axis, in elements, as a tuple of int."""
        return self.layout.strides

    @property
    def offset(self) -> int:
        """The position of the first element in the memory that the tensor views, in elements, as an int."""
        return self.layout.offset

    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.zeros((2, 3))
        >>> x.is_contiguous(), x.T.is_contiguous()
        (True, False)
        """
        return self.layout.is_contiguous

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
            raise DTypeError(
                f"only floating-point tensors record gradients; this one is {self.dtype}. Use x.astype('float32')"
            )
        if not self.is_leaf:
            raise GraphError("a computed tensor records because its operands do; use .detach() for one that does not")
        self._record, self._grad, self._frozen = Leaf(self) if wanted else None, None, not wanted
        storage(self).saved = False
        storage(self).tracked = True  # also from now on if switched off: records have saved this memory

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was not computed by a recorded operation, as a bool."""
        trace = programs.get()  # where it stands for an input, as a leaf
        return not is_node(self._record) and (trace is None or not is_node(trace.records.get(id(self))))

    @property
    def grad(self) -> Tensor | None:
        """What `backward` accumulated here: a tensor of this shape. ``None`` before; if computed, with a warning."""
        if self._record.__class__ is Leaf:
            return self._grad
        return None if self._record is None else self._without_gradient()

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if self._record.__class__ is not Leaf and value is not None:
            raise GraphError("only a tensor that was not computed, and records, has a gradient to set")
        self._grad = None if value is None else _in_place_of(self, "grad", value)

    def zero_grad(self) -> None:
        """Forget the gradient: ``.grad`` becomes ``None``.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0, 2.0])
        >>> x.sum().backward()
        >>> x.zero_grad()
        >>> x.grad is None
        True
        """
        self.grad = None

    backward = backward
    register_hook = register_hook

    detach = detach

    @property
    def data(self) -> Tensor:
        """The numbers without the graph, as a Tensor, like `detach`. Assigning replaces them; this stays a leaf."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not self.is_leaf:
            raise GraphError(
                "the numbers of a computed tensor cannot be replaced; assign to the tensors it was computed from"
            )
        value = _in_place_of(self, "data", value)
        if value._handle is self._handle and value._storage is self._storage is not None:
            return  # as after ``x.data += 1``, which has written already
        self._handle, self._origin = value._handle, None
        share(value, self)
        storage(self).saved = False
        storage(self).replaced += 1

    # shape and selection

    def reshape(self, *shape: Any) -> Tensor:
        """Give the elements another shape, ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``.

        Parameters
        ----------
        *shape : int, or one tuple of int
            The lengths of the axes; one of them may be -1, and is then computed.

        Returns
        -------
        Tensor
            Of this dtype. A view if it can be.

        Raises
        ------
        ShapeError
            When the shape does not have as many elements.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(4).reshape(2, -1)
        Tensor([[0, 1],
                [2, 3]])
        """
        return _call("reshape", self, shape[0] if len(shape) == 1 else shape)

    def permute_dims(self, *axes: Any) -> Tensor:
        """Put the axes in another order.

        Parameters
        ----------
        *axes : int, or one tuple of int
            All axes of this tensor, in their new order.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError
            When the axes are not those of the tensor.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3, 4)).permute_dims(2, 0, 1).shape
        (4, 2, 3)
        """
        return _call("permute_dims", self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The transpose of a matrix, a Tensor that is a view."""
        if self.ndim != 2:
            raise MissingAxes(f"T is for matrices; this tensor has shape {self.shape}. Use .mT, or .transpose(i, j)")
        return self.mT

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The tensor with its last two axes exchanged, a Tensor that is a view."""
        if self.ndim < 2:
            raise MissingAxes(f"mT needs at least two axes; this tensor has shape {self.shape}")
        return apply_single(PERMUTE_DIMS, self, SWAP_LAST_TWO[self.ndim])

    def broadcast_to(self, *shape: Any) -> Tensor:
        """Repeat axes of length 1, or missing on the left, to a shape.

        Parameters
        ----------
        *shape : int, or one tuple of int
            The lengths of the axes of the result.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        ShapeError
            When the shapes do not fit.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([1, 2]).broadcast_to(2, 2)
        Tensor([[1, 2],
                [1, 2]])
        """
        return _call("broadcast_to", self, shape[0] if len(shape) == 1 else shape)

    __getitem__ = getitem
    __setitem__ = write
    at = property(At)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    # type and place

    def astype(self, dtype: Any) -> Tensor:
        """Convert the elements to another dtype.

        Parameters
        ----------
        dtype : DType or str
            Such as ``mg.float64`` or ``"float64"``.

        Returns
        -------
        Tensor
            Of this shape. Gradients flow from floating-point numbers to floating-point numbers.

        Raises
        ------
        DTypeError
            When there is no such dtype, or complex numbers would lose their imaginary parts.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([1.7, -1.7]).astype("int64")
        Tensor([ 1, -1])
        """
        return _call("astype", self, dtype)

    def to(self, device: str | Device | DType | None = None, dtype: Any = None) -> Tensor:
        """Copy to another device, another dtype, or both; the copy stays in the graph.

        Parameters
        ----------
        device : Device, str or None
            Where the copy is; a dtype, or a tensor whose device and dtype are taken, may stand here too.
        dtype : DType or str, optional
            The dtype of the copy.

        Returns
        -------
        Tensor
            Of this shape; this tensor itself if there is nothing to do.

        Raises
        ------
        TypeError
            When neither a device nor a dtype is given.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).to("cpu", "float64").dtype
        micrograd_core.float64
        """
        place, kind = destination(device, dtype)
        target = self._kernels if place is None else at_hand(place.kernels)
        converts = kind is not None and kind is not self.dtype
        if target is self._kernels:
            return self.astype(kind) if converts else self
        first = converts and kind in self._kernels._native  # for the target may lack the dtype that it has here
        x = self.astype(kind) if first else self
        x = apply(TRANSFER, (x,), {"source": self._kernels, "target": target})
        return x.astype(kind) if converts and not first else x

    # out of the library

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers.

        Returns
        -------
        list, or a number for a tensor of shape ``()``

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([[1, 2]]).tolist(), mg.asarray(3).tolist()
        ([[1, 2]], 3)
        """
        return elements(read(self._kernels, self._handle, self.dtype), self.shape, self.dtype)

    def item(self) -> Any:
        """The one element as a Python number.

        Returns
        -------
        bool, int, float or complex

        Raises
        ------
        ShapeError
            When the tensor does not have exactly one element.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([[2.5]]).item()
        2.5
        """
        if self.size != 1:
            raise ShapeError(f"item() is for tensors of one element; this one has shape {self.shape}. Use .tolist()")
        return _call("reshape", self.detach(), ()).tolist()

    def __float__(self) -> float:
        return float(self.item() if self._record is None else self._number())

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
        from micrograd_core.array.printing import describe

        return describe(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __reduce__(self) -> Any:
        grad, leaf = self._grad if self.requires_grad and self.is_leaf else None, self._record
        if not self.is_leaf or (grad is not None and not grad.is_leaf):
            what = "the .grad of this tensor (from create_graph=True)" if self.is_leaf else "this tensor"
            raise errors.not_copied(what, f"{'x.grad' if self.is_leaf else 'x'}.detach() for the numbers alone")
        hooks = None if leaf is None else leaf.hooks
        numbers = bytes(read(self._kernels, self._handle, self.dtype))
        facts = numbers, self.shape, self.dtype, self.device, None if is_frozen(self) else self.requires_grad
        return _restore, facts, (grad, hooks) if grad is not None or hooks else None

    def __setstate__(self, state: tuple[Tensor | None, dict[object, Any] | None]) -> None:
        self._grad, hooks = state
        if hooks:
            hook_leaf(self._record, hooks)


def _restore(data: bytes, shape: tuple[int, ...], dtype: DType, device: Device, requires_grad: bool | None) -> Tensor:
    out = wrap(Tensor, device.kernels.upload(data, shape, dtype), device.kernels, dtype, None)
    out.requires_grad, out._frozen = bool(requires_grad), requires_grad is None
    return out


def is_frozen(x: Tensor) -> bool:
    """Whether a tensor recorded once, or was made as a parameter, and does not record now."""
    return x._record is None and getattr(x, "_frozen", False)


def _in_place_of(x: Tensor, what: str, value: Any) -> Tensor:
    """A tensor, or numbers for one, that can become the gradient or the data of `x`."""
    made = value if isinstance(value, Tensor) else asarray(value, dtype=x.dtype, device=x.device)
    if made.shape != x.shape or made.dtype is not x.dtype:
        raise ShapeError(f"{what} has shape {made.shape} and dtype {made.dtype}, the tensor {x.shape} and {x.dtype}")
    if made._kernels is not x._kernels:
        raise DeviceMismatch(what, [(x.device, x.shape), (made.device, made.shape)])
    return made


def _call(name: str, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """An operation with parameters as the user writes them."""
    op = TABLE[name]
    return apply_single(op, x, op.parameters(x, *args, **kwargs))


def asarray(
    data: Any, *, dtype: Any = None, device: str | Device | None = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor with the elements of `data`, which records nothing unless asked to.

    A tensor that already has the dtype and the device is returned as it is, unless `copy` or `requires_grad` is true.
    Another library's array that the host cannot read stays where it is, and shares its memory unless `copy` is true.

    Parameters
    ----------
    data : Tensor, array, number, or nested sequence of numbers
        The elements, or another library's array.
    dtype : DType or str, optional
        By default that of an array, and bool, int64, float32 or complex64 for Python's numbers.
    device : Device or str, optional
        By default the one that a tensor is on, or the default device.
    copy : bool, optional
        ``True`` always copies, ``False`` never, ``None`` only where the dtype or the device changes.
    requires_grad : bool
        Whether gradients of the result are recorded; the elements are copied then.

    Returns
    -------
    Tensor
        Of the shape of `data`.

    Raises
    ------
    DTypeError
        When an element does not fit the dtype.
    ShapeError
        When nested sequences have different lengths.
    ValueError
        When `copy` is false, and a copy is needed, as it always is for data of the host.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.asarray([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [3, 4]])
    >>> mg.asarray([1, 2], dtype="float64").dtype
    micrograd_core.float64
    """
    if requires_grad:
        return Tensor(data, dtype=dtype, device=device, requires_grad=True)
    return as_array(Tensor, data, dtype=dtype, device=device, copy=copy)


def shares_memory(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors share memory.

    Parameters
    ----------
    x, y : Tensor
        Two tensors, of any shapes and dtypes.

    Returns
    -------
    bool
        False where they are on different devices.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.zeros((2, 3))
    >>> mg.shares_memory(x, x[0]), mg.shares_memory(x, x.copy())
    (True, False)
    """
    return x._kernels is y._kernels and bool(x._kernels.shares_memory(x._handle, y._handle))
