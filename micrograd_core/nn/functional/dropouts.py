"""Dropout: of elements, of channels, and the kind that keeps mean and variance of `selu` networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.array.creation import ones
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, publish, written
from micrograd_core.ops.network.piecewise import SELU_ALPHA, SELU_SCALE


def _kept(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """1 where an element stays, else 0, with probability `p` of a 0."""
    return (T["dropout"](ones(shape, dtype=x.dtype, device=x.device), p) > 0).astype(x.dtype)


def _checked(name: str, input: Any, p: float, axes: tuple[int, ...] = ()) -> Tensor:
    """The input as a tensor, of one of the numbers of `axes`."""
    x = asarray(input)
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p, the probability of a zero, is between 0 and 1; got {p}")
    if axes and x.ndim not in axes:
        raise ShapeError(f"{name}: the input has {' or '.join(map(str, axes))} axes; got shape {x.shape}")
    return x


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros with probability `p`, all else times ``1 / (1 - p)`` (Srivastava et al. 2014).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The probability of a drop, from 0 to 1.
    training : bool
        Whether anything is dropped.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `p` is no probability.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((2, 3, 4))
    >>> y = F.dropout(x, 0.5)
    >>> y.shape
    (2, 3, 4)
    """
    if inplace:
        return written(input, dropout, p, training)
    x = _checked("dropout", input, p)
    return x * 0 if training and p == 1 else T["dropout"](x, p, training=training)


def _dropped(
    name: str, input: Any, p: float, training: bool, inplace: bool, axes: tuple[int, ...], lead: int | None,
    change: Callable[..., Tensor],
) -> Tensor:  # fmt: skip
    """What lies along all axes but the first ones, so many or all but the last ones, is dropped as a whole."""
    if inplace:
        return written(input, lambda x: _dropped(name, x, p, training, False, axes, lead, change))
    x = _checked(name, input, p, axes)
    if not training or not p:
        return x + 0
    kept = x.shape[:lead]
    return x * 0 if p == 1 else change(x, _kept(x, p, (*kept, *(1,) * (x.ndim - len(kept)))), p)


def _scaled(x: Tensor, kept: Tensor, p: float) -> Tensor:
    return x * (kept * (1 / (1 - p)))


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, length) or (channels, length).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The probability of a drop, from 0 to 1.
    training : bool
        Whether anything is dropped.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `p` is no probability.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((2, 3, 4))
    >>> y = F.dropout1d(x, 0.5)
    >>> y.shape
    (2, 3, 4)
    """
    return _dropped("dropout1d", input, p, training, inplace, (2, 3), -1, _scaled)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, height, width); of three axes the first two are taken for these.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The probability of a drop, from 0 to 1.
    training : bool
        Whether anything is dropped.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `p` is no probability.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((2, 3, 4, 4))
    >>> y = F.dropout2d(x, 0.5)
    >>> y.shape
    (2, 3, 4, 4)
    """
    # of two axes each element is a channel, as PyTorch has it
    return _dropped("dropout2d", input, p, training, inplace, (2, 3, 4), 2, _scaled)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, depth, height, width) or (channels, depth, height, width).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The probability of a drop, from 0 to 1.
    training : bool
        Whether anything is dropped.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `p` is no probability.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((2, 3, 4, 4, 4))
    >>> y = F.dropout3d(x, 0.5)
    >>> y.shape
    (2, 3, 4, 4, 4)
    """
    return _dropped("dropout3d", input, p, training, inplace, (4, 5), -3, _scaled)


def _alpha(x: Tensor, kept: Tensor, p: float) -> Tensor:
    """What is dropped becomes selu's least value; then mean and variance are put back (Klambauer et al. 2017)."""
    least = -SELU_ALPHA * SELU_SCALE
    scale = ((1 - p) * (1 + p * least**2)) ** -0.5
    return (x * kept + (1 - kept) * least) * scale - scale * p * least


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Selu's least value with probability `p`; mean and variance stay (Klambauer et al. 2017).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The probability of a drop, from 0 to 1.
    training : bool
        Whether anything is dropped.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `p` is no probability.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((2, 3, 4))
    >>> y = F.alpha_dropout(x, 0.5)
    >>> y.shape
    (2, 3, 4)
    """
    return _dropped("alpha_dropout", input, p, training, inplace, (), None, _alpha)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The probability of a drop, from 0 to 1.
    training : bool
        Whether anything is dropped.
    inplace : bool
        Whether the result is written into `input`, which is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ValueError
        When `p` is no probability.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((2, 3, 4))
    >>> y = F.feature_alpha_dropout(x, 0.5)
    >>> y.shape
    (2, 3, 4)
    """
    x = _checked("feature_alpha_dropout", input, p)
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: the input has axes (batch, channels, ...); got shape {x.shape}")
    return _dropped("feature_alpha_dropout", input, p, training, inplace, (), 2, _alpha)


publish(globals())
