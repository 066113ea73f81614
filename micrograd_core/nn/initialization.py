"""Initial numbers of parameters.

A scheme is a distribution and its scale, by how many inputs each output has and the reverse; `parameter` draws a tensor
from it. Numbers come from a generator (see `micrograd_core.random`), and are the same on every device.
"""

from __future__ import annotations

import math
import random as python_random
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict, cast

from micrograd_core import random
from micrograd_core.array.creation import finished, full
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device
from micrograd_core.errors import ShapeError, one_of
from micrograd_core.layout import is_integer
from micrograd_core.nn.functional.common import of_rank
from micrograd_core.nn.module import Module
from micrograd_core.suggestions import door

Generator = random.Generator | python_random.Random


class Place(TypedDict, total=False):
    """The last arguments of a layer, by name: where it makes its tensors, and of which dtype."""

    device: str | Device | None
    dtype: Any


class Making(Place, total=False):
    """The last arguments of a layer that draws its tensors: also where random numbers come from."""

    generator: Generator | None


def placed(made: Making) -> Place:
    """What a layer without random numbers takes of them."""
    return cast("Place", {name: value for name, value in made.items() if name != "generator"})


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
    """How many inputs each output of a weight is computed from, and how many outputs each input goes to.

    Parameters
    ----------
    shape : sequence of int
        Of a weight, (outputs, inputs, *kernel).

    Returns
    -------
    (int, int)
        Fan-in and fan-out.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.initialization.fans((16, 3, 5, 5))
    (75, 400)
    """
    if len(shape) < 2:
        return max(math.prod(shape), 1), max(math.prod(shape), 1)
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def parameter(
    shape: Sequence[int], scheme: str = "fan_in_uniform", *, fan_in: int | None = None, fan_out: int | None = None,
    generator: Generator | None = None, device: str | Device | None = None, dtype: Any = "float32",
) -> Tensor:  # fmt: skip
    """A tensor that records gradients, with initial numbers by one of `SCHEMES`.

    Parameters
    ----------
    shape : sequence of int
        The shape, (outputs, inputs, *kernel) for a weight.
    scheme : str
        The name of one of `SCHEMES`.
    fan_in, fan_out : int, optional
        By default those of the shape.
    generator : Generator or random.Random, optional
        Where the numbers come from; by default the default generator, which `micrograd_core.random.manual_seed`
        restarts.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    dtype : DType or str
        A real floating dtype.

    Returns
    -------
    Tensor
        Of `shape`; it requires gradients.

    Raises
    ------
    ValueError
        For an unknown scheme.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> weight = mg.nn.parameter((3, 4), "he_normal")
    >>> weight.shape, weight.requires_grad
    ((3, 4), True)
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
        return finished(asarray(numbers, dtype=dtype, device=device).reshape(wanted).copy(), True)
    if distribution == "uniform":
        return random.uniform(wanted, -scale, scale, generator=generator, **made)
    return random.normal(wanted, 0.0, scale, generator=generator, **made)


def check_counts(layer: str, **counts: int) -> None:
    """Refuse what is no count."""
    for name, count in counts.items():
        if count < 1:
            raise ShapeError(f"{layer}: {name.replace('_', ' ')} must be at least 1; got {count}")


def each_axis(lengths: Any, rank: int) -> tuple[int, ...]:
    """One length for all axes, or one for each."""
    return (lengths,) * rank if is_integer(lengths) else tuple(lengths)


class OverAxes(Module):
    """What classes share that differ in `rank`, a number of spatial axes: their docstrings are that of ``…2d``."""

    rank: ClassVar[int] = 2

    def __init_subclass__(cls, rank: int = 0, **others: Any) -> None:
        super().__init_subclass__(**others)
        if rank:
            cls.rank = rank
            cls.__doc__ = of_rank(vars(sys.modules[cls.__module__])[f"{cls.__name__[:-2]}2d"].__doc__, rank)


__all__ = ["SCHEMES", "Generator", "fans", "parameter"]

door(globals())
