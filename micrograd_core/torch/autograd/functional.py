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
    """The result of a function, and the product of a vector with its Jacobian.

    Parameters
    ----------
    func : function
        Of tensors, to a tensor.
    inputs : Tensor or sequence of Tensor
        Where to differentiate.
    v : Tensor, optional
        The vector, of the shape of the result; by default ones.
    create_graph : bool, default False
        Ignored: what is recorded around the call decides.

    Returns
    -------
    tuple
        The result, and a tensor like each input.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.autograd.functional.vjp(torch.square, torch.tensor([1.0, 2.0]))[1]
    Tensor([2., 4.])
    """
    value, pull = mg.vjp(func, *_listed(inputs))
    found = pull(mg.ones_like(value) if v is None else v)
    return value, _as_given(found if isinstance(found, tuple) else (found,), inputs)


def jvp(func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """The result of a function, and the product of its Jacobian with a vector.

    Parameters
    ----------
    func : function
        Of tensors, to a tensor.
    inputs : Tensor or sequence of Tensor
        Where to differentiate.
    v : Tensor or sequence of Tensor, optional
        The vector, of the shapes of the inputs; by default ones.
    create_graph : bool, default False
        Ignored: what is recorded around the call decides.

    Returns
    -------
    tuple of Tensor
        The result, and the product, of the same shape.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.autograd.functional.jvp(torch.square, torch.tensor([1.0, 2.0]))[1]
    Tensor([2., 4.])
    """
    primals = _listed(inputs)
    return mg.jvp(func, primals, list(map(mg.ones_like, primals)) if v is None else _listed(v))


def jacobian(func: Callable[..., Any], inputs: Inputs, create_graph: bool = False, **options: Any) -> Any:
    """The derivatives of each element of a result by each element of an input.

    Parameters
    ----------
    func : function
        Of tensors, to a tensor.
    inputs : Tensor or sequence of Tensor
        Where to differentiate.
    create_graph : bool, default False
        Ignored: what is recorded around the call decides.
    **options
        Ignored.

    Returns
    -------
    Tensor (*result, *input), or a tuple with one for each input

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.autograd.functional.jacobian(torch.square, torch.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]])
    """
    primals = _listed(inputs)
    return _as_given([mg.jacrev(func, i)(*primals) for i in range(len(primals))], inputs)


def hessian(func: Callable[..., Any], inputs: Tensor, create_graph: bool = False, **options: Any) -> Tensor:
    """The second derivatives of a function whose result is one number.

    Parameters
    ----------
    func : function
        Of a tensor, to a tensor of shape ``()``.
    inputs : Tensor
        Where to differentiate.
    create_graph : bool, default False
        Ignored: what is recorded around the call decides.
    **options
        Ignored.

    Returns
    -------
    Tensor, (*input, *input)

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return mg.hessian(func)(inputs)


def hvp(func: Callable[..., Any], inputs: Tensor, v: Tensor, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """The result of a function, and the product of its second derivatives with a vector.

    Parameters
    ----------
    func : function
        Of a tensor, to a tensor of shape ``()``.
    inputs : Tensor
        Where to differentiate.
    v : Tensor
        The vector, of the shape of `inputs`.
    create_graph : bool, default False
        Ignored: what is recorded around the call decides.

    Returns
    -------
    tuple of Tensor
        The result, and the product, of the shape of `inputs`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, torch.ones(2))[1]
    Tensor([ 6., 12.])
    """
    return func(inputs), mg.hvp(func, inputs, v)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vjp"]
