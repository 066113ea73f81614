"""Order and repetition: rolled, tiled, repeated, padded. Compositions of the views in `movement`, and of `take`."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain, repeat
from typing import Any, Final

from micrograd_core.dtypes import bool_, check_scalar, int64, pack, weak
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Layout, as_shape, is_integer, resolve_axes, resolve_axis, resolve_key
from micrograd_core.ops.batching import placed
from micrograd_core.ops.core.movement import permute_rule, requested
from micrograd_core.ops.record import ANY, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import chosen, cut
from micrograd_core.ops.tangents import linear

# ── parameters as the user writes them → as kernels receive them ─────────────────────────────────────────────


def _moveaxis_parameters(
    x: Any, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> dict[str, Any]:
    """The axes `source` moved to the places `destination`, the others in their order. A view."""
    ndim = len(x.shape)
    sources, places = (resolve_axes("moveaxis", each, ndim) or () for each in (source, destination))
    if len(sources) != len(places):
        raise ShapeError(f"moveaxis: {len(sources)} axes {source} cannot move to {len(places)} places {destination}")
    moved = dict(zip(places, sources, strict=True))
    others = (axis for axis in range(ndim) if axis not in sources)
    return {"axes": tuple(moved[place] if place in moved else next(others) for place in range(ndim))}


def _transpose_parameters(x: Any, /) -> dict[str, Any]:
    """The last two axes exchanged. A view."""
    ndim = len(x.shape)
    if ndim < 2:
        raise ShapeError(f"matrix_transpose: at least two axes are needed; this tensor has shape {tuple(x.shape)}")
    return {"axes": (*range(ndim - 2), ndim - 1, ndim - 2)}


def _roll_parameters(
    x: Any, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
) -> dict[str, Any]:
    """Elements moved `shift` places along `axis` (in the flattened tensor for ``None``), the last ones first."""
    several = isinstance(shift, (tuple, list))
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,)
    if axis is None:
        if several:
            raise ShapeError(f"roll: shifts {shift} need as many axes; got axis=None")
        return {"shift": shifts, "axis": None}
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shifts if several else shifts * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts {shift} do not fit {len(axes)} axes {axis}")
    total: dict[int, int] = {}
    for each, places in zip(axes, shifts, strict=True):  # an axis that is named twice is rolled twice
        at = resolve_axis("roll", each, len(x.shape))
        total[at] = total.get(at, 0) + places
    return {"shift": tuple(total.values()), "axis": tuple(total)}


def _tile_parameters(x: Any, /, repetitions: int | tuple[int, ...]) -> dict[str, Any]:
    """Copies of the tensor side by side, `repetitions` along each axis, counted from the last."""
    counts = as_shape("tile", repetitions)
    return {"repetitions": (1,) * (len(x.shape) - len(counts)) + counts}


def _repeat_parameters(x: Any, /, repeats: Any, axis: int | None = None) -> dict[str, Any]:
    """Each element (each slice along `axis`) repeated `repeats` times, or as often as its count in `repeats` says."""
    # Counts in a tensor are read: the shape of the result depends on them.
    counts = as_shape("repeat", repeats.tolist() if hasattr(repeats, "tolist") else repeats)
    at = None if axis is None else resolve_axis("repeat", axis, len(x.shape))
    length = math.prod(x.shape) if at is None else x.shape[at]
    if len(counts) not in (1, length):
        raise ShapeError(
            f"repeat: {len(counts)} counts do not fit {length} elements along axis {axis} of shape {tuple(x.shape)}; "
            "give one count, or one for each"
        )
    return {"repeats": counts[0] if len(counts) == 1 else counts, "axis": at}


def _pad_parameters(
    x: Any, /, pad_width: Any, mode: str = "constant", *, constant_values: complex = 0
) -> dict[str, Any]:
    """Elements added around the tensor, `pad_width` before and after each axis.

    The width is a number, a pair, or a pair per axis. The elements are `constant_values`, or continue the tensor by
    ``'edge'``, ``'wrap'``, ``'reflect'`` (about the edge) or ``'symmetric'`` (including the edge). Source:
    ``numpy.pad``.
    """
    ndim = len(x.shape)
    if is_integer(pad_width):
        pad_width = ((pad_width, pad_width),)
    elif len(pad_width) and all(map(is_integer, pad_width)):
        pad_width = (tuple(pad_width),)
    widths = tuple(as_shape("pad", each) for each in pad_width)
    widths = tuple(each * 2 if len(each) == 1 else each for each in widths)
    widths = widths * ndim if len(widths) == 1 else widths
    if len(widths) != ndim or any(len(each) != 2 for each in widths):
        raise ShapeError(
            f"pad: widths {pad_width} do not fit shape {tuple(x.shape)}; give a number, a pair (before, after), or "
            f"such a pair for each of the {ndim} axes"
        )
    chosen("pad", "mode", mode, ("constant", *POSITIONS))
    for axis, (length, width) in enumerate(zip(x.shape, widths, strict=True)):
        if mode != "constant" and any(width) and not length:
            raise ShapeError(f"pad: axis {axis} of shape {tuple(x.shape)} has no element for mode {mode!r} to repeat")
    return {"pad_width": widths, "mode": mode, "constant_values": weak(constant_values)}


# ── compositions and rules ───────────────────────────────────────────────────────────────────────────────────


def _roll(k: Table, x: Handle, *, shift: tuple[int, ...], axis: tuple[int, ...] | None) -> Handle:
    if axis is None:
        flat = k.reshape(x, shape=(math.prod(x.shape),))
        return k.reshape(k.roll(flat, shift=shift, axis=(0,)), shape=x.shape)
    rolled = x
    for places, each in zip(shift, axis, strict=True):
        length = x.shape[each]
        if length and (first := -places % length):
            rolled = k.concat(cut(k, rolled, each, first, length), cut(k, rolled, each, 0, first), axis=each)
    return k.copy(x) if rolled is x else rolled


def _tile(k: Table, x: Handle, *, repetitions: tuple[int, ...]) -> Handle:
    """Each axis behind a new one, along which it is broadcast; then the two are one."""
    lengths = (1,) * (len(repetitions) - len(x.shape)) + tuple(x.shape)
    x = k.reshape(x, shape=tuple(chain.from_iterable((1, length) for length in lengths)))
    x = k.copy(k.broadcast_to(x, shape=tuple(chain.from_iterable(zip(repetitions, lengths, strict=True)))))
    return k.reshape(x, shape=tuple(count * length for count, length in zip(repetitions, lengths, strict=True)))


def _repeat(k: Table, x: Handle, *, repeats: Any, axis: int | None) -> Handle:
    if axis is None:
        x, axis = k.reshape(x, shape=(math.prod(x.shape),)), 0
    if isinstance(repeats, tuple):
        places = tuple(chain.from_iterable(repeat(place, count) for place, count in enumerate(repeats)))
        return k.take(x, k.integers(values=places, dtype=int64), axis=axis)
    before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    x = k.broadcast_to(k.reshape(x, shape=(*before, length, 1, *after)), shape=(*before, length, repeats, *after))
    return k.reshape(k.copy(x), shape=(*before, length * repeats, *after))


POSITIONS: Final = {
    "edge": lambda i, length: min(max(i, 0), length - 1),
    "wrap": lambda i, length: i % length,
    "reflect": lambda i, length: length - 1 - abs(i % max(2 * length - 2, 1) - (length - 1)),
    "symmetric": lambda i, length: min(i % (2 * length), -1 - i % (2 * length) + 2 * length),
}
"""Which element of an axis stands at position `i` of the padded axis, counted from its first element: by mode."""


def _pad(k: Table, x: Handle, *, pad_width: tuple[tuple[int, int], ...], mode: str, constant_values: complex) -> Handle:
    if mode == "constant":
        shape = tuple(before + length + after for length, (before, after) in zip(x.shape, pad_width, strict=True))
        dtype = k.dtype(x)
        fill: Any = bool(constant_values) if dtype.kind == "bool" else constant_values
        if dtype.kind != "bool":
            check_scalar("pad", fill, dtype)
        inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, pad_width, strict=True))
        return k.scatter(k.full(shape=shape, fill_value=fill, dtype=dtype), x, key=resolve_key(inside, shape))
    padded = x
    for axis, (before, after) in enumerate(pad_width):
        length = x.shape[axis]
        if before or after:
            values = tuple(POSITIONS[mode](i, length) for i in range(-before, length + after))
            padded = k.take(padded, k.integers(values=values, dtype=int64), axis=axis)
    return k.copy(x) if padded is x else padded


def _getitem_gradient_parameters(x: Any, /, *, shape: Any, key: Any) -> dict[str, Any]:
    """Zeros of a `shape` in which what `key` selects is ``x``: the transpose of `getitem`."""
    whole = as_shape("getitem_gradient", shape)
    resolved = resolve_key(key, whole)
    place = Layout.contiguous(whole).index(resolved).shape
    if place != tuple(x.shape):
        raise ShapeError(f"getitem_gradient: the key selects shape {place} of {whole}; got {tuple(x.shape)}")
    return {"shape": whole, "key": resolved}


def _getitem_gradient(k: Table, g: Handle, *, shape: Any, key: Any) -> Handle:
    return k.scatter(k.full(shape=shape, fill_value=False if k.dtype(g) is bool_ else 0, dtype=g.dtype), g, key=key)


_permuted = partial(
    Op,
    accepts=ANY,
    tangent=linear,
    gradient=(permute_rule,),
    gradient_aliases=True,
    compose=lambda k, x, *, axes: k.permute_dims(x, axes=axes),
    view=True,
)
_arranged = partial(Op, accepts=ANY, tangent=linear)

OPS = (
    _permuted(
        "moveaxis",
        parameters=_moveaxis_parameters,
        samples=(Sample((2, 3, 4), source=0, destination=-1), Sample((2, 3, 4), source=(2, 0), destination=(0, 1))),
    ),
    _permuted("matrix_transpose", parameters=_transpose_parameters, samples=(Sample((2, 3)), Sample((2, 3, 4)))),
    _arranged(
        "roll",
        parameters=_roll_parameters,
        gradient=(lambda k, g, out, x, *, shift, axis: k.roll(g, shift=tuple(-places for places in shift), axis=axis),),
        compose=_roll,
        samples=(
            Sample((2, 3), shift=2),
            Sample((2, 3), shift=(1, -4), axis=(0, -1)),
            Sample((0, 3), shift=1, axis=0),
            Sample((), shift=1),
        ),
    ),
    _arranged(
        "tile",
        parameters=_tile_parameters,
        compose=_tile,
        samples=(Sample((2, 3), repetitions=(2, 1, 3)), Sample((2, 3), repetitions=(2,)), Sample((), repetitions=(0,))),
        reference=lambda np, x, repetitions: np.tile(x, repetitions),
    ),
    _arranged(
        "repeat",
        parameters=_repeat_parameters,
        compose=_repeat,
        samples=(
            Sample((2, 3), repeats=2),
            Sample((2, 3), repeats=(2, 0, 1), axis=1),
            Sample((2, 2), repeats=(0, 1, 2, 3)),
            Sample((2, 3), repeats=0, axis=0),
            Sample((), repeats=3),
        ),
    ),
    Op(
        "pad",
        parameters=_pad_parameters,
        accepts=ANY,
        compose=_pad,
        samples=(
            Sample((2, 3), pad_width=((1, 0), (0, 2)), constant_values=2),
            Sample((2, 3), pad_width=(4, 5), mode="edge"),
            Sample((2, 3), pad_width=(4, 5), mode="wrap"),
            Sample((1, 3), pad_width=(4, 5), mode="reflect"),
            Sample((1, 3), pad_width=(4, 5), mode="symmetric"),
            Sample(Array((0, 3), dtype="bool"), pad_width=1, constant_values=1),
            Sample((), pad_width=1),
        ),
    ),
    _arranged(
        "getitem_gradient",
        parameters=_getitem_gradient_parameters,
        batching=placed,
        gradient=(lambda k, g, out, x, *, shape, key: k.getitem(g, key=key),),
        gradient_aliases=True,
        compose=_getitem_gradient,
        samples=(
            Sample((4,), shape=(3, 4), key=1),
            Sample((3, 2), shape=(3, 4), key=(slice(None), slice(1, None, 2))),
            Sample((3, 1), shape=(3, 4), key=(slice(None, None, -1), None, -1)),
            Sample((2, 4, 2), shape=(2, 4, 3, 2), key=(slice(None), slice(None), 1)),
            Sample((), shape=(), key=()),
        ),
    ),
    Op(
        "integers",
        "A 1-d tensor of the given integers.",
        shape=lambda *, values, **_: (len(values),),
        result=requested,
        gradient="it has no operands",
        compose=lambda k, *, values, dtype: k.upload(pack(values, dtype), (len(values),), dtype),
    ),
)
