"""Normalisation: by batches, layers, groups, instances, neighbours; of vectors to length 1.

Running statistics are changed in place, as PyTorch's are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from micrograd_core.array.namespace import finfo
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import T, of_operations, publish
from micrograd_core.ops.shared import both_spellings

# What each computes, its name says, and torch.nn.functional, whose arguments it takes.


@no_grad()
def _follow(running: Tensor | None, new: Tensor, momentum: float) -> None:
    if running is not None:
        running[...] = running * (1 - momentum) + new.detach().to(dtype=running.dtype) * momentum


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """Each channel (axis 1) by its own mean and variance over the batch, or by the running ones without `training`.

    Parameters
    ----------
    input : Tensor
        (batch, channels, ...).
    running_mean : Tensor, optional
        (channels,): changed in place while `training`, otherwise used.
    running_var : Tensor, optional
        (channels,): changed in place while `training`, otherwise used.
    weight : Tensor, optional
        (channels,).
    bias : Tensor, optional
        (channels,).
    training : bool
        Whether the statistics are those of the batch.
    momentum : float
        How much the newest batch counts in the running statistics.
    eps : float
        A small number that is added, so that nothing is divided by 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([[1.0, 2.0], [3.0, 6.0]])
    >>> y = F.batch_norm(x, None, None, training=True)
    >>> y
    Tensor([[-1., -1.],
            [ 1.,  1.]])
    """
    x = asarray(input)
    if not training and (running_mean is None or running_var is None):
        raise ValueError("batch_norm: without training it needs running_mean and running_var")
    if training:
        if x.size // max(x.shape[1], 1) < 2:
            raise ShapeError(f"batch_norm: a channel needs more than one number, to have a variance; got {x.shape}")
        axes = (0, *range(2, x.ndim))
        var = x.var(axis=axes, correction=1.0)  # first: on its way devices find the mean
        _follow(running_mean, x.mean(axis=axes), momentum)
        _follow(running_var, var, momentum)
    return T["batch_norm"](x, running_mean, running_var, weight, bias, training=training, eps=eps)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """Each channel of each example by its own mean and variance (Ulyanov et al. 2016).

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial).
    running_mean : Tensor, optional
        (channels,): changed in place, or used without `use_input_stats`.
    running_var : Tensor, optional
        (channels,): changed in place, or used without `use_input_stats`.
    weight : Tensor, optional
        (channels,).
    bias : Tensor, optional
        (channels,).
    use_input_stats : bool
        Whether the statistics are those of the input, rather than the running ones.
    momentum : float
        How much the newest batch counts in the running statistics.
    eps : float
        A small number that is added, so that nothing is divided by 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([[[1.0, 3.0], [2.0, 6.0]]])
    >>> y = F.instance_norm(x)
    >>> y
    Tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    x = asarray(input)
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, x.ndim))
    if math.prod(x.shape[2:]) < 2:
        raise ShapeError(f"instance_norm: an instance needs more than one number, to have a variance; got {x.shape}")
    _follow(running_mean, x.mean(axis=axes).mean(axis=0), momentum)
    _follow(running_var, x.var(axis=axes, correction=1.0).mean(axis=0), momentum)
    return T["instance_norm"](x, weight, bias, eps=eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Tensor:
    """Each group of channels of each example by its own mean and variance (Wu & He 2018).

    Parameters
    ----------
    input : Tensor
        (batch, channels, ...).
    num_groups : int
        How many groups; divides the channels.
    weight : Tensor, optional
        (channels,).
    bias : Tensor, optional
        (channels,).
    eps : float
        A small number that is added, so that nothing is divided by 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.arange(4.0).reshape((1, 4))
    >>> y = F.group_norm(x, 2)
    >>> y
    Tensor([[-1.,  1., -1.,  1.]])
    """
    return T["group_norm"](input, weight, bias, num_groups=num_groups, eps=eps)


def _last_axes(name: str, x: Tensor, normalized_shape: Any) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(f"{name}: normalized_shape {shape} is not how shape {x.shape} ends")
    return tuple(range(-len(shape), 0))


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """The last axes, whose lengths are `normalized_shape`, by their own mean and variance (Ba et al. 2016).

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    normalized_shape : int or sequence of int
        The lengths of the last axes.
    weight : Tensor, optional
        Of shape `normalized_shape`.
    bias : Tensor, optional
        Of shape `normalized_shape`.
    eps : float
        A small number that is added, so that nothing is divided by 0.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([[1.0, 3.0], [2.0, 6.0]])
    >>> y = F.layer_norm(x, (2,))
    >>> y
    Tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    x = asarray(input)
    return T["layer_norm"](x, weight, bias, axis=_last_axes("layer_norm", x, normalized_shape), eps=eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """The last axes over the root of their mean square; `eps` is by default that of the dtype.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    normalized_shape : int or sequence of int
        The lengths of the last axes.
    weight : Tensor, optional
        Of shape `normalized_shape`.
    eps : float, optional
        Added to the mean square; by default the spacing of the dtype at 1.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([[1.0, 7.0]])
    >>> y = F.rms_norm(x, (2,))
    >>> y
    Tensor([[0.2, 1.4]])
    """
    x = asarray(input)
    axes = _last_axes("rms_norm", x, normalized_shape)
    return T["rms_norm"](x, weight, axis=axes, eps=finfo(x.dtype).eps if eps is None else eps)


@both_spellings
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Over the norms along `dim`, or `eps` where they are less.

    Parameters
    ----------
    input : Tensor
        Of any shape, of a floating dtype.
    p : float
        The order of the norm.
    dim : int
        The axis; also by the name ``axis``.
    eps : float
        The least norm that is divided by.
    out : Tensor, optional
        The tensor to write the result into; it is returned.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.asarray([[3.0, 4.0]])
    >>> y = F.normalize(x)
    >>> y
    Tensor([[0.6, 0.8]])
    """
    found = T["normalize"](input, dim, p=p, eps=eps)
    if out is None:
        return found
    out[...] = found
    return out


of_operations(globals(), "input", "local_response_norm")
publish(globals())
