"""Optimisers: update rules, schedules of learning rates, averages, clipped gradients, a scaled loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core.elsewhere import missing
from micrograd_core.ground.warning import withhold
from micrograd_core.optim.adaptive import Adadelta, Adagrad, Adamax, Lion, NAdam, RAdam, Rprop
from micrograd_core.optim.averages import EMA
from micrograd_core.optim.base import Optimizer
from micrograd_core.optim.clipping import clip_grad_norm, clip_grad_value
from micrograd_core.optim.factors import (
    chained,
    constant,
    cosine,
    cosine_restarts,
    exponential,
    linear,
    linear_warmup,
    multistep,
    polynomial,
    sequential,
    step_decay,
)
from micrograd_core.optim.lbfgs import LBFGS
from micrograd_core.optim.optimizers import SGD, Adam, AdamW, RMSprop
from micrograd_core.optim.schedules import ChainedScheduler, OneCycle, ReduceLROnPlateau, Schedule, SequentialLR

withhold(__name__)

__all__ = [
    "EMA", "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ChainedScheduler", "Lion", "NAdam",
    "OneCycle", "Optimizer", "RAdam", "RMSprop", "ReduceLROnPlateau", "Rprop", "Schedule", "SequentialLR", "chained",
    "clip_grad_norm", "clip_grad_value", "constant", "cosine", "cosine_restarts", "exponential", "linear",
    "linear_warmup", "multistep", "polynomial", "sequential", "step_decay",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing(__name__, name)
