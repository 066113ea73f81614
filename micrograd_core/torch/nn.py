"""`micrograd_core.nn`, with PyTorch's attention: its pair of results, its sense of masks, its order of axes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from micrograd_core import nn
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn import functional as functional
from micrograd_core.nn import init as init
from micrograd_core.nn import utils as utils
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
    """

    _registered: frozenset[str] = frozenset()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is not optimised as the attribute `name`; `state_dict` has it if it is persistent."""
        super().register_buffer(name, tensor, persistent)
        self._registered = self._registered | {name}

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if isinstance(value, Tensor) and value.is_leaf and _meant.get(id(value)) is value:
                self._registered = self._registered | {name}

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, outside the graph. They share the module's memory: writing changes it."""
        return {name: p.detach() for name, p in self._every_tensor().items()}

    def _contents(self) -> list[tuple[str, Any]]:
        return [(name, x) for name, x in super()._contents() if self._holds(name, x)]

    def _holds(self, name: str, x: Any) -> bool:
        return isinstance(x, nn.Module) or is_parameter(x) or (isinstance(x, Tensor) and name in self._registered)


class Buffer(nn.Buffer):
    """A tensor that becomes a buffer of the module that it is assigned to; with ``persistent=False``, register it."""

    def __new__(cls, data: Tensor) -> Tensor:  # type: ignore[misc]
        """A tensor."""
        made = nn.Buffer(data)
        _meant[id(made)] = made
        return made


class MultiheadAttention(nn.MultiheadAttention):
    """`micrograd_core.nn.MultiheadAttention` as PyTorch calls it.

    The result is a pair of output and weights, ``None`` without `need_weights`; a mask is true where a target may not
    look; and the batch is the second axis unless `batch_first`.
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
        """(targets, batch, features) and (sources, batch, features) twice to a pair, as PyTorch documents it."""
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
