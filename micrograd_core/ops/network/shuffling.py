"""Channels and pixels that change places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.ops.record import ANY, Handle, Op, Sample, Table
from micrograd_core.ops.tangents import linear


def _shuffle_parameters(x: Any, /, upscale_factor: int) -> dict[str, Any]:
    """(…, channels * r**2, height, width) to (…, channels, height * r, width * r) (Shi et al. 2016)."""
    shape, r = tuple(x.shape), upscale_factor
    if len(shape) < 3 or r < 1 or shape[-3] % r**2:
        raise ShapeError(f"pixel_shuffle: the channels (axis -3) of shape {shape} are no multiple of {r} ** 2")
    return {"factor": int(r)}


def _unshuffle_parameters(x: Any, /, downscale_factor: int) -> dict[str, Any]:
    """The inverse of `pixel_shuffle`."""
    shape, r = tuple(x.shape), downscale_factor
    if len(shape) < 3 or r < 1 or shape[-2] % r or shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: height and width of shape {shape} are no multiples of {r}")
    return {"factor": int(r)}


def _moved(k: Table, x: Handle, apart: Sequence[int], axes: Sequence[int], shape: Sequence[int]) -> Handle:
    """Axes taken apart, put in another order, and together."""
    moved = k.permute_dims(k.reshape(x, shape=tuple(apart)), axes=tuple(axes))
    return k.reshape(k.copy(moved), shape=tuple(shape))


def _pixel_shuffle(k: Table, x: Handle, *, factor: int) -> Handle:
    *lead, channels, height, width = x.shape
    n, r, fewer = len(lead), factor, channels // factor**2
    axes = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return _moved(k, x, (*lead, fewer, r, r, height, width), axes, (*lead, fewer, height * r, width * r))


def _pixel_unshuffle(k: Table, x: Handle, *, factor: int) -> Handle:
    *lead, channels, height, width = x.shape
    n, r, h, w = len(lead), factor, height // factor, width // factor
    axes = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return _moved(k, x, (*lead, channels, h, r, w, r), axes, (*lead, channels * r**2, h, w))


def _groups_parameters(x: Any, /, groups: int) -> dict[str, Any]:
    """Channels (axis 1) of the groups taken in turn (Zhang et al. 2018)."""
    shape = tuple(x.shape)
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups do not divide the channels (axis 1) of shape {shape}")
    return {"groups": int(groups)}


def _channel_shuffle(k: Table, x: Handle, *, groups: int) -> Handle:
    batch, channels, *rest = x.shape
    axes = (0, 2, 1, *range(3, len(x.shape) + 1))
    return _moved(k, x, (batch, groups, channels // groups, *rest), axes, x.shape)


_ELSEWHERE = partial(Op, accepts=ANY, tangent=linear)

OPS = (
    _ELSEWHERE(
        "pixel_shuffle",
        parameters=_shuffle_parameters,
        gradient=(lambda k, g, out, x, *, factor: k.pixel_unshuffle(g, factor=factor),),
        compose=_pixel_shuffle,
        samples=(Sample((4, 1, 2), upscale_factor=2),),
    ),
    _ELSEWHERE(
        "pixel_unshuffle",
        parameters=_unshuffle_parameters,
        gradient=(lambda k, g, out, x, *, factor: k.pixel_shuffle(g, factor=factor),),
        compose=_pixel_unshuffle,
        samples=(Sample((1, 2, 4), downscale_factor=2),),
    ),
    _ELSEWHERE(
        "channel_shuffle",
        parameters=_groups_parameters,
        gradient=(lambda k, g, out, x, *, groups: k.channel_shuffle(g, groups=x.shape[1] // groups),),
        compose=_channel_shuffle,
        samples=(Sample((1, 6, 2), groups=2),),
    ),
)
