"""What operations of `micrograd_core.ops.network.shuffling` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _shuffled(np: Any, x: Any, upscale_factor: int) -> Any:
    r, (channels, height, width) = upscale_factor, x.shape[-3:]
    out = np.zeros((*x.shape[:-3], channels // r**2, height * r, width * r), x.dtype)
    for i, j in np.ndindex(r, r):
        out[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return out


def _unshuffled(np: Any, x: Any, downscale_factor: int) -> Any:
    r, (channels, height, width) = downscale_factor, x.shape[-3:]
    out = np.zeros((*x.shape[:-3], channels * r**2, height // r, width // r), x.dtype)
    for i, j in np.ndindex(r, r):
        out[..., i * r + j :: r * r, :, :] = x[..., i::r, j::r]
    return out


def _mixed(np: Any, x: Any, groups: int) -> Any:
    each = x.shape[1] // groups
    return x[:, [group * each + i for i in range(each) for group in range(groups)]]


DEFINITIONS = {"pixel_shuffle": _shuffled, "pixel_unshuffle": _unshuffled, "channel_shuffle": _mixed}
