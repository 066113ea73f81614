"""The scalar parameters of a layer: each a view of one element of its matrix, or of its bias.

Reading is reading the matrix; assigning is writing into it, and never into what somebody else still holds: a graph that
was recorded with the old numbers keeps them. On the host elements are read and written in place, through the buffer
protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import unpack
from micrograd_core.engine.array import wrap
from micrograd_core.engine.ingest import read
from micrograd_core.layout import resolve_key
from micrograd_core.scalar.bridge import DeviceValue, Elements, upload
from micrograd_core.scalar.value import Value
from micrograd_core.support.ownership import counter

references, handle_of = counter(), attrgetter("_handle")


class Window:
    """The elements of a tensor's handle, by position, for as long as it has that handle."""

    __slots__ = ("elements", "handle", "shared")

    def __init__(self) -> None:
        self.handle: Any = None
        self.elements: Any = None  # a flat memoryview, or None where the handle shows no memory
        self.shared = True  # writing there might be seen elsewhere

    def look(self, handle: Any, format: Any) -> Any:
        """The elements of `handle`."""
        if handle is not self.handle:
            self.handle, self.elements, self.shared = handle, None, True
            with suppress(TypeError, ValueError, BufferError):
                self.elements = found = memoryview(handle).cast("B").cast(format)
                self.shared = found.readonly or found.obj is not handle or getattr(handle, "base", None) is not None
        return self.elements

    def read(self, tensor: Tensor, i: int) -> float:
        """Element number `i`."""
        elements = self.look(tensor._handle, tensor.dtype.format)
        return elements[i] if elements is not None else float(tensor.detach().reshape(-1)[i].item())

    def write(self, tensor: Tensor, i: int, x: float) -> None:
        """Set element number `i`: in place if nobody but the tensor holds its handle, else in a copy."""
        elements = self.elements if tensor._handle is self.handle else self.look(tensor._handle, tensor.dtype.format)
        if elements is None or self.shared:
            key = resolve_key(i if tensor.ndim == 1 else divmod(i, tensor.shape[1]), tensor.shape)
            tensor._handle, tensor._storage = tensor._kernels.scatter(tensor._handle, x, key=key), None
            return
        if references(handle_of(tensor)) != ALONE:
            tensor._handle, tensor._storage = tensor._kernels.copy(tensor._handle), None
            elements = self.look(tensor._handle, tensor.dtype.format)
        elements[i] = x


_tensor, _window = SimpleNamespace(_handle=bytearray(8)), Window()
_window.look(_tensor._handle, "d")
ALONE = references(handle_of(_tensor))  # for a handle that only a tensor and a window on it hold; else it is copied


class Matrix(Elements):
    """A tensor's elements as the ends of scalar graphs."""

    __slots__ = ("cells", "slopes", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor._record, tensor._kernels, tensor.shape, tensor.dtype, [])
        self.tensor, self.cells, self.slopes = tensor, Window(), Window()

    def __reduce__(self) -> tuple[Any, ...]:
        return Matrix, (self.tensor,)

    def prepare(self) -> Sequence[Any]:
        """As the tensor is now: it may have been moved, or converted, since."""
        tensor = self.tensor
        self.record, self.kernels, self.dtype = tensor._record, tensor._kernels, tensor.dtype
        return super().prepare()

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """Nothing, where the tensor has stopped recording."""
        return super().pull(gradients) if self.record is not None else ()

    # all at once, for compiled functions

    def handle(self, part: str) -> Any:
        """The data or the gradient as the device has them; zeros where there is no gradient."""
        tensor = self.tensor if part == "data" else self.tensor.grad
        if tensor is None:
            return self.tensor._kernels.full(shape=self.shape, fill_value=0, dtype=self.tensor.dtype)
        return tensor._handle

    def numbers(self, handle: Any) -> list[float]:
        """Those of such a handle, row by row."""
        kernels = self.tensor._kernels
        return unpack(read(kernels, handle, kernels.dtype(handle)), kernels.dtype(handle))

    def assign(self, part: str, numbers: Any) -> None:
        """Replace them, by a handle or a sequence; what was recorded with the old ones keeps them."""
        tensor, kernels = self.tensor, self.tensor._kernels
        handle = upload(kernels, list(numbers), self.shape, tensor.dtype) if isinstance(numbers, tuple) else numbers
        if part == "data":
            tensor._handle, tensor._storage = handle, None
        else:
            tensor.grad = wrap(Tensor, handle, kernels, tensor.dtype, None)


class Parameter(Value):
    """A scalar that is one element of a matrix."""

    __slots__ = ()

    @property
    def _data(self) -> Any:
        matrix = self._a
        tensor, window = matrix.tensor, matrix.cells
        if window.handle is tensor._handle and window.elements is not None:  # the usual case, without a call
            return window.elements[self._da]
        return window.read(tensor, self._da)

    def _assign(self, x: float) -> None:
        self._a.cells.write(self._a.tensor, self._da, x)

    def _gradient(self) -> Any:
        matrix = self._a
        grad, window = matrix.tensor._grad, matrix.slopes
        if grad is not None and window.handle is grad._handle and window.elements is not None:
            return window.elements[self._da]
        grad = matrix.tensor.grad
        return 0.0 if grad is None else window.read(grad, self._da)

    def _assign_gradient(self, x: float) -> None:
        matrix = self._a
        if matrix.tensor.grad is None:
            matrix.assign("grad", matrix.handle("grad"))
        matrix.slopes.write(matrix.tensor.grad, self._da, x)

    def __reduce__(self) -> tuple[Any, ...]:
        return element, (type(self), self._a, self._da)  # an element of the matrix that is copied or pickled with it


class DeviceParameter(Parameter, DeviceValue):
    """A scalar that is one element of a matrix on another device."""

    __slots__ = ()

    @property
    def _data(self) -> Any:
        return self._a.tensor.detach().reshape(-1)[self._da]


class Cells:
    """The scalar parameters of a layer: row by row the weights, then the bias.

    They do not refer to the layer, so that there is no cycle.
    """

    __slots__ = ("_bias", "_kernels", "_weight", "parameters")

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias, self._kernels = weight, bias, weight._kernels
        kind = Parameter if self._kernels.device.is_cpu() else DeviceParameter
        weights, biases, nin = Matrix(weight), Matrix(bias), weight.shape[1]
        self.parameters: list[Value] = []
        for row in range(weight.shape[0]):
            self.parameters += [element(kind, weights, i) for i in range(row * nin, (row + 1) * nin)]
            self.parameters.append(element(kind, biases, row))

    def fits(self, weight: Tensor, bias: Tensor) -> bool:
        """Whether these are the cells of these tensors, where they are now."""
        return self._weight is weight and self._bias is bias and self._kernels is weight._kernels

    def of_row(self, row: int) -> list[Value]:
        """Those of one neuron."""
        width = self._weight.shape[1] + 1
        return self.parameters[row * width : (row + 1) * width]


def element(kind: type[Value], matrix: Matrix, i: int) -> Any:
    """Element number `i` of a matrix, as a scalar."""
    view = object.__new__(kind)
    view._a, view._da, view._b, view._db, view._name, view._uses = matrix, i, None, None, "", 0
    return view
