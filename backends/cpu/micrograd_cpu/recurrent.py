"""Kernels of recurrent networks: all steps of a layer, each a product and a few passes over what fits into a cache."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micrograd_cpu.products import alone

SMALL: Final = 1 << 22
"""Multiplications of a step up to which one thread computes it: two would wait for each other at every step."""


def order(steps: int, reverse: bool) -> list[int]:
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


def _sigmoid(x: Any, out: Any) -> None:
    """By a hyperbolic tangent, which does not overflow."""
    np.multiply(x, 0.5, out=out)
    np.tanh(out, out=out)
    out *= 0.5
    out += 0.5


def _slope(y: Any) -> Any:
    """Of a logistic function, by its result."""
    slope = np.subtract(1, y)
    slope *= y
    return slope


def _slope_of_tanh(y: Any) -> Any:
    slope = np.multiply(y, y)
    return np.subtract(1, slope, out=slope)


def _earlier(states: Any, initial: Any, steps: list[int]) -> Any:
    """From a step to the state before it, by the place of the step in the order."""
    return lambda place: states[steps[place - 1]] if place else initial


def rnn(x: Any, h: Any, weight: Any, lengths: Any, *, reverse: bool, nonlinearity: str) -> Any:
    """Each step in the memory of its result."""
    if not _covers(x, h, weight):
        return NotImplemented
    states, beyond = np.empty((*x.shape[:2], h.shape[1]), x.dtype), _masks(lengths, len(x))
    turned = weight.T
    for t in order(len(x), reverse):
        y = states[t]
        np.matmul(h, turned, out=y)
        y += x[t]
        if nonlinearity == "tanh":
            np.tanh(y, out=y)
        else:
            np.maximum(y, 0, out=y)
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
    for t in order(len(gates), not reverse):
        if np.ndim(g):
            dh += g[t]
        dx = found[t]
        dx *= dh + g_gates[t] if np.ndim(g_gates) else dh
        _keep(beyond, t, (dx, 0))
        before = np.matmul(dx, weight)
        _keep(beyond, t, (before, dh))
        dh = before
    return found, dh


def lstm(x: Any, h: Any, c: Any, weight: Any, lengths: Any, *, reverse: bool) -> Any:
    """Each step in the memory of its results."""
    if not _covers(x, h, c, weight):
        return NotImplemented
    steps, batch, wide = x.shape
    n = wide // 4
    states, cells = np.empty((steps, batch, n), x.dtype), np.empty((steps, batch, n), x.dtype)
    gates, beyond = np.empty(x.shape, x.dtype), _masks(lengths, steps)
    turned, product, wave = weight.T, np.empty((batch, n), x.dtype), np.empty((batch, n), x.dtype)
    halves = np.full(wide, 0.5, x.dtype)
    halves[2 * n : 3 * n] = 1
    shift = 1 - halves
    for t in order(steps, reverse):
        a = gates[t]
        np.matmul(h, turned, out=a)
        a += x[t]
        a *= halves  # logistic functions by hyperbolic tangents, so that one pass computes all gates
        np.tanh(a, out=a)
        a *= halves
        a += shift
        new = cells[t]
        np.multiply(a[:, n : 2 * n], c, out=new)
        np.multiply(a[:, :n], a[:, 2 * n : 3 * n], out=product)
        new += product
        np.tanh(new, out=wave)
        y = states[t]
        np.multiply(a[:, 3 * n :], wave, out=y)
        _keep(beyond, t, (new, c), (y, h), (a, 0))
        h, c = y, new
    return states, cells, gates


def lstm_gradient(
    g: Any, g_cells: Any, g_gates: Any, cells: Any, gates: Any, c: Any, weight: Any, lengths: Any, *, reverse: bool
) -> Any:
    """In the memory of the gates' slopes."""
    if not _covers(gates, g, g_cells, g_gates, cells, c, weight):
        return NotImplemented
    steps, batch, wide = gates.shape
    n, following, beyond = wide // 4, order(steps, reverse), _masks(lengths, steps)
    earlier = _earlier(cells, c, following)
    found = np.empty(gates.shape, gates.dtype)
    dh, dc = np.zeros((batch, n), gates.dtype), np.zeros((batch, n), gates.dtype)
    wave, total = np.empty_like(dh), np.empty_like(dh)
    for place in reversed(range(steps)):
        t = following[place]
        if np.ndim(g):
            dh += g[t]
        if np.ndim(g_cells):
            dc += g_cells[t]
        a, dx = gates[t], found[t]
        i, f, u, o = (a[:, k * n : (k + 1) * n] for k in range(4))
        np.tanh(cells[t], out=wave)
        np.multiply(dh, wave, out=dx[:, 3 * n :])
        np.multiply(wave, wave, out=wave)
        np.subtract(1, wave, out=wave)
        wave *= o
        np.multiply(dh, wave, out=total)
        total += dc
        np.multiply(total, u, out=dx[:, :n])
        np.multiply(total, earlier(place), out=dx[:, n : 2 * n])
        np.multiply(total, i, out=dx[:, 2 * n : 3 * n])
        if np.ndim(g_gates):
            dx += g_gates[t]
        slope = _slope(a)
        np.multiply(u, u, out=slope[:, 2 * n : 3 * n])
        np.subtract(1, slope[:, 2 * n : 3 * n], out=slope[:, 2 * n : 3 * n])
        dx *= slope
        _keep(beyond, t, (dx, 0))
        before = np.matmul(dx, weight)
        total *= f
        _keep(beyond, t, (before, dh), (total, dc))
        dh, dc, total = before, total, dc
    return found, dh, dc


def gru(x: Any, h: Any, weight: Any, bias: Any, lengths: Any, *, reverse: bool) -> Any:
    """Each step in the memory of its results."""
    if not _covers(x, h, weight, bias):
        return NotImplemented
    steps, batch, wide = x.shape
    n = wide // 3
    states, gates = np.empty((steps, batch, n), x.dtype), np.empty((steps, batch, 4 * n), x.dtype)
    turned, beyond, recurrent = weight.T, _masks(lengths, steps), np.empty((batch, wide), x.dtype)
    for t in order(steps, reverse):
        np.matmul(h, turned, out=recurrent)
        if np.ndim(bias):
            recurrent += bias
        a, given = gates[t], x[t]
        both, new, inner = a[:, : 2 * n], a[:, 2 * n : 3 * n], a[:, 3 * n :]
        np.add(given[:, : 2 * n], recurrent[:, : 2 * n], out=both)
        _sigmoid(both, both)
        inner[...] = recurrent[:, 2 * n :]
        np.multiply(a[:, :n], inner, out=new)
        new += given[:, 2 * n :]
        np.tanh(new, out=new)
        y = states[t]
        np.subtract(h, new, out=y)
        y *= a[:, n : 2 * n]
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
    steps, batch, wide = gates.shape
    n, following, beyond = wide // 4, order(steps, reverse), _masks(lengths, steps)
    earlier = _earlier(states, h, following)
    found = np.empty((steps, batch, 3 * n), gates.dtype)
    through, inner = np.empty((batch, 3 * n), gates.dtype), np.empty((steps, batch, n), gates.dtype)
    dh = np.zeros((batch, n), gates.dtype)
    for place in reversed(range(steps)):
        t = following[place]
        if np.ndim(g):
            dh += g[t]
        a, dx = gates[t], found[t]
        r, z, u, gave = (a[:, k * n : (k + 1) * n] for k in range(4))
        beside = g_gates[t] if np.ndim(g_gates) else None
        dr, dz, dn = (dx[:, k * n : (k + 1) * n] for k in range(3))
        np.subtract(earlier(place), u, out=dz)
        dz *= dh
        np.subtract(1, z, out=dn)
        dn *= dh
        if beside is not None:
            dz += beside[:, n : 2 * n]
            dn += beside[:, 2 * n : 3 * n]
        dn *= _slope_of_tanh(u)
        np.multiply(dn, gave, out=dr)
        np.multiply(dn, r, out=inner[t])
        if beside is not None:
            dr += beside[:, :n]
            inner[t] += beside[:, 3 * n :]
        dx[:, : 2 * n] *= _slope(a[:, : 2 * n])
        _keep(beyond, t, (dx, 0), (inner[t], 0))
        through[:, : 2 * n], through[:, 2 * n :] = dx[:, : 2 * n], inner[t]
        before = np.matmul(through, weight)
        before += dh * z
        _keep(beyond, t, (before, dh))
        dh = before
    return found, inner, dh


def _stepping(kernel: Callable[..., Any], array: int, weight: int) -> Callable[..., Any]:
    """A kernel that computes its products with one thread of OpenBLAS, by the places of an array and of the weight."""

    @functools.wraps(kernel)
    def stepping(*operands: Any, **params: Any) -> Any:
        single = alone() if operands[array].shape[1] * operands[weight].size <= SMALL else None
        if single is None:
            return kernel(*operands, **params)
        return single(lambda lengths: kernel(*operands[:-1], lengths, **params), operands[-1])

    return stepping


RECURRENT: Final[dict[str, Callable[..., Any]]] = {
    "rnn": _stepping(rnn, 0, 2),
    "rnn_gradient": _stepping(rnn_gradient, 2, 3),
    "lstm": _stepping(lstm, 0, 3),
    "lstm_gradient": _stepping(lstm_gradient, 4, 6),
    "gru": _stepping(gru, 0, 2),
    "gru_gradient": _stepping(gru_gradient, 3, 5),
}
