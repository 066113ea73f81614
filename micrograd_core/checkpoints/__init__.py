"""Checkpoints: a run in one file, from which it goes on to the last bit, and models made again from such a file."""

from __future__ import annotations

from micrograd_core.checkpoints.exported import Exported, ExportError, export_onnx, from_torch, to_torch
from micrograd_core.checkpoints.refusals import CheckpointError
from micrograd_core.checkpoints.stored import Checkpoint, load, load_model, save
from micrograd_core.suggestions import door

__all__ = [
    "Checkpoint", "CheckpointError", "ExportError", "Exported", "export_onnx", "from_torch", "load", "load_model",
    "save", "to_torch",
]  # fmt: skip

door(globals())
