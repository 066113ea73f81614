"""Activations that are computed a second time in place of being kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import micrograd_core as mg


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: Any = None, **kwargs: Any) -> Any:
    """`micrograd_core.checkpoint`."""
    return mg.checkpoint(function, *args, **kwargs)
