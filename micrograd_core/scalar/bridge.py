"""Between Values and tensors, in both directions and inside the graph.

`stack` makes a tensor whose record ends in a `Leaf` that names the values: what reaches it goes on through them.
`unstack` makes values whose `Block` refers to the tensor's record: what reaches the block goes on through the record.
So each engine meets the other as one node of its own, and neither recurses.

A `DeviceValue` is a 0-d tensor on another device. Its number and its local derivatives are tensors that record nothing
themselves; the rules are the op table's, and the sweep is that of all Values.

The scalar parameters of a layer are views of elements of its matrix, or of its bias. Reading is reading the matrix;
assigning is writing into it, and never into what somebody else still holds: a graph that was recorded with the old
numbers keeps them. On the host elements are read and written in place, through the buffer protocol.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import prod
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from micrograd_core.array.creation import widest
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.dtypes import DType, pack, unpack
from micrograd_core.engine.apply import Recorded, apply
from micrograd_core.engine.array import wrap
from micrograd_core.engine.backward import deposit
from micrograd_core.engine.graph import Leaf, ancestors, is_node
from micrograd_core.engine.ingest import flatten, read
from micrograd_core.engine.modes import is_grad_enabled
from micrograd_core.engine.sweep import count_consumers, sweep
from micrograd_core.errors import DeviceMismatch, DTypeError
from micrograd_core.interpreters.floats import DEAD, number
from micrograd_core.layout import Shape, nest, resolve_key
from micrograd_core.ops import TABLE, Op
from micrograd_core.scalar.sweep import Block, sweep as sweep_values
from micrograd_core.scalar.value import UNARY, Value, _outside, general, leaf, node, results
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.ownership import counter


class DeviceValue(Value):
    """A `Value` whose number is a tensor of shape ``()``. Made by ``Value(2.0, device=...)``."""

    __slots__ = ()

    @staticmethod
    def of(data: float, device: Device) -> Value:
        """A leaf on `device`."""
        return leaf(asarray(data, dtype=widest(device.kernels), device=device), DeviceValue)

    @Value.data.getter  # type: ignore[attr-defined, untyped-decorator]
    def data(self) -> float:
        """The number, brought to the host. Assigning replaces it; what was computed from it keeps the old one."""
        return _outside(self, "data")

    @property
    def device(self) -> Device:
        """Where the number is."""
        return self._data.device  # type: ignore[no-any-return]

    def _place(self) -> str:
        return str(self.device)

    def _number(self) -> float:
        return float(self._data.item())

    def _table(self) -> tuple[Any, Any, type[Value]]:
        kernels, dtype = self._data._kernels, self._data.dtype
        return Recorded.of(Tensor, kernels), wrap(Tensor, kernels.one(dtype), kernels, dtype, None), DeviceValue

    def _assign(self, x: float) -> None:
        self._data = asarray(x, dtype=self._data.dtype, device=self.device)

    def _gradient(self) -> float:
        return float(getattr(self, "_grad", 0.0))

    def relu(self) -> Any:
        """``max(x, 0)``; the derivative at 0 is 0. Where it is dead, no gradient comes through, not even a NaN."""
        out = Recorded.of(Tensor, self._data._kernels).relu(self._data)
        return node("relu", out, self, Gate(out), None, None, DeviceValue)


class Gate:
    """The derivative of relu. What it is multiplied by comes through, or 0: which of them is not asked on the host."""

    __slots__ = ("out",)

    def __init__(self, out: Any) -> None:
        self.out = out

    def __rmul__(self, g: Any) -> Any:
        out = self.out
        g = asarray(g, dtype=out.dtype, device=out.device) if g.__class__ is float else g  # where a sweep starts
        return Recorded.of(Tensor, out._kernels).relu_gradient(g, out)


def slope_of_relu(out: Any) -> Any:
    """The derivative of relu by its result: a number, or a tensor on a device."""
    if isinstance(out, Tensor):
        return Gate(out)
    return 1.0 if out > 0.0 else DEAD


for _method, _name in (
    ("add", "+"), ("radd", "+"), ("sub", "-"), ("rsub", "r-"), ("mul", "*"), ("rmul", "*"), ("truediv", "/"),
    ("rtruediv", "r/"), ("pow", "**"), ("rpow", "r**"), ("neg", "neg"), ("abs", "abs"),
):  # fmt: skip
    setattr(DeviceValue, f"__{_method}__", lambda self, *others, name=_name: general(name, self, *others))
for _name in UNARY:
    setattr(DeviceValue, _name, lambda self, name=_name: general(name, self))


STACK = Op("stack of Values", "The numbers of Values.", gradient=(lambda k, g, out, x: g,), gradient_aliases=True)


def stack(values: Any) -> Tensor:
    """A tensor of Values, in their graph: `Value.stack`.

    Parameters
    ----------
    values : Value, or nested sequences of Values and numbers
        All on one device. One Value gives a tensor of shape ``()``.

    Returns
    -------
    Tensor
        Of float64, or float32 where the device has no other.

    Raises
    ------
    DeviceMismatch, ShapeError, TypeError
    """
    flat, shape = flatten(values) if isinstance(values, (list, tuple)) else ([values], ())
    inputs = [x if isinstance(x, Value) else None for x in flat]
    found = [x for x in inputs if x is not None]
    places = {x._place(): x for x in found}
    if len(places) > 1:
        raise DeviceMismatch("stack", [(place, ()) for place in places])
    device = found[0].device if found else Device("cpu")
    dtype = found[0]._data.dtype if found and isinstance(found[0], DeviceValue) else widest(device.kernels)
    numbers = [number(x, "stack") if value is None else value._data for x, value in zip(flat, inputs, strict=True)]
    handle = upload(device.kernels, numbers, shape, dtype)
    record = None
    if found and is_grad_enabled():
        leaf = Leaf.of_values(device.kernels, inputs, carry_on)
        record = [STACK, device.kernels, {}, handle, leaf, handle]
    return wrap(Tensor, handle, device.kernels, dtype, record)


def unstack(tensor: Tensor) -> Any:
    """The elements of a tensor as Values, in its graph: `Value.unstack`, the inverse of `stack`.

    Returns
    -------
    Value for a tensor of shape ``()``, nested lists for others
        Their ``backward()`` goes on into the tensor's graph, and leaves that graph as it is.

    Raises
    ------
    DTypeError
        When the tensor is not of real floating dtype.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unstack takes a Tensor; got {type(tensor).__name__} {tensor!r}")
    if tensor.dtype.kind != "real floating":
        way = "real(x) and imag(x)" if tensor.dtype.is_complex else "x.astype('float64')"
        raise DTypeError(f"Values are real floating-point numbers; the tensor is {tensor.dtype}. Use {way}")
    kernels, shape, kind = tensor._kernels, tensor.shape, kind_of(tensor._kernels)
    numbers = numbers_of(kernels, tensor._handle, tensor.dtype)
    if tensor._record is None:
        return nest([leaf(x, kind) for x in numbers], shape)
    return nest(results(Elements(tensor._record, kernels, shape, tensor.dtype), numbers, kind), shape)


class Elements(Block):
    """The elements of a tensor. Their gradients become its cotangent, and what that leads to."""

    __slots__ = ("dtype", "entries", "kernels", "record", "shape")

    def __init__(self, record: Any, kernels: Any, shape: Shape, dtype: DType, entries: Any = None) -> None:
        self.record, self.kernels, self.shape, self.dtype = record, kernels, shape, dtype
        if entries is None:
            entries = [each for each in ancestors(record) if each.__class__ is Leaf and each.values is not None]
        self.entries: list[Leaf] = entries
        super().__init__("tensor", [x for leaf in self.entries for x in leaf.values or ()], prod(shape))

    def prepare(self) -> Sequence[Any]:
        """The graph must be one that can be swept still."""
        if is_node(self.record):
            count_consumers(self.record)
        return super().prepare()

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """By a sweep over the tensors, whose leaves get theirs on the way."""
        handle = upload(self.kernels, gradients, self.shape, self.dtype)
        reached = {id(leaf): g for leaf, g in deposit(sweep(self.record, handle, True), False)}
        return [d for leaf in self.entries for d in _numbers(leaf, reached.get(id(leaf)))]


def _numbers(leaf: Leaf, g: Any) -> list[Any]:
    """The elements of the cotangent of a leaf of values, as its values keep numbers."""
    return [0.0] * len(leaf.values) if g is None else numbers_of(leaf.kernels, g, leaf.kernels.dtype(g))


def kind_of(kernels: Any) -> type[Value]:
    """The class of values on a device: on the host their numbers are floats, elsewhere tensors."""
    return Value if kernels.device.is_cpu() else DeviceValue


def numbers_of(kernels: Any, handle: Any, dtype: DType) -> list[Any]:
    """The elements of a handle, as values on its device keep numbers: floats, or tensors that record nothing."""
    if kind_of(kernels) is Value:
        return unpack(read(kernels, handle, dtype), dtype)
    return [*wrap(Tensor, handle, kernels, dtype, None).reshape(-1)]


def carry_on(found: list[tuple[Leaf, Any]]) -> None:
    """Carry cotangents that a sweep over tensors found at leaves of values on through the values."""
    numbers = [d for leaf, g in found for d in _numbers(leaf, g)]
    inputs = [x for leaf, _ in found for x in leaf.values or ()]
    sweep_values(Block("start", inputs, 0, lambda gradients: numbers))


def upload(kernels: Any, numbers: list[Any], shape: Shape, dtype: DType) -> Any:
    """A handle with numbers that may be tensors on the device already."""
    if not any(isinstance(x, Tensor) for x in numbers):
        return kernels.upload(pack(numbers, dtype), shape, dtype)
    rows = tuple(asarray(x, dtype=dtype, device=kernels.device) for x in numbers)
    return apply(TABLE["stack"], rows, {"axis": 0}).detach().reshape(shape)._handle


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────

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
        return numbers_of(self.tensor._kernels, handle, self.tensor._kernels.dtype(handle))

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


class Gathered(Parameter):
    """A scalar that was one of its own, until a compiled function assigned to many."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Value, (self._number(), self._place()), (None, {"grad": self._gradient()})


def gather(values: Sequence[Value]) -> None:
    """Make values, which are leaves on the host, elements of one matrix: compiled functions take it as a whole."""
    tensor = Tensor(array("d", [x._data for x in values]), device="cpu", requires_grad=True)
    tensor.grad = Tensor(array("d", [x._gradient() for x in values]), device="cpu", requires_grad=False)
    matrix = Matrix(tensor)
    changes = [(("_a", matrix), ("_da", i), ("__class__", Gathered)) for i in range(len(values))]
    assign_all([(x, name, new) for x, each in zip(values, changes, strict=True) for name, new in each])


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
