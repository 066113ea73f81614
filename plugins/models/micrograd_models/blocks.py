"""What the transformers here have in common: attention with several heads, a perceptron, and the block of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import micrograd_core as mg
from micrograd_core import Tensor, nn
from micrograd_core.errors import one_of

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "gelu": nn.functional.gelu,
    "gelu_fast": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "gelu_new": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * mg.sigmoid(1.702 * x),
    "relu": mg.relu,
    "silu": nn.functional.silu,
    "swish": nn.functional.silu,
    "tanh": mg.tanh,
}
"""By the names that config.json gives them."""


class Activation(nn.Module):
    """An activation by its name.

    Raises
    ------
    ValueError
        For an unknown name.
    """

    def __init__(self, name: str) -> None:
        if name not in ACTIVATIONS:
            raise ValueError(f"there is no activation {name!r}; there are {one_of(ACTIVATIONS)}")
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape, and the same."""
        return ACTIVATIONS[self.name](x)

    def facts(self) -> str:
        """The name."""
        return self.name


@dataclass
class Slots:
    """Keys and values of all positions, (batch, heads, length, features) each, and where those of a call come."""

    keys: Tensor
    values: Tensor
    places: Tensor


class Attention(nn.Module):
    """Attention with several heads (Vaswani et al. 2017); several may share a key and a value (Ainslie et al. 2023).

    Parameters
    ----------
    width, heads : int
        Features, and heads of the query.
    shared : int, optional
        Heads of key and value; by default as many as the query has.
    features : int, optional
        Of a head; by default ``width // heads``.
    bias, key_bias, output_bias : bool
        Of query and value, of the key, and of the output; the last two are `bias` by default.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models.blocks import Attention
    >>> Attention(8, 4, shared=2)(mg.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        shared: int | None = None,
        features: int | None = None,
        bias: bool = True,
        key_bias: bool | None = None,
        output_bias: bool | None = None,
    ) -> None:
        self.heads, self.shared = heads, heads if shared is None else shared
        self.features = width // heads if features is None else features
        self.query = nn.Linear(width, self.heads * self.features, bias)
        self.key = nn.Linear(width, self.shared * self.features, bias if key_bias is None else key_bias)
        self.value = nn.Linear(width, self.shared * self.features, bias)
        self.output = nn.Linear(self.heads * self.features, width, bias if output_bias is None else output_bias)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        turn: Callable[[Tensor], Tensor] | None = None,
        slots: Slots | None = None,
    ) -> Tensor:
        """(batch, positions, features), and the same. `turn` rotates query and key; `mask` is true where one looks."""
        query, key, value = self._heads(self.query(x)), self._heads(self.key(x)), self._heads(self.value(x))
        if turn is not None:
            query, key = turn(query), turn(key)
        if slots is not None:
            key = slots.keys = mg.index_set(slots.keys, slots.places, key, axis=2)
            value = slots.values = mg.index_set(slots.values, slots.places, value, axis=2)
        found = nn.functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=is_causal, enable_gqa=self.shared != self.heads
        )
        rows = mg.permute_dims(found, (0, 2, 1, 3))
        return self.output(rows.reshape(*x.shape[:2], self.heads * self.features))

    def _heads(self, x: Tensor) -> Tensor:
        apart: Tensor = mg.permute_dims(x.reshape(*x.shape[:2], -1, self.features), (0, 2, 1, 3))
        return apart


class Perceptron(nn.Module):
    """A layer, an activation and a layer, at each position."""

    def __init__(self, width: int, hidden: int, function: str) -> None:
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.function = Activation(function)

    def forward(self, x: Tensor) -> Tensor:
        """(…, width), and the same."""
        return self.down(self.function(self.up(x)))


class GatedPerceptron(nn.Module):
    """A perceptron whose hidden numbers are multiplied by a gate (Shazeer 2020)."""

    def __init__(self, width: int, hidden: int, function: str, bias: bool = False) -> None:
        self.gate, self.up, self.down = [nn.Linear(*pair, bias) for pair in [(width, hidden)] * 2 + [(hidden, width)]]
        self.function = Activation(function)

    def forward(self, x: Tensor) -> Tensor:
        """(…, width), and the same."""
        return self.down(self.function(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention, then a perceptron, each added to what it read.

    With `norm_first` each norm comes before what it feeds (Xiong et al. 2020), else after the sum, as in the first.
    """

    def __init__(
        self, norm: Callable[[], nn.Module], attention: Attention, perceptron: nn.Module, norm_first: bool = True
    ) -> None:
        self.norm1, self.attention, self.norm2, self.perceptron = norm(), attention, norm(), perceptron
        self.norm_first = norm_first

    def forward(self, x: Tensor, **seen: Any) -> Tensor:
        """(batch, positions, features), and the same; `seen` is for the attention."""
        if self.norm_first:
            x = x + self.attention(self.norm1(x), **seen)
            return x + self.perceptron(self.norm2(x))  # type: ignore[no-any-return]
        x = self.norm1(x + self.attention(x, **seen))
        return self.norm2(x + self.perceptron(x))  # type: ignore[no-any-return]
