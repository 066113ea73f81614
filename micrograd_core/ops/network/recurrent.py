"""Recurrent networks over whole sequences: one record for all time steps of a layer in one direction.

What the inputs of all steps contribute is one product, outside; `x` is its result, (time, batch, blocks of features).
The states, and the activations of every step, are kept as results, so that a gradient computes no step again. A step at
or beyond the length of its sequence leaves the state as it is, and has no activations; with `reverse` the last comes
first, so a state stays the initial one until its sequence begins.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape
from micrograd_core.ops.batching import sequences
from micrograd_core.ops.core.matmul import transposed
from micrograd_core.ops.record import FLOATING, INTEGER, SAME, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import chosen, cut, is_scalar, plus
from micrograd_core.ops.tangents import total

ALL: Final = -1
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


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────


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
    """``h = tanh(x + h @ weight.T)``, or of `relu`, at each step of sequences (Elman 1990).

    Sequences are (time, batch, features), initial states (batch, features). `lengths` are those of the sequences,
    by default all that there is of them; `reverse` goes from the last step to the first.
    """
    _check("rnn", 1, x, (h,), weight, lengths)
    return {"reverse": bool(reverse), "nonlinearity": chosen("rnn", "nonlinearity", nonlinearity, ("tanh", "relu"))}


def _lstm_parameters(
    x: Any, h: Any, c: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False
) -> dict[str, Any]:
    """Long short-term memory over sequences (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

    Sequences are (time, batch, 4 * features): of ``x + h @ weight.T`` the blocks are i, f, g, o, and ``c =
    sigmoid(f) * c + sigmoid(i) * tanh(g)``, ``h = sigmoid(o) * tanh(c)``, from initial states and cells (batch,
    features). `lengths` and `reverse` as of `rnn`.
    """
    _check("lstm", 4, x, (h, c), weight, lengths)
    return {"reverse": bool(reverse)}


def _gru_parameters(
    x: Any, h: Any, weight: Any, /, bias: Any = 0.0, lengths: Any = ALL, *, reverse: bool = False
) -> dict[str, Any]:
    """Gated recurrent units over sequences (Cho et al. 2014).

    Sequences are (time, batch, 3 * features): of ``x`` and ``h @ weight.T + bias`` the blocks are r, z, n, and ``n
    = tanh(x_n + sigmoid(r) * h_n)``, ``h = (1 - sigmoid(z)) * n + sigmoid(z) * h``, from initial states (batch,
    features). `lengths` and `reverse` as of `rnn`.
    """
    _check("gru", 3, x, (h,), weight, lengths)
    if not is_scalar(bias) and bias.shape != weight.shape[:1]:
        raise ShapeError(f"gru: a bias has shape {weight.shape[:1]}, as many as the weight has rows; got {bias.shape}")
    return {"reverse": bool(reverse)}


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────


def _at(k: Table, x: Operand, step: int) -> Any:
    """A step of an array; of a number, which stands for one, the number, and ``None`` for 0."""
    return x or None if is_scalar(x) else k.getitem(x, key=(step, *(slice(0, n, 1) for n in x.shape[1:])))


def _block(k: Table, x: Handle, start: int, stop: int, count: int) -> Handle:
    """Some of the blocks of equal length that the last axis is made of."""
    length = x.shape[-1] // count
    return cut(k, x, len(x.shape) - 1, start * length, stop * length)


def _blocks(k: Table, x: Operand, count: int) -> list[Any]:
    return [x] * count if x is None or is_scalar(x) else [_block(k, x, i, i + 1, count) for i in range(count)]


def _valid(k: Table, lengths: Operand, step: int) -> Any:
    """Whether a step belongs to each sequence, (batch, 1); ``None``: to all."""
    return None if is_scalar(lengths) else k.reshape(k.less(step, lengths), shape=(*lengths.shape, 1))


def _chosen(k: Table, valid: Handle, x: Handle, other: Operand) -> Handle:
    return x if valid is None else k.where(valid, x, other)


def _scaled_by_slope(k: Table, g: Handle, sigmoid: Handle) -> Handle:
    """Through a logistic function, by its result."""
    return k.multiply(g, k.multiply(sigmoid, k.subtract(1, sigmoid)))


def _scan(
    k: Table, cell: Callable[..., Any], x: Handle, initial: tuple[Any, ...], weight: Handle, bias: Any, lengths: Any,
    reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """States and gates of all steps, by a function of one: from what input and state contribute, and the states."""
    turned, current = transposed(k, weight), initial
    found: list[Any] = [None] * x.shape[0]
    for step in range(x.shape[0])[:: -1 if reverse else 1]:
        recurrent = plus(k, k.matmul(current[0], turned), bias)
        gates, new = cell(k, _at(k, x, step), recurrent, current)
        valid = _valid(k, lengths, step)
        current = tuple(_chosen(k, valid, y, z) for y, z in zip(new, current, strict=True))
        found[step] = (*current, _chosen(k, valid, gates, 0))
    return tuple(k.stack(*column, axis=0) for column in zip(*found, strict=True))


def _scan_back(
    k: Table, cell: Callable[..., Any], cotangents: tuple[Any, ...], g_gates: Operand, gates: Handle, weight: Any,
    lengths: Operand, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Its transpose, by that of a step; a cotangent that is 0.0 is that of what nobody used.

    ``cell(step, gates, beside, cotangents)`` gives those of what input and state contributed, which may be the same,
    and of the states before.
    """
    steps, shape = gates.shape[0], (gates.shape[1], weight.shape[1])
    carried = tuple(k.full(shape=shape, fill_value=0, dtype=gates.dtype) for _ in cotangents)
    found: list[Any] = [None] * steps
    for step in range(steps)[:: 1 if reverse else -1]:
        given = tuple(total(k, (_at(k, g, step), t)) for g, t in zip(cotangents, carried, strict=True))
        contributed, before = cell(step, _at(k, gates, step), _at(k, g_gates, step), given)
        valid = _valid(k, lengths, step)
        contributed = tuple(_chosen(k, valid, each, 0) for each in contributed)
        before = (total(k, (before[0], k.matmul(contributed[-1], weight))), *before[1:])
        carried = tuple(_chosen(k, valid, new, old) for new, old in zip(before, given, strict=True))
        found[step] = contributed
    return (*(k.stack(*column, axis=0) for column in zip(*found, strict=True)), *carried)


def _earlier(k: Table, states: Handle, initial: Handle, reverse: bool) -> Handle:
    """The state before each step."""
    steps, first = states.shape[0], k.expand_dims(initial, axis=(0,))
    if reverse:
        return k.concat(cut(k, states, 0, 1, steps), first, axis=0)
    return k.concat(first, cut(k, states, 0, 0, steps - 1), axis=0)


def _weight_gradient(k: Table, g: Handle, states: Handle, initial: Handle, reverse: bool) -> Handle:
    """The product of what the states contributed with the states, over all steps."""
    rows = k.reshape(g, shape=(g.shape[0] * g.shape[1], g.shape[2]))
    before = _earlier(k, states, initial, reverse)
    return k.matmul(transposed(k, rows), k.reshape(before, shape=(rows.shape[0], before.shape[2])))


def _once(g: Any, compute: Callable[..., Any]) -> Any:
    """What the rules of all operands need is computed of the parts of the cotangent `g` once, and kept with it."""
    kept: dict[str, Any] = vars(g)
    if "whole" not in kept:
        kept["whole"] = compute(*(0.0 if part is None else part for part in g))
    return kept["whole"]


def _rules(gradient: str, count: int) -> tuple[Any, ...]:
    """Those of the input, of `count` initial states, of the weight, and of the lengths."""

    def rule(position: int, k: Table, g: Any, out: Any, x: Handle, h: Handle, *others: Any, **params: Any) -> Handle:
        found = _once(g, lambda *parts: getattr(k, gradient)(*parts, *out[1:], *others, **params))
        return found[position] if position <= count else _weight_gradient(k, found[0], out[0], h, params["reverse"])

    return (*(partial(rule, i) for i in range(count + 2)), None)


# ── a layer without gates ────────────────────────────────────────────────────────────────────────────────────


def _rnn(k: Table, x: Handle, h: Handle, weight: Handle, lengths: Operand, *, reverse: bool, nonlinearity: str) -> Any:
    def cell(k: Table, x: Handle, recurrent: Handle, states: Handle) -> Any:
        y = getattr(k, nonlinearity)(k.add(x, recurrent))
        return y, (y,)

    return _scan(k, cell, x, (h,), weight, 0.0, lengths, reverse)


def _rnn_gradient(
    k: Table, g: Any, g_gates: Operand, gates: Handle, weight: Handle, lengths: Any, *, reverse: bool, nonlinearity: str
) -> Any:
    def cell(step: int, y: Any, beside: Any, given: Any) -> Any:
        return (getattr(k, f"{nonlinearity}_gradient")(total(k, (given[0], beside)), y),), (None,)

    return _scan_back(k, cell, (g,), g_gates, gates, weight, lengths, reverse)


# ── long short-term memory ───────────────────────────────────────────────────────────────────────────────────


def _lstm(k: Table, x: Handle, h: Handle, c: Handle, weight: Handle, lengths: Any, *, reverse: bool) -> Any:
    def cell(k: Table, x: Handle, recurrent: Handle, states: Any) -> Any:
        i, f, g, o = _blocks(k, k.add(x, recurrent), 4)
        i, f, g, o = k.sigmoid(i), k.sigmoid(f), k.tanh(g), k.sigmoid(o)
        c = k.add(k.multiply(f, states[1]), k.multiply(i, g))
        return k.concat(i, f, g, o, axis=1), (k.multiply(o, k.tanh(c)), c)

    return _scan(k, cell, x, (h, c), weight, 0.0, lengths, reverse)


def _lstm_gradient(
    k: Table, g: Handle, g_cells: Operand, g_gates: Any, cells: Any, gates: Any, c: Any, weight: Any, lengths: Any, *,
    reverse: bool,
) -> Any:  # fmt: skip
    earlier = _earlier(k, cells, c, reverse)

    def cell(step: int, gates: Handle, beside: Handle, given: Any) -> Any:
        i, f, g, o = _blocks(k, gates, 4)
        y = k.tanh(_at(k, cells, step))
        dc = k.add(given[1], k.tanh_gradient(k.multiply(given[0], o), y))
        by_gate = [k.multiply(dc, g), k.multiply(dc, _at(k, earlier, step)), k.multiply(dc, i), k.multiply(given[0], y)]
        di, df, dg, do = (total(k, each) for each in zip(by_gate, _blocks(k, beside, 4), strict=True))
        di, df, do = (_scaled_by_slope(k, slope, gate) for slope, gate in ((di, i), (df, f), (do, o)))
        return (k.concat(di, df, k.tanh_gradient(dg, g), do, axis=1),), (None, k.multiply(dc, f))

    return _scan_back(k, cell, (g, g_cells), g_gates, gates, weight, lengths, reverse)


# ── gated recurrent unit ─────────────────────────────────────────────────────────────────────────────────────


def _gru(k: Table, x: Handle, h: Handle, weight: Handle, bias: Operand, lengths: Any, *, reverse: bool) -> Any:
    def cell(k: Table, x: Handle, recurrent: Handle, states: Any) -> Any:
        inner = _block(k, recurrent, 2, 3, 3)
        both = k.sigmoid(k.add(_block(k, x, 0, 2, 3), _block(k, recurrent, 0, 2, 3)))
        r, z = _blocks(k, both, 2)
        n = k.tanh(k.add(_block(k, x, 2, 3, 3), k.multiply(r, inner)))
        return k.concat(both, n, inner, axis=1), (k.add(n, k.multiply(z, k.subtract(states[0], n))),)

    return _scan(k, cell, x, (h,), weight, bias, lengths, reverse)


def _gru_gradient(
    k: Table, g: Any, g_gates: Any, states: Handle, gates: Handle, h: Any, weight: Any, lengths: Any, *, reverse: bool
) -> Any:
    earlier = _earlier(k, states, h, reverse)

    def cell(step: int, gates: Handle, beside: Handle, given: Any) -> Any:
        (g,) = given
        r, z, n, inner = _blocks(k, gates, 4)
        dz, dn = k.multiply(g, k.subtract(_at(k, earlier, step), n)), k.multiply(g, k.subtract(1, z))
        others = _blocks(k, beside, 4)
        dn = k.tanh_gradient(total(k, (dn, others[2])), n)
        dr = _scaled_by_slope(k, total(k, (k.multiply(dn, inner), others[0])), r)
        dz = _scaled_by_slope(k, total(k, (dz, others[1])), z)
        d_inner = total(k, (k.multiply(dn, r), others[3]))
        both = k.concat(dr, dz, axis=1)
        return (k.concat(both, dn, axis=1), d_inner, k.concat(both, d_inner, axis=1)), (k.multiply(g, z),)

    x, inner, _, before = _scan_back(k, cell, (g,), g_gates, gates, weight, lengths, reverse)
    return x, inner, before


def _gru_rule(
    position: int, k: Table, g: Any, out: Any, x: Handle, h: Any, weight: Any, bias: Any, lengths: Any, **params: Any
) -> Any:
    """Those of the input, the state, the weight and the bias."""
    found = _once(g, lambda *parts: k.gru_gradient(*(*parts, *out, h, weight, lengths), **params))
    if position < 2:
        return found[2 * position]
    contributed = k.concat(_block(k, found[0], 0, 2, 3), found[1], axis=2)
    if position == 3:
        return k.sum(contributed, axis=(0, 1), keepdims=False)
    return _weight_gradient(k, contributed, out[0], h, params["reverse"])


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────

_LENGTHS, _SHORT = (Array((2,), 1, stop, "int64") for stop in (4, 3))
_FIRST, _PAIR, _TRIPLE = Array((2, 2)), Array((2, 2, 2)), Array((3, 2, 2))
_GATES = Array((2, 2, 8), 0.1, 0.9)


def _sequence(blocks: int, steps: int = 3) -> tuple[Array, ...]:
    return Array((steps, 2, 2 * blocks)), Array((2, 2))


def _shapes(
    features_of: int, steps_of: int, kinds: tuple[int, ...], *operands: Any, **params: Any
) -> tuple[Shape, ...]:
    """Of results: for each how many blocks of features all steps have, or 0 for a state.

    The operands say how many: the second length of one the features, the first ones of another the steps and the batch.
    """
    features, (steps, batch, _) = operands[features_of].shape[1], operands[steps_of].shape
    return tuple((steps, batch, each * features) if each else (batch, features) for each in kinds)


def _record(name: str, parts: Any, compose: Callable[..., Any], *, autocast: str = "half", **facts: Any) -> Op:
    """An operation whose last operand are the lengths of the sequences."""
    last = compose.__code__.co_argcount - 2
    usual = {"optional": (ALL,), "batching": sequences, "result": (SAME,) * len(parts._fields)}
    usual |= {"accepts": (FLOATING,) * last + (INTEGER,), "separate": (last,)}
    return Op(name, parts=parts, compose=compose, autocast=autocast, **{**usual, **facts})


def _gradient(name: str, parts: str, compose: Callable[..., Any], **facts: Any) -> Op:
    """The operation that gives the gradients of another: of what the inputs contributed first, of the states last."""
    doc = f"The vector-Jacobian product of `{name}`: from the cotangents of its results, and what it kept."
    return _record(f"{name}_gradient", namedtuple(f"{name}_gradient", parts), compose, autocast="", doc=doc, **facts)


OPS = (
    _record(
        "rnn",
        RNNResult,
        _rnn,
        parameters=_rnn_parameters,
        shape=partial(_shapes, 1, 0, (1, 1)),
        gradient=_rules("rnn_gradient", 1),
        samples=(
            Sample(*_sequence(1), _FIRST, ALL),
            Sample(*_sequence(1), _FIRST, _LENGTHS, reverse=True),
            Sample(Array((2, 2, 2), 3, 5), Array((2, 2), 0), Array((2, 2), -0.5, 0.5), ALL, nonlinearity="relu"),
        ),
    ),
    _gradient(
        "rnn",
        "x h",
        _rnn_gradient,
        shape=partial(_shapes, 3, 2, (1, 0)),
        samples=(
            Sample(_TRIPLE, 0.0, _TRIPLE, _FIRST, ALL, reverse=False, nonlinearity="tanh"),
            Sample(_TRIPLE, _TRIPLE, _TRIPLE, _FIRST, _LENGTHS, reverse=True, nonlinearity="tanh"),
        ),
    ),
    _record(
        "lstm",
        LSTMResult,
        _lstm,
        parameters=_lstm_parameters,
        shape=partial(_shapes, 1, 0, (1, 1, 4)),
        gradient=_rules("lstm_gradient", 2),
        samples=(
            Sample(*_sequence(4), _FIRST, (8, 2), ALL),
            Sample(*_sequence(4, 2), _FIRST, (8, 2), _SHORT, reverse=True),
        ),
    ),
    _gradient(
        "lstm",
        "x h c",
        _lstm_gradient,
        shape=partial(_shapes, 6, 4, (4, 0, 0)),
        samples=(
            Sample(_PAIR, 0.0, 0.0, _PAIR, _GATES, _FIRST, (8, 2), ALL, reverse=False),
            Sample(_PAIR, _PAIR, (2, 2, 8), _PAIR, _GATES, _FIRST, (8, 2), _SHORT, reverse=True),
        ),
    ),
    _record(
        "gru",
        GRUResult,
        _gru,
        optional=(0.0, ALL),
        parameters=_gru_parameters,
        shape=partial(_shapes, 1, 0, (1, 4)),
        gradient=(*(partial(_gru_rule, i) for i in range(4)), None),
        samples=(Sample(*_sequence(3), (6, 2), 0.0, ALL), Sample(*_sequence(3, 2), (6, 2), (6,), _SHORT, reverse=True)),
    ),
    _gradient(
        "gru",
        "x inner h",
        _gru_gradient,
        shape=partial(_shapes, 5, 3, (3, 1, 0)),
        samples=(
            Sample(_PAIR, 0.0, _PAIR, _GATES, _FIRST, (6, 2), ALL, reverse=False),
            Sample(_PAIR, (2, 2, 8), _PAIR, _GATES, _FIRST, (6, 2), _SHORT, reverse=True),
        ),
    ),
)
