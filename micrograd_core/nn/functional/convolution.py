"""Products with weights, poolings, images at other sizes and places: all that goes over one to three spatial axes.

Linear and bilinear layers, convolutions and their transposes; poolings are maxima, with their places and back from
these, means, p-norms, adaptive ones. Elements tied for a maximum share its gradient evenly; where places are asked for,
the first of them has it. An input may come without a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.nn.functional.common import T, of_operations, over_axes, publish, with_batch
from micrograd_core.ops.network.patches import per_axis
from micrograd_core.ops.network.windows import Windows
from micrograd_core.random import uniform


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor
        (..., features).
    weight : Tensor
        (outputs, features), or (features,).
    bias : Tensor, optional
        (outputs,).

    Returns
    -------
    Tensor
        (..., outputs), or (...,) for a weight (features,).

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, weight = mg.ones((2, 4)), mg.ones((3, 4))
    >>> y = F.linear(x, weight)
    >>> y.shape
    (2, 3)
    """
    x, w = asarray(input), asarray(weight)
    if w.ndim == 1:  # one feature comes out, and no axis for it
        return x @ w if bias is None else x @ w + bias
    return T["linear"](x, w, 0.0 if bias is None else bias)


def _family(rank: int) -> dict[str, Callable[..., Tensor]]:
    """The convolution over `rank` axes, and its transpose."""
    name, opposite = f"conv{rank}d", f"conv_transpose{rank}d"

    def conv(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """Cross-correlation of an input with a weight.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        weight : Tensor
            (outputs, inputs / groups, *kernel).
        bias : Tensor, optional
            (outputs,).
        stride, dilation : int, or one for each axis
            How far apart the positions of the kernel, and its elements, are.
        padding : int, or one for each axis, or str
            Zeros on both sides, ``'valid'`` for none, or ``'same'`` for a result as long as the input.
        groups : int
            How many groups of channels are convolved apart; divides inputs and outputs.

        Returns
        -------
        Tensor
            (batch, outputs, *positions), or without the batch.

        Raises
        ------
        ShapeError
            When shapes do not fit.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> weight = mg.ones((1, 1, 3, 3))
        >>> y = F.conv2d(x, weight, padding=1)
        >>> y.shape
        (1, 1, 8, 8)
        """
        return T[name](input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)

    def conv_transpose(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        """The transpose of a convolution: from its result back to its input.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        weight : Tensor
            (inputs, outputs / groups, *kernel).
        bias : Tensor, optional
            (outputs,).
        stride, padding, dilation, groups
            Those of the convolution.
        output_padding : int, or one for each axis
            The number added to the least length that the convolution could have come from; less than the stride or the
            dilation.

        Returns
        -------
        Tensor
            (batch, outputs, *lengths), or without the batch.

        Raises
        ------
        ShapeError
            When shapes do not fit.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> weight = mg.ones((1, 1, 2, 2))
        >>> y = F.conv_transpose2d(x, weight, stride=2)
        >>> y.shape
        (1, 1, 16, 16)
        """
        given = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        return T[opposite](input, asarray(weight), bias, groups=groups, **given)

    return {name: over_axes(conv, name, rank), opposite: over_axes(conv_transpose, opposite, rank)}


MADE = {name: function for rank in (1, 2, 3) for name, function in _family(rank).items()}


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of (length, batch, channels) with a weight (kernel, inputs, outputs).

    Parameters
    ----------
    input : Tensor
        (length, batch, channels).
    weight : Tensor
        (kernel, inputs, outputs).
    bias : Tensor
        (outputs,).
    pad : int
        Zeros on both sides.

    Returns
    -------
    Tensor
        (positions, batch, outputs).

    Raises
    ------
    ShapeError
        When shapes do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x, weight, bias = mg.ones((9, 2, 4)), mg.ones((3, 4, 5)), mg.zeros(5)
    >>> y = F.conv_tbc(x, weight, bias)
    >>> y.shape
    (7, 2, 5)
    """
    x, w = asarray(input).permute_dims(1, 2, 0), asarray(weight).permute_dims(2, 1, 0)
    return MADE["conv1d"](x, w, bias, padding=pad).permute_dims(2, 0, 1)


of_operations(globals(), "input1 input2 weight", "bilinear")


# ── other sizes and places ────────────────────────────────────────────────────────────────────────────────────────


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Tensor:
    """`interpolate`, by its old name.

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial).
    size : number, or one for each axis, optional
        Lengths of the spatial axes; give this or `scale_factor`.
    scale_factor : number, or one for each axis, optional
        How many times as large; give this or `size`.
    mode : str
        As in `interpolate`.
    align_corners : bool, optional
        As in `interpolate`.

    Returns
    -------
    Tensor
        (batch, channels, *sizes).

    Raises
    ------
    ShapeError, ValueError
        As in `interpolate`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.upsample(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return T["interpolate"](input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest element.

    Parameters
    ----------
    input : Tensor
        (batch, channels, *spatial).
    size : number, or one for each axis, optional
        Lengths of the spatial axes; give this or `scale_factor`.
    scale_factor : number, or one for each axis, optional
        How many times as large; give this or `size`.

    Returns
    -------
    Tensor
        (batch, channels, *sizes).

    Raises
    ------
    ShapeError, ValueError
        As in `interpolate`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.upsample_nearest(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return T["interpolate"](input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by straight lines, with the corners aligned.

    Parameters
    ----------
    input : Tensor
        (batch, channels, height, width).
    size : number, or one for each axis, optional
        Height and width; give this or `scale_factor`.
    scale_factor : number, or one for each axis, optional
        How many times as large; give this or `size`.

    Returns
    -------
    Tensor
        (batch, channels, *sizes).

    Raises
    ------
    ShapeError, ValueError
        As in `interpolate`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> F = mg.nn.functional
    >>> x = mg.ones((1, 1, 4, 4))
    >>> y = F.upsample_bilinear(x, scale_factor=2)
    >>> y.shape
    (1, 1, 8, 8)
    """
    return T["interpolate"](input, size, scale_factor, "bilinear", True)


of_operations(globals(), "input", "interpolate")
of_operations(globals(), "theta", "affine_grid")
of_operations(globals(), "input grid", "grid_sample")
publish(globals())


# ── poolings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _poolings(rank: int) -> dict[str, Callable[..., Any]]:
    """The poolings over `rank` axes."""

    def max_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        """The maximum of each window; with `return_indices` and where each is.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        kernel_size, stride, padding, dilation : int, or one for each axis
            The windows: their lengths, how far apart they are (by default their lengths), what lies around the input
            (at most half a window), and how far apart their elements are.
        ceil_mode : bool
            Whether windows may reach beyond the padding.
        return_indices : bool
            Whether the places come too, as the second of a pair.

        Returns
        -------
        Tensor, or pair of Tensor
            (batch, channels, *positions), or without the batch; the places are int64, among the flattened spatial axes.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.max_pool2d(x, 2)
        >>> y.shape
        (1, 1, 4, 4)
        """
        name, given = f"max_pool{rank}d", {"padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
        if return_indices:
            return T["max_pool_with_indices"](input, kernel_size, stride=stride, **given)
        windows = Windows.of(name, input, kernel_size, stride, **given)
        x, around = input, windows.padding
        if any(windows.beyond):
            widths = [(p, p + more) for p, more in zip(around, windows.beyond, strict=True)]
            x, around = T["pad"](x, [(0, 0), (0, 0), *widths], constant_values=-math.inf), (0,) * rank
        return T[name](x, windows.kernel, stride=windows.stride, padding=around, dilation=windows.dilation)

    def max_pool_with_indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The maximum of each window, and where each is among the flattened spatial axes.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        kernel_size, stride, padding, dilation : int, or one for each axis
            The windows: their lengths, how far apart they are (by default their lengths), what lies around the input
            (at most half a window), and how far apart their elements are.
        ceil_mode : bool
            Whether windows may reach beyond the padding.
        return_indices : bool
            Ignored: the places always come.

        Returns
        -------
        pair of Tensor
            Maxima and int64 places among the flattened spatial axes, (batch, channels, *positions), or without the
            batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y, places = F.max_pool2d_with_indices(x, 2)
        >>> places.shape
        (1, 1, 4, 4)
        """
        return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def max_unpool(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Tensor:
        """Zeros but for maxima, back where a pooling found them.

        Parameters
        ----------
        input, indices : Tensor
            (batch, channels, *positions), or without the batch: maxima, and their places.
        kernel_size, stride, padding : int, or one for each axis
            Those of the pooling.
        output_size : sequence of int, optional
            The shape of the result, of which the last lengths count; by default the least that fits.

        Returns
        -------
        Tensor
            (batch, channels, *spatial), or without the batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> maxima, places = F.max_pool2d(x, 2, return_indices=True)
        >>> y = F.max_unpool2d(maxima, places, 2)
        >>> y.shape
        (1, 1, 8, 8)
        """
        name = f"max_unpool{rank}d"
        places = with_batch(name, indices, rank)[0]
        given = {"kernel_size": kernel_size, "stride": kernel_size if stride is None else stride, "padding": padding}
        axes = (per_axis(name, what, value, rank, 0) for what, value in given.items())
        size = tuple((n - 1) * s + k - 2 * p for n, k, s, p in zip(input.shape[2:], *axes, strict=True))
        size = size if output_size is None else tuple(output_size)[-rank:]
        return T["max_unpool"](input, places, size)

    def avg_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        """The mean of each window.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        kernel_size, stride, padding : int, or one for each axis
            The windows: their lengths, how far apart they are (by default their lengths), and the zeros around the
            input.
        ceil_mode : bool
            Whether windows may reach beyond the padding.
        count_include_pad : bool
            Whether the zeros around the input count.
        divisor_override : int, optional
            The divisor of sums, in place of the number of elements.

        Returns
        -------
        Tensor
            (batch, channels, *positions), or without the batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.avg_pool2d(x, 2)
        >>> y.shape
        (1, 1, 4, 4)
        """
        name = f"avg_pool{rank}d"
        kernel, steps, around, _, _, beyond = Windows.of(name, input, kernel_size, stride, padding, 1, ceil_mode)
        if divisor_override is None and not any(beyond) and (count_include_pad or not any(around)):
            return T[name](input, kernel, stride=steps, padding=around)
        given = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "divisor_override": divisor_override}
        return T["padded_avg_pool"](input, kernel, stride=steps, padding=around, **given)

    def avg_pool_of_one(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:  # fmt: skip
        """The mean of each window.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        kernel_size, stride, padding : int, or one for each axis
            The windows: their lengths, how far apart they are (by default their lengths), and the zeros around the
            input.
        ceil_mode : bool
            Whether windows may reach beyond the padding.
        count_include_pad : bool
            Whether the zeros around the input count.

        Returns
        -------
        Tensor
            (batch, channels, *positions), or without the batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.avg_pool2d(x, 2)
        >>> y.shape
        (1, 1, 4, 4)
        """
        return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        """The root of the sum of powers of each window.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        norm_type : float
            The power.
        kernel_size, stride : int, or one for each axis
            The lengths of windows, and how far apart they are (by default their lengths).
        ceil_mode : bool
            Whether windows may reach beyond the input.

        Returns
        -------
        Tensor
            (batch, channels, *positions), or without the batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.lp_pool2d(x, 2.0, 2)
        >>> y.shape
        (1, 1, 4, 4)
        """
        return T["lp_pool"](input, norm_type, kernel_size, stride=stride, ceil_mode=ceil_mode)

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        """The means of windows that cover the input evenly.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        output_size : int or None, or one for each axis
            How many windows; ``None`` for as many as the input is long.

        Returns
        -------
        Tensor
            (batch, channels, *positions), or without the batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.adaptive_avg_pool2d(x, 4)
        >>> y.shape
        (1, 1, 4, 4)
        """
        return T["adaptive_avg_pool"](input, output_size)

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The maxima of windows that cover the input evenly.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        output_size : int or None, or one for each axis
            How many windows; ``None`` for as many as the input is long.
        return_indices : bool
            Whether the places come too, as the second of a pair.

        Returns
        -------
        Tensor, or pair of Tensor
            (batch, channels, *positions), or without the batch; the places are int64, among the flattened spatial axes.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.adaptive_max_pool2d(x, 4)
        >>> y.shape
        (1, 1, 4, 4)
        """
        found: Any = T["adaptive_max_pool_with_indices"](input, output_size)
        return found if return_indices else found[0]

    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The maxima of windows that cover the input evenly, and where each is.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        output_size : int or None, or one for each axis
            How many windows; ``None`` for as many as the input is long.
        return_indices : bool
            Ignored: the places always come.

        Returns
        -------
        pair of Tensor
            Maxima and int64 places among the flattened spatial axes, (batch, channels, *positions), or without the
            batch.

        Raises
        ------
        ShapeError
            When windows do not fit the input.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y, places = F.adaptive_max_pool2d_with_indices(x, 4)
        >>> places.shape
        (1, 1, 4, 4)
        """
        return adaptive_max_pool(input, output_size, True)

    def fractional_max_pool(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        """The maxima of windows that lie by chance (Graham 2014); with `return_indices` and where each is.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        kernel_size : int, or one for each axis
            The lengths of windows.
        output_size, output_ratio : number, or one for each axis
            How many windows, or how many for each element of the input: one of the two.
        return_indices : bool
            Whether the places come too, as the second of a pair.
        _random_samples : Tensor, optional
            (batch, channels, axes), between 0 and 1: where windows lie; by default drawn.

        Returns
        -------
        Tensor, or pair of Tensor
            (batch, channels, *positions), or without the batch; the places are int64, among the flattened spatial axes.

        Raises
        ------
        ShapeError, ValueError
            When windows do not fit the input, or not one of size and ratio is given.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y = F.fractional_max_pool2d(x, 2, output_size=4)
        >>> y.shape
        (1, 1, 4, 4)
        """
        if (output_size is None) is (output_ratio is None):
            raise ValueError(f"fractional_max_pool{rank}d: give either output_size or output_ratio")
        if output_size is None:
            ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
            output_size = tuple(int(n * ratio) for n, ratio in zip(input.shape[2:], ratios, strict=True))
        drawn: Any = _random_samples
        if drawn is None:
            drawn = uniform((*input.shape[:2], rank), dtype=input.dtype, device=input.device)
        found: Any = T["fractional_max_pool_with_indices"](input, asarray(drawn), kernel_size, output_size)
        return found if return_indices else found[0]

    def fractional_max_pool_with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The maxima of windows that lie by chance (Graham 2014), and where each is.

        Parameters
        ----------
        input : Tensor
            (batch, channels, *spatial), or without the batch.
        kernel_size : int, or one for each axis
            The lengths of windows.
        output_size, output_ratio : number, or one for each axis
            How many windows, or how many for each element of the input: one of the two.
        return_indices : bool
            Ignored: the places always come.
        _random_samples : Tensor, optional
            (batch, channels, axes), between 0 and 1: where windows lie; by default drawn.

        Returns
        -------
        pair of Tensor
            Maxima and int64 places among the flattened spatial axes, (batch, channels, *positions), or without the
            batch.

        Raises
        ------
        ShapeError, ValueError
            When windows do not fit the input, or not one of size and ratio is given.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> F = mg.nn.functional
        >>> x = mg.ones((1, 1, 8, 8))
        >>> y, places = F.fractional_max_pool2d_with_indices(x, 2, output_size=4)
        >>> places.shape
        (1, 1, 4, 4)
        """
        return fractional_max_pool(input, kernel_size, output_size, output_ratio, True, _random_samples)

    found: list[Callable[..., Any]] = [
        max_pool, max_pool_with_indices, max_unpool, avg_pool if rank > 1 else avg_pool_of_one, lp_pool,
        adaptive_avg_pool, adaptive_max_pool, adaptive_max_pool_with_indices,
    ]  # fmt: skip
    found += [fractional_max_pool, fractional_max_pool_with_indices] if rank > 1 else []
    names = [each.__name__.removesuffix("_of_one").replace("pool", f"pool{rank}d") for each in found]
    return {name: over_axes(each, name, rank) for name, each in zip(names, found, strict=True)}


MADE |= {name: function for rank in (1, 2, 3) for name, function in _poolings(rank).items()}
