"""Gradients cut down to size, before an optimiser's step: `optim.clip_grad_norm` and `optim.clip_grad_value`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.array import wrap
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import DTypeError
from micrograd_core.ground.assignments import assign_all
from micrograd_core.ground.context import programs
from micrograd_core.ground.warning import unless_withheld


def clip_grad_norm(params: Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients by one factor, so that their common norm is at most `max_norm` (Pascanu et al. 2013).

    All or none: what is interrupted, or lacks memory, leaves the gradients as they were, or has scaled all of them.

    Parameters
    ----------
    params : iterable of Tensor
        Those without a gradient do not count.
    max_norm : float

    Returns
    -------
    float, or in a function under `jit` a Tensor of shape ()
        The norm before; infinite or NaN if a gradient is, and then all gradients become NaN, for all to see.
    """
    if not max_norm > 0:
        raise ValueError(f"clip_grad_norm: max_norm must be positive; got {max_norm}")
    owners = [p for p in params if p.grad is not None]
    if programs.get() is not None and owners:
        return _traced_clip(owners, float(max_norm))  # type: ignore[no-any-return]
    norms = _norms([p.grad for p in owners if p.grad is not None])
    total = math.hypot(*norms) if all(map(math.isfinite, norms)) else sum(norms)
    if not total <= max_norm:
        factor = float(max_norm) / total if math.isfinite(total) else math.nan
        _replace(owners, lambda k, g: k.multiply(g, factor))
    return total


def clip_grad_value(params: Iterable[Tensor], limit: float) -> None:
    """Clip every element of every gradient to ``[-limit, limit]``; as `clip_grad_norm`, of all gradients or none.

    Raises
    ------
    ValueError, DTypeError
        For a limit that is not positive, or complex gradients, which have no order.
    """
    if not limit > 0:
        raise ValueError(f"clip_grad_value: the limit must be positive; got {limit}")
    params = list(params)
    for p in params:
        if p.dtype.is_complex:
            raise DTypeError(f"clip_grad_value: {p.dtype} numbers have no order; use clip_grad_norm")
    _replace(params, lambda k, g: k.maximum(k.minimum(g, float(limit)), -float(limit)))


def _norms(gradients: Iterable[Tensor]) -> list[float]:
    """Of each; read from a device all at once, since a reader waits for what the device has been given."""
    together: dict[Any, list[Tensor]] = {}
    for g in gradients:
        if g.size:
            norm = _norm(g.detach())
            together.setdefault((norm.device, norm.dtype), []).append(norm)
    return [norm for each in together.values() for norm in FUNCTIONS["stack"](each, axis=0).tolist()]


def _norm(g: Tensor) -> Tensor:
    """Scaled by the greatest element, so that no square overflows or vanishes; nor does a sum in a half type."""
    sizes = abs(g)
    sizes = sizes.astype("float32") if sizes.dtype.bits < 32 else sizes
    greatest = sizes.max()
    scales = (greatest > 0) & (greatest < math.inf)
    scaled = sizes / FUNCTIONS["where"](scales, greatest, 1.0)
    return FUNCTIONS["where"](scales, greatest * (scaled * scaled).sum().sqrt(), greatest)


def _traced_clip(owners: list[Tensor], max_norm: float) -> Any:
    """The same without reading a number: where nothing is to be scaled, the factor is 1."""
    with no_grad():
        norms = FUNCTIONS["stack"]([_norm(p.grad.detach()) for p in owners if p.grad is not None and p.grad.size])
        total = _norm(norms.astype("float64" if "float64" in owners[0]._kernels.backend.dtypes else "float32"))
        finite = (total < math.inf).astype(total.dtype)
        factor = FUNCTIONS["where"](total <= max_norm, 1.0, max_norm / total / finite)
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
            try:
                handle = change(g._kernels, g._handle)
            except TypeError as error:
                handle = unless_withheld(error, change, (g._kernels, g._handle), {})
            changes.append((p, "_grad", wrap(Tensor, handle, g._kernels, g.dtype, None)))
    assign_all(changes)


__all__ = ["clip_grad_norm", "clip_grad_value"]
