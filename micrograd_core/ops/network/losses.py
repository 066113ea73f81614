"""Losses, reduced by ``'mean'``, ``'sum'`` or ``'none'``.

Those that compare element by element are rows of one table: the value, and its slopes by prediction and by target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_core.ops.record import FLOATING, REAL, Array, Op, Sample
from micrograd_core.ops.shared import check_reduction, in_float32, is_scalar, times
from micrograd_core.ops.tangents import total

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

REAL_FLOATING = REAL & FLOATING


def _reduce(k: Table, losses: Any, reduction: str, batch: int = 1) -> Any:
    if reduction == "none":
        return losses
    total = (k.mean if reduction == "mean" else k.sum)(losses, axis=None, keepdims=False)
    return k.divide(total, batch) if reduction == "batchmean" else total


def _divisor(shape: Shape, reduction: str) -> float:
    """What each loss is divided by; the mean of no losses is NaN."""
    if reduction == "batchmean":
        return (shape[0] if shape else 1) or math.nan
    return (math.prod(shape) or math.nan) if reduction == "mean" else 1


_REDUCTIONS = {
    "mean": lambda np, losses: np.mean(losses),
    "sum": lambda np, losses: np.sum(losses),
    "batchmean": lambda np, losses: np.sum(losses) / losses.shape[0],
    "none": lambda np, losses: losses,
}

Function = Callable[..., Any]


# ── element by element ───────────────────────────────────────────────────────────────────────────────────────


def _shapes(name: str, x: Any, y: Any) -> None:
    shapes = [getattr(each, "shape", ()) for each in (x, y)]
    if shapes[0] != shapes[1] and () not in shapes:
        raise ShapeError(f"{name}: shapes {shapes[0]} and {shapes[1]} must be equal; reshape one of them")


def _pairwise(
    name: str,
    doc: str,
    value: Function,
    slope: Function,
    target_slope: Function,
    reference: Function,
    parameters: Function,
    samples: tuple[Sample, ...],
) -> Op:
    """A loss of predictions `x` and targets `y`; `value` and the slopes are functions ``(k, x, y, **parameters)``."""

    def rule(slope: Function) -> Function:
        @in_float32
        def apply(k: Table, g: Any, out: Any, x: Any, y: Any, *, reduction: str, **params: Any) -> Any:
            slopes = slope(k, x, y, **params)
            divisor = _divisor(slopes.shape, reduction)
            return k.multiply(g, slopes if divisor == 1 else k.multiply(slopes, 1 / divisor))

        return apply

    @in_float32
    def compose(k: Table, x: Any, y: Any, *, reduction: str, **params: Any) -> Any:
        losses = value(k, x, y, **params)
        return _reduce(k, losses, reduction, int(_divisor(losses.shape, reduction)) if reduction == "batchmean" else 1)

    def tangent(op: Op, k: Table, tangents: Any, out: Any, x: Any, y: Any, *, reduction: str, **params: Any) -> Any:
        pairs = zip(tangents, (slope, target_slope), strict=True)
        along = total(k, (k.multiply(slope_of(k, x, y, **params), t) for t, slope_of in pairs if t is not None))
        return _reduce(k, along, reduction, int(_divisor(along.shape, reduction)) if reduction == "batchmean" else 1)

    def reduced(np: Any, x: Any, y: Any, reduction: str = "mean", **params: Any) -> Any:
        return _REDUCTIONS[reduction](np, reference(np, x, y, **params))

    return Op(
        name,
        doc,
        operands=2,
        autocast="float32",
        parameters=parameters,
        accepts=REAL_FLOATING,
        tangent=tangent,
        gradient=(rule(slope), rule(target_slope)),
        compose=compose,
        samples=samples,
        reference=reduced,
    )


def _plain(name: str) -> Function:
    def parameters(x: Any, y: Any, /, *, reduction: str = "mean") -> dict[str, Any]:
        check_reduction(name, reduction)
        _shapes(name, x, y)
        return {"reduction": reduction}

    return parameters


def _huber_parameters(x: Any, y: Any, /, *, delta: float = 1.0, reduction: str = "mean") -> dict[str, Any]:
    check_reduction("huber_loss", reduction)
    _shapes("huber_loss", x, y)
    if not delta > 0:
        raise ValueError(f"huber_loss: delta must be positive; got {delta}")
    return {"delta": float(delta), "reduction": reduction}


def _kl_parameters(x: Any, y: Any, /, *, log_target: bool = False, reduction: str = "mean") -> dict[str, Any]:
    check_reduction("kl_div", reduction, "batchmean")
    _shapes("kl_div", x, y)
    return {"log_target": bool(log_target), "reduction": reduction}


def _difference(k: Table, x: Any, y: Any) -> Any:
    return k.subtract(x, y)


def _clipped(k: Table, x: Any, y: Any, delta: float) -> Any:
    return k.maximum(k.minimum(k.subtract(x, y), delta), -delta)


def _huber(k: Table, x: Any, y: Any, *, delta: float) -> Any:
    """``c (d - c / 2)`` with the difference `d` clipped to `c`: a parabola that goes on as its tangent."""
    clipped = _clipped(k, x, y, delta)
    return k.multiply(clipped, k.subtract(k.subtract(x, y), k.multiply(clipped, 0.5)))


def _kl(k: Table, x: Any, y: Any, *, log_target: bool) -> Any:
    if log_target:
        return k.multiply(k.exp(y), k.subtract(y, x))
    positive = k.less(0, y)
    entropy = k.multiply(y, k.log(k.where(positive, y, 1)))  # 0 log(0) is 0
    return k.subtract(entropy, k.multiply(y, x))


def _kl_target_slope(k: Table, x: Any, y: Any, *, log_target: bool) -> Any:
    if log_target:
        return k.multiply(k.exp(y), k.add(k.subtract(y, x), 1))
    positive = k.less(0, y)
    return k.where(positive, k.subtract(k.add(k.log(k.where(positive, y, 1)), 1), x), 0)


def _kl_reference(np: Any, x: Any, y: Any, log_target: bool = False) -> Any:
    return np.exp(y) * (y - x) if log_target else y * (np.log(y) - x)


def _negated(slope: Function) -> Function:
    return lambda k, x, y, **params: k.negative(slope(k, x, y, **params))


def _twice(k: Table, x: Any, y: Any) -> Any:
    return k.multiply(k.subtract(x, y), 2)


def _sign(k: Table, x: Any, y: Any) -> Any:
    return k.sign(k.subtract(x, y))


_X, _Y = Array((2, 3)), Array((2, 3), 0.05, 0.95)

PAIRWISE = (
    _pairwise(
        "mse_loss",
        "Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``.",
        lambda k, x, y: k.square(k.subtract(x, y)),
        _twice,
        _negated(_twice),
        lambda np, x, y: (x - y) ** 2,
        _plain("mse_loss"),
        (Sample(_X, _X), Sample(_X, Array(()), reduction="sum"), Sample(Array((2,)), 1.0, reduction="none")),
    ),
    _pairwise(
        "l1_loss",
        "Absolute differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``; the gradient where there is none is 0.",
        lambda k, x, y: k.abs(k.subtract(x, y)),
        _sign,
        _negated(_sign),
        lambda np, x, y: np.abs(x - y),
        _plain("l1_loss"),
        (Sample(_X, _Y), Sample(_X, Array(()), reduction="sum"), Sample(Array((2,)), 2.5, reduction="none")),
    ),
    _pairwise(
        "huber_loss",
        "Half the squared difference up to `delta`, then ``delta * (|difference| - delta / 2)`` (Huber 1964), reduced "
        "by ``'mean'``, ``'sum'`` or ``'none'``.",
        _huber,
        lambda k, x, y, *, delta: _clipped(k, x, y, delta),
        lambda k, x, y, *, delta: k.negative(_clipped(k, x, y, delta)),
        lambda np, x, y, delta=1.0: np.where(
            np.abs(x - y) <= delta, 0.5 * (x - y) ** 2, delta * (np.abs(x - y) - delta / 2)
        ),
        _huber_parameters,
        (Sample(_X, _Y), Sample(_X, Array(()), reduction="sum", delta=0.5), Sample(_X, _X, reduction="none")),
    ),
    _pairwise(
        "kl_div",
        "``y * (log(y) - x)`` of log-probabilities `x` and probabilities `y` (their logarithms with `log_target`): the "
        "Kullback-Leibler divergence, reduced by ``'mean'``, ``'sum'``, ``'batchmean'`` (the sum over the length of "
        "the first axis) or ``'none'``.",
        _kl,
        lambda k, x, y, *, log_target: k.negative(k.exp(y) if log_target else k.add(y, 0)),
        _kl_target_slope,
        _kl_reference,
        _kl_parameters,
        (Sample(_X, _Y), Sample(_X, _Y, reduction="batchmean"), Sample(_X, _X, log_target=True, reduction="none")),
    ),
)


# ── binary classification ────────────────────────────────────────────────────────────────────────────────────


def _bce_parameters(
    x: Any, y: Any, /, weight: Any = None, pos_weight: Any = None, *, reduction: str = "mean"
) -> dict[str, Any]:
    check_reduction("binary_cross_entropy_with_logits", reduction)
    _shapes("binary_cross_entropy_with_logits", x, y)
    return {"reduction": reduction}


def _tails(k: Table, x: Any) -> tuple[Any, Any]:
    """``softplus(-x)`` and ``softplus(x)``: minus the logarithms of ``sigmoid(x)`` and of the rest."""
    common = k.log1p(k.exp(k.negative(k.abs(x))))
    return k.add(common, k.maximum(k.negative(x), 0)), k.add(common, k.maximum(x, 0))


def _rest(k: Table, y: Any) -> Any:
    return 1 - y if is_scalar(y) else k.subtract(1, y)


def _bce_losses(k: Table, x: Any, y: Any, pos_weight: Any) -> Any:
    if_true, if_false = _tails(k, x)
    return k.add(times(k, k.multiply(if_true, y), pos_weight), k.multiply(if_false, _rest(k, y)))


@in_float32
def _bce(k: Table, x: Any, y: Any, weight: Any, pos_weight: Any, *, reduction: str) -> Any:
    """``pos_weight y softplus(-x) + (1 - y) softplus(x)``: confident logits neither overflow nor lose their digits."""
    return _reduce(k, times(k, _bce_losses(k, x, y, pos_weight), weight), reduction)


def _bce_rule(slope: Function) -> Function:
    """A rule from a slope ``(k, x, y, weight, pos_weight)`` of the losses before reduction."""

    @in_float32
    def rule(k: Table, g: Any, out: Any, x: Any, y: Any, weight: Any, pos_weight: Any, *, reduction: str) -> Any:
        slopes = slope(k, x, y, weight, pos_weight)
        losses = broadcast_shapes("", *(getattr(each, "shape", ()) for each in (x, y, weight, pos_weight)))
        return k.multiply(g, k.multiply(slopes, 1 / _divisor(losses, reduction)))

    return rule


def _bce_x(k: Table, x: Any, y: Any, weight: Any, pos_weight: Any) -> Any:
    """``(1 - y) sigmoid(x) - pos_weight y sigmoid(-x)``."""
    missed = times(k, k.multiply(k.sigmoid(k.negative(x)), y), pos_weight)
    return times(k, k.subtract(k.multiply(k.sigmoid(x), _rest(k, y)), missed), weight)


def _bce_y(k: Table, x: Any, y: Any, weight: Any, pos_weight: Any) -> Any:
    if_true, if_false = _tails(k, x)
    return times(k, k.subtract(times(k, if_true, pos_weight), if_false), weight)


def _bce_pos_weight(k: Table, x: Any, y: Any, weight: Any, pos_weight: Any) -> Any:
    return times(k, k.multiply(_tails(k, x)[0], y), weight)


def _bce_reference(np: Any, x: Any, y: Any, weight: Any, pos_weight: Any, reduction: str = "mean") -> Any:
    p = 1 / (1 + np.exp(-x))
    return _REDUCTIONS[reduction](np, -weight * (pos_weight * y * np.log(p) + (1 - y) * np.log(1 - p)))


OPS = (
    *PAIRWISE,
    Op(
        "binary_cross_entropy_with_logits",
        "``-pos_weight * y * log(p) - (1 - y) * log(1 - p)`` with ``p = sigmoid(x)``, times `weight`, reduced by "
        "``'mean'``, ``'sum'`` or ``'none'``.",
        operands=4,
        autocast="float32",
        optional=(1.0, 1.0),
        parameters=_bce_parameters,
        accepts=REAL_FLOATING,
        gradient=(
            _bce_rule(_bce_x),
            _bce_rule(_bce_y),
            _bce_rule(lambda k, x, y, weight, pos_weight: _bce_losses(k, x, y, pos_weight)),
            _bce_rule(_bce_pos_weight),
        ),
        compose=_bce,
        samples=(
            Sample(Array((2, 3)), Array((2, 3), 0.05, 0.95), 1.0, 1.0),
            Sample(Array((2, 3)), Array((2, 3), 0.05, 0.95), Array((3,), 0.5), Array((3,), 0.5), reduction="sum"),
            Sample(Array((3,)), 1.0, 1.0, 1.0, reduction="none"),
        ),
        reference=_bce_reference,
    ),
)
