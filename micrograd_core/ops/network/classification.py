"""Losses that know classes: `cross_entropy` and `nll_loss`.

Both are ``-sum(shares * weight * log_p)`` over classes, with the `shares` that the targets give to each class.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.network.softmax import softmax_reference
from micrograd_core.ops.record import FLOATING, INTEGER, REAL, Array, Op, Sample
from micrograd_core.ops.shared import along_axis, check_reduction, in_float32, is_scalar, times

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

REAL_FLOATING = REAL & FLOATING
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


def _cross_entropy_parameters(
    logits: Any,
    targets: Any,
    /,
    weight: Any = None,
    *,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> dict[str, Any]:
    check_reduction("cross_entropy", reduction)
    _check_classes("cross_entropy", logits, targets, weight)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing is between 0 and 1; got {label_smoothing}")
    return {"ignore_index": int(ignore_index), "label_smoothing": float(label_smoothing), "reduction": reduction}


def _nll_parameters(
    log_probabilities: Any, targets: Any, /, weight: Any = None, *, ignore_index: int = IGNORED, reduction: str = "mean"
) -> dict[str, Any]:
    check_reduction("nll_loss", reduction)
    _check_classes("nll_loss", log_probabilities, targets, weight)
    return {"ignore_index": int(ignore_index), "reduction": reduction}


class Aim:
    """Class indices as the formulas want them: int64, with an axis of length 1 for the classes.

    What follows from them is computed when it is first asked for, and once.
    """

    def __init__(self, indices: Any) -> None:
        self.indices = indices
        self._own: Any = None
        self._nowhere: Any = None
        self._counted: Any = None

    def own(self, k: Table, logits: Any) -> Any:
        """1 at each position's target class and 0 elsewhere, in the dtype of the logits."""
        if self._own is None:
            axis = _class_axis(logits.shape)
            classes = k.arange(logits.shape[axis], dtype=int64)
            if after := len(logits.shape) - axis - 1:
                classes = k.reshape(classes, shape=(logits.shape[axis],) + (1,) * after)
            self._own = k.astype(k.equal(self.indices, classes), dtype=logits.dtype)
        return self._own

    def nowhere(self, k: Table, logits: Any) -> Any:
        """Where they name no class."""
        if self._nowhere is None:
            count = logits.shape[_class_axis(logits.shape)]
            self._nowhere = k.bitwise_or(k.less(self.indices, 0), k.greater_equal(self.indices, count))
        return self._nowhere

    def counted(self, k: Table, logits: Any, ignore_index: int) -> Any:
        """0 where a position is ignored, NaN where its index names no class, else 1."""
        if self._counted is None:
            one = k.full(shape=(), fill_value=1, dtype=logits.dtype)
            named = k.where(self.nowhere(k, logits), math.nan, one)
            self._counted = k.where(k.equal(self.indices, ignore_index), 0, named)
        return self._counted


def _aim(k: Table, logits: Any, targets: Any) -> Any:
    """An `Aim` for class indices; target probabilities as they are."""
    if not k.dtype(targets).is_integer:
        return targets
    wide = targets if k.dtype(targets) is int64 else k.astype(targets, dtype=int64)  # uint8 does not hold -100
    return Aim(k.expand_dims(wide, axis=(_class_axis(logits.shape),)))


def _shares(k: Table, logits: Any, aim: Any, ignore_index: int, label_smoothing: float) -> Any:
    """The distribution over classes that is aimed at, at each position.

    All 0 where a position is ignored; NaN where its index names no class.
    """
    axis = _class_axis(logits.shape)
    if not isinstance(aim, Aim):
        return _smoothed(k, k.astype(aim, dtype=logits.dtype), label_smoothing, logits.shape[axis])
    shares = _smoothed(k, aim.own(k, logits), label_smoothing, logits.shape[axis])
    return k.multiply(shares, aim.counted(k, logits, ignore_index))


def _sum_of_shares(k: Table, shares: Any, logits: Any, aim: Any, weight: Any, ignore_index: int) -> Any:
    """Over the classes. Without weights of classes that is known."""
    if isinstance(aim, Aim) and is_scalar(weight):
        return times(k, aim.counted(k, logits, ignore_index), weight)
    return k.sum(shares, axis=(_class_axis(logits.shape),), keepdims=True)


def _own_shares(k: Table, logits: Any, aim: Aim, ignore_index: int) -> Any:
    """1 at each position's target class, and 0 elsewhere, also where it is ignored or names no class."""
    if 0 <= ignore_index < logits.shape[_class_axis(logits.shape)]:
        return k.where(k.equal(aim.indices, ignore_index), 0, aim.own(k, logits))
    return aim.own(k, logits)


def _smoothed(k: Table, shares: Any, label_smoothing: float, classes: int) -> Any:
    if not label_smoothing:
        return shares
    return k.add(k.multiply(shares, 1 - label_smoothing), label_smoothing / classes)


def _by_class(k: Table, weight: Any, logits: Any) -> Any:
    """Class weights along the axis of the classes."""
    if is_scalar(weight) or not weight.shape:
        return weight
    return k.reshape(weight, shape=along_axis(weight, _class_axis(logits.shape), len(logits.shape)))


def _total(k: Table, logits: Any, aim: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """What a mean divides by: the number of positions, or for indices the weight of those not ignored."""
    axis = _class_axis(logits.shape)
    if reduction != "mean":
        return 1
    if not isinstance(aim, Aim):
        return math.prod(logits.shape[:axis] + logits.shape[axis + 1 :]) or math.nan
    if is_scalar(weight):
        counted = k.where(aim.nowhere(k, logits), 0, aim.counted(k, logits, ignore_index))
        return times(k, k.sum(counted, axis=None, keepdims=False), weight)
    own = times(k, _own_shares(k, logits, aim, ignore_index), _by_class(k, weight, logits))
    return k.sum(own, axis=None, keepdims=False)


def _spread_cotangent(k: Table, g: Any, logits: Any, aim: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """The cotangent of each position's loss, to be broadcast over classes; where no position counts it is 0."""
    if reduction == "none":
        return k.expand_dims(g, axis=(_class_axis(logits.shape),))
    total = _total(k, logits, aim, weight, ignore_index, reduction)
    if is_scalar(total):
        return g if total == 1 else k.divide(g, total)
    return k.divide(g, k.where(k.equal(total, 0), 1, total))  # which then has nothing to be multiplied with


@in_float32
def _nll(k: Table, log_p: Any, targets: Any, weight: Any, *, ignore_index: int, reduction: str) -> Any:
    aim = _aim(k, log_p, targets)
    total = _total(k, log_p, aim, weight, ignore_index, reduction)
    return _expected(k, log_p, aim, total, weight, ignore_index, 0.0, reduction)


def _expected(
    k: Table, log_p: Any, aim: Any, total: Any, weight: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    """``-sum(shares * weight * log_p)`` over classes, reduced. What has no share adds nothing, even if impossible."""
    shares = times(k, _shares(k, log_p, aim, ignore_index, label_smoothing), _by_class(k, weight, log_p))
    terms = k.multiply(shares, k.where(k.equal(shares, 0), 0, log_p))
    if reduction == "none":
        return k.negative(k.sum(terms, axis=(_class_axis(log_p.shape),), keepdims=False))
    return k.divide(k.sum(terms, axis=None, keepdims=False), -total if is_scalar(total) else k.negative(total))


@in_float32
def _nll_rule(
    k: Table, g: Any, out: Any, log_p: Any, targets: Any, weight: Any, *, ignore_index: int, reduction: str
) -> Any:
    aim = _aim(k, log_p, targets)
    shares = times(k, _shares(k, log_p, aim, ignore_index, 0.0), _by_class(k, weight, log_p))
    share = _spread_cotangent(k, g, log_p, aim, weight, ignore_index, reduction)
    return k.multiply(k.negative(shares), share)


@in_float32
def _nll_weight_rule(
    k: Table, g: Any, out: Any, log_p: Any, targets: Any, weight: Any, *, ignore_index: int, reduction: str
) -> Any:
    return _weight_rule(k, g, out, log_p, targets, weight, ignore_index, 0.0, reduction)


def _weight_rule(
    k: Table,
    g: Any,
    out: Any,
    log_p: Any,
    targets: Any,
    weight: Any,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Any:
    """Each class's part of the loss; less, for the mean over indices, its part of what the sum was divided by."""
    axis = _class_axis(log_p.shape)
    aim = _aim(k, log_p, targets)
    shares = _shares(k, log_p, aim, ignore_index, label_smoothing)
    parts = k.multiply(shares, k.where(k.equal(shares, 0), 0, k.negative(log_p)))
    if reduction == "mean" and isinstance(aim, Aim):
        parts = k.subtract(parts, k.multiply(_own_shares(k, log_p, aim, ignore_index), out))
    parts = k.multiply(parts, _spread_cotangent(k, g, log_p, aim, weight, ignore_index, reduction))
    if not weight.shape:
        return k.sum(parts, axis=None, keepdims=False)
    others = tuple(each for each in range(len(log_p.shape)) if each != axis)
    return k.sum(parts, axis=others, keepdims=False)


@in_float32
def _cross_entropy(
    k: Table, logits: Any, targets: Any, weight: Any, *, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    aim = _aim(k, logits, targets)
    total = _total(k, logits, aim, weight, ignore_index, reduction)  # first, so that loops over the logits may use it
    log_p = k.log_softmax(logits, axis=_class_axis(logits.shape))
    return _expected(k, log_p, aim, total, weight, ignore_index, label_smoothing, reduction)


@in_float32
def _cross_entropy_gradient(
    k: Table,
    g: Any,
    logits: Any,
    targets: Any,
    weight: Any,
    *,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Any:
    """``softmax(logits) * sum(shares) - shares`` at each position."""
    axis = _class_axis(logits.shape)
    aim = _aim(k, logits, targets)
    share = _spread_cotangent(k, g, logits, aim, weight, ignore_index, reduction)
    shares = times(k, _shares(k, logits, aim, ignore_index, label_smoothing), _by_class(k, weight, logits))
    error = k.multiply(k.softmax(logits, axis=axis), _sum_of_shares(k, shares, logits, aim, weight, ignore_index))
    return k.multiply(k.subtract(error, shares), share)


@in_float32
def _cross_entropy_target(
    k: Table,
    g: Any,
    out: Any,
    logits: Any,
    targets: Any,
    weight: Any,
    *,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Any:
    """Of target probabilities: minus the weighted log-probabilities."""
    log_p = k.log_softmax(logits, axis=_class_axis(logits.shape))
    share = _spread_cotangent(k, g, logits, _aim(k, logits, targets), weight, ignore_index, reduction)
    slope = k.multiply(times(k, log_p, _by_class(k, weight, logits)), label_smoothing - 1)
    return k.astype(k.multiply(slope, share), dtype=targets.dtype)


@in_float32
def _cross_entropy_weight(
    k: Table,
    g: Any,
    out: Any,
    logits: Any,
    targets: Any,
    weight: Any,
    *,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Any:
    log_p = k.log_softmax(logits, axis=_class_axis(logits.shape))
    return _weight_rule(k, g, out, log_p, targets, weight, ignore_index, label_smoothing, reduction)


def _gradient_parameters(
    g: Any,
    logits: Any,
    targets: Any,
    /,
    weight: Any = None,
    *,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> dict[str, Any]:
    return _cross_entropy_parameters(
        logits, targets, weight, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )


# ── references ───────────────────────────────────────────────────────────────────────────────────────────────


def _losses_by_definition(
    np: Any, log_p: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float
) -> tuple[Any, Any]:
    """Losses, and what a mean divides by, position by position."""
    axis = _class_axis(log_p.shape)
    classes = log_p.shape[axis]
    rows, weights = np.moveaxis(log_p, axis, -1), np.broadcast_to(np.asarray(weight, "d"), (classes,))
    indices = targets.ndim < log_p.ndim
    losses, totals = np.zeros(rows.shape[:-1]), np.ones(rows.shape[:-1])
    for position in np.ndindex(*rows.shape[:-1]):
        if indices and targets[position] == ignore_index:
            totals[position] = 0
            continue
        aim = np.eye(classes)[targets[position]] if indices else np.moveaxis(targets, axis, -1)[position]
        if indices:
            totals[position] = weights[targets[position]]
        aim = aim * (1 - label_smoothing) + label_smoothing / classes
        losses[position] = -np.sum(aim * weights * rows[position])
    return losses, np.sum(totals)


def _nll_reference(
    np: Any, x: Any, targets: Any, weight: Any, ignore_index: int = IGNORED, reduction: str = "mean"
) -> Any:
    losses, total = _losses_by_definition(np, x, targets, weight, ignore_index, 0.0)
    return {"mean": np.sum(losses) / total, "sum": np.sum(losses), "none": losses}[reduction]


def _cross_entropy_reference(
    np: Any,
    logits: Any,
    targets: Any,
    weight: Any,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    log_p = np.log(softmax_reference(np, logits, _class_axis(logits.shape)))
    losses, total = _losses_by_definition(np, log_p, targets, weight, ignore_index, label_smoothing)
    return {"mean": np.sum(losses) / total, "sum": np.sum(losses), "none": losses}[reduction]


def _gradient_reference(
    np: Any, g: Any, logits: Any, targets: Any, weight: Any, reduction: str = "mean", ignore_index: int = IGNORED
) -> Any:
    """Of plain class indices."""
    axis = _class_axis(logits.shape)
    aim = np.moveaxis(np.eye(logits.shape[axis])[targets], -1, axis)
    weight = np.reshape(weight, (-1, *(1,) * (logits.ndim - axis - 1)))
    own = np.sum(aim * weight, axis=axis, keepdims=True) * np.expand_dims(targets != ignore_index, axis)
    g = np.expand_dims(g, axis) if reduction == "none" else g / (np.sum(own) if reduction == "mean" else 1)
    return (softmax_reference(np, logits, axis) - aim) * own * g


_LOGITS, _CLASSES, _WEIGHT = Array((4, 3)), Array((4,), 0, 3, "int64"), Array((3,), 0.5, 1.5)
_IMAGE, _PIXELS = Array((2, 3, 2)), Array((2, 2), 0, 3, "int64")

OPS = (
    Op(
        "cross_entropy",
        "Minus the log-probability that logits (classes along axis 1; axis 0 if 1-d) give to `targets`: integer class "
        "indices, or probabilities of the shape of the logits. `weight` has a number for each class; positions whose "
        "index is `ignore_index` do not count; `label_smoothing` mixes the targets with equal probabilities (Szegedy "
        "et al. 2016). Reduced by ``'mean'`` (for indices weighted; NaN, with gradient 0, if none counts), ``'sum'`` "
        "or ``'none'``. A target that names no class raises ``IndexError`` on devices that can tell at once, and gives "
        "NaN on others.",
        autocast="float32",
        operands=3,
        optional=(1.0,),
        parameters=_cross_entropy_parameters,
        accepts=(REAL_FLOATING, INTEGER | REAL_FLOATING, REAL_FLOATING),
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
        reference=_cross_entropy_reference,
    ),
    Op(
        "cross_entropy_gradient",
        "The vector-Jacobian product of `cross_entropy` by its logits, with the cotangent ``x1``.",
        operands=4,
        optional=(1.0,),
        parameters=_gradient_parameters,
        accepts=(REAL_FLOATING, REAL_FLOATING, INTEGER | REAL_FLOATING, REAL_FLOATING),
        separate=(2,),
        compose=_cross_entropy_gradient,
        samples=(
            Sample(Array(()), _LOGITS, _CLASSES, 1.0),
            Sample(Array(()), _LOGITS, _CLASSES, _WEIGHT, reduction="sum", ignore_index=1),
            Sample(Array((2, 2)), _IMAGE, _PIXELS, _WEIGHT, reduction="none"),
        ),
        reference=_gradient_reference,
    ),
    Op(
        "nll_loss",
        "Minus the log-probability ``x`` of integer class `targets` (classes along axis 1; axis 0 if 1-d): what "
        "`cross_entropy` does after `log_softmax`, with the same parameters.",
        autocast="float32",
        operands=3,
        optional=(1.0,),
        parameters=_nll_parameters,
        accepts=(REAL_FLOATING, INTEGER, REAL_FLOATING),
        separate=(1,),
        gradient=(_nll_rule, None, _nll_weight_rule),
        compose=_nll,
        samples=(
            Sample(_LOGITS, _CLASSES, 1.0),
            Sample(_LOGITS, _CLASSES, _WEIGHT, ignore_index=1),
            Sample(_IMAGE, _PIXELS, _WEIGHT, reduction="none"),
            Sample(_LOGITS, _CLASSES, 1.0, reduction="sum"),
        ),
        reference=_nll_reference,
    ),
)
