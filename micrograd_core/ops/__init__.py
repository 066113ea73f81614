"""The op table: one record per operation, and no other list of operations anywhere. See `micrograd_core.ops.record`.

`core` is what an evening's reading takes: elementwise arithmetic, shapes, reductions, matrix products. `standard` is
what else the array API has, `linalg` its extension of that name and products beyond `matmul`, `network` what networks
are made of. Beside the rooms stand the record itself, what records share, and the usual tangents.
"""

from __future__ import annotations

from typing import Final

from micrograd_core.ops.core import elementwise, matmul, movement, reductions
from micrograd_core.ops.core.movement import unbroadcast
from micrograd_core.ops.linalg import matrices, norms, products
from micrograd_core.ops.network import (  # fmt: skip
    activations,
    attention,
    bags,
    batch_normalization,
    classification,
    convolution,
    dropout,
    groups,
    losses,
    margins,
    norm_gradients,
    normalization,
    patches,
    piecewise,
    pooling,
    recurrent,
    resampling,
    shuffling,
    softmax,
    windows,
)
from micrograd_core.ops.record import CORE_KERNELS, SAME, Array, Op, Rule, Sample
from micrograd_core.ops.standard import (  # fmt: skip
    arrangement,
    complex,
    construction,
    creation,
    elementary,
    fft,
    indexing,
    random,
    rounding,
    scans,
    selection,
    sorting,
    special,
    statistics,
    transcendental,
    updates,
)

FAMILIES = (
    elementwise, rounding, transcendental, complex, reductions, movement, arrangement, indexing, updates, sorting,
    products, matrices, norms, fft, random, matmul, activations, softmax, normalization, batch_normalization,
    norm_gradients, patches, convolution, pooling, dropout, attention, recurrent, losses, classification, creation,
    special, elementary, scans, piecewise, selection, construction, statistics, resampling, shuffling, windows, groups,
    margins, bags,
)  # fmt: skip

TABLE: Final[dict[str, Op]] = {op.name: op for family in FAMILIES for op in family.OPS}


def rules(name: str) -> tuple[Rule, ...]:
    """The gradient rules of an operation that is differentiable in all operands, one each."""
    found = TABLE[name].gradient
    assert isinstance(found, tuple)
    return tuple(rule for rule in found if rule is not None)


__all__ = ["CORE_KERNELS", "FAMILIES", "SAME", "TABLE", "Array", "Op", "Rule", "Sample", "rules", "unbroadcast"]
