"""Activations, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, publish, written
from micrograd_core.ops.shared import both_spellings
from micrograd_core.random import uniform


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)``; the gradient at 0 is 0.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.relu(x)
    >>> y
    Tensor([0., 0., 2.])
    """
    return written(input, relu) if inplace else T["relu"](input)


def relu_(input: Tensor) -> Tensor:
    """`relu`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.relu_(x)
    >>> y
    Tensor([0., 0., 2.])
    """
    return written(input, relu)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``x`` between 0 and 6, else the nearer of the two.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.relu6(x)
    >>> y
    Tensor([0., 0., 2.])
    """
    return written(input, relu6) if inplace else T["relu6"](input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` between `min_val` and `max_val`, else the nearer of the two.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    min_val : float
        The least result.
    max_val : float
        The greatest result.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `min_val` is above `max_val`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.hardtanh(x)
    >>> y
    Tensor([-1.,  0.,  1.])
    """
    if inplace:
        return written(input, hardtanh, min_val, max_val)
    return T["hardtanh"](input, min_val=min_val, max_val=max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    min_val : float
        The least result.
    max_val : float
        The greatest result.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `min_val` is above `max_val`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.hardtanh_(x)
    >>> y
    Tensor([-1.,  0.,  1.])
    """
    return written(input, hardtanh, min_val, max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    negative_slope : float
        The factor of negative numbers.
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
    >>> y = F.leaky_relu(x)
    >>> y
    Tensor([-0.01,    0.,    2.])
    """
    if inplace:
        return written(input, leaky_relu, negative_slope)
    return T["leaky_relu"](input, negative_slope=negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    negative_slope : float
        The factor of negative numbers.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.leaky_relu_(x)
    >>> y
    Tensor([-0.01,    0.,    2.])
    """
    return written(input, leaky_relu, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2016).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    alpha : float
        The factor of the exponential.
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
    >>> y = F.elu(x)
    >>> y
    Tensor([-0.6321,      0.,      2.])
    """
    return written(input, elu, alpha) if inplace else T["elu"](input, alpha=alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    alpha : float
        The factor of the exponential.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.elu_(x)
    >>> y
    Tensor([-0.6321,      0.,      2.])
    """
    return written(input, elu, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the two numbers that keep mean 0 and variance 1 (Klambauer et al. 2017).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.selu(x)
    >>> y
    Tensor([-1.111,     0.,  2.101])
    """
    return written(input, selu) if inplace else T["selu"](input)


def selu_(input: Tensor) -> Tensor:
    """`selu`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.selu_(x)
    >>> y
    Tensor([-1.111,     0.,  2.101])
    """
    return written(input, selu)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)`` (Barron 2017).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    alpha : float
        Minus the limit on the left; not 0.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `alpha` is 0.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.celu(x)
    >>> y
    Tensor([-0.6321,      0.,      2.])
    """
    if inplace:
        return written(input, celu, alpha)
    return T["celu"](input, alpha=alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    alpha : float
        Minus the limit on the left; not 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `alpha` is 0.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.celu_(x)
    >>> y
    Tensor([-0.6321,      0.,      2.])
    """
    return written(input, celu, alpha)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function of ``x``; with ``approximate='tanh'`` by that formula.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    approximate : str
        ``'none'``, or ``'tanh'`` for the formula with a hyperbolic tangent.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `approximate` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.gelu(x)
    >>> y
    Tensor([-0.1587,      0.,   1.954])
    """
    return T["gelu"](input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, also called swish.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.silu(x)
    >>> y
    Tensor([-0.2689,      0.,   1.762])
    """
    return written(input, silu) if inplace else T["silu"](input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra 2020).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.mish(x)
    >>> y
    Tensor([-0.3034,      0.,   1.944])
    """
    return written(input, mish) if inplace else T["mish"](input)


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.sigmoid(x)
    >>> y
    Tensor([0.2689,    0.5, 0.8808])
    """
    return T["sigmoid"](input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.tanh(x)
    >>> y
    Tensor([-0.7616,      0.,   0.964])
    """
    return T["tanh"](input)


def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))``.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.logsigmoid(x)
    >>> y
    Tensor([ -1.313, -0.6931, -0.1269])
    """
    return T["log_sigmoid"](input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``: a sigmoid of straight lines.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.hardsigmoid(x)
    >>> y
    Tensor([0.3333,    0.5, 0.8333])
    """
    return written(input, hardsigmoid) if inplace else T["hardsigmoid"](input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * hardsigmoid(x)`` (Howard et al. 2019).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
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
    >>> y = F.hardswish(x)
    >>> y
    Tensor([-0.3333,      0.,   1.667])
    """
    return written(input, hardswish) if inplace else T["hardswish"](input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta x)) / beta``; `x` itself where ``beta x`` is above `threshold`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    beta : float
        The factor of `input`, and the divisor of the result.
    threshold : float
        Above this, ``beta x`` gives `input` itself.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.softplus(x)
    >>> y
    Tensor([0.3133, 0.6931,  2.127])
    """
    return T["scaled_softplus"](input, beta=beta, threshold=threshold)


def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.softsign(x)
    >>> y
    Tensor([  -0.5,     0., 0.6667])
    """
    return T["softsign"](input)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.tanhshrink(x)
    >>> y
    Tensor([-0.2384,      0.,   1.036])
    """
    return T["tanhshrink"](input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` brought nearer to 0 by `lambd`, and 0 within that.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    lambd : float
        Half the width of the interval around 0; at least 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `lambd` is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.softshrink(x)
    >>> y
    Tensor([-0.5,   0.,  1.5])
    """
    return T["softshrink"](input, lambd=lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` where its size is above `lambd`, else 0.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    lambd : float
        Half the width of the interval around 0; at least 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `lambd` is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.hardshrink(x)
    >>> y
    Tensor([-1.,  0.,  2.])
    """
    return T["hardshrink"](input, lambd=lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`x` where it is above `threshold`, else `value`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    threshold : float
        Numbers up to this one are replaced.
    value : float
        The result for numbers that are not above `threshold`.
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
    >>> y = F.threshold(x, 0.5, -3.0)
    >>> y
    Tensor([-3., -3.,  2.])
    """
    if inplace:
        return threshold_(input, threshold, value)
    return T["threshold"](input, threshold, value)


_threshold = threshold


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, written into `input`.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    threshold : float
        Numbers up to this one are replaced.
    value : float
        The result for numbers that are not above `threshold`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([-1.0, 0.0, 2.0])
    >>> y = F.threshold_(x, 0.5, -3.0)
    >>> y
    Tensor([-3., -3.,  2.])
    """
    return written(input, _threshold, threshold, value)


@both_spellings
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    dim : int
        The axis; also by the name ``axis``.

    Returns
    -------
    Tensor
        Half as long as `input` along `dim`.

    Raises
    ------
    ShapeError
        When the length is odd.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([1.0, 2.0, 0.0, -1.0])
    >>> y = F.glu(x)
    >>> y
    Tensor([   0.5, 0.5379])
    """
    return T["glu"](input, axis=dim)


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
    best = T["argmax"](soft, axis=dim, keepdims=True)
    positions = T["equal"](best, _positions(soft, dim))
    return positions.astype(soft.dtype) - soft.detach() + soft


def _positions(x: Tensor, axis: int) -> Tensor:
    """0, 1, 2, … along an axis."""
    shape = tuple(-1 if each == axis % x.ndim else 1 for each in range(x.ndim))
    return asarray(list(range(x.shape[axis])), dtype="int64", device=x.device).reshape(shape)


publish(globals())
