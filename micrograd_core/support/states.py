"""What `load_state_dict` takes, of modules and of optimisers."""

from __future__ import annotations

from typing import Any


def check_state(name: str, state: Any) -> None:
    """Raise TypeError for anything but a mapping where `load_state_dict` takes one, such as the path of a file."""
    if not hasattr(state, "keys"):
        raise TypeError(
            f"{name} takes what state_dict() gave, tensors by name; got {state!r}. To read a file write "
            "micrograd_core.torch.load(path), or checkpoints.load_model(path) for the whole module"
        )
