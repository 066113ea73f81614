"""Optimisers: update rules, schedules of learning rates, averages, clipped gradients, a scaled loss."""

from __future__ import annotations

from micrograd_core.optim import factors, lr_scheduler
from micrograd_core.optim.adaptive import Adadelta, Adagrad, Adamax, Lion, NAdam, RAdam, Rprop
from micrograd_core.optim.averages import EMA
from micrograd_core.optim.base import Optimizer
from micrograd_core.optim.clipping import clip_grad_norm, clip_grad_value
from micrograd_core.optim.factors import *  # noqa: F403
from micrograd_core.optim.lbfgs import LBFGS
from micrograd_core.optim.optimizers import SGD, Adam, AdamW, RMSprop
from micrograd_core.optim.schedules import ChainedScheduler, OneCycle, ReduceLROnPlateau, Schedule, SequentialLR
from micrograd_core.suggestions import door

__all__ = [
    "EMA", "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ChainedScheduler", "Lion", "NAdam",
    "OneCycle", "Optimizer", "RAdam", "RMSprop", "ReduceLROnPlateau", "Rprop", "Schedule", "SequentialLR",
    "clip_grad_norm", "clip_grad_value", "lr_scheduler",
]  # fmt: skip
__all__ += factors.__all__

door(globals())
