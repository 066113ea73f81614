"""What came of a training, and the files that say so: all of them appear together, or none."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from micrograd_core import checkpoints
from micrograd_core.nn import Module
from micrograd_core.support import files
from micrograd_core.tools.arguments import json_text
from micrograd_train.learning.loop import METRICS
from micrograd_train.learning.problems import Problem
from micrograd_train.learning.settings import Settings
from micrograd_train.options import as_toml
from micrograd_train.report.page import page
from micrograd_train.report.plots import pictures

ALWAYS = ("model.safetensors", "metrics.json", "curves.png", "config.toml", "report.html")
SOMETIMES = ("confusion.png", "residuals.png", "importance.png", "boundary.png")
POSSIBLE = (*ALWAYS, *SOMETIMES)
"""What a training may write; what it does not write, and a former one did, is taken away."""


@dataclass(frozen=True)
class Results:
    """All that is told of a training.

    Attributes
    ----------
    settings, problem, model
        What was trained, on what, and how.
    metrics : dict
        What ``metrics.json`` has.
    seen : dict
        What was said of the rows of `part`, and what is true.
    importance : numpy.ndarray or None
        By column or pixel.
    boundary : dict or None
        What is said on a grid of two inputs.
    part : str
        The rows on which it was judged.
    """

    settings: Settings
    problem: Problem
    model: Module
    metrics: dict[str, Any]
    seen: dict[str, Any]
    importance: Any
    boundary: dict[str, Any] | None
    part: str

    @property
    def metric(self) -> str:
        """What stands beside the loss."""
        return METRICS[self.problem.inputs.task]


def write(results: Results, folder: Path) -> None:
    """Write all files of a training.

    Raises
    ------
    CannotWrite
        When the disk is full, and the like; those of a former run are as they were then.
    """
    config = as_toml(results.settings.as_config(), "The run again: micrograd train --config config.toml")
    found: dict[str, bytes] = {
        "model.safetensors": _saved(results, folder),
        "metrics.json": (json_text(results.metrics) + "\n").encode(),
        "config.toml": config.encode(),
        **pictures(results),
        "report.html": page(results, folder).encode(),
    }
    files.write({folder / name: content for name, content in found.items()})
    for name in SOMETIMES:
        if name not in found:
            with suppress(OSError):
                (folder / name).unlink(missing_ok=True)


def _saved(results: Results, folder: Path) -> bytes:
    """The network with what it takes to use it: how data become numbers, what it is for, how good it is."""
    metrics, settings = results.metrics, results.settings
    told = {
        "inputs": results.problem.inputs.to_json(),
        "model": settings.model,
        "data": results.problem.name,
        "about": results.problem.about,
        "judged_on": results.part,
        "figures": metrics[results.part],
        "config": {name: list(x) if isinstance(x, tuple) else x for name, x in settings.as_config().items()},
    }
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as own:
        path = Path(own) / "model.safetensors"
        checkpoints.save(path, model=results.model, meta=told)
        return path.read_bytes()
