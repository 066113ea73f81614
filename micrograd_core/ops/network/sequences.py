"""What calls of recurrent networks look like, what does not fit, and what they mean in NumPy, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from micrograd_core.errors import ShapeError
from micrograd_core.ops.shared import is_scalar

ALL: Final = -1
"""In the place of `lengths`: all sequences are as long as the time axis."""


def order(steps: int, reverse: bool) -> list[int]:
    """The steps as they follow each other."""
    return list(range(steps))[:: -1 if reverse else 1]


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


def rnn_parameters(
    x: Any, h: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False, nonlinearity: str = "tanh"
) -> dict[str, Any]:
    """``h = tanh(x + h @ weight.T)``, or of `relu`, at each step of sequences (Elman 1990).

    Sequences are (time, batch, features), initial states (batch, features). `lengths` are those of the sequences,
    by default all that there is of them; `reverse` goes from the last step to the first.
    """
    _check("rnn", 1, x, (h,), weight, lengths)
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn: nonlinearity is 'tanh' or 'relu'; got {nonlinearity!r}")
    return {"reverse": bool(reverse), "nonlinearity": nonlinearity}


def lstm_parameters(
    x: Any, h: Any, c: Any, weight: Any, /, lengths: Any = ALL, *, reverse: bool = False
) -> dict[str, Any]:
    """Long short-term memory over sequences (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

    Sequences are (time, batch, 4 * features): of ``x + h @ weight.T`` the blocks are i, f, g, o, and ``c =
    sigmoid(f) * c + sigmoid(i) * tanh(g)``, ``h = sigmoid(o) * tanh(c)``, from initial states and cells (batch,
    features). `lengths` and `reverse` as of `rnn`.
    """
    _check("lstm", 4, x, (h, c), weight, lengths)
    return {"reverse": bool(reverse)}


def gru_parameters(
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
