"""`checkpoint`: a function that is computed once more for its gradient, so that nothing on the way has to be kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from micrograd_core import random
from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.array import unrecorded
from micrograd_core.engine.graph import Leaf, Version, is_node, parents_of
from micrograd_core.engine.hooks import HOOKED
from micrograd_core.engine.modes import records_at
from micrograd_core.errors import GraphError
from micrograd_core.support import pytrees
from micrograd_core.support.context import computing_again, depth
from micrograd_core.transforms.custom import node_of, one_tensor, op_with
from micrograd_core.transforms.linearized import IDENTITY, Linearized, variable
from micrograd_core.transforms.vmap import lifted

CHECKPOINT = op_with("checkpoint", "A function that is computed again for its gradient.")

CHANGED = (
    "checkpoint: computing the function again for its gradient, a tensor that it uses besides its arguments is no "
    "longer what it was: its numbers were replaced, or its graph was freed. Write to it after backward(), and pass to "
    "checkpoint(f, ...) as arguments what was computed outside"
)


def checkpoint(f: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """``f(*args, **kwargs)``, of which only arguments and result are kept: for its gradient it is computed once more.

    This saves the memory of the intermediate results of `f`, at the price of its time. Random numbers are the same the
    second time, whichever generators they come from, and running averages of `nn.BatchNorm` move the first time only.
    Checkpoints may be nested, and differentiated to any order.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them, and anything else, returning one tensor. It must compute the
        same the second time. Parameters that it uses without getting them as arguments receive their gradients, too;
        tensors that were computed outside should be arguments. Called inside `vmap`, it saves no memory.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    Tensor
        What `f` returns.

    Raises
    ------
    TypeError
        When `f` does not return one tensor.
    GraphError
        From the sweep, when a tensor that `f` uses has changed in between.

    Examples
    --------
    >>> from micrograd_core import Tensor, checkpoint
    >>> x = Tensor([1.0, 2.0])
    >>> checkpoint(lambda x: x.exp().log().exp(), x).sum().backward()
    >>> [round(g, 3) for g in x.grad.tolist()]
    [2.718, 7.389]
    """
    if not records_at(depth()):
        return f(*args, **kwargs)
    leaves, rebuild = pytrees.flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
    inputs = [lifted(leaves[i]) for i in places]
    rest = [None if i in places else x for i, x in enumerate(leaves)]  # inputs are held by the record alone

    def record(operands: Sequence[Tensor]) -> tuple[list[Tensor], Tensor, list[Tensor], list[Version]]:
        """`f` on new variables; its result; and what that depends on besides them."""
        variables = [variable("checkpoint", x, "an argument") for x in operands]
        filled = list(rest)
        for i, x in zip(places, variables, strict=True):
            filled[i] = x
        again, named = rebuild(filled)
        value = one_tensor("checkpoint", f(*again, **named))
        return variables, value, *_ends(value, {id(x._record) for x in variables})

    def record_again(operands: Sequence[Tensor]) -> Any:
        computing_again.set(True)  # in a context that nobody enters again: there is nothing to set back
        random.restore_states(states)
        return record(operands)

    context = copy_context()  # grad mode, default device and generator, the level of vmap
    states: dict[random.Generator, random.State] = {}
    with random.saving_states(states):
        _, value, others, versions = record(list(map(unrecorded, inputs)))
    if value._record is None:
        return value
    identities = [id(x._record) for x in others]

    def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
        variables, value, found, _ = context.copy().run(record_again, operands[: len(places)])
        saved = operands[len(places) :]  # and what stands for versions
        replaced = [x for x, before in zip(found, saved, strict=False) if x._handle is not before._handle]
        if replaced or [id(x._record) for x in found] != identities:
            raise GraphError(CHANGED)
        return Linearized.of_result("checkpoint", value, [*variables, *found]).pull([g])

    # a write to what the function used shows at the start of the sweep
    return node_of(CHECKPOINT, value, [*inputs, *others], pull, versions=versions)


def _ends(value: Tensor, own: set[int]) -> tuple[list[Tensor], list[Version]]:
    """What a tensor was computed from besides its `own` nodes.

    That is leaves, and variables of transforms around this one; and the states of memory that records nothing.
    """
    tensors, versions, seen = [], [], set(own)
    found = [value._record]
    for each in found:  # which grows meanwhile
        if id(each) in seen:
            continue
        seen.add(id(each))
        if each.__class__ is Version:
            versions.append(each)
        elif (owner := _owner(each)) is not None and owner._record is each:
            tensors.append(owner)
        elif is_node(each):
            if not each:
                raise GraphError(CHANGED)
            found += parents_of(each)
    return tensors, versions


def _owner(node: Any) -> Tensor | None:
    """The tensor that a leaf, or the identity of a variable, stands for, if it is still there."""
    if node.__class__ is Leaf:
        return node.owner()  # type: ignore[no-any-return]
    if node and node[0].name == HOOKED.name:
        node = node[4]
    return node[2]["variable"]() if node and node[0].name == IDENTITY.name else None
