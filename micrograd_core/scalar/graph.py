"""The graph of a Value as micrograd shows it, the names of its nodes, and what may stand beside a scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from micrograd_core.interpreters.floats import number
from micrograd_core.scalar.sweep import Block, refuse_underway, sweeping, underway

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


def operands(value: Any, leaf: Callable[[float], Any]) -> list[Any]:
    """What a value was computed from, in order; a constant as a value that `leaf` makes for the occasion."""
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
