"""From a table or a folder of images to a trained network, a report and predictions: the commands, and their parts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from micrograd_train import sets
    from micrograd_train.dataset import Dataset
    from micrograd_train.notices import DataWarning
    from micrograd_train.pictures import images
    from micrograd_train.splitting import split
    from micrograd_train.tables.preparation import Preparation
    from micrograd_train.tables.reading import read
    from micrograd_train.using.trained import Predictor, load_predictor

__all__ = ["DataWarning", "Dataset", "Predictor", "Preparation", "images", "load_predictor", "read", "sets", "split"]

_HOMES = {
    "DataWarning": "notices",
    "Dataset": "dataset",
    "Predictor": "using.trained",
    "Preparation": "tables.preparation",
    "images": "pictures",
    "load_predictor": "using.trained",
    "read": "tables.reading",
    "split": "splitting",
}


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Late, so that ``micrograd --help`` imports no array library."""
        if name == "sets":
            return import_module("micrograd_train.sets")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"micrograd_train.{_HOMES[name]}"), name)
