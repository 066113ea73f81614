"""Operations on floats: results, and local derivatives by the rules of the op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.ops import rules
from micrograd_core.tables.floats import Floats, divide, number, power

UNARY = ("exp", "expm1", "log", "log1p", "sqrt", "square", "sin", "cos", "tanh", "sigmoid", "abs")
"""Those that are a method of a scalar."""
REFLECTED = {"r-": "-", "r/": "/", "r**": "**"}
"""Names of nodes whose constant stands on the left."""
_, EXPONENT_RULE = rules("pow")
BINARY: dict[str, Callable[[Any, Any], tuple[Any, Any, Any]]] = {
    "+": lambda x, y: (x + y, 1.0, 1.0),
    "-": lambda x, y: (x - y, 1.0, -1.0),
    "*": lambda x, y: (x * y, y, x),
    "/": lambda x, y: (divide(x, y), divide(1.0, y), divide(-divide(x, y), y)),
    "**": lambda x, y: (out := power(x, y), y * power(x, y - 1) if y else 0.0, EXPONENT_RULE(Floats, 1.0, out, x, y)),
}
"""Result and both derivatives of the operations on two floats."""
BINARY |= {reflected: BINARY[name] for reflected, name in REFLECTED.items()}


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
