"""The default generator."""

from __future__ import annotations

from typing import Any

from micrograd_core.random import default_generator as default_generator
from micrograd_core.torch.functions import manual_seed as manual_seed


def get_rng_state() -> Any:
    """Where the default generator is."""
    return default_generator().state


def set_rng_state(state: Any) -> None:
    """Have the default generator go on from a state."""
    default_generator().state = state
