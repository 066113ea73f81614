"""Learning rates that change from step to step."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from micrograd_core.errors import TraceError
from micrograd_core.optim.base import Optimizer
from micrograd_core.optim.factors import Factor, chained, check_steps, sequential
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import programs


class Schedule:
    """Sets an optimiser's learning rate before each step: its first rate times a factor that depends on the step.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is what the factor multiplies, for each group of parameters its own.
    factor : function, or a list of them
        From the number of the step, 0 the first, to the factor: such as `cosine`, `step_decay` or `linear_warmup`, or
        any function. Of several, one for each group.
    start : int
        Number of the first step: how many were taken before, when a run continues. The factor then multiplies the rate
        that an earlier schedule of this optimiser started from, not the one that it reached.

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

    def __init__(self, optimizer: Optimizer, factor: Factor | Sequence[Factor], start: int = 0) -> None:
        self.optimizer, self.factor, self.count = optimizer, factor, start
        if isinstance(factor, Sequence) and len(factor) != len(optimizer.parts):
            raise ValueError(
                f"Schedule: there is a factor for each group of parameters, of which there are {len(optimizer.parts)}; "
                f"got {len(factor)}"
            )
        self.bases: list[float] = [
            getattr(rule, "initial_lr", rule.lr) if start else rule.lr for rule in optimizer.parts
        ]
        for rule, base in zip(optimizer.parts, self.bases, strict=True):
            vars(rule)["initial_lr"] = base
        assign_all(self._rates(self.count))

    @property
    def base(self) -> float:
        """The rate that is multiplied, of the first group, as a float."""
        return self.bases[0]

    def _rates(self, count: int, bases: list[float] | None = None) -> list[tuple[Any, str, Any]]:
        """What is to be assigned at a step."""
        bases = self.bases if bases is None else bases
        factors = self.factor if isinstance(self.factor, Sequence) else [self.factor] * len(bases)
        rates = [base * factor(count) for base, factor in zip(bases, factors, strict=True)]
        return _assigned(self.optimizer, "lr", rates)

    def step(self) -> None:
        """Set the rate of the next step; call it after the optimiser's own ``step``.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> schedule = mg.optim.Schedule(rule, mg.optim.exponential(by=0.5))
        >>> schedule.step()
        >>> rule.lr
        0.05
        """
        trace = programs.get()
        if trace is not None:  # done at each call of the traced function
            trace.act(self.step, self.optimizer, *self.optimizer.groups, self)
            return
        count = self.count + 1
        assign_all([*self._rates(count), (self, "count", count)])

    def get_last_lr(self) -> list[float]:
        """The rate of each group of parameters now.

        Returns
        -------
        list of float

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> mg.optim.Schedule(rule, mg.optim.exponential(by=0.5)).get_last_lr()
        [0.1]
        """
        return [rule.lr for rule in self.optimizer.parts]

    def state_dict(self) -> dict[str, Any]:
        """The number of the step, and the rates that are multiplied.

        Returns
        -------
        dict of str to int, and to list of float
            ``count`` and ``bases``.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> mg.optim.Schedule(rule, mg.optim.exponential(by=0.5)).state_dict()
        {'count': 0, 'bases': [0.1]}
        """
        return {"count": self.count, "bases": [*self.bases]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the ``state_dict()`` of a schedule, and set the optimiser's rates to those of that step.

        Parameters
        ----------
        state : mapping
            ``count`` and ``bases``, with a base for each group.

        Raises
        ------
        ValueError
            When names differ, or the number of groups does; nothing is loaded then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> schedule = mg.optim.Schedule(rule, mg.optim.exponential(by=0.5))
        >>> schedule.load_state_dict({"count": 1, "bases": [0.1]})
        >>> rule.lr
        0.05
        """
        if state.keys() != {"count", "bases"} or len(state["bases"]) != len(self.bases):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: the state has count, bases, with a base for each of "
                f"{len(self.bases)} groups; got {dict(state)}"
            )
        count, bases = state["count"], [*state["bases"]]
        assign_all([*self._rates(count, bases), (self, "count", count), (self, "bases", bases)])


def _for_each_group(optimizer: Optimizer, name: str, rates: float | Sequence[float]) -> list[float]:
    count = len(optimizer.parts)
    found = [rates] * count if isinstance(rates, (int, float)) else [*rates]
    if len(found) != count:
        raise ValueError(f"{name} has one rate for each of {count} groups; got {rates}")
    return found


def _assigned(optimizer: Optimizer, name: str, values: Sequence[Any]) -> list[tuple[Any, str, Any]]:
    """A hyperparameter for each group; what the whole shows is that of the first."""
    changes: list[tuple[Any, str, Any]] = [(optimizer, name, values[0])]
    return changes + [(rule, name, x) for rule, x in zip(optimizer.groups, values, strict=optimizer.groups != [])]


class SequentialLR(Schedule):
    """One factor after the other; each counts its steps from its milestone, as `sequential` does.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is what the factors multiply.
    factors : sequence of functions
        From the number of a step to the factor; or schedules, whose factors are taken.
    milestones : sequence of int
        At which step each factor but the first begins.
    start : int
        Number of the first step, as for `Schedule`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = mg.optim.SequentialLR(rule, [mg.optim.constant(2, 0.5), mg.optim.exponential(0.5)], [2])
    >>> rule.lr
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, factors: Sequence[Factor | Schedule], milestones: Sequence[int], start: int = 0
    ) -> None:
        super().__init__(optimizer, sequential(_factors_of(optimizer, factors), milestones), start)


class ChainedScheduler(Schedule):
    """The product of several factors, as `chained` makes it.

    Parameters
    ----------
    optimizer : Optimizer
        Its `lr` now is what the factors multiply.
    factors : sequence of functions
        From the number of a step to the factor; or schedules, whose factors are taken.
    start : int
        Number of the first step, as for `Schedule`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = mg.optim.ChainedScheduler(rule, [mg.optim.exponential(0.5), mg.optim.constant(1, 0.5)])
    >>> rule.lr
    0.5
    """

    def __init__(self, optimizer: Optimizer, factors: Sequence[Factor | Schedule], start: int = 0) -> None:
        super().__init__(optimizer, chained(_factors_of(optimizer, factors)), start)


def _factors_of(optimizer: Optimizer, factors: Sequence[Factor | Schedule]) -> list[Any]:
    """The factors, also those of schedules; making these has changed the rate, which is what the first began with."""
    found = [each.factor if isinstance(each, Schedule) else each for each in factors]
    wrong = next((each for each in found if not callable(each)), None)
    if wrong is not None:
        raise TypeError(f"a factor is a function from the number of a step; got {wrong!r}")
    for schedule in [each for each in factors if isinstance(each, Schedule)][:1]:
        assign_all(_assigned(optimizer, "lr", schedule.bases))
    return found


class ReduceLROnPlateau:
    """Multiplies the rate when a number, such as the loss on held-out data, has not improved for a while.

    Parameters
    ----------
    optimizer : Optimizer
    mode : str
        ``'min'`` or ``'max'``: whether less is better, or more.
    factor : float
        The factor of the rate, less than 1.
    patience : int
        How many calls of `step` without a better number are allowed.
    threshold, threshold_mode : float, str
        How much better counts: a fraction of the best (``'rel'``), or a difference (``'abs'``).
    cooldown : int
        Calls after a change that do not count.
    min_lr : float or list of float
        The least rate, for each group.
    eps : float
        A change that is not greater is left out.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = mg.optim.ReduceLROnPlateau(rule, patience=0)
    >>> for loss in (1.0, 2.0):
    ...     schedule.step(loss)
    >>> rule.lr
    0.1
    """

    kept: ClassVar[tuple[str, ...]] = ("best", "bad", "resting", "count", "rates")

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: mode is 'min' or 'max', and threshold_mode 'rel' or 'abs'; got {mode!r} and "
                f"{threshold_mode!r}"
            )
        if not 0 <= factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor is at least 0 and less than 1; got {factor}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.least = _for_each_group(optimizer, "ReduceLROnPlateau: min_lr", min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.bad, self.resting, self.count = 0, 0, 0

    @property
    def rates(self) -> list[float]:
        """The learning rate of each group, as a list of float."""
        return [rule.lr for rule in self.optimizer.parts]

    def step(self, metric: Any) -> None:
        """Look at the newest number; call it after each round of training.

        Parameters
        ----------
        metric : number, or Tensor of one element
            Such as the loss on data that are held out.

        Raises
        ------
        TraceError
            Under `jit`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> schedule = mg.optim.ReduceLROnPlateau(rule, patience=0)
        >>> schedule.step(1.0)
        >>> schedule.step(2.0)
        >>> round(rule.lr, 6)
        0.01
        """
        if programs.get() is not None:
            raise TraceError(
                "jit: ReduceLROnPlateau.step decides by a number of a tensor, for all later calls; call it outside"
            )
        metric = float(metric)
        better = self._is_better(metric)
        best = metric if better else self.best
        bad = 0 if better or self.resting > 0 else self.bad + 1
        resting = max(self.resting - 1, 0)
        rates = self.rates
        if bad > self.patience:
            lower = [max(rate * self.factor, least) for rate, least in zip(rates, self.least, strict=True)]
            rates = [new if rate - new > self.eps else rate for rate, new in zip(rates, lower, strict=True)]
            resting, bad = self.cooldown, 0
        own = {"best": best, "bad": bad, "resting": resting, "count": self.count + 1}
        assign_all([*_assigned(self.optimizer, "lr", rates), *((self, name, x) for name, x in own.items())])

    def _is_better(self, metric: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        relative = self.threshold_mode == "rel" and math.isfinite(self.best)
        limit = self.best * (1 + sign * self.threshold) if relative else self.best + sign * self.threshold
        return sign * metric > sign * limit

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands.

        Returns
        -------
        dict of str to number, and to list of float
            The rates are those of all groups.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> mg.optim.ReduceLROnPlateau(rule).state_dict()["rates"]
        [0.1]
        """
        return {name: getattr(self, name) for name in self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the ``state_dict()`` of a schedule, with the rates that it had.

        Parameters
        ----------
        state : mapping
            With the names that `state_dict` has, and a rate for each group.

        Raises
        ------
        ValueError
            When names differ, or the number of groups does; nothing is loaded then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> schedule = mg.optim.ReduceLROnPlateau(rule)
        >>> schedule.load_state_dict(schedule.state_dict())
        """
        if set(state) != set(self.kept) or len(state["rates"]) != len(self.least):
            raise ValueError(
                f"ReduceLROnPlateau.load_state_dict: the state has {', '.join(self.kept)}, with a rate for each of "
                f"{len(self.least)} groups; got {dict(state)}"
            )
        own = [(self, name, x) for name, x in state.items() if name != "rates"]
        assign_all([*_assigned(self.optimizer, "lr", state["rates"]), *own])


class OneCycle(Schedule):
    """The rate goes up to a great one, then down to almost nothing; momentum goes the other way (Smith & Topin 2018).

    Parameters
    ----------
    optimizer : Optimizer
        Its rates, and its momentum, are set.
    max_lr : float or list of float
        The greatest rate, for each group.
    total_steps : int
        The number of steps.
    pct_start : float
        The fraction of the steps in which the rate goes up.
    anneal_strategy : str
        ``'cos'`` or ``'linear'``.
    cycle_momentum : bool
        Whether the momentum, or the first of `betas`, goes from `max_momentum` to `base_momentum` and back.
    base_momentum, max_momentum : float
        The least and the greatest momentum.
    div_factor, final_div_factor : float
        The first rate is ``max_lr / div_factor``, and the last one that over `final_div_factor`.
    three_phase : bool
        Whether the rate goes down to the first rate as it went up, and only then to the last one.
    start : int
        Number of the first step, as for `Schedule`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=1.0)
    >>> schedule = mg.optim.OneCycle(rule, 0.5, 100, cycle_momentum=False)
    >>> rule.lr
    0.020000000000000018
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        start: int = 0,
    ) -> None:
        check_steps("OneCycle", total_steps)
        if anneal_strategy not in ("cos", "linear") or not 0 <= pct_start <= 1:
            raise ValueError(
                f"OneCycle: anneal_strategy is 'cos' or 'linear', and pct_start between 0 and 1; got "
                f"{anneal_strategy!r} and {pct_start}"
            )
        greatest = _for_each_group(optimizer, "OneCycle: max_lr", max_lr)
        self.total_steps, self.cosine = total_steps, anneal_strategy == "cos"
        top = pct_start * total_steps - 1
        first, last = 1 / div_factor, 1 / div_factor / final_div_factor
        more = bool(three_phase)  # phases: down to the first rate before the last
        self.ends = [top, *[2 * top] * more, total_steps - 1]
        levels = [first, 1.0, *[first] * more, last]
        self.momenta = [max_momentum, base_momentum, *[max_momentum] * (1 + more)]
        found = [name for name in ("betas", "momentum") if cycle_momentum and hasattr(optimizer, name)]
        if cycle_momentum and not found:
            raise ValueError(
                f"OneCycle: {type(optimizer).__name__} has no momentum to cycle; write cycle_momentum=False"
            )
        self.momentum = found[0] if found else ""
        assign_all(_assigned(optimizer, "lr", greatest))
        super().__init__(optimizer, partial(self._between, levels), 0)
        self.count = start
        assign_all(self._rates(start))

    def _between(self, levels: list[float], count: int) -> float:
        """From level to level, each at the end of its phase."""
        phase = bisect_left(self.ends[:-1], count)
        begin, end = [0.0, *self.ends][phase : phase + 2]
        low, high = levels[phase : phase + 2]
        part = (count - begin) / (end - begin) if end != begin else 1.0
        cosine: float = high + (low - high) / 2 * (1 + math.cos(math.pi * part))
        return cosine if self.cosine else low + (high - low) * part

    def _rates(self, count: int, bases: list[float] | None = None) -> list[tuple[Any, str, Any]]:
        if count > self.total_steps:
            raise ValueError(f"OneCycle: there are {self.total_steps} steps; step {count} is one more")
        changes = super()._rates(count, bases)
        if self.momentum:
            value: Any = self._between(self.momenta, count)
            values = [
                (value, vars(rule)["betas"][1]) if self.momentum == "betas" else value for rule in self.optimizer.parts
            ]
            changes += _assigned(self.optimizer, self.momentum, values)
        return changes

    def step(self) -> None:
        """Set the rate and the momentum of the next step; call it after the optimiser's own ``step``.

        Raises
        ------
        TraceError
            Under `jit`, where the momentum changes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> mg.optim.OneCycle(rule, 0.1, total_steps=10, cycle_momentum=False).step()
        """
        if programs.get() is not None and self.momentum:
            raise TraceError(
                "jit: OneCycle changes the momentum, which a program has fixed; write cycle_momentum=False, or call "
                "step() outside, where each call traces anew"
            )
        super().step()
