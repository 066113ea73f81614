"""`Value`: micrograd's scalar. A float, and how it came about.

A node keeps the numbers that the chain rule multiplies: for ``out = f(a, b)`` it refers to ``a`` and ``b`` and holds
``∂f/∂a`` and ``∂f/∂b``, computed on the way forward. No node refers to what was computed from it, so a graph has no
cycles and is freed by reference count alone.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable
from math import pow
from typing import TYPE_CHECKING, Any, ClassVar

from micrograd_core import device as devices
from micrograd_core.engine.modes import grad_mode
from micrograd_core.errors import DeviceMismatch, not_copied
from micrograd_core.ground.context import default_devices, tracing
from micrograd_core.ops import TABLE, rules
from micrograd_core.scalar.packing import LONG, look_inside, operands, pack, written
from micrograd_core.scalar.rules import BINARY, REFLECTED, UNARY, constant
from micrograd_core.scalar.sweep import Block, sweep
from micrograd_core.tables.floats import DEAD, Floats, divide, number, power

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor
    from micrograd_core.device import Device

new = object.__new__
recording = grad_mode  # inside a sweep of tensors in `vmap` it may say yes where no would do
chosen_device = default_devices.get
FROM_ENVIRONMENT = bool(os.environ.get("MICROGRAD_DEVICE"))  # read once: looking it up costs more than a Value


class Value:
    """A scalar that remembers how it was made.

    Parameters
    ----------
    data : number
        Kept as float64.
    device : Device or str, optional
        By default what `use_device` or `set_default_device` chose, else the cpu, where a Value is a Python float. On
        any other device it is a 0-d tensor there, with the same behaviour.

    Raises
    ------
    TypeError
        When `data` is not one real number.
    OverflowError
        When it is an integer beyond float64.

    Examples
    --------
    >>> a, b = Value(2.0), Value(3.0)
    >>> c = a * b + a**2
    >>> c.backward()
    >>> c.data, a.grad, b.grad
    (10.0, 7.0, 2.0)
    """

    # A constant operand has no node: `_b` is None and `_db` the number. A leaf has neither `_a` nor `_b`.
    __slots__ = ("__weakref__", "_a", "_b", "_da", "_data", "_db", "_depth", "_grad", "_name", "_uses")

    _data: Any
    _grad: Any  # unset until a sweep reaches the node
    _a: Any
    _b: Any
    _da: Any  # the derivative by `_a`
    _db: Any
    _name: str
    _depth: int  # operations since the chain of first operands was last packed
    _on_host: ClassVar[bool] = True
    _uses: int  # how often the sweep in progress has yet to meet this node; 0 between sweeps

    def __new__(cls, data: Any, device: str | Device | None = None) -> Any:
        """A `DeviceValue` where the device is not the host."""
        if device is not None or FROM_ENVIRONMENT or chosen_device() is not None:
            where = devices.default_device() if device is None else devices.Device(device)
            if not where.is_cpu():
                from micrograd_core.scalar.device_value import DeviceValue

                return DeviceValue.of(number(data), where)
        if data.__class__ is not float:
            trace = tracing.get()
            if trace is not None and isinstance(data, Value):  # a float argument of a traced function
                return trace.made(data)
            data = number(data)
        return leaf(data)

    # ── what users read and write ────────────────────────────────────────────────────────────────────────────

    @property
    def data(self) -> float:
        """The number. Assigning replaces it; what was computed from it keeps the old one."""
        trace = tracing.get()
        return self._data if trace is None else trace.read_data(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, x: Any) -> None:
        trace = tracing.get()
        if trace is not None:
            trace.write_data(self, x)
        else:
            self._assign(x if x.__class__ is float else number(x, "data"))

    @property
    def grad(self) -> float:
        """The derivative of what ``backward()`` was called on by this value.

        Of a leaf it adds up over calls; of a computed value it is what the last sweep found there.
        """
        trace = tracing.get()
        return self._gradient() if trace is None else trace.read_grad(self)

    @grad.setter
    def grad(self, x: Any) -> None:
        trace = tracing.get()
        if trace is not None:
            trace.write_grad(self, x)
        else:
            self._assign_gradient(x if x.__class__ is float else number(x, "grad"))

    def _place(self) -> str:
        return "cpu"

    def _number(self) -> float:
        return self._data  # type: ignore[no-any-return]

    def _assign(self, x: float) -> None:
        self._data = x

    def _gradient(self) -> float:
        return getattr(self, "_grad", 0.0)

    def _assign_gradient(self, x: float) -> None:
        self._grad = x

    def backward(self) -> None:
        """Add the derivative of this value to ``.grad`` of every leaf it was computed from.

        May be called again: leaves add up, what lies between them is set anew. On a leaf it adds 1 to its own gradient.
        A derivative that does not exist is NaN or infinite, as in IEEE 754, and so is what it leads to.

        Raises
        ------
        GraphError
            When the graph leads into tensors whose own graph was already swept and freed.
        """
        trace = tracing.get()
        if trace is not None:
            trace.backward(self)
        elif self._a is None:
            self._assign_gradient(self._gradient() + 1.0)
        else:
            sweep(self)

    def zero_grad(self) -> None:
        """Set the gradient to 0."""
        self.grad = 0.0

    @property
    def device(self) -> Device:
        """Where the number is."""
        return devices.Device("cpu")

    def to(self, device: str | Device) -> Value:
        """The same number on another device, in the same graph; this value if it is there already."""
        target = devices.Device(device)
        if target.is_cpu():
            return self
        from micrograd_core.scalar.device_value import moved

        return moved(self, target)

    def cpu(self) -> Value:
        """``to("cpu")``."""
        return self.to("cpu")

    def cuda(self, index: int = 0) -> Value:
        """``to("cuda:index")``."""
        return self.to(devices.Device.cuda(index))

    @staticmethod
    def stack(values: Any) -> Tensor:
        """A tensor of nested sequences of Values, in their graph: `bridge.stack`."""
        from micrograd_core.scalar.bridge import stack

        return stack(values)

    @staticmethod
    def unstack(tensor: Tensor) -> Any:
        """The elements of a tensor as nested lists of Values, in its graph: `bridge.unstack`."""
        from micrograd_core.scalar.bridge import unstack

        return unstack(tensor)

    # ── how it came about ────────────────────────────────────────────────────────────────────────────────────

    @property
    def _prev(self) -> set[Any]:
        """The operands, as micrograd keeps them; constants as values made for the occasion."""
        look_inside(self)
        return set(operands(self, leaf))

    @property
    def _op(self) -> str:
        """The operation, as micrograd writes it; empty for a leaf."""
        look_inside(self)
        return written(self)

    # ── arithmetic. The hot path: it is written out, and every line is paid for a million times. ────────────

    def __add__(self, other: Any) -> Any:
        out = new(Value)
        if other.__class__ is Value:
            if other._depth > self._depth:
                self, other = other, self  # a chain goes on through first operands
            out._data = self._data + other._data
            out._b = other
            out._db = 1.0
        elif other.__class__ is float or other.__class__ is int:
            out._data = self._data + other
            out._b = None
            out._db = other
        else:
            return general("+", self, other)
        out._uses = 0
        if recording():
            out._depth = self._depth + 1 if self._depth < LONG else pack(self)
            out._a = self
            out._da = 1.0
            out._name = "+"
            return out
        return unrecorded(out._data)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        out = new(Value)
        x = self._data
        if other.__class__ is Value:
            y = other._data
            if other._depth > self._depth:
                self, other, x, y = other, self, y, x
            out._b = other
            out._db = x
        elif other.__class__ is float or other.__class__ is int:
            y = other
            out._b = None
            out._db = y
        else:
            return general("*", self, other)
        out._data = x * y
        out._uses = 0
        if recording():
            out._depth = self._depth + 1 if self._depth < LONG else pack(self)
            out._a = self
            out._da = y
            out._name = "*"
            return out
        return unrecorded(out._data)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Any:
        out = new(Value)
        if other.__class__ is Value:
            out._data = self._data - other._data
            out._b = other
            out._db = -1.0
        elif other.__class__ is float or other.__class__ is int:
            out._data = self._data - other
            out._b = None
            out._db = other
        else:
            return general("-", self, other)
        out._uses = 0
        if recording():
            out._depth = self._depth + 1 if self._depth < LONG else pack(self)
            out._a = self
            out._da = 1.0
            out._name = "-"
            return out
        return unrecorded(out._data)

    def __truediv__(self, other: Any) -> Any:
        out = new(Value)
        x = self._data
        if other.__class__ is Value:
            y = other._data
            quotient = x / y if y else divide(x, y)
            out._b = other
            out._db = -quotient / y if y else divide(-quotient, y)
        elif other.__class__ is float or other.__class__ is int:
            y = other
            quotient = x / y if y else divide(x, y)
            out._b = None
            out._db = y
        else:
            return general("/", self, other)
        out._data = quotient
        out._uses = 0
        if recording():
            out._depth = self._depth + 1 if self._depth < LONG else pack(self)
            out._a = self
            out._da = 1.0 / y if y else divide(1.0, y)
            out._name = "/"
            return out
        return unrecorded(quotient)

    def __pow__(self, other: Any) -> Any:
        if other.__class__ is not int and other.__class__ is not float:
            return general("**", self, other)
        x = self._data
        out = new(Value)
        if other == 2:
            out._data = x * x
            da = 2.0 * x
        elif other == 3:
            square = x * x
            out._data = square * x
            da = 3.0 * square
        else:
            try:
                out._data = pow(x, other)
                da = other * pow(x, other - 1) if other else 0.0
            except (ValueError, OverflowError):
                out._data = power(x, other)
                da = other * power(x, other - 1) if other else 0.0
        if recording():
            out._depth = self._depth + 1 if self._depth < LONG else pack(self)
            out._a = self
            out._da = da
            out._b = None
            out._db = other
            out._uses = 0
            out._name = "**"
            return out
        return unrecorded(out._data)

    def relu(self) -> Any:
        """``max(x, 0)``; the derivative at 0 is 0. Where it is dead, no gradient comes through, not even a NaN."""
        x = self._data
        out = new(Value)
        if x > 0.0:
            out._data = x
            out._da = 1.0
        else:
            out._data = 0.0 if x == x else x
            out._da = DEAD
        if recording():
            out._depth = self._depth + 1 if self._depth < LONG else pack(self)
            out._a = self
            out._b = out._db = None
            out._uses = 0
            out._name = "relu"
            return out
        return unrecorded(out._data)

    def __neg__(self) -> Any:
        return node("neg", -self._data, self, -1.0)

    def __pos__(self) -> Value:
        return self

    def __rsub__(self, other: Any) -> Any:
        if other.__class__ is not float and other.__class__ is not int:
            return general("r-", self, other)
        return node("r-", other - self._data, self, -1.0, None, other)

    def __rtruediv__(self, other: Any) -> Any:
        if other.__class__ is not float and other.__class__ is not int:
            return general("r/", self, other)
        x = self._data
        quotient = divide(other, x)
        return node("r/", quotient, self, divide(-quotient, x), None, other)

    def __rpow__(self, other: Any) -> Any:
        return general("r**", self, other)

    # ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────

    __hash__ = object.__hash__  # by identity, so that graphs can be kept in sets

    def __float__(self) -> float:
        return _outside(self, "float()")

    def __int__(self) -> int:
        return int(_outside(self, "int()"))

    def __bool__(self) -> bool:
        return _outside(self, "bool()") != 0.0

    def __format__(self, spec: str) -> str:
        return format(_outside(self, "format()"), spec) if spec else str(self)

    def __repr__(self) -> str:
        return f"Value(data={self._number()}, grad={self._gradient()}, device={self._place()})"

    def __reduce__(self) -> Any:
        if self._a is not None:
            raise not_copied("this Value", "Value(x.data) for the number alone")
        return Value, (self._number(), self._place()), (None, {"grad": self._gradient()})


def leaf(data: Any, kind: type[Value] = Value) -> Any:
    """A value that was not computed, or not recorded."""
    out = new(kind)
    out._data, out._a, out._b, out._uses, out._depth, out._name, out._grad = data, None, None, 0, 0, "", 0.0
    return out


def unrecorded(data: Any, kind: type[Value] = Value) -> Any:
    """A value computed under `no_grad`."""
    trace = tracing.get()
    return leaf(data, kind) if trace is None else trace.refuse(None, "no_grad")


def node(name: str, data: Any, a: Any, da: Any, b: Any = None, db: Any = None, kind: type[Value] = Value) -> Any:
    """A computed value, from operands and local derivatives."""
    if not recording():
        return unrecorded(data, kind)
    out = new(kind)
    out._depth = a._depth + 1 if a._depth < LONG else pack(a)
    out._data = data  # one by one: a tuple of them costs more
    out._a = a
    out._da = da
    out._b = b
    out._db = db
    out._uses = 0
    out._name = name
    return out


def results(block: Block, numbers: Iterable[Any], kind: type[Value] = Value) -> list[Any]:
    """The values that a block computed."""
    return [node(block.label, x, block, i, None, None, kind) for i, x in enumerate(numbers)]


def general(name: str, x: Value, other: Any) -> Any:
    """An operation whose second operand is neither a plain Value nor a plain number."""
    symbol = REFLECTED.get(name, name)
    if isinstance(other, Value):
        if not other._on_host:
            raise DeviceMismatch(symbol, [(x._place(), ()), (other._place(), ())])
        y = other._data
    else:
        y, other = constant(other, symbol), None
        if y is NotImplemented:
            return y
    left, right = (y, x._data) if name in REFLECTED else (x._data, y)
    out, dx, dy = BINARY[name](left, right)
    dx, dy = (dy, dx) if name in REFLECTED else (dx, dy)
    return node(name, out, x, dx, other, y if other is None else dy)


def _unary(name: str) -> Callable[[Any], Any]:
    """A method for an operation of the op table: its kernel on floats, and its rule."""
    function: Callable[[float], float] = getattr(Floats, name)
    (rule,) = rules(name)

    def method(self: Value) -> Value:
        x = self._data
        y = function(x)
        return node(name, y, self, rule(Floats, 1.0, y, x))  # type: ignore[no-any-return]

    method.__doc__ = TABLE[name].doc
    return method


for _name in UNARY:
    setattr(Value, _name, _unary(_name))
Value.__abs__ = Value.abs  # type: ignore[attr-defined]


def _comparison(symbol: str, function: Callable[[float, float], bool]) -> Callable[[Value, Any], Any]:
    def method(self: Value, other: Any) -> Any:
        x = _outside(self, symbol)
        if isinstance(other, Value):
            if other._place() != self._place():
                raise DeviceMismatch(symbol, [(self._place(), ()), (other._place(), ())])
            return function(x, other._number())
        return function(x, other) if hasattr(type(other), "__float__") else NotImplemented

    return method


for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(Value, f"__{_name}__", _comparison(_symbol, getattr(operator, _name)))


def _outside(value: Value, what: str) -> float:
    """The number, for Python's own use: in a trace that would be a decision which later calls do not see."""
    trace = tracing.get()
    return value._number() if trace is None else trace.refuse(value, what)
