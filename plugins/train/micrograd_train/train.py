"""``micrograd train digits`` as a function. `learning` has the whole of it, for any data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from micrograd_core.device import Device
from micrograd_train.learning.loop import TrainingDiverged
from micrograd_train.learning.networks import mlp
from micrograd_train.learning.settings import NotSensible, Settings
from micrograd_train.learning.training import train

__all__ = ["NotSensible", "TrainingDiverged", "mlp", "train_digits"]


def train_digits(
    *,
    device: str | Device | None = None,
    epochs: int = 40,
    batch_size: int = 64,
    lr: float = 2e-3,
    hidden: Sequence[int] = (256,),
    optimizer: str = "adam",
    seed: int = 0,
    out: str | Path = "runs/digits",
) -> dict[str, Any]:
    """Train a multilayer perceptron on handwritten digits, and write what came of it to the folder `out`.

    Parameters
    ----------
    device, epochs, batch_size, lr, hidden, optimizer, seed, out
        As the options of the command.

    Returns
    -------
    dict
        What ``metrics.json`` has.

    Raises
    ------
    MissingExtra, NotSensible, CannotWrite, TrainingDiverged, BackendNotFound, DeviceUnavailable
        As `learning.training.train`.
    """
    return train(
        Settings(
            data="digits",
            device=None if device is None else str(device),
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            hidden=tuple(hidden),
            optimizer=optimizer,
            seed=seed,
            out=str(out),
        )
    )
