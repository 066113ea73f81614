"""The op table: one record per operation, and no other list of operations anywhere. See `micrograd_core.ops.record`."""

from __future__ import annotations

from typing import Final

from micrograd_core.ops import (  # fmt: skip
    activations,
    arrangement,
    attention,
    classification,
    complex,
    convolution,
    creation,
    dropout,
    elementwise,
    fft,
    indexing,
    linalg,
    losses,
    movement,
    network,
    normalization,
    norms,
    patches,
    pooling,
    products,
    random,
    reductions,
    rounding,
    sorting,
    transcendental,
    updates,
)
from micrograd_core.ops.movement import unbroadcast
from micrograd_core.ops.record import CORE_KERNELS, SAME, Array, Op, Rule, Sample

FAMILIES = (
    elementwise, rounding, transcendental, complex, reductions, movement, arrangement, indexing, updates, sorting,
    products, linalg, norms, fft, random, network, activations, normalization, patches, convolution, pooling,
    dropout, attention, losses, classification, creation,
)  # fmt: skip

TABLE: Final[dict[str, Op]] = {op.name: op for family in FAMILIES for op in family.OPS}


def rules(name: str) -> tuple[Rule, ...]:
    """The gradient rules of an operation that is differentiable in all operands, one each."""
    found = TABLE[name].gradient
    assert isinstance(found, tuple)
    return tuple(rule for rule in found if rule is not None)


__all__ = ["CORE_KERNELS", "FAMILIES", "SAME", "TABLE", "Array", "Op", "Rule", "Sample", "rules", "unbroadcast"]
