"""Transformations of functions, with the arguments and results that PyTorch gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import micrograd_core as mg
from micrograd_core import grad, hessian, jacfwd, jacrev, linearize, vjp
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn import Module
from micrograd_core.nn import functional_call as _functional_call

_Weights = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: _Weights | Sequence[_Weights],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers; one argument needs no tuple."""
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    return _functional_call(module, parameter_and_buffer_dicts, *given, **(kwargs or {}))


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the gradients of `func` and its value, in this order."""
    both = mg.value_and_grad(func, argnums, has_aux)

    def called(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return called


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The result at `primals`, and its derivative along `tangents`."""
    return mg.jvp(func, primals, tangents, has_aux)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters, and the buffers, of modules of one kind, each stacked along a new first axis."""

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
    """A function that maps `func` over an axis of its arguments, all at once whatever `chunk_size` says."""
    return mg.vmap(func, in_dims, out_dims, randomness=randomness)


__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
