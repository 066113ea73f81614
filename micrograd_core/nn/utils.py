"""PyTorch's helpers for the parameters of a module."""

from __future__ import annotations

from collections.abc import Iterable

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.optim.clipping import clip_grad_norm, clip_grad_value
from micrograd_core.suggestions import door


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """`micrograd_core.optim.clip_grad_norm`, whose result is a tensor here, as PyTorch's is.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    max_norm, norm_type : float
        The largest norm of all gradients together, and which norm.
    error_if_nonfinite : bool
        Whether a norm that is no finite number raises.

    Returns
    -------
    Tensor, ()
        The norm before.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, 4.0])
    >>> (x * x).sum().backward()
    >>> mg.nn.utils.clip_grad_norm_([x], 1.0).item()
    10.0
    """
    found = clip_grad_norm(parameters, max_norm, norm_type, error_if_nonfinite=error_if_nonfinite)
    return found if isinstance(found, Tensor) else asarray(found)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """`micrograd_core.optim.clip_grad_value`.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    clip_value : float
        The largest size of an element.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([3.0, 4.0])
    >>> (x * x).sum().backward()
    >>> mg.nn.utils.clip_grad_value_(x, 7.0)
    >>> x.grad.tolist()
    [6.0, 7.0]
    """
    clip_grad_value([parameters] if isinstance(parameters, Tensor) else parameters, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The numbers of all parameters one after the other, shape (count,).

    Parameters
    ----------
    parameters : iterable of Tensor

    Returns
    -------
    Tensor, (count,)

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.utils.parameters_to_vector(mg.nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    return FUNCTIONS["concat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give parameters the numbers of a vector, as `parameters_to_vector` laid them out.

    Parameters
    ----------
    vec : Tensor, (count,)
    parameters : iterable of Tensor
        They are written in place.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> model = mg.nn.Linear(2, 1)
    >>> mg.nn.utils.vector_to_parameters(mg.asarray([1.0, 2.0, 3.0]), model.parameters())
    >>> model.bias.tolist()
    [3.0]
    """
    start = 0
    for p in parameters:
        p.data = vec.detach()[start : start + p.size].reshape(p.shape).copy()
        start += p.size


__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]

door(globals())
