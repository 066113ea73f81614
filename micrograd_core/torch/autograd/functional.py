"""Derivatives of functions, called as PyTorch calls them: the function, its inputs, a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import micrograd_core as mg
from micrograd_core.array.tensor import Tensor

Inputs = Tensor | Sequence[Tensor]


def _listed(inputs: Inputs) -> list[Tensor]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs)


def _as_given(found: Sequence[Any], inputs: Inputs) -> Any:
    return found[0] if isinstance(inputs, Tensor) else tuple(found)


def vjp(func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """The result, and the product of a vector with the Jacobian."""
    value, pull = mg.vjp(func, *_listed(inputs))
    found = pull(mg.ones_like(value) if v is None else v)
    return value, _as_given(found if isinstance(found, tuple) else (found,), inputs)


def jvp(func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """The result, and the product of the Jacobian with a vector."""
    primals = _listed(inputs)
    tangents = list(map(mg.ones_like, primals)) if v is None else _listed(v)
    value, tangent = mg.jvp(func, primals, tangents)
    return value, tangent


def jacobian(func: Callable[..., Any], inputs: Inputs, create_graph: bool = False, **options: Any) -> Any:
    """The derivatives of each result by each input."""
    primals = _listed(inputs)
    return _as_given([mg.jacrev(func, i)(*primals) for i in range(len(primals))], inputs)


def hessian(func: Callable[..., Any], inputs: Tensor, create_graph: bool = False, **options: Any) -> Tensor:
    """The second derivatives of a number by one input."""
    return mg.hessian(func)(inputs)


def hvp(func: Callable[..., Any], inputs: Tensor, v: Tensor, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """The result, and the product of the second derivatives with a vector."""
    return func(inputs), mg.hvp(func, (inputs,), (v,))


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vjp"]
