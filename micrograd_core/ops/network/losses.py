"""Losses, reduced by ``'mean'``, ``'sum'`` or ``'none'``.

Each is a row: its terms, and their slopes by prediction, target and weights where it pays to write them by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_core.ops.record import Array, Handle, Op, Operand, Sample, Table, settings
from micrograd_core.ops.shared import check_reduction, in_float32, is_scalar, network, times
from micrograd_core.ops.tangents import total


def _reduce(k: Table, losses: Handle, reduction: str) -> Handle:
    if reduction == "none":
        return losses
    whole = (k.mean if reduction == "mean" else k.sum)(losses, axis=None, keepdims=False)
    return k.divide(whole, int(_divisor(losses.shape, reduction))) if reduction == "batchmean" else whole


def _divisor(shape: Shape, reduction: str) -> float:
    """What each loss is divided by; the mean of no losses is NaN."""
    if reduction == "batchmean":
        return (shape[0] if shape else 1) or math.nan
    return (math.prod(shape) or math.nan) if reduction == "mean" else 1


Function = Callable[..., Any]


# ── element by element ───────────────────────────────────────────────────────────────────────────────────────


def _one_shape(name: str, x: Any, y: Any, *weights: Any, **params: Any) -> None:
    """Refuse two operands of different shapes, of which none is a number."""
    one, other = getattr(x, "shape", ()), getattr(y, "shape", ())
    if one != other and one != () and other != ():
        raise ShapeError(f"{name}: shapes {one} and {other} must be equal; reshape one of them")


def check_broadcast(name: str, *operands: Any, **params: Any) -> None:
    """Refuse operands that don't broadcast."""
    broadcast_shapes(name, *(tuple(getattr(each, "shape", ())) for each in operands))


def loss(
    name: str, value: Function, slopes: tuple[Function, ...] = (), *, check: Function = check_broadcast,
    reductions: tuple[str, ...] = (), **facts: Any,
) -> Op:  # fmt: skip
    """A loss whose terms are a function ``(k, *operands, **parameters)``, and so are its slopes by each operand.

    Without slopes the composition is differentiated. `check` refuses what the loss is not defined for, called with the
    name, the operands and the parameters; `reductions` are those beside the usual ones.
    """

    def refuses(name: str, *operands: Any, reduction: str, **params: Any) -> None:
        if reduction not in ("mean", "sum", "none"):
            check_reduction(name, reduction, *reductions)
        check(name, *operands, **params)

    def whole(operands: tuple[Any, ...]) -> Shape:
        shapes = {tuple(each.shape) for each in operands if not is_scalar(each)}
        return shapes.pop() if len(shapes) == 1 else broadcast_shapes(name, *shapes)

    def rule(slope: Function) -> Function:
        @in_float32
        def apply(k: Table, g: Handle, out: Handle, *operands: Operand, reduction: str, **params: Any) -> Handle:
            slopes, shape = slope(k, *operands, **params), whole(operands)
            slopes = slopes if slopes.shape == shape else k.broadcast_to(slopes, shape=shape)
            divisor = _divisor(shape, reduction)
            return k.multiply(g, slopes if divisor == 1 else k.multiply(slopes, 1 / divisor))

        return apply

    @in_float32
    @wraps(value)
    def compose(k: Table, *operands: Handle, reduction: str, **params: Any) -> Handle:
        return _reduce(k, value(k, *operands, **params), reduction)

    def tangent(op: Op, k: Table, tangents: Any, out: Handle, *operands: Any, reduction: str, **params: Any) -> Handle:
        pairs = zip(tangents, slopes, strict=True)
        along = total(k, (k.multiply(slope(k, *operands, **params), t) for t, slope in pairs if t is not None))
        return _reduce(k, along, reduction)

    made: dict[str, Any] = {"compose": compose, "autocast": "float32"}
    made["parameters"] = settings(name, value, len(facts.get("optional", ())), refuses, reduction="mean")
    if slopes:
        made |= {"gradient": tuple(map(rule, slopes)), "tangent": tangent}
    return network(name, **{**made, **facts})


def _opposite(slope: Function) -> tuple[Function, Function]:
    """The slopes of what depends on the difference of its operands alone."""
    return slope, lambda k, x, y, **params: k.negative(slope(k, x, y, **params))


def _check_huber(name: str, x: Any, y: Any, *, delta: float) -> None:
    if not delta > 0:
        raise ValueError(f"{name}: delta must be positive; got {delta:g}")
    _one_shape(name, x, y)


def _clipped(k: Table, x: Handle, y: Handle, delta: float) -> Handle:
    return k.maximum(k.minimum(k.subtract(x, y), delta), -delta)


def _huber(k: Table, x: Handle, y: Handle, *, delta: float = 1.0) -> Handle:
    """Half the squared difference up to `delta`, then ``delta * (|difference| - delta / 2)`` (Huber 1964).

    Reduced by ``'mean'``, ``'sum'`` or ``'none'``.
    """
    clipped = _clipped(k, x, y, delta)
    return k.multiply(clipped, k.subtract(k.subtract(x, y), k.multiply(clipped, 0.5)))


def _kl(k: Table, x: Handle, y: Handle, *, log_target: bool = False) -> Handle:
    """``y * (log(y) - x)`` of log-probabilities `x` and probabilities `y`: the Kullback-Leibler divergence.

    With `log_target` `y` are logarithms, too. Reduced by ``'mean'``, ``'sum'``, ``'batchmean'`` (the sum over the
    length of the first axis) or ``'none'``.
    """
    if log_target:
        return k.multiply(k.exp(y), k.subtract(y, x))
    positive = k.less(0, y)
    entropy = k.multiply(y, k.log(k.where(positive, y, 1)))  # 0 log(0) is 0
    return k.subtract(entropy, k.multiply(y, x))


def _kl_target_slope(k: Table, x: Handle, y: Handle, *, log_target: bool) -> Handle:
    if log_target:
        return k.multiply(k.exp(y), k.add(k.subtract(y, x), 1))
    positive = k.less(0, y)
    return k.where(positive, k.subtract(k.add(k.log(k.where(positive, y, 1)), 1), x), 0)


# ── binary classification ────────────────────────────────────────────────────────────────────────────────────


def _tails(k: Table, x: Handle) -> tuple[Any, Any]:
    """``softplus(-x)`` and ``softplus(x)``: minus the logarithms of ``sigmoid(x)`` and of the rest."""
    common = k.log1p(k.exp(k.negative(k.abs(x))))
    return k.add(common, k.maximum(k.negative(x), 0)), k.add(common, k.maximum(x, 0))


def _rest(k: Table, y: Operand) -> Operand:
    return 1 - y if is_scalar(y) else k.subtract(1, y)


def _bce(k: Table, x: Handle, y: Operand, weight: Operand, pos_weight: Operand) -> Handle:
    """``-pos_weight * y * log(p) - (1 - y) * log(1 - p)`` with ``p = sigmoid(x)``, times `weight`.

    Reduced by ``'mean'``, ``'sum'`` or ``'none'``.
    """
    if_true, if_false = _tails(k, x)  # by which confident logits neither overflow nor lose their digits
    losses = k.add(times(k, k.multiply(if_true, y), pos_weight), k.multiply(if_false, _rest(k, y)))
    return times(k, losses, weight)


def _bce_x(k: Table, x: Handle, y: Handle, weight: Handle, pos_weight: Handle) -> Handle:
    """``(1 - y) sigmoid(x) - pos_weight y sigmoid(-x)``."""
    missed = times(k, k.multiply(k.sigmoid(k.negative(x)), y), pos_weight)
    return times(k, k.subtract(k.multiply(k.sigmoid(x), _rest(k, y)), missed), weight)


def _bce_y(k: Table, x: Handle, y: Handle, weight: Handle, pos_weight: Handle) -> Handle:
    if_true, if_false = _tails(k, x)
    return times(k, k.subtract(times(k, if_true, pos_weight), if_false), weight)


def _bce_pos_weight(k: Table, x: Handle, y: Handle, weight: Handle, pos_weight: Handle) -> Handle:
    return times(k, k.multiply(_tails(k, x)[0], y), weight)


_X, _Y = Array((2, 3)), Array((2, 3), 0.05, 0.95)


OPS = (
    loss(
        "mse_loss",
        lambda k, x, y: k.square(k.subtract(x, y)),
        _opposite(lambda k, x, y: k.multiply(k.subtract(x, y), 2)),
        doc="Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``.",
        check=_one_shape,
        samples=(Sample(_X, _X), Sample(_X, Array(()), reduction="sum"), Sample(Array((2,)), 1.0, reduction="none")),
    ),
    loss(
        "l1_loss",
        lambda k, x, y: k.abs(k.subtract(x, y)),
        _opposite(lambda k, x, y: k.sign(k.subtract(x, y))),
        doc=(
            "Absolute differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``; the gradient where there is none "
            "is 0."
        ),
        check=_one_shape,
        samples=(Sample(_X, _Y), Sample(_X, Array(()), reduction="sum"), Sample(Array((2,)), 2.5, reduction="none")),
    ),
    loss(
        "huber_loss",
        _huber,
        _opposite(_clipped),
        check=_check_huber,
        samples=(Sample(_X, _Y), Sample(_X, Array(()), reduction="sum", delta=0.5), Sample(_X, _X, reduction="none")),
    ),
    loss(
        "kl_div",
        _kl,
        (lambda k, x, y, *, log_target: k.negative(k.exp(y) if log_target else k.add(y, 0)), _kl_target_slope),
        check=_one_shape,
        reductions=("batchmean",),
        samples=(
            Sample(_X, _Y),
            Sample(_X, _Y, reduction="batchmean"),
            Sample(_X, _X, log_target=True, reduction="none"),
        ),
    ),
    loss(
        "binary_cross_entropy_with_logits",
        _bce,
        (_bce_x, _bce_y, lambda k, x, y, weight, pos_weight: _bce(k, x, y, 1.0, pos_weight), _bce_pos_weight),
        check=_one_shape,
        optional=(1.0, 1.0),
        samples=(
            Sample(_X, _Y, 1.0, 1.0),
            Sample(_X, _Y, Array((3,), 0.5), Array((3,), 0.5), reduction="sum"),
            Sample(Array((3,)), 1.0, 1.0, 1.0, reduction="none"),
        ),
    ),
)
