"""Layers with parameters. Their names and shapes are those of PyTorch, so that its weights can be loaded."""

from __future__ import annotations

from typing import Any

from micrograd_core import random
from micrograd_core.array.creation import ones, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, TransformError
from micrograd_core.ground.context import computing_again
from micrograd_core.layout import is_integer
from micrograd_core.nn.initialization import Generator, parameter
from micrograd_core.nn.module import Module


def _check_counts(layer: str, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ShapeError(f"{layer}: {name.replace('_', ' ')} must be at least 1; got {count}")


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis of the input and of the result.
    bias : bool
    generator : Generator or random.Random, optional
        Source of the initial numbers; by default the default generator, which `micrograd_core.random.manual_seed`
        restarts.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Tensor, (out_features, in_features)
    bias : Tensor, (out_features,), or None
        Both start uniform in ``[-1/sqrt(in_features), 1/sqrt(in_features)]``.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise ShapeError(f"Linear: feature counts must be at least 1; got {in_features} and {out_features}")
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
        self.weight = parameter((out_features, in_features), **made)
        self.bias = parameter((out_features,), fan_in=in_features, **made) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Shape ``(..., in_features)`` to ``(..., out_features)``."""
        return FUNCTIONS["linear"](x, self.weight, 0.0 if self.bias is None else self.bias)

    def facts(self) -> str:
        """The features, and whether the bias is missing."""
        outputs, inputs = self.weight.shape
        return f"{inputs}, {outputs}{'' if self.bias is not None else ', bias=False'}"


class _Convolution(Module):
    """What the convolutions share: weight, bias, and the parameters of the operation."""

    operation: str
    rank: int
    transposed: bool = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        *,
        output_padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        name = type(self).__name__
        _check_counts(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ShapeError(f"{name}: groups ({groups}) must divide the channels, {in_channels} and {out_channels}")
        size: Any = kernel_size
        kernel = (size,) * self.rank if is_integer(size) else tuple(size)
        if len(kernel) != self.rank:
            raise ShapeError(f"{name}: kernel_size is an integer, or {self.rank} of them; got {kernel_size}")
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
        self.weight = parameter((channels[0], channels[1] // groups, *kernel), **made)
        fan_in = self.weight.size // channels[0]
        self.bias = parameter((out_channels,), fan_in=fan_in, **made) if bias else None
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if self.transposed:
            self.options["output_padding"] = output_padding
        elif output_padding != 0:
            raise ShapeError(f"{name} has no output_padding; that is for the transposed convolutions")

    def forward(self, x: Tensor) -> Tensor:
        """(batch, in_channels, *spatial) to (batch, out_channels, *spatial)."""
        return FUNCTIONS[self.operation](x, self.weight, self.bias, **self.options)

    def facts(self) -> str:
        groups = self.options["groups"]
        first, second = self.weight.shape[:2]
        channels = (first, second * groups) if self.transposed else (second * groups, first)
        plain = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}
        told = [f"{name}={value}" for name, value in self.options.items() if value != plain[name]]
        told += [] if self.bias is not None else ["bias=False"]
        return ", ".join([str(channels[0]), str(channels[1]), f"kernel_size={self.weight.shape[2:]}", *told])


class Conv1d(_Convolution):
    """`conv1d` with weight (outputs, inputs / groups, length) and bias (outputs,), uniform by fan-in as `Linear`'s."""

    operation, rank = "conv1d", 1


class Conv2d(_Convolution):
    """`conv2d` with weight (outputs, inputs / groups, height, width) and bias (outputs,), uniform by fan-in."""

    operation, rank = "conv2d", 2


class ConvTranspose1d(_Convolution):
    """`conv_transpose1d` with weight (inputs, outputs / groups, length) and bias (outputs,)."""

    operation, rank, transposed = "conv_transpose1d", 1, True


class ConvTranspose2d(_Convolution):
    """`conv_transpose2d` with weight (inputs, outputs / groups, height, width) and bias (outputs,)."""

    operation, rank, transposed = "conv_transpose2d", 2, True


class Embedding(Module):
    """The rows of a table (num_embeddings, embedding_dim), which starts normal, that integers name."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        _check_counts("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        shape = (num_embeddings, embedding_dim)
        self.weight = parameter(shape, "normal", generator=generator, device=device, dtype=dtype)

    def forward(self, indices: Tensor) -> Tensor:
        """Integers of any shape to (..., embedding_dim)."""
        return FUNCTIONS["embedding"](indices, self.weight)

    def facts(self) -> str:
        """The shape of the table."""
        return ", ".join(map(str, self.weight.shape))


class Dropout(Module):
    """`dropout` while training, and nothing else after `eval`.

    Parameters
    ----------
    p : float
        Probability of a zero.
    generator : Generator, optional
        Where masks come from; by default the default generator, which `micrograd_core.random.manual_seed` restarts.
    """

    def __init__(self, p: float = 0.5, *, generator: random.Generator | None = None) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p, the probability of a zero, is at least 0 and less than 1; got {p}")
        if generator is not None:
            random.chosen_generator(generator)  # refuses a seed, which would draw the same mask at each call
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return FUNCTIONS["dropout"](x, self.p, generator=self.generator) if self.training and self.p else x

    def facts(self) -> str:
        """The probability of a zero."""
        return f"p={self.p}"


# ── normalisation ────────────────────────────────────────────────────────────────────────────────────────────


def _recording(x: Tensor) -> Tensor:
    x.requires_grad = True
    return x


class LayerNorm(Module):
    """`layer_norm` over the last axes, whose lengths are `normalized_shape`; weight and bias start as 1 and 0."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        *,
        bias: bool = True,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.weight = _recording(ones(normalized_shape, dtype=dtype, device=device))
        self.bias = _recording(zeros(normalized_shape, dtype=dtype, device=device)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Any leading axes."""
        axes = tuple(range(-self.weight.ndim, 0))
        return FUNCTIONS["layer_norm"](x, self.weight, self.bias, axis=axes, eps=self.eps)

    def facts(self) -> str:
        """The shape, and `eps`."""
        return f"{self.weight.shape}, eps={self.eps}"


class RMSNorm(Module):
    """`rms_norm` over the last axes, whose lengths are `normalized_shape`; the weight starts as 1."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-6,
        *,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.weight = _recording(ones(normalized_shape, dtype=dtype, device=device))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Any leading axes."""
        return FUNCTIONS["rms_norm"](x, self.weight, axis=tuple(range(-self.weight.ndim, 0)), eps=self.eps)

    def facts(self) -> str:
        """The shape, and `eps`."""
        return f"{self.weight.shape}, eps={self.eps}"


class BatchNorm(Module):
    """`batch_norm`: by the batch's own statistics in training, which are also averaged; by those averages in `eval`.

    Parameters
    ----------
    num_features : int
        Channels, axis 1 of the input.
    eps : float
        Added to the variance.
    momentum : float or None
        How much the newest batch counts in the running averages; ``None``: as much as each before it.
    affine : bool
        Whether there are weight and bias.
    device, dtype
        Of all tensors.

    Attributes
    ----------
    weight, bias : Tensor, (num_features,), or None
        Parameters; start as 1 and 0.
    running_mean, running_var : Tensor, (num_features,)
        Buffers; start as 0 and 1. The variance is the unbiased one.
    num_batches_tracked : Tensor, ()
        Buffer, int64.
    """

    ndims: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        *,
        affine: bool = True,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        _check_counts(type(self).__name__, num_features=num_features)
        made: dict[str, Any] = {"dtype": dtype, "device": device}
        self.weight = _recording(ones(num_features, **made)) if affine else None
        self.bias = _recording(zeros(num_features, **made)) if affine else None
        self.running_mean, self.running_var = zeros(num_features, **made), ones(num_features, **made)
        self.num_batches_tracked = zeros((), dtype="int64", device=device)
        self.eps, self.momentum = eps, momentum

    def forward(self, x: Tensor) -> Tensor:
        """(batch, num_features, *spatial)."""
        if x.ndim not in self.ndims:
            raise ShapeError(
                f"{type(self).__name__}: the input has {' or '.join(map(str, self.ndims))} axes; got {x.shape}"
            )
        if x.shape[1:2] != self.running_mean.shape:
            raise ShapeError(
                f"{type(self).__name__}: it was made for {self.running_mean.size} channels; got shape {x.shape} with "
                f"{x.shape[1]} (axis 1)"
            )
        if self.training and not computing_again.get():
            self._follow(x)
        return FUNCTIONS["batch_norm"](
            x, self.running_mean, self.running_var, self.weight, self.bias, training=self.training, eps=self.eps
        )

    @no_grad()
    def _follow(self, x: Tensor) -> None:
        """Move the running averages towards the statistics of a batch."""
        count = x.size // max(x.shape[1], 1)
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
        axes, kept = (0, *range(2, x.ndim)), self.running_mean.dtype
        x = x.astype(kept) if x.dtype.bits < kept.bits else x  # the variance of half types may be more than they hold
        self.num_batches_tracked = self.num_batches_tracked + 1
        rate = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        for name, new in (("running_mean", x.mean(axis=axes)), ("running_var", x.var(axis=axes, correction=1.0))):
            old = getattr(self, name)
            setattr(self, name, old * (1 - rate) + new.astype(old.dtype) * rate)

    def facts(self) -> str:
        """The channels, and the numbers."""
        return f"{self.running_mean.size}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of (batch, channels) or (batch, channels, length)."""

    ndims = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of (batch, channels, height, width)."""

    ndims = (4,)
