"""What the families of elementwise operations have in common: constructors that supply samples, and small rules."""

from __future__ import annotations

from typing import Any

from micrograd_core.dtypes import DType, bool_, int64, integer_range
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops.record import Array, Op, Sample
from micrograd_core.ops.tangents import symmetric


def zero_rule(k: Any, g: Any, out: Any, x: Any) -> Any:
    """Steps have derivative zero wherever they have one; at the jumps zero is the convention."""
    return k.full(shape=x.shape, fill_value=0, dtype=x.dtype)


def is_scalar(x: Any) -> bool:
    """Whether an operand is a Python number; exactly, because a handle may be a subclass, as NumPy's float64 is."""
    return type(x) in (bool, int, float, complex)


def arrays(k: Any, *operands: Any) -> tuple[Any, ...]:
    """Operands of which some may be scalars, all as arrays."""
    dtype = next(x.dtype for x in operands if not is_scalar(x))
    return tuple(k.full(shape=(), fill_value=x, dtype=dtype) if is_scalar(x) else x for x in operands)


def wrapped(number: Any, dtype: DType) -> Any:
    """A Python number that stands for `number` beside a tensor: of integers the one that it wraps to in `dtype`."""
    if not dtype.is_integer or not isinstance(number, int):
        return number
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def to_bool(dtype: DType, params: dict[str, Any]) -> DType:
    """The result is true or false."""
    return bool_


def to_int64(dtype: DType, params: dict[str, Any]) -> DType:
    """The result is a position or a count."""
    return int64


def binary(name: str, doc: str, *, low: float = -2.0, **facts: Any) -> Op:
    """A binary operation with samples for equal shapes, broadcasting, 0-d and scalars on either side."""
    a, b = Array((2, 3), low), Array((3,), low)
    samples = (
        Sample(a, Array((2, 3), low)),
        Sample(a, b),
        Sample(Array((2, 1), low), b),
        Sample(a, Array((), low)),
        Sample(Array((), low), Array((), low)),
        Sample(a, 1.5),
        Sample(0.5, b),
        Sample(Array((0, 3), low), b),
    )
    return Op(name, doc, operands=2, check=broadcast_shapes, **{"samples": samples, "tangent": symmetric, **facts})


def unary(name: str, doc: str, *, low: float = -2.0, high: float = 2.0, **facts: Any) -> Op:
    """A unary operation with samples drawn from its domain."""
    samples = (Sample(Array((2, 3), low, high)), Sample(Array((), low, high)), Sample(Array((0, 2), low, high)))
    return Op(name, doc, **{"samples": samples, "tangent": symmetric, **facts})
