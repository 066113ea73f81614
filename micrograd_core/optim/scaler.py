"""`GradScaler`: a loss in float16 is multiplied, so that small gradients do not vanish."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import float32, weak
from micrograd_core.engine.array import wrap
from micrograd_core.errors import TraceError
from micrograd_core.ops.shared import NARROW
from micrograd_core.optim.base import Optimizer
from micrograd_core.optim.clipping import assign_gradients, multiplied, norms_of, read, times, widest
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import programs

LARGEST: Final = 2.0**127
"""Of scales: with twice as much, a loss in float32 would be infinite for ever."""
KEPT: Final = {
    "scale": "factor", "growth_factor": "growth", "backoff_factor": "backoff", "growth_interval": "interval",
    "_growth_tracker": "good_steps",
}  # fmt: skip
"""Attributes of a scaler that its state has, by their names there."""


class GradScaler:
    """Multiplies the loss, so that small gradients do not vanish in float16, and divides the gradients again.

    ::

        scaler.scale(loss).backward()
        scaler.step(rule)               # leaves the step out where a gradient is infinite or NaN
        scaler.update()                 # then halves the scale, and doubles it after a while without
        rule.zero_grad()

    `step` reads one bool from the device. A whole step may be a function under `jit`, which reads nothing: scale and
    numbers of steps are kept on the device then, and a norm beyond the range of float32 counts as infinite. bfloat16
    has the range of float32 and needs no scaling. An interrupt finds all gradients of a rule unscaled or none, and
    `update` done or not begun; for its step see `Optimizer.step`.

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

    changing: ClassVar[tuple[str, ...]] = ("_factor", "_good_steps")
    """Attributes that may change at each step, also in a function under `jit`."""

    def __init__(self, scale: float = 2.0**16, *, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000,
                 enabled: bool = True) -> None:  # fmt: skip
        if not (scale > 0 and growth > 1 and 0 < backoff < 1 and interval >= 1):
            raise ValueError(
                "GradScaler: scale must be positive, growth above 1, backoff between 0 and 1, and interval at least 1; "
                f"got {scale}, {growth}, {backoff} and {interval}"
            )
        self.growth, self.backoff, self.interval, self.enabled = growth, backoff, interval, enabled
        self._factor, self._good_steps = scale, 0
        self._scale: Tensor | None = None  # and instead of these, of an update under jit, on the device
        self._steps: Tensor | None = None
        self._finite: Any = None  # whether the gradients since the last update are
        self._unscaled: tuple[Any, ...] = ()  # rules, since then
        self._stepped: tuple[Any, ...] = ()

    @property
    def factor(self) -> float:
        """The factor of the loss, as a float."""
        return self._factor if self._scale is None else float(self._scale.item())

    @property
    def good_steps(self) -> int:
        """The number of steps without an infinite gradient since the factor changed, as an int."""
        return self._good_steps if self._steps is None else round(self._steps.item())

    def _numbers(self, k: Any) -> tuple[Tensor, Tensor]:
        """The factor and the steps in a function under `jit`."""
        if self._scale is not None and self._steps is not None:
            return self._scale, self._steps
        zero = k.full(shape=(), fill_value=0.0, dtype=widest(k))
        scale, steps = (wrap(Tensor, k.add(zero, n), k, widest(k), None) for n in (self._factor, self._good_steps))
        return scale, steps

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
        if not self.enabled:
            return loss
        traced = programs.get() is not None
        factor = self._numbers(loss._kernels)[0].astype(loss.dtype) if traced else self.factor
        return loss * factor  # type: ignore[no-any-return]

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
        owners = [p for p in rule.params if p.grad is not None]
        if programs.get() is not None:
            self._traced_unscale(rule, owners)
            return
        made, found = multiplied([p.grad for p in owners if p.grad is not None], 1 / self.factor)
        flags = [FUNCTIONS["isfinite"](g.detach()).all() for g in made] if found is None else []
        finite = all(read(flags)) and (found is None or math.isfinite(found.item()))
        unscaled: list[Any] = [(p, "_grad", g) for p, g in zip(owners, made, strict=True)]
        finite = finite and (self._finite is None or bool(self._finite))
        assign_all([(self, "_unscaled", (*self._unscaled, rule)), *unscaled, (self, "_finite", finite)])

    unscale_ = unscale

    def _traced_unscale(self, rule: Optimizer, owners: list[Tensor]) -> None:
        """In a function under `jit`, which reads no number: whether all are finite is a tensor."""
        made = [times(p.grad, 1 / self._numbers(p._kernels)[0]) for p in owners if p.grad is not None]
        self._finite = True if self._finite is None and not any(g.size for g in made) else self._finite
        for norm in norms_of([g.detach() for g in made], 2.0):
            finite = FUNCTIONS["isfinite"](norm)
            self._finite = finite if self._finite is None else finite & self._finite
        self._unscaled = (*self._unscaled, rule)
        assign_gradients(owners, made)

    def step(self, rule: Optimizer) -> Any:
        """Step the optimiser, unless a gradient is infinite or NaN.

        Parameters
        ----------
        rule : Optimizer
            Whose parameters have the gradients; they are divided if `unscale` has not done it.

        Returns
        -------
        bool, or in a function under `jit` a Tensor of shape () and dtype bool
            Whether the optimiser stepped.

        Raises
        ------
        TraceError
            In a function under `jit`, for a rule of which a program cannot leave out a step: `NAdam`, `RAdam`, `Rprop`,
            `LBFGS`, `SGD` with dampening, rules of one's own that say nothing of what they begin with
            (`Optimizer.begins`), and those of complex parameters.
        ValueError
            When the rule has stepped since the last `update`.

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
        if any(each is rule for each in self._stepped):
            raise ValueError("GradScaler: step() was already called for this rule since the last update()")
        if not any(each is rule for each in self._unscaled):
            self.unscale(rule)
        if isinstance(self._finite, Tensor) and programs.get() is not None:
            _step_where(self._finite, rule)
        elif self._finite:
            rule.step()
        self._stepped = (*self._stepped, rule)
        return self._finite if programs.get() is not None else bool(self._finite)

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
        if programs.get() is not None and isinstance(self._finite, Tensor):
            self._traced_update(self._finite)
            return
        good_steps, factor = self.good_steps + 1, self.factor
        if not self._finite:
            good_steps, factor = 0, factor * self.backoff
        elif good_steps == self.interval:
            good_steps, factor = 0, factor * self.growth if factor * self.growth <= LARGEST else factor
        self._factor, self._good_steps, self._scale, self._steps, self._finite, self._unscaled, self._stepped = (
            factor, good_steps, None, None, None, (), ()
        )  # fmt: skip

    def _traced_update(self, finite: Tensor) -> None:
        where, (factor, good_steps) = FUNCTIONS["where"], self._numbers(finite._kernels)
        good_steps = (good_steps + 1) * finite.astype(good_steps.dtype)
        full, grown = good_steps == self.interval, factor * self.growth
        self._scale = where(finite, where(full & (grown <= LARGEST), grown, factor), factor * self.backoff)
        self._steps = where(full, 0.0, good_steps)
        self._finite, self._unscaled, self._stepped = None, (), ()

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
        new._good_steps = good_steps
        assign_all([(self, name, value) for name, value in vars(new).items()])


def _step_where(finite: Tensor, rule: Optimizer) -> None:
    """`rule.step()` in a function under `jit`, of which nothing stays where a gradient is not finite.

    Steps are counted on the device then.
    """
    k, kind = finite._kernels, type(rule).__name__
    for part in rule.parts:
        dampened = vars(part).get("dampening") and part.keeps()
        if part.begins is None or dampened or any(p.dtype.is_complex for p in part._own):
            why = " with dampening" if dampened else "" if part.begins is None else " with complex parameters"
            raise TraceError(
                f"jit: a program cannot leave out a step of {kind}{why}; call scaler.step(rule) outside the function"
            )
        part._check_places()
        for i, (p, kept) in enumerate(zip(part._own, part.state, strict=True)):
            if p.grad is None:
                continue
            before, state = p._handle, _begun(part, k, p, kept)
            part.state[i] = state
            part._move_one(i)
            p._handle = k.where(finite._handle, p._handle, before)
            new = {name: x for name, x in part.state[i].items() if state[name] is not x}
            part.state[i] |= {name: k.where(finite._handle, x, state[name]) for name, x in new.items()}


def _begun(rule: Optimizer, k: Any, p: Tensor, state: dict[str, Any]) -> dict[str, Any]:
    """What is kept for a parameter, also before its first step; with steps counted on the device."""
    begins = getattr(rule, rule.begins) if isinstance(rule.begins, str) else rule.begins
    start = k.full(shape=p.shape, fill_value=begins, dtype=float32 if p.dtype in NARROW else p.dtype)
    found = dict.fromkeys(rule.keeps(), start) | state
    if "step" in rule.kept and "counted" not in state:
        found["counted"] = k.add(k.full(shape=(), fill_value=0.0, dtype=widest(k)), state.get("step", 0))
    found.pop("step", None)
    return found
