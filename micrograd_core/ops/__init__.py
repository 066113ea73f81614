"""The op table: one record per operation, and no other list of operations anywhere. See `micrograd_core.ops.record`."""

from __future__ import annotations

from typing import Final

from micrograd_core.ops import (
    complex,
    elementwise,
    linalg,
    movement,
    network,
    norms,
    reductions,
    rounding,
    transcendental,
)  # fmt: skip
from micrograd_core.ops.movement import unbroadcast
from micrograd_core.ops.record import CORE_KERNELS, SAME, Array, Op, Rule, Sample

_FAMILIES = (elementwise, rounding, transcendental, complex, reductions, movement, network, linalg, norms)

TABLE: Final[dict[str, Op]] = {op.name: op for family in _FAMILIES for op in family.OPS}


def rules(name: str) -> tuple[Rule, ...]:
    """The gradient rules of an operation that is differentiable in all operands, one each."""
    found = TABLE[name].gradient
    assert isinstance(found, tuple)
    return tuple(rule for rule in found if rule is not None)


__all__ = ["CORE_KERNELS", "SAME", "TABLE", "Array", "Op", "Rule", "Sample", "rules", "unbroadcast"]
