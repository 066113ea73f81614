"""Data: batches on their way to a device, and splits into parts to train and to test on.

The room needs no array library until a function asks for one; what is missing is said, with what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.data.batches import Batches, batches
from micrograd_core.data.dataset import Dataset
from micrograd_core.data.errors import DataError, DataWarning
from micrograd_core.data.splitting import split
from micrograd_core.elsewhere import missing

__all__ = ["Batches", "DataError", "DataWarning", "Dataset", "batches", "split"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing(__name__, name)
