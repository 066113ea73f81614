"""`micrograd_core.optim`, where PyTorch's programs look for it."""

from __future__ import annotations

import sys
from typing import Any

from micrograd_core import optim
from micrograd_core.optim import lr_scheduler as lr_scheduler


def __getattr__(name: str) -> Any:
    return getattr(optim, name)


sys.modules[f"{__name__}.lr_scheduler"] = lr_scheduler
