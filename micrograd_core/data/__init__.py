"""Data: batches on their way to a device, tables as numbers, sets to learn from, parts to train and to test on.

The room needs no array library until a function asks for one; what is missing is said, with what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.data import sets
from micrograd_core.data.batches import Batches, batches
from micrograd_core.data.dataset import Dataset
from micrograd_core.data.errors import DataError, DataWarning
from micrograd_core.data.pictures import images
from micrograd_core.data.preparation import Preparation
from micrograd_core.data.reading import read
from micrograd_core.data.splitting import split
from micrograd_core.elsewhere import missing

__all__ = [
    "Batches", "DataError", "DataWarning", "Dataset", "Preparation", "batches", "images", "read", "sets", "split",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing(__name__, name)
