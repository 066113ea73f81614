"""A model as an ONNX file: what can be asked for, and what comes back. The distribution micrograd-models writes it.

Also numbers of PyTorch's modules, and back: names and bits are the same. torch is only imported where it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from micrograd_core.checkpoints.refusals import CheckpointError
from micrograd_core.engine.ingest import read
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
        return each.load()(model, sample, path, batch)  # type: ignore[no-any-return]
    raise MissingExtra("export_onnx", "micrograd-models", "models")


# ── PyTorch ───────────────────────────────────────────────────────────────────────────────────────────────────────


def from_torch(source: Any, model: Module, strict: bool = True) -> Module:
    """Give a model the numbers of a PyTorch module, or of its ``state_dict()``.

    Names are the same where layers are; of a tensor with several names one is enough. The model keeps its dtypes and
    its device.

    Parameters
    ----------
    source : torch.nn.Module, or mapping from names to torch tensors or arrays
        Its ``state_dict()`` has the numbers.
    model : Module
        Receives them; its layers have the same names.
    strict : bool
        Whether missing and unknown names are an error, as in `Module.load_state_dict`.

    Returns
    -------
    Module
        The model.

    Raises
    ------
    ShapeError
        When names or shapes differ; all differences are listed and nothing is loaded.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> import numpy as np
    >>> model = mg.nn.Linear(2, 1, bias=False)
    >>> mg.checkpoints.from_torch({"weight": np.ones((1, 2), dtype="float32")}, model).weight
    Tensor([[1., 1.]], requires_grad=True)
    """
    state = source if isinstance(source, Mapping) else source.state_dict()
    model.load_state_dict({name: _on_the_host(x) for name, x in state.items()}, strict)
    return model


def to_torch(model: Module) -> dict[str, Any]:
    """The numbers of a model as torch tensors in the host's memory, for ``torch_module.load_state_dict``.

    Tied weights are one tensor with several names. Nothing is shared with the model.

    Parameters
    ----------
    model : Module
        Its parameters and buffers are copied.

    Returns
    -------
    dict from str to torch.Tensor
        By the names of ``model.state_dict()``.

    Raises
    ------
    ImportError
        When torch is not installed.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> state = mg.checkpoints.to_torch(mg.nn.Linear(2, 1))  # doctest: +SKIP
    >>> {name: tuple(x.shape) for name, x in state.items()}  # doctest: +SKIP
    {'weight': (1, 2), 'bias': (1,)}
    """
    import torch

    every = model._every_tensor()
    made: dict[int, Any] = {}
    for x in {id(x): x for x in every.values()}.values():
        kind, data = getattr(torch, x.dtype.name), bytearray(read(x._kernels, x._handle, x.dtype))
        made[id(x)] = torch.frombuffer(data, dtype=kind).reshape(x.shape) if data else torch.empty(x.shape, dtype=kind)
    return {name: made[id(x)] for name, x in every.items()}


def _on_the_host(x: Any) -> Any:
    """A torch tensor as `asarray` reads it; anything else as it is."""
    if type(x).__module__.partition(".")[0] != "torch":
        return x
    x = x.detach().cpu()
    return x.float() if str(x.dtype) == "torch.bfloat16" else x  # NumPy, which reads it, has no such; the bits stay
