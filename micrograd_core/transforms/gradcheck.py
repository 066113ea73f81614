"""`gradcheck` and `gradgradcheck`: the definition of a correct gradient, as a test.

The derivative of a random projection of ``f`` along every input coordinate, by central differences, must equal what
reverse mode says; a complex input has two, its real and its imaginary part. The error of a central difference is
O(eps**2) truncation plus O(u / eps) rounding (u = 2**-53), least near ``eps = u**(1/3)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import complex128, float64
from micrograd_core.engine.apply import apply
from micrograd_core.engine.modes import enable_grad
from micrograd_core.errors import DTypeError, GradcheckError
from micrograd_core.layout import nest
from micrograd_core.ops import TABLE
from micrograd_core.transforms.derivatives import value_and_grad


def gradcheck(
    f: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-5, atol: float = 1e-6, rtol: float = 1e-5
) -> bool:
    """Compare the gradients of `f` with finite differences, at every element of every float64 or complex128 input.

    Parameters
    ----------
    f : function
        Of the inputs, returning a floating tensor of any shape.
    inputs : Tensor, or sequence
        Those that are float64 or complex128 tensors and require gradients are varied; the others are passed on as
        they are.
    eps : float
        Half the step of the central difference.
    atol, rtol : float
        ``|analytic - numeric| <= atol + rtol |numeric|``.

    Returns
    -------
    bool
        ``True``.

    Raises
    ------
    GradcheckError
        At the first element that differs; ``.facts`` holds input, element, both numbers.
    DTypeError
        When no input is a float64 or complex128 tensor that requires a gradient: finite differences need the precision.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.gradcheck(lambda x: x.sin(), mg.Tensor([0.5, 1.0], dtype="float64"))
    True
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    varied = _varied(inputs)
    if not varied:
        raise DTypeError(
            "gradcheck varies float64 and complex128 tensors that require gradients; make one with "
            "Tensor(data, dtype='float64')"
        )
    projected = _projected(f)
    with enable_grad():
        start = [x.detach() if i in varied else x for i, x in enumerate(inputs)]
        _, gradients = value_and_grad(projected, varied)(*start)
    for i, gradient in zip(varied, gradients, strict=True):
        x = inputs[i]
        values, expected = x.reshape((-1,)).tolist(), gradient.reshape((-1,)).tolist()
        for position, analytic in enumerate(expected):
            numeric = 0.0
            for direction in (1, 1j) if x.dtype.is_complex else (1,):
                after, before = (
                    projected(*_moved(inputs, i, values, position, step * direction)).item() for step in (eps, -eps)
                )
                numeric += direction * (after - before) / (2 * eps)
            if not abs(analytic - numeric) <= atol + rtol * abs(numeric):
                facts = {"input": i, "shape": x.shape, "element": position, "analytic": analytic, "numeric": numeric}
                raise GradcheckError(**facts, eps=eps, atol=atol, rtol=rtol)
    return True


def gradgradcheck(
    f: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-5, atol: float = 1e-5, rtol: float = 1e-4
) -> bool:
    """Compare the second derivatives of `f` with finite differences: `gradcheck` of its gradient.

    Parameters
    ----------
    f : function
        Of the inputs, returning a floating tensor of any shape.
    inputs : Tensor, or sequence
        Those that are float64 or complex128 tensors and require gradients are varied.
    eps : float
        Half the step of the central difference.
    atol, rtol : float
        ``|analytic - numeric| <= atol + rtol |numeric|``.

    Returns
    -------
    bool
        ``True``.

    Raises
    ------
    GradcheckError
        At the first element that differs.
    DTypeError
        When no input is a float64 or complex128 tensor that requires a gradient.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.gradgradcheck(lambda x: x**3, mg.Tensor([0.5, 1.0], dtype="float64"))
    True
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    varied = _varied(inputs)

    def gradient(*args: Any) -> Tensor:
        fresh = [x * 1.0 if i in varied else x for i, x in enumerate(args)]
        _, gradients = value_and_grad(_projected(f), varied)(*fresh)
        return sum(_real((g * _random(g, seed=i)).sum()) for i, g in enumerate(gradients, 1))  # type: ignore[return-value]

    return gradcheck(gradient, inputs, eps=eps, atol=atol, rtol=rtol)


def _projected(f: Callable[..., Any]) -> Callable[..., Any]:
    """A random projection of the result of `f`: a real number."""
    projection: list[Tensor] = []

    def projected(*args: Any) -> Any:
        out = f(*args)
        if not isinstance(out, Tensor) or not out.dtype.is_floating:
            raise DTypeError(f"gradcheck: the function must return a floating-point tensor; it returned {out!r}")
        if not projection:
            projection.append(_random(out))
        return _real((out * projection[0]).sum())

    return projected


def _varied(inputs: Sequence[Any]) -> list[int]:
    """Positions of the inputs to differentiate by."""
    precise = (float64, complex128)
    return [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad and x.dtype in precise]


def _real(x: Tensor) -> Tensor:
    return apply(TABLE["real"], (x,)) if x.dtype.is_complex else x


def _random(like: Tensor, seed: int = 0) -> Tensor:
    import random

    rng = random.Random(seed)
    values: list[complex] = [rng.uniform(0.5, 1.5) for _ in range(math.prod(like.shape))]
    if like.dtype.is_complex:
        values = [complex(value, rng.uniform(-1.5, -0.5)) for value in values]
    return asarray(values, dtype=like.dtype, device=like.device).reshape(like.shape)


def _moved(inputs: Sequence[Any], which: int, values: list[Any], position: int, step: complex) -> list[Any]:
    """The inputs with one element of one of them moved by `step`; layout and device stay those of contiguous data."""
    moved = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    changed = [*values]
    changed[position] += step
    x = inputs[which]
    moved[which] = asarray(nest(changed, x.shape), dtype=x.dtype, device=x.device)
    return moved
