"""Gradients cut down to size, before an optimiser's step: `optim.clip_grad_norm` and `optim.clip_grad_value`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import float32, float64
from micrograd_core.engine.array import wrap
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import DTypeError
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import programs

EPSILON = 1e-6
"""Added to a norm before it divides, as in PyTorch."""


def clip_grad_norm(
    params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, *, error_if_nonfinite: bool = False
) -> float:
    """Scale all gradients by one factor, so that their common norm is at most `max_norm` (Pascanu et al. 2013).

    All or none: what is interrupted, or lacks memory, leaves the gradients as they were, or has scaled all of them.
    The factor is ``max_norm / (norm + 1e-6)``, or 1 if that is less, as in PyTorch.

    Parameters
    ----------
    params : Tensor or iterable of Tensor
        Those without a gradient do not count.
    max_norm : float
    norm_type : float
        The order of the norm: positive, or infinity for the greatest size.
    error_if_nonfinite : bool
        Whether an infinite norm, or NaN, is an error, which leaves the gradients as they were.

    Returns
    -------
    float, or in a function under `jit` a Tensor of shape ()
        The norm before; infinite or NaN if a gradient is, and then all gradients become NaN, for all to see.

    Raises
    ------
    ValueError
        For a `max_norm` or `norm_type` that is not positive, and for `error_if_nonfinite` in a function under `jit`,
        which reads no numbers.
    RuntimeError
        By `error_if_nonfinite`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, 4.0])
    >>> (x * x / 2).sum().backward()
    >>> mg.optim.clip_grad_norm([x], 1.0)
    5.0
    >>> x.grad
    Tensor([0.6, 0.8])
    """
    if not max_norm > 0:
        raise ValueError(f"clip_grad_norm: max_norm must be positive; got {max_norm}")
    order = float(norm_type)
    if not order > 0:
        raise ValueError(f"clip_grad_norm: norm_type must be positive, such as 2, 1 or infinity; got {norm_type}")
    owners = [p for p in ([params] if isinstance(params, Tensor) else params) if p.grad is not None]
    if programs.get() is not None and owners:
        if error_if_nonfinite:
            raise ValueError(
                "clip_grad_norm: a function under jit reads no numbers, and so error_if_nonfinite cannot raise there; "
                "look at the norm that the function returns"
            )
        return _traced_clip(owners, float(max_norm), order)  # type: ignore[no-any-return]
    norms = _norms([p.grad for p in owners if p.grad is not None], order)
    total = _common(norms, order) if all(map(math.isfinite, norms)) else sum(norms)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"clip_grad_norm: the norm of all gradients is {total}; without error_if_nonfinite they would become NaN"
        )
    factor = float(max_norm) / (total + EPSILON) if math.isfinite(total) else math.nan
    if not factor >= 1:
        _replace(owners, lambda k, g: k.multiply(g, factor))
    return total


def _common(norms: list[float], order: float) -> float:
    """The norm of norms, without overflow."""
    if order == 2:
        return math.hypot(*norms)
    greatest = max(norms, default=0.0)
    total: float = math.fsum([(each / (greatest or 1.0)) ** order for each in norms]) ** (1 / order)
    return greatest * total


def clip_grad_value(params: Iterable[Tensor], limit: float) -> None:
    """Clip every element of every gradient to ``[-limit, limit]``. An error or interrupt changes all gradients or none.

    Parameters
    ----------
    params : iterable of Tensor
        Those without a gradient are left out.
    limit : float
        Positive.

    Raises
    ------
    ValueError, DTypeError
        For a limit that is not positive, or complex gradients, which have no order.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, 0.5])
    >>> (x * x / 2).sum().backward()
    >>> mg.optim.clip_grad_value([x], 1.0)
    >>> x.grad
    Tensor([ 1., 0.5])
    """
    if not limit > 0:
        raise ValueError(f"clip_grad_value: the limit must be positive; got {limit}")
    params = list(params)
    for p in params:
        if p.dtype.is_complex:
            raise DTypeError(f"clip_grad_value: {p.dtype} numbers have no order; use clip_grad_norm")
    _replace(params, lambda k, g: k.maximum(k.minimum(g, float(limit)), -float(limit)))


def _norms(gradients: list[Tensor], order: float) -> list[float]:
    """The norm of each gradient; of float32 from its sum of squares in float64, where none overflows or vanishes."""
    if order == 2 and all(g.dtype is float32 and "float64" in g._kernels.backend.dtypes for g in gradients):
        return [math.sqrt(square) for square in _read([_square(g) for g in gradients])]
    return _read([_norm(g.detach(), order) for g in gradients if g.size])


def _square(g: Tensor) -> Tensor:
    """The product of a gradient, as a vector, with itself: one call of a BLAS."""
    k = g._kernels
    flat = k.astype(k.reshape(g._handle, shape=(int(g.size),)), dtype=float64)
    return wrap(Tensor, k.matmul(flat, flat), k, float64, None)


def _read(numbers: list[Tensor]) -> list[float]:
    """0-d tensors as Python's numbers, read from a device all at once, since each read waits for the device."""
    together: dict[Any, list[Tensor]] = {}
    for x in numbers:
        together.setdefault((x.device, x.dtype), []).append(x)
    return [x for each in together.values() for x in FUNCTIONS["stack"](each, axis=0).tolist()]


def _norm(g: Tensor, order: float) -> Tensor:
    """Scaled by the greatest element, so that no power overflows or vanishes; nor does a sum in a half type."""
    sizes = abs(g)
    sizes = sizes.astype("float32") if sizes.dtype.bits < 32 else sizes
    greatest = sizes.max()
    if order == math.inf:
        return greatest  # type: ignore[no-any-return]
    scales = (greatest > 0) & (greatest < math.inf)
    scaled = sizes / FUNCTIONS["where"](scales, greatest, 1.0)
    total = (scaled * scaled).sum().sqrt() if order == 2 else (scaled**order).sum() ** (1 / order)
    return FUNCTIONS["where"](scales, greatest * total, greatest)


def _traced_clip(owners: list[Tensor], max_norm: float, order: float) -> Any:
    """`clip_grad_norm` in a function under `jit`, which reads no number: the factor is 1 where nothing is scaled."""
    with no_grad():
        norms = [_norm(p.grad.detach(), order) for p in owners if p.grad is not None and p.grad.size]
        dtype = "float64" if "float64" in owners[0]._kernels.backend.dtypes else "float32"
        total = _norm(FUNCTIONS["stack"](norms).astype(dtype), order)
        finite = (total < math.inf).astype(total.dtype)
        factor = max_norm / (total + EPSILON)
        factor = FUNCTIONS["where"](factor >= 1, 1.0, factor / finite)  # 0 / 0 of an infinite norm
    for p in owners:
        g = p.grad
        assert g is not None
        p._grad = wrap(Tensor, (g.detach() * factor.astype(g.dtype))._handle, g._kernels, g.dtype, None)
    return total


def _replace(params: Iterable[Tensor], change: Callable[[Any, Any], Any]) -> None:
    """New numbers for all gradients, outside the graph."""
    changes: list[Any] = []
    for p in params:
        g = p.grad
        if g is not None:
            changes.append((p, "_grad", wrap(Tensor, change(g._kernels, g._handle), g._kernels, g.dtype, None)))
    assign_all(changes)
