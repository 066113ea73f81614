"""`LBFGS`: a quasi-Newton method, which asks for the loss as often as it needs (Nocedal & Wright 2006, chapter 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError, TraceError
from micrograd_core.optim.base import Optimizer
from micrograd_core.support.context import programs

FIRST = {"count": 0, "length": 0.0, "loss": 0.0, "scale": 1.0}
"""Numbers that are kept, before the first step."""

KEPT = ("direction", "gradient", "steps", "changes")
"""Vectors of all parameters, and the last steps with what they changed of the gradient, as the rows of matrices."""


class LBFGS(Optimizer):
    """Steps along the gradient times an estimate of the inverse Hessian, from the last steps.

    `step` takes a closure that computes the loss and its gradients anew; it is called several times::

        def closure():
            rule.zero_grad()
            loss = f(model)
            loss.backward()
            return loss

        rule.step(closure)

    It does not compile: how often it computes depends on numbers. The closure may be a function under `jit`.

    Parameters
    ----------
    params : iterable of Tensor
        Of one device and dtype; there are no groups.
    lr : float
        The first length along a direction.
    max_iter : int
        Directions taken in a step.
    max_eval : int, optional
        Calls of the closure in a step; by default 5 for each 4 directions.
    tolerance_grad, tolerance_change : float
        Where it stops: the greatest element of the gradient, and how much parameters or the loss change.
    history_size : int
        How many steps the estimate is made from.
    line_search_fn : str, optional
        ``'strong_wolfe'``: lengths by a search for a point that fulfils the strong Wolfe conditions.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, -2.0])
    >>> rule = mg.optim.LBFGS([x])
    >>> def closure():
    ...     rule.zero_grad()
    ...     loss = (x * x).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = rule.step(closure)
    >>> mg.allclose(x, mg.zeros(2), atol=1e-3)
    True
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(params, lr, tolerance_grad=tolerance_grad, tolerance_change=tolerance_change)
        if self.groups:
            raise ValueError("LBFGS has no groups of parameters: it takes all of them as one vector; write a list")
        if len({(p._kernels, p.dtype) for p in self.params}) > 1 or self.params[0].dtype.is_complex:
            raise ValueError("LBFGS takes real parameters of one device and one dtype, as one vector")
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn is 'strong_wolfe' or None; got {line_search_fn!r}")
        self.max_iter, self.history_size = max_iter, history_size
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.line_search_fn = line_search_fn
        self.memory: dict[str, Any] = dict(FIRST)
        """What is kept between steps."""

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Refuse: `LBFGS` takes all parameters as one vector, without groups.

        Parameters
        ----------
        group : dict
            Not looked at.

        Raises
        ------
        ValueError
            Always.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.optim.LBFGS([mg.Tensor([1.0])]).add_param_group({})
        Traceback (most recent call last):
        ValueError: LBFGS has no groups of parameters: it takes all of them as one vector
        """
        raise ValueError("LBFGS has no groups of parameters: it takes all of them as one vector")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` steps along directions.

        Parameters
        ----------
        closure : callable
            Computes the loss and its gradients anew, and returns the loss; it is called several times.

        Returns
        -------
        Any
            The loss that the closure returned first.

        Raises
        ------
        TypeError
            Without a closure.
        GraphError
            When a parameter has changed its device or dtype since the optimiser was made.
        TraceError
            Under `jit`.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([3.0])
        >>> rule = mg.optim.LBFGS([x])
        >>> def closure():
        ...     rule.zero_grad()
        ...     loss = (x * x).sum()
        ...     loss.backward()
        ...     return loss
        >>> rule.step(closure).item()
        9.0
        """
        if programs.get() is not None:
            raise TraceError("jit: LBFGS decides by numbers how often it computes; call step() outside")
        if closure is None:
            raise TypeError("LBFGS.step takes a closure that computes the loss and its gradients anew, and returns it")
        self._check_places()
        first = closure()
        loss, gradient, evaluations = _number(first), self._gradient(), 1
        if _greatest(gradient) <= self.tolerance_grad:
            return first
        kept = self.memory.copy()
        steps, changes = [*kept.get("steps", [])], [*kept.get("changes", [])]
        direction, length, before = kept.get("direction"), kept["length"], kept.get("gradient")
        scale, previous = kept["scale"], kept["loss"]
        for taken_before in range(self.max_iter):
            kept["count"] += 1
            if kept["count"] == 1:
                direction = -gradient
            else:
                change, taken = gradient - before, direction * length
                product = _dot(change, taken)
                if product > 1e-10:
                    steps, changes = [*steps, taken][-self.history_size :], [*changes, change][-self.history_size :]
                    scale = product / _dot(change, change)
                direction = _through_history(gradient, steps, changes, scale)
            before, previous = gradient, loss
            length = self.lr if kept["count"] > 1 else self.lr * min(1.0, 1.0 / abs(gradient).sum().item())
            slope = _dot(gradient, direction)
            if slope > -self.tolerance_change:
                break
            start = [p.detach() for p in self.params]
            if self.line_search_fn is None:
                calls = 0
                self._put(start, direction, length)
                if taken_before < self.max_iter - 1:
                    loss, gradient, calls = _number(closure()), self._gradient(), 1
            else:
                at = partial(self._point, closure, start, direction)
                least = self.tolerance_change / _greatest(direction)
                now, most = Point(0.0, loss, gradient, slope), self.max_eval - evaluations
                (length, loss, gradient, _), calls = _strong_wolfe(at, length, now, least, most)
                self._put(start, direction, length)
            evaluations += calls
            if (
                evaluations >= self.max_eval
                or _greatest(gradient) <= self.tolerance_grad
                or _greatest(direction * length) <= self.tolerance_change
                or abs(loss - previous) < self.tolerance_change
            ):
                break
        kept |= {"direction": direction, "gradient": before, "length": length, "loss": previous, "scale": scale}
        self.memory = {**kept, "steps": steps, "changes": changes}
        return first

    def _gradient(self) -> Tensor:
        """The gradients of all parameters as one vector; parameters without a gradient count as zeros."""
        parts = [p.detach() * 0 if p.grad is None else p.grad.detach() for p in self.params]
        whole: Tensor = FUNCTIONS["concat"]([part.reshape(-1) for part in parts])
        return whole

    def _point(self, closure: Callable[[], Any], start: list[Tensor], direction: Tensor, length: float) -> Point:
        self._put(start, direction, length)
        loss, gradient = _number(closure()), self._gradient()
        return Point(length, loss, gradient, _dot(gradient, direction))

    @no_grad()
    def _put(self, start: list[Tensor], direction: Tensor, length: float) -> None:
        """Parameters some way along a direction."""
        place = 0
        for p, x in zip(self.params, start, strict=True):
            p.data = x + direction[place : place + p.size].reshape(p.shape) * length
            place += p.size

    def state_dict(self) -> dict[str, Tensor]:
        """Copy what is kept between steps.

        Returns
        -------
        dict of str to Tensor
            Numbers as 0-d tensors, the history as matrices with a row for each step; empty before the first step.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.optim.LBFGS([mg.Tensor([3.0])]).state_dict()
        {}
        """
        if "direction" not in self.memory:
            return {}
        found = {name: asarray(float(self.memory[name]), dtype="float64") for name in FIRST}
        found |= {name: self.memory[name].copy() for name in ("direction", "gradient")}
        if self.memory["steps"]:
            found |= {name: FUNCTIONS["stack"](self.memory[name]) for name in ("steps", "changes")}
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the ``state_dict()`` of another `LBFGS`.

        Parameters
        ----------
        state : mapping of str to Tensor or array
            For parameters of as many numbers.

        Raises
        ------
        ShapeError
            When it is of other parameters; nothing is loaded then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.optim.LBFGS([mg.Tensor([3.0])]).load_state_dict({})
        """
        if not state:
            self.memory = dict(FIRST)
            return
        p, size = self.params[0], sum(p.size for p in self.params)
        vectors = {
            name: asarray(state[name], dtype=p.dtype, device=p.device, copy=True) for name in KEPT if name in state
        }
        if {"direction", "gradient"} - vectors.keys() or any(x.shape[-1] != size for x in vectors.values()):
            shapes = {name: x.shape for name, x in vectors.items()}
            raise ShapeError(f"load_state_dict: vectors are of {size} numbers, those of all parameters; got {shapes}")
        kept: dict[str, Any] = {name: float(state[name]) for name in ("length", "loss", "scale")}
        rows = {name: [*vectors[name]] if name in vectors else [] for name in ("steps", "changes")}
        self.memory = {**kept, "count": int(state["count"]), **vectors, **rows}


def _number(loss: Any) -> float:
    """What a closure returned, a tensor or a number."""
    return float(loss.detach() if isinstance(loss, Tensor) else loss)


def _dot(x: Tensor, y: Tensor) -> float:
    return (x * y).sum().item()  # type: ignore[no-any-return]


def _greatest(x: Tensor) -> float:
    return abs(x).max().item()  # type: ignore[no-any-return]


def _through_history(gradient: Tensor, steps: list[Tensor], changes: list[Tensor], scale: float) -> Tensor:
    """Minus the gradient times the estimated inverse Hessian, by two loops over the steps (algorithm 7.4)."""
    way: Tensor = -gradient
    shares: list[float] = []
    inverses = [1 / _dot(change, step) for step, change in zip(steps, changes, strict=True)]
    for step, change, inverse in reversed(list(zip(steps, changes, inverses, strict=True))):
        shares.append(_dot(step, way) * inverse)
        way = way - change * shares[-1]
    way = way * scale
    for step, change, inverse, share in zip(steps, changes, inverses, reversed(shares), strict=True):
        way = way + step * (share - _dot(change, way) * inverse)
    return way


# ── line search ──────────────────────────────────────────────────────────────────────────────────────────────


class Point(NamedTuple):
    """The loss some way along a direction, its gradient, and the slope in that direction."""

    length: float
    loss: float
    gradient: Tensor
    slope: float


DECREASE, CURVATURE = 1e-4, 0.9
"""The constants of the Wolfe conditions."""


def _least_of_cubic(one: Point, other: Point, low: float, high: float) -> float:
    """Where the cubic through two points and their slopes is least, within bounds (equation 3.59)."""
    left, right = (one, other) if one.length <= other.length else (other, one)
    first = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.length - right.length)
    square = first * first - left.slope * right.slope
    if not square >= 0:
        return (low + high) / 2
    second = math.sqrt(square)
    width = right.length - left.length
    least = right.length - width * ((right.slope + second - first) / (right.slope - left.slope + 2 * second))
    return min(max(least, low), high)


def _strong_wolfe(
    point: Callable[[float], Point], length: float, start: Point, least: float, most: int
) -> tuple[Point, int]:
    """A point that fulfils both conditions: first an interval that has one, then ever smaller ones (3.5 and 3.6).

    `least` is the width of the smallest interval. After the first, at most so many points are tried. With it comes how
    many were.
    """

    def falls(each: Point) -> bool:
        return each.loss <= start.loss + DECREASE * each.length * start.slope

    def is_flat(each: Point) -> bool:
        return abs(each.slope) <= -CURVATURE * start.slope

    previous, new, tried = start, point(length), 0
    while tried < most:
        better = falls(new) and not (tried > 1 and new.loss >= previous.loss)
        if better and is_flat(new):
            return new, tried + 1
        if not better or new.slope >= 0:
            break
        low, high = new.length + 0.01 * (new.length - previous.length), new.length * 10
        following = _least_of_cubic(previous, new, low, high)
        previous, new = new, point(following)
        tried += 1
    else:
        previous = start
    slow = False
    best, worst = sorted((previous, new), key=lambda point: point.loss)
    while tried < most:
        low, high = sorted((best.length, worst.length))
        if high - low < least:
            break
        following = _least_of_cubic(best, worst, low, high)
        margin = 0.1 * (high - low)
        near_an_end = min(high - following, following - low) < margin
        inwards = near_an_end and (slow or not low < following < high)
        if inwards:
            following = high - margin if abs(following - high) < abs(following - low) else low + margin
        slow = near_an_end and not inwards
        new = point(following)
        tried += 1
        if not falls(new) or new.loss >= best.loss:
            best, worst = sorted((best, new), key=lambda point: point.loss)
        elif is_flat(new):
            return new, tried + 1
        else:
            best, worst = new, best if new.slope * (worst.length - best.length) >= 0 else worst
    return best, tried + 1
