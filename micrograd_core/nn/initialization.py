"""Initial numbers of parameters.

Each scheme is a function ``(shape, *, fan_in, fan_out, generator) -> list of numbers`` of the sizes of what a layer
reads and writes; `parameter` makes a tensor of them. Without a generator the numbers differ from run to run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.device import Device
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.errors import one_of
from micrograd_core.tensor import Tensor, asarray

Draw = Callable[[random.Random], float]


def _uniform(bound: float) -> Draw:
    return lambda rng: rng.uniform(-bound, bound)


def _normal(std: float) -> Draw:
    return lambda rng: rng.gauss(0.0, std)


# By name: from fan-in and fan-out, how one number is drawn.
SCHEMES: dict[str, Callable[[int, int], Draw]] = {
    "zeros": lambda fan_in, fan_out: lambda rng: 0.0,
    "ones": lambda fan_in, fan_out: lambda rng: 1.0,
    "normal": lambda fan_in, fan_out: _normal(1.0),
    # Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks", eq. 16
    "glorot_uniform": lambda fan_in, fan_out: _uniform((6 / (fan_in + fan_out)) ** 0.5),
    "glorot_normal": lambda fan_in, fan_out: _normal((2 / (fan_in + fan_out)) ** 0.5),
    # He et al. 2015, "Delving deep into rectifiers", eq. 10, for ReLU
    "he_uniform": lambda fan_in, fan_out: _uniform((6 / fan_in) ** 0.5),
    "he_normal": lambda fan_in, fan_out: _normal((2 / fan_in) ** 0.5),
    # LeCun et al. 1998, "Efficient BackProp", section 4.6, up to a factor: what PyTorch's layers start with
    "fan_in_uniform": lambda fan_in, fan_out: _uniform(fan_in**-0.5),
}


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs each output of a weight (outputs, inputs, *kernel) is computed from, and the reverse."""
    if len(shape) < 2:
        return max(math.prod(shape), 1), max(math.prod(shape), 1)
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def parameter(
    shape: Sequence[int],
    scheme: str = "fan_in_uniform",
    *,
    fan_in: int | None = None,
    fan_out: int | None = None,
    generator: random.Random | None = None,
    device: str | Device | None = None,
    dtype: Any = "float32",
) -> Tensor:
    """A tensor that records gradients, with initial numbers by one of `SCHEMES`.

    Parameters
    ----------
    shape : sequence of int
    scheme : str
    fan_in, fan_out : int, optional
        By default those of a weight (outputs, inputs, *kernel).
    generator : random.Random, optional
        Pass ``random.Random(seed)`` to make the numbers reproducible.
    device, dtype
        Of the tensor.

    Raises
    ------
    ValueError
        For a scheme that is none.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"there is no initialisation named {scheme!r}; there are {one_of(SCHEMES)}")
    default_in, default_out = fans(shape)
    draw = SCHEMES[scheme](fan_in or default_in, fan_out or default_out)
    rng = generator or random.Random()
    numbers = [draw(rng) for _ in range(math.prod(shape))]
    x = asarray(numbers, dtype=as_dtype(dtype), device=device).reshape(tuple(shape)).copy()
    x.requires_grad = True
    return x
