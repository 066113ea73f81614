"""Methods that those type who come from PyTorch or NumPy: another name for what a tensor has, or for a function.

A name that a tensor cannot have, as it means two things or nothing here, says what to use in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.array.operators import Operators, unary
from micrograd_core.device import Device
from micrograd_core.engine.apply import apply_single, reduction
from micrograd_core.engine.array import refuse_leaf
from micrograd_core.engine.write import write
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import both_spellings

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

Method = Callable[..., Any]
EXPAND_DIMS: Final = TABLE["expand_dims"]


class MethodDoc(str):
    """A docstring that names a function and a method. `inspect.getdoc`, and so `help`, adds what the function says.

    Only then is the docstring of the function made, and its family of operations imported.
    """

    def function(self) -> Any:
        """The function."""
        from pkgutil import resolve_name

        return resolve_name(self.split("`")[1])

    def expandtabs(self, tabsize: Any = 8) -> str:
        """What `inspect.getdoc` calls first: here it gives the whole docstring."""
        from micrograd_core.array.documentation import method_docstring

        return method_docstring(self, self.split("`")[3], self.function())


def along(name: str) -> Method:
    """A method that works along one axis, the last by default."""

    def method(x: Any, axis: Any = -1, *, dtype: Any = None) -> Any:
        if dtype is not None:
            x = x.astype(dtype)
        if not x.ndim:
            return getattr(x.__array_namespace__(), name)(x, axis)
        return apply_single(TABLE[name], x, {"axis": resolve_axis(name, axis, x.ndim)})

    method.__name__ = name
    method.__doc__ = MethodDoc(f"`micrograd_core.{name}` as the method `{name}`; `dtype` converts the elements before.")
    return both_spellings(method)


def by_words(name: str) -> Method:
    """A reduction that is PyTorch's where its words are used, and NumPy's otherwise: see `manners`."""
    plain = reduction(name)

    def method(x: Any, *args: Any, **named: Any) -> Any:
        if not args and not named and name in ("max", "min"):
            return plain(x)
        from micrograd_core.array import manners

        return manners.by_words(plain, name, x, args, named)

    method.__name__ = name
    return method


def in_manner(name: str) -> Method:
    """A method that `manners` has."""

    def method(x: Any, *args: Any, **named: Any) -> Any:
        from micrograd_core.array import manners

        return getattr(manners, name)(x, *args, **named)

    method.__name__ = name
    return method


def of_package(name: str) -> Method:
    """The function of that name of `micrograd_core`, whose first argument is the tensor."""

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x.__array_namespace__(), name)(x, *args, **kwargs)

    method.__name__ = name
    return method


def in_place(name: str) -> Method:
    """The method of that name, whose result is written into the tensor: PyTorch's methods that end in ``_``."""

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_leaf(x)
        found = getattr(x.copy(), name)(*args, **kwargs)
        truth = found.dtype.kind == "bool"  # of comparisons
        return _became(x, found.astype(x.dtype) if truth else found, *args[:1])

    method.__name__ = f"{name}_"
    return method


def _became(x: Any, found: Any, operand: Any = 0) -> Any:
    """`x`, once `found`, which nobody else has, is written into it, by the rules of ``x += operand``."""
    write(x, ..., found, operand)
    return x


def converted(dtype: str) -> Method:
    """A method that converts elements."""

    def method(x: Any) -> Any:
        """Convert the elements, as ``x.astype("DTYPE")`` does.

        Returns
        -------
        Tensor
            Of this shape and dtype DTYPE.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([0, 1]).NAME().dtype
        micrograd_core.DTYPE
        """
        return x.astype(dtype)

    method.__doc__ = (method.__doc__ or "").replace("DTYPE", dtype)
    return method


def _axes(axes: tuple[Any, ...]) -> Any:
    return axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes


def _drawn(x: Any, name: str, first: Any, second: Any, generator: Any) -> Tensor:
    draw = getattr(x.__array_namespace__().random, name)
    return draw(x.shape, first, second, dtype=x.dtype, device=x.device, generator=generator)


class Methods(Operators):
    """What a tensor has beside the standard's operators, and beside its own methods."""

    __slots__ = ()

    __array__, _number, _without_gradient = map(in_manner, ("as_ndarray", "number", "without_gradient"))

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """``ndarray * Tensor`` comes to the tensor's own operators; NumPy's functions say what to call instead."""
        reflected = REFLECTED.get(function.__name__)
        if method == "__call__" and reflected and not options and not isinstance(inputs[0], Methods):
            return getattr(inputs[1], reflected)(inputs[0])
        name = NUMPY.get(function.__name__, function.__name__)
        ours = f"mg.{name}(x), with mg for micrograd_core, or " if name in TABLE else ""
        raise TypeError(
            f"np.{function.__name__} takes NumPy's arrays; write {ours}np.{function.__name__}(x.detach().numpy())"
        )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The methods of `MADE`, for checkers that read no stubs."""

    # ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────

    @both_spellings
    def expand_dims(self: Any, axis: int | tuple[int, ...]) -> Tensor:
        """Insert axes of length 1.

        Parameters
        ----------
        axis : int or tuple of int
            Where they are in the result. Negative ones count from the end.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError
            When an axis lies outside of the result, or is given twice.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3)).expand_dims(0).shape
        (1, 2, 3)
        """
        return apply_single(EXPAND_DIMS, self, EXPAND_DIMS.parameters(self, axis))

    unsqueeze = expand_dims

    def view(self: Any, *shape: Any) -> Tensor:
        """Give the elements another shape, as `reshape` does, whose result is a view where it can be.

        Parameters
        ----------
        *shape : int, or one tuple of int
            The lengths of the axes; one of them may be -1, and is then computed.

        Returns
        -------
        Tensor
            Of this dtype.

        Raises
        ------
        TypeError
            For a dtype: bits are not read as another dtype.
        ShapeError
            When the shape does not have as many elements.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(4).view(2, -1).shape
        (2, 2)
        """
        if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
            raise TypeError(f"view: a shape is integers; got {shape[0]!r}. To convert elements, x.astype(dtype)")
        return self.reshape(*shape)

    def view_as(self: Any, other: Any) -> Tensor:
        """Give the elements the shape of another tensor.

        Parameters
        ----------
        other : Tensor
            A tensor with as many elements.

        Returns
        -------
        Tensor
            Of this dtype. A view where it can be.

        Raises
        ------
        ShapeError
            When the other tensor has another number of elements.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(4).view_as(mg.zeros((2, 2))).shape
        (2, 2)
        """
        return self.reshape(other.shape)

    reshape_as = view_as

    def permute(self: Any, *dims: Any, **named: Any) -> Tensor:
        """Put the axes in another order, as `permute_dims` does.

        Parameters
        ----------
        *dims : int, or one tuple of int
            All axes of this tensor, in their new order.
        **named
            ``dims=`` or ``axes=``: the order by name.

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
        >>> mg.zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        if named:
            return self.__array_namespace__().permute_dims(self, *dims, **named)
        return self.permute_dims(_axes(dims))

    def expand(self: Any, *sizes: Any) -> Tensor:
        """Repeat axes of length 1, or missing on the left, as `broadcast_to` does.

        Parameters
        ----------
        *sizes : int, or one tuple of int
            The lengths of the axes of the result; -1 leaves a length as it is.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        ShapeError
            When the lengths do not fit the shape.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 1)).expand(-1, 3).shape
        (2, 3)
        """
        wanted = tuple(_axes(sizes))
        missing = len(wanted) - self.ndim
        if missing < 0 or any(n == -1 for n in wanted[:missing]):
            raise ShapeError(f"expand: sizes {wanted} do not fit shape {self.shape}; there are at least as many, and a "
                             "new axis has a length")  # fmt: skip
        own = (*wanted[:missing], *self.shape)
        return self.broadcast_to(tuple(own[i] if n == -1 else n for i, n in enumerate(wanted)))

    def expand_as(self: Any, other: Any) -> Tensor:
        """Repeat axes of length 1, or missing on the left, to the shape of another tensor.

        Parameters
        ----------
        other : Tensor
            A tensor whose shape this one broadcasts to.

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
        >>> mg.zeros((2, 1)).expand_as(mg.zeros((2, 3))).shape
        (2, 3)
        """
        return self.broadcast_to(other.shape)

    def flatten(self: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Merge the axes from `start_dim` to `end_dim` into one.

        Parameters
        ----------
        start_dim, end_dim : int
            The first and the last axis to merge; by default all axes.

        Returns
        -------
        Tensor
            A view where it can be.

        Raises
        ------
        AxisError
            When the tensor has no such axis.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3, 4)).flatten(1).shape
        (2, 12)
        """
        if not self.ndim:
            return self.reshape(1)
        start, end = (resolve_axis("flatten", each, self.ndim) for each in (start_dim, end_dim))
        merged = math.prod(self.shape[start : end + 1])  # and not -1, which of no elements says nothing
        return self.reshape((*self.shape[:start], merged, *self.shape[end + 1 :])) if start <= end else self

    @both_spellings
    def unflatten(self: Any, dim: int, sizes: Any) -> Tensor:
        """Split an axis into several.

        Parameters
        ----------
        dim : int
            The axis.
        sizes : sequence of int
            The lengths of the new axes; one of them may be -1, and is then computed.

        Returns
        -------
        Tensor
            A view where it can be.

        Raises
        ------
        ShapeError
            When the lengths do not make up that of the axis.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 6)).unflatten(1, (2, -1)).shape
        (2, 2, 3)
        """
        at = resolve_axis("unflatten", dim, self.ndim)
        lengths = list(sizes)
        if -1 in lengths:
            known = math.prod(n for n in lengths if n != -1)
            lengths[lengths.index(-1)] = self.shape[at] // max(known, 1)
        return self.reshape((*self.shape[:at], *lengths, *self.shape[at + 1 :]))

    def ravel(self: Any) -> Tensor:
        """Merge all axes into one, as ``x.reshape(-1)`` does.

        Returns
        -------
        Tensor
            A view where it can be.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3)).ravel().shape
        (6,)
        """
        return self.reshape(-1)

    def transpose(self: Any, *axes: Any, dim0: Any = None, dim1: Any = None) -> Tensor:
        """Exchange two axes, as ``x.transpose(0, 1)`` does; without arguments, reverse all axes.

        Parameters
        ----------
        *axes : int
            Two axes to exchange; three or more, or a tuple of them, are the whole new order.
        dim0, dim1 : int, optional
            PyTorch's names of the two axes.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError
            When the tensor has no such axis.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.zeros((2, 3, 4))
        >>> x.transpose(0, 1).shape, x.transpose().shape
        ((3, 2, 4), (4, 3, 2))
        """
        axes = tuple(axis for axis in (*axes, dim0, dim1) if axis is not None)
        if len(axes) == 2:
            order = list(range(self.ndim))
            i, j = (resolve_axis("transpose", axis, self.ndim) for axis in axes)
            order[i], order[j] = j, i
            return self.permute_dims(tuple(order))
        return self.permute_dims(*axes) if axes else self.permute_dims(tuple(range(self.ndim))[::-1])

    def t(self: Any) -> Tensor:
        """The transpose of a matrix; a vector as it is.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        MissingAxes
            When the tensor has more than two axes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3)).t().shape
        (3, 2)
        """
        return self.T if self.ndim > 1 else self

    @both_spellings
    def swapaxes(self: Any, axis1: int, axis2: int) -> Tensor:
        """Exchange two axes.

        Parameters
        ----------
        axis1, axis2 : int
            The axes. Negative ones count from the end.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError
            When the tensor has no such axis.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3, 4)).swapaxes(0, -1).shape
        (4, 3, 2)
        """
        return self.transpose(axis1, axis2)

    swapdims = swapaxes

    @both_spellings
    def narrow(self: Any, dim: int, start: int, length: int) -> Tensor:
        """Take neighbours along an axis, as ``x[start:start + length]`` does along the first.

        Parameters
        ----------
        dim : int
            The axis.
        start, length : int
            The first place, and how many elements to take.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError
            When the tensor has no such axis.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(5).narrow(0, 1, 2)
        Tensor([1, 2])
        """
        return self.slice(dim, start, start + length)

    @both_spellings
    def select(self: Any, dim: int, index: int) -> Tensor:
        """Take one place along an axis, as ``x[index]`` does along the first.

        Parameters
        ----------
        dim : int
            The axis, which the result lacks.
        index : int
            The place. Negative ones count from the end.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError, IndexError
            When there is no such axis, or no such place.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([[1, 2], [3, 4]]).select(1, 0)
        Tensor([1, 3])
        """
        return self[(*(slice(None),) * resolve_axis("select", dim, self.ndim), index)]

    @both_spellings
    def slice(self: Any, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
        """Take places along an axis, as ``x[start:stop:step]`` does along the first.

        Parameters
        ----------
        dim : int
            The axis.
        start, stop : int
            The first place, and the one after the last. Negative ones count from the end.
        step : int, default 1
            The distance between two places.

        Returns
        -------
        Tensor
            A view.

        Raises
        ------
        AxisError
            When the tensor has no such axis.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(6).slice(0, 1, 6, 2)
        Tensor([1, 3, 5])
        """
        return self[(*(slice(None),) * resolve_axis("slice", dim, self.ndim), slice(start, stop, step))]

    # ── numbers of axes and elements, types, places ──────────────────────────────────────────────────────────

    def dim(self: Any) -> int:
        """The number of axes: ``x.ndim`` as a method.

        Returns
        -------
        int

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3)).dim()
        2
        """
        return self.ndim

    def numel(self: Any) -> int:
        """The number of elements: ``x.size`` as a method.

        Returns
        -------
        int

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3)).numel()
        6
        """
        return self.size

    nelement = numel
    ndimension = dim

    @property
    def itemsize(self: Any) -> int:
        """Bytes of an element, as an int."""
        return self.dtype.itemsize

    @property
    def nbytes(self: Any) -> int:
        """Bytes of all elements, as an int."""
        return self.size * self.dtype.itemsize

    def element_size(self: Any) -> int:
        """Bytes of an element: ``x.itemsize`` as a method.

        Returns
        -------
        int

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).element_size()
        4
        """
        return self.dtype.itemsize

    @property
    def real(self: Any) -> Tensor:
        """The real parts, as a Tensor: ``mg.real(x)``, or the tensor itself where it is real."""
        return self.__array_namespace__().real(self) if self.dtype.is_complex else self

    @property
    def imag(self: Any) -> Tensor:
        """The imaginary parts, as a Tensor: ``mg.imag(x)``, or zeros where the tensor is real."""
        return self.__array_namespace__().imag(self) if self.dtype.is_complex else self.new_zeros(self.shape)

    @property
    def mH(self: Any) -> Tensor:  # noqa: N802
        """The conjugates with the last two axes exchanged, as a Tensor: ``x.mT.conj()``."""
        return self.mT.conj()

    @property
    def H(self: Any) -> Tensor:  # noqa: N802
        """The conjugate transpose of a matrix, as a Tensor: ``x.T.conj()``."""
        return self.T.conj()

    def clone(self: Any) -> Tensor:
        """Copy the tensor; gradients flow through the copy.

        Returns
        -------
        Tensor
            Of this shape and dtype, with memory of its own.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0, 2.0])
        >>> x.clone().sum().backward()
        >>> x.grad
        Tensor([1., 1.])
        """
        return self.copy()

    def contiguous(self: Any) -> Tensor:
        """The tensor itself if its elements lie in C order without gaps, else a copy of which that is true.

        Returns
        -------
        Tensor
            Of this shape and dtype.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros((2, 3)).T.contiguous().is_contiguous()
        True
        """
        return self if self.is_contiguous() else self.copy()

    def type(self: Any, dtype: Any = None) -> Any:
        """Convert the elements, as `astype` does; without a dtype, the name of the tensor's own.

        Parameters
        ----------
        dtype : DType or str, optional
            The dtype of the result.

        Returns
        -------
        Tensor or str

        Raises
        ------
        DTypeError
            When there is no such dtype.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).type(), mg.zeros(2).type("int64")
        ('float32', Tensor([0, 0]))
        """
        return str(self.dtype) if dtype is None else self.astype(dtype)

    def type_as(self: Any, other: Any) -> Tensor:
        """Convert the elements to the dtype of another tensor.

        Parameters
        ----------
        other : Tensor
            The tensor whose dtype the result has.

        Returns
        -------
        Tensor
            Of this shape.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.asarray([0, 1]).type_as(mg.zeros(2))
        Tensor([0., 1.])
        """
        return self.astype(other.dtype)

    def is_floating_point(self: Any) -> bool:
        """Whether the numbers are real floating-point numbers; false for complex ones, as in PyTorch.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).is_floating_point(), mg.asarray([1j]).is_floating_point()
        (True, False)
        """
        return self.dtype.is_floating and not self.dtype.is_complex

    def is_complex(self: Any) -> bool:
        """Whether the numbers are complex.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).is_complex(), mg.asarray([1j]).is_complex()
        (False, True)
        """
        return self.dtype.is_complex

    def cpu(self: Any) -> Tensor:
        """Copy to the host, as ``x.to("cpu")`` does.

        Returns
        -------
        Tensor
            The tensor itself if it is there already.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).cpu().device
        Device('cpu')
        """
        return self.to("cpu")

    def cuda(self: Any, index: Any = 0) -> Tensor:
        """Copy to an NVIDIA GPU, as ``x.to("cuda:0")`` does.

        Parameters
        ----------
        index : int, default 0
            Which GPU.

        Returns
        -------
        Tensor
            The tensor itself if it is there already.

        Raises
        ------
        BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
            When there is no such GPU, or no plugin for it.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.zeros(2)
        >>> y = x.cuda() if mg.Device.is_cuda_available() else x
        """
        return self.to(Device.cuda(index))

    def requires_grad_(self: Any, requires_grad: Any = True) -> Tensor:
        """Set whether what is computed from this tensor is recorded.

        Parameters
        ----------
        requires_grad : bool, default True
            The new value of ``x.requires_grad``.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        DTypeError
            When its numbers are not floating-point.
        GraphError
            When it was computed by a recorded operation.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).requires_grad_()
        Tensor([0., 0.], requires_grad=True)
        """
        self.requires_grad = requires_grad
        return self

    def detach_(self: Any) -> Any:
        """Refuse: a tensor stays part of its graph, so write ``x = x.detach()``.

        Returns
        -------
        never

        Raises
        ------
        TypeError
            Always.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).detach_()
        Traceback (most recent call last):
        TypeError: a tensor stays part of its graph; write x = x.detach()
        """
        raise TypeError("a tensor stays part of its graph; write x = x.detach()")

    def new_tensor(
        self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """Make a tensor with copies of other numbers, by default of the dtype and on the device of this one.

        Parameters
        ----------
        data : array, number or nested sequence of numbers
            The elements.
        dtype : DType or str, optional
            By default that of this tensor.
        device : Device or str, optional
            By default that of this tensor.
        requires_grad : bool, default False
            Whether gradients are recorded.

        Returns
        -------
        Tensor
            Of the shape of `data`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2, dtype="float64").new_tensor([1, 2]).dtype
        micrograd_core.float64
        """
        return self.__array_namespace__().asarray(
            data, dtype=dtype or self.dtype, device=device or self.device, copy=True, requires_grad=requires_grad
        )

    def new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        """Make a tensor with one number everywhere, by default of the dtype and on the device of this one.

        Parameters
        ----------
        size : int or tuple of int
            The shape of the result.
        fill_value : number
            The element.
        dtype : DType or str, optional
            By default that of this tensor.
        device : Device or str, optional
            By default that of this tensor.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).new_full((3,), 7)
        Tensor([7., 7., 7.])
        """
        make = self.__array_namespace__().full
        return make(size, fill_value, dtype=dtype or self.dtype, device=device or self.device)

    def new_zeros(self: Any, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Make a tensor of zeros, by default of the dtype and on the device of this one.

        Parameters
        ----------
        *size : int, or one tuple of int
            The lengths of the axes.
        dtype : DType or str, optional
            By default that of this tensor.
        device : Device or str, optional
            By default that of this tensor.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(2).new_zeros(3)
        Tensor([0, 0, 0])
        """
        return self.new_full(_axes(size), 0, dtype=dtype, device=device)

    new_empty = new_zeros

    def new_ones(self: Any, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Make a tensor of ones, by default of the dtype and on the device of this one.

        Parameters
        ----------
        *size : int, or one tuple of int
            The lengths of the axes.
        dtype : DType or str, optional
            By default that of this tensor.
        device : Device or str, optional
            By default that of this tensor.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.arange(2).new_ones(3)
        Tensor([1, 1, 1])
        """
        return self.new_full(_axes(size), 1, dtype=dtype, device=device)

    # ── selection, reductions ────────────────────────────────────────────────────────────────────────────────

    def where(self: Any, condition: Any, other: Any) -> Tensor:
        """The elements of this tensor where a condition holds, and others elsewhere.

        Parameters
        ----------
        condition : Tensor
            Of bool dtype.
        other : Tensor or number
            The elements where the condition does not hold.

        Returns
        -------
        Tensor
            Of the common dtype, and the shape that all three broadcast to.

        Raises
        ------
        DeviceMismatch, DTypeError, ShapeError

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.asarray([-1.0, 2.0])
        >>> x.where(x > 0, 0.0)
        Tensor([0., 2.])
        """
        return self.__array_namespace__().where(condition, self, other)

    softmax = along("softmax")
    log_softmax = along("log_softmax")

    # ── in place ─────────────────────────────────────────────────────────────────────────────────────────────

    def fill_(self: Any, value: Any) -> Tensor:
        """Write one number, or the elements of a tensor, everywhere.

        Parameters
        ----------
        value : number or Tensor
            A tensor is broadcast to this shape; gradients flow to it.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        GraphError
            When this is a leaf that records gradients, outside of `no_grad`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).fill_(3.0)
        Tensor([3., 3.])
        """
        refuse_leaf(self)
        if isinstance(value, self.__class__):
            return _became(self, value.broadcast_to(self.shape).copy())
        return _became(self, self.__array_namespace__().full_like(self, value))

    def normal_(self: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Tensor:
        """Write normal random numbers everywhere.

        Parameters
        ----------
        mean, std : float
            The mean, by default 0, and the standard deviation, by default 1.
        generator : Generator, optional
            The source; by default the default generator.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        GraphError
            When this is a leaf that records gradients, outside of `no_grad`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).normal_(5.0, 0.0)
        Tensor([5., 5.])
        """
        return self.fill_(_drawn(self, "normal", mean, std, generator))

    def uniform_(self: Any, low: Any = 0.0, high: Any = 1.0, *, generator: Any = None) -> Tensor:
        """Write uniform random numbers everywhere.

        Parameters
        ----------
        low, high : float
            The numbers lie in ``[low, high)``, by default ``[0, 1)``.
        generator : Generator, optional
            The source; by default the default generator.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        GraphError
            When this is a leaf that records gradients, outside of `no_grad`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> bool((mg.zeros(100).uniform_(2.0, 3.0) >= 2.0).all())
        True
        """
        return self.fill_(_drawn(self, "uniform", low, high, generator))

    def zero_(self: Any) -> Tensor:
        """Write 0 everywhere.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        GraphError
            When this is a leaf that records gradients, outside of `no_grad`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.ones(2).zero_()
        Tensor([0., 0.])
        """
        return self.fill_(0)

    def copy_(self: Any, other: Any) -> Tensor:
        """Write the elements of another tensor.

        Parameters
        ----------
        other : Tensor, array or number
            Of any dtype, which is converted; it is broadcast to this shape. Gradients flow to it.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        GraphError
            When this is a leaf that records gradients, outside of `no_grad`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).copy_(mg.asarray([1, 2]))
        Tensor([1., 2.])
        """
        return self.fill_(self.__array_namespace__().asarray(other, device=self.device).astype(self.dtype))

    @property
    def is_cuda(self: Any) -> bool:
        """Whether the tensor is on an NVIDIA GPU, as a bool."""
        return self.device.is_cuda()

    is_xpu = is_mps = is_meta = is_sparse = is_quantized = property(lambda x: False, doc="False, always: a bool.")


REFLECTED: Final = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "true_divide": "__rtruediv__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__",
    "matmul": "__rmatmul__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__", "less": "__gt__", "less_equal": "__ge__",
    "greater": "__lt__", "greater_equal": "__le__", "equal": "__eq__", "not_equal": "__ne__",
}  # fmt: skip
"""NumPy's functions behind its operators, and what of a tensor on the right does the same."""

NUMPY: Final = {
    "power": "pow", "absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "conjugate": "conj", "rint": "round",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "true_divide": "divide", "mod": "remainder",
}  # fmt: skip
"""NumPy's names of operations that the standard calls otherwise."""

MADE: Final = {
    converted: """
        float=float32 double=float64 half=float16 bfloat16 int=int32 long=int64 short=int16 char=int8 byte=uint8 bool
        cfloat=complex64 cdouble=complex128
    """,
    reduction: "sum mean any all argmax logsumexp amax=max amin=min",
    by_words: "max min var std",
    in_manner: "sort unique repeat nonzero add_ subtract_ sub_=subtract addcmul_ addcdiv_ numpy median=middle",
    unary: """
        abs_ sign_ floor_ ceil_ isnan isfinite exp_ expm1_ log_ log1p_ sqrt_ square_ sin_ cos_ tanh_ sigmoid_ relu_
        copy negative_ positive reciprocal_ round_ trunc_ log2_ log10_ tan_ asin_ acos_ atan_ sinh_ cosh_ asinh_
        acosh_ atanh_ isinf signbit conj bitwise_not_=bitwise_invert neg_=negative absolute_=abs
    """,
    of_package: """
        squeeze flip moveaxis roll tile rot90 split chunk repeat_interleave diag diagonal trace tril_ triu_ gather
        index_select masked_fill_ masked_select scatter_ scatter_add_ scatter_reduce_ argwhere searchsorted
        argmin argsort prod count_nonzero cumsum_ cumprod_ cummax cummin logcumsumexp diff topk kthvalue
        quantile cov corrcoef norm multiply_ divide_ floor_divide_ remainder_ fmod_ pow_ maximum
        minimum atan2_ hypot_ logaddexp lerp_ nextafter isclose allclose greater_ greater_equal_ less_ less_equal_
        not_equal_ logical_and_ logical_or_ logical_xor_ logical_not_ bitwise_and_ bitwise_or_ bitwise_xor_
        bitwise_left_shift_ bitwise_right_shift_ clip_ nan_to_num_ logit_ rsqrt_ exp2_ copysign_ outer kron cross erf_
        erfc_ erfinv_ lgamma_ digamma_ polygamma i0_ movedim=moveaxis take_along_dim=take_along_axis unbind=unstack
        mul_=multiply div_=divide true_divide_=divide eq_=equal ne_=not_equal lt_=less le_=less_equal
        gt_=greater ge_=greater_equal clamp_=clip matmul dot=matmul mm=matmul bmm=matmul mv=matmul
    """,
}
"""Names of methods by what makes them; ``name=target`` is another name of a target.

A name with a ``_`` at the end has two methods: ``name``, and PyTorch's ``name_``, which writes in place.
"""

for _make, _words in MADE.items():
    _home = "micrograd_core.array.manners" if _make is in_manner else "micrograd_core"
    for _word in _words.split():
        _written, _, _target = _word.partition("=")
        _name = _written.removesuffix("_")
        for _each in dict.fromkeys((_name, _written)):
            _method = _make(_target or _name) if _each == _name else in_place(_name)
            if _make is converted:
                _method.__doc__ = (_method.__doc__ or "").replace("NAME", _each)
            else:
                _effect = ", which writes its result into the tensor and returns the tensor" * (_each != _name)
                _method.__doc__ = MethodDoc(f"`{_home}.{_target or _name}` as the method `{_each}`{_effect}.")
            setattr(Methods, _each, _method)
