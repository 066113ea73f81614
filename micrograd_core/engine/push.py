"""Tangents, carried forward through the recorded graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.engine.autocast import autocast_dtype, suspended
from micrograd_core.engine.autocast import contexts as autocasts
from micrograd_core.engine.explain import explain_rule
from micrograd_core.engine.graph import OPERANDS, PARENTS, Record, kernels_of, made_by
from micrograd_core.engine.sweep import count_consumers, in_order, leading_to, owned


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
            raise explain_rule(op, kernels_of(record), (), params, error)
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
        found.append(t if t is None or id(end) in fresh else owned(end, t, recorded))
        fresh.discard(id(end))  # it may be there twice
    return found
