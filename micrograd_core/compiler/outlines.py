"""What a kernel should return, without computing it: the op table over operands that have only a shape and a dtype.

Of the core kernels the shapes are rules below; of all others they follow by running the composition on outlines. Where
neither tells (shapes that depend on numbers, factorizations), the shape is ``None``: unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from micrograd_core.dtypes import DType
from micrograd_core.errors import UnsupportedOp
from micrograd_core.layout import Layout, Shape, broadcast_shapes, reduced_shape
from micrograd_core.ops import CORE_KERNELS, SAME, TABLE, Op
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


def _reduced(x: Outline, *, axis: Any, keepdims: bool) -> Shape:
    return reduced_shape(x.shape, axis, keepdims)


SHAPES: Final[dict[str, Callable[..., Shape]]] = {
    "reshape": lambda x, *, shape: shape,
    "permute_dims": lambda x, *, axes: tuple(x.shape[axis] for axis in axes),
    "broadcast_to": lambda x, *, shape: shape,
    "getitem": lambda x, *, key: Layout.contiguous(x.shape).index(key).shape,
    "scatter": lambda x, values, *, key: x.shape,
    "astype": lambda x, *, dtype: x.shape,
    "sum": _reduced,
    "max": _reduced,
    "real": lambda x: x.shape,
    "imag": lambda x: x.shape,
    "full": lambda *, shape, **_: shape,
    "integers": lambda *, values, **_: (len(values),),
    "arange": lambda stop, **_: (stop,),
}
"""The shapes of core kernels that are not elementwise; of the parts of complex numbers, and of what has no operands."""


class Outlines:
    """A kernel table whose functions take and give outlines."""

    device = "an outline"

    def __getattr__(self, name: str) -> Callable[..., Outline]:
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


def _outline(op: Op, *operands: Any, **params: Any) -> Outline:
    found = expected(op, operands, params)
    if found.shape is None:
        raise LookupError(f"the shape of {op.name} is not known")
    return Outline(found.shape, found.dtype)


def expected(op: Op, operands: tuple[Any, ...], params: dict[str, Any], shaped: bool = True) -> Expected:
    """What a result should be; its shape is ``None`` where nothing tells it, or unless it should be `shaped`."""
    return Expected(_shape(op, operands, params) if shaped else None, result_dtype(op, operands, params))


def result_dtype(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> DType:
    """By the table. The kernel's operands have their common dtype already."""
    common: Any = next((x.dtype for i, x in enumerate(operands) if i not in op.separate and not is_scalar(x)), None)
    found: DType = common if op.result is SAME else op.result(common, params)  # type: ignore[operator]
    return found


def _shape(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Shape | None:
    if op.name in SHAPES:
        return SHAPES[op.name](*operands, **params)
    if op.operands == 0:  # a composition would make the numbers
        asked: Shape = params["shape"]
        return asked
    if op.name in CORE_KERNELS:
        return broadcast_shapes(op.name, *(() if is_scalar(x) else x.shape for x in operands))
    if op.compose is None or op.parts is not None:
        return None
    try:
        shape: Shape = op.compose(OUTLINES, *operands, **params).shape
    except (LookupError, AttributeError, UnsupportedOp):  # it looks at numbers, or stands on what is not known
        return None
    return shape


OUTLINES: Final = Outlines()
