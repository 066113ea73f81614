"""Initial numbers written into tensors that are there, with PyTorch's names and defaults.

Each function writes in place, records nothing, and returns the tensor. `micrograd_core.nn.parameter` makes new ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core import random
from micrograd_core.array.creation import eye
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, one_of
from micrograd_core.nn.initialization import fans
from micrograd_core.suggestions import door

GAINS: dict[str, Callable[[float], float]] = {
    **dict.fromkeys(("linear", "sigmoid", "conv1d", "conv2d", "conv3d"), lambda slope: 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), lambda slope: 1.0),
    "tanh": lambda slope: 5 / 3,
    "relu": lambda slope: math.sqrt(2),
    "leaky_relu": lambda slope: math.sqrt(2 / (1 + slope**2)),
    "selu": lambda slope: 0.75,
}
"""By nonlinearity: what keeps the variance of what comes next, from the slope of `leaky_relu`."""


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for weights before a nonlinearity, so that what comes next keeps its variance.

    Parameters
    ----------
    nonlinearity : str
        The name of a function, one of `GAINS`.
    param : float, optional
        The slope of ``"leaky_relu"``; by default 0.01.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For a name without a gain.

    Examples
    --------
    >>> from micrograd_core.nn import init
    >>> init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity not in GAINS:
        raise ValueError(f"calculate_gain: there is no gain of {nonlinearity!r}; there are {one_of(GAINS)}")
    return GAINS[nonlinearity](0.01 if param is None else param)


def _written(tensor: Tensor, numbers: Any) -> Tensor:
    """The tensor, whose numbers become these; a parameter stays the leaf it is."""
    tensor.data = asarray(numbers, dtype=tensor.dtype, device=tensor.device)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers drawn uniformly between `a` and `b`.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    a : float
        The lower end.
    b : float
        The upper end.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.uniform_(w, -0.1, 0.1) is w
    True
    """
    return _written(tensor, _drawn(random.uniform, tensor, a, b, generator))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers drawn from a normal distribution.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    mean : float
    std : float
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.normal_(w, 0.0, 0.02) is w
    True
    """
    return _written(tensor, _drawn(random.normal, tensor, mean, std, generator))


def _drawn(draw: Any, tensor: Tensor, first: float, second: float, generator: Any) -> Any:
    return draw(tensor.shape, first, second, dtype=tensor.dtype, device=tensor.device, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Numbers drawn from a normal distribution between `a` and `b`, by the inverse of its distribution function.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    mean : float
    std : float
    a : float
        The lower end.
    b : float
        The upper end.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.trunc_normal_(w, std=0.02) is w
    True
    """
    low, high = (math.erf((end - mean) / std / math.sqrt(2)) for end in (a, b))
    drawn = random.uniform(tensor.shape, low, high, dtype="float64", generator=generator)
    numbers = FUNCTIONS["erfinv"](drawn) * (std * math.sqrt(2)) + mean
    return _written(tensor, FUNCTIONS["clip"](numbers, a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one number.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    val : float
        The number.

    Returns
    -------
    Tensor
        The one that was given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.constant_(w, 0.5) is w
    True
    """
    return _written(tensor, FUNCTIONS["broadcast_to"](asarray(val, dtype=tensor.dtype), tensor.shape).copy())


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.

    Returns
    -------
    Tensor
        The one that was given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.ones_(w) is w
    True
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.

    Returns
    -------
    Tensor
        The one that was given.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.zeros_(w) is w
    True
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        When it is no matrix.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.eye_(w) is w
    True
    """
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ is for matrices; this tensor has shape {tensor.shape}")
    return _written(tensor, eye(*tensor.shape, dtype=tensor.dtype))


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"the mode is 'fan_in' or 'fan_out'; got {mode!r}")
    if tensor.ndim < 2:
        raise ShapeError(f"fans are those of a weight with at least two axes; this tensor has shape {tensor.shape}")
    return fans(tensor.shape)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Glorot's uniform scheme (2010): bounds ``gain * sqrt(6 / (fan_in + fan_out))``.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    gain : float
        A factor, as of `calculate_gain`.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        For fewer than two axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.xavier_uniform_(w) is w
    True
    """
    bound = gain * math.sqrt(6 / (_fan(tensor, "fan_in") + _fan(tensor, "fan_out")))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Glorot's normal scheme (2010): standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    gain : float
        A factor, as of `calculate_gain`.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        For fewer than two axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.xavier_normal_(w) is w
    True
    """
    std = gain * math.sqrt(2 / (_fan(tensor, "fan_in") + _fan(tensor, "fan_out")))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """He's uniform scheme (2015): bounds ``gain * sqrt(3 / fan)``.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    a : float
        The slope of ``"leaky_relu"`` below 0.
    mode : str
        ``"fan_in"`` keeps the variance of results, ``"fan_out"`` that of gradients.
    nonlinearity : str
        What comes next: one of `GAINS`.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        For fewer than two axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.kaiming_uniform_(w, nonlinearity="relu") is w
    True
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """He's normal scheme (2015): standard deviation ``gain / sqrt(fan)``.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    a : float
        The slope of ``"leaky_relu"`` below 0.
    mode : str
        ``"fan_in"`` keeps the variance of results, ``"fan_out"`` that of gradients.
    nonlinearity : str
        What comes next: one of `GAINS`.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        For fewer than two axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.kaiming_normal_(w, mode="fan_out") is w
    True
    """
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Rows, or columns where there are fewer, that are orthogonal and of length `gain` (Saxe et al. 2013).

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    gain : float
        A factor, as of `calculate_gain`.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        For fewer than two axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.nn.Linear(3, 3).weight
    >>> init.orthogonal_(w) is w
    True
    """
    from micrograd_core import linalg

    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ is for tensors of at least two axes; this one has shape {tensor.shape}")
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    with no_grad():
        q, r = linalg.qr(  # type: ignore[attr-defined]
            random.normal((max(rows, columns), min(rows, columns)), dtype="float64", generator=generator)
        )
        q = q * FUNCTIONS["sign"](FUNCTIONS["diag"](r))
        return _written(tensor, ((q.T if rows < columns else q) * gain).reshape(tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The kernel of a convolution that gives as many of its inputs as it can unchanged, by groups of channels.

    Parameters
    ----------
    tensor : Tensor
        Of any shape; written in place.
    groups : int
        Into how many groups the channels fall.

    Returns
    -------
    Tensor
        The one that was given.

    Raises
    ------
    ShapeError
        When it is no kernel of so many groups.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.nn import init
    >>> w = mg.zeros((2, 2, 3))
    >>> init.dirac_(w)[0].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ShapeError(f"dirac_ is for kernels of {groups} groups of channels; this one has shape {tensor.shape}")
    numbers = FUNCTIONS["broadcast_to"](asarray(0.0, dtype=tensor.dtype), tensor.shape).copy()
    outputs = tensor.shape[0] // groups
    for group in range(groups):
        for i in range(min(outputs, tensor.shape[1])):
            numbers[(group * outputs + i, i, *(n // 2 for n in tensor.shape[2:]))] = 1.0
    return _written(tensor, numbers)


uniform, normal, constant = uniform_, normal_, constant_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal, orthogonal = kaiming_uniform_, kaiming_normal_, orthogonal_

__all__ = [
    "GAINS", "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

door(globals())
