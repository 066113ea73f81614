"""Gradients cut down to size, before an optimiser's step: `optim.clip_grad_norm` and `optim.clip_grad_value`.

Those in float16 come from a scaled loss, so that small ones do not vanish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import float32, float64, weak
from micrograd_core.engine.array import wrap
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import DTypeError
from micrograd_core.ops.shared import NARROW
from micrograd_core.optim.base import Optimizer, at_once
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import programs

EPSILON = 1e-6
"""Added to a norm before it divides, as in PyTorch."""
LARGE = 1 << 14
"""Elements of a gradient from which on its squares are added up for themselves, in one pass over memory."""


def clip_grad_norm(
    params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, *, error_if_nonfinite: bool = False
) -> float:
    """Scale all gradients by one factor, so that their common norm is at most `max_norm` (Pascanu et al. 2013).

    All or none: what is interrupted, or lacks memory, leaves the gradients as they were, or has scaled all of them.
    The factor is ``max_norm / (norm + 1e-6)``, or 1 if that is less, as in PyTorch.

    Parameters
    ----------
    params : Tensor or iterable of Tensor
        Those without a gradient do not count.
    max_norm : float
    norm_type : float
        The order of the norm: positive, or infinity for the greatest size.
    error_if_nonfinite : bool
        Whether an infinite norm, or NaN, is an error, which leaves the gradients as they were.

    Returns
    -------
    float, or in a function under `jit` a Tensor of shape ()
        The norm before; infinite or NaN if a gradient is, and then all gradients become NaN, for all to see.

    Raises
    ------
    ValueError
        For a `max_norm` or `norm_type` that is not positive, and for `error_if_nonfinite` in a function under `jit`,
        which reads no numbers.
    RuntimeError
        By `error_if_nonfinite`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, 4.0])
    >>> (x * x / 2).sum().backward()
    >>> mg.optim.clip_grad_norm([x], 1.0)
    5.0
    >>> x.grad
    Tensor([0.6, 0.8])
    """
    if not max_norm > 0:
        raise ValueError(f"clip_grad_norm: max_norm must be positive; got {max_norm}")
    order = float(norm_type)
    if not order > 0:
        raise ValueError(f"clip_grad_norm: norm_type must be positive, such as 2, 1 or infinity; got {norm_type}")
    owners = [p for p in ([params] if isinstance(params, Tensor) else params) if p.grad is not None]
    if programs.get() is not None and owners:
        if error_if_nonfinite:
            raise ValueError(
                "clip_grad_norm: a function under jit reads no numbers, and so error_if_nonfinite cannot raise there; "
                "look at the norm that the function returns"
            )
        return _traced_clip(owners, float(max_norm), order)  # type: ignore[no-any-return]
    norms = _norms([p.grad for p in owners if p.grad is not None], order)
    total = _common(norms, order) if all(map(math.isfinite, norms)) else sum(norms)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"clip_grad_norm: the norm of all gradients is {total}; without error_if_nonfinite they would become NaN"
        )
    factor = float(max_norm) / (total + EPSILON) if math.isfinite(total) else math.nan
    if not factor >= 1:
        _replace(owners, lambda k, g: k.multiply(g, factor))
    return total


def _common(norms: list[float], order: float) -> float:
    """The norm of norms, without overflow."""
    if order == 2:
        return math.hypot(*norms)
    greatest = max(norms, default=0.0)
    total: float = math.fsum([(each / (greatest or 1.0)) ** order for each in norms]) ** (1 / order)
    return greatest * total


def clip_grad_value(params: Iterable[Tensor], limit: float) -> None:
    """Clip every element of every gradient to ``[-limit, limit]``. An error or interrupt changes all gradients or none.

    Parameters
    ----------
    params : iterable of Tensor
        Those without a gradient are left out.
    limit : float
        Positive.

    Raises
    ------
    ValueError, DTypeError
        For a limit that is not positive, or complex gradients, which have no order.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, 0.5])
    >>> (x * x / 2).sum().backward()
    >>> mg.optim.clip_grad_value([x], 1.0)
    >>> x.grad
    Tensor([ 1., 0.5])
    """
    if not limit > 0:
        raise ValueError(f"clip_grad_value: the limit must be positive; got {limit}")
    params = list(params)
    for p in params:
        if p.dtype.is_complex:
            raise DTypeError(f"clip_grad_value: {p.dtype} numbers have no order; use clip_grad_norm")
    _replace(params, lambda k, g: k.maximum(k.minimum(g, float(limit)), -float(limit)))


def _norms(gradients: list[Tensor], order: float) -> list[float]:
    """The norm of each gradient; of float32 from its sum of squares in float64, where none overflows or vanishes."""
    if order == 2 and _fits_float64(gradients):
        tables = dict.fromkeys(g._kernels for g in gradients)
        squares = [x for k in tables for x in _squares(k, [g._handle for g in gradients if g._kernels is k])]
        return [math.sqrt(x) for x in _read(squares)]
    return _read([_norm(g.detach(), order) for g in gradients if g.size])


def _fits_float64(gradients: list[Tensor]) -> bool:
    """Whether squares are added up in float64, in which no sum of float32's leaves the range."""
    return all(g.dtype is float32 and "float64" in g._kernels.backend.dtypes for g in gradients)


def _squares(k: Any, handles: list[Any]) -> list[Tensor]:
    """Sums of squares: of each large gradient, and of the small ones as one vector."""
    flat = [k.reshape(x, shape=(math.prod(x.shape),)) for x in handles]
    small, vectors = ([x for x in flat if (x.shape[0] < LARGE) is which] for which in (True, False))
    vectors += [k.concat(*small, axis=0)] if small else []
    return [wrap(Tensor, at_once(k, _squared, x, LARGE)(k, x), k, float64, None) for x in vectors]


def _squared(k: Any, x: Any) -> Any:
    return k.sum(k.square(k.astype(x, dtype=float64)), axis=None, keepdims=False)


def _read(numbers: list[Tensor]) -> list[float]:
    """0-d tensors as Python's numbers, read from a device all at once, since each read waits for the device."""
    together: dict[Any, list[Tensor]] = {}
    for x in numbers:
        together.setdefault((x.device, x.dtype), []).append(x)
    return [x for each in together.values() for x in FUNCTIONS["stack"](each, axis=0).tolist()]


def _norm(g: Tensor, order: float) -> Tensor:
    """Scaled by the greatest element, so that no power overflows or vanishes; nor does a sum in a half type."""
    sizes = abs(g)
    sizes = sizes.astype("float32") if sizes.dtype.bits < 32 else sizes
    greatest = sizes.max()
    if order == math.inf:
        return greatest  # type: ignore[no-any-return]
    scales = (greatest > 0) & (greatest < math.inf)
    scaled = sizes / FUNCTIONS["where"](scales, greatest, 1.0)
    total = (scaled * scaled).sum().sqrt() if order == 2 else (scaled**order).sum() ** (1 / order)
    return FUNCTIONS["where"](scales, greatest * total, greatest)


def _traced_clip(owners: list[Tensor], max_norm: float, order: float) -> Any:
    """`clip_grad_norm` in a function under `jit`, which reads no number: the factor is 1 where nothing is scaled."""
    with no_grad():
        gradients = [p.grad.detach() for p in owners if p.grad is not None and p.grad.size]
        wide = "float64" in owners[0]._kernels.backend.dtypes
        if order == 2 and wide and all(g.dtype.is_floating and g.dtype.bits <= 32 for g in gradients):
            rows = [g.astype(float64).reshape(-1, g.shape[-1] if g.ndim else 1) for g in gradients]
            total = _length(FUNCTIONS["stack"]([_length(_length(x)) for x in rows]))
        else:
            norms = [_norm(g, order) for g in gradients]
            total = _norm(FUNCTIONS["stack"](norms).astype("float64" if wide else "float32"), order)
        finite = (total < math.inf).astype(total.dtype)
        factor = max_norm / (total + EPSILON)
        factor = FUNCTIONS["where"](factor >= 1, 1.0, factor / finite)  # 0 / 0 of an infinite norm

    def scaled(k: Any, g: Any) -> Any:
        dtype = k.dtype(g)
        wide = float32 if dtype in NARROW else dtype  # in which the factor is no rough number
        return k.astype(k.multiply(k.astype(g, dtype=wide), k.astype(factor._handle, dtype=wide)), dtype=dtype)

    _replace(owners, scaled)
    return total


def _length(x: Any) -> Any:
    """The Euclidean norm of each row: one pass over memory, and of many tensors one launch on a GPU."""
    return (x * x).sum(axis=-1).sqrt()


def _replace(params: Iterable[Tensor], change: Callable[[Any, Any], Any]) -> None:
    """New numbers for all gradients, outside the graph."""
    changes: list[Any] = [
        (p, "_grad", wrap(Tensor, change(g._kernels, g._handle), g._kernels, g.dtype, None))
        for p in params
        if (g := p.grad) is not None
    ]
    assign_all(changes)


def _multiplied(gradients: list[Tensor], factor: float) -> tuple[list[Tensor], bool]:
    """Gradients times a factor, and whether all are finite: by the device's kernel `unscale` at once, if it has one."""
    kernel: Any = None
    if len({(g._kernels, g.dtype, g._record is None) for g in gradients}) == 1 and gradients[0]._record is None:
        k, dtype = gradients[0]._kernels, gradients[0].dtype
        kernel = k.backend.kernel("unscale") if dtype.kind == "real floating" else None
    if kernel is not None:
        handles, found = kernel([g._handle for g in gradients], factor)
        made = [wrap(Tensor, handle, k, dtype, None) for handle in handles]
        return made, math.isfinite(wrap(Tensor, found, k, float32, None).item())
    made = [g * factor for g in gradients]
    detached = [g.detach() for g in made]
    return made, all(map(math.isfinite, _norms(detached, 2.0 if _fits_float64(detached) else math.inf)))


# ── scaled ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        owners = [p for p in rule.params if p.grad is not None]
        made, finite = _multiplied([p.grad for p in owners if p.grad is not None], 1 / self.factor)
        unscaled: list[Any] = [(p, "_grad", g) for p, g in zip(owners, made, strict=True)]
        finite = finite and self._finite is not False
        assign_all([(self, "_unscaled", [*self._unscaled, rule]), *unscaled, (self, "_finite", finite)])

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
