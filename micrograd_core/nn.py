"""Networks: modules that hold parameters, and the few that a first network needs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

from micrograd_core import functions
from micrograd_core.device import Device
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.errors import ShapeError
from micrograd_core.tensor import Tensor, asarray
from micrograd_core.writing import relocate


class Module:
    """A function with parameters. Subclasses assign tensors and modules as attributes and define ``forward``.

    Parameters are the attributes that are tensors and were not computed, those of modules among the attributes, and
    those in lists, tuples and dicts of either, in the order of assignment.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        return self.forward(*args, **kwargs)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Parameters with their dotted names, such as ``"layers.0.weight"``; one that occurs twice comes once."""
        seen = {id(self)}
        stack = [(prefix, iter(vars(self).items()))]
        while stack:
            path, attributes = stack[-1]
            entry = next(attributes, None)
            if entry is None:
                stack.pop()
                continue
            name, value = f"{path}{entry[0]}", entry[1]
            items = _items(value)
            if id(value) in seen or (items is None and not (isinstance(value, Tensor) and value.is_leaf)):
                continue
            seen.add(id(value))
            if items is None:
                yield name, value
            else:
                stack.append((f"{name}.", items))

    def parameters(self) -> list[Tensor]:
        """The tensors to optimise."""
        return [p for _, p in self.named_parameters() if p.requires_grad]

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for p in self.parameters():
            p.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the parameters by name, outside the graph."""
        return {name: p.detach().copy() for name, p in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the numbers of all parameters by those in `state` (tensors or arrays).

        Raises
        ------
        ShapeError
            When names or shapes differ; all differences are listed and nothing is loaded.
        """
        own = dict(self.named_parameters())
        faults = [f"{name!r} is missing" for name in own if name not in state]
        faults += [f"{name!r} is not a parameter of this {type(self).__name__}" for name in state if name not in own]
        loaded = {
            name: asarray(state[name], dtype=own[name].dtype, device=own[name].device, copy=True)
            for name in state
            if name in own
        }
        faults += [
            f"{name!r} has shape {x.shape}, not {own[name].shape}"
            for name, x in loaded.items()
            if x.shape != own[name].shape
        ]
        if faults:
            raise ShapeError(f"load_state_dict: {'; '.join(faults)}")
        for name, x in loaded.items():
            own[name].data = x

    def to(self, device: str | Device) -> Module:
        """Move the parameters to another device. They stay the same tensors; make optimisers afterwards."""
        for _, p in self.named_parameters():
            relocate(p, device)
        return self

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if isinstance(value, Module))
        return f"{type(self).__name__}({inner})"


def _items(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a module, or a collection of modules and tensors, holds by name."""
    if isinstance(value, Module):
        return iter(vars(value).items())
    if isinstance(value, dict):
        return ((str(key), item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ((str(i), item) for i, item in enumerate(value))
    return None


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis of the input and of the result.
    bias : bool
    generator : random.Random, optional
        Source of the initial numbers; pass ``random.Random(seed)`` to make them reproducible.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Tensor, (out_features, in_features)
    bias : Tensor, (out_features,), or None
        Both start uniform in ``[-1/sqrt(in_features), 1/sqrt(in_features)]``.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        generator: random.Random | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise ShapeError(f"Linear: feature counts must be at least 1; got {in_features} and {out_features}")
        rng = generator or random.Random()
        bound = 1 / math.sqrt(in_features)
        self.weight = _uniform((out_features, in_features), bound, rng, device, dtype)
        self.bias = _uniform((out_features,), bound, rng, device, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Shape ``(..., in_features)`` to ``(..., out_features)``."""
        return functions.FUNCTIONS["linear"](x, self.weight, 0.0 if self.bias is None else self.bias)

    def __repr__(self) -> str:
        outputs, inputs = self.weight.shape
        return f"Linear({inputs}, {outputs}{'' if self.bias is not None else ', bias=False'})"


def _uniform(shape: tuple[int, ...], bound: float, rng: random.Random, device: Any, dtype: Any) -> Tensor:
    kind = as_dtype(dtype)
    numbers = [rng.uniform(-bound, bound) for _ in range(math.prod(shape))]
    x = asarray(numbers, dtype=kind, device=device).reshape(shape).copy()
    x.requires_grad = True
    return x


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return x.relu()

    def __repr__(self) -> str:
        return "ReLU()"


class Sequential(Module):
    """Modules applied one after the other."""

    def __init__(self, *layers: Module) -> None:
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        """The input of the first, the result of the last."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Module:
        return self.layers[index]

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"


mse_loss = functions.FUNCTIONS["mse_loss"]
cross_entropy = functions.FUNCTIONS["cross_entropy"]

from micrograd_core.mlp import MLP, Layer, Neuron  # noqa: E402, F401
