"""Layers with parameters, normalisation, padding.

Their names and shapes are those of PyTorch, so that its weights can be loaded.
"""

# ruff: noqa: D101

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from micrograd_core import random
from micrograd_core.array.creation import full, ones, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import float32
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, TransformError, one_of
from micrograd_core.nn import functional
from micrograd_core.nn.functional.common import check_padding, publish
from micrograd_core.nn.initialization import Making, OverAxes, Place, check_counts, each_axis, parameter
from micrograd_core.nn.module import Module
from micrograd_core.support.context import computing_again


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis of the input and of the result.
    bias : bool
        Whether the layer has a bias.
    generator : Generator or random.Random, optional
        Source of the initial numbers; by default the default generator, which `micrograd_core.random.manual_seed`
        restarts.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight : Tensor, (out_features, in_features)
    bias : Tensor, (out_features,), or None
        Both start uniform in ``[-1/sqrt(in_features), 1/sqrt(in_features)]``.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 4))
    >>> y = mg.nn.Linear(4, 3)(x)
    >>> y.shape
    (2, 3)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, **made: Unpack[Making]) -> None:
        if in_features < 1 or out_features < 1:
            raise ShapeError(f"Linear: feature counts must be at least 1; got {in_features} and {out_features}")
        self.weight = parameter((out_features, in_features), **made)
        self.bias = parameter((out_features,), fan_in=in_features, **made) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T + bias``.

        Parameters
        ----------
        x : Tensor, (..., in_features)
            Of the dtype of the parameters.

        Returns
        -------
        Tensor, (..., out_features)

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        return FUNCTIONS["linear"](x, self.weight, 0.0 if self.bias is None else self.bias)

    def facts(self) -> str:
        """The features, and whether the bias is missing."""
        outputs, inputs = self.weight.shape
        return f"{inputs}, {outputs}{'' if self.bias is not None else ', bias=False'}"


class Bilinear(Module):
    """``x1 @ weight @ x2 + bias`` for each output.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Lengths of the last axes of the inputs and of the result.
    bias : bool
        Whether there is a bias.
    generator, device, dtype
        As for `Linear`.

    Attributes
    ----------
    weight : Tensor, (out_features, in1_features, in2_features)
    bias : Tensor, (out_features,), or None
        Both start uniform in ``[-1/sqrt(in1_features), 1/sqrt(in1_features)]``.

    Raises
    ------
    ShapeError
        When a length is less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x, z = mg.ones((2, 4)), mg.ones((2, 5))
    >>> y = mg.nn.Bilinear(4, 5, 3)(x, z)
    >>> y.shape
    (2, 3)
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, **made: Unpack[Making]
    ) -> None:
        check_counts("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.weight = parameter((out_features, in1_features, in2_features), fan_in=in1_features, **made)
        self.bias = parameter((out_features,), fan_in=in1_features, **made) if bias else None

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute ``x1 @ weight @ x2 + bias`` for each output.

        Parameters
        ----------
        x1 : Tensor, (..., in1_features)
            The first input.
        x2 : Tensor, (..., in2_features)
            The second, with the same leading axes.

        Returns
        -------
        Tensor, (..., out_features)

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        return FUNCTIONS["bilinear"](x1, x2, self.weight, self.bias)

    def facts(self) -> str:
        """The features, and whether the bias is missing."""
        outputs, first, second = self.weight.shape
        return f"{first}, {second}, {outputs}{'' if self.bias is not None else ', bias=False'}"


class PReLU(Module):
    """``x`` where it is positive, else times a weight that is learned (He et al. 2015).

    Parameters
    ----------
    num_parameters : int
        1, or one for each channel.
    init : float
        The weights at first.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Tensor, (num_parameters,)

    Raises
    ------
    ShapeError
        When `num_parameters` is less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> y = mg.nn.PReLU()(mg.asarray([-1.0, 2.0]))
    >>> y
    Tensor([-0.25,    2.], requires_grad=True)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, **made: Unpack[Place]) -> None:
        check_counts("PReLU", num_parameters=num_parameters)
        self.weight = full((num_parameters,), init, requires_grad=True, **made)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply what is negative by the weight.

        Parameters
        ----------
        x : Tensor, (batch, channels, ...)
            Or of any shape, where there is one weight.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        return functional.prelu(x, self.weight)

    def facts(self) -> str:
        """How many weights there are."""
        return f"num_parameters={self.weight.size}"


Lengths = int | tuple[int, ...]
PADDINGS = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(OverAxes):
    """What the convolutions share: weight, bias, and the parameters of the function."""

    operation: ClassVar[str] = "conv"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Lengths, stride: Lengths = 1,
        padding: Lengths | str = 0, dilation: Lengths = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", *, output_padding: Lengths = 0, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        if output_padding != 0:
            raise ShapeError(f"{type(self).__name__} has no output_padding; that is for the transposed convolutions")
        if padding_mode not in PADDINGS:
            raise ValueError(f"{type(self).__name__}: padding_mode is {one_of(PADDINGS)}; got {padding_mode!r}")
        self.options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._make(in_channels, out_channels, kernel_size, bias, padding_mode, made)

    def _make(self, inputs: int, outputs: int, size: Any, bias: bool, padding_mode: str, made: Making) -> None:
        name, groups, self.padding_mode = type(self).__name__, self.options["groups"], padding_mode
        check_counts(name, in_channels=inputs, out_channels=outputs, groups=groups)
        if inputs % groups or outputs % groups:
            raise ShapeError(f"{name}: groups ({groups}) must divide the channels, {inputs} and {outputs}")
        kernel = each_axis(size, self.rank)
        if len(kernel) != self.rank:
            raise ShapeError(f"{name}: kernel_size is an integer, or {self.rank} of them; got {size}")
        channels = (outputs, inputs) if self.operation == "conv" else (inputs, outputs)
        self.weight = parameter((channels[0], channels[1] // groups, *kernel), **made)
        self.bias = parameter((outputs,), fan_in=self.weight.size // channels[0], **made) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Convolve the spatial axes.

        Parameters
        ----------
        x : Tensor, (batch, in_channels, *spatial)
            Or without the batch.

        Returns
        -------
        Tensor, (batch, out_channels, *spatial)
            Without the batch where `x` has none.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatch
        """
        if self.padding_mode == "zeros":
            return FUNCTIONS[f"{self.operation}{self.rank}d"](x, self.weight, self.bias, **self.options)
        padded = functional.pad(x, self._around(), PADDINGS[self.padding_mode])
        return FUNCTIONS[f"conv{self.rank}d"](padded, self.weight, self.bias, **{**self.options, "padding": 0})

    def _around(self) -> list[int]:
        """What is put before and after each axis, the last axis first."""
        padding = self.options["padding"]
        if padding == "same":
            dilation = each_axis(self.options["dilation"], self.rank)
            totals = [d * (n - 1) for d, n in zip(dilation, self.weight.shape[2:], strict=True)]
            return [n for total in reversed(totals) for n in (total // 2, total - total // 2)]
        amounts = (0,) * self.rank if padding == "valid" else each_axis(padding, self.rank)
        return [n for amount in reversed(amounts) for n in (amount, amount)]

    def facts(self) -> str:
        groups = self.options["groups"]
        first, second = self.weight.shape[:2]
        channels = (second * groups, first) if self.operation == "conv" else (first, second * groups)
        plain = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}
        told = [f"{name}={value}" for name, value in self.options.items() if value != plain[name]]
        told += [] if self.bias is not None else ["bias=False"]
        told += [] if self.padding_mode == "zeros" else [f"padding_mode={self.padding_mode!r}"]
        return ", ".join([str(channels[0]), str(channels[1]), f"kernel_size={self.weight.shape[2:]}", *told])


class _Transposed(_Convolution):
    """A transposed convolution, with the order of arguments that PyTorch gives it."""

    operation = "conv_transpose"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Lengths, stride: Lengths = 1, padding: Lengths = 0,
        output_padding: Lengths = 0, groups: int = 1, bias: bool = True, dilation: Lengths = 1,
        padding_mode: str = "zeros", **made: Unpack[Making],
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: a transposed convolution is padded with 'zeros' only")
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self.options["output_padding"] = output_padding
        self._make(in_channels, out_channels, kernel_size, bias, padding_mode, made)


class Conv2d(_Convolution):
    """`functional.conv2d`, with its weight and bias.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the input and of the result.
    kernel_size : int, or one for each axis
        The lengths of the kernel.
    stride, padding, dilation : int, or one for each axis
        How far apart the kernel's positions are, how many elements surround the input, and how far apart the elements
        of the kernel are; `padding` may be ``'valid'`` or ``'same'``.
    output_padding : int
        Must be 0: only the transposed layers have it.
    groups : int
        How many groups of channels are convolved apart.
    bias : bool
        Whether the layer has a bias.
    padding_mode : str
        ``'zeros'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight : Tensor, (out_channels, in_channels / groups, *kernel_size)
    bias : Tensor, (out_channels,), or None
        Both start uniform by fan-in, as `Linear`'s.

    Raises
    ------
    ShapeError, ValueError
        When groups do not divide the channels, a length does not fit, or `padding_mode` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 8, 8))
    >>> y = mg.nn.Conv2d(2, 4, 3, padding=1)(x)
    >>> y.shape
    (1, 4, 8, 8)
    """


class ConvTranspose2d(_Transposed):
    """`functional.conv_transpose2d`, with its weight and bias.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the input and of the result.
    kernel_size : int, or one for each axis
        The lengths of the kernel.
    stride, padding, output_padding, dilation : int, or one for each axis
        How far apart the kernel's positions are, how many elements are cut off from the result, and added to its end,
        and how far apart the elements of the kernel are.
    groups : int
        How many groups of channels are convolved apart.
    bias : bool
        Whether the layer has a bias.
    padding_mode : str
        Must be ``'zeros'``.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight : Tensor, (in_channels, out_channels / groups, *kernel_size)
    bias : Tensor, (out_channels,), or None
        Both start uniform by fan-in, as `Linear`'s.

    Raises
    ------
    ShapeError, ValueError
        When groups do not divide the channels, or a length does not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 8, 8))
    >>> y = mg.nn.ConvTranspose2d(2, 4, 2, stride=2)(x)
    >>> y.shape
    (1, 4, 16, 16)
    """


class Conv1d(_Convolution, rank=1): ...


class Conv3d(_Convolution, rank=3): ...


class ConvTranspose1d(_Transposed, rank=1): ...


class ConvTranspose3d(_Transposed, rank=3): ...


class Embedding(Module):
    """A table of vectors, of which integers select rows.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their lengths.
    padding_idx : int, optional
        A row that starts as zeros, and receives no gradient.
    max_norm, norm_type : float, optional
        Selected rows that are longer than `max_norm`, by the norm of order `norm_type`, are shortened first.
    scale_grad_by_freq : bool
        Whether a row's gradient is divided by how often it is selected.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight : Tensor, (num_embeddings, embedding_dim)
        Starts with normally distributed numbers.

    Raises
    ------
    ShapeError, ValueError
        When a length is less than 1, or `padding_idx` is no row.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> indices = mg.asarray([[0, 4, 4]])
    >>> y = mg.nn.Embedding(5, 3)(indices)
    >>> y.shape
    (1, 3, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        self.weight = _table(type(self).__name__, num_embeddings, embedding_dim, padding_idx, made)
        shortened = {"max_norm": max_norm, "norm_type": norm_type}
        self.options = {"padding_idx": padding_idx, **shortened, "scale_grad_by_freq": scale_grad_by_freq}
        self.plain = padding_idx is None and max_norm is None and not scale_grad_by_freq

    def forward(self, indices: Tensor) -> Tensor:
        """Look up rows of the table.

        Parameters
        ----------
        indices : Tensor
            Integers of any shape, from 0 to below `num_embeddings`.

        Returns
        -------
        Tensor, (*indices.shape, embedding_dim)

        Raises
        ------
        IndexError
            When an index lies outside of the table.
        DTypeError
            When the indices are not integers.
        """
        if self.plain:
            return FUNCTIONS["embedding"](indices, self.weight)
        return functional.embedding(indices, self.weight, **self.options)  # type: ignore[arg-type]

    def facts(self) -> str:
        """The shape of the table, and what was asked for."""
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        told = [f"{name}={value}" for name, value in self.options.items() if value != usual[name]]
        return ", ".join([*map(str, self.weight.shape), *told])


class EmbeddingBag(Module):
    """A table of vectors, of which bags of integers give sums, means or maxima: see `functional.embedding_bag`.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their lengths.
    max_norm, norm_type : float, optional
        Selected rows that are longer than `max_norm`, by the norm of order `norm_type`, are shortened first.
    scale_grad_by_freq : bool
        Whether a row's gradient is divided by how often it is selected.
    mode : str
        ``'mean'``, ``'sum'`` or ``'max'``.
    include_last_offset : bool
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A row that starts as zeros, receives no gradient and does not count.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight : Tensor, (num_embeddings, embedding_dim)
        Starts with normally distributed numbers.

    Raises
    ------
    ShapeError, ValueError
        When a length is less than 1, or `padding_idx` is no row.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> indices = mg.asarray([[0, 4, 4]])
    >>> y = mg.nn.EmbeddingBag(5, 3)(indices)
    >>> y.shape
    (1, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", *, include_last_offset: bool = False,
        padding_idx: int | None = None, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        self.weight = _table("EmbeddingBag", num_embeddings, embedding_dim, padding_idx, made)
        shortened = {"max_norm": max_norm, "norm_type": norm_type}
        bags = {"mode": mode, "include_last_offset": include_last_offset, "padding_idx": padding_idx}
        self.options = {**shortened, "scale_grad_by_freq": scale_grad_by_freq, **bags}

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Look up rows of the table, and put those of each bag together.

        Parameters
        ----------
        indices : Tensor, (bags, length), or (total,) with `offsets`
            Integers from 0 to below `num_embeddings`.
        offsets : Tensor, (bags,), optional
            Where each bag begins among the indices.
        per_sample_weights : Tensor of the shape of `indices`, optional
            Factors of the rows, for bags that are summed.

        Returns
        -------
        Tensor, (bags, embedding_dim)

        Raises
        ------
        ShapeError, DTypeError, IndexError, ValueError
            When the arguments do not fit each other or the table.
        """
        given: dict[str, Any] = {"per_sample_weights": per_sample_weights, **self.options}
        return functional.embedding_bag(indices, self.weight, offsets, **given)

    def facts(self) -> str:
        """The shape of the table, and how rows are put together."""
        return f"{', '.join(map(str, self.weight.shape))}, mode={self.options['mode']!r}"


def _table(name: str, rows: int, length: int, padding: int | None, made: Making) -> Tensor:
    """Normal numbers, and zeros in the row of the padding."""
    check_counts(name, num_embeddings=rows, embedding_dim=length)
    check_padding(name, padding, rows)
    weight = parameter((rows, length), "normal", **made)
    if padding is not None:
        with no_grad():
            weight[padding] = 0.0
    return weight


class Dropout(Module):
    """Zeros elements at random while training, and divides the others by ``1 - p``; does nothing after `eval`.

    Parameters
    ----------
    p : float
        Probability of a zero.
    inplace : bool
        Whether the input is written to, and returned.
    generator : Generator, optional
        Where masks come from; by default the default generator, which `micrograd_core.random.manual_seed` restarts.

    Raises
    ------
    ValueError
        When `p` is not at least 0 and less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> layer = mg.nn.Dropout(0.5).eval()
    >>> layer(mg.ones(3))
    Tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, *, generator: random.Generator | None = None) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p, the probability of a zero, is at least 0 and less than 1; got {p}")
        if generator is not None:
            random.chosen_generator(generator)  # refuses a seed, which would draw the same mask at each call
        self.p, self.inplace, self.generator = p, inplace, generator

    def forward(self, x: Tensor) -> Tensor:
        """Set elements to 0 at random while training; leave them as they are after `eval`.

        Parameters
        ----------
        x : Tensor
            Of any shape.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        DTypeError
            When `x` is not floating-point.
        """
        if self.inplace and self.training and self.p:
            x[...] = FUNCTIONS["dropout"](x, self.p, generator=self.generator)
            return x
        return FUNCTIONS["dropout"](x, self.p, generator=self.generator) if self.training and self.p else x

    def facts(self) -> str:
        """The probability of a zero."""
        return f"p={self.p}"


# ── padding ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Pad(OverAxes):
    """More elements around the last axes, as `functional.pad` puts them there.

    Parameters
    ----------
    padding : int, or sequence of int
        How many on each side, or before and after the last axis, then before and after the one before it.
    """

    mode: ClassVar[str] = "constant"

    def __init_subclass__(cls, mode: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.mode = mode or cls.mode

    def __init__(self, padding: int | Sequence[int]) -> None:
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.rank:
            raise ShapeError(f"{type(self).__name__}: padding is an integer, or {2 * self.rank} of them; got {padding}")
        self.value: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Put elements around the spatial axes.

        Parameters
        ----------
        x : Tensor, (batch, channels, *spatial)
            Or without the batch.

        Returns
        -------
        Tensor
            With longer spatial axes.

        Raises
        ------
        ShapeError
            When the padding does not fit the shape.
        """
        return functional.pad(x, self.padding, self.mode, self.value)

    def facts(self) -> str:
        """The padding, and what is put there."""
        return f"{self.padding}" if self.value is None else f"{self.padding}, value={self.value}"


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad2d(_ConstantPad):
    """A constant around the spatial axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.
    value : float
        The constant.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ConstantPad2d(1, 0.5)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ZeroPad2d(_Pad):
    """Zeros around the spatial axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ZeroPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ReflectionPad2d(_Pad, mode="reflect"):
    """The input mirrored at its edge around the spatial axes; the edge is not repeated.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ReflectionPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ReplicationPad2d(_Pad, mode="replicate"):
    """The edge repeated around the spatial axes of (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.ReplicationPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class CircularPad2d(_Pad, mode="circular"):
    """The input continued from its other end around the spatial axes.

    The input is (batch, channels, *spatial), or without the batch.

    Parameters
    ----------
    padding : int, or two for each spatial axis
        How many elements on each side; or before and after the last axis, then the axis before it, and so on.

    Raises
    ------
    ShapeError
        When `padding` has another length.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((1, 2, 3, 3))
    >>> y = mg.nn.CircularPad2d(1)(x)
    >>> y.shape
    (1, 2, 5, 5)
    """


class ConstantPad1d(_ConstantPad, rank=1): ...


class ConstantPad3d(_ConstantPad, rank=3): ...


class ZeroPad1d(_Pad, rank=1): ...


class ZeroPad3d(_Pad, rank=3): ...


class ReflectionPad1d(_Pad, rank=1, mode="reflect"): ...


class ReflectionPad3d(_Pad, rank=3, mode="reflect"): ...


class ReplicationPad1d(_Pad, rank=1, mode="replicate"): ...


class ReplicationPad3d(_Pad, rank=3, mode="replicate"): ...


class CircularPad1d(_Pad, rank=1, mode="circular"): ...


class CircularPad3d(_Pad, rank=3, mode="circular"): ...


# ── normalisation ─────────────────────────────────────────────────────────────────────────────────────────────────


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
