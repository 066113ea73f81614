"""Values on other devices: 0-d tensors there, in the same graph of nodes and swept by the same sweep.

The number and the local derivatives of a node are tensors that record nothing themselves; the rules are the op table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES, DType
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import wrap
from micrograd_core.errors import DeviceMismatch
from micrograd_core.ops import TABLE, rules
from micrograd_core.scalar.rules import REFLECTED, UNARY, constant
from micrograd_core.scalar.sweep import Block
from micrograd_core.scalar.value import Value, _outside, leaf, node, results
from micrograd_core.tables.floats import DEAD, number

OPERATIONS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "pow"}


class DeviceValue(Value):
    """A `Value` whose number is a tensor of shape ``()``. Made by ``Value(2.0, device=...)``."""

    __slots__ = ()
    _on_host: ClassVar[bool] = False

    @staticmethod
    def of(data: float, device: Device) -> DeviceValue:
        """A leaf on `device`."""
        out: DeviceValue = leaf(asarray(data, dtype=widest(device), device=device), DeviceValue)
        return out

    @property
    def data(self) -> float:
        """The number, brought to the host. Assigning replaces it; what was computed from it keeps the old one."""
        return _outside(self, "data")

    @data.setter
    def data(self, x: Any) -> None:
        _outside(self, "data")
        self._assign(number(x, "data"))

    @property
    def device(self) -> Device:
        """Where the number is."""
        return self._data.device  # type: ignore[no-any-return]

    def _place(self) -> str:
        return str(self.device)

    def _number(self) -> float:
        return float(self._data.item())

    def _assign(self, x: float) -> None:
        self._data = asarray(x, dtype=self._data.dtype, device=self.device)

    def _gradient(self) -> float:
        return float(getattr(self, "_grad", 0.0))

    def to(self, device: str | Device) -> Value:
        """The same number on another device, in the same graph; this value if it is there already."""
        target = Device(device)
        return self if target is self.device else moved(self, target)

    def __neg__(self) -> Any:
        return _apply("negative", "neg", self)

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


def widest(device: Device) -> DType:
    """float64, or the float32 that every device has."""
    return DTYPES["float64" if DTYPES["float64"] in device.kernels._native else "float32"]


def _apply(op: str, name: str, *operands: Any) -> Any:
    """A node for an operation of the op table on device values and at most one float."""
    values = [x for x in operands if isinstance(x, DeviceValue)]
    kernels = values[0]._data._kernels
    if any(x._data._kernels is not kernels for x in values):
        raise DeviceMismatch(name, [(x.device, ()) for x in operands])
    k, data = Recorded.of(Tensor, kernels), [x._data if isinstance(x, DeviceValue) else x for x in operands]
    out = getattr(k, op)(*data)
    one = wrap(Tensor, kernels.one(out.dtype), kernels, out.dtype, None)
    found = [
        (x, rule(k, one, out, *data)) for x, rule in zip(operands, rules(op), strict=True) if isinstance(x, DeviceValue)
    ]
    constants = [(None, x) for x in operands if not isinstance(x, DeviceValue)]
    links = (found[::-1] if name in REFLECTED and not constants else found) + constants
    (a, da), (b, db) = [*links, (None, None)][:2]
    return node(name, out, a, da, b, db, DeviceValue)


def _binary(name: str) -> Callable[[Any, Any], Any]:
    symbol = REFLECTED.get(name, name)
    op = OPERATIONS[symbol]

    def method(self: DeviceValue, other: Any) -> Any:
        if isinstance(other, Value) and not isinstance(other, DeviceValue):
            left, right = (other, self) if name in REFLECTED else (self, other)
            raise DeviceMismatch(symbol, [(left._place(), ()), (right._place(), ())])
        if isinstance(other, DeviceValue):
            return _apply(op, name, self, other)
        y = constant(other, symbol)
        if y is NotImplemented:
            return y
        out = _apply(op, name, y, self) if name in REFLECTED else _apply(op, name, self, y)
        out._db = other if other.__class__ is int else y  # as it was written, for `_op`
        return out

    return method


for _method, _name in (
    ("add", "+"), ("radd", "+"), ("sub", "-"), ("rsub", "r-"), ("mul", "*"), ("rmul", "*"), ("truediv", "/"),
    ("rtruediv", "r/"), ("pow", "**"), ("rpow", "r**"),
):  # fmt: skip
    setattr(DeviceValue, f"__{_method}__", _binary(_name))
for _name in UNARY:
    setattr(DeviceValue, _name, lambda self, name=_name: _apply(name, name, self))
    getattr(DeviceValue, _name).__doc__ = TABLE[_name].doc
DeviceValue.__abs__ = DeviceValue.abs  # type: ignore[attr-defined]


# ── between devices ──────────────────────────────────────────────────────────────────────────────────────────


class Move(Block):
    """One value on its way to another device; its gradient on the way back."""

    __slots__ = ()

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """The number, as the device of the source keeps it."""
        (source,) = self.inputs
        return [placed(float(gradients[0]), source)]


def placed(x: float, like: Any) -> Any:
    """A number as values on the device of `like` keep it."""
    return asarray(x, dtype=like._data.dtype, device=like.device) if isinstance(like, DeviceValue) else x


def moved(value: Value, device: Device) -> Value:
    """The same number on `device`, as a node whose operand is `value`."""
    x = value._number()
    target: Any = DeviceValue.of(x, device) if not device.is_cpu() else leaf(x)
    return results(Move(f"to {device}", (value,), 1), [target._data], type(target))[0]  # type: ignore[no-any-return]
