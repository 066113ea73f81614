"""Switches of PyTorch's libraries. They can be set and read; none of them changes a number here."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from micrograd_core.device import Device

cudnn = SimpleNamespace(benchmark=False, deterministic=True, enabled=False, allow_tf32=False)
cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False), is_built=Device.is_cuda_available)
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
sys.modules[f"{__name__}.cudnn"] = cudnn  # type: ignore[assignment]
