"""Dropout: of elements, of channels, and the kind that keeps mean and variance of `selu` networks."""

from __future__ import annotations

from micrograd_core.array.creation import ones
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, written
from micrograd_core.ops.network.piecewise import SELU_ALPHA, SELU_SCALE


def _kept(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """1 where an element stays, else 0, with probability `p` of a 0."""
    drawn = T["dropout"](ones(shape, dtype=x.dtype, device=x.device), p)
    return (drawn > 0).astype(x.dtype)


def _check(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p, the probability of a zero, is between 0 and 1; got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros with probability `p`, all else times ``1 / (1 - p)`` (Srivastava et al. 2014)."""
    _check("dropout", p)
    if inplace:
        return written(input, dropout, p, training)
    x = asarray(input)
    return x * 0 if training and p == 1 else T["dropout"](x, p, training=training)


def _whole_channels(
    name: str, ranks: tuple[int, ...], input: Tensor, p: float, training: bool, inplace: bool, batch: bool
) -> Tensor:
    _check(name, p)
    if inplace:
        return written(input, _channels_function(name, ranks, batch), p, training)
    x = asarray(input)
    if x.ndim not in ranks:
        raise ShapeError(f"{name}: the input has {' or '.join(map(str, ranks))} axes; got shape {x.shape}")
    if not training:
        return x + 0
    lead = 2 if batch or x.ndim == max(ranks) else 1
    shape = (*x.shape[:lead], *(1,) * (x.ndim - lead))
    return x * 0 if p == 1 else x * (_kept(x, p, shape) * (1 / (1 - p)))


def _channels_function(name: str, ranks: tuple[int, ...], batch: bool):  # type: ignore[no-untyped-def]
    return lambda x, p, training: _whole_channels(name, ranks, x, p, training, False, batch)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, length) or (channels, length)."""
    return _whole_channels("dropout1d", (2, 3), input, p, training, inplace, False)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, height, width); of three axes the first two are taken for these."""
    return _whole_channels("dropout2d", (3, 4), input, p, training, inplace, True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, depth, height, width) or (channels, depth, height, width)."""
    return _whole_channels("dropout3d", (4, 5), input, p, training, inplace, False)


def _alpha(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """What is dropped becomes selu's least value; then mean and variance are put back (Klambauer et al. 2017)."""
    if p == 1:
        return x * 0
    least = -SELU_ALPHA * SELU_SCALE
    scale = ((1 - p) * (1 + p * least**2)) ** -0.5
    kept = _kept(x, p, shape)
    return (x * kept + (1 - kept) * least) * scale - scale * p * least


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Selu's least value with probability `p`; mean and variance stay (Klambauer et al. 2017)."""
    _check("alpha_dropout", p)
    if inplace:
        return written(input, alpha_dropout, p, training)
    x = asarray(input)
    return _alpha(x, p, x.shape) if training and p else x + 0


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels."""
    _check("feature_alpha_dropout", p)
    if inplace:
        return written(input, feature_alpha_dropout, p, training)
    x = asarray(input)
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: the input has axes (batch, channels, ...); got shape {x.shape}")
    return _alpha(x, p, (*x.shape[:2], *(1,) * (x.ndim - 2))) if training and p else x + 0
