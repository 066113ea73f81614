"""Batch normalisation by the statistics of all ranks together."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, ClassVar

from micrograd_core import Tensor, asarray, nn, no_grad, sqrt
from micrograd_core.support.context import computing_again
from micrograd_mpi.collectives import all_reduce
from micrograd_mpi.job import World, world

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class SyncBatchNorm(nn.Module):
    """What `synchronized` makes of batch normalisations: in training they go by the examples of all ranks.

    Attributes
    ----------
    group : World
        The ranks.
    """

    group: ClassVar[World]
    eps: float
    momentum: float | None
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel.

        Parameters
        ----------
        x : Tensor, (batch, channels, *spatial)
            This rank's examples, of which there may be another number on each rank.

        Returns
        -------
        Tensor
            Of the shape of `x`.

        Raises
        ------
        WorldError
            When a rank does not come.
        """
        if not self.training and self.running_mean is not None:
            return super().forward(x)  # type: ignore[no-any-return]
        axes = (0, *range(2, x.ndim))
        across = (1, -1, *(1,) * (x.ndim - 2))
        wide = x.astype("float32") if x.dtype.bits < 32 else x
        count = all_reduce(
            asarray(float(math.prod(x.shape[i] for i in axes)), dtype=wide.dtype, device=x.device), group=self.group
        )
        mean = all_reduce(wide.sum(axis=axes), group=self.group) / count
        centred = wide - mean.reshape(across)
        var = all_reduce((centred * centred).sum(axis=axes), group=self.group) / count
        self._follow_all(mean.detach(), var.detach(), count)
        return self._scaled(centred / sqrt(var + self.eps).reshape(across), across).astype(x.dtype)

    def _scaled(self, x: Tensor, across: tuple[int, ...]) -> Tensor:
        x = x if self.weight is None else x * self.weight.reshape(across)
        return x if self.bias is None else x + self.bias.reshape(across)

    @no_grad()
    def _follow_all(self, mean: Tensor, var: Tensor, count: Tensor) -> None:
        """Move the running averages towards the statistics of all ranks, of which the variance is the unbiased one."""
        if self.running_mean is None or computing_again.get():
            return
        self.num_batches_tracked = self.num_batches_tracked + 1
        rate: Any = self.momentum
        if rate is None:
            rate = (1 / self.num_batches_tracked.astype("float32")).astype(self.running_mean.dtype)
        for name, new in (("running_mean", mean), ("running_var", var * (count / (count - 1)))):
            old = getattr(self, name)
            setattr(self, name, old * (1 - rate) + new.astype(old.dtype) * rate)

    def facts(self) -> str:
        """The ranks, after what the layer says itself."""
        return f"{super().facts()}, {self.group!r}"


@cache
def _kind(kind: Any, group: World) -> Any:
    """A class of batch normalisations that go by all ranks of a group."""
    return type(f"Sync{kind.__name__}", (SyncBatchNorm, kind), {"group": group})


def synchronized(model: nn.Module, group: World | None = None) -> nn.Module:
    """Let every batch normalisation of a model go by the examples of all ranks; names in ``state_dict()`` stay.

    Parameters
    ----------
    model : Module
        Whose layers of the classes BatchNorm1d, BatchNorm2d and BatchNorm3d become such of all ranks.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Module
        `model`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> synchronized(mg.nn.Sequential(mg.nn.Linear(2, 3), mg.nn.BatchNorm1d(3)))[1]
    SyncBatchNorm1d(3, eps=1e-05, momentum=0.1, <world: rank 0 of 1>)
    """
    group = world() if group is None else group
    for _, module in model.named_modules():
        kind: Any = type(module)
        if kind in KINDS:
            module.__class__ = _kind(kind, group)
    return model
