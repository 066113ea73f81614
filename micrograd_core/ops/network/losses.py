"""Losses, reduced by ``'mean'``, ``'sum'`` or ``'none'``.

Each is a row: its terms, and their slopes by prediction, target and weights where it pays to write them by hand. Those
that know classes, `cross_entropy` and `nll_loss`, are ``-sum(shares * weight * log_p)`` over classes, with the `shares`
that the targets give to each class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial, wraps
from typing import Any

from micrograd_core.dtypes import dtype as as_dtype, int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_core.ops.record import FLOATING, INTEGER, Array, Handle, Op, Operand, Sample, Table, settings
from micrograd_core.ops.shared import by_channel, check_reduction, in_float32, is_scalar, network, positions, times
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

    def rule(slope: Function) -> Function:
        @in_float32
        def apply(k: Table, g: Handle, out: Handle, *operands: Operand, reduction: str, **params: Any) -> Handle:
            slopes, shapes = slope(k, *operands, **params), {tuple(x.shape) for x in operands if not is_scalar(x)}
            shape = shapes.pop() if len(shapes) == 1 else broadcast_shapes(name, *shapes)
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

    facts["parameters"] = settings(name, value, len(facts.get("optional", ())), refuses, reduction="mean")
    if slopes:
        facts |= {"gradient": tuple(map(rule, slopes)), "tangent": tangent}
    return network(name, compose=compose, autocast="float32", **facts)


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
_alike = partial(loss, check=_one_shape)

OPS: tuple[Op, ...] = (
    _alike(
        "mse_loss",
        lambda k, x, y: k.square(k.subtract(x, y)),
        _opposite(lambda k, x, y: k.multiply(k.subtract(x, y), 2)),
        doc="Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``.",
        samples=(Sample(_X, _X), Sample(_X, (), reduction="sum"), Sample((2,), 1.0, reduction="none")),
    ),
    _alike(
        "l1_loss",
        lambda k, x, y: k.abs(k.subtract(x, y)),
        _opposite(lambda k, x, y: k.sign(k.subtract(x, y))),
        doc=(
            "Absolute differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``; the gradient where there is none "
            "is 0."
        ),
        samples=(Sample(_X, _Y), Sample(_X, (), reduction="sum"), Sample((2,), 2.5, reduction="none")),
    ),
    loss(
        "huber_loss",
        _huber,
        _opposite(_clipped),
        check=_check_huber,
        samples=(Sample(_X, _Y), Sample(_X, (), reduction="sum", delta=0.5), Sample(_X, _X, reduction="none")),
    ),
    _alike(
        "kl_div",
        _kl,
        (lambda k, x, y, *, log_target: k.negative(k.exp(y) if log_target else k.add(y, 0)), _kl_target_slope),
        reductions=("batchmean",),
        samples=(
            Sample(_X, _Y),
            Sample(_X, _Y, reduction="batchmean"),
            Sample(_X, _X, log_target=True, reduction="none"),
        ),
    ),
    _alike(
        "binary_cross_entropy_with_logits",
        _bce,
        (_bce_x, _bce_y, lambda k, x, y, weight, pos_weight: _bce(k, x, y, 1.0, pos_weight), _bce_pos_weight),
        optional=(1.0, 1.0),
        samples=(
            Sample(_X, _Y, 1.0, 1.0),
            Sample(_X, _Y, Array((3,), 0.5), Array((3,), 0.5), reduction="sum"),
            Sample((3,), 1.0, 1.0, 1.0, reduction="none"),
        ),
    ),
)


# ── of classes ────────────────────────────────────────────────────────────────────────────────────────────────────


IGNORED = -100  # PyTorch's default for `ignore_index`


def _class_axis(shape: Shape) -> int:
    return 1 if len(shape) > 1 else 0


def _check_classes(op: str, logits: Any, targets: Any, weight: Any) -> None:
    if not logits.shape:
        raise ShapeError(f"{op}: the first operand needs an axis of classes; got a 0-d tensor")
    axis = _class_axis(logits.shape)
    shape, dtype = getattr(targets, "shape", ()), getattr(targets, "dtype", None)
    dtype = dtype if dtype is None else as_dtype(dtype)
    positions = logits.shape[:axis] + logits.shape[axis + 1 :]
    floating = isinstance(targets, float) if dtype is None else dtype.is_floating
    probabilities = floating and op != "nll_loss"
    refused = dtype is not None and not (floating or dtype.is_integer)  # by `accepts`
    if not refused and shape != (logits.shape if probabilities else positions):
        or_probabilities = "" if op == "nll_loss" else f", or floating probabilities of shape {logits.shape}"
        raise ShapeError(
            f"{op}: {dtype or type(targets).__name__} targets of shape {shape} do not fit logits of shape "
            f"{logits.shape}: they hold one integer class index for each position, without axis {axis}: "
            f"{positions}{or_probabilities}"
        )
    if getattr(weight, "shape", ()) not in ((), logits.shape[axis : axis + 1]):
        raise ShapeError(
            f"{op}: weight of shape {weight.shape} does not fit logits of shape {logits.shape}; "
            f"there is one number for each of the {logits.shape[axis]} classes (axis {axis})"
        )


def _refuse(name: str, *operands: Any, reduction: str, label_smoothing: float = 0.0, **params: Any) -> None:
    check_reduction(name, reduction)
    _check_classes(name, *operands)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing is between 0 and 1; got {label_smoothing}")


class Aim:
    """What a loss of logits aims at: targets, class weights and parameters, as the formulas want them.

    Class indices become int64, with an axis of length 1 for the classes; what follows from them is computed when it is
    first asked for, and once.
    """

    def __init__(
        self, k: Table, logits: Handle, targets: Handle, weight: Handle, *, ignore_index: int, reduction: str,
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        self.k, self.logits, self.targets, self.weight = k, logits, targets, weight
        self.ignore_index, self.reduction, self.smoothing = ignore_index, reduction, label_smoothing
        self.axis = _class_axis(logits.shape)
        self.classes = logits.shape[self.axis]
        self.has_indices = k.dtype(targets).is_integer
        if self.has_indices:
            wide = targets if k.dtype(targets) is int64 else k.astype(targets, dtype=int64)  # uint8 does not hold -100
            self.indices = k.expand_dims(wide, axis=(self.axis,))

    @cached_property
    def is_own(self) -> Any:
        """Whether a class is its position's target."""
        return self.k.equal(self.indices, positions(self.k, self.logits, self.axis))

    @cached_property
    def own(self) -> Any:
        """1 at each position's target class and 0 elsewhere, in the dtype of the logits."""
        return self.k.astype(self.is_own, dtype=self.logits.dtype)

    @cached_property
    def nowhere(self) -> Any:
        """Where indices name no class."""
        return self.k.bitwise_or(self.k.less(self.indices, 0), self.k.greater_equal(self.indices, self.classes))

    @cached_property
    def counted(self) -> Any:
        """0 where a position is ignored, NaN where its index names no class, else 1."""
        one = self.k.full(shape=(), fill_value=1, dtype=self.logits.dtype)
        named = self.k.where(self.nowhere, math.nan, one)
        return self.k.where(self.k.equal(self.indices, self.ignore_index), 0, named)

    def by_class(self, x: Any) -> Any:
        """The product with the class weights, along the axis of the classes."""
        return times(self.k, x, by_channel(self.k, self.weight, len(self.logits.shape), self.axis))

    def shares(self) -> Any:
        """The distribution over classes at each position: 0 where it is ignored, NaN where its index names none."""
        shares = self.own if self.has_indices else self.k.astype(self.targets, dtype=self.logits.dtype)
        if self.smoothing:
            shares = self.k.add(self.k.multiply(shares, 1 - self.smoothing), self.smoothing / self.classes)
        return self.k.multiply(shares, self.counted) if self.has_indices else shares

    def sum_of_shares(self, shares: Any) -> Any:
        """Over the classes. Without weights of classes that is known."""
        if self.has_indices and is_scalar(self.weight):
            return times(self.k, self.counted, self.weight)
        return self.k.sum(shares, axis=(self.axis,), keepdims=True)

    def own_shares(self) -> Any:
        """1 at each position's target class, and 0 elsewhere, also where it is ignored or names no class."""
        if 0 <= self.ignore_index < self.classes:
            return self.k.where(self.k.equal(self.indices, self.ignore_index), 0, self.own)
        return self.own

    def total(self) -> Any:
        """What a mean divides by: the number of positions, or for indices the weight of those not ignored."""
        if self.reduction != "mean":
            return 1
        if not self.has_indices:
            shape = self.logits.shape
            return math.prod(shape[: self.axis] + shape[self.axis + 1 :]) or math.nan
        if is_scalar(self.weight):
            counted = self.k.where(self.nowhere, 0, self.counted)
            return times(self.k, self.k.sum(counted, axis=None, keepdims=False), self.weight)
        return self.k.sum(self.by_class(self.own_shares()), axis=None, keepdims=False)

    def spread(self, g: Any) -> Any:
        """The cotangent of each position's loss, to be broadcast over classes; where no position counts it is 0."""
        if self.reduction == "none":
            return self.k.expand_dims(g, axis=(self.axis,))
        total = self.total()
        if is_scalar(total):
            return g if total == 1 else self.k.divide(g, total)
        return self.k.divide(g, self.k.where(self.k.equal(total, 0), 1, total))  # nothing is multiplied with it then

    def loss(self, log_p: Any, total: Any) -> Any:
        """``-sum(shares * weight * log_p)`` over classes, reduced; what has no share adds nothing."""
        shares = self.by_class(self.shares())
        terms = self.k.multiply(shares, self.k.where(self.k.equal(shares, 0), 0, log_p))
        if self.reduction == "none":
            return self.k.subtract(0, self.k.sum(terms, axis=(self.axis,), keepdims=False))  # 0.0 of what is ignored
        whole = self.k.sum(terms, axis=None, keepdims=False)
        return self.k.divide(whole, -total if is_scalar(total) else self.k.negative(total))

    def by_weight(self, g: Any, out: Any, log_p: Any) -> Any:
        """Each class's part of the loss; less, for the mean over indices, its part of what the sum was divided by."""
        shares = self.shares()
        parts = self.k.multiply(shares, self.k.where(self.k.equal(shares, 0), 0, self.k.negative(log_p)))
        if self.reduction == "mean" and self.has_indices:
            parts = self.k.subtract(parts, self.k.multiply(self.own_shares(), out))
        parts = self.k.multiply(parts, self.spread(g))
        others = tuple(each for each in range(len(log_p.shape)) if each != self.axis)
        return self.k.sum(parts, axis=others if self.weight.shape else None, keepdims=False)


@in_float32
def _nll(k: Table, log_probabilities: Handle, targets: Handle, weight: Any, **params: Any) -> Any:
    """Minus the log-probability ``x`` of integer class `targets`: what `cross_entropy` does after `log_softmax`.

    Classes lie along axis 1, or along axis 0 of 1-d operands. The parameters are those of `cross_entropy`.
    """
    aim = Aim(k, log_probabilities, targets, weight, **params)
    return aim.loss(log_probabilities, aim.total())


@in_float32
def _nll_rule(k: Table, g: Handle, out: Handle, log_p: Handle, targets: Handle, weight: Any, **params: Any) -> Handle:
    aim = Aim(k, log_p, targets, weight, **params)
    if not is_scalar(weight):
        return k.multiply(k.negative(aim.by_class(aim.shares())), aim.spread(g))
    slope = k.multiply(k.negative(times(k, aim.counted, weight)), aim.spread(g))
    return k.where(aim.is_own, slope, k.multiply(slope, 0))  # NaN where an index names no class


@in_float32
def _nll_weight_rule(k: Table, g: Handle, out: Any, log_p: Handle, targets: Handle, weight: Any, **params: Any) -> Any:
    return Aim(k, log_p, targets, weight, **params).by_weight(g, out, log_p)


@in_float32
def _cross_entropy(k: Table, logits: Handle, targets: Handle, weight: Any, **params: Any) -> Any:
    """Minus the log-probability that logits give to `targets`.

    Classes lie along axis 1 of the logits, or along axis 0 of 1-d ones. Targets are integer class indices, or
    probabilities of the shape of the logits. `weight` has a number for each class; positions whose index is
    `ignore_index` do not count; `label_smoothing` mixes the targets with equal probabilities (Szegedy et al. 2016).
    Reduced by ``'mean'`` (for indices weighted; NaN, with gradient 0, if none counts), ``'sum'`` or ``'none'``. A
    target that names no class raises ``IndexError`` on devices that can tell at once, and gives NaN on others.
    """
    aim = Aim(k, logits, targets, weight, **params)
    total = aim.total()  # first, so that loops over the logits may use it
    return aim.loss(k.log_softmax(logits, axis=aim.axis), total)


@in_float32
def _cross_entropy_gradient(k: Table, g: Handle, logits: Handle, targets: Handle, weight: Any, **params: Any) -> Handle:
    """The vector-Jacobian product of `cross_entropy` by its logits, with the cotangent ``x1``."""
    aim = Aim(k, logits, targets, weight, **params)
    share = aim.spread(g)
    shares = aim.by_class(aim.shares())
    # softmax(logits) * sum(shares) - shares at each position
    error = k.multiply(k.softmax(logits, axis=aim.axis), aim.sum_of_shares(shares))
    return k.multiply(k.subtract(error, shares), share)


@in_float32
def _cross_entropy_target(k: Table, g: Handle, out: Any, logits: Any, targets: Any, weight: Any, **params: Any) -> Any:
    """Of target probabilities: minus the weighted log-probabilities."""
    aim = Aim(k, logits, targets, weight, **params)
    log_p = k.log_softmax(logits, axis=aim.axis)
    share = aim.spread(g)
    slope = k.multiply(aim.by_class(log_p), aim.smoothing - 1)
    return k.astype(k.multiply(slope, share), dtype=targets.dtype)


@in_float32
def _cross_entropy_weight(k: Table, g: Handle, out: Any, logits: Any, targets: Any, weight: Any, **params: Any) -> Any:
    log_p = k.log_softmax(logits, axis=_class_axis(logits.shape))
    return Aim(k, logits, targets, weight, **params).by_weight(g, out, log_p)


# ── references ───────────────────────────────────────────────────────────────────────────────────────────────


_SETTINGS: dict[str, Any] = {"ignore_index": IGNORED, "label_smoothing": 0.0, "reduction": "mean"}
_LOGITS, _CLASSES, _WEIGHT = Array((4, 3)), Array((4,), 0, 3, "int64"), Array((3,), 0.5, 1.5)
_IMAGE, _PIXELS = Array((2, 3, 2)), Array((2, 2), 0, 3, "int64")
_of_classes = partial(Op, autocast="float32", optional=(1.0,), separate=(1,))

OPS += (
    _of_classes(
        "cross_entropy",
        parameters=settings("cross_entropy", _cross_entropy, 1, _refuse, **_SETTINGS),
        accepts=(FLOATING, INTEGER | FLOATING, FLOATING),
        gradient=(
            lambda k, g, out, logits, targets, weight, **params: k.cross_entropy_gradient(
                g, logits, targets, weight, **params
            ),
            _cross_entropy_target,
            _cross_entropy_weight,
        ),
        compose=_cross_entropy,
        samples=(
            Sample(_LOGITS, _CLASSES, 1.0),
            Sample(_LOGITS, _CLASSES, _WEIGHT, reduction="sum"),
            Sample(_LOGITS, _CLASSES, _WEIGHT, ignore_index=1, label_smoothing=0.1),
            Sample(_IMAGE, _PIXELS, 1.0, reduction="none"),
            Sample(_LOGITS, Array((4, 3), 0.1, 0.9), _WEIGHT, label_smoothing=0.2),
            Sample((3,), Array((), 0, 3, "int64"), 1.0),
        ),
    ),
    Op(
        "cross_entropy_gradient",
        optional=(1.0,),
        parameters=settings(
            "cross_entropy",
            _cross_entropy_gradient,
            1,
            lambda name, g, *others, **params: _refuse(name, *others, **params),
            **_SETTINGS,
        ),
        accepts=(FLOATING, FLOATING, INTEGER | FLOATING, FLOATING),
        separate=(2,),
        compose=_cross_entropy_gradient,
        samples=(
            Sample((), _LOGITS, _CLASSES, 1.0),
            Sample((), _LOGITS, _CLASSES, _WEIGHT, reduction="sum", ignore_index=1),
            Sample((2, 2), _IMAGE, _PIXELS, _WEIGHT, reduction="none"),
        ),
    ),
    _of_classes(
        "nll_loss",
        parameters=settings("nll_loss", _nll, 1, _refuse, ignore_index=IGNORED, reduction="mean"),
        accepts=(FLOATING, INTEGER, FLOATING),
        gradient=(_nll_rule, None, _nll_weight_rule),
        compose=_nll,
        samples=(
            Sample(_LOGITS, _CLASSES, 1.0),
            Sample(_LOGITS, _CLASSES, _WEIGHT, ignore_index=1),
            Sample(_IMAGE, _PIXELS, _WEIGHT, reduction="none"),
            Sample(_LOGITS, _CLASSES, 1.0, reduction="sum"),
        ),
    ),
)
