"""The public functions, generated from the op table."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from micrograd_core.device import Device
from micrograd_core.dispatch import SCALARS, accumulated, apply, apply_parts, recorded
from micrograd_core.dtypes import integer_range
from micrograd_core.ops import SAME, TABLE, Op
from micrograd_core.tensor import Tensor, asarray


def _function(op: Op) -> Callable[..., Tensor]:
    """The function of one record: tensors by position, parameters as its `parameters` function takes them."""
    parameters = op.parameters
    count = op.operands
    run = recorded(op)
    perform = apply if op.parts is None else apply_parts

    def simple(*operands: Any) -> Tensor:
        if len(operands) != count:
            raise TypeError(f"{op.name} takes {count} operand{'s' * (count > 1)}; got {len(operands)}")
        return run(*operands)

    def parametrized(*args: Any, **kwargs: Any) -> Tensor:
        if op.optional:
            args = _completed(op, args, kwargs)
        operands = tuple(
            x if isinstance(x, (Tensor, *SCALARS)) and i else asarray(x, device=_beside(args) if i else None)
            for i, x in enumerate(args[:count])
        )
        if op.cast is not None and "dtype" in kwargs:
            return accumulated(op, asarray(args[0]), **kwargs)
        return perform(op, operands, parameters(*operands, *args[count:], **kwargs))  # type: ignore[misc]

    def variadic(arrays: Any, /, **kwargs: Any) -> Tensor:
        operands = tuple(map(asarray, arrays))
        return apply(op, operands, parameters(*operands, **kwargs))  # type: ignore[misc]

    function: Any = simple if parameters is None else variadic if count == -1 else parametrized
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = _docstring(op)
    function.__signature__ = _signature(op)
    return function  # type: ignore[no-any-return]


def _beside(operands: Any) -> Device | None:
    """Where data go that are not on a device: to the first tensor."""
    return next((x.device for x in operands if isinstance(x, Tensor)), None)


def _completed(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments with all operands in their places: named ones taken out of `kwargs`, missing ones as scalars."""
    required = op.operands - len(op.optional)
    if len(args) < required:
        raise TypeError(f"{op.name} takes at least {required} operand{'s' * (required > 1)}; got {len(args)}")
    names = list(_signature(op).parameters)[len(args) : op.operands]
    given = (*args[required : op.operands], *(kwargs.pop(name, None) for name in names))
    filled = (scalar if x is None else x for x, scalar in zip(given, op.optional, strict=True))
    return (*args[:required], *filled, *args[op.operands :])


def _signature(op: Op) -> inspect.Signature:
    if op.parameters is None:
        names = ["x"] if op.operands == 1 else [f"x{i + 1}" for i in range(op.operands)]
        names = ["condition", "x1", "x2"] if op.name == "where" else names
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names])
    found = list(inspect.signature(op.parameters).parameters.values())
    if op.cast is not None:
        found.insert(2, inspect.Parameter("dtype", inspect.Parameter.KEYWORD_ONLY, default=None))
    if op.operands == -1:
        found[0] = inspect.Parameter("arrays", inspect.Parameter.POSITIONAL_ONLY)
    return inspect.Signature(found)


def kernel_signature(op: Op) -> str:
    """How a device's kernel for `op` is called: operands by position, parameters by keyword.

    >>> kernel_signature(TABLE["softmax"])
    'softmax(x, *, axis)'
    """
    if op.operands:
        found = list(_signature(op).parameters.values())
    else:  # nothing but parameters, which the composition takes after `k`
        found = list(inspect.signature(op.compose).parameters.values())[1:]  # type: ignore[arg-type]
    by_position = found[0].POSITIONAL_ONLY if op.operands else found[0].POSITIONAL_OR_KEYWORD
    operands = [each.name for each in found if each.kind is by_position] if op.operands != -1 else ["*arrays"]
    named = [each.name for each in found if each.kind is not by_position]
    marker = ["*"] if named and op.operands != -1 else []
    return f"{op.name}({', '.join(operands + marker + named)})"


def _docstring(op: Op) -> str:
    kinds = sorted(set().union(*op.accepts) if isinstance(op.accepts, tuple) else op.accepts)
    result = "the operands' common dtype" if op.result is SAME else "bool, or the dtype asked for"
    kind = "Tensor" if op.parts is None else f"named tuple of Tensor: {', '.join(op.parts._fields)}"
    undefined = f"\nLinAlgError\n    When {op.undefined}." if op.undefined else ""
    grad = f"Not differentiable: {op.gradient}." if isinstance(op.gradient, str) else "Differentiable to any order."
    return (
        f"{op.doc}\n\n{grad}\n\n"
        f"Parameters\n----------\noperands : Tensor or number\n    Of {', '.join(kinds)} dtype.\n\n"
        f"Returns\n-------\n{kind}\n    Of {result}.\n\n"
        f"Raises\n------\nDeviceMismatch, DTypeError, ShapeError, UnsupportedOp, OutOfMemory{undefined}\n"
    )


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """As the record says; a bound that is left out is the dtype's own."""
    x = asarray(x)
    low, high = integer_range(x.dtype) if x.dtype.is_integer else (-math.inf, math.inf)
    return apply(TABLE["clip"], (x, low if min is None else min, high if max is None else max))


FUNCTIONS: dict[str, Callable[..., Tensor]] = {name: _function(op) for name, op in TABLE.items() if op.operands}
clip.__doc__ = _docstring(TABLE["clip"])
FUNCTIONS["clip"] = clip
MAIN = {name: function for name, function in FUNCTIONS.items() if not TABLE[name].extension}
