"""Values on other devices: 0-d tensors there, in the same graph of nodes and swept by the same sweep.

The number and the local derivatives of a node are tensors that record nothing themselves; the rules are the op table's.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES, DType
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import wrap
from micrograd_core.interpreters.floats import DEAD
from micrograd_core.scalar.graph import UNARY
from micrograd_core.scalar.value import Value, _outside, general, leaf, node


class DeviceValue(Value):
    """A `Value` whose number is a tensor of shape ``()``. Made by ``Value(2.0, device=...)``."""

    __slots__ = ()

    @staticmethod
    def of(data: float, device: Device) -> Value:
        """A leaf on `device`."""
        return leaf(asarray(data, dtype=widest(device), device=device), DeviceValue)

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
        one = wrap(Tensor, kernels.one(dtype), kernels, dtype, None)
        return Recorded.of(Tensor, kernels), one, DeviceValue

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


def widest(device: Device) -> DType:
    """float64, or the float32 that every device has."""
    return DTYPES["float64" if DTYPES["float64"] in device.kernels._native else "float32"]


for _method, _name in (
    ("add", "+"), ("radd", "+"), ("sub", "-"), ("rsub", "r-"), ("mul", "*"), ("rmul", "*"), ("truediv", "/"),
    ("rtruediv", "r/"), ("pow", "**"), ("rpow", "r**"), ("neg", "neg"), ("abs", "abs"),
):  # fmt: skip
    setattr(DeviceValue, f"__{_method}__", lambda self, *others, name=_name: general(name, self, *others))
for _name in UNARY:
    setattr(DeviceValue, _name, lambda self, name=_name: general(name, self))
