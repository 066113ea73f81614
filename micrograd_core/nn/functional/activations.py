"""Activations, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, chosen_axis, written
from micrograd_core.ops.shared import both_spellings
from micrograd_core.random import uniform


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)``; the gradient at 0 is 0."""
    return written(input, relu) if inplace else T["relu"](input)


def relu_(input: Tensor) -> Tensor:
    """`relu`, written into `input`."""
    return written(input, relu)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``x`` between 0 and 6, else the nearer of the two."""
    return written(input, relu6) if inplace else T["relu6"](input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` between `min_val` and `max_val`, else the nearer of the two."""
    if inplace:
        return written(input, hardtanh, min_val, max_val)
    return T["hardtanh"](input, min_val=min_val, max_val=max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, written into `input`."""
    return written(input, hardtanh, min_val, max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``."""
    if inplace:
        return written(input, leaky_relu, negative_slope)
    return T["leaky_relu"](input, negative_slope=negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, written into `input`."""
    return written(input, leaky_relu, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2016)."""
    return written(input, elu, alpha) if inplace else T["elu"](input, alpha=alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, written into `input`."""
    return written(input, elu, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the two numbers that keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    return written(input, selu) if inplace else T["selu"](input)


def selu_(input: Tensor) -> Tensor:
    """`selu`, written into `input`."""
    return written(input, selu)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)`` (Barron 2017)."""
    if inplace:
        return written(input, celu, alpha)
    return T["celu"](input, alpha=alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, written into `input`."""
    return written(input, celu, alpha)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function of ``x``; with ``approximate='tanh'`` by that formula."""
    return T["gelu"](input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, also called swish."""
    return written(input, silu) if inplace else T["silu"](input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra 2020)."""
    return written(input, mish) if inplace else T["mish"](input)


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return T["sigmoid"](input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return T["tanh"](input)


def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))``."""
    return T["log_sigmoid"](input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``: a sigmoid of straight lines."""
    return written(input, hardsigmoid) if inplace else T["hardsigmoid"](input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * hardsigmoid(x)`` (Howard et al. 2019)."""
    return written(input, hardswish) if inplace else T["hardswish"](input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta x)) / beta``; `x` itself where ``beta x`` is above `threshold`."""
    return T["scaled_softplus"](input, beta=beta, threshold=threshold)


def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
    return T["softsign"](input)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``."""
    return T["tanhshrink"](input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` brought nearer to 0 by `lambd`, and 0 within that."""
    return T["softshrink"](input, lambd=lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` where its size is above `lambd`, else 0."""
    return T["hardshrink"](input, lambd=lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`x` where it is above `threshold`, else `value`."""
    if inplace:
        return threshold_(input, threshold, value)
    return T["threshold"](input, threshold, value)


_threshold = threshold


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, written into `input`."""
    return written(input, _threshold, threshold, value)


@both_spellings
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016)."""
    return T["glu"](input, axis=dim)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, else times `weight`: one number, or one for each channel (axis 1)."""
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
    """`leaky_relu` with slopes drawn from `lower` to `upper` while `training`; else with their mean."""
    if inplace:
        return written(input, rrelu, lower, upper, training)
    slope: Any = (lower + upper) / 2
    if training:
        slope = uniform(input.shape, lower, upper, dtype=input.dtype, device=input.device)
    return T["prelu"](input, slope)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu`, written into `input`."""
    return written(input, rrelu, lower, upper, training)


# ── along an axis ────────────────────────────────────────────────────────────────────────────────────────────


@both_spellings
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along `dim`, of numbers of another `dtype` if one is named."""
    x = asarray(input) if dtype is None else asarray(input).astype(dtype)
    return T["softmax"](x, axis=chosen_axis("softmax", dim, x.ndim))


@both_spellings
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax(-x)``."""
    x = asarray(input) if dtype is None else asarray(input).astype(dtype)
    return T["softmin"](x, axis=chosen_axis("softmin", dim, x.ndim))


@both_spellings
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along `dim`."""
    x = asarray(input) if dtype is None else asarray(input).astype(dtype)
    return T["log_softmax"](x, axis=chosen_axis("log_softmax", dim, x.ndim))


@both_spellings
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """`softmax` of logits and Gumbel's noise, over `tau` (Jang et al. 2016); with `hard` one-hot, of that gradient."""
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
