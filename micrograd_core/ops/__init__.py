"""The op table: one record per operation, and no other list of operations anywhere. See `micrograd_core.ops.record`."""

from __future__ import annotations

from typing import Final

from micrograd_core.ops import (
    complex,
    creation,
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
from micrograd_core.ops.record import CORE_KERNELS, SAME, Array, Op, Sample

_FAMILIES = (
    elementwise, rounding, transcendental, complex, reductions, creation, movement, network, linalg, norms,
)  # fmt: skip

TABLE: Final[dict[str, Op]] = {op.name: op for family in _FAMILIES for op in family.OPS}

__all__ = ["CORE_KERNELS", "SAME", "TABLE", "Array", "Op", "Sample", "unbroadcast"]
