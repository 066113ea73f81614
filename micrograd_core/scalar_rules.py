"""Operations on floats: results, and local derivatives by the rules of the op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.floats import Floats, divide, power
from micrograd_core.ops import rules

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
