"""What a kernel should return, without computing it: the op table over operands that have only a shape and a dtype.

A record tells the shape, or its kind does; else it follows by running the composition on outlines. A shape that depends
on the elements is ``None``: unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from micrograd_core.dtypes import DType
from micrograd_core.errors import UnsupportedOp
from micrograd_core.layout import Shape, broadcast_shapes, reduced_shape
from micrograd_core.ops import SAME, TABLE, Op
from micrograd_core.ops.shared import is_scalar


class Outline(NamedTuple):
    """An operand without its elements."""

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


class Expected(NamedTuple):
    """What is known of a result."""

    shape: Shape | None
    dtype: DType

    def __str__(self) -> str:
        return str(self.dtype) if self.shape is None else f"{self.dtype} of shape {self.shape}"


class Outlines:
    """A kernel table whose functions take and give outlines."""

    device = "an outline"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in TABLE:
            raise AttributeError(name)
        function = partial(_outline, TABLE[name])
        setattr(self, name, function)
        return function

    def dtype(self, x: Outline) -> DType:
        """That of an outline."""
        return x.dtype

    def constant(self, values: Any, shape: Shape, dtype: DType) -> Outline:
        """Numbers do not matter."""
        return Outline(shape, dtype)

    upload = constant


def _outline(op: Op, *operands: Any, **params: Any) -> Any:
    found = []
    for each in expected_parts(op, operands, params):
        if each.shape is None:
            raise LookupError(f"the shape of {op.name} is not known")
        found.append(Outline(each.shape, each.dtype))
    return found[0] if op.parts is None else tuple(found)


def expected(op: Op, operands: tuple[Any, ...], params: dict[str, Any], shaped: bool = True) -> Expected:
    """What a result should be; its shape is ``None`` where nothing tells it, or unless it should be `shaped`."""
    return Expected(_shape(op, operands, params) if shaped else None, result_dtype(op, operands, params))


def expected_parts(
    op: Op, operands: tuple[Any, ...], params: dict[str, Any], shaped: bool = True
) -> tuple[Expected, ...]:
    """The same of each part of a result, or of the one that there is."""
    if not isinstance(op.result, tuple):
        return (expected(op, operands, params, shaped),)
    shapes = _shape(op, operands, params) if shaped else (None,) * len(op.result)
    common = _common(op, operands)
    return tuple(Expected(shape, _dtype(told, common, params)) for shape, told in zip(shapes, op.result, strict=True))


def result_dtype(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> DType:
    """By the table. The kernel's operands have their common dtype already."""
    return _dtype(op.result, _common(op, operands), params)


def _common(op: Op, operands: tuple[Any, ...]) -> Any:
    return next((x.dtype for i, x in enumerate(operands) if i not in op.separate and not is_scalar(x)), None)


def _dtype(told: Any, common: Any, params: dict[str, Any]) -> DType:
    found: DType = common if told is SAME else told(common, params)
    return found


def _shape(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    if op.shape is not None:
        return op.shape(*operands, **params)
    if op.kind == "elementwise":
        return broadcast_shapes(op.name, *(() if is_scalar(x) else x.shape for x in operands))
    if op.kind == "reduction":
        axis = params["axis"]
        return reduced_shape(operands[0].shape, (axis,) if isinstance(axis, int) else axis, params["keepdims"])
    if op.operands == 0:  # a composition would make the numbers
        return params["shape"]
    if op.compose is None:
        return None
    try:
        return op.compose(OUTLINES, *operands, **params).shape
    except (LookupError, AttributeError, UnsupportedOp):  # it looks at numbers, or stands on what is not known
        return None


OUTLINES: Final = Outlines()
