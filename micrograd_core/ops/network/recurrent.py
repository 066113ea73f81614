"""Recurrent networks over whole sequences: one record for all time steps of a layer in one direction.

What the inputs of all steps contribute is one product, outside; `x` is its result, (time, batch, blocks of features).
The states, and the activations of every step, are kept as results, so that a gradient computes no step again. A step at
or beyond the length of its sequence leaves the state as it is, and has no activations; with `reverse` the last comes
first, so a state stays the initial one until its sequence begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.batching import sequences
from micrograd_core.ops.record import FLOATING, INTEGER, REAL, SAME, Array, Op, Sample
from micrograd_core.ops.shared import is_scalar
from micrograd_core.ops.tangents import total

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

REAL_FLOATING = REAL & FLOATING
ALL = -1
"""In the place of `lengths`: all sequences are as long as the time axis."""


class RNNResult(NamedTuple):
    """The states after each step, and their activations before lengths counted."""

    states: Any
    gates: Any


class LSTMResult(NamedTuple):
    """The states and cells after each step, and its gates: input, forget, cell and output, side by side."""

    states: Any
    cells: Any
    gates: Any


class GRUResult(NamedTuple):
    """The states after each step, and its gates: reset, update, new, and what the state gave to new."""

    states: Any
    gates: Any


class RNNGradient(NamedTuple):
    """Of what the inputs contributed, and of the initial states."""

    x: Any
    h: Any


class LSTMGradient(NamedTuple):
    """Of what the inputs contributed, and of the initial states and cells."""

    x: Any
    h: Any
    c: Any


class GRUGradient(NamedTuple):
    """Of what the inputs contributed, of what the states contributed to new, and of the initial states."""

    x: Any
    inner: Any
    h: Any


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────


def _check(op: str, blocks: int, x: Any, states: Sequence[Any], weight: Any, lengths: Any) -> None:
    """``x`` (time, batch, blocks * features), states (batch, features), a weight (blocks * features, features)."""
    h, w = states[0].shape, weight.shape
    fits = len(x.shape) == 3 and len(h) == 2 and all(state.shape == h for state in states)
    if not fits or w != (blocks * h[1], h[1]) or x.shape[1:] != (h[0], w[0]):
        raise ShapeError(
            f"{op}: shapes {x.shape}, {', '.join(str(s.shape) for s in states)} and {w} do not fit (time, batch, "
            f"{blocks} * features), {', '.join(['(batch, features)'] * len(states))} and ({blocks} * features, "
            "features)"
        )
    if not x.shape[0]:
        raise ShapeError(f"{op}: a sequence has at least one step; got shape {x.shape}")
    if not is_scalar(lengths) and lengths.shape != h[:1]:
        raise ShapeError(
            f"{op}: there is one length for each of {h[0]} sequences; got lengths of shape {lengths.shape}"
        )


def _rnn_parameters(
    x: Any, h: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False, nonlinearity: str = "tanh"
) -> dict[str, Any]:
    _check("rnn", 1, x, (h,), weight, lengths)
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn: nonlinearity is 'tanh' or 'relu'; got {nonlinearity!r}")
    return {"reverse": bool(reverse), "nonlinearity": nonlinearity}


def _lstm_parameters(
    x: Any, h: Any, c: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False
) -> dict[str, Any]:
    _check("lstm", 4, x, (h, c), weight, lengths)
    return {"reverse": bool(reverse)}


def _gru_parameters(
    x: Any, h: Any, weight: Any, /, bias: Any = 0.0, lengths: Any = ALL, *, reverse: bool = False
) -> dict[str, Any]:
    _check("gru", 3, x, (h,), weight, lengths)
    if not is_scalar(bias) and bias.shape != weight.shape[:1]:
        raise ShapeError(f"gru: a bias has shape {weight.shape[:1]}, as many as the weight has rows; got {bias.shape}")
    return {"reverse": bool(reverse)}


def _check_gradient(op: str, rows: int, weight: Any, gates: Any, *others: Any) -> None:
    """A weight (rows * features, features), gates (time, batch, blocks * features), and their cotangent; others too."""
    features = weight.shape[-1] if weight.shape else 0
    whole = (*gates.shape[:2], features)
    fits = weight.shape == (rows * features, features) and len(gates.shape) == 3 and bool(gates.shape[0])
    fits &= gates.shape[2:] == ((4 if rows > 1 else 1) * features,)
    fits &= is_scalar(others[0]) or others[0].shape == gates.shape
    fits &= all(is_scalar(x) or x.shape in (whole, whole[1:]) for x in others[1:])
    if not fits:
        shapes = ", ".join(str(getattr(x, "shape", x)) for x in (weight, gates, *others))
        raise ShapeError(f"{op}: the shapes {shapes} are not those of one call of the operation it is the gradient of")


def _rnn_gradient_parameters(
    g: Any, g_gates: Any, gates: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False,
    nonlinearity: str = "tanh",
) -> dict[str, Any]:  # fmt: skip
    _check_gradient("rnn_gradient", 1, weight, gates, g_gates, g)
    return {"reverse": bool(reverse), "nonlinearity": nonlinearity}


def _lstm_gradient_parameters(
    g: Any, g_cells: Any, g_gates: Any, cells: Any, gates: Any, c: Any, weight: Any, /, lengths: Any = ALL, *,
    reverse: bool = False,
) -> dict[str, Any]:  # fmt: skip
    _check_gradient("lstm_gradient", 4, weight, gates, g_gates, g, g_cells, cells, c)
    return {"reverse": bool(reverse)}


def _gru_gradient_parameters(
    g: Any, g_gates: Any, states: Any, gates: Any, h: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False
) -> dict[str, Any]:
    _check_gradient("gru_gradient", 3, weight, gates, g_gates, g, states, h)
    return {"reverse": bool(reverse)}


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────


def order(steps: int, reverse: bool) -> list[int]:
    """The steps as they follow each other."""
    return list(range(steps))[:: -1 if reverse else 1]


def _at(k: Table, x: Any, step: int) -> Any:
    """A step of an array; of a number, which stands for one, the number, and ``None`` for 0."""
    if is_scalar(x):
        return x or None
    return k.getitem(x, key=(step, *(slice(0, n, 1) for n in x.shape[1:])))


def _block(k: Table, x: Any, start: int, stop: int, count: int) -> Any:
    """Some of the blocks of equal length that the last axis is made of."""
    length = x.shape[-1] // count
    return k.getitem(x, key=(*(slice(0, n, 1) for n in x.shape[:-1]), slice(start * length, stop * length, 1)))


def _blocks(k: Table, x: Any, count: int) -> list[Any]:
    if x is None or is_scalar(x):
        return [x] * count
    return [_block(k, x, i, i + 1, count) for i in range(count)]


def _turned(k: Table, x: Any) -> Any:
    return k.permute_dims(x, axes=(1, 0))


def _valid(k: Table, lengths: Any, step: int) -> Any:
    """Whether a step belongs to each sequence, (batch, 1); ``None``: to all."""
    return None if is_scalar(lengths) else k.reshape(k.less(step, lengths), shape=(*lengths.shape, 1))


def _chosen(k: Table, valid: Any, x: Any, other: Any) -> Any:
    return x if valid is None else k.where(valid, x, other)


def _scaled_by_slope(k: Table, g: Any, sigmoid: Any) -> Any:
    """Through a logistic function, by its result."""
    return k.multiply(g, k.multiply(sigmoid, k.subtract(1, sigmoid)))


def _through_tanh(k: Table, g: Any, y: Any) -> Any:
    return k.multiply(g, k.subtract(1, k.multiply(y, y)))


def _scan(
    k: Table, cell: Callable[..., Any], x: Any, initial: tuple[Any, ...], weight: Any, bias: Any, lengths: Any,
    reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """States and gates of all steps, by a function of one: from what input and state contribute, and the states."""
    turned, current = _turned(k, weight), initial
    found: list[Any] = [None] * x.shape[0]
    for step in order(x.shape[0], reverse):
        recurrent = k.matmul(current[0], turned)
        recurrent = recurrent if is_scalar(bias) and bias == 0 else k.add(recurrent, bias)
        gates, new = cell(k, _at(k, x, step), recurrent, current)
        valid = _valid(k, lengths, step)
        current = tuple(_chosen(k, valid, y, z) for y, z in zip(new, current, strict=True))
        found[step] = (*current, _chosen(k, valid, gates, 0))
    return tuple(k.stack(*column, axis=0) for column in zip(*found, strict=True))


def _scan_back(
    k: Table, cell: Callable[..., Any], cotangents: tuple[Any, ...], g_gates: Any, gates: Any, weight: Any,
    lengths: Any, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Its transpose, by that of a step; a cotangent that is 0.0 is that of what nobody used.

    ``cell(step, gates, beside, cotangents)`` gives those of what input and state contributed, which may be the same,
    and of the states before.
    """
    steps, shape = gates.shape[0], (gates.shape[1], weight.shape[1])
    carried = tuple(k.full(shape=shape, fill_value=0, dtype=gates.dtype) for _ in cotangents)
    found: list[Any] = [None] * steps
    for step in order(steps, not reverse):
        given = tuple(total(k, (_at(k, g, step), t)) for g, t in zip(cotangents, carried, strict=True))
        contributed, before = cell(step, _at(k, gates, step), _at(k, g_gates, step), given)
        valid = _valid(k, lengths, step)
        contributed = tuple(_chosen(k, valid, each, 0) for each in contributed)
        before = (total(k, (before[0], k.matmul(contributed[-1], weight))), *before[1:])
        carried = tuple(_chosen(k, valid, new, old) for new, old in zip(before, given, strict=True))
        found[step] = contributed
    return (*(k.stack(*column, axis=0) for column in zip(*found, strict=True)), *carried)


def _earlier(k: Table, states: Any, initial: Any, reverse: bool) -> Any:
    """The state before each step."""
    steps = states.shape[0]
    rest = [slice(0, n, 1) for n in states.shape[1:]]
    first = k.expand_dims(initial, axis=(0,))
    if reverse:
        return k.concat(k.getitem(states, key=(slice(1, steps, 1), *rest)), first, axis=0)
    return k.concat(first, k.getitem(states, key=(slice(0, steps - 1, 1), *rest)), axis=0)


def _weight_gradient(k: Table, g: Any, states: Any, initial: Any, reverse: bool) -> Any:
    """The product of what the states contributed with the states, over all steps."""
    rows = k.reshape(g, shape=(g.shape[0] * g.shape[1], g.shape[2]))
    before = _earlier(k, states, initial, reverse)
    return k.matmul(_turned(k, rows), k.reshape(before, shape=(rows.shape[0], before.shape[2])))


def _once(g: Any, compute: Callable[[], Any]) -> Any:
    """What the rules of all operands need is computed for the first of them, and kept with the cotangent `g`."""
    kept: dict[str, Any] = vars(g)
    if "whole" not in kept:
        kept["whole"] = compute()
    return kept["whole"]


def _given(g: Any) -> tuple[Any, ...]:
    return tuple(0.0 if part is None else part for part in g)


# ── a layer without gates ────────────────────────────────────────────────────────────────────────────────────


def _rnn(k: Table, x: Any, h: Any, weight: Any, lengths: Any, *, reverse: bool, nonlinearity: str) -> Any:
    def cell(k: Table, x: Any, recurrent: Any, states: Any) -> Any:
        y = getattr(k, nonlinearity)(k.add(x, recurrent))
        return y, (y,)

    return RNNResult(*_scan(k, cell, x, (h,), weight, 0.0, lengths, reverse))


def _rnn_gradient(
    k: Table, g: Any, g_gates: Any, gates: Any, weight: Any, lengths: Any, *, reverse: bool, nonlinearity: str
) -> Any:
    def cell(step: int, y: Any, beside: Any, given: Any) -> Any:
        g = total(k, (given[0], beside))
        if nonlinearity == "tanh":
            return (_through_tanh(k, g, y),), (None,)
        return (k.where(k.less(0, y), g, 0),), (None,)

    return RNNGradient(*_scan_back(k, cell, (g,), g_gates, gates, weight, lengths, reverse))


def _rnn_rule(position: int) -> Any:
    def rule(k: Table, g: Any, out: Any, x: Any, h: Any, weight: Any, lengths: Any, **params: Any) -> Any:
        found = _once(g, lambda: k.rnn_gradient(*_given(g), out[1], weight, lengths, **params))
        return _weight_gradient(k, found[0], out[0], h, params["reverse"]) if position == 2 else found[position]

    return rule


# ── long short-term memory ───────────────────────────────────────────────────────────────────────────────────


def _lstm(k: Table, x: Any, h: Any, c: Any, weight: Any, lengths: Any, *, reverse: bool) -> Any:
    def cell(k: Table, x: Any, recurrent: Any, states: Any) -> Any:
        i, f, g, o = _blocks(k, k.add(x, recurrent), 4)
        i, f, g, o = k.sigmoid(i), k.sigmoid(f), k.tanh(g), k.sigmoid(o)
        c = k.add(k.multiply(f, states[1]), k.multiply(i, g))
        return k.concat(i, f, g, o, axis=1), (k.multiply(o, k.tanh(c)), c)

    return LSTMResult(*_scan(k, cell, x, (h, c), weight, 0.0, lengths, reverse))


def _lstm_gradient(
    k: Table, g: Any, g_cells: Any, g_gates: Any, cells: Any, gates: Any, c: Any, weight: Any, lengths: Any, *,
    reverse: bool,
) -> Any:  # fmt: skip
    earlier = _earlier(k, cells, c, reverse)

    def cell(step: int, gates: Any, beside: Any, given: Any) -> Any:
        i, f, g, o = _blocks(k, gates, 4)
        y = k.tanh(_at(k, cells, step))
        dc = k.add(given[1], _through_tanh(k, k.multiply(given[0], o), y))
        by_gate = [k.multiply(dc, g), k.multiply(dc, _at(k, earlier, step)), k.multiply(dc, i), k.multiply(given[0], y)]
        by_gate = [total(k, each) for each in zip(by_gate, _blocks(k, beside, 4), strict=True)]
        slopes = (_scaled_by_slope, _scaled_by_slope, _through_tanh, _scaled_by_slope)
        through = [slope(k, x, y) for slope, x, y in zip(slopes, by_gate, (i, f, g, o), strict=True)]
        return (k.concat(*through, axis=1),), (None, k.multiply(dc, f))

    return LSTMGradient(*_scan_back(k, cell, (g, g_cells), g_gates, gates, weight, lengths, reverse))


def _lstm_rule(position: int) -> Any:
    def rule(k: Table, g: Any, out: Any, x: Any, h: Any, c: Any, weight: Any, lengths: Any, **params: Any) -> Any:
        found = _once(g, lambda: k.lstm_gradient(*_given(g), out[1], out[2], c, weight, lengths, **params))
        return _weight_gradient(k, found[0], out[0], h, params["reverse"]) if position == 3 else found[position]

    return rule


# ── gated recurrent unit ─────────────────────────────────────────────────────────────────────────────────────


def _gru(k: Table, x: Any, h: Any, weight: Any, bias: Any, lengths: Any, *, reverse: bool) -> Any:
    def cell(k: Table, x: Any, recurrent: Any, states: Any) -> Any:
        inner = _block(k, recurrent, 2, 3, 3)
        both = k.sigmoid(k.add(_block(k, x, 0, 2, 3), _block(k, recurrent, 0, 2, 3)))
        r, z = _blocks(k, both, 2)
        n = k.tanh(k.add(_block(k, x, 2, 3, 3), k.multiply(r, inner)))
        return k.concat(both, n, inner, axis=1), (k.add(n, k.multiply(z, k.subtract(states[0], n))),)

    return GRUResult(*_scan(k, cell, x, (h,), weight, bias, lengths, reverse))


def _gru_gradient(
    k: Table, g: Any, g_gates: Any, states: Any, gates: Any, h: Any, weight: Any, lengths: Any, *, reverse: bool
) -> Any:
    earlier = _earlier(k, states, h, reverse)

    def cell(step: int, gates: Any, beside: Any, given: Any) -> Any:
        (g,) = given
        r, z, n, inner = _blocks(k, gates, 4)
        dz, dn = k.multiply(g, k.subtract(_at(k, earlier, step), n)), k.multiply(g, k.subtract(1, z))
        others = _blocks(k, beside, 4)
        dn = _through_tanh(k, total(k, (dn, others[2])), n)
        dr = _scaled_by_slope(k, total(k, (k.multiply(dn, inner), others[0])), r)
        dz = _scaled_by_slope(k, total(k, (dz, others[1])), z)
        d_inner = total(k, (k.multiply(dn, r), others[3]))
        both = k.concat(dr, dz, axis=1)
        return (k.concat(both, dn, axis=1), d_inner, k.concat(both, d_inner, axis=1)), (k.multiply(g, z),)

    x, inner, _, before = _scan_back(k, cell, (g,), g_gates, gates, weight, lengths, reverse)
    return GRUGradient(x, inner, before)


def _gru_rule(position: int) -> Any:
    def rule(k: Table, g: Any, out: Any, x: Any, h: Any, weight: Any, bias: Any, lengths: Any, **params: Any) -> Any:
        found = _once(g, lambda: k.gru_gradient(*_given(g), *out, h, weight, lengths, **params))
        if position < 2:
            return found[2 * position]
        contributed = k.concat(_block(k, found[0], 0, 2, 3), found[1], axis=2)
        if position == 3:
            return k.sum(contributed, axis=(0, 1), keepdims=False)
        return _weight_gradient(k, contributed, out[0], h, params["reverse"])

    return rule


# ── references ───────────────────────────────────────────────────────────────────────────────────────────────


def _stepped(np: Any, step: Any, x: Any, states: Any, lengths: Any, reverse: bool) -> Any:
    found: list[Any] = [None] * x.shape[0]
    for t in order(x.shape[0], reverse):
        *new, gates = step(x[t], *states)
        valid = (t < np.asarray(lengths)).reshape(-1, 1) if np.ndim(lengths) else np.ones((x.shape[1], 1), bool)
        states = [np.where(valid, y, z) for y, z in zip(new, states, strict=True)]
        found[t] = (*states, np.where(valid, gates, 0))
    return [np.stack(column) for column in zip(*found, strict=True)]


def _logistic(np: Any, x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _rnn_reference(
    np: Any, x: Any, h: Any, weight: Any, lengths: Any, reverse: bool = False, nonlinearity: str = "tanh"
) -> Any:
    def step(x: Any, h: Any) -> Any:
        y = x + h @ weight.T
        return (np.tanh(y) if nonlinearity == "tanh" else np.maximum(y, 0),) * 2

    return _stepped(np, step, x, [h], lengths, reverse)


def _lstm_reference(np: Any, x: Any, h: Any, c: Any, weight: Any, lengths: Any, reverse: bool = False) -> Any:
    def step(x: Any, h: Any, c: Any) -> Any:
        i, f, g, o = np.split(x + h @ weight.T, 4, axis=1)
        i, f, g, o = _logistic(np, i), _logistic(np, f), np.tanh(g), _logistic(np, o)
        c = f * c + i * g
        return o * np.tanh(c), c, np.concatenate([i, f, g, o], axis=1)

    return _stepped(np, step, x, [h, c], lengths, reverse)


def _gru_reference(np: Any, x: Any, h: Any, weight: Any, bias: Any, lengths: Any, reverse: bool = False) -> Any:
    def step(x: Any, h: Any) -> Any:
        (xr, xz, xn), (hr, hz, hn) = (np.split(each, 3, axis=1) for each in (x, h @ weight.T + bias))
        r, z = _logistic(np, xr + hr), _logistic(np, xz + hz)
        n = np.tanh(xn + r * hn)
        return (1 - z) * n + z * h, np.concatenate([r, z, n, hn], axis=1)

    return _stepped(np, step, x, [h], lengths, reverse)


def _gradient_reference(blocks: int, cells: int) -> Any:
    """The chain rule step by step, of gates that are any numbers."""

    def slope(np: Any, y: Any, tanh: bool) -> Any:
        return 1 - y * y if tanh else y * (1 - y)

    def reference(np: Any, g: Any, *others: Any, reverse: bool = False, nonlinearity: str = "tanh") -> Any:
        *parts, weight, lengths = others
        g_cells, parts = (parts[0], parts[1:]) if cells else (0.0, parts)
        g_gates, *saved = parts
        gates = saved[0] if blocks == 1 else saved[1]
        shape = gates.shape[:2] + weight.shape[1:]
        g, g_cells = np.broadcast_to(g, shape), np.broadcast_to(g_cells, shape)
        g_gates = np.broadcast_to(g_gates, gates.shape)
        dh, dc = np.zeros(shape[1:]), np.zeros(shape[1:])
        made: list[Any] = [None] * shape[0]
        steps = order(shape[0], reverse)
        for at in range(shape[0] - 1, -1, -1):
            t = steps[at]
            valid = (t < np.asarray(lengths)).reshape(-1, 1) if np.ndim(lengths) else True
            dh, dc = dh + g[t], dc + g_cells[t]
            own = np.split(gates[t], gates.shape[2] // shape[2], axis=1)
            beside = np.split(g_gates[t], len(own), axis=1)
            before = None if blocks == 1 else saved[0][steps[at - 1]] if at else saved[2]
            if blocks == 1:
                dx = (dh + beside[0]) * (slope(np, own[0], True) if nonlinearity == "tanh" else own[0] > 0)
                found, h_before, c_before = [dx], dx @ weight, dc
            elif blocks == 4:
                i, f, u, o = own
                y = np.tanh(saved[0][t])
                total = dc + dh * o * (1 - y * y)
                by_gate = [total * u, total * before, total * i, dh * y]
                dx = np.concatenate([(by_gate[n] + beside[n]) * slope(np, own[n], n == 2) for n in range(4)], axis=1)
                found, h_before, c_before = [dx], dx @ weight, total * f
            else:
                r, z, n, inner = own
                dn = (dh * (1 - z) + beside[2]) * (1 - n * n)
                dz = (dh * (before - n) + beside[1]) * z * (1 - z)
                dr = (dn * inner + beside[0]) * r * (1 - r)
                d_inner = dn * r + beside[3]
                h_before = dh * z + np.concatenate([dr, dz, d_inner], axis=1) @ weight
                found, c_before = [np.concatenate([dr, dz, dn], axis=1), d_inner], dc
            made[t] = [np.where(valid, each, 0) for each in found]
            dh, dc = np.where(valid, h_before, dh), np.where(valid, c_before, dc)
        return [*(np.stack(column) for column in zip(*made, strict=True)), dh, *([dc] if cells else [])]

    return reference


_LENGTHS = Array((2,), 1, 4, "int64")


def _sequence(blocks: int, steps: int = 3) -> tuple[Array, ...]:
    return Array((steps, 2, 2 * blocks)), Array((2, 2))


def _observed(xp: Any, *parts: Any) -> Any:
    """All numbers of all parts."""
    return xp.concat([xp.reshape(part, (-1,)) for part in parts])


def _shapes(blocks: int, *others: int) -> Callable[..., tuple[Shape, ...]]:
    def shapes(x: Any, h: Any, *rest: Any, **params: Any) -> tuple[Shape, ...]:
        return tuple((*x.shape[:2], each * h.shape[1]) for each in others)

    return shapes


def _gradient_shapes(weight_at: int, gates_at: int, kinds: tuple[int, ...]) -> Callable[..., tuple[Shape, ...]]:
    """Of a gradient: for each part how many blocks all steps have, or 0 for an initial state."""

    def shapes(*operands: Any, **params: Any) -> tuple[Shape, ...]:
        features, (steps, batch, _) = operands[weight_at].shape[1], operands[gates_at].shape
        return tuple((steps, batch, each * features) if each else (batch, features) for each in kinds)

    return shapes


_RECURRENT = partial(Op, batching=sequences, observe=_observed, autocast="half")
_GRADIENT = partial(Op, batching=sequences, observe=_observed)

OPS = (
    _RECURRENT(
        "rnn",
        "``h = tanh(x + h @ weight.T)``, or of `relu`, at each step of sequences (time, batch, features), from initial "
        "states (batch, features) (Elman 1990). `lengths` are those of the sequences, by default all that there is of "
        "them; `reverse` goes from the last step to the first.",
        operands=4,
        optional=(ALL,),
        parameters=_rnn_parameters,
        accepts=(REAL_FLOATING, REAL_FLOATING, REAL_FLOATING, INTEGER),
        separate=(3,),
        parts=RNNResult,
        result=(SAME, SAME),
        shape=_shapes(1, 1, 1),
        gradient=(*map(_rnn_rule, range(3)), None),
        compose=_rnn,
        samples=(
            Sample(*_sequence(1), Array((2, 2)), ALL),
            Sample(*_sequence(1), Array((2, 2)), _LENGTHS, reverse=True),
            Sample(Array((2, 2, 2), 3, 5), Array((2, 2), 0), Array((2, 2), -0.5, 0.5), ALL, nonlinearity="relu"),
        ),
        reference=_rnn_reference,
    ),
    _GRADIENT(
        "rnn_gradient",
        "The vector-Jacobian product of `rnn` by what the inputs contributed and by the initial states, from the "
        "cotangents of states and gates, the gates, and the weight.",
        operands=5,
        optional=(ALL,),
        parameters=_rnn_gradient_parameters,
        accepts=(REAL_FLOATING,) * 4 + (INTEGER,),
        separate=(4,),
        parts=RNNGradient,
        result=(SAME, SAME),
        shape=_gradient_shapes(3, 2, (1, 0)),
        compose=_rnn_gradient,
        samples=(
            Sample(Array((3, 2, 2)), 0.0, Array((3, 2, 2)), Array((2, 2)), ALL),
            Sample(Array((3, 2, 2)), Array((3, 2, 2)), Array((3, 2, 2)), Array((2, 2)), _LENGTHS, reverse=True),
        ),
        reference=_gradient_reference(1, 0),
    ),
    _RECURRENT(
        "lstm",
        "Long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000) over sequences (time, batch, 4 * "
        "features): of ``x + h @ weight.T`` the blocks are i, f, g, o, and ``c = sigmoid(f) * c + sigmoid(i) * "
        "tanh(g)``, ``h = sigmoid(o) * tanh(c)``, from initial states and cells (batch, features). `lengths` and "
        "`reverse` as of `rnn`.",
        operands=5,
        optional=(ALL,),
        parameters=_lstm_parameters,
        accepts=(REAL_FLOATING,) * 4 + (INTEGER,),
        separate=(4,),
        parts=LSTMResult,
        result=(SAME, SAME, SAME),
        shape=_shapes(4, 1, 1, 4),
        gradient=(*map(_lstm_rule, range(4)), None),
        compose=_lstm,
        samples=(
            Sample(*_sequence(4), Array((2, 2)), Array((8, 2)), ALL),
            Sample(*_sequence(4, 2), Array((2, 2)), Array((8, 2)), Array((2,), 1, 3, "int64"), reverse=True),
        ),
        reference=_lstm_reference,
    ),
    _GRADIENT(
        "lstm_gradient",
        "The vector-Jacobian product of `lstm` by what the inputs contributed, by the initial states and cells, from "
        "the cotangents of states, cells and gates, the cells and gates, the initial cells, and the weight.",
        operands=8,
        optional=(ALL,),
        parameters=_lstm_gradient_parameters,
        accepts=(REAL_FLOATING,) * 7 + (INTEGER,),
        separate=(7,),
        parts=LSTMGradient,
        result=(SAME, SAME, SAME),
        shape=_gradient_shapes(6, 4, (4, 0, 0)),
        compose=_lstm_gradient,
        samples=(
            Sample(
                Array((2, 2, 2)), 0.0, 0.0, Array((2, 2, 2)), Array((2, 2, 8), 0.1, 0.9), Array((2, 2)), Array((8, 2)),
                ALL,
            ),
            Sample(
                Array((2, 2, 2)), Array((2, 2, 2)), Array((2, 2, 8)), Array((2, 2, 2)), Array((2, 2, 8), 0.1, 0.9),
                Array((2, 2)), Array((8, 2)), Array((2,), 1, 3, "int64"), reverse=True,
            ),
        ),
        reference=_gradient_reference(4, 1),
    ),
    _RECURRENT(
        "gru",
        "Gated recurrent units (Cho et al. 2014) over sequences (time, batch, 3 * features): of ``x`` and ``h @ "
        "weight.T + bias`` the blocks are r, z, n, and ``n = tanh(x_n + sigmoid(r) * h_n)``, ``h = (1 - sigmoid(z)) * "
        "n + sigmoid(z) * h``, from initial states (batch, features). `lengths` and `reverse` as of `rnn`.",
        operands=5,
        optional=(0.0, ALL),
        parameters=_gru_parameters,
        accepts=(REAL_FLOATING,) * 4 + (INTEGER,),
        separate=(4,),
        parts=GRUResult,
        result=(SAME, SAME),
        shape=_shapes(3, 1, 4),
        gradient=(*map(_gru_rule, range(4)), None),
        compose=_gru,
        samples=(
            Sample(*_sequence(3), Array((6, 2)), 0.0, ALL),
            Sample(*_sequence(3, 2), Array((6, 2)), Array((6,)), Array((2,), 1, 3, "int64"), reverse=True),
        ),
        reference=_gru_reference,
    ),
    _GRADIENT(
        "gru_gradient",
        "The vector-Jacobian product of `gru` by what the inputs contributed, by what the states contributed to n, and "
        "by the initial states, from the cotangents of states and gates, both, the initial states, and the weight.",
        operands=7,
        optional=(ALL,),
        parameters=_gru_gradient_parameters,
        accepts=(REAL_FLOATING,) * 6 + (INTEGER,),
        separate=(6,),
        parts=GRUGradient,
        result=(SAME, SAME, SAME),
        shape=_gradient_shapes(5, 3, (3, 1, 0)),
        compose=_gru_gradient,
        samples=(
            Sample(
                Array((2, 2, 2)), 0.0, Array((2, 2, 2)), Array((2, 2, 8), 0.1, 0.9), Array((2, 2)), Array((6, 2)), ALL
            ),
            Sample(
                Array((2, 2, 2)), Array((2, 2, 8)), Array((2, 2, 2)), Array((2, 2, 8), 0.1, 0.9), Array((2, 2)),
                Array((6, 2)), Array((2,), 1, 3, "int64"), reverse=True,
            ),
        ),
        reference=_gradient_reference(3, 0),
    ),
)  # fmt: skip
