"""Mixed precision: operations in a half type, what float32 products are computed in, and a loss scaled for float16."""

from __future__ import annotations

from micrograd_core.engine.autocast import (
    FULL,
    HALF,
    POLICY,
    PRECISIONS,
    autocast,
    autocast_dtype,
    matmul_precision,
    set_matmul_precision,
)
from micrograd_core.optim.scaling import GradScaler

__all__ = [
    "FULL", "HALF", "POLICY", "PRECISIONS", "GradScaler", "autocast", "autocast_dtype", "matmul_precision",
    "set_matmul_precision",
]  # fmt: skip
