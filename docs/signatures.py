"""How kernels are called, as text: for the pages about kernels and for the stubs."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from micrograd_core.array.functions import shape_of
from micrograd_core.dtypes import DType, dtype as as_dtype, float32
from micrograd_core.ops import Array, Op, Sample


def _signature(op: Op) -> inspect.Signature:
    """The operands of an operation, and its parameters."""
    found = list(inspect.signature(shape_of(op)).parameters.values())
    if op.operands == -1 and op.parameters is not None:
        found[1:] = [
            each for each in inspect.signature(op.parameters).parameters.values() if each.kind is each.KEYWORD_ONLY
        ]
    return inspect.Signature(found)


def kernel_signature(op: Op) -> str:
    """How a device's kernel for `op` is called: operands by position, canonical parameters by keyword.

    For softmax it is ``softmax(x, *, axis)``.
    """
    if op.operands == 0:  # nothing but parameters, which the composition takes after `k`, and as it does
        found = list(inspect.signature(op.compose).parameters.values())[1:]  # type: ignore[arg-type]
        names = [each.name for each in found]
        names.insert(sum(each.kind is not each.KEYWORD_ONLY for each in found), "*")
        return f"{op.name}({', '.join(names)})"
    operands = ["*arrays"] if op.operands == -1 else list(_signature(op).parameters)[: op.operands]
    named = [] if op.parameters is None else list(canonical(op, op.samples[0]))
    marker = ["*"] if named and op.operands != -1 else []
    return f"{op.name}({', '.join(operands + marker + named)})"


def canonical(op: Op, sample: Sample) -> dict[str, Any]:
    """The parameters that a kernel receives in a sample."""
    stands_in = [
        Shaped(each.shape, as_dtype(each.dtype or float32)) if isinstance(each, Array) else each
        for each in sample.operands
    ]
    return {} if op.parameters is None else op.parameters(*stands_in, **sample.params)


class Shaped(NamedTuple):
    """As much of an operand as parameters are made from."""

    shape: tuple[int, ...]
    dtype: DType
