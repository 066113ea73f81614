"""Matrix product, softmaxes and losses."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.dtypes import int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes, resolve_axis
from micrograd_core.ops.record import FLOATING, INTEGER, NUMERIC, Array, Op, Sample

# ── matmul ───────────────────────────────────────────────────────────────────────────────────────────────────


def _check_matmul(op: str, x: Shape, y: Shape) -> None:
    if not x or not y:
        raise ShapeError(f"{op}: shapes {x} and {y}: a 0-d operand cannot be matrix-multiplied; use *")
    inner = y[-2] if len(y) > 1 else y[0]
    if x[-1] != inner:
        raise ShapeError(
            f"{op}: shapes {x} and {y} do not fit: the last axis of the first ({x[-1]}) "
            f"must equal the {'second to last' if len(y) > 1 else 'only'} axis of the second ({inner})"
        )
    broadcast_shapes(op, x[:-2], y[:-2])


def _swap(k: Any, x: Any) -> Any:
    """The matrix transpose: the last two axes exchanged."""
    ndim = len(x.shape)
    return k.permute_dims(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def _column(k: Any, x: Any) -> Any:
    return k.reshape(x, shape=(*x.shape, 1))


def _row(k: Any, x: Any) -> Any:
    return k.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def _matmul(k: Any, x: Any, y: Any) -> Any:
    """``sum_j x[..., i, j] * y[..., j, l]``, with vectors as a row and a column."""
    _check_matmul("matmul", x.shape, y.shape)
    if len(y.shape) == 1:
        return k.sum(k.multiply(x, y), axis=(len(x.shape) - 1,), keepdims=False)
    terms = k.multiply(_column(k, x), y if len(x.shape) == 1 else k.expand_dims(y, axis=(len(y.shape) - 2,)))
    return k.sum(terms, axis=(len(terms.shape) - 2,), keepdims=False)


def _matmul_left(k: Any, g: Any, out: Any, x: Any, y: Any) -> Any:
    """``g @ y.T``."""
    if len(y.shape) == 1:
        return k.multiply(_column(k, g) if len(x.shape) > 1 else g, y)
    if len(x.shape) == 1:
        return k.sum(k.multiply(y, _row(k, g)), axis=(len(y.shape) - 1,), keepdims=False)
    return k.matmul(g, _swap(k, y))


def _matmul_right(k: Any, g: Any, out: Any, x: Any, y: Any) -> Any:
    """``x.T @ g``."""
    if len(y.shape) == 1:
        return k.multiply(x, _column(k, g) if len(x.shape) > 1 else g)
    if len(x.shape) == 1:
        return k.multiply(_column(k, x), _row(k, g))
    if len(y.shape) == 2 < len(x.shape):  # one matrix for the whole batch: one product, not a batch of them to sum
        x = k.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
        g = k.reshape(g, shape=(math.prod(g.shape[:-1]), g.shape[-1]))
    return k.matmul(_swap(k, x), g)


# ── linear ───────────────────────────────────────────────────────────────────────────────────────────────────


def _check_linear(op: str, x: Shape, weight: Shape, bias: Shape) -> None:
    if not x or len(weight) != 2 or x[-1] != weight[1] or bias not in ((), weight[:1]):
        raise ShapeError(
            f"{op}: shapes {x}, {weight} and {bias} do not fit (..., inputs), (outputs, inputs) and (outputs,)"
        )


def _linear_weight(k: Any, g: Any, out: Any, x: Any, weight: Any, bias: Any) -> Any:
    """``g.T @ x``: in the weight's own order, so that neither it nor the update has to be transposed."""
    rows = (math.prod(x.shape[:-1]), x.shape[-1])
    return k.matmul(_swap(k, k.reshape(g, shape=(rows[0], g.shape[-1]))), k.reshape(x, shape=rows))


# ── softmax ──────────────────────────────────────────────────────────────────────────────────────────────────


def _axis(name: str) -> Any:
    def parameters(x: Any, /, *, axis: int = -1) -> dict[str, Any]:
        return {"axis": resolve_axis(name, axis, len(x.shape))}

    return parameters


def _softmax(k: Any, x: Any, *, axis: int) -> Any:
    if 0 in x.shape:
        return k.copy(x)
    e = k.exp(k.subtract(x, k.max(x, axis=(axis,), keepdims=True)))
    return k.divide(e, k.sum(e, axis=(axis,), keepdims=True))


def _softmax_rule(k: Any, g: Any, out: Any, x: Any, *, axis: int) -> Any:
    weighted = k.multiply(g, out)
    return k.subtract(weighted, k.multiply(out, k.sum(weighted, axis=(axis,), keepdims=True)))


def _log_softmax(k: Any, x: Any, *, axis: int) -> Any:
    if 0 in x.shape:
        return k.copy(x)
    shifted = k.subtract(x, k.max(x, axis=(axis,), keepdims=True))
    return k.subtract(shifted, k.log(k.sum(k.exp(shifted), axis=(axis,), keepdims=True)))


def _log_softmax_rule(k: Any, g: Any, out: Any, x: Any, *, axis: int) -> Any:
    return k.subtract(g, k.multiply(k.exp(out), k.sum(g, axis=(axis,), keepdims=True)))


def _softmax_reference(np: Any, x: Any, axis: int = -1) -> Any:
    return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)


_SOFTMAX_SAMPLES = (
    Sample(Array((0, 3)), axis=0),
    Sample(Array((2, 3))),
    Sample(Array((2, 3, 2)), axis=1),
    Sample(Array((3,)), axis=0),
)


# ── losses ───────────────────────────────────────────────────────────────────────────────────────────────────


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction is 'mean', 'sum' or 'none'; got {reduction!r}")


def _reduce(k: Any, losses: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    return (k.mean if reduction == "mean" else k.sum)(losses, axis=None, keepdims=False)


def _weight(shape: Shape, reduction: str) -> float:
    """What each loss is divided by."""
    return (math.prod(shape) or math.nan) if reduction == "mean" else 1


def _mse_parameters(x: Any, y: Any, /, *, reduction: str = "mean") -> dict[str, Any]:
    _check_reduction("mse_loss", reduction)
    shapes = [getattr(each, "shape", ()) for each in (x, y)]
    if shapes[0] != shapes[1] and () not in shapes:
        raise ShapeError(f"mse_loss: shapes {shapes[0]} and {shapes[1]} must be equal; reshape one of them")
    return {"reduction": reduction}


def _mse_rule(k: Any, g: Any, out: Any, x: Any, y: Any, *, reduction: str) -> Any:
    difference = k.subtract(x, y)
    return k.multiply(g, k.multiply(difference, 2 / _weight(difference.shape, reduction)))


def _class_axis(shape: Shape) -> int:
    return 1 if len(shape) > 1 else 0


def _cross_entropy_parameters(logits: Any, targets: Any, /, *, reduction: str = "mean") -> dict[str, Any]:
    _check_reduction("cross_entropy", reduction)
    if not logits.shape:
        raise ShapeError("cross_entropy: logits need an axis of classes; got a 0-d tensor")
    axis = _class_axis(logits.shape)
    shape = getattr(targets, "shape", ())
    if shape != logits.shape[:axis] + logits.shape[axis + 1 :]:
        raise ShapeError(
            f"cross_entropy: targets of shape {shape} do not fit logits of shape {logits.shape}: "
            f"they hold one class index for each position, without axis {axis}"
        )
    return {"reduction": reduction}


def _probability_error(k: Any, logits: Any, targets: Any) -> Any:
    """``softmax(logits) - one_hot(targets)``; NaN for an index that names no class."""
    axis = _class_axis(logits.shape)
    mask = _target_mask(k, logits, targets)
    error = k.subtract(k.softmax(logits, axis=axis), k.astype(mask, dtype=logits.dtype))
    return k.where(k.any(mask, axis=(axis,), keepdims=True), error, math.nan)


def _target_mask(k: Any, logits: Any, targets: Any) -> Any:
    """True at each position's target class."""
    axis = _class_axis(logits.shape)
    classes = k.arange(logits.shape[axis], dtype=int64)
    classes = k.reshape(classes, shape=(logits.shape[axis],) + (1,) * (len(logits.shape) - axis - 1))
    return k.equal(k.expand_dims(k.astype(targets, dtype=int64), axis=(axis,)), classes)


def _cross_entropy(k: Any, logits: Any, targets: Any, *, reduction: str) -> Any:
    """Minus the log-probability of the target; NaN for an index that names no class."""
    axis = _class_axis(logits.shape)
    mask = _target_mask(k, logits, targets)
    picked = k.sum(k.where(mask, k.log_softmax(logits, axis=axis), 0), axis=(axis,), keepdims=False)
    losses = k.where(k.any(mask, axis=(axis,), keepdims=False), k.negative(picked), math.nan)
    return _reduce(k, losses, reduction)


def _cross_entropy_rule(k: Any, g: Any, out: Any, logits: Any, targets: Any, *, reduction: str) -> Any:
    if reduction == "none":
        g = k.expand_dims(g, axis=(_class_axis(logits.shape),))
    return k.multiply(k.probability_error(logits, targets), k.divide(g, _weight(targets.shape, reduction)))


def _cross_entropy_reference(np: Any, logits: Any, targets: Any, reduction: str = "mean") -> Any:
    axis = _class_axis(logits.shape)
    log_p = logits - np.log(np.sum(np.exp(logits), axis=axis, keepdims=True))
    losses = -np.squeeze(np.take_along_axis(log_p, np.expand_dims(targets, axis), axis=axis), axis)
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](losses)


OPS = (
    Op(
        "matmul",
        "Matrix product of the last two axes, broadcast over the others; 1-d operands are a row and a column.",
        operands=2,
        accepts=NUMERIC,
        check=_check_matmul,
        gradient=(_matmul_left, _matmul_right),
        compose=_matmul,
        samples=(
            Sample(Array((2, 3)), Array((3, 4))),
            Sample(Array((3,)), Array((3,))),
            Sample(Array((2, 3)), Array((3,))),
            Sample(Array((3,)), Array((3, 2))),
            Sample(Array((2, 2, 3)), Array((3, 2))),
            Sample(Array((2, 1, 2, 3)), Array((3, 3, 2))),
            Sample(Array((3,)), Array((2, 3, 2))),
            Sample(Array((2, 2, 3)), Array((3,))),
            Sample(Array((2, 0)), Array((0, 3))),
        ),
    ),
    Op(
        "linear",
        "``x1 @ x2.T + x3``: inputs (..., i), weight (o, i) and bias (o,), or 0 for none.",
        operands=3,
        accepts=NUMERIC,
        check=_check_linear,
        gradient=(
            lambda k, g, out, x, weight, bias: k.matmul(g, weight),
            _linear_weight,
            lambda k, g, out, x, weight, bias: g,
        ),
        gradient_aliases=True,
        compose=lambda k, x, weight, bias: k.add(k.matmul(x, _swap(k, weight)), bias),
        samples=(
            Sample(Array((4, 3)), Array((2, 3)), Array((2,))),
            Sample(Array((2, 2, 3)), Array((2, 3)), Array((2,))),
            Sample(Array((3,)), Array((2, 3)), Array((2,))),
            Sample(Array((4, 3)), Array((2, 3)), 0.0),
        ),
        reference=lambda np, x, weight, bias: x @ weight.T + bias,
    ),
    Op(
        "softmax",
        "``exp(x) / sum(exp(x))`` along `axis`, shifted by the maximum so that nothing overflows.",
        parameters=_axis("softmax"),
        accepts=FLOATING,
        gradient=(_softmax_rule,),
        compose=_softmax,
        samples=_SOFTMAX_SAMPLES,
        reference=_softmax_reference,
    ),
    Op(
        "log_softmax",
        "``log(softmax(x))`` along `axis`, without taking the logarithm of a vanishing number.",
        parameters=_axis("log_softmax"),
        accepts=FLOATING,
        gradient=(_log_softmax_rule,),
        compose=_log_softmax,
        samples=_SOFTMAX_SAMPLES,
        reference=lambda np, x, axis=-1: np.log(_softmax_reference(np, x, axis)),
    ),
    Op(
        "mse_loss",
        "Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``.",
        operands=2,
        parameters=_mse_parameters,
        accepts=FLOATING,
        gradient=(_mse_rule, lambda k, *operands, **params: k.negative(_mse_rule(k, *operands, **params))),
        compose=lambda k, x, y, *, reduction: _reduce(k, k.square(k.subtract(x, y)), reduction),
        samples=(
            Sample(Array((2, 3)), Array((2, 3))),
            Sample(Array((2, 3)), Array(()), reduction="sum"),
            Sample(Array((2,)), 1.0, reduction="none"),
        ),
        reference=lambda np, x, y, reduction="mean": {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](
            (x - y) ** 2
        ),
    ),
    Op(
        "probability_error",
        "``softmax(x1) - one_hot(x2)`` (classes along axis 1; axis 0 if 1-d): the gradient of `cross_entropy`.",
        operands=2,
        accepts=(FLOATING, INTEGER),
        separate=(1,),
        compose=_probability_error,
        samples=(
            Sample(Array((4, 3)), Array((4,), 0, 3, "int64")),
            Sample(Array((2, 3, 2)), Array((2, 2), 0, 3, "int64")),
            Sample(Array((3,)), Array((), 0, 3, "int64")),
        ),
        reference=lambda np, x, t: (
            _softmax_reference(np, x, _class_axis(x.shape))
            - np.moveaxis(np.eye(x.shape[_class_axis(x.shape)])[t], -1, _class_axis(x.shape))
        ),
    ),
    Op(
        "cross_entropy",
        "Minus the log-probability that logits (classes along axis 1; axis 0 if 1-d) give to integer class `targets`, "
        "reduced by ``'mean'``, ``'sum'`` or ``'none'``. A target that names no class raises ``IndexError`` on devices "
        "that can tell at once, and gives NaN on others.",
        operands=2,
        parameters=_cross_entropy_parameters,
        accepts=(FLOATING, INTEGER),
        separate=(1,),
        gradient=(_cross_entropy_rule, None),
        compose=_cross_entropy,
        samples=(
            Sample(Array((4, 3)), Array((4,), 0, 3, "int64")),
            Sample(Array((4, 3)), Array((4,), 0, 3, "int64"), reduction="sum"),
            Sample(Array((2, 3, 2)), Array((2, 2), 0, 3, "int64"), reduction="none"),
            Sample(Array((3,)), Array((), 0, 3, "int64")),
        ),
        reference=_cross_entropy_reference,
    ),
)
