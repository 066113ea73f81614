"""Mixed precision: operations in a half type, what float32 products are computed in, and a loss scaled for float16."""

from __future__ import annotations

from typing import Final

from micrograd_core.backend import matmul_precision
from micrograd_core.engine.autocast import autocast, autocast_dtype
from micrograd_core.errors import one_of
from micrograd_core.ground.context import precisions
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import FULL, HALF
from micrograd_core.optim.scaling import GradScaler

POLICY: Final = {op.name: op.autocast for op in TABLE.values() if op.autocast}
"""Operation to the type its float16, bfloat16 and float32 operands are cast to: the context's half type, or float32."""

PRECISIONS: Final = ("highest", "high", "medium")


def set_matmul_precision(precision: str) -> None:
    """Set in what float32 matrix products may be computed, in this context (threads and tasks do not see each other's).

    Parameters
    ----------
    precision : str
        ``"highest"``: float32, the default. ``"high"``: TF32 where the device has it, with 10 bits of mantissa for the
        factors. ``"medium"``: bfloat16 where the device has it, with 7. Sums are float32 in all three. Devices without
        such units compute in float32.

    Raises
    ------
    ValueError
    """
    if precision not in PRECISIONS:
        raise ValueError(f"set_matmul_precision: the precision is {one_of(map(repr, PRECISIONS))}; got {precision!r}")
    precisions.set(precision)


__all__ = [
    "FULL", "HALF", "POLICY", "PRECISIONS", "GradScaler", "autocast", "autocast_dtype", "matmul_precision",
    "set_matmul_precision",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
