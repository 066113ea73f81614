"""Mixed precision: operations in a half type, what float32 products are computed in, and a loss scaled for float16."""

from __future__ import annotations

from typing import Final

from micrograd_core.backend import matmul_precision
from micrograd_core.engine.modes import autocast, autocast_dtype
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import FULL, HALF
from micrograd_core.ops.shared import chosen
from micrograd_core.optim.scaler import GradScaler
from micrograd_core.suggestions import door
from micrograd_core.support.context import precisions

POLICY: Final = {op.name: op.autocast for op in TABLE.values() if op.autocast}
"""Operation to the type its float16, bfloat16 and float32 operands are cast to: the context's half type, or float32."""

PRECISIONS: Final = ("highest", "high", "medium")


def set_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products in this context; threads and tasks do not see each other's.

    Parameters
    ----------
    precision : str
        ``"highest"``: float32, the default. ``"high"``: TF32 where the device has it, with 10 bits of mantissa for the
        factors. ``"medium"``: bfloat16 where the device has it, with 7. Sums are float32 in all three. Devices without
        such units compute in float32.

    Raises
    ------
    ValueError
        When the precision is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.set_matmul_precision("high")
    >>> mg.set_matmul_precision("highest")
    """
    precisions.set(chosen("set_matmul_precision", "the precision", precision, PRECISIONS))


__all__ = [
    "FULL", "HALF", "POLICY", "PRECISIONS", "GradScaler", "autocast", "autocast_dtype", "matmul_precision",
    "set_matmul_precision",
]  # fmt: skip

door(globals())
