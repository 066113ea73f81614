"""Gradients in float16: a scaled loss, so that small ones do not vanish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.dtypes import weak
from micrograd_core.support.atomic import assign_all

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor
    from micrograd_core.optim.base import Optimizer


class GradScaler:
    """Multiplies the loss, so that small gradients do not vanish in float16, and divides the gradients again.

    ::

        scaler.scale(loss).backward()
        scaler.step(rule)               # leaves the step out where a gradient is infinite or NaN
        scaler.update()                 # then halves the scale, and doubles it after a while without
        rule.zero_grad()

    `step` reads one bool from the device. bfloat16 has the range of float32 and needs no scaling. An interrupt finds
    all gradients of a rule unscaled or none, and `update` done or not begun; for its step see `Optimizer.step`.

    Parameters
    ----------
    scale : float
        To start with.
    growth, backoff : float
        Factors of the scale, above and below 1.
    interval : int
        Steps without an infinite gradient before it grows.
    enabled : bool
        Whether anything is scaled; without it `step` is the rule's own, and `update` does nothing.

    Raises
    ------
    ValueError
        For a factor on the wrong side of 1, or another number that is not positive.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([2.0])
    >>> rule, scaler = mg.optim.SGD([x], lr=0.5), mg.GradScaler()
    >>> scaler.scale((x * x).sum()).backward()
    >>> scaler.step(rule)
    True
    >>> scaler.update()
    >>> x
    Tensor([0.], requires_grad=True)
    """

    def __init__(
        self,
        scale: float = 2.0**16,
        *,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (scale > 0 and growth > 1 and 0 < backoff < 1 and interval >= 1):
            raise ValueError(
                "GradScaler: scale must be positive, growth above 1, backoff between 0 and 1, and interval at least 1; "
                f"got {scale}, {growth}, {backoff} and {interval}"
            )
        self.factor, self.growth, self.backoff, self.interval = scale, growth, backoff, interval
        self.good_steps, self.enabled = 0, enabled
        self._finite: bool | None = None  # of the gradients since the last update
        self._unscaled: list[Any] = []

    def scale(self, loss: Tensor) -> Tensor:
        """Multiply the loss by the factor.

        Parameters
        ----------
        loss : Tensor
            Of shape ``()``.

        Returns
        -------
        Tensor
            ``loss * factor``; the loss itself where the scaler is not enabled.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.GradScaler(4.0).scale(mg.asarray(2.0))
        Tensor(8.)
        """
        return loss * self.factor if self.enabled else loss

    def unscale(self, rule: Optimizer) -> None:
        """Divide the gradients now, to look at them or clip them before `step`. Once between two updates.

        Parameters
        ----------
        rule : Optimizer
            Whose parameters have the gradients.

        Raises
        ------
        ValueError
            When these gradients were already divided since the last update.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([2.0])
        >>> rule, scaler = mg.optim.SGD([x], lr=0.5), mg.GradScaler(4.0)
        >>> scaler.scale(x.sum()).backward()
        >>> scaler.unscale(rule)
        >>> x.grad
        Tensor([1.])
        """
        if not self.enabled:
            return
        if any(each is rule for each in self._unscaled):
            raise ValueError("GradScaler: these gradients were already unscaled since the last update()")
        finite: dict[Any, Any] = {}
        changes: list[tuple[Any, str, Any]] = [(self, "_unscaled", [*self._unscaled, rule])]
        for p in rule.params:
            g = p.grad
            if g is not None:
                unscaled = g * (1 / self.factor)
                fine = FUNCTIONS["all"](FUNCTIONS["isfinite"](unscaled.detach()))
                finite[p.device] = fine & finite[p.device] if p.device in finite else fine
                changes.append((p, "_grad", unscaled))
        changes.append((self, "_finite", all(each.item() for each in finite.values()) and self._finite is not False))
        assign_all(changes)

    unscale_ = unscale

    def step(self, rule: Optimizer) -> bool:
        """Step the optimiser, unless a gradient is infinite or NaN.

        Parameters
        ----------
        rule : Optimizer
            Whose parameters have the gradients; they are divided if `unscale` has not done it.

        Returns
        -------
        bool
            Whether the optimiser stepped.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([2.0])
        >>> rule, scaler = mg.optim.SGD([x], lr=0.5), mg.GradScaler(4.0)
        >>> scaler.scale(x.sum()).backward()
        >>> scaler.step(rule)
        True
        """
        if not self.enabled:
            rule.step()
            return True
        if not any(each is rule for each in self._unscaled):
            self.unscale(rule)
        if self._finite:
            rule.step()
        return bool(self._finite)

    def update(self) -> None:
        """Set the factor of the next step.

        Raises
        ------
        ValueError
            When `step` was not called before.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([2.0])
        >>> rule, scaler = mg.optim.SGD([x], lr=0.5), mg.GradScaler(4.0)
        >>> scaler.scale(x.sum() * float("inf")).backward()
        >>> scaler.step(rule)
        False
        >>> scaler.update()
        >>> scaler.get_scale()
        2.0
        """
        if not self.enabled:
            return
        if self._finite is None:
            raise ValueError("GradScaler: call step() before update()")
        good_steps, factor = (self.good_steps + 1, self.factor) if self._finite else (0, self.factor * self.backoff)
        if good_steps == self.interval:
            good_steps, factor = 0, factor * self.growth
        self.good_steps, self.factor, self._finite, self._unscaled = good_steps, factor, None, []

    def state_dict(self) -> dict[str, Any]:
        """What the next step continues from, to be taken after `update`.

        Returns
        -------
        dict of str to number
            By PyTorch's names; empty where the scaler is not enabled.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.GradScaler(4.0).state_dict()["scale"]
        4.0
        """
        return {name: getattr(self, own) for name, own in KEPT.items()} if self.enabled else {}

    def get_scale(self) -> float:
        """The factor of the loss; 1 for a scaler that is not enabled.

        Returns
        -------
        float

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.GradScaler(4.0).get_scale()
        4.0
        """
        return self.factor if self.enabled else 1.0

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the ``state_dict()`` of a scaler, also of PyTorch's, as after its `update`.

        Parameters
        ----------
        state : mapping of str to number
            With the names that `state_dict` has.

        Raises
        ------
        ValueError
            When names are missing or not known, or a number is out of range; nothing is loaded then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> scaler = mg.GradScaler()
        >>> scaler.load_state_dict(mg.GradScaler(4.0).state_dict())
        >>> scaler.get_scale()
        4.0
        """
        if not self.enabled:
            return
        if set(state) != set(KEPT):
            raise ValueError(
                f"GradScaler: a state has {', '.join(KEPT)}; got {', '.join(map(str, state)) or 'nothing'}"
            )
        scale, growth, backoff, interval, good_steps = (weak(state[name]) for name in KEPT)
        new = GradScaler(scale, growth=growth, backoff=backoff, interval=interval)
        if not 0 <= good_steps < interval:
            raise ValueError(f"GradScaler: _growth_tracker must be from 0 to below {interval}; got {good_steps}")
        new.good_steps = good_steps
        assign_all([(self, name, value) for name, value in vars(new).items()])


KEPT = {
    "scale": "factor",
    "growth_factor": "growth",
    "backoff_factor": "backoff",
    "growth_interval": "interval",
    "_growth_tracker": "good_steps",
}
"""Attributes of a scaler that its state has, by their names there."""
