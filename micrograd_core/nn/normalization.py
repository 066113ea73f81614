"""Normalisation as layers: of batches, layers, groups, instances."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.creation import ones, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.dtypes import float32
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, TransformError
from micrograd_core.ground.context import computing_again
from micrograd_core.layout import is_integer
from micrograd_core.nn import functional
from micrograd_core.nn.module import Module


def check_counts(layer: str, **counts: int) -> None:
    """Refuse what is no count."""
    for name, count in counts.items():
        if count < 1:
            raise ShapeError(f"{layer}: {name.replace('_', ' ')} must be at least 1; got {count}")


def recording(x: Tensor) -> Tensor:
    """The same tensor, as a parameter."""
    x.requires_grad = True
    return x


def each_axis(lengths: Any, rank: int) -> tuple[int, ...]:
    """One length for all axes, or one for each."""
    return (lengths,) * rank if is_integer(lengths) else tuple(lengths)


class LayerNorm(Module):
    """`layer_norm` over the last axes, whose lengths are `normalized_shape`; weight and bias start as 1 and 0.

    Without `elementwise_affine` there is neither.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        made: dict[str, Any] = {"dtype": dtype, "device": device}
        self.normalized_shape = each_axis(normalized_shape, 1)
        self.weight: Any = recording(ones(self.normalized_shape, **made)) if elementwise_affine else None
        self.bias = recording(zeros(self.normalized_shape, **made)) if elementwise_affine and bias else None
        self.eps = eps

    def __setstate__(self, found: dict[str, Any]) -> None:
        vars(self).update({"normalized_shape": getattr(found["weight"], "shape", ())} | found)

    def forward(self, x: Tensor) -> Tensor:
        """Any leading axes."""
        axes = tuple(range(-len(self.normalized_shape), 0))
        if self.weight is None:
            return functional.layer_norm(x, self.normalized_shape, None, self.bias, self.eps)
        return FUNCTIONS["layer_norm"](x, self.weight, self.bias, axis=axes, eps=self.eps)

    def facts(self) -> str:
        """The shape, and `eps`."""
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """`rms_norm` over the last axes, whose lengths are `normalized_shape`; the weight starts as 1.

    `eps` is by default the smallest difference from 1 of the input's dtype. Without `elementwise_affine` there is no
    weight.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.normalized_shape = each_axis(normalized_shape, 1)
        made = ones(self.normalized_shape, dtype=dtype, device=device)
        self.weight: Any = recording(made) if elementwise_affine else None
        self.eps = eps

    def __setstate__(self, found: dict[str, Any]) -> None:
        vars(self).update({"normalized_shape": getattr(found["weight"], "shape", ())} | found)

    def forward(self, x: Tensor) -> Tensor:
        """Any leading axes."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def facts(self) -> str:
        """The shape, and `eps`."""
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """`functional.group_norm`: groups of channels by their own mean and variance; weight and bias for each channel.

    Parameters
    ----------
    num_groups, num_channels : int
        The first divides the second.
    eps : float
        Added to the variance.
    affine, bias : bool
        Whether there are a weight and a bias, and whether there is the bias.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        check_counts("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        made: dict[str, Any] = {"dtype": dtype, "device": device}
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = recording(ones(num_channels, **made)) if affine else None
        self.bias = recording(zeros(num_channels, **made)) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, num_channels, *spatial)."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def facts(self) -> str:
        """The groups and channels."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _RunningNorm(Module):
    """What batch and instance normalisation share: weight and bias for each channel, and running averages."""

    ndims: tuple[int, ...]

    def _make(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, track: bool, bias: bool, made: Any
    ) -> None:
        check_counts(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.track_running_stats = track
        self.weight = recording(ones(num_features, **made)) if affine else None
        self.bias = recording(zeros(num_features, **made)) if affine and bias else None
        self.running_mean = zeros(num_features, **made) if track else None
        self.running_var = ones(num_features, **made) if track else None
        self.num_batches_tracked = zeros((), dtype="int64", device=made["device"]) if track else None

    def __setstate__(self, found: dict[str, Any]) -> None:
        if "num_features" not in found:  # as it was kept before
            found = {**found, "num_features": found["running_mean"].size, "track_running_stats": True}
        vars(self).update(found)

    def _check(self, x: Tensor) -> None:
        name = type(self).__name__
        if x.ndim not in self.ndims:
            raise ShapeError(f"{name}: the input has {' or '.join(map(str, self.ndims))} axes; got {x.shape}")
        if x.shape[1:2] != (self.num_features,):
            raise ShapeError(
                f"{name}: it was made for {self.num_features} channels; got shape {x.shape} with {x.shape[1]} (axis 1)"
            )

    @no_grad()
    def _follow(self, x: Tensor) -> None:
        """Move the running averages towards the statistics of a batch."""
        if not self.training or computing_again.get() or self.running_mean is None:
            return
        count = self._count(x)
        if count < 2:
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
        for name, new in zip(("running_mean", "running_var"), self._statistics(x), strict=True):
            old = getattr(self, name)
            setattr(self, name, old * (1 - rate) + new.to(dtype=old.dtype) * rate)

    def _rate(self) -> float | Tensor:
        """How much the newest batch counts."""
        return 0.0 if self.momentum is None else self.momentum

    def _count(self, x: Tensor) -> int:
        """How many numbers make up one mean."""
        raise NotImplementedError

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel."""
        raise NotImplementedError

    def facts(self) -> str:
        """The channels, and the numbers."""
        told = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"
        told += "" if self.weight is not None else ", affine=False"
        return told + ("" if self.track_running_stats else ", track_running_stats=False")


class BatchNorm(_RunningNorm):
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

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        made = {"dtype": dtype, "device": device}
        self._make(num_features, eps, momentum, affine, track_running_stats, bias, made)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, num_features, *spatial)."""
        self._check(x)
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

    def _count(self, x: Tensor) -> int:
        return x.size // max(x.shape[1], 1)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        axes = (0, *range(2, x.ndim))
        var = x.var(axis=axes, correction=1.0)  # first: on its way devices find the mean
        return x.mean(axis=axes), var


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of (batch, channels) or (batch, channels, length)."""

    ndims = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of (batch, channels, height, width)."""

    ndims = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of (batch, channels, depth, height, width)."""

    ndims = (5,)


class InstanceNorm(_RunningNorm):
    """`functional.instance_norm`: each channel of each example by its own mean and variance (Ulyanov et al. 2016).

    Parameters as of `BatchNorm`; by default there are no weight, bias and running averages. With averages, `eval` goes
    by them; without a momentum they stay as they are.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        made = {"dtype": dtype, "device": device}
        self._make(num_features, eps, momentum, affine, track_running_stats, bias, made)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, num_features, *spatial), or without the batch."""
        if x.ndim == self.ndims[0] - 1:
            return self.forward(x.expand_dims(0))[0]
        self._check(x)
        own = self.training or self.running_mean is None
        self._follow(x)
        averages = (None, None) if own else (self.running_mean, self.running_var)
        return functional.instance_norm(x, *averages, self.weight, self.bias, own, 0.0, self.eps)

    def _count(self, x: Tensor) -> int:
        return x.size // max(x.shape[0] * x.shape[1], 1)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        axes = tuple(range(2, x.ndim))
        return x.mean(axis=axes).mean(axis=0), x.var(axis=axes, correction=1.0).mean(axis=0)


class InstanceNorm1d(InstanceNorm):
    """`InstanceNorm` of (batch, channels, length)."""

    ndims = (3,)


class InstanceNorm2d(InstanceNorm):
    """`InstanceNorm` of (batch, channels, height, width)."""

    ndims = (4,)


class InstanceNorm3d(InstanceNorm):
    """`InstanceNorm` of (batch, channels, depth, height, width)."""

    ndims = (5,)
