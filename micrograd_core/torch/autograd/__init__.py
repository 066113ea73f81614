"""`grad` of tensors, and `Function`, a class with a forward and a backward."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import micrograd_core as mg
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.backward import leaves_of
from micrograd_core.engine.modes import enable_grad as enable_grad, no_grad as no_grad
from micrograd_core.errors import GraphError
from micrograd_core.torch.autograd import functional as functional
from micrograd_core.transforms.custom import custom_gradient

Variable = asarray
"""PyTorch's old word for a tensor."""


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`; ``.grad`` of tensors stays as it is.

    Parameters
    ----------
    outputs, inputs : Tensor, or sequences of them
        What is differentiated, and by what.
    grad_outputs : Tensor, or a sequence, optional
        The cotangents of the outputs; required for outputs of other shapes than ``()``.
    retain_graph, create_graph : bool
        As for `Tensor.backward`.
    allow_unused : bool, default False
        Whether inputs may be no part of what the outputs were computed from; their gradient is ``None``.
    **options
        Ignored.

    Returns
    -------
    tuple of Tensor
        One of the shape and dtype of each input.

    Raises
    ------
    GraphError
        When an input was not used, and `allow_unused` is false.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.grad((x * x).sum(), x)
    (Tensor([2., 4.]),)
    """
    results, wanted = ([each] if isinstance(each, Tensor) else list(each) for each in (outputs, inputs))
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [None] * len(results))
    found: list[list[Tensor]] = [[] for _ in wanted]
    handles = [x.register_hook(kept.append) for x, kept in zip(wanted, found, strict=True) if x.requires_grad]
    owners = {leaf.owner() for y in results for leaf in leaves_of(y._record)} - {None}
    before = [(x, x.grad) for x in owners]
    try:
        for y, seed in zip(results, seeds, strict=True):
            keep = create_graph or y is not results[-1] if retain_graph is None else retain_graph
            y.backward(seed, retain_graph=keep, create_graph=create_graph)
    finally:
        for handle in handles:
            handle.remove()
        for leaf, old in before:
            leaf.grad = old
    if not allow_unused and not all(found):
        raise GraphError("an input was not used to compute the outputs; with allow_unused=True its gradient is None")
    return tuple(sum(kept[1:], kept[0]) if kept else None for kept in found)


class Context:
    """What `Function.forward` leaves for `Function.backward`: saved tensors, and attributes of one's own.

    Examples
    --------
    >>> from micrograd_core.torch.autograd import Context
    >>> ctx = Context()
    >>> ctx.exponent = 3
    >>> ctx.saved_tensors
    ()
    """

    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors, which `backward` finds as ``ctx.saved_tensors``.

        Parameters
        ----------
        *tensors : Tensor
            Operands or results.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> ctx = torch.autograd.Context()
        >>> ctx.save_for_backward(torch.ones(2))
        >>> ctx.saved_tensors
        (Tensor([1., 1.]),)
        """
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Do nothing: integers and bools have no gradient anyway.

        Parameters
        ----------
        *tensors : Tensor
            Results.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> torch.autograd.Context().mark_non_differentiable(torch.arange(3))
        """


class Function:
    """An operation with a gradient of its own: subclasses have static methods ``forward`` and ``backward``.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 20
    >>> x = torch.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    Tensor([20., 20.])
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward`, and record `backward` as its gradient.

        Parameters
        ----------
        *args
            The arguments of `forward` after the context.

        Returns
        -------
        Tensor
            What `forward` returns.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> class Triple(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 3
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return g * 3
        >>> Triple.apply(torch.ones(2))
        Tensor([3., 3.])
        """
        kind: Any = cls

        @custom_gradient
        def function(*given: Any) -> Any:
            ctx = Context()
            ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in given)
            with no_grad():
                result = kind.forward(ctx, *given)

            def backward(g: Tensor) -> tuple[Any, ...]:
                found = kind.backward(ctx, g)
                pairs = zip(given, found if isinstance(found, tuple) else (found,), strict=False)
                return tuple(d for x, d in pairs if isinstance(x, Tensor) and x.dtype.is_floating)

            return result, backward

        return function(*args)


def set_detect_anomaly(mode: bool) -> Any:
    """Find where a gradient becomes NaN, inside a ``with`` block: see `micrograd_core.detect_anomaly`.

    Parameters
    ----------
    mode : bool
        Whether to look.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     x.sum().backward()
    """
    return mg.detect_anomaly() if mode else nullcontext()


detect_anomaly = set_detect_anomaly
gradcheck, gradgradcheck = mg.gradcheck, mg.gradgradcheck
function = sys.modules[__name__]
sys.modules[f"{__name__}.function"] = function
