"""Initial numbers of parameters.

A scheme is a distribution and its scale, by how many inputs each output has and the reverse; `parameter` draws a tensor
from it. Numbers come from a generator (see `micrograd_core.random`), and are the same on every device.
"""

from __future__ import annotations

import math
import random as python_random
from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core import random
from micrograd_core.array.creation import full
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.errors import one_of

Generator = random.Generator | python_random.Random

SCHEMES: dict[str, tuple[str, Callable[[int, int], float]]] = {
    "zeros": ("constant", lambda fan_in, fan_out: 0.0),
    "ones": ("constant", lambda fan_in, fan_out: 1.0),
    "normal": ("normal", lambda fan_in, fan_out: 1.0),
    # Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks", eq. 16
    "glorot_uniform": ("uniform", lambda fan_in, fan_out: (6 / (fan_in + fan_out)) ** 0.5),
    "glorot_normal": ("normal", lambda fan_in, fan_out: (2 / (fan_in + fan_out)) ** 0.5),
    # He et al. 2015, "Delving deep into rectifiers", eq. 10, for ReLU
    "he_uniform": ("uniform", lambda fan_in, fan_out: (6 / fan_in) ** 0.5),
    "he_normal": ("normal", lambda fan_in, fan_out: (2 / fan_in) ** 0.5),
    # LeCun et al. 1998, "Efficient BackProp", section 4.6, up to a factor: what PyTorch's layers start with
    "fan_in_uniform": ("uniform", lambda fan_in, fan_out: fan_in**-0.5),
}
"""By name: the distribution, and from fan-in and fan-out its bound, its standard deviation, or the number itself."""


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
    generator: Generator | None = None,
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
    generator : Generator or random.Random, optional
        Where the numbers come from; by default the default generator, which `micrograd_core.random.manual_seed`
        restarts.
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
    distribution, scale_of = SCHEMES[scheme]
    scale = scale_of(fan_in or default_in, fan_out or default_out)
    made: dict[str, Any] = {"dtype": dtype, "device": device, "requires_grad": True}
    wanted = tuple(shape)
    if distribution == "constant":
        return full(wanted, scale, **made)
    if isinstance(generator, python_random.Random):
        draw = {"uniform": lambda: generator.uniform(-scale, scale), "normal": lambda: generator.gauss(0.0, scale)}
        numbers = [draw[distribution]() for _ in range(math.prod(wanted))]
        x = asarray(numbers, dtype=dtype, device=device).reshape(wanted).copy()
        x.requires_grad = True
        return x
    if distribution == "uniform":
        return random.uniform(wanted, -scale, scale, generator=generator, **made)
    return random.normal(wanted, 0.0, scale, generator=generator, **made)


__all__ = ["SCHEMES", "Generator", "fans", "parameter"]


def __dir__() -> list[str]:
    return sorted(__all__)
