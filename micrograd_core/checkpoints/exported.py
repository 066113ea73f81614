"""A model as an ONNX file: what can be asked for, and what comes back. The distribution micrograd-models writes it."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from micrograd_core.checkpoints.refusals import CheckpointError
from micrograd_core.errors import MissingExtra
from micrograd_core.nn import Module


class ExportError(CheckpointError, NotImplementedError):
    """A model does what ONNX cannot express. Nothing was written.

    Examples
    --------
    >>> from micrograd_core.checkpoints import ExportError
    >>> print(ExportError("the model draws random numbers"))
    the model draws random numbers
    """


class Exported(NamedTuple):
    """What `export_onnx` wrote.

    Parameters
    ----------
    path : Path
        The file.
    inputs, outputs : dict
        Dtype and shape by name; an open length has a name.
    opset : int
        The version of ONNX's operations.
    because : str
        Why the number of rows is fixed; empty if it is open.

    Examples
    --------
    >>> from pathlib import Path
    >>> from micrograd_core.checkpoints import Exported
    >>> written = Exported(Path("m.onnx"), {"x": ("float32", ("batch", 2))}, {"y": ("float32", ("batch", 1))}, 18, "")
    >>> written.inputs["x"]
    ('float32', ('batch', 2))
    """

    path: Path
    inputs: dict[str, tuple[str, tuple[int | str, ...]]]
    outputs: dict[str, tuple[str, tuple[int | str, ...]]]
    opset: int
    because: str
    """Why the number of rows is fixed; empty if it is open."""


def export_onnx(model: Module, sample: Any, path: str | Path, *, batch: bool | None = None) -> Exported:
    """Write what a model computes in `eval` mode to an ONNX file, which other runtimes run.

    Parameters
    ----------
    model : Module
        A function of tensors, which returns a tensor, or a tuple, list or dict of them.
    sample : Tensor, array, or list or tuple of them
        Arguments of a call. Their shapes and dtypes count, not their numbers.
    path : str or Path
        The file to write.
    batch : bool, optional
        Whether the first axis of all arguments is left open. By default it is where that is possible.

    Returns
    -------
    Exported
        ``inputs`` and ``outputs``, dtypes and shapes by name, and ``because``, why the number of rows is fixed.

    Raises
    ------
    MissingExtra
        When the distribution micrograd-models, or the package onnx, is not installed.
    ExportError
        When an operation has no counterpart in ONNX, or the model draws random numbers or changes itself: the message
        says where. Or when `batch` is true, and the rows cannot be left open.
    CannotWrite
        When the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> written = mg.checkpoints.export_onnx(mg.nn.Linear(2, 1), mg.zeros((4, 2)), path)
    >>> written.inputs
    {'x': ('float32', ('batch', 2))}
    """
    for each in entry_points(group="micrograd.exporters", name="onnx"):
        write = each.load()
        return write(model, sample, path, batch)  # type: ignore[no-any-return]
    raise MissingExtra("export_onnx", "micrograd-models", "models")
