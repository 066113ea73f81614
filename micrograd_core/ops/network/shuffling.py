"""Channels and pixels that change places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.errors import ShapeError
from micrograd_core.ops.record import ANY, Array, Op, Sample
from micrograd_core.ops.tangents import linear

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


def _shuffle_parameters(x: Any, /, upscale_factor: int) -> dict[str, Any]:
    shape, r = tuple(x.shape), upscale_factor
    if len(shape) < 3 or r < 1 or shape[-3] % r**2:
        raise ShapeError(f"pixel_shuffle: the channels (axis -3) of shape {shape} are no multiple of {r} ** 2")
    return {"factor": int(r)}


def _unshuffle_parameters(x: Any, /, downscale_factor: int) -> dict[str, Any]:
    shape, r = tuple(x.shape), downscale_factor
    if len(shape) < 3 or r < 1 or shape[-2] % r or shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: height and width of shape {shape} are no multiples of {r}")
    return {"factor": int(r)}


def _pixel_shuffle(k: Table, x: Any, *, factor: int) -> Any:
    *lead, channels, height, width = x.shape
    n, r = len(lead), factor
    apart = k.reshape(x, shape=(*lead, channels // r**2, r, r, height, width))
    moved = k.permute_dims(apart, axes=(*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return k.reshape(k.copy(moved), shape=(*lead, channels // r**2, height * r, width * r))


def _pixel_unshuffle(k: Table, x: Any, *, factor: int) -> Any:
    *lead, channels, height, width = x.shape
    n, r = len(lead), factor
    apart = k.reshape(x, shape=(*lead, channels, height // r, r, width // r, r))
    moved = k.permute_dims(apart, axes=(*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return k.reshape(k.copy(moved), shape=(*lead, channels * r**2, height // r, width // r))


def _groups_parameters(x: Any, /, groups: int) -> dict[str, Any]:
    shape = tuple(x.shape)
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups do not divide the channels (axis 1) of shape {shape}")
    return {"groups": int(groups)}


def _channel_shuffle(k: Table, x: Any, *, groups: int) -> Any:
    batch, channels, *rest = x.shape
    apart = k.reshape(x, shape=(batch, groups, channels // groups, *rest))
    moved = k.permute_dims(apart, axes=(0, 2, 1, *range(3, len(x.shape) + 1)))
    return k.reshape(k.copy(moved), shape=x.shape)


def _shuffled(np: Any, x: Any, upscale_factor: int) -> Any:
    r, (channels, height, width) = upscale_factor, x.shape[-3:]
    out = np.zeros((*x.shape[:-3], channels // r**2, height * r, width * r), x.dtype)
    for i in range(r):
        for j in range(r):
            out[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return out


def _unshuffled(np: Any, x: Any, downscale_factor: int) -> Any:
    r, (channels, height, width) = downscale_factor, x.shape[-3:]
    out = np.zeros((*x.shape[:-3], channels * r**2, height // r, width // r), x.dtype)
    for i in range(r):
        for j in range(r):
            out[..., i * r + j :: r * r, :, :] = x[..., i::r, j::r]
    return out


def _mixed(np: Any, x: Any, groups: int) -> Any:
    each = x.shape[1] // groups
    return x[:, [group * each + i for i in range(each) for group in range(groups)]]


OPS = (
    Op(
        "pixel_shuffle",
        "(…, channels * r**2, height, width) to (…, channels, height * r, width * r) (Shi et al. 2016).",
        parameters=_shuffle_parameters,
        accepts=ANY,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, factor: k.pixel_unshuffle(g, factor=factor),),
        compose=_pixel_shuffle,
        samples=(Sample(Array((4, 1, 2)), upscale_factor=2),),
        reference=_shuffled,
    ),
    Op(
        "pixel_unshuffle",
        "The inverse of `pixel_shuffle`.",
        parameters=_unshuffle_parameters,
        accepts=ANY,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, factor: k.pixel_shuffle(g, factor=factor),),
        compose=_pixel_unshuffle,
        samples=(Sample(Array((1, 2, 4)), downscale_factor=2),),
        reference=_unshuffled,
    ),
    Op(
        "channel_shuffle",
        "Channels (axis 1) of the groups taken in turn (Zhang et al. 2018).",
        parameters=_groups_parameters,
        accepts=ANY,
        tangent=linear,
        gradient=(lambda k, g, out, x, *, groups: k.channel_shuffle(g, groups=x.shape[1] // groups),),
        compose=_channel_shuffle,
        samples=(Sample(Array((1, 6, 2)), groups=2),),
        reference=_mixed,
    ),
)
