"""Gradients cut down to size, before an optimiser's step: `optim.clip_grad_norm` and `optim.clip_grad_value`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import REAL_OF, float32, float64
from micrograd_core.engine.array import wrap
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import DTypeError
from micrograd_core.ops.shared import NARROW
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import programs

EPSILON: Final = 1e-6
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
        The norm before; infinite or NaN if a gradient is, and then all gradients become NaN, for all to see. So they
        do under `jit` where the norm is beyond the range of float32.

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
    gradients = [p.grad.detach() for p in owners if p.grad is not None]
    if programs.get() is not None and any(g.size for g in gradients):
        if error_if_nonfinite:
            raise ValueError(
                "clip_grad_norm: a function under jit reads no numbers, and so error_if_nonfinite cannot raise there; "
                "look at the norm that the function returns"
            )
        return _traced_clip(owners, gradients, float(max_norm), order)  # type: ignore[no-any-return]
    norms = read(norms_of(gradients, order))
    if not all(map(math.isfinite, norms)):  # float32 may not reach that of finite gradients
        wide = [g.astype(widest(g._kernels)) if g.dtype is float32 else g for g in gradients if g.size]
        norms = read([_norm(g, order) for g in wide])
    total = _common(norms, order) if all(map(math.isfinite, norms)) else sum(norms)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"clip_grad_norm: the norm of all gradients is {total}; without error_if_nonfinite they would become NaN"
        )
    factor = float(max_norm) / (total + EPSILON) if math.isfinite(total) else math.nan
    if not factor >= 1:
        assign_gradients(owners, multiplied(gradients, factor)[0])
    return total


def _common(norms: list[float], order: float) -> float:
    """The norm of norms, without overflow."""
    greatest = max(norms, default=0.0)
    return greatest * float(math.fsum([(each / (greatest or 1.0)) ** order for each in norms]) ** (1 / order))


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
    owners = [p for p in params if p.grad is not None]
    for p in owners:
        if p.dtype.is_complex:
            raise DTypeError(f"clip_grad_value: {p.dtype} numbers have no order; use clip_grad_norm")
    bounded = [FUNCTIONS["clip"](p.grad.detach(), -float(limit), float(limit)) for p in owners if p.grad is not None]
    assign_gradients(owners, bounded)


def norms_of(gradients: list[Tensor], order: float) -> list[Tensor]:
    """Norms, of shape (): of all gradients of a device and dtype together, or of each, by another order than 2."""
    alike: dict[Any, list[Tensor]] = {}
    for g in (g for g in gradients if g.size):
        key = (g.device, g.dtype) if order == 2 and not g.dtype.is_complex else id(g)
        alike.setdefault(key, []).append(g)
    return [
        FUNCTIONS["global_norm"](each) if isinstance(key, tuple) else _norm(each[0], order)
        for key, each in alike.items()
    ]


def read(numbers: list[Tensor]) -> list[float]:
    """0-d tensors as Python's numbers, read from a device all at once, since each read waits for the device."""
    together: dict[Any, list[Tensor]] = {}
    for x in numbers:
        together.setdefault((x.device, x.dtype), []).append(x)
    joined = [FUNCTIONS["stack"](each) if len(each) > 1 else each[0].reshape(1) for each in together.values()]
    return [number for x in joined for number in x.tolist()]


def _norm(g: Tensor, order: float) -> Tensor:
    """Of one tensor, in float32 at least."""
    return FUNCTIONS["vector_norm"](g.astype(float32) if g.dtype in NARROW else g, ord=order)


def _traced_clip(owners: list[Tensor], gradients: list[Tensor], max_norm: float, order: float) -> Any:
    """`clip_grad_norm` in a function under `jit`, which reads no number: the factor is 1 where nothing is scaled."""
    with no_grad():
        norms = norms_of(gradients, order)
        total = norms[0] if len(norms) == 1 else _norm(FUNCTIONS["stack"](norms), order)
        finite = (total < math.inf).astype(total.dtype)
        factor = max_norm / (total + EPSILON)
        factor = FUNCTIONS["where"](factor >= 1, 1.0, factor / finite)  # 0 / 0 of an infinite norm
        assign_gradients(owners, [times(g, factor) for g in gradients])
    return total


def times(g: Tensor, factor: Any) -> Any:
    """A gradient times a number; halves in float32, in which the number is no rough one."""
    if g.dtype in NARROW:
        return times(g.astype(float32), factor).astype(g.dtype)
    return g * (factor.astype(REAL_OF.get(g.dtype, g.dtype)) if isinstance(factor, Tensor) else factor)


def assign_gradients(owners: list[Tensor], gradients: list[Tensor]) -> None:
    """New gradients for all, or none."""
    assign_all([(p, "_grad", g) for p, g in zip(owners, gradients, strict=True)])


def multiplied(gradients: list[Tensor], factor: float) -> tuple[list[Tensor], Any]:
    """Gradients times a factor, and a tensor that is infinite where one of them is not finite.

    By the device's kernel `unscale` at once; ``None`` for the tensor where it has none, and nobody has looked.
    """
    kernel: Any = None
    if len({(g._kernels, g.dtype, g._record is None) for g in gradients}) == 1 and gradients[0]._record is None:
        k, dtype = gradients[0]._kernels, gradients[0].dtype
        kernel = k.backend.kernel("unscale") if dtype.kind == "real floating" else None
    if kernel is None:
        return [times(g, factor) for g in gradients], None
    handles, found = kernel([g._handle for g in gradients], factor)
    return [wrap(Tensor, handle, k, dtype, None) for handle in handles], wrap(Tensor, found, k, float32, None)


def widest(k: Any) -> Any:
    """The dtype in which a device keeps single numbers."""
    return float64 if "float64" in k.backend.dtypes else float32
