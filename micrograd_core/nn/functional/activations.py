"""Activations, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.creation import arange
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, of_operations, publish, written
from micrograd_core.ops.shared import both_spellings
from micrograd_core.random import uniform

of_operations(
    globals(),
    "input",
    "relu!_ relu6! hardtanh!_ leaky_relu!_ elu!_ selu!_ celu!_ gelu silu! mish! sigmoid tanh logsigmoid=log_sigmoid "
    "hardsigmoid! hardswish! softplus=scaled_softplus softsign tanhshrink softshrink hardshrink threshold!_ glu",
)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, else times `weight`: one number, or one for each channel (axis 1).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    weight : Tensor
        One number, or one for each channel (axis 1).

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        When the weight does not fit the channels.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> weight = mg.asarray([0.25])
    >>> y = F.prelu(x, weight)
    >>> y
    Tensor([-0.25,    0.,    2.])
    """
    x, slope = asarray(input), asarray(weight)
    if slope.size > 1:
        if x.ndim < 2 or slope.shape != x.shape[1:2]:
            raise ShapeError(f"prelu: weight of shape {slope.shape} does not fit the channels of shape {x.shape}")
        slope = slope.reshape((-1, *(1,) * (x.ndim - 2)))
    else:
        slope = slope.reshape(())
    return T["prelu"](x, slope)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """`leaky_relu` with slopes drawn from `lower` to `upper` while `training`; else with their mean.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    lower : float
        The least slope.
    upper : float
        The greatest slope.
    training : bool
        Whether slopes are drawn.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.rrelu(x)
    >>> y.shape
    (3,)
    """
    if inplace:
        return written(input, rrelu, lower, upper, training)
    slope: Any = (lower + upper) / 2
    if training:
        slope = uniform(input.shape, lower, upper, dtype=input.dtype, device=input.device)
    return T["prelu"](input, slope)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    lower : float
        The least slope.
    upper : float
        The greatest slope.
    training : bool
        Whether slopes are drawn.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.rrelu_(x)
    >>> y.shape
    (3,)
    """
    return written(input, rrelu, lower, upper, training)


# ── along an axis ────────────────────────────────────────────────────────────────────────────────────────────


def _along(name: str, input: Tensor, dim: int | None, dtype: Any) -> Tensor:
    """A softmax; without an axis by PyTorch's old rule, by the number of axes."""
    x = asarray(input) if dtype is None else asarray(input).astype(dtype)
    return T[name](x, axis=dim if dim is not None else 0 if x.ndim in (0, 1, 3) else 1)


@both_spellings
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along `dim`, of numbers of another `dtype` if one is named.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    dim : int, optional
        The axis; also by the name ``axis``. By default 0 of 0, 1 or 3 axes, else 1.
    _stacklevel : int
        Ignored; PyTorch has it.
    dtype : dtype, optional
        The dtype to compute in; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.softmax(x, dim=0)
    >>> y
    Tensor([0.04201,  0.1142,  0.8438])
    """
    return _along("softmax", input, dim, dtype)


@both_spellings
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax(-x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    dim : int, optional
        The axis; also by the name ``axis``. By default 0 of 0, 1 or 3 axes, else 1.
    _stacklevel : int
        Ignored; PyTorch has it.
    dtype : dtype, optional
        The dtype to compute in; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.softmin(x, dim=0)
    >>> y
    Tensor([ 0.7054,  0.2595, 0.03512])
    """
    return _along("softmin", input, dim, dtype)


@both_spellings
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    dim : int, optional
        The axis; also by the name ``axis``. By default 0 of 0, 1 or 3 axes, else 1.
    _stacklevel : int
        Ignored; PyTorch has it.
    dtype : dtype, optional
        The dtype to compute in; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.log_softmax(x, dim=0)
    >>> y
    Tensor([  -3.17,   -2.17, -0.1698])
    """
    return _along("log_softmax", input, dim, dtype)


@both_spellings
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """`softmax` of logits and Gumbel's noise, over `tau` (Jang et al. 2016); with `hard` one-hot, of that gradient.

    Parameters
    ----------
    logits : Tensor
        Logarithms of probabilities, up to a constant.
    tau : float
        The temperature: the lower, the nearer to one-hot.
    hard : bool
        Whether the result is one-hot, with the gradient of the soft one.
    eps : float
        Ignored; PyTorch has it.
    dim : int
        The axis; also by the name ``axis``.

    Returns
    -------
    Tensor
        Of the shape and dtype of `logits`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.zeros((4, 3))
    >>> y = F.gumbel_softmax(x, hard=True)
    >>> y.sum(axis=-1)
    Tensor([1., 1., 1., 1.])
    """
    drawn = uniform(logits.shape, device=logits.device)  # multiples of 2**-24, of which 0 has no logarithm
    noise = -T["log"](-T["log"](drawn + 2.0**-25)).astype(logits.dtype)
    soft = T["softmax"]((logits + noise) / tau, axis=dim)
    if not hard:
        return soft
    best, along = T["argmax"](soft, axis=dim, keepdims=True), (-1, *(1,) * (soft.ndim - 1 - dim % soft.ndim))
    positions = T["equal"](best, arange(soft.shape[dim], device=soft.device).reshape(along))
    return positions.astype(soft.dtype) - soft.detach() + soft


publish(globals())
