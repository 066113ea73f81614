"""Layers with parameters. Their names and shapes are those of PyTorch, so that its weights can be loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from micrograd_core import random
from micrograd_core.array.creation import full, ones, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, TransformError, one_of
from micrograd_core.ground.context import computing_again
from micrograd_core.layout import is_integer
from micrograd_core.nn import functional
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


class Bilinear(Module):
    """``x1 @ weight @ x2 + bias`` for each output, of weights (outputs, features of x1, features of x2)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        _check_counts("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        made: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype, "fan_in": in1_features}
        self.weight = parameter((out_features, in1_features, in2_features), **made)
        self.bias = parameter((out_features,), **made) if bias else None

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Shapes ``(..., in1_features)`` and ``(..., in2_features)`` to ``(..., out_features)``."""
        return functional.bilinear(x1, x2, self.weight, self.bias)

    def facts(self) -> str:
        """The features, and whether the bias is missing."""
        outputs, first, second = self.weight.shape
        return f"{first}, {second}, {outputs}{'' if self.bias is not None else ', bias=False'}"


class PReLU(Module):
    """``x`` where it is positive, else times a weight, one for all or one for each channel (He et al. 2015)."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, *, device: str | Device | None = None, dtype: Any = "float32"
    ) -> None:
        _check_counts("PReLU", num_parameters=num_parameters)
        self.weight = _recording(full((num_parameters,), init, dtype=dtype, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, ...), or any shape with one weight."""
        return functional.prelu(x, self.weight)

    def facts(self) -> str:
        """How many weights there are."""
        return f"num_parameters={self.weight.size}"


Lengths = int | tuple[int, ...]
PADDINGS = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(Module):
    """What the convolutions share: weight, bias, and the parameters of the function."""

    function: ClassVar[Callable[..., Tensor]]
    rank: int
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths | str = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        output_padding: Lengths = 0,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        if output_padding != 0:
            raise ShapeError(f"{type(self).__name__} has no output_padding; that is for the transposed convolutions")
        if padding_mode not in PADDINGS:
            raise ValueError(f"{type(self).__name__}: padding_mode is {one_of(PADDINGS)}; got {padding_mode!r}")
        self.padding_mode = padding_mode
        made = {"generator": generator, "device": device, "dtype": dtype}
        self._make(in_channels, out_channels, kernel_size, groups, bias, made)
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def _make(self, inputs: int, outputs: int, size: Any, groups: int, bias: bool, made: dict[str, Any]) -> None:
        name = type(self).__name__
        _check_counts(name, in_channels=inputs, out_channels=outputs, groups=groups)
        if inputs % groups or outputs % groups:
            raise ShapeError(f"{name}: groups ({groups}) must divide the channels, {inputs} and {outputs}")
        kernel = (size,) * self.rank if is_integer(size) else tuple(size)
        if len(kernel) != self.rank:
            raise ShapeError(f"{name}: kernel_size is an integer, or {self.rank} of them; got {size}")
        channels = (inputs, outputs) if self.transposed else (outputs, inputs)
        self.weight = parameter((channels[0], channels[1] // groups, *kernel), **made)
        fan_in = self.weight.size // channels[0]
        self.bias = parameter((outputs,), fan_in=fan_in, **made) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, in_channels, *spatial) to (batch, out_channels, *spatial)."""
        if self.padding_mode == "zeros":
            return self.function(x, self.weight, self.bias, **self.options)
        padded = functional.pad(x, self._around(), PADDINGS[self.padding_mode])
        return self.function(padded, self.weight, self.bias, **{**self.options, "padding": 0})

    def _around(self) -> list[int]:
        """What is put before and after each axis, the last axis first."""
        padding: Any = self.options["padding"]
        if padding == "same":
            dilation = _each(self.options["dilation"], self.rank)
            totals = [d * (n - 1) for d, n in zip(dilation, self.weight.shape[2:], strict=True)]
            return [n for total in reversed(totals) for n in (total // 2, total - total // 2)]
        amounts = (0,) * self.rank if padding == "valid" else _each(padding, self.rank)
        return [n for amount in reversed(amounts) for n in (amount, amount)]

    def facts(self) -> str:
        groups: Any = self.options["groups"]
        first, second = self.weight.shape[:2]
        channels = (first, second * groups) if self.transposed else (second * groups, first)
        plain = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}
        told = [f"{name}={value}" for name, value in self.options.items() if value != plain[name]]
        told += [] if self.bias is not None else ["bias=False"]
        told += [] if self.padding_mode == "zeros" else [f"padding_mode={self.padding_mode!r}"]
        return ", ".join([str(channels[0]), str(channels[1]), f"kernel_size={self.weight.shape[2:]}", *told])


class _Transposed(_Convolution):
    """The same for transposed ones, with the order of arguments that PyTorch gives them."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths = 0,
        output_padding: Lengths = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Lengths = 1,
        padding_mode: str = "zeros",
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: a transposed convolution is padded with 'zeros' only")
        self.padding_mode = padding_mode
        made = {"generator": generator, "device": device, "dtype": dtype}
        self._make(in_channels, out_channels, kernel_size, groups, bias, made)
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self.options["output_padding"] = output_padding


def _each(lengths: Any, rank: int) -> tuple[int, ...]:
    return (lengths,) * rank if is_integer(lengths) else tuple(lengths)


class Conv1d(_Convolution):
    """`conv1d` with weight (outputs, inputs / groups, length) and bias (outputs,), uniform by fan-in as `Linear`'s."""

    function, rank = staticmethod(FUNCTIONS["conv1d"]), 1


class Conv2d(_Convolution):
    """`conv2d` with weight (outputs, inputs / groups, height, width) and bias (outputs,), uniform by fan-in."""

    function, rank = staticmethod(FUNCTIONS["conv2d"]), 2


class Conv3d(_Convolution):
    """`functional.conv3d` with weight (outputs, inputs / groups, depth, height, width) and bias (outputs,)."""

    function, rank = staticmethod(functional.conv3d), 3


class ConvTranspose1d(_Transposed):
    """`conv_transpose1d` with weight (inputs, outputs / groups, length) and bias (outputs,)."""

    function, rank = staticmethod(FUNCTIONS["conv_transpose1d"]), 1


class ConvTranspose2d(_Transposed):
    """`conv_transpose2d` with weight (inputs, outputs / groups, height, width) and bias (outputs,)."""

    function, rank = staticmethod(FUNCTIONS["conv_transpose2d"]), 2


class ConvTranspose3d(_Transposed):
    """`functional.conv_transpose3d` with weight (inputs, outputs / groups, depth, height, width), bias (outputs,)."""

    function, rank = staticmethod(functional.conv_transpose3d), 3


class Embedding(Module):
    """The rows of a table (num_embeddings, embedding_dim), which starts normal, that integers name.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their lengths.
    padding_idx : int, optional
        A row that starts as zeros, and receives no gradient.
    max_norm, norm_type : float, optional
        Rows that are named and longer, by that norm, are made that long first.
    scale_grad_by_freq : bool
        Whether a row's gradient is divided by how often it is named.
    generator, device, dtype
        As for `Linear`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        *,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.weight = _table(type(self).__name__, num_embeddings, embedding_dim, padding_idx, generator, device, dtype)
        self.options = {
            "padding_idx": padding_idx,
            "max_norm": max_norm,
            "norm_type": norm_type,
            "scale_grad_by_freq": scale_grad_by_freq,
        }
        self.plain = padding_idx is None and max_norm is None and not scale_grad_by_freq

    def forward(self, indices: Tensor) -> Tensor:
        """Integers of any shape to (..., embedding_dim)."""
        if self.plain:
            return FUNCTIONS["embedding"](indices, self.weight)
        return functional.embedding(indices, self.weight, **self.options)  # type: ignore[arg-type]

    def facts(self) -> str:
        """The shape of the table, and what was asked for."""
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        told = [f"{name}={value}" for name, value in self.options.items() if value != usual[name]]
        return ", ".join([*map(str, self.weight.shape), *told])


class EmbeddingBag(Module):
    """The sums, means or maxima of rows of a table, by bags of integers: see `functional.embedding_bag`.

    Parameters
    ----------
    num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, padding_idx
        As of `Embedding`; the row of `padding_idx` does not count either.
    mode : str
        ``'mean'``, ``'sum'`` or ``'max'``.
    include_last_offset : bool
        Whether the last offset is where the last bag ends.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        *,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        generator: Generator | None = None,
        device: str | Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.weight = _table("EmbeddingBag", num_embeddings, embedding_dim, padding_idx, generator, device, dtype)
        self.options = {
            "max_norm": max_norm,
            "norm_type": norm_type,
            "scale_grad_by_freq": scale_grad_by_freq,
            "mode": mode,
            "include_last_offset": include_last_offset,
            "padding_idx": padding_idx,
        }

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Integers (bags, length), or (total,) with `offsets` (bags,), to (bags, embedding_dim)."""
        given: dict[str, Any] = {"per_sample_weights": per_sample_weights, **self.options}
        return functional.embedding_bag(indices, self.weight, offsets, **given)

    def facts(self) -> str:
        """The shape of the table, and how rows are put together."""
        return f"{', '.join(map(str, self.weight.shape))}, mode={self.options['mode']!r}"


def _table(name: str, rows: int, length: int, padding: int | None, generator: Any, device: Any, dtype: Any) -> Tensor:
    """Normal numbers, and zeros in the row of the padding."""
    _check_counts(name, num_embeddings=rows, embedding_dim=length)
    if padding is not None and not -rows <= padding < rows:
        raise ValueError(f"{name}: padding_idx {padding} names none of the {rows} rows")
    weight = parameter((rows, length), "normal", generator=generator, device=device, dtype=dtype)
    if padding is not None:
        with no_grad():
            weight[padding] = 0.0
    return weight


class Dropout(Module):
    """`dropout` while training, and nothing else after `eval`.

    Parameters
    ----------
    p : float
        Probability of a zero.
    inplace : bool
        Whether the input is written to, and returned.
    generator : Generator, optional
        Where masks come from; by default the default generator, which `micrograd_core.random.manual_seed` restarts.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, *, generator: random.Generator | None = None) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p, the probability of a zero, is at least 0 and less than 1; got {p}")
        if generator is not None:
            random.chosen_generator(generator)  # refuses a seed, which would draw the same mask at each call
        self.p, self.inplace, self.generator = p, inplace, generator

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        if self.inplace and self.training and self.p:
            x[...] = FUNCTIONS["dropout"](x, self.p, generator=self.generator)
            return x
        return FUNCTIONS["dropout"](x, self.p, generator=self.generator) if self.training and self.p else x

    def facts(self) -> str:
        """The probability of a zero."""
        return f"p={self.p}"


# ── normalisation ────────────────────────────────────────────────────────────────────────────────────────────


def _recording(x: Tensor) -> Tensor:
    x.requires_grad = True
    return x


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
        self.normalized_shape = _each(normalized_shape, 1)
        self.weight = _recording(ones(self.normalized_shape, **made)) if elementwise_affine else None
        self.bias = _recording(zeros(self.normalized_shape, **made)) if elementwise_affine and bias else None
        self.eps = eps

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
        self.normalized_shape = _each(normalized_shape, 1)
        made = ones(self.normalized_shape, dtype=dtype, device=device)
        self.weight = _recording(made) if elementwise_affine else None
        self.eps = eps

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
        _check_counts("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        made: dict[str, Any] = {"dtype": dtype, "device": device}
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = _recording(ones(num_channels, **made)) if affine else None
        self.bias = _recording(zeros(num_channels, **made)) if affine and bias else None

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
        _check_counts(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.track_running_stats = track
        self.weight = _recording(ones(num_features, **made)) if affine else None
        self.bias = _recording(zeros(num_features, **made)) if affine and bias else None
        self.running_mean = zeros(num_features, **made) if track else None
        self.running_var = ones(num_features, **made) if track else None
        self.num_batches_tracked = zeros((), dtype="int64", device=made["device"]) if track else None

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
            setattr(self, name, old * (1 - rate) + new.astype(old.dtype) * rate)

    def _rate(self) -> float:
        """How much the newest batch counts."""
        assert self.momentum is not None
        return self.momentum

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

    def _rate(self) -> float:
        assert self.num_batches_tracked is not None
        self.num_batches_tracked = self.num_batches_tracked + 1
        return 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum  # type: ignore[no-any-return]

    def _count(self, x: Tensor) -> int:
        return x.size // max(x.shape[1], 1)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        axes = (0, *range(2, x.ndim))
        return x.mean(axis=axes), x.var(axis=axes, correction=1.0)


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
    by them.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
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
