"""Modules as functions of their parameters: `functional_call`, and `stack_modules` for many networks at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.array import call_with
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.module import Module


def functional_call(
    model: Module, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]], *args: Any, **kwargs: Any
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Gradients lead to the tensors that were given, so a network is a function of its parameters for `grad`, `vmap` and
    `jit`.

    Parameters
    ----------
    model : Module
        The module; afterwards it is as before, also after an error.
    parameters : mapping from names to tensors, or sequence of mappings
        By the names of ``state_dict()``; the others keep their numbers. For a tensor with several names, such as a tied
        weight, one name is enough.
    *args, **kwargs
        The arguments of the call.

    Returns
    -------
    What the module returns.

    Raises
    ------
    KeyError
        For a name that the module does not have.
    ValueError
        For two different tensors in the place of one that is tied.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> model = mg.nn.Linear(2, 1, bias=False)
    >>> mg.nn.functional_call(model, {"weight": mg.asarray([[1.0, 2.0]])}, mg.ones((1, 2)))
    Tensor([[3.]])
    """
    mappings = [parameters] if isinstance(parameters, Mapping) else list(parameters)
    given = {name: x for mapping in mappings for name, x in mapping.items()}
    own = model._every_tensor()
    unknown = [name for name in given if name not in own]
    if unknown:
        raise KeyError(
            f"functional_call: {', '.join(map(repr, unknown))} is no parameter or buffer of this "
            f"{type(model).__name__}; it has {', '.join(own) or 'none'}"
        )
    wanted: dict[int, tuple[Tensor, Tensor, str]] = {}
    for name, x in given.items():
        p = own[name]
        _, before, first = wanted.setdefault(id(p), (p, x if isinstance(x, Tensor) else asarray(x), name))
        if before is not x and first != name:
            raise ValueError(
                f"functional_call: {first!r} and {name!r} are names of one tensor, which is tied, and two were given; "
                "give one of them"
            )
    owners = [(vars(module), vars(module).copy()) for _, module in model.named_modules()]
    tensors, others = [p for p, _, _ in wanted.values()], [x for _, x, _ in wanted.values()]
    try:
        return call_with(tensors, others, model, *args, **kwargs)
    finally:
        for attributes, before_call in owners:  # a buffer that the call replaced is one of the given ones
            for name, value in before_call.items():
                if id(value) in wanted:
                    attributes[name] = value


def stack_modules(models: Iterable[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several networks, stacked along a new first axis.

    With `functional_call` under `vmap` they are an ensemble. The parameters are new ones, which record gradients.

    Parameters
    ----------
    models : iterable of Module
        Networks of one class, with parameters of the same names and shapes.

    Returns
    -------
    (dict, dict)
        Parameters and buffers by name, each of shape (networks, *shape).

    Raises
    ------
    ValueError, TypeError, ShapeError
        When there are no networks, or they differ in class, mode, names or shapes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core import nn
    >>> models = [nn.Linear(3, 2) for _ in range(4)]
    >>> parameters, buffers = nn.stack_modules(models)
    >>> parameters["weight"].shape
    (4, 2, 3)
    >>> run = mg.vmap(lambda p, x: nn.functional_call(models[0], p, x), in_axes=(0, None))
    >>> run(parameters, mg.ones((5, 3))).shape
    (4, 5, 2)
    """
    found = list(models)
    if not found:
        raise ValueError("stack_modules: there are no networks to stack")
    kinds = {type(model) for model in found}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"stack_modules: the networks are of one class; these are of {names}")
    if len({model.training for model in found}) > 1:
        raise ValueError("stack_modules: some networks are in training mode and some are not; call train() or eval()")
    tensors = [dict(model.named_tensors()) for model in found]
    wanted, *others = [[(name, x.shape) for name, x in each.items()] for each in tensors]
    for told in others:
        if told != wanted:
            different = next((a, b) for a, b in zip([*wanted, None], [*told, None], strict=False) if a != b)
            raise ShapeError(f"stack_modules: the networks differ, as in {different[0]} and {different[1]}")
    stacked: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    for name, x in tensors[0].items():
        whole = FUNCTIONS["stack"]([each[name].detach() for each in tensors], axis=0)
        whole.requires_grad = x.requires_grad
        stacked[not x.requires_grad][name] = whole
    return stacked


publish(globals())
