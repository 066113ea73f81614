"""Functions with a gradient, or a tangent, that the user gives, or that comes from computing them once more.

The last is `checkpoint`: nothing on the way has to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial, wraps
from typing import Any

from micrograd_core import random
from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.array import call_with, storage, unrecorded, wrap
from micrograd_core.engine.graph import Leaf, Version, is_node, new_record, parents_of
from micrograd_core.engine.hooks import HOOKED, conjugate, shown
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError
from micrograd_core.ops import Op
from micrograd_core.ops.record import Table
from micrograd_core.ops.shared import by_position
from micrograd_core.support import pytrees
from micrograd_core.support.context import computing_again, depth, during, levels, stand_ins
from micrograd_core.transforms.linearized import IDENTITY, Linearized, as_tensor, fitting, variable, zero_leaf
from micrograd_core.transforms.vmap import batch_of, beneath, inside, joining, lifted, of_batch, reentered, settled

Pull = Callable[[Tensor, Sequence[Tensor]], Sequence[Any]]
"""From the cotangent of the result, and the operands, to their gradients; ``None`` is zero."""
Push = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
"""From the tangents of the operands, and the operands, to the tangent of the result."""


class _Once:
    """A pullback of several operands, for rules of one each: what it gave for a cotangent is kept for the next rule."""

    __slots__ = ("_last", "pull")

    def __init__(self, pull: Pull) -> None:
        self.pull = pull
        self._last: tuple[Any, Sequence[Any]] = (None, ())

    def __call__(self, k: Table, g: Any, operands: Sequence[Any], position: int) -> Any:
        seen, found = self._last
        if seen is not g:
            found = self._run(k, g, operands)
            self._last = (g, found)
        return found[position]

    def _run(self, k: Any, g: Any, operands: Sequence[Any]) -> list[Any]:
        if g.__class__ is Tensor:
            return self._gradients(g, operands)
        cotangent, *inputs = [wrap(Tensor, x, k, k.dtype(x), None) for x in (g, *operands)]
        storage(cotangent).tracked = True  # it may be the memory of other gradients: whoever writes to it gets a copy
        with recording(False, k.depth):
            return self._handles(k, cotangent, inputs)  # one call: nothing else may meet an interrupt on the way out

    def _handles(self, k: Any, g: Tensor, operands: Sequence[Tensor]) -> list[Any]:
        return [settled(d, k.depth)._handle for d in self._gradients(g, operands)]

    def _gradients(self, g: Tensor, operands: Sequence[Tensor]) -> list[Tensor]:
        pairs = zip(self.pull(conjugate(g), operands), operands, strict=False)
        return [conjugate(as_tensor(d, x)) for d, x in pairs]


def rule(position: int) -> Any:
    """The gradient rule of one operand, for records whose derivative is a pullback of all of them."""
    return lambda k, g, out, *operands, pull, **others: pull(k, g, operands, position)


def op_with(name: str, doc: str, tangent: Any = None) -> Op:
    """An operation whose nodes have a pullback of their own, and with a `tangent` (`pushed`) a `push`."""
    return Op(name, doc, gradient=by_position(rule), tangent=tangent, gradient_aliases=True)


def node_of(
    op: Op,
    value: Tensor,
    inputs: Sequence[Tensor],
    pull: Pull,
    push: Push | None = None,
    versions: Sequence[Version] = (),
) -> Tensor:
    """`value` as the result of one operation on `inputs`. A write to memory of which it saves `versions` is noticed."""
    out = wrap(Tensor, value._handle, value._kernels, value.dtype, None)
    params = {"pull": _Once(pull)} if push is None else {"pull": _Once(pull), "push": push}
    parents = [x._record if x._record is not None else storage(x).version() for x in inputs]
    handles = [x._handle for x in inputs] + [out._handle] * len(versions)
    out._record = new_record(op, out._kernels, params, out._handle, [*parents, *versions], handles)
    storage(value).tracked = True  # the record has saved its memory
    out._storage = value._storage
    return out


def at_each_depth(op: Op, value: Tensor, inputs: Sequence[Tensor], pull: Pull, push: Push | None = None) -> Tensor:
    """`node_of` wherever an input records: at the depth of `vmap` where the tensors are, and at those below.

    At those below, `pull` and `push` are what they are for the whole batch: they run inside the call of `vmap` again.
    """
    table = value._kernels
    if table.depth:
        level = levels.get()[table.depth - 1]
        places = [x._handle.level for x in inputs]
        place = level if any(places) else None
        if place:
            value = batch_of(value, level)

        def pull_below(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
            with reentered(level):
                found = pull(joining(g, place), list(map(joining, operands, places)))
                return [None if d is None else of_batch(d, at, place) for d, at in zip(found, places, strict=True)]

        def push_below(tangents: Sequence[Tensor], operands: Sequence[Tensor]) -> Tensor:
            assert push is not None
            with reentered(level):
                inside = [list(map(joining, each, places)) for each in (tangents, operands)]
                return of_batch(push(*inside), place, place)

        below = at_each_depth(
            op, beneath(value), list(map(beneath, inputs)), pull_below, None if push is None else push_below
        )
        value = inside(below, place, table)
    if records_at(table.depth) and any(x.requires_grad for x in inputs):
        return node_of(op, value, inputs, pull, push)
    return unrecorded(value)


def one_tensor(name: str, value: Any) -> Tensor:
    """What a function returned, if it is one tensor, at the innermost level of `vmap`."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: the function must return one Tensor; it returned {type(value).__name__}")
    return lifted(value)


# ── a gradient given by the user ─────────────────────────────────────────────────────────────────────────────


def custom_gradient(f: Callable[..., tuple[Any, Any]]) -> Callable[..., Tensor]:
    """A function with the gradient that it says it has.

    Parameters
    ----------
    f : function
        Of tensors and anything else, returning a pair: the result, one tensor; and a function from its cotangent to a
        tuple of gradients, one for each argument that is a floating-point tensor (or a single gradient, if there is
        one such argument; ``None`` stands for zero). What the second function uses of the first, it closes over. Both
        are written in operations that record, so that second and higher derivatives follow; write
        ``g.detach()`` in the second to have none.

    Returns
    -------
    function
        That returns the result alone.

    Raises
    ------
    TypeError, ShapeError
        When it does not return such a pair, or the number or the shapes of the gradients do not fit.

    Examples
    --------
    >>> from micrograd_core import Tensor, custom_gradient, maximum, minimum
    >>> @custom_gradient
    ... def clipped(x):  # the identity, whose gradient stays between -1 and 1
    ...     return x * 1, lambda g: maximum(minimum(g, 1.0), -1.0)
    >>> x = Tensor([1.0, 2.0])
    >>> (clipped(x) * Tensor([0.5, 30.0])).sum().backward()
    >>> x.grad.tolist()
    [0.5, 1.0]
    """

    def derivatives(name: str, value: Tensor, derivative: Any) -> Any:
        return lambda g, operands: _checked(name, derivative(g), operands), None

    return _custom(f, "custom_gradient", "its result and a function of the cotangent", derivatives)


def _custom(
    f: Callable[..., Any], decorator: str, pair_of: str, derivatives: Any, tangent: Any = None
) -> Callable[..., Tensor]:
    """`f`, whose result is made a node with the `derivatives` that follow from what it returned beside."""
    name = getattr(f, "__name__", "function")
    op = op_with(name, f.__doc__ or "", tangent)

    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Tensor:
        pair = f(*args, **kwargs)
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"{name}: a function under {decorator} returns a pair, {pair_of}; it returned {pair!r}")
        value = one_tensor(name, pair[0])
        leaves = [x for x in pytrees.flatten([args, kwargs])[0] if isinstance(x, Tensor) and x.dtype.is_floating]
        if not value.dtype.is_floating:
            return value
        return at_each_depth(op, value, list(map(lifted, leaves)), *derivatives(name, value, pair[1]))

    return function


def _checked(name: str, found: Any, operands: Sequence[Tensor]) -> Sequence[Any]:
    """Gradients as the user's function returned them, one for each operand."""
    gradients = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(gradients) != len(operands):
        raise TypeError(
            f"{name}: its gradient returned {len(gradients)} for {len(operands)} arguments that are tensors of floats"
        )
    for i, (d, x) in enumerate(zip(gradients, operands, strict=True)):
        if d is not None:
            gradients[i] = fitting(d, x, f"{name}: the gradient of argument {i} has shape {{}}, the argument {{}}")
    return gradients


# ── a tangent given by the user ──────────────────────────────────────────────────────────────────────────────


def custom_jvp(f: Callable[..., tuple[Any, Any]]) -> Callable[..., Tensor]:
    """A function with the tangent that it says it has.

    Parameters
    ----------
    f : function
        Of tensors and anything else, returning a pair: the result, one tensor; and a function from tangents, one for
        each argument that is a floating-point tensor, to the tangent of the result. It must be linear in them, and
        written in operations that record: reverse mode transposes it, and higher derivatives follow.

    Returns
    -------
    function
        That returns the result alone.

    Raises
    ------
    TypeError, ShapeError
        When it does not return such a pair, or the tangent does not have the shape of the result.

    Examples
    --------
    >>> from micrograd_core import Tensor, custom_jvp, grad, jvp
    >>> @custom_jvp
    ... def cube(x):
    ...     return x**3, lambda t: 3 * x**2 * t
    >>> jvp(cube, [Tensor(2.0)], [Tensor(1.0)])[1].item(), grad(cube)(Tensor(2.0)).item()
    (12.0, 12.0)
    """

    def derivatives(name: str, value: Tensor, derivative: Any) -> tuple[Pull, Push]:
        def push(tangents: Sequence[Tensor], operands: Sequence[Tensor]) -> Tensor:
            t = derivative(*tangents)
            if not isinstance(t, Tensor):
                raise TypeError(f"{name}: the tangent of its result is a Tensor; got {type(t).__name__}")
            return fitting(t, value, f"{name}: the tangent has shape {{}}, the result {{}}")

        def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
            table = max((x._kernels for x in operands), key=lambda kernels: kernels.depth)
            with recording(True, table.depth):
                variables = [zero_leaf(x if x._kernels.depth == table.depth else table.lift(x)) for x in operands]
                value = push(variables, operands)
            return Linearized.of_result(name, value, variables).pull([g])

        return pull, push

    return _custom(f, "custom_jvp", "its result and a function of the tangents", derivatives, pushed)


def pushed(op: Op, k: Any, tangents: Sequence[Any], out: Any, *operands: Any, pull: Any, push: Push) -> Any:
    """The tangent rule of a node that has a `push`; tangents that are zero are filled in."""
    pairs = zip(tangents, operands, strict=True)
    return push([as_tensor(None, x) if t is None else shown(t) for t, x in pairs], operands)


# ── computed once more ────────────────────────────────────────────────────────────────────────────────────────────


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
    if pairs := stand_ins.get():  # what stands in the place of others is an argument, too
        replaced, given = zip(*pairs, strict=True)
        with during(stand_ins, ()):
            return checkpoint(partial(call_with, replaced), given, f, *args, **kwargs)
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
