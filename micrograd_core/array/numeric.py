"""Functions element by element that are a line over the table, running reductions, and the norm by PyTorch's name."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from micrograd_core.array.creation import arange
from micrograd_core.array.functions import FUNCTIONS, both_spellings
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import bool_
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis

F: Final = FUNCTIONS


# ── element by element ───────────────────────────────────────────────────────────────────────────────────────


def exp2(x: Any, /) -> Tensor:
    """``2 ** x``."""
    return F["exp"](F["multiply"](x, math.log(2)))


def rsqrt(x: Any, /) -> Tensor:
    """``1 / sqrt(x)``."""
    return F["pow"](x, -0.5)


def logit(x: Any, /, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, the inverse of `sigmoid`; with `eps` of `x` between `eps` and ``1 - eps``."""
    x = asarray(x) if eps is None else F["clip"](x, eps, 1 - eps)
    return F["log"](x) - F["log1p"](-x)


def lerp(x: Any, end: Any, weight: Any, /) -> Tensor:
    """``x + weight * (end - x)``."""
    x = asarray(x)
    return x + weight * (end - x)


def fmod(x1: Any, x2: Any, /) -> Tensor:
    """The rest of a division that rounds towards 0: it has the sign of ``x1``."""
    x1 = asarray(x1)
    rest = F["remainder"](F["abs"](x1), abs(x2))
    return F["where"](x1 < 0, -rest, rest) if not x1.dtype.is_floating else _signed(x1, rest, x2)


def _signed(x: Tensor, rest: Tensor, divisor: Any) -> Tensor:
    """The rest with the sign of `x`, as ``x - trunc(x / divisor) * divisor``, whose gradients it has."""
    times = ((x - F["where"](x < 0, -rest, rest)) / divisor).detach()
    times = F["round"](F["where"](F["isfinite"](times), times, 0))
    exact = F["where"](x < 0, -rest, rest).detach()
    rough = x - times * divisor
    return rough + (exact - rough.detach())


def nan_to_num(x: Any, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN replaced by `nan`, infinities by `posinf` and `neginf`, by default the greatest and least of the dtype."""
    x = asarray(x)
    if not x.dtype.is_floating:
        return x.copy()
    from micrograd_core.array.namespace import finfo

    greatest = finfo(x.dtype).max
    out = F["where"](F["isnan"](x), nan, x)
    out = F["where"](x == math.inf, greatest if posinf is None else posinf, out)
    return F["where"](x == -math.inf, -greatest if neginf is None else neginf, out)


def isclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether ``|x - y| <= atol + rtol * |y|``, or both are the same infinity, or with `equal_nan` both NaN."""
    x, y = asarray(x).detach(), asarray(y).detach()
    if x.dtype is bool_:
        return x == y
    finite = F["isfinite"](x) & F["isfinite"](y)
    near = F["abs"](F["where"](finite, x, 0) - F["where"](finite, y, 0)) <= F["abs"](y) * rtol + atol
    out = (near & finite) | (x == y)
    return out | (F["isnan"](x) & F["isnan"](y)) if equal_nan else out


def allclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` says. The answer is read: it is a Python bool."""
    return bool(isclose(x, y, rtol, atol, equal_nan).all())


# ── running reductions ───────────────────────────────────────────────────────────────────────────────────────


class Extremes(NamedTuple):
    """What `cummax` and `cummin` give."""

    values: Tensor
    indices: Tensor


@both_spellings
def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Sums of the first 1, 2, … elements along `axis`; of the flattened tensor without one."""
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_sum"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


@both_spellings
def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Products of the first 1, 2, … elements along `axis`; of the flattened tensor without one."""
    x = asarray(x) if axis is not None else asarray(x).reshape(-1)
    return F["cumulative_prod"](x.reshape(1) if not x.ndim else x, axis=axis or 0, dtype=dtype).reshape(x.shape)


@both_spellings
def cummax(x: Any, /, axis: int = 0) -> Extremes:
    """The greatest of the first 1, 2, … elements along `axis`, and where it is: of equal ones the last."""
    return _running("cummax", x, axis, 1)


@both_spellings
def cummin(x: Any, /, axis: int = 0) -> Extremes:
    """The least of the first 1, 2, … elements along `axis`, and where it is: of equal ones the last."""
    return _running("cummin", x, axis, -1)


def _running(name: str, x: Any, axis: int, sign: int) -> Extremes:
    """Positions in ``log2(n)`` steps, as other scans; the values are taken from there, which their gradients know."""
    x = asarray(x)
    if not x.ndim:
        return Extremes(x.copy(), F["astype"](x.detach() * 0, "int64"))
    at = resolve_axis(name, axis, x.ndim)
    length, lead = x.shape[at], (slice(None),) * at
    shape = [length if each == at else 1 for each in range(x.ndim)]
    best = F["broadcast_to"](arange(length, dtype="int64", device=x.device).reshape(shape), x.shape)
    values, step = x.detach(), 1
    beaten = F["less_equal"] if sign > 0 else F["greater_equal"]
    while step < length:
        earlier, own = values[(*lead, slice(0, length - step))], values[(*lead, slice(step, None))]
        holds = beaten(earlier, own) | F["isnan"](own)  # the later of equal ones, and NaN wins
        rest, before = best[(*lead, slice(step, None))], best[(*lead, slice(0, length - step))]
        holds = holds & ~(F["isnan"](earlier) & ~F["isnan"](own)) if x.dtype.is_floating else holds
        values = F["concat"]([values[(*lead, slice(0, step))], F["where"](holds, own, earlier)], axis=at)
        best = F["concat"]([best[(*lead, slice(0, step))], F["where"](holds, rest, before)], axis=at)
        step *= 2
    return Extremes(F["take_along_axis"](x, best, axis=at), best.copy() if length < 2 else best)


@both_spellings
def logcumsumexp(x: Any, /, axis: int = 0) -> Tensor:
    """``log(cumsum(exp(x)))`` along `axis`, without overflow."""
    x = asarray(x)
    if not x.ndim:
        return x.copy()
    at = resolve_axis("logcumsumexp", axis, x.ndim)
    length, lead, step = x.shape[at], (slice(None),) * at, 1
    out = F["positive"](x)
    while step < length:
        later, earlier = out[(*lead, slice(step, None))], out[(*lead, slice(0, length - step))]
        out = F["concat"]([out[(*lead, slice(0, step))], F["logaddexp"](later, earlier)], axis=at)
        step *= 2
    return out


def norm(x: Any, /, ord: Any = 2, axis: Any = None, keepdims: bool = False, *, dim: Any = None, p: Any = None,
         keepdim: bool = False) -> Tensor:  # fmt: skip
    """The length of vectors along `axis`, by default of all elements: PyTorch's ``x.norm(p, dim)``."""
    word = ord if p is None else p
    if word not in ("fro", None) and isinstance(word, str):
        raise ShapeError(f"norm: {word!r} is of matrices; use mg.linalg.matrix_norm(x, ord={word!r})")
    places = axis if dim is None else dim
    return F["vector_norm"](x, axis=tuple(places) if isinstance(places, list) else places, keepdims=keepdims or keepdim,
                            ord=2 if word in ("fro", None) else word)  # fmt: skip
