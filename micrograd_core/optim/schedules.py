"""Learning rates that change from step to step."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from micrograd_core.ground.assignments import assign_all
from micrograd_core.ground.context import programs

if TYPE_CHECKING:
    from micrograd_core.optim.optimizers import Optimizer


class Schedule:
    """Sets an optimiser's learning rate before each step: its first rate times a factor that depends on the step.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is what the factor multiplies.
    factor : function
        From the number of the step, 0 the first, to the factor: such as `cosine`, `step_decay` or `linear_warmup`.
    start : int
        Number of the step that comes first: how many were taken before, when a run is taken up again.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
    >>> schedule = mg.optim.Schedule(rule, mg.optim.step_decay(every=2, by=0.5))
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(rule.lr)
    ...     schedule.step()
    >>> rates
    [0.1, 0.1, 0.05, 0.05, 0.025]
    """

    changing: ClassVar[tuple[str, ...]] = ("count",)

    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float], start: int = 0) -> None:
        self.optimizer, self.factor, self.base, self.count = optimizer, factor, optimizer.lr, start
        optimizer.lr = self.base * factor(start)

    def step(self) -> None:
        """Go on to the next step's rate; call it after the optimiser's own ``step``."""
        trace = programs.get()
        if trace is not None:  # done at each call of the traced function
            trace.act(self.step, self.optimizer, self)
            return
        count = self.count + 1
        assign_all([(self.optimizer, "lr", self.base * self.factor(count)), (self, "count", count)])


# Factors are partial functions of the module's own, so that a schedule can be copied and pickled.


def step_decay(every: int, by: float = 0.1) -> Callable[[int], float]:
    """The factor becomes `by` times as large after `every` steps, again and again."""
    _check_steps("step_decay", every)
    return partial(_step_decay, every, by)


def linear_warmup(steps: int, then: Callable[[int], float] | None = None) -> Callable[[int], float]:
    """Rising evenly to 1 within `steps` steps (Goyal et al. 2017); after that what `then` says, counted from there.

    Without `then` it stays 1.
    """
    return partial(_linear_warmup, steps, then)


def cosine(steps: int, floor: float = 0.0) -> Callable[[int], float]:
    """Half a cosine from 1 down to `floor` within `steps` steps, where it stays (Loshchilov & Hutter 2017)."""
    _check_steps("cosine", steps)
    return partial(_cosine, steps, floor)


def _step_decay(every: int, by: float, step: int) -> float:
    return by ** (step // every)


def _linear_warmup(steps: int, then: Callable[[int], float] | None, step: int) -> float:
    if step < steps:
        return (step + 1) / steps
    return 1.0 if then is None else then(step - steps)


def _cosine(steps: int, floor: float, step: int) -> float:
    return floor + (1 - floor) * (1 + math.cos(math.pi * min(step / steps, 1))) / 2


def _check_steps(schedule: str, steps: int) -> None:
    if not steps >= 1:
        raise ValueError(f"{schedule}: the number of steps must be at least 1; got {steps}")
