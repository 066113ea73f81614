"""Walks and sweeps over the recorded graph: cotangents backward, tangents forward. Its nodes are `engine.graph`'s."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from micrograd_core.engine.autocast import autocast_dtype, suspended
from micrograd_core.engine.autocast import contexts as autocasts
from micrograd_core.engine.explain import explain_rule
from micrograd_core.engine.graph import FREED, OPERANDS, PARENTS, Leaf, Parts, Record, Version, kernels_of, made_by
from micrograd_core.errors import GraphError
from micrograd_core.ground.warning import again
from micrograd_core.ops import unbroadcast


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


def sweep(
    root: Record, cotangent: Any, retain: bool, recorded: Callable[[Any], Any] | None = None, targets: Any = None
) -> list[tuple[Any, Any]]:
    """Carry `cotangent` from `root` back to the leaves. Every record is visited once, after all that used its result.

    Parameters
    ----------
    root : record
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
    waiting = count_consumers(root, targets or ())
    needed = None if targets is None else leading_to(targets, in_order(root, waiting, targets))
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
        if targets is not None and id(record) in targets:
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
        position = -1
        for rule in rules:
            position += 1
            parent = parents[position]
            kind = parent.__class__
            if kind is list:
                key = id(parent)
                if key not in waiting:  # a hook was registered meanwhile, and its node moved one place back
                    waiting[key] = 1
                    if needed is not None:
                        needed.add(key)
                if waiting[key] == 1:
                    ready.append(parent)
                else:
                    waiting[key] -= 1
            elif kind is Leaf:
                key = id(parent)
            else:
                continue
            if g is None or rule is None or (needed is not None and key not in needed):
                continue
            try:
                d = rule(k, g, out, *operands, **params) if params else rule(k, g, out, *operands)
            except Exception as error:
                d = again(error, explain_rule, op, kernels_of(record), saved, (k, g, out, *operands), params, rule)
            if kind is Leaf and key not in ends:
                ends[key] = parent
                aliases = op.gradient_aliases and position in op.gradient_aliases
                if aliases and (d.__class__ is not g.__class__ or d.dtype == g.dtype):  # a cast is fresh
                    aliased.add(key)
            if d.shape != saved[position].shape:
                d = unbroadcast(k, d, saved[position].shape)
                aliased.discard(key)
            if key in cotangents:
                owner, before = kernels_of(parent), cotangents[key]
                add = (owner if recorded is None else recorded(owner)).add
                try:
                    d = before.plus(d, add) if d.__class__ is Parts else add(before, d)
                except Exception as error:
                    plus, pair = (before.plus, (d, add)) if d.__class__ is Parts else (add, (before, d))
                    d = again(error, explain_rule, op, owner, saved, pair, {}, plus)
                aliased.discard(key)
            cotangents[key] = d
        if not retain:
            record.clear()
    found = []
    for key, end in ends.items():
        g = cotangents.get(key)
        if g is not None:
            found.append((end, _owned(end, g, recorded) if key in aliased else g))
    return found


def push(
    root: Record, tangents: dict[int, Any], transposed: Callable[..., Any], recorded: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Carry tangents forward to the operands of `root`. Every record is visited once, after those before it.

    Parameters
    ----------
    root : record
        Its operands are what is wanted; it is not computed itself.
    tangents : dict of int to handle, or to Tensor with `recorded`
        Identity of a node to its tangent.
    transposed : function
        Does what `Op.tangent` does, for operations that have only a gradient.
    recorded : function, optional
        As for `sweep`.

    Returns
    -------
    list
        The tangents, ``None`` for zero; they own their memory. Records are left as they are.

    Raises
    ------
    GraphError
        From `count_consumers`.
    """
    if autocasts and autocast_dtype() is not None:
        with suspended():
            return push(root, tangents, transposed, recorded)
    starts = set(tangents)
    waiting = count_consumers(root, starts)
    order = in_order(root, waiting, starts)
    needed, carried = leading_to(starts, order), dict(tangents)
    fresh: set[int] = set()  # nodes whose tangent is nobody else's memory
    for record in reversed(order[1:]):
        key = id(record)
        if key in starts or key not in needed:
            continue
        op, k, params, out = made_by(record)
        parents, operands = record[PARENTS], record[OPERANDS]
        given = [carried.get(id(parent)) for parent in parents]
        for parent in parents:
            if parent.__class__ is list:
                waiting[id(parent)] -= 1
                if not waiting[id(parent)]:  # nobody else asks for its tangent
                    carried.pop(id(parent), None)
        if all(t is None for t in given):
            continue
        if recorded is not None:
            k = recorded(k)
            out = k.lift(out, record)
            operands = list(map(k.lift, operands, parents))
        rule = op.tangent or transposed
        try:
            d = rule(op, k, given, out, *operands, **params)
        except Exception as error:
            d = again(error, explain_rule, op, kernels_of(record), (), (op, k, given, out, *operands), params, rule)
        if d is None:
            continue
        if d.shape != out.shape:
            d = k.broadcast_to(d, shape=out.shape)
        elif not op.view and not op.gradient_aliases:
            fresh.add(key)
        carried[key] = d
    found = []
    for end in root[PARENTS]:
        t = carried.get(id(end))
        found.append(t if t is None or id(end) in fresh else _owned(end, t, recorded))
        fresh.discard(id(end))  # it may be there twice
    return found


def _owned(end: Any, g: Any, recorded: Callable[[Any], Any] | None) -> Any:
    """A copy of a cotangent that may share memory with another."""
    kernels = kernels_of(end)
    return (kernels if recorded is None else recorded(kernels)).copy(g)
