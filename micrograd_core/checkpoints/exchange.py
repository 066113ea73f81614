"""Numbers of PyTorch's modules, and back: names and bits are the same. torch is only imported where it is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from micrograd_core.engine.ingest import read
from micrograd_core.nn import Module


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
