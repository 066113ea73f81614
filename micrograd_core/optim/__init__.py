"""Optimisers: update rules, schedules of learning rates, clipped gradients, a scaled loss."""

from __future__ import annotations

from micrograd_core.optim.clipping import clip_grad_norm, clip_grad_value
from micrograd_core.optim.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from micrograd_core.optim.schedules import Schedule, cosine, linear_warmup, step_decay

__all__ = [
    "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "Schedule", "clip_grad_norm", "clip_grad_value", "cosine",
    "linear_warmup", "step_decay",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
