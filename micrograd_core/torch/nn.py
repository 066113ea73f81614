"""`micrograd_core.nn`, with PyTorch's attention: its pair of results, its sense of masks, its order of axes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from micrograd_core import nn
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn import functional as functional, init as init, utils as utils
from micrograd_core.nn.module import is_parameter


class _Modules(type):
    """`isinstance` of `Module` knows the layers of `micrograd_core.nn`, too."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, nn.Module) if cls is Module else type.__instancecheck__(cls, x)


_meant: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""Tensors that become buffers where they are assigned, by identity."""


class Module(nn.Module, metaclass=_Modules):
    """`micrograd_core.nn.Module`, whose buffers are those that are registered, as PyTorch has it.

    A tensor that does not record, and tensors and modules in lists and dicts, are plain attributes: `state_dict` leaves
    them out, and nothing moves them.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_buffer("factor", torch.ones(1))
    ...         self.plain = torch.ones(1)
    >>> list(Scale().state_dict())
    ['factor']
    """

    _registered: frozenset[str] = frozenset()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is not optimised as the attribute `name`.

        Parameters
        ----------
        name : str
            The name of the attribute.
        tensor : Tensor or None
            The tensor.
        persistent : bool, default True
            Whether `state_dict` has it.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> layer = torch.nn.Module()
        >>> layer.register_buffer("factor", torch.ones(1))
        >>> layer.factor
        Tensor([1.])
        """
        super().register_buffer(name, tensor, persistent)
        self._registered = self._registered | {name}

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if isinstance(value, Tensor) and value.is_leaf and _meant.get(id(value)) is value:
                self._registered = self._registered | {name}

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers, outside the graph. They share the module's memory: writing changes it.

        Returns
        -------
        dict of str to Tensor
            By dotted names.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> torch.nn.Module().state_dict()
        {}
        """
        return {name: p.detach() for name, p in self._every_tensor().items()}

    def _contents(self) -> list[tuple[str, Any]]:
        return [(name, x) for name, x in super()._contents() if self._holds(name, x)]

    def _holds(self, name: str, x: Any) -> bool:
        return isinstance(x, nn.Module) or is_parameter(x) or (isinstance(x, Tensor) and name in self._registered)


class Buffer(nn.Buffer):
    """A tensor that becomes a buffer of the module that it is assigned to.

    Parameters
    ----------
    data : Tensor
        Copied.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> layer = torch.nn.Module()
    >>> layer.factor = torch.nn.Buffer(torch.ones(1))
    >>> list(layer.state_dict())
    ['factor']
    """

    def __new__(cls, data: Tensor) -> Tensor:  # type: ignore[misc]
        """A tensor."""
        made = nn.Buffer(data)
        _meant[id(made)] = made
        return made


class MultiheadAttention(nn.MultiheadAttention):
    """`micrograd_core.nn.MultiheadAttention` as PyTorch calls it.

    The result is a pair of output and weights, ``None`` without `need_weights`; a mask is true where a target may not
    look; and the batch is the second axis unless `batch_first`.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features, and heads of attention.
    dropout : float, default 0
        The probability of a zero among the weights, while training.
    bias : bool, default True
        Whether the projections have biases.
    add_bias_kv, add_zero_attn : bool, default False
        Whether a learned, or a zero source comes after the others.
    kdim, vdim : int, optional
        Features of keys and values; by default those of queries.
    batch_first : bool, default False
        Whether the batch is the first axis.
    **made
        ``generator``, ``device`` and ``dtype`` of the parameters.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.ones(3, 1, 4)
    >>> y, weights = torch.nn.MultiheadAttention(4, 2)(x, x, x)
    >>> y.shape, weights.shape
    ((3, 1, 4), (1, 3, 3))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        **made: Any,
    ) -> None:
        own = (add_bias_kv, add_zero_attn, kdim, vdim, batch_first)
        super().__init__(embed_dim, num_heads, dropout, bias, *own, **made)

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let each target attend to the sources.

        Parameters
        ----------
        query : Tensor, (targets, batch, features)
            Or (batch, targets, features) with `batch_first`, or without the batch, as all of them.
        key, value : Tensor, (sources, batch, features)
            The sources.
        key_padding_mask : Tensor, (batch, sources), optional
            True where a source is only padding.
        need_weights : bool, default True
            Whether the weights come too.
        attn_mask : Tensor, (targets, sources) or (batch * heads, targets, sources), optional
            True, or minus infinity, where a target may not look.
        average_attn_weights : bool, default True
            Whether the weights are the mean of all heads.
        is_causal : bool, default False
            A hint that `attn_mask` is causal.

        Returns
        -------
        tuple of Tensor, and Tensor or None
            The result, of the shape of `query`; and the weights.

        Raises
        ------
        ValueError
            For `is_causal` without a mask.
        ShapeError, DTypeError, DeviceMismatch
        """
        if is_causal and attn_mask is None:
            raise ValueError("MultiheadAttention: is_causal is a hint that comes with attn_mask=, which is missing")
        return self.attend(query, key, value, attn_mask, key_padding_mask, need_weights, average_attn_weights)


def _on_one_device(module: Any, inputs: Any, *args: Any, **options: Any) -> Any:
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)))


parallel: Any = ModuleType(f"{__name__}.parallel", "PyTorch's ways to several GPUs, of which a module here uses one.")
parallel.data_parallel = _on_one_device


def __getattr__(name: str) -> Any:
    return getattr(nn, name)


sys.modules[parallel.__name__] = parallel
for _name in ("functional", "init", "utils"):
    sys.modules[f"{__name__}.{_name}"] = getattr(nn, _name)
for _name in ("module", "modules"):  # where PyTorch's annotations look for classes
    sys.modules[f"{__name__}.{_name}"] = nn
