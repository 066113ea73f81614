"""What can be set of a training, and what cannot end well."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from micrograd_core.errors import MicrogradError, one_of

OPTIMIZERS = ("adam", "adamw", "sgd")
TASKS = ("classification", "regression", "sequence")
STEPS = 1600
"""How many steps a training has by default, where 40 epochs of a small table have less."""
MOST_LAYERS, MOST_BYTES = 100, 2 << 30


class NotSensible(MicrogradError, ValueError):
    """A setting that cannot end well. Nothing was done."""


@dataclass(frozen=True)
class Settings:
    """The options of ``micrograd train``; ``None`` is found from the data."""

    data: str
    target: str | None = None
    task: str | None = None
    ignore: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    model: str | None = None
    hidden: tuple[int, ...] = (256,)
    dropout: float = 0.3
    optimizer: str = "adam"
    lr: float = 2e-3
    weight_decay: float = 0.0
    epochs: int | None = None
    batch_size: int | None = None
    patience: int | None = None
    validation: float = 0.15
    test: float = 0.15
    device: str | None = None
    seed: int = 0
    out: str | None = None
    log: str | None = None
    tensorboard: str | None = None

    def as_config(self) -> dict[str, Any]:
        """What a file of settings says of it: all that repeats the run, and not where it wrote."""
        return {name: x for name, x in asdict(self).items() if name not in ("out", "log", "tensorboard")}


DECISIVE = (
    "target", "task", "model", "hidden", "dropout", "optimizer", "lr", "weight_decay", "batch_size", "validation",
    "test", "seed",
)  # fmt: skip
"""Settings that a training which is gone on with must have in common with its start."""


def check(settings: Settings) -> None:
    """Refuse, before anything is read, what is out of range."""
    if settings.optimizer not in OPTIMIZERS:
        raise NotSensible(f"--optimizer takes {one_of(OPTIMIZERS)}; got {settings.optimizer!r}")
    for option, value, least, most, unit in (
        ("--epochs", 1 if settings.epochs is None else settings.epochs, 1, 100_000, "passes over the rows"),
        ("--lr", settings.lr, 1e-8, 100, "as the size of a step; others teach nothing"),
        ("--hidden", min(settings.hidden, default=1), 1, math.inf, "units in a layer"),
    ):
        if not least <= value <= most:
            raise NotSensible(f"{option} takes {least:,} to {most:,} {unit}; got {_figure(value)}")
    if len(settings.hidden) > MOST_LAYERS:
        raise NotSensible(f"--hidden takes at most {MOST_LAYERS} layers; got {len(settings.hidden):,}")
    if settings.validation + settings.test > 0.9:
        raise NotSensible(
            f"--validation {settings.validation:g} and --test {settings.test:g} leave less than a tenth of the rows to "
            "learn from; take smaller ones"
        )


def completed(settings: Settings, rows: int) -> dict[str, int]:
    """The size of batches, the number of epochs and the patience, for so many rows to learn from.

    Raises
    ------
    NotSensible
        When batches are larger than all there is.
    """
    usual = min(64 if rows >= 512 else 32 if rows >= 128 else 16, rows)
    size = usual if settings.batch_size is None else settings.batch_size
    if not 1 <= size <= rows:
        raise NotSensible(f"--batch-size takes 1 to {rows:,} rows; there are no more to train on; got {_figure(size)}")
    steps = -(-rows // size)
    epochs = settings.epochs or max(40, -(-STEPS // steps))
    return {"batch_size": size, "epochs": epochs, "patience": settings.patience or max(10, epochs // 4)}


def check_size(sizes: Sequence[int], settings: Settings, rows: int, batch_size: int) -> None:
    """Refuse a perceptron that would fill the memory.

    Raises
    ------
    NotSensible
    """
    parameters = sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(sizes))
    copies = {"adam": 4, "adamw": 4, "sgd": 3}[settings.optimizer] + 1  # weights, gradients, moments, the best weights
    activations = 3 * max(batch_size, 512) * sum(sizes[1:])  # before and after ReLU, and a gradient
    takes = 4 * (copies * parameters + activations)
    if takes > MOST_BYTES:
        raise NotSensible(
            f"--hidden {' '.join(map(_figure, settings.hidden))}: a network of {_figure(parameters)} parameters, which "
            f"takes {_figure(takes >> 20)} MiB to train; sensible for {rows:,} rows are at most "
            f"{MOST_BYTES >> 20:,} MiB"
        )


def _figure(number: float) -> str:
    return f"{number:,}" if not number > 10**15 else "over 1,000,000,000,000,000"
