"""Layers with parameters. Their names and shapes are those of PyTorch, so that its weights can be loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from micrograd_core import random
from micrograd_core.array.creation import full
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, one_of
from micrograd_core.layout import is_integer
from micrograd_core.nn import functional
from micrograd_core.nn.initialization import Generator, parameter
from micrograd_core.nn.module import Module
from micrograd_core.nn.normalization import (  # noqa: F401 (norms stood here, as pickles say)
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    LayerNorm,
    RMSNorm,
    check_counts,
    each_axis,
    recording,
)


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
        check_counts("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
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
        check_counts("PReLU", num_parameters=num_parameters)
        self.weight = recording(full((num_parameters,), init, dtype=dtype, device=device))

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
    padding_mode: str = "zeros"

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
        check_counts(name, in_channels=inputs, out_channels=outputs, groups=groups)
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
            dilation = each_axis(self.options["dilation"], self.rank)
            totals = [d * (n - 1) for d, n in zip(dilation, self.weight.shape[2:], strict=True)]
            return [n for total in reversed(totals) for n in (total // 2, total - total // 2)]
        amounts = (0,) * self.rank if padding == "valid" else each_axis(padding, self.rank)
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

    plain: bool = True

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
    check_counts(name, num_embeddings=rows, embedding_dim=length)
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

    inplace: bool = False

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
