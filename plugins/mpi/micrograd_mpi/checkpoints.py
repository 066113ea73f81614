"""Checkpoints of a job: written once, by rank 0, and read by any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from micrograd_core import checkpoints
from micrograd_mpi.job import World, world
from micrograd_mpi.parallel import DataParallel
from micrograd_mpi.sharded import Sharded


class _Whole:
    """A sharded optimiser as that of all parameters: its state is brought together by all ranks."""

    changing = ("lr",)

    def __init__(self, optimizer: Sharded) -> None:
        self._optimizer, self._state = optimizer, optimizer.state_dict()
        self.lr = optimizer.rule.lr

    def state_dict(self) -> dict[str, Any]:
        """As it was when this was made."""
        return self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Each rank takes its part."""
        self._optimizer.load_state_dict(state)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "lr":
            self._optimizer.rule.lr = value


def save(path: str | Path, *, group: World | None = None, **parts: Any) -> None:
    """Write all that a run needs to go on, once, whole or not at all; all ranks call it together.

    Parameters
    ----------
    path : str or Path
        A file that rank 0 can write.
    group : World, optional
        The ranks, by default all.
    **parts
        As for `micrograd_core.checkpoints.save`: ``model``, ``optimizer``, ``data`` …; also a `DataParallel`, and a
        `Sharded` optimiser, which is brought together.

    Raises
    ------
    CannotWrite, CheckpointError
        On rank 0; the other ranks raise a WorldError that says the same.
    """
    parts = _unwrapped(parts)
    group = world() if group is None else group
    group.on_first(lambda: checkpoints.save(path, **parts))


def load(path: str | Path, **parts: Any) -> checkpoints.Checkpoint:
    """Go on from what `save` wrote, on any number of ranks; all ranks call it together, and each reads the file.

    Parameters
    ----------
    path : str or Path
        A file that every rank can read.
    **parts
        As for `micrograd_core.checkpoints.load`; also a `DataParallel`, and a `Sharded` optimiser.

    Returns
    -------
    Checkpoint
        The other contents of the file.

    Raises
    ------
    CheckpointError, ShapeError
        As from `micrograd_core.checkpoints.load`.
    """
    return checkpoints.load(path, **_unwrapped(parts))


def _unwrapped(parts: dict[str, Any]) -> dict[str, Any]:
    own = {name: x.module if isinstance(x, DataParallel) else x for name, x in parts.items()}
    return {name: _Whole(x) if isinstance(x, Sharded) else x for name, x in own.items()}
