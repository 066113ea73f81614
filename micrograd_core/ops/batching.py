"""What most operations do to a batch, which `vmap` puts in front: they see it as one more axis.

A batching rule reads ``(op, k, batched, size, *operands, **params)``: for each operand, whether it has the batch as its
first axis (the others, numbers among them, are the same for all examples), and the length of the batch. It gives the
result, or results, with the batch in front; or `NotImplemented` for a call that it does not cover, which is composed
then. Like a gradient rule it is written against a kernel table `k`.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.errors import TransformError
from micrograd_core.layout import Layout
from micrograd_core.ops.record import Handle, Op, Table


def leading(op: Op, k: Table, batched: Any, size: int, *operands: Handle, **params: Any) -> Any:
    """As it is: of one operand, whose leading axes it leaves alone, as those of a stack of matrices."""
    return getattr(k, op.name)(*operands, **params)


def elementwise(op: Op, k: Table, batched: Any, size: int, *operands: Handle, **params: Any) -> Any:
    """Operands broadcast from the right once the batch stands before as many axes as any of them has."""
    if len(operands) > 1:
        ndim = max(map(_ndim, operands, batched))
        operands = tuple(_with_axes(k, x, each, ndim) for x, each in zip(operands, batched, strict=True))
    return getattr(k, op.name)(*operands, **params)


def one_by_one(op: Op, k: Table, batched: Any, size: int, *operands: Handle, **params: Any) -> Any:
    """Each example by itself; the results are stacked."""
    rows = []
    for i in range(size):
        example = [_example(k, x, i) if each else x for x, each in zip(operands, batched, strict=True)]
        rows.append(getattr(k, op.name)(*example, **params))
    if op.parts is not None:
        return tuple(k.stack(*column, axis=0) for column in zip(*rows, strict=True))
    if len({tuple(row.shape) for row in rows}) > 1:
        raise TransformError(f"{op.name}: the shape of its result depends on the numbers, so vmap cannot stack them")
    return k.stack(*rows, axis=0)


def _example(k: Table, x: Handle, i: int) -> Handle:
    return k.getitem(x, key=(i, *(slice(0, length, 1) for length in x.shape[1:])))


def along_axis(op: Op, k: Table, batched: Any, size: int, x: Handle, *, axis: Any, **params: Any) -> Any:
    """The axes it works along are one further back."""
    if axis is None and op.compose is not None:
        return NotImplemented
    if axis is None:
        axis = tuple(range(len(x.shape) - 1))
    axis = axis + 1 if isinstance(axis, int) else tuple(each + 1 for each in axis)
    return getattr(k, op.name)(x, axis=axis, **params)


def composed(op: Op, k: Table, batched: Any, size: int, *operands: Handle, **params: Any) -> Any:
    """By its parts, whatever its parameters are called."""
    return NotImplemented


def joined(op: Op, k: Table, batched: Any, size: int, *operands: Handle, axis: int | None) -> Any:
    """Join operands along an axis that is counted behind the batch; all of them have the batch."""
    if axis is None:
        return NotImplemented
    full = [materialized(k, x, each, size) for x, each in zip(operands, batched, strict=True)]
    return getattr(k, op.name)(*full, axis=axis + 1)


def reshaped(op: Op, k: Table, batched: Any, size: int, x: Handle, *, shape: Any) -> Any:
    """The shape it is given has the batch in front."""
    return getattr(k, op.name)(x, shape=(size, *shape))


def broadcast(op: Op, k: Table, batched: Any, size: int, x: Handle, *, shape: Any) -> Any:
    """Broadcast to a shape with the batch in front; axes that the operand lacks come behind the batch."""
    return getattr(k, op.name)(_with_axes(k, x, True, len(shape)), shape=(size, *shape))


def permuted(op: Op, k: Table, batched: Any, size: int, x: Handle, *, axes: Any) -> Any:
    """The batch stays the first axis."""
    return getattr(k, op.name)(x, axes=(0, *(axis + 1 for axis in axes)))


def selected(op: Op, k: Table, batched: Any, size: int, x: Handle, *, key: Any) -> Any:
    """The key takes the whole batch."""
    return getattr(k, op.name)(x, key=(slice(0, size, 1), *key))


def placed(op: Op, k: Table, batched: Any, size: int, x: Handle, *, shape: Any, key: Any) -> Any:
    """The shape has the batch in front, and the key takes all of it."""
    return getattr(k, op.name)(x, shape=(size, *shape), key=(slice(0, size, 1), *key))


def scattered(op: Op, k: Table, batched: Any, size: int, x: Handle, values: Handle, *, key: Any) -> Any:
    """Values are broadcast to what the key selects of each example; the key takes all of the batch."""
    place = Layout.contiguous(x.shape[batched[0] :]).index(key).shape
    values = _with_axes(k, values, batched[1], len(place))
    return getattr(k, op.name)(materialized(k, x, batched[0], size), values, key=(slice(0, size, 1), *key))


def products(op: Op, k: Table, batched: Any, size: int, x: Handle, y: Handle) -> Handle:
    """Vectors become a row and a column, so that the batch is one of the axes that are broadcast."""
    row, column = _ndim(x, batched[0]) == 1, _ndim(y, batched[1]) == 1
    x = k.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1])) if row else x
    y = k.reshape(y, shape=(*y.shape, 1)) if column else y
    ndim = max(_ndim(x, batched[0]), _ndim(y, batched[1]))
    made = getattr(k, op.name)(_with_axes(k, x, batched[0], ndim), _with_axes(k, y, batched[1], ndim))
    shape = made.shape[:-1] if column else made.shape
    if row:
        shape = shape[:-1] if column else (*shape[:-2], shape[-1])
    return k.reshape(made, shape=shape) if row or column else made


def sequences(op: Op, k: Table, batched: Any, size: int, *operands: Handle, **params: Any) -> Any:
    """The batch of examples and that of sequences, the last axis but one, are one; with a weight for each, composed."""
    kept = [op.separate[0] - 1, op.separate[0] - 2][: 2 if op.name == "gru" else 1]  # weight and bias
    if any(batched[each] for each in kept):
        return NotImplemented
    folded, batch = [], 0
    for position, (x, each) in enumerate(zip(operands, batched, strict=True)):
        if position in kept or not hasattr(x, "shape"):
            folded.append(x)
            continue
        ndim = _ndim(x, each)
        place = 0 if ndim < 3 else 1
        x = materialized(k, x, each, size)
        if place:
            x = k.permute_dims(x, axes=(1, 0, *range(2, ndim + 1)))
        batch = x.shape[place + 1]
        folded.append(k.reshape(x, shape=(*x.shape[:place], size * batch, *x.shape[place + 2 :])))
    parts = []
    for x in getattr(k, op.name)(*folded, **params):
        place = len(x.shape) - 2
        x = k.reshape(x, shape=(*x.shape[:place], size, batch, *x.shape[place + 1 :]))
        parts.append(k.permute_dims(x, axes=(1, 0, 2, 3)) if place else x)
    return tuple(parts)


def materialized(k: Table, x: Handle, batched: bool, size: int) -> Handle:
    """An operand with a batch, even if the same for all."""
    return x if batched else k.broadcast_to(x, shape=(size, *x.shape))


def _with_axes(k: Table, x: Handle, batched: bool, ndim: int) -> Handle:
    """A batched operand with axes of length 1 after the batch, so that all operands broadcast from the right."""
    missing = ndim + 1 - len(x.shape) if batched else 0
    return x if missing < 1 else k.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:]))


def _ndim(x: Any, batched: bool) -> int:
    return len(x.shape) - batched if hasattr(x, "shape") else 0
