"""Transformations of functions, with the arguments and results that PyTorch gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import micrograd_core as mg
from micrograd_core import grad, hessian, jacfwd, jacrev, linearize, vjp
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn import Module, functional_call as _functional_call

_Weights = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: _Weights | Sequence[_Weights],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers; one argument needs no tuple.

    Parameters
    ----------
    module : Module
        The module, which stays as it is.
    parameter_and_buffer_dicts : mapping of str to Tensor, or sequence of them
        The tensors by their dotted names.
    args : tuple, or a single argument
        The positional arguments of the call.
    kwargs : mapping of str, optional
        The named arguments of the call.

    Returns
    -------
    Tensor, or what the module returns

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.ones(1, 2))
    Tensor([[2.]])
    """
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    return _functional_call(module, parameter_and_buffer_dicts, *given, **(kwargs or {}))


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """Make a function that returns the gradients of `func` and its value, in this order.

    Parameters
    ----------
    func : function
        Of tensors, to a tensor of shape ``()``.
    argnums : int or tuple of int, default 0
        The arguments to differentiate by.
    has_aux : bool, default False
        Whether `func` returns a pair, whose second part is not differentiated.

    Returns
    -------
    function
        With the arguments of `func`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.func.grad_and_value(lambda x: x**2)(torch.tensor(3.0))
    (Tensor(6.), Tensor(9.))
    """
    both = mg.value_and_grad(func, argnums, has_aux)

    def called(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return called


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The result at `primals`, and its derivative along `tangents`.

    Parameters
    ----------
    func : function
        Of tensors, to a tensor.
    primals, tangents : tuple of Tensor
        The arguments, and a direction for each, of its shape.
    strict : bool, default False
        Ignored.
    has_aux : bool, default False
        Whether `func` returns a pair, whose second part is not differentiated.

    Returns
    -------
    tuple of Tensor
        The result, its derivative, and with `has_aux` the second part.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.func.jvp(torch.square, (torch.tensor(3.0),), (torch.tensor(1.0),))
    (Tensor(9.), Tensor(6.))
    """
    return mg.jvp(func, primals, tangents, has_aux)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters, and the buffers, of modules of one kind, each along a new first axis.

    Parameters
    ----------
    models : sequence of Module
        With the same names and shapes.

    Returns
    -------
    tuple of dict of str to Tensor
        The parameters, and the buffers.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> parameters, buffers = torch.func.stack_module_state([torch.nn.Linear(2, 1) for _ in range(3)])
    >>> parameters["weight"].shape, buffers
    ((3, 1, 2), {})
    """

    def stacked(each: Sequence[Mapping[str, Tensor]], leaves: bool) -> dict[str, Tensor]:
        made = {name: mg.stack([one[name].detach() for one in each]) for name in each[0]}
        return {name: x.requires_grad_(leaves and each[0][name].requires_grad) for name, x in made.items()}

    parameters = [dict(model.named_parameters()) for model in models]
    return stacked(parameters, True), stacked([dict(model.named_buffers()) for model in models], False)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Make a function that maps `func` over an axis of its arguments, all at once.

    Parameters
    ----------
    func : function
        Of tensors without that axis.
    in_dims : int, None, or tuple or dict of such, default 0
        The axis of each argument; ``None`` passes one on whole.
    out_dims : int or tuple of int, default 0
        Where the axis is in each result.
    randomness : str, default "error"
        ``"error"``, ``"same"`` or ``"different"``: what random functions do.
    chunk_size : int, optional
        Ignored.

    Returns
    -------
    function
        With the arguments of `func`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.func.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    Tensor([2., 2., 2.])
    """
    return mg.vmap(func, in_dims, out_dims, randomness=randomness)


__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
