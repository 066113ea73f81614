"""Schedules of learning rates by PyTorch's names and arguments, made of the factors of this package."""

# ruff: noqa: N802, N803 (the names are PyTorch's)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.optim import factors
from micrograd_core.optim.base import Optimizer
from micrograd_core.optim.schedules import ChainedScheduler, OneCycle, ReduceLROnPlateau, Schedule, SequentialLR
from micrograd_core.suggestions import door

LRScheduler = _LRScheduler = Schedule


def LambdaLR(
    optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1
) -> Schedule:
    """The first rate times ``lr_lambda(step)``; of several functions, one for each group.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    lr_lambda : function
        From the number of the step to a factor.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import LambdaLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = LambdaLR(rule, lambda step: 1 / (step + 1))
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, lr_lambda, last_epoch + 1)


def MultiplicativeLR(optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> Schedule:
    """The rate before times ``lr_lambda(step)``, from step 1 on.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    lr_lambda : function
        From the number of the step to a factor.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import MultiplicativeLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = MultiplicativeLR(rule, lambda step: 0.5)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, lambda step: math.prod(map(lr_lambda, range(1, step + 1))), last_epoch + 1)


def StepLR(optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> Schedule:
    """Times `gamma` every `step_size` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    step_size : int
    gamma : float
        The factor.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import StepLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = StepLR(rule, 1, 0.5)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, factors.step_decay(step_size, gamma), last_epoch + 1)


def MultiStepLR(optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1) -> Schedule:
    """Times `gamma` at each milestone.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    milestones : sequence of int
    gamma : float
        The factor.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import MultiStepLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = MultiStepLR(rule, [1], 0.5)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, factors.multistep(milestones, gamma), last_epoch + 1)


def ConstantLR(optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> Schedule:
    """Times `factor` for `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    factor : float
    total_iters : int
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import ConstantLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = ConstantLR(rule, 0.5, 4)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, factors.constant(total_iters, factor), last_epoch + 1)


def LinearLR(
    optimizer: Optimizer,
    start_factor: float = 1 / 3,
    end_factor: float = 1.0,
    total_iters: int = 5,
    last_epoch: int = -1,
) -> Schedule:
    """Times a factor that goes from `start_factor` to `end_factor` in `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    start_factor : float
    end_factor : float
    total_iters : int
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import LinearLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = LinearLR(rule, 0.5, 1.0, 2)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.75]
    """
    return Schedule(optimizer, factors.linear(total_iters, start_factor, end_factor), last_epoch + 1)


def ExponentialLR(optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> Schedule:
    """Times `gamma` at each step.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    gamma : float
        The factor.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import ExponentialLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = ExponentialLR(rule, 0.5)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, factors.exponential(gamma), last_epoch + 1)


def PolynomialLR(optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> Schedule:
    """Times ``(1 - step / total_iters) ** power``.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    total_iters : int
    power : float
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import PolynomialLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = PolynomialLR(rule, 2)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return Schedule(optimizer, factors.polynomial(total_iters, power), last_epoch + 1)


def _between(optimizer: Optimizer, last_epoch: int, low: float, share: Callable[[int], float]) -> Schedule:
    """From the first rate, of each group its own, to `low`: `share` says how much of the way is left."""
    firsts = [getattr(rule, "initial_lr", rule.lr) if last_epoch >= 0 else rule.lr for rule in optimizer.parts]

    def factor(first: float) -> Callable[[int], float]:
        least = low / first if first else 0.0
        return lambda step: least + (1 - least) * share(step)

    made = list(map(factor, firsts))
    return Schedule(optimizer, made if len(made) > 1 else made[0], last_epoch + 1)


def CosineAnnealingLR(optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> Schedule:
    """From the first rate to `eta_min` along a cosine in `T_max` steps, and back in as many (Loshchilov 2016).

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    T_max : int
        Steps from the highest to the lowest rate.
    eta_min : float
        The lowest rate.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import CosineAnnealingLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = CosineAnnealingLR(rule, 2)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return _between(optimizer, last_epoch, eta_min, lambda step: (1 + math.cos(math.pi * step / T_max)) / 2)


def CosineAnnealingWarmRestarts(
    optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
) -> Schedule:
    """A cosine that starts anew after `T_0` steps, then after `T_mult` times as many, and so on (Loshchilov 2016).

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    T_0 : int
        Steps of the first cosine.
    T_mult : int
        How many times longer each is than the one before.
    eta_min : float
        The lowest rate.
    last_epoch : int
        The number of the last step, if a run goes on; -1 starts anew.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import CosineAnnealingWarmRestarts
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = CosineAnnealingWarmRestarts(rule, 2)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.5]
    """
    return _between(optimizer, last_epoch, eta_min, factors.cosine_restarts(T_0, T_mult))


def OneCycleLR(
    optimizer: Optimizer,
    max_lr: float | Sequence[float],
    total_steps: int | None = None,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    **settings: Any,
) -> OneCycle:
    """`micrograd_core.optim.OneCycle` over `total_steps`, or over `epochs` times `steps_per_epoch`.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is where the schedule starts.
    max_lr : float, or a sequence of them
        The highest rate, or that of each group.
    total_steps : int, optional
    epochs, steps_per_epoch : int, optional
        Their product is `total_steps`.
    **settings
        Those of `OneCycle`, and `last_epoch`.

    Returns
    -------
    OneCycle

    Raises
    ------
    ValueError
        Without a number of steps.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core.optim.lr_scheduler import OneCycleLR
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = OneCycleLR(rule, 1.0, 10)
    >>> schedule.step()
    >>> [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.52]
    """
    if total_steps is None:
        if not epochs or not steps_per_epoch:
            raise ValueError("OneCycleLR: give total_steps, or both epochs and steps_per_epoch")
        total_steps = epochs * steps_per_epoch
    start = settings.pop("last_epoch", -1) + 1
    return OneCycle(optimizer, max_lr, total_steps, start=start, **settings)


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

door(globals())
