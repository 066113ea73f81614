"""Kernels of recurrent networks: all steps of a layer, each a product and a few passes over what fits into a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, Final

import numpy as np

from micrograd_cpu.eager import compiled
from micrograd_cpu.products import alone

SMALL: Final = 1 << 22
"""Multiplications of a step up to which one thread computes it: two would wait for each other at every step."""


def _order(steps: int, reverse: bool) -> list[int]:
    """The steps as they follow each other."""
    return list(range(steps))[:: -1 if reverse else 1]


def _covers(*operands: Any) -> bool:
    """float32 or float64 throughout; cotangents of what nobody used are 0."""
    return all(x.dtype.char in "fd" if isinstance(x, np.ndarray) and x.ndim else x == 0 for x in operands)


def _masks(lengths: Any, steps: int) -> Any:
    """Whether each step is beyond each sequence, (steps, batch, 1), or ``None`` where none is."""
    if not np.ndim(lengths):
        return None
    beyond = np.arange(steps)[:, None] >= lengths
    return beyond[..., None] if beyond.any() else None


def _keep(beyond: Any, t: Any, *pairs: tuple[Any, Any]) -> None:
    """Beyond the end of a sequence, arrays of a step get what is beside them in a pair."""
    if beyond is not None:
        for x, kept in pairs:
            np.copyto(x, kept, where=beyond[t])


def _add(total: Any, g: Any, t: int) -> None:
    """The cotangents of a step, if there are any."""
    if g.__class__ is np.ndarray and g.ndim:
        total += g[t]


def _parts(x: Any, count: int) -> list[Any]:
    """The gates of a step, or of all."""
    n = x.shape[-1] // count
    return [x[..., k * n : (k + 1) * n] for k in range(count)]


def _slope(y: Any) -> Any:
    """Of a logistic function, by its result."""
    slope = np.subtract(1, y)
    slope *= y
    return slope


def _slope_of_tanh(y: Any) -> Any:
    slope = np.multiply(y, y)
    return np.subtract(1, slope, out=slope)


def _backwards(states: Any, initial: Any, reverse: bool) -> Iterator[tuple[int, Any]]:
    """The steps from the last on, each with the state before it."""
    steps = _order(len(states), reverse)
    for place in reversed(range(len(steps))):
        yield steps[place], states[steps[place - 1]] if place else initial


def rnn(x: Any, h: Any, weight: Any, lengths: Any, *, reverse: bool, nonlinearity: str) -> Any:
    """Each step in the memory of its result."""
    if not _covers(x, h, weight):
        return NotImplemented
    states, beyond = np.empty((*x.shape[:2], h.shape[1]), x.dtype), _masks(lengths, len(x))
    activate = np.tanh if nonlinearity == "tanh" else partial(np.maximum, 0)
    for t in _order(len(x), reverse):
        y = np.matmul(h, weight.T, out=states[t])
        y += x[t]
        activate(y, out=y)
        _keep(beyond, t, (y, h))
        h = y
    gates = states.copy()
    _keep(beyond, ..., (gates, 0))
    return states, gates


def rnn_gradient(
    g: Any, g_gates: Any, gates: Any, weight: Any, lengths: Any, *, reverse: bool, nonlinearity: str
) -> Any:
    """The slopes of all steps at once."""
    if not _covers(gates, g, g_gates, weight):
        return NotImplemented
    found = _slope_of_tanh(gates) if nonlinearity == "tanh" else np.astype(gates > 0, gates.dtype)
    beyond, dh = _masks(lengths, len(gates)), np.zeros((gates.shape[1], weight.shape[1]), gates.dtype)
    for t in _order(len(gates), not reverse):
        _add(dh, g, t)
        dx = found[t]
        dx *= dh + g_gates[t] if np.ndim(g_gates) else dh
        _keep(beyond, t, (dx, 0))
        before = np.matmul(dx, weight)
        _keep(beyond, t, (before, dh))
        dh = before
    return found, dh


def _tangents(k: Any, a: Any, x: Any, halves: Any, shift: Any) -> Any:
    return k.add(k.multiply(k.tanh(k.multiply(k.add(a, x), halves)), halves), shift)


_activated: Final = compiled(_tangents, partial(_tangents, np), always=True)


def lstm(x: Any, h: Any, c: Any, weight: Any, lengths: Any, *, reverse: bool) -> Any:
    """Each step in the memory of its results; one pass computes all gates, logistic functions by tangents."""
    if not _covers(x, h, c, weight):
        return NotImplemented
    steps, batch, wide = x.shape
    states, cells = (np.empty((steps, batch, wide // 4), x.dtype) for _ in range(2))
    gates, beyond = np.empty(x.shape, x.dtype), _masks(lengths, steps)
    halves = np.repeat(np.array([0.5, 0.5, 1, 0.5], x.dtype), wide // 4)
    shift = 1 - halves
    for t in _order(steps, reverse):
        a = gates[t]
        a[...] = _activated(np.matmul(h, weight.T), x[t], halves, shift)
        i, f, u, o = _parts(a, 4)
        new = np.multiply(f, c, out=cells[t])
        new += i * u
        y = np.multiply(o, np.tanh(new), out=states[t])
        _keep(beyond, t, (new, c), (y, h), (a, 0))
        h, c = y, new
    return states, cells, gates


def lstm_gradient(
    g: Any, g_cells: Any, g_gates: Any, cells: Any, gates: Any, c: Any, weight: Any, lengths: Any, *, reverse: bool
) -> Any:
    """In the memory of the gates' slopes."""
    if not _covers(gates, g, g_cells, g_gates, cells, c, weight):
        return NotImplemented
    found, beyond = _slope(gates), _masks(lengths, len(gates))
    _parts(found, 4)[2][...] = _slope_of_tanh(_parts(gates, 4)[2])
    dh, dc = np.zeros_like(cells[0]), np.zeros_like(cells[0])
    for t, earlier in _backwards(cells, c, reverse):
        _add(dh, g, t)
        _add(dc, g_cells, t)
        i, f, u, o = _parts(gates[t], 4)
        wave = np.tanh(cells[t])
        total = _slope_of_tanh(wave)
        total *= o
        total *= dh
        total += dc
        inner = np.concatenate([total * u, total * earlier, total * i, dh * wave], axis=1)
        _add(inner, g_gates, t)
        dx = found[t]
        dx *= inner
        _keep(beyond, t, (dx, 0))
        before = np.matmul(dx, weight)
        total *= f
        _keep(beyond, t, (before, dh), (total, dc))
        dh, dc = before, total
    return found, dh, dc


def gru(x: Any, h: Any, weight: Any, bias: Any, lengths: Any, *, reverse: bool) -> Any:
    """Each step in the memory of its results."""
    if not _covers(x, h, weight, bias):
        return NotImplemented
    steps, batch, wide = x.shape
    n = wide // 3
    states, gates = np.empty((steps, batch, n), x.dtype), np.empty((steps, batch, 4 * n), x.dtype)
    recurrent, beyond = np.empty((batch, wide), x.dtype), _masks(lengths, steps)
    for t in _order(steps, reverse):
        np.matmul(h, weight.T, out=recurrent)
        recurrent += bias
        a, y = gates[t], states[t]
        r, z, new, inner = _parts(a, 4)
        inner[...] = recurrent[:, 2 * n :]
        a[:, : 2 * n] = _activated(x[t, :, : 2 * n], recurrent[:, : 2 * n], 0.5, 0.5)
        np.multiply(r, inner, out=new)
        new += x[t, :, 2 * n :]
        np.tanh(new, out=new)
        np.subtract(h, new, out=y)
        y *= z
        y += new
        _keep(beyond, t, (y, h), (a, 0))
        h = y
    return states, gates


def gru_gradient(
    g: Any, g_gates: Any, states: Any, gates: Any, h: Any, weight: Any, lengths: Any, *, reverse: bool
) -> Any:
    """Cotangents of a step side by side, as they go into the product."""
    if not _covers(gates, g, g_gates, states, h, weight):
        return NotImplemented
    steps, batch, n = states.shape
    found, inner, beyond = np.empty((steps, batch, 3 * n), gates.dtype), np.empty_like(states), _masks(lengths, steps)
    gr, gz, gn, gave_inner = _parts(g_gates, 4) if np.ndim(g_gates) else (0,) * 4
    dh = np.zeros((batch, n), gates.dtype)
    for t, earlier in _backwards(states, h, reverse):
        _add(dh, g, t)
        a, dx, through = gates[t], found[t], inner[t]
        (r, z, u, gave), (dr, dz, dn) = _parts(a, 4), _parts(dx, 3)
        np.subtract(earlier, u, out=dz)
        dz *= dh
        np.subtract(1, z, out=dn)
        dn *= dh
        _add(dz, gz, t)
        _add(dn, gn, t)
        dn *= _slope_of_tanh(u)
        np.multiply(dn, gave, out=dr)
        np.multiply(dn, r, out=through)
        _add(dr, gr, t)
        _add(through, gave_inner, t)
        dx[:, : 2 * n] *= _slope(a[:, : 2 * n])
        _keep(beyond, t, (dx, 0), (through, 0))
        before = np.matmul(np.concatenate([dr, dz, through], axis=1), weight)
        before += dh * z
        _keep(beyond, t, (before, dh))
        dh = before
    return found, inner, dh


def _stepping(kernel: Callable[..., Any], array: int, weight: int) -> Callable[..., Any]:
    """A kernel that computes its products with one thread of OpenBLAS, by the places of an array and of the weight."""

    @wraps(kernel)
    def stepping(*operands: Any, **params: Any) -> Any:
        single = alone() if operands[array].shape[1] * operands[weight].size <= SMALL else None
        call = partial(kernel, **params)
        return call(*operands) if single is None else single(call, *operands)

    return stepping


RECURRENT: Final[dict[str, Callable[..., Any]]] = {
    "rnn": _stepping(rnn, 0, 2),
    "rnn_gradient": _stepping(rnn_gradient, 2, 3),
    "lstm": _stepping(lstm, 0, 3),
    "lstm_gradient": _stepping(lstm_gradient, 4, 6),
    "gru": _stepping(gru, 0, 2),
    "gru_gradient": _stepping(gru_gradient, 3, 5),
}
