"""`Parameter` and `Buffer`, PyTorch's words for tensors that a module holds."""

from __future__ import annotations

from typing import Any

from micrograd_core.array.tensor import Tensor, asarray, is_frozen


class _Tensors(type):
    """Of classes that have no objects of their own: calling one makes a tensor, and `isinstance` asks one."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.is_leaf and (x.requires_grad or is_frozen(x)) is issubclass(cls, Parameter)


class Parameter(metaclass=_Tensors):
    """A tensor with the numbers of `data` that a module optimises: ``Tensor(data)``, in PyTorch's words.

    Parameters
    ----------
    data : Tensor, array, number or nested sequence
        Copied.
    requires_grad : bool
        Whether gradients are recorded.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.Parameter(mg.ones((2,)))
    Tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Any = (), requires_grad: bool = True) -> Tensor:  # type: ignore[misc]
        """A tensor."""
        made = Tensor(data, requires_grad=requires_grad)
        made._frozen = not requires_grad
        return made


class Buffer(metaclass=_Tensors):
    """A tensor with the numbers of `data` that a module keeps, and does not optimise.

    Parameters
    ----------
    data : Tensor, array, number or nested sequence
        Copied.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.Buffer(mg.ones((2,)))
    Tensor([1., 1.])
    """

    def __new__(cls, data: Any) -> Tensor:  # type: ignore[misc]
        """A tensor."""
        return asarray(data.detach() if isinstance(data, Tensor) else data, copy=True)


__all__ = ["Buffer", "Parameter"]
