"""The kernels that gradient rules of scalars need, on Python floats: what a `Kernels` table is for handles.

They follow IEEE 754 as arrays do, where Python would raise: ``1 / 0`` is infinite, ``log(-1)`` is NaN, ``exp(1000)``
overflows to infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from math import copysign, inf, nan
from operator import add, mul, neg, pos, sub
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.dtypes import DType, float64
from micrograd_core.ops import TABLE, Op

Unary = Callable[[float], float]


def divide(x: float, y: float) -> float:
    """``x / y``."""
    try:
        return x / y
    except ZeroDivisionError:
        return nan if x == 0 or x != x else copysign(inf, x) * copysign(1.0, y)


def power(x: float, y: float) -> float:
    """``x ** y``; NaN for a negative base and a broken exponent."""
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        if x < 0 and y != math.floor(y):
            return nan
        return copysign(inf, x) if y % 2 == 1 else inf  # 0 to a negative power, or overflow


def _guarded(function: Unary, otherwise: Unary) -> Unary:
    def guarded(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return otherwise(x)

    guarded.__name__ = guarded.__qualname__ = function.__name__
    return guarded


exp = _guarded(math.exp, lambda x: inf)


def sigmoid(x: float) -> float:
    """``1 / (1 + e ** -x)``: the exponent is at most 0, so that nothing overflows."""
    e = exp(-abs(x))
    return (e if x < 0 else 1.0) / (e + 1.0)


class Dead(float):
    """The derivative of a dead relu: times any gradient it is 0, where that is infinite or NaN too."""

    __slots__ = ()
    __rmul__ = staticmethod(partial(copysign, 0.0))


DEAD = Dead()


def sign(x: float) -> float:
    """-1, 0 or 1; NaN for NaN."""
    return (x > 0) - (x < 0) + 0.0 if x == x else x


EXACT: Final[dict[str, Callable[..., Any]]] = {
    "divide": divide,
    "pow": power,
    "exp": exp,
    "expm1": _guarded(math.expm1, lambda x: inf),
    "log": _guarded(math.log, lambda x: -inf if x == 0 else nan),
    "log1p": _guarded(math.log1p, lambda x: -inf if x == -1 else nan),
    "sqrt": _guarded(math.sqrt, lambda x: nan),
    "sin": _guarded(math.sin, lambda x: nan),
    "cos": _guarded(math.cos, lambda x: nan),
    "sigmoid": sigmoid,
    "sign": sign,
}
"""Operations for which Python has no function, or one that raises where IEEE 754 goes on."""

BUILTIN: Final[dict[str, Callable[..., Any]]] = {
    "{} + {}": add, "{} - {}": sub, "{} * {}": mul, "-{}": neg, "+{}": pos, "abs({})": abs,
}  # fmt: skip
"""Python's own functions for what is called most: they take half the time of a ``lambda``."""


class _FromRecords(type):
    """Makes a function of an operation when it is first asked for."""

    def __getattr__(cls, name: str) -> Callable[..., Any]:
        op = None if name.startswith("_") else TABLE.get(name)
        if op is not None and op.scalar:
            found = _function(op)
        elif op is not None and name.endswith("_gradient") and op.compose is not None:
            found = partial(op.compose, cls)
        else:
            raise AttributeError(f"numbers have no {name}")
        setattr(cls, name, staticmethod(found))
        return found


class Floats(metaclass=_FromRecords):
    """``k`` for gradient rules on floats: functions under the names of the op table."""

    if TYPE_CHECKING:  # the class has them

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    @staticmethod
    def dtype(x: Any) -> DType:
        """That of every number here."""
        return float64


def _function(op: Op) -> Callable[..., Any]:
    """What `Op.scalar` says, as a function."""
    found = EXACT.get(op.name) or BUILTIN.get(op.scalar) or getattr(math, op.name, None)
    operands = "xyz"[: op.operands]
    return found or eval(f"lambda {','.join(operands)}: {op.scalar.format(*operands)}")


def number(x: Any, what: str = "a Value") -> float:
    """A real number as a float.

    Raises
    ------
    TypeError
        When it is not one.
    OverflowError
        When an integer is beyond the range of float64.
    """
    if x.__class__ is float:
        return x
    kind = type(x).__name__
    if isinstance(x, (str, bytes, bytearray)) or not hasattr(type(x), "__float__"):
        raise TypeError(f"{what} holds a real number; got {kind} {x!r}. Convert it first, for example with float(...)")
    if isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c":
        raise TypeError(f"{what} holds a real number; got {kind} {x!r}. Take .real, .imag or abs(...)")
    if getattr(x, "shape", ()) != ():
        raise TypeError(f"{what} holds one number; got {kind} of shape {tuple(x.shape)}. Take one element of it")
    if hasattr(x, "backward"):
        way = "Value.unstack(tensor) keeps the graph; tensor.item() cuts it"
        if hasattr(type(x), "_prev"):
            way = "Use it as it is, or cut it with .data"
        raise TypeError(f"{what} holds a number; got a {kind}, which would be cut from its graph. {way}")
    try:
        return float(x)
    except OverflowError:
        whole = int(x)
        digits = len(str(abs(whole))) if whole.bit_length() < 10_000 else round(whole.bit_length() * 0.30103)
        raise OverflowError(
            f"{what} holds a float64, which ends near 1.8e308; this {kind} has about {digits} digits. Scale it first"
        ) from None
