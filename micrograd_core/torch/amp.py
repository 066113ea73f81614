"""Mixed precision by PyTorch's arguments."""

from __future__ import annotations

from typing import Any

import micrograd_core as mg


def autocast(device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> Any:
    """`micrograd_core.autocast`; by default in bfloat16 on the cpu and float16 elsewhere, as PyTorch does."""
    if isinstance(device_type, bool):  # torch.cuda.amp.autocast(enabled)
        device_type, enabled = "cuda", device_type
    half = ("bfloat16" if str(device_type).startswith("cpu") else "float16") if dtype is None else dtype
    enabled = enabled and half not in (mg.float32, "float32")
    return mg.autocast(half if enabled else "float16", enabled=enabled)


def GradScaler(device: Any = "cuda", init_scale: float = 2.0**16, enabled: bool = True, **settings: Any) -> Any:  # noqa: N802
    """`micrograd_core.GradScaler`; by PyTorch's words."""
    names = {"growth_factor": "growth", "backoff_factor": "backoff", "growth_interval": "interval"}
    own = {names[name]: value for name, value in settings.items()}
    return mg.GradScaler(init_scale, enabled=enabled, **own)
