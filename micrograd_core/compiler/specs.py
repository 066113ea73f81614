"""What a kernel should return, without computing it: the op table over operands that have only a shape and a dtype.

A record tells the shape, or its kind does; else it follows by running the composition on specs. A shape that depends
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


class TensorSpec(NamedTuple):
    """An operand without its elements, or what is known of a result: a shape that nothing tells is ``None``."""

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return str(self.dtype) if self.shape is None else f"{self.dtype} of shape {self.shape}"


class SpecInterpreter:
    """A kernel table whose functions take and give specs."""

    device = "an spec"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in TABLE:
            raise AttributeError(name)
        function = partial(_spec, TABLE[name])
        setattr(self, name, function)
        return function

    def dtype(self, x: TensorSpec) -> DType:
        """That of an spec."""
        return x.dtype

    def constant(self, values: Any, shape: Shape, dtype: DType) -> TensorSpec:
        """Numbers do not matter."""
        return TensorSpec(shape, dtype)

    upload = constant


def _spec(op: Op, *operands: Any, **params: Any) -> Any:
    found = expected_parts(op, operands, params)
    if any(each.shape is None for each in found):
        raise LookupError(f"the shape of {op.name} is not known")
    return found[0] if op.parts is None else found


def expected_parts(
    op: Op, operands: tuple[Any, ...], params: dict[str, Any], shaped: bool = True
) -> tuple[TensorSpec, ...]:
    """What each part of a result should be, or the one that there is. The operands have their common dtype already.

    A shape is ``None`` where nothing tells it, or unless it should be `shaped`.
    """
    common: Any = next((x.dtype for i, x in enumerate(operands) if i not in op.separate and not is_scalar(x)), None)
    told: Any = op.result if isinstance(op.result, tuple) else (op.result,)
    found: Any = _shape(op, operands, params) if shaped else None
    found = found if isinstance(op.result, tuple) and shaped else (found,) * len(told)
    shapes: Any = [x if x is None else tuple(x) for x in found]
    return tuple(TensorSpec(x, common if y is SAME else y(common, params)) for x, y in zip(shapes, told, strict=True))


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


OUTLINES: Final = SpecInterpreter()
