"""Normalisation as layers: of batches, layers, groups, instances."""

# ruff: noqa: D101

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

from micrograd_core.array.creation import ones, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import float32
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, TransformError
from micrograd_core.nn import functional
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.initialization import OverAxes, Place, check_counts, each_axis, parameter
from micrograd_core.nn.module import Module
from micrograd_core.support.context import computing_again


class LayerNorm(Module):
    """`layer_norm` over the last axes: to mean 0 and variance 1 (Ba et al. 2016).

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The lengths of the last axes of the input.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Whether there is a weight, and by default a bias.
    bias : bool
        Whether there is a bias beside the weight.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight, bias : Tensor, normalized_shape, or None
        Start as 1 and 0.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 4))
    >>> y = mg.nn.LayerNorm(4)(x)
    >>> y.shape
    (2, 4)
    """

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, **made: Unpack[Place],
    ) -> None:  # fmt: skip
        self.normalized_shape = each_axis(normalized_shape, 1)
        self.weight: Any = parameter(self.normalized_shape, "ones", **made) if elementwise_affine else None
        self.bias = parameter(self.normalized_shape, "zeros", **made) if elementwise_affine and bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise over the last axes.

        Parameters
        ----------
        x : Tensor, (..., *normalized_shape)
            Of floating-point dtype.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        axes = tuple(range(-len(self.normalized_shape), 0))
        if self.weight is None:
            return functional.layer_norm(x, self.normalized_shape, None, self.bias, self.eps)
        return FUNCTIONS["layer_norm"](x, self.weight, self.bias, axis=axes, eps=self.eps)

    def facts(self) -> str:
        """The shape, and `eps`."""
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """`rms_norm` over the last axes: to mean square 1 (Zhang & Sennrich 2019).

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The lengths of the last axes of the input.
    eps : float, optional
        Added to the mean square; by default the smallest difference from 1 of the input's dtype.
    elementwise_affine : bool
        Whether there is a weight.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Tensor, normalized_shape, or None
        Starts as 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 4))
    >>> y = mg.nn.RMSNorm(4)(x)
    >>> y.shape
    (2, 4)
    """

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float | None = None, elementwise_affine: bool = True,
        **made: Unpack[Place],
    ) -> None:  # fmt: skip
        self.normalized_shape = each_axis(normalized_shape, 1)
        self.weight: Any = parameter(self.normalized_shape, "ones", **made) if elementwise_affine else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Divide by the root of the mean of squares over the last axes.

        Parameters
        ----------
        x : Tensor, (..., *normalized_shape)
            Of floating-point dtype.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def facts(self) -> str:
        """The shape, and `eps`."""
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Group normalisation (Wu & He 2018): groups of channels by their own mean and variance.

    Parameters
    ----------
    num_groups : int
        The number of groups; divides `num_channels`.
    num_channels : int
        Channels, axis 1 of the input.
    eps : float
        Added to the variance.
    affine, bias : bool
        Whether the layer has a weight and a bias, and whether it has the bias.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 4))
    >>> y = mg.nn.GroupNorm(2, 4)(x)
    >>> y.shape
    (2, 4)
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, *, bias: bool = True,
        **made: Unpack[Place],
    ) -> None:  # fmt: skip
        check_counts("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = parameter((num_channels,), "ones", **made) if affine else None
        self.bias = parameter((num_channels,), "zeros", **made) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each group of channels.

        Parameters
        ----------
        x : Tensor, (batch, num_channels, *spatial)
            Of floating-point dtype.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def facts(self) -> str:
        """The groups and channels."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _RunningNorm(OverAxes):
    """What batch and instance normalisation share: weight and bias for each channel, and running averages."""

    of_batches: ClassVar[bool] = True
    """Whether a channel has one mean over all examples."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, *, bias: bool = True, **made: Unpack[Place],
    ) -> None:  # fmt: skip
        check_counts(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.track_running_stats = track = track_running_stats
        self.weight = parameter((num_features,), "ones", **made) if affine else None
        self.bias = parameter((num_features,), "zeros", **made) if affine and bias else None
        self.running_mean = zeros(num_features, **made) if track else None
        self.running_var = ones(num_features, **made) if track else None
        self.num_batches_tracked = zeros((), dtype="int64", device=made.get("device")) if track else None

    def _check(self, x: Tensor, *ndims: int) -> None:
        name = type(self).__name__
        if x.ndim not in ndims:
            raise ShapeError(f"{name}: the input has {' or '.join(map(str, ndims))} axes; got {x.shape}")
        if x.shape[1:2] != (self.num_features,):
            raise ShapeError(
                f"{name}: it was made for {self.num_features} channels; got shape {x.shape} with {x.shape[1]} (axis 1)"
            )

    @no_grad()
    def _follow(self, x: Tensor) -> None:
        """Move the running averages towards the statistics of a batch."""
        if not self.training or computing_again.get() or self.running_mean is None:
            return
        axes = (*(0,) * self.of_batches, *range(2, x.ndim))
        if math.prod(x.shape[axis] for axis in axes) < 2:
            raise ShapeError(
                f"{type(self).__name__}: in training a channel needs more than one number, to have a variance; got "
                f"shape {x.shape}. Use a larger batch, or eval()"
            )
        if x._kernels.depth:
            raise TransformError(
                f"{type(self).__name__}: inside vmap each example would have running averages of its own; call eval() "
                "first, or vmap what comes before and after"
            )
        kept = self.running_mean.dtype
        x = x.astype(kept) if x.dtype.bits < kept.bits else x  # the variance of half types may be more than they hold
        rate = self._rate()
        var = x.var(axis=axes, correction=1.0)  # first: on its way devices find the mean
        for name, new in (("running_mean", x.mean(axis=axes)), ("running_var", var)):
            old, new = getattr(self, name), new if self.of_batches else new.mean(axis=0)
            setattr(self, name, old * (1 - rate) + new.to(dtype=old.dtype) * rate)

    def _rate(self) -> float | Tensor:
        """How much the newest batch counts."""
        return 0.0 if self.momentum is None else self.momentum

    def facts(self) -> str:
        """The channels, and the numbers."""
        told = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"
        told += "" if self.weight is not None else ", affine=False"
        return told + ("" if self.track_running_stats else ", track_running_stats=False")


class _BatchNorm(_RunningNorm):
    """`batch_norm`: by the batch's own statistics in training, which are also averaged; by those averages in `eval`.

    Parameters
    ----------
    num_features : int
        Channels, axis 1 of the input.
    eps : float
        Added to the variance.
    momentum : float or None
        How much the newest batch counts in the running averages; ``None``: as much as each before it.
    affine, bias : bool
        Whether there are weight and bias, and whether there is the bias.
    track_running_stats : bool
        Whether there are running averages; without, `eval` goes by the batch too.
    device, dtype
        Of all tensors.

    Attributes
    ----------
    weight, bias : Tensor, (num_features,), or None
        Parameters; start as 1 and 0.
    running_mean, running_var : Tensor, (num_features,), or None
        Buffers; start as 0 and 1. The variance is the unbiased one.
    num_batches_tracked : Tensor, (), or None
        Buffer, int64.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel: by the statistics of the batch while training, else by the running averages.

        Parameters
        ----------
        x : Tensor, (batch, num_features, *spatial)
            Of floating-point dtype.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError
            When the input has other axes or channels.
        """
        self._check(x, *(2,) * (self.rank == 1), self.rank + 2)
        self._follow(x)
        training = self.training or self.running_mean is None
        return FUNCTIONS["batch_norm"](
            x, self.running_mean, self.running_var, self.weight, self.bias, training=training, eps=self.eps
        )

    def _rate(self) -> float | Tensor:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        self.num_batches_tracked = self.num_batches_tracked + 1
        if self.momentum is not None:
            return self.momentum
        kept = self.running_mean.dtype  # a tensor, which `jit` counts on with
        wide = float32 if kept.bits < float32.bits else kept
        rate: Tensor = (1 / self.num_batches_tracked.astype(wide)).astype(kept)
        return rate


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (batch, channels, *spatial) (Ioffe & Szegedy 2015).

    `BatchNorm1d` takes (batch, channels), too. Training uses the batch's own statistics and averages them; `eval` uses
    these averages.

    Parameters
    ----------
    num_features : int
        Channels, axis 1 of the input.
    eps : float
        Added to the variance.
    momentum : float or None
        The weight of the newest batch in the running averages; ``None`` weighs all batches equally.
    affine, bias : bool
        Whether the layer has a weight and a bias, and whether it has the bias.
    track_running_stats : bool
        Whether the layer has running averages; without them `eval` uses the batch's own statistics, too.
    device : Device or str, optional
        Where the parameters and buffers are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters and buffers.

    Attributes
    ----------
    weight, bias : Tensor, (num_features,), or None
        Parameters; they start as 1 and 0.
    running_mean, running_var : Tensor, (num_features,), or None
        Buffers; they start as 0 and 1. The variance is the unbiased one.
    num_batches_tracked : Tensor, (), or None
        Buffer, int64.

    Raises
    ------
    ShapeError
        At a call, when the input has other axes or channels, or a channel has fewer than two numbers in training.
    TransformError
        At a call in training inside `vmap`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((4, 3, 5, 5))
    >>> y = mg.nn.BatchNorm2d(3)(x)
    >>> y.shape
    (4, 3, 5, 5)
    """


class _InstanceNorm(_RunningNorm):
    """`functional.instance_norm`: each channel of each example by its own mean and variance (Ulyanov et al. 2016).

    Parameters as of `BatchNorm`; by default there are no weight, bias and running averages. With averages, `eval` goes
    by them; without a momentum they stay as they are.
    """

    of_batches = False

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
        track_running_stats: bool = False, *, bias: bool = True, **made: Unpack[Place],
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias, **made)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel of each example.

        Parameters
        ----------
        x : Tensor, (batch, num_features, *spatial)
            Or without the batch.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError
            When the input has other axes or channels.
        """
        if x.ndim == self.rank + 1:
            return self.forward(x.expand_dims(0))[0]
        self._check(x, self.rank + 2)
        own = self.training or self.running_mean is None
        self._follow(x)
        averages = (None, None) if own else (self.running_mean, self.running_var)
        return functional.instance_norm(x, *averages, self.weight, self.bias, own, 0.0, self.eps)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (batch, channels, *spatial), or without the batch.

    Each channel of each example is normalised by its own mean and variance (Ulyanov et al. 2016). By default there are
    no weight, bias and running averages; with averages, `eval` uses them.

    Parameters
    ----------
    num_features : int
        Channels, axis 1 of the input.
    eps : float
        Added to the variance.
    momentum : float or None
        The weight of the newest batch in the running averages; ``None`` leaves them as they are.
    affine, bias : bool
        Whether the layer has a weight and a bias, and whether it has the bias.
    track_running_stats : bool
        Whether the layer has running averages; without them `eval` uses the batch's own statistics, too.
    device : Device or str, optional
        Where the parameters and buffers are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters and buffers.

    Attributes
    ----------
    weight, bias : Tensor, (num_features,), or None
        Parameters; they start as 1 and 0.
    running_mean, running_var : Tensor, (num_features,), or None
        Buffers; they start as 0 and 1. The variance is the unbiased one.
    num_batches_tracked : Tensor, (), or None
        Buffer, int64.

    Raises
    ------
    ShapeError
        At a call, when the input has other axes or channels.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((4, 3, 5, 5))
    >>> y = mg.nn.InstanceNorm2d(3)(x)
    >>> y.shape
    (4, 3, 5, 5)
    """


class BatchNorm1d(_BatchNorm, rank=1): ...


class BatchNorm3d(_BatchNorm, rank=3): ...


class InstanceNorm1d(_InstanceNorm, rank=1): ...


class InstanceNorm3d(_InstanceNorm, rank=3): ...


publish(globals())
