"""What a learning rate is multiplied with at each step: functions of the number of the step, for `optim.Schedule`.

They are partial functions of the module's own, so that a schedule can be copied and pickled.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial

Factor = Callable[[int], float]


def step_decay(every: int, by: float = 0.1) -> Callable[[int], float]:
    """The factor becomes `by` times as large after `every` steps, again and again."""
    check_steps("step_decay", every)
    return partial(_step_decay, every, by)


def linear_warmup(steps: int, then: Callable[[int], float] | None = None) -> Callable[[int], float]:
    """Rising evenly to 1 within `steps` steps (Goyal et al. 2017); after that what `then` says, counted from there.

    Without `then` it stays 1.
    """
    return partial(_linear_warmup, steps, then)


def cosine(steps: int, floor: float = 0.0) -> Callable[[int], float]:
    """Half a cosine from 1 down to `floor` within `steps` steps, where it stays (Loshchilov & Hutter 2017)."""
    check_steps("cosine", steps)
    return partial(_cosine, steps, floor)


def exponential(by: float) -> Callable[[int], float]:
    """The factor becomes `by` times as large at each step."""
    return partial(_exponential, by)


def multistep(milestones: Sequence[int], by: float = 0.1) -> Callable[[int], float]:
    """The factor becomes `by` times as large at each of the milestones."""
    return partial(_multistep, tuple(sorted(milestones)), by)


def polynomial(steps: int, power: float = 1.0) -> Callable[[int], float]:
    """From 1 to 0 within `steps` steps, as a power of what is left of them."""
    check_steps("polynomial", steps)
    return partial(_polynomial, steps, power)


def linear(steps: int, first: float = 1 / 3, last: float = 1.0) -> Callable[[int], float]:
    """From `first` evenly to `last` within `steps` steps, where it stays."""
    check_steps("linear", steps)
    return partial(_linear, steps, first, last)


def constant(steps: int, factor: float = 1 / 3) -> Callable[[int], float]:
    """`factor` for `steps` steps, then 1."""
    return partial(_constant, steps, factor)


def cosine_restarts(period: int, longer: int = 1, floor: float = 0.0) -> Callable[[int], float]:
    """`cosine` again and again, each time `longer` times as long (Loshchilov & Hutter 2017)."""
    check_steps("cosine_restarts", period)
    check_steps("cosine_restarts", longer)
    return partial(_cosine_restarts, period, longer, floor)


def sequential(factors: Sequence[Factor], milestones: Sequence[int]) -> Callable[[int], float]:
    """The first factor up to the first milestone, then the next, which counts its steps from there."""
    if len(milestones) != len(factors) - 1 or list(milestones) != sorted(milestones):
        raise ValueError(
            f"sequential: there is a milestone for each of {len(factors)} factors but the first, in ascending order; "
            f"got {list(milestones)}"
        )
    return partial(_sequential, tuple(factors), tuple(milestones))


def chained(factors: Sequence[Factor]) -> Callable[[int], float]:
    """The product of the factors."""
    return partial(_chained, tuple(factors))


def _exponential(by: float, step: int) -> float:
    return by**step


def _multistep(milestones: tuple[int, ...], by: float, step: int) -> float:
    return by ** bisect_right(milestones, step)


def _polynomial(steps: int, power: float, step: int) -> float:
    left: float = (1 - min(step, steps) / steps) ** power
    return left


def _linear(steps: int, first: float, last: float, step: int) -> float:
    return first + (last - first) * min(step, steps) / steps


def _constant(steps: int, factor: float, step: int) -> float:
    return factor if step < steps else 1.0


def _cosine_restarts(period: int, longer: int, floor: float, step: int) -> float:
    if longer == 1:
        step %= period
    while step >= period:
        step, period = step - period, period * longer
    return _cosine(period, floor, step)


def _sequential(factors: tuple[Factor, ...], milestones: tuple[int, ...], step: int) -> float:
    place = bisect_right(milestones, step)
    return factors[place](step - (milestones[place - 1] if place else 0))


def _chained(factors: tuple[Factor, ...], step: int) -> float:
    return math.prod(factor(step) for factor in factors)


def _step_decay(every: int, by: float, step: int) -> float:
    return by ** (step // every)


def _linear_warmup(steps: int, then: Callable[[int], float] | None, step: int) -> float:
    if step < steps:
        return (step + 1) / steps
    return 1.0 if then is None else then(step - steps)


def _cosine(steps: int, floor: float, step: int) -> float:
    return floor + (1 - floor) * (1 + math.cos(math.pi * min(step / steps, 1))) / 2


def check_steps(schedule: str, steps: int) -> None:
    """Refuse what is no number of steps."""
    if not steps >= 1:
        raise ValueError(f"{schedule}: the number of steps must be at least 1; got {steps}")
