"""Factors of a learning rate: functions of the number of the step, for `optim.Schedule`.

Each is a `functools.partial` of a function of this module, so that schedules can be copied and pickled.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial

Factor = Callable[[int], float]


def step_decay(every: int, by: float = 0.1) -> Callable[[int], float]:
    """Multiply the rate by `by` after every `every` steps.

    Parameters
    ----------
    every : int
        Steps between two changes.
    by : float
        The factor of each change.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Raises
    ------
    ValueError
        When `every` is less than 1.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.step_decay(2, by=0.5)(step) for step in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    check_steps("step_decay", every)
    return partial(_step_decay, every, by)


def linear_warmup(steps: int, then: Callable[[int], float] | None = None) -> Callable[[int], float]:
    """Rise evenly to 1 within `steps` steps (Goyal et al. 2017), then follow another factor.

    Parameters
    ----------
    steps : int
        Steps of the rise.
    then : callable, optional
        The factor after that, which counts its steps from there; without it the factor stays 1.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.linear_warmup(4)(step) for step in range(6)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """
    return partial(_linear_warmup, steps, then)


def cosine(steps: int, floor: float = 0.0) -> Callable[[int], float]:
    """Follow half a cosine from 1 down to `floor` within `steps` steps, and stay there (Loshchilov & Hutter 2017).

    Parameters
    ----------
    steps : int
        Steps of the descent.
    floor : float
        The last factor.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Raises
    ------
    ValueError
        When `steps` is less than 1.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [round(optim.cosine(2)(step), 3) for step in range(4)]
    [1.0, 0.5, 0.0, 0.0]
    """
    check_steps("cosine", steps)
    return partial(_cosine, steps, floor)


def exponential(by: float) -> Callable[[int], float]:
    """Multiply the rate by `by` at each step.

    Parameters
    ----------
    by : float
        The factor of each step.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.exponential(0.5)(step) for step in range(3)]
    [1.0, 0.5, 0.25]
    """
    return partial(pow, by)


def multistep(milestones: Sequence[int], by: float = 0.1) -> Callable[[int], float]:
    """Multiply the rate by `by` at each milestone.

    Parameters
    ----------
    milestones : sequence of int
        Numbers of steps, in any order.
    by : float
        The factor of each change.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.multistep([1, 3], by=0.5)(step) for step in range(5)]
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """
    return partial(_multistep, tuple(sorted(milestones)), by)


def polynomial(steps: int, power: float = 1.0) -> Callable[[int], float]:
    """Fall from 1 to 0 within `steps` steps, as a power of the part that is left.

    Parameters
    ----------
    steps : int
        Steps of the descent.
    power : float
        1 is a straight line.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Raises
    ------
    ValueError
        When `steps` is less than 1.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.polynomial(4, power=2)(step) for step in range(5)]
    [1.0, 0.5625, 0.25, 0.0625, 0.0]
    """
    check_steps("polynomial", steps)
    return partial(_polynomial, steps, power)


def linear(steps: int, first: float = 1 / 3, last: float = 1.0) -> Callable[[int], float]:
    """Go evenly from `first` to `last` within `steps` steps, and stay there.

    Parameters
    ----------
    steps : int
        Steps on the way.
    first, last : float
        The factors at both ends.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Raises
    ------
    ValueError
        When `steps` is less than 1.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.linear(2, first=0.5)(step) for step in range(4)]
    [0.5, 0.75, 1.0, 1.0]
    """
    check_steps("linear", steps)
    return partial(_linear, steps, first, last)


def constant(steps: int, factor: float = 1 / 3) -> Callable[[int], float]:
    """Keep `factor` for `steps` steps; after that the factor is 1.

    Parameters
    ----------
    steps : int
        How long the rate is changed.
    factor : float

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [optim.constant(2, factor=0.5)(step) for step in range(4)]
    [0.5, 0.5, 1.0, 1.0]
    """
    return partial(_constant, steps, factor)


def cosine_restarts(period: int, longer: int = 1, floor: float = 0.0) -> Callable[[int], float]:
    """Repeat `cosine`; each period is `longer` times as long as the one before (Loshchilov & Hutter 2017).

    Parameters
    ----------
    period : int
        Steps of the first period.
    longer : int
        How many times as long the next period is.
    floor : float
        The factor at the end of a period.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Raises
    ------
    ValueError
        When `period` or `longer` is less than 1.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> [round(optim.cosine_restarts(2)(step), 3) for step in range(4)]
    [1.0, 0.5, 1.0, 0.5]
    """
    check_steps("cosine_restarts", period)
    check_steps("cosine_restarts", longer)
    return partial(_cosine_restarts, period, longer, floor)


def sequential(factors: Sequence[Factor], milestones: Sequence[int]) -> Callable[[int], float]:
    """Use one factor up to each milestone, and then the next, which counts its steps from there.

    Parameters
    ----------
    factors : sequence of callables
    milestones : sequence of int
        Where each factor but the first begins, in ascending order.

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Raises
    ------
    ValueError
        When the milestones are not one fewer than the factors, or not in order.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> factor = optim.sequential([optim.constant(2, 0.5), optim.exponential(0.5)], [2])
    >>> [factor(step) for step in range(5)]
    [0.5, 0.5, 1.0, 0.5, 0.25]
    """
    if len(milestones) != len(factors) - 1 or list(milestones) != sorted(milestones):
        raise ValueError(
            f"sequential: there is a milestone for each of {len(factors)} factors but the first, in ascending order; "
            f"got {list(milestones)}"
        )
    return partial(_sequential, tuple(factors), tuple(milestones))


def chained(factors: Sequence[Factor]) -> Callable[[int], float]:
    """Multiply several factors.

    Parameters
    ----------
    factors : sequence of callables

    Returns
    -------
    callable
        From the number of a step, an int, to the factor, a float.

    Examples
    --------
    >>> from micrograd_core import optim
    >>> factor = optim.chained([optim.exponential(0.5), optim.constant(1, 0.5)])
    >>> [factor(step) for step in range(3)]
    [0.5, 0.5, 0.25]
    """
    return partial(_chained, tuple(factors))


def _multistep(milestones: tuple[int, ...], by: float, step: int) -> float:
    return by ** bisect_right(milestones, step)


def _polynomial(steps: int, power: float, step: int) -> float:
    return float((1 - min(step, steps) / steps) ** power)


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
    """Raise ValueError unless a number of steps is at least 1."""
    if not steps >= 1:
        raise ValueError(f"{schedule}: the number of steps must be at least 1; got {steps}")


__all__ = [
    "chained", "constant", "cosine", "cosine_restarts", "exponential", "linear", "linear_warmup", "multistep",
    "polynomial", "sequential", "step_decay",
]  # fmt: skip
