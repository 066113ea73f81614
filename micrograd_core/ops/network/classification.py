"""Losses that know classes: `cross_entropy` and `nll_loss`.

Both are ``-sum(shares * weight * log_p)`` over classes, with the `shares` that the targets give to each class.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.record import FLOATING, INTEGER, Array, Handle, Op, Sample, Table, settings
from micrograd_core.ops.shared import by_channel, check_reduction, in_float32, is_scalar, times

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
    def own(self) -> Any:
        """1 at each position's target class and 0 elsewhere, in the dtype of the logits."""
        classes = self.k.arange(self.classes, dtype=int64)
        if after := len(self.logits.shape) - self.axis - 1:
            classes = self.k.reshape(classes, shape=(self.classes,) + (1,) * after)
        return self.k.astype(self.k.equal(self.indices, classes), dtype=self.logits.dtype)

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
    return k.multiply(k.negative(aim.by_class(aim.shares())), aim.spread(g))


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

OPS = (
    Op(
        "cross_entropy",
        autocast="float32",
        optional=(1.0,),
        parameters=settings("cross_entropy", _cross_entropy, 1, _refuse, **_SETTINGS),
        accepts=(FLOATING, INTEGER | FLOATING, FLOATING),
        separate=(1,),
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
            Sample(Array((3,)), Array((), 0, 3, "int64"), 1.0),
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
            Sample(Array(()), _LOGITS, _CLASSES, 1.0),
            Sample(Array(()), _LOGITS, _CLASSES, _WEIGHT, reduction="sum", ignore_index=1),
            Sample(Array((2, 2)), _IMAGE, _PIXELS, _WEIGHT, reduction="none"),
        ),
    ),
    Op(
        "nll_loss",
        autocast="float32",
        optional=(1.0,),
        parameters=settings("nll_loss", _nll, 1, _refuse, ignore_index=IGNORED, reduction="mean"),
        accepts=(FLOATING, INTEGER, FLOATING),
        separate=(1,),
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
