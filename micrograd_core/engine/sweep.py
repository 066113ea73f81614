"""Walks and sweeps over the recorded graph. Tangents go forward in `transforms.linearized`."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from micrograd_core.engine.explain import explain_rule
from micrograd_core.engine.graph import FREED, PARENTS, Leaf, Parts, Record, Version, kernels_of, made_by
from micrograd_core.engine.modes import autocast_dtype, contexts as autocasts, suspended
from micrograd_core.errors import GraphError
from micrograd_core.ops.core.movement import unbroadcast


def count_consumers(root: Record, ends: Container[int] = ()) -> dict[int, int]:
    """How many records that lead to `root` use the result of each, by identity. Nobody looks beyond `ends`.

    Raises
    ------
    GraphError
        When one was consumed by an earlier sweep, or an operand was written to since.
    """
    if not root:
        raise GraphError(FREED)
    consumers = {id(root): 0}
    stack = [root]
    while stack:
        record = stack.pop()
        for parent in record[PARENTS]:
            kind = parent.__class__
            if kind is list:
                key = id(parent)
                if key in consumers:
                    consumers[key] += 1
                elif parent:
                    consumers[key] = 1
                    if key not in ends:
                        stack.append(parent)
                else:
                    raise GraphError(FREED)
            elif kind is Version and parent.stale:
                op, kernels, _, out = made_by(record)
                raise GraphError(
                    f"an operand of {op.name} (result of shape {tuple(out.shape)} on {kernels.device}) "
                    "was written in place after it was used, so its gradient can no longer be computed; "
                    "write to a .copy(), or write after backward()"
                )
    return consumers


def in_order(root: Record, consumers: dict[int, int], ends: Container[int] = ()) -> list[Record]:
    """The records that lead to `root`, each before those that made its operands; not beyond `ends`."""
    waiting = dict(consumers)
    order, ready = [], [root]
    while ready:
        record = ready.pop()
        order.append(record)
        for parent in () if id(record) in ends else record[PARENTS]:
            if parent.__class__ is list:
                left = waiting[id(parent)] = waiting.get(id(parent), 1) - 1
                if not left:
                    ready.append(parent)
    return order


def leading_to(targets: set[int], order: list[Record]) -> set[int]:
    """Identities of the nodes from which a gradient can reach a target."""
    needed = set(targets)
    for record in reversed(order):
        if any(id(parent) in needed for parent in record[PARENTS]):
            needed.add(id(record))
    return needed


def not_leading_to(targets: set[int], order: list[Record]) -> set[int]:
    """Identities of the nodes from which none can."""
    return {id(parent) for record in order for parent in record[PARENTS]} - leading_to(targets, order)


def sweep(
    root: Any,
    cotangent: Any,
    retain: bool,
    recorded: Callable[[Any], Any] | None = None,
    targets: set[int] | None = None,
) -> list[tuple[Any, Any]]:
    """Carry `cotangent` from `root` back to the leaves. Every record is visited once, after all that used its result.

    Parameters
    ----------
    root : record or Leaf
    cotangent : handle, or Tensor with `recorded`
        Of the result of `root`.
    retain : bool
        Leave the records as they are; otherwise each is emptied as soon as it is done with.
    recorded : function, optional
        From kernels to the recorded operations on them: the sweep then computes on tensors and can be differentiated.
    targets : set of int, optional
        Identities of the nodes whose cotangents are wanted; by default those of all leaves.

    Returns
    -------
    list of (node, cotangent)
        The cotangents own their memory.

    Raises
    ------
    GraphError
        From `count_consumers`, before anything was computed or freed.
    """
    if autocasts and autocast_dtype() is not None:  # rules compute in the dtypes of what was recorded
        with suspended():
            return sweep(root, cotangent, retain, recorded, targets)
    if root.__class__ is Leaf:
        return [(root, owned(root, cotangent, recorded))]
    waiting = count_consumers(root, targets or ())
    skipped = set() if targets is None else not_leading_to(targets, in_order(root, waiting, targets))
    cotangents = {id(root): cotangent}
    ends: dict[int, Any] = {}  # leaves and targets reached, by identity
    aliased: set[int] = set()  # those of them whose cotangent is, or views, that of another node
    ready = [root]
    # The hot path of all gradients, written out: a call for each operand, or a comprehension, which would make cells of
    # these variables, costs 1 to 5 % of a sweep.
    while ready:
        record = ready.pop()
        if not record:  # by a hook or a signal handler, meanwhile
            raise GraphError(FREED)
        if targets and id(record) in targets:
            ends[id(record)] = record
            aliased.add(id(record))
            continue
        g = cotangents.pop(id(record), None)
        op, k, params, out, *links = record  # at once: a hook that is registered meanwhile moves the node
        parents, saved = links[::2], links[1::2]
        operands = saved
        if recorded is not None:
            k = recorded(k)
            out = k.lift(out, record)
            operands = list(map(k.lift, saved, parents))
        rules = op.gradient
        if rules.__class__ is not tuple:
            rules = rules([each.__class__ in (list, Leaf) for each in parents])
        for position, rule in enumerate(rules):
            parent = parents[position]
            kind = parent.__class__
            if kind is list:
                key = id(parent)
                left = waiting.pop(key, 0)
                if not left:  # a hook came meanwhile, and its node moved one place back
                    skipped.discard(key)
                if left > 1:
                    waiting[key] = left - 1
                else:
                    ready.append(parent)
            elif kind is Leaf:
                key = id(parent)
            else:
                continue
            if g is None or rule is None or key in skipped:
                continue
            try:
                d = rule(k, g, out, *operands, **params) if params else rule(k, g, out, *operands)
            except Exception as error:
                raise explain_rule(op, kernels_of(record), error)
            if kind is Leaf and key not in ends:
                ends[key] = parent
                if position in op.gradient_aliases and (d.__class__ is not g.__class__ or d.dtype == g.dtype):
                    aliased.add(key)  # a cast would be fresh
            if d.shape != saved[position].shape:
                d = unbroadcast(k, d, saved[position].shape)
                aliased.discard(key)
            if key in cotangents:
                d = _sum(cotangents[key], d, op, parent, recorded)
                aliased.discard(key)
            cotangents[key] = d
        if not retain:
            record.clear()
    found = []
    for key, end in ends.items():
        g = cotangents.get(key)
        if g is not None:
            found.append((end, owned(end, g, recorded) if key in aliased else g))
    return found


def _sum(before: Any, d: Any, op: Any, parent: Any, recorded: Callable[[Any], Any] | None) -> Any:
    """The sum of two cotangents of a node, the second of them from `op`."""
    owner = kernels_of(parent)
    add = (owner if recorded is None else recorded(owner)).add
    try:
        return before.plus(d, add) if d.__class__ is Parts else add(before, d)
    except Exception as error:
        raise explain_rule(op, owner, error)


def owned(end: Any, g: Any, recorded: Callable[[Any], Any] | None) -> Any:
    """A copy of a cotangent that may share memory with another."""
    kernels = kernels_of(end)
    return (kernels if recorded is None else recorded(kernels)).copy(g)
