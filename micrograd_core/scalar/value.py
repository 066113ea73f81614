"""`Value`: micrograd's scalar. A float, and how it came about.

A node keeps the numbers that the chain rule multiplies: for ``out = f(a, b)`` it refers to ``a`` and ``b`` and holds
``∂f/∂a`` and ``∂f/∂b``, computed on the way forward. No node refers to what was computed from it, so a graph has no
cycles and is freed by reference count alone.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from micrograd_core import device as devices
from micrograd_core.engine.modes import grad_mode
from micrograd_core.errors import DeviceMismatch, not_copied
from micrograd_core.interpreters.floats import DEAD, Floats, number, power
from micrograd_core.ops import TABLE, rules
from micrograd_core.scalar.sweep import Block, refuse_underway, sweep, sweeping, underway
from micrograd_core.support.context import default_devices, tracing
from micrograd_core.support.warning import warn_of_number

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor
    from micrograd_core.device import Device

new = object.__new__
recording = grad_mode  # inside a sweep of tensors in `vmap` it may say yes where no would do
chosen_device = default_devices.get
FROM_ENVIRONMENT = bool(os.environ.get("MICROGRAD_DEVICE"))  # read once: looking it up costs more than a Value


def of_table(name: str) -> Callable[[Value], Value]:
    """A method for an operation of the op table: its kernel on floats, and its rule."""
    function: Callable[[float], float] = getattr(Floats, name)
    (rule,) = rules(name)

    def method(self: Value) -> Value:
        """WHAT.

        Returns
        -------
        Value

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Value(0.5)
        >>> x.NAME().backward()
        >>> slope = x.grad
        """
        x = self._data
        y = function(x)
        return node(name, y, self, rule(Floats, 1.0, y, x))

    method.__doc__ = (method.__doc__ or "").replace("WHAT.", TABLE[name].doc).replace("NAME", name)
    return method


def compared(symbol: str, function: Callable[[float, float], bool]) -> Callable[[Value, Value | float], bool]:
    """A method that compares numbers."""

    def method(self: Value, other: Any) -> bool:
        left = _outside(self, symbol)
        if isinstance(other, Value):
            _refuse_other_device(symbol, self, other)
            other = other._number()
        return function(left, other) if hasattr(type(other), "__float__") else NotImplemented

    return method


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
    >>> from micrograd_core import Value
    >>> a, b = Value(2.0), Value(3.0)
    >>> c = a * b + a**2
    >>> c.backward()
    >>> c.data, a.grad, b.grad
    (10.0, 7.0, 2.0)
    """

    # A constant operand has no node: `_b` is None and `_db` the number. A leaf has neither `_a` nor `_b`.
    __slots__ = ("__weakref__", "_a", "_b", "_da", "_data", "_db", "_grad", "_name", "_uses")

    _data: Any
    _grad: Any  # unset until a sweep reaches the node
    _a: Any
    _b: Any
    _da: Any  # the derivative by `_a`
    _db: Any
    _name: str
    _uses: int  # how often the sweep in progress has yet to meet this node; 0 between sweeps

    def __new__(cls, data: Any, device: str | Device | None = None) -> Value:
        """A `DeviceValue` where the device is not the host."""
        if device is not None or FROM_ENVIRONMENT or chosen_device() is not None:
            where = devices.default_device() if device is None else devices.Device(device)
            if not where.is_cpu():
                from micrograd_core.scalar.bridge import DeviceValue

                return DeviceValue.of(number(data), where)
        if data.__class__ is not float:
            trace = tracing.get()
            if trace is not None and isinstance(data, Value):  # a float argument of a traced function
                return trace.made(data)  # type: ignore[no-any-return]
            data = number(data)
        return leaf(data)

    # ── what users read and write ────────────────────────────────────────────────────────────────────────────

    @property
    def data(self) -> float:
        """The number, a float. Assigning replaces it; what was computed from it keeps the old one."""
        trace = tracing.get()
        return self._data if trace is None else trace.read(self, "data")  # type: ignore[no-any-return]

    @data.setter
    def data(self, x: Any) -> None:
        trace = tracing.get()
        if trace is not None:
            trace.write(self, "data", x)
        else:
            self._assign(x if x.__class__ is float else number(x, "data"))

    @property
    def grad(self) -> float:
        """The derivative of what ``backward()`` was called on by this value, a float.

        Of a leaf it adds up over calls; of a computed value it is what the last sweep found there.
        """
        trace = tracing.get()
        return self._gradient() if trace is None else trace.read(self, "grad")

    @grad.setter
    def grad(self, x: Any) -> None:
        trace = tracing.get()
        if trace is not None:
            trace.write(self, "grad", x)
        else:
            self._assign_gradient(x if x.__class__ is float else number(x, "grad"))

    def _place(self) -> str:
        return "cpu"

    def _number(self) -> float:
        return self._data  # type: ignore[no-any-return]

    def _table(self) -> tuple[Any, Any, type[Value]]:
        """What computes with such numbers, a 1 of them, and the class of results."""
        return Floats, 1.0, Value

    def _assign(self, x: float) -> None:
        self._data = x

    def _gradient(self) -> float:
        return getattr(self, "_grad", 0.0)

    def _assign_gradient(self, x: float) -> None:
        self._grad = x

    def backward(self) -> None:
        """Add the derivative of this value to ``.grad`` of every leaf it was computed from.

        It may be called again: leaves add up, and values between are set anew. On a leaf it adds 1 to its own gradient.
        A derivative that does not exist is NaN or infinite, as in IEEE 754, and so is what it leads to.

        Raises
        ------
        GraphError
            When the graph leads into tensors whose own graph was already swept and freed.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Value(3.0)
        >>> (x * x).backward()
        >>> x.grad
        6.0
        """
        trace = tracing.get()
        if trace is not None:
            trace.backward(self)
        elif self._a is None:
            self._assign_gradient(self._gradient() + 1.0)
        else:
            sweep(self)

    def zero_grad(self) -> None:
        """Set the gradient to 0.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Value(3.0)
        >>> (x * x).backward()
        >>> x.zero_grad()
        >>> x.grad
        0.0
        """
        self.grad = 0.0

    @property
    def device(self) -> Device:
        """The `Device` that the number is on."""
        return devices.Device("cpu")

    def to(self, device: str | Device) -> Value:
        """Move to another device, within the graph.

        Parameters
        ----------
        device : Device or str
            Where the result is.

        Returns
        -------
        Value
            This value itself if it is there already.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Value(3.0)
        >>> x.to("cpu") is x
        True
        """
        target = devices.Device(device)
        if target is self.device:
            return self
        from micrograd_core.array.creation import widest

        return Value.unstack(Value.stack(self).to(target, widest(target.kernels)))  # type: ignore[no-any-return]

    def cpu(self) -> Value:
        """Move to the host, as ``to("cpu")`` does.

        Returns
        -------
        Value
            This value itself if it is there already.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Value(3.0).cpu().data
        3.0
        """
        return self.to("cpu")

    def cuda(self, index: int = 0) -> Value:
        """Move to an NVIDIA GPU, as ``to("cuda:0")`` does.

        Parameters
        ----------
        index : int, default 0
            Which GPU.

        Returns
        -------
        Value
            This value itself if it is there already.

        Raises
        ------
        BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
            When there is no such GPU, or no plugin for it.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Value(3.0)
        >>> y = x.cuda() if mg.Device.is_cuda_available() else x
        """
        return self.to(devices.Device.cuda(index))

    @staticmethod
    def stack(values: Any) -> Tensor:
        """Make a tensor of Values; gradients flow from it to them.

        Parameters
        ----------
        values : Value, or nested sequence of Value and number
            Of one device.

        Returns
        -------
        Tensor
            Of the shape of the nesting, in float64 where the device has it.

        Raises
        ------
        ShapeError, DeviceMismatch
            When sequences have different lengths, or values are on different devices.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Value.stack([mg.Value(1.0), mg.Value(2.0)]).tolist()
        [1.0, 2.0]
        """
        from micrograd_core.scalar.bridge import stack

        return stack(values)

    @staticmethod
    def unstack(tensor: Tensor) -> Any:
        """Make Values of the elements of a tensor; gradients flow from them to it.

        Parameters
        ----------
        tensor : Tensor
            Of real floating-point dtype.

        Returns
        -------
        Value, or nested list of Value
            As nested as the tensor has axes.

        Raises
        ------
        DTypeError
            For another dtype.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x, y = mg.Value.unstack(mg.Tensor([1.0, 2.0]))
        >>> (x * y).data
        2.0
        """
        from micrograd_core.scalar.bridge import unstack

        return unstack(tensor)

    # ── how it came about ────────────────────────────────────────────────────────────────────────────────────

    @property
    def _prev(self) -> set[Any]:
        """The operands, as micrograd keeps them; constants as values made for the occasion."""
        look_inside(self)
        return set(operands(self))

    @property
    def _op(self) -> str:
        """The operation, as micrograd writes it; empty for a leaf."""
        look_inside(self)
        return written(self)

    # ── arithmetic: the number, and the derivative by each operand. `general` takes the rare cases. ──────────

    def __add__(self, other: Value | float) -> Value:
        if other.__class__ is Value:
            return node("+", self._data + other._data, self, 1.0, other, 1.0)
        if other.__class__ is float or other.__class__ is int:
            return node("+", self._data + other, self, 1.0, None, other)
        return general("+", self, other)

    __radd__ = __add__

    def __mul__(self, other: Value | float) -> Value:
        x = self._data
        if other.__class__ is Value:
            y = other._data
            return node("*", x * y, self, y, other, x)
        if other.__class__ is float or other.__class__ is int:
            return node("*", x * other, self, other, None, other)
        return general("*", self, other)

    __rmul__ = __mul__

    def __sub__(self, other: Value | float) -> Value:
        if other.__class__ is Value:
            return node("-", self._data - other._data, self, 1.0, other, -1.0)
        if other.__class__ is float or other.__class__ is int:
            return node("-", self._data - other, self, 1.0, None, other)
        return general("-", self, other)

    def __rsub__(self, other: float) -> Value:
        return general("r-", self, other)

    def __truediv__(self, other: Value | float) -> Value:
        if other.__class__ is Value and other._data:
            y = other._data
            quotient = self._data / y
            return node("/", quotient, self, 1.0 / y, other, -quotient / y)
        if (other.__class__ is float or other.__class__ is int) and other:
            return node("/", self._data / other, self, 1.0 / other, None, other)
        return general("/", self, other)

    def __rtruediv__(self, other: float) -> Value:
        x = self._data
        if (other.__class__ is float or other.__class__ is int) and x:
            quotient = other / x
            return node("r/", quotient, self, -quotient / x, None, other)
        return general("r/", self, other)

    def __pow__(self, other: Value | float) -> Value:
        if other.__class__ is not int and other.__class__ is not float:
            return general("**", self, other)
        x = self._data
        if other == 2:
            return node("**", x * x, self, 2.0 * x, None, other)
        if other == 3:
            return node("**", x * x * x, self, 3.0 * (x * x), None, other)
        return node("**", power(x, other), self, other * power(x, other - 1) if other else 0.0, None, other)

    def __rpow__(self, other: float) -> Value:
        return general("r**", self, other)

    def __neg__(self) -> Value:
        return node("neg", -self._data, self, -1.0)

    def __pos__(self) -> Value:
        return self

    def relu(self) -> Value:
        """Compute ``max(x, 0)``, whose derivative at 0 is 0. Where the result is 0, no gradient passes, not even a NaN.

        Returns
        -------
        Value

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Value(-1.0).relu().data
        0.0
        """
        x = self._data
        if x > 0.0:
            return node("relu", x, self, 1.0)
        return node("relu", 0.0 if x == x else x, self, DEAD)

    exp, expm1 = of_table("exp"), of_table("expm1")
    log, log1p = of_table("log"), of_table("log1p")
    sqrt, square = of_table("sqrt"), of_table("square")
    sin, cos = of_table("sin"), of_table("cos")
    tanh, sigmoid = of_table("tanh"), of_table("sigmoid")
    abs = __abs__ = of_table("abs")

    # ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────

    __hash__ = object.__hash__  # by identity, so that graphs can be kept in sets

    __lt__, __le__ = compared("<", operator.lt), compared("<=", operator.le)
    __gt__, __ge__ = compared(">", operator.gt), compared(">=", operator.ge)
    __eq__, __ne__ = compared("==", operator.eq), compared("!=", operator.ne)  # type: ignore[assignment]

    def __float__(self) -> float:
        number = _outside(self, "float()")
        if recording():
            warn_of_number("x.data")
        return number

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


def leaf(data: Any, kind: type[Value] = Value) -> Value:
    """A value that was not computed, or not recorded."""
    out = new(kind)
    out._data, out._a, out._b, out._uses, out._name, out._grad = data, None, None, 0, "", 0.0
    return out


def node(name: str, data: Any, a: Any, da: Any, b: Any = None, db: Any = None, kind: type[Value] = Value) -> Value:
    """A computed value, from operands and local derivatives."""
    if not recording():
        trace = tracing.get()
        return leaf(data, kind) if trace is None else trace.refuse(None, "no_grad")
    out = new(kind)
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


def general(name: str, x: Value, *others: Any) -> Value:
    """Apply an operation of the op table by its rules: to rare operands, and to Values on any device.

    Parameters
    ----------
    name : str
        The name of the node: a method such as ``"exp"``, or an operator, with an ``r`` before it where `x` is on the
        right.
    x : Value
    *others : Value or number
        The other operand of a binary operation.

    Returns
    -------
    Value, or ``NotImplemented`` where the other operand is neither a Value nor a number
    """
    symbol = REFLECTED.get(name, name)
    op, order = OPERATIONS.get(symbol, symbol), -1 if name in REFLECTED else 1
    values, numbers, constants = [x], [x._data], list[Any]()
    for other in others:
        if isinstance(other, Value):
            _refuse_other_device(symbol, *(x, other)[::order])
            values.append(other)
            numbers.append(other._data)
        elif (y := constant(other, symbol)) is not NotImplemented:
            numbers.append(y)
            constants += [None, other if other.__class__ is int else y]  # as it was written, for `_op`
        else:
            return NotImplemented  # type: ignore[no-any-return]
    k, one, kind = x._table()
    operands = numbers[::order]
    out = getattr(k, op)(*operands)
    links = list[Any]()
    for value, rule in zip(values, rules(op)[::order], strict=False):
        links += [value, rule(k, one, out, *operands)]
    a, da, b, db = [*links, *constants, None, None][:4]
    return node(name, out, a, da, b, db, kind)


def _refuse_other_device(symbol: str, *values: Value) -> None:
    places = [x._place() for x in values]
    if places[0] != places[1]:
        raise DeviceMismatch(symbol, [(place, ()) for place in places])


def _outside(value: Value, what: str) -> float:
    """The number, for Python's own use: in a trace that would be a decision which later calls do not see."""
    trace = tracing.get()
    return value._number() if trace is None else trace.refuse(value, what)


# ── the graph as micrograd shows it ──────────────────────────────────────────────────────────────────────────

UNARY: Final = ("exp", "expm1", "log", "log1p", "sqrt", "square", "sin", "cos", "tanh", "sigmoid", "abs")
"""Operations of the op table that are methods of a scalar."""
REFLECTED: Final = {"r-": "-", "r/": "/", "r**": "**"}
"""Names of nodes whose constant stands on the left."""
OPERATIONS: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "pow", "neg": "negative"}
"""What the op table calls nodes that have another name than there."""
CONSTANT = "constant"  # marks a value that stands for a number among operands


def look_inside(value: Any) -> None:
    """Give a result of a block that can be opened the operands that it would have without the block."""
    with sweeping: _look_inside(value)  # fmt: skip  # noqa: E701


def _look_inside(value: Any) -> None:
    block = value._a
    if not isinstance(block, Block) or not value._name:
        return
    if underway:
        refuse_underway("asked for the operands of", [block])
    if (nodes := block.opened()) is not None:
        x = nodes[value._da]
        value._a, value._da, value._b, value._db, value._name = x._a, x._da, x._b, x._db, x._name


def operands(value: Any) -> list[Any]:
    """What a value was computed from, in order; a constant as a value made for the occasion."""
    a, b, name = value._a, value._b, value._name
    if a is None or isinstance(a, Block):
        return [] if a is None else [x for x in a.inputs if x is not None]
    if b is None and value._db is not None and name != "**":  # a constant exponent is in the name, as in micrograd
        b = leaf(float(value._db))
        b._db = CONSTANT
    return [x for x in ((b, a) if name in REFLECTED else (a, b)) if x is not None]


def written(value: Any) -> str:
    """The operation of a node, as micrograd writes it; a block is left shut."""
    name: str = value._name
    if name == "**" and value._b is None:
        return f"**{value._db}"
    return {"relu": "ReLU", **REFLECTED}.get(name, name)


def constant(other: Any, symbol: str) -> Any:
    """The number that an operand beside a scalar is, or ``NotImplemented``.

    Raises
    ------
    TypeError, OverflowError
        For a tensor, and for what is not one real number within float64.
    """
    if hasattr(other, "backward"):
        raise TypeError(
            f"{symbol}: a Value and a {type(other).__name__} do not mix; write Value.stack(value) to go on with "
            "tensors, or Value.unstack(tensor) to go on with Values"
        )
    if getattr(other, "shape", ()) != () or isinstance(other, (str, bytes)) or not hasattr(type(other), "__float__"):
        return NotImplemented
    return number(other, f"an operand of {symbol}")
