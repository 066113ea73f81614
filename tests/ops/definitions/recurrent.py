"""What operations of `micrograd_core.ops.network.recurrent` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _stepped(np: Any, step: Any, x: Any, states: Any, lengths: Any, reverse: bool) -> Any:
    found: list[Any] = [None] * x.shape[0]
    for t in range(x.shape[0])[:: -1 if reverse else 1]:
        *new, gates = step(x[t], *states)
        valid = (t < np.asarray(lengths)).reshape(-1, 1) if np.ndim(lengths) else np.ones((x.shape[1], 1), bool)
        states = [np.where(valid, y, z) for y, z in zip(new, states, strict=True)]
        found[t] = (*states, np.where(valid, gates, 0))
    return [np.stack(column) for column in zip(*found, strict=True)]


def _logistic(np: Any, x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def rnn_reference(
    np: Any, x: Any, h: Any, weight: Any, lengths: Any, reverse: bool = False, nonlinearity: str = "tanh"
) -> Any:
    """The definition of `rnn` in NumPy, step by step."""

    def step(x: Any, h: Any) -> Any:
        y = x + h @ weight.T
        return (np.tanh(y) if nonlinearity == "tanh" else np.maximum(y, 0),) * 2

    return _stepped(np, step, x, [h], lengths, reverse)


def lstm_reference(np: Any, x: Any, h: Any, c: Any, weight: Any, lengths: Any, reverse: bool = False) -> Any:
    """The definition of `lstm` in NumPy, step by step."""

    def step(x: Any, h: Any, c: Any) -> Any:
        i, f, g, o = np.split(x + h @ weight.T, 4, axis=1)
        i, f, g, o = _logistic(np, i), _logistic(np, f), np.tanh(g), _logistic(np, o)
        c = f * c + i * g
        return o * np.tanh(c), c, np.concatenate([i, f, g, o], axis=1)

    return _stepped(np, step, x, [h, c], lengths, reverse)


def gru_reference(np: Any, x: Any, h: Any, weight: Any, bias: Any, lengths: Any, reverse: bool = False) -> Any:
    """The definition of `gru` in NumPy, step by step."""

    def step(x: Any, h: Any) -> Any:
        (xr, xz, xn), (hr, hz, hn) = (np.split(each, 3, axis=1) for each in (x, h @ weight.T + bias))
        r, z = _logistic(np, xr + hr), _logistic(np, xz + hz)
        n = np.tanh(xn + r * hn)
        return (1 - z) * n + z * h, np.concatenate([r, z, n, hn], axis=1)

    return _stepped(np, step, x, [h], lengths, reverse)


def gradient_reference(blocks: int, cells: int) -> Any:
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
        steps = range(shape[0])[:: -1 if reverse else 1]
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


DEFINITIONS = {
    "rnn": rnn_reference,
    "rnn_gradient": gradient_reference(1, 0),
    "lstm": lstm_reference,
    "lstm_gradient": gradient_reference(4, 1),
    "gru": gru_reference,
    "gru_gradient": gradient_reference(3, 0),
}
