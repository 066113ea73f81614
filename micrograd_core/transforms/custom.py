"""Functions with a gradient of their own making: given by the user, or found by computing the function once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any

from micrograd_core import random
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.array import storage, unrecorded, wrap
from micrograd_core.engine.graph import Leaf, Version
from micrograd_core.engine.hooks import HOOKED, conjugate
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError, ShapeError
from micrograd_core.ground import trees
from micrograd_core.ground.context import depth, levels
from micrograd_core.ops import Op
from micrograd_core.transforms.batching import Batched, batch_of, beneath, joining, lifted, of_batch, reentered, settled
from micrograd_core.transforms.grad import IDENTITY, variable
from micrograd_core.transforms.linearized import Linearized, zero_leaf

Pull = Callable[[Tensor, Sequence[Tensor]], Sequence[Any]]
"""From the cotangent of the result, and the operands, to their gradients; ``None`` is zero."""
Push = Callable[[Sequence[Tensor]], Tensor]
"""From the tangents of the operands to that of the result."""


class _Once:
    """A pullback of several operands, for rules of one each: what it gave for a cotangent is kept for the next rule."""

    __slots__ = ("_last", "pull")

    def __init__(self, pull: Pull) -> None:
        self.pull = pull
        self._last: tuple[Any, Sequence[Any]] = (None, ())

    def __call__(self, k: Any, g: Any, operands: Sequence[Any], position: int) -> Any:
        seen, found = self._last
        if seen is not g:
            found = self._run(k, g, operands)
            self._last = (g, found)
        return found[position]

    def _run(self, k: Any, g: Any, operands: Sequence[Any]) -> list[Any]:
        if g.__class__ is Tensor:
            return [conjugate(_gradient(d, x)) for d, x in self._pairs(g, operands)]
        tensors = [wrap(Tensor, x, k, k.dtype(x), None) for x in operands]
        cotangent = wrap(Tensor, g, k, k.dtype(g), None)
        storage(cotangent).tracked = True  # it may be the memory of other gradients: whoever writes to it gets a copy
        with recording(False, k.depth):
            return [settled(conjugate(_gradient(d, x)), k.depth)._handle for d, x in self._pairs(cotangent, tensors)]

    def _pairs(self, g: Tensor, operands: Sequence[Tensor]) -> Any:
        return zip(self.pull(conjugate(g), operands), operands, strict=False)


def _gradient(d: Any, x: Tensor) -> Tensor:
    """A gradient of `x`; ``None`` is zero."""
    if d is None:
        d = wrap(Tensor, x._kernels.full(shape=x.shape, fill_value=0, dtype=x.dtype), x._kernels, x.dtype, None)
    return d  # type: ignore[no-any-return]


def _rule(position: int) -> Any:
    return lambda k, g, out, *operands, pull, **others: pull(k, g, operands, position)


def _node(op: Op, value: Tensor, inputs: Sequence[Tensor], pull: Pull, push: Push | None = None) -> Tensor:
    """`value` as the result of one operation on `inputs`."""
    out = wrap(Tensor, value._handle, value._kernels, value.dtype, None)
    params = {"pull": _Once(pull)} if push is None else {"pull": _Once(pull), "push": push}
    out._record = [op, out._kernels, params, out._handle]
    for x in inputs:
        out._record += (x._record if x._record is not None else storage(x).version(), x._handle)
    storage(value).tracked = True  # the record has saved its memory
    out._storage = value._storage
    return out


def _at_each_depth(op: Op, value: Tensor, inputs: Sequence[Tensor], pull: Pull, push: Push | None = None) -> Tensor:
    """`_node` wherever an input records: at the depth of `vmap` where the tensors are, and at those below.

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

        def push_below(tangents: Sequence[Tensor]) -> Tensor:
            assert push is not None
            with reentered(level):
                return of_batch(push(list(map(joining, tangents, places))), place, place)

        below = _at_each_depth(
            op, beneath(value), list(map(beneath, inputs)), pull_below, None if push is None else push_below
        )
        value = wrap(Tensor, Batched(below, place), table, value.dtype, None)
    if records_at(table.depth) and any(x.requires_grad for x in inputs):
        return _node(op, value, inputs, pull, push)
    return unrecorded(value)


def _one_tensor(name: str, value: Any) -> Tensor:
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
    name = getattr(f, "__name__", "function")
    op = Op(name, f.__doc__ or "", gradient=_rule, gradient_aliases=True)

    def node(value: Tensor, inputs: list[Tensor], derivative: Any) -> Tensor:
        return _at_each_depth(op, value, inputs, lambda g, operands: _checked(name, derivative(g), operands))

    return _custom(f, name, "custom_gradient", "its result and a function of the cotangent", node)


def _custom(f: Callable[..., Any], name: str, decorator: str, pair_of: str, node: Any) -> Callable[..., Tensor]:
    """`f`, whose result is made a `node` with the derivative that it returned beside."""

    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Tensor:
        pair = f(*args, **kwargs)
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"{name}: a function under {decorator} returns a pair, {pair_of}; it returned {pair!r}")
        value = _one_tensor(name, pair[0])
        leaves = [x for x in trees.flatten([args, kwargs])[0] if isinstance(x, Tensor) and x.dtype.is_floating]
        return node(value, list(map(lifted, leaves)), pair[1]) if value.dtype.is_floating else value

    return function


def _checked(name: str, found: Any, operands: Sequence[Tensor]) -> Sequence[Any]:
    """Gradients as the user's function returned them, one for each operand."""
    gradients = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(gradients) != len(operands):
        raise TypeError(
            f"{name}: its gradient returned {len(gradients)} for {len(operands)} arguments that are tensors of floats"
        )
    for i, (d, x) in enumerate(zip(gradients, operands, strict=True)):
        if d is None:
            continue
        if not isinstance(d, Tensor):
            d = gradients[i] = asarray(d, dtype=x.dtype, device=x.device)
        if d.shape != x.shape:
            raise ShapeError(f"{name}: the gradient of argument {i} has shape {d.shape}, the argument {x.shape}")
        gradients[i] = d if d.dtype is x.dtype else d.astype(x.dtype)
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
    name = getattr(f, "__name__", "function")
    op = Op(name, f.__doc__ or "", gradient=_rule, tangent=_pushed, gradient_aliases=True)

    def node(value: Tensor, inputs: list[Tensor], derivative: Any) -> Tensor:
        def push(tangents: Sequence[Tensor]) -> Tensor:
            t = derivative(*tangents)
            if not isinstance(t, Tensor):
                raise TypeError(f"{name}: the tangent of its result is a Tensor; got {type(t).__name__}")
            if t.shape != value.shape:
                raise ShapeError(f"{name}: the tangent has shape {t.shape}, the result {value.shape}")
            return t if t.dtype is value.dtype else t.astype(value.dtype)

        def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
            table = max((x._kernels for x in operands), key=lambda kernels: kernels.depth)
            create = records_at(table.depth)
            with recording(True, table.depth):
                variables = [zero_leaf(x if x._kernels.depth == table.depth else table.lift(x)) for x in operands]
                transposed = Linearized(name, [push(variables)], variables, create)
            transposed.larger = create
            return transposed.pull([g])

        return _at_each_depth(op, value, inputs, pull, push)

    return _custom(f, name, "custom_jvp", "its result and a function of the tangents", node)


def _pushed(op: Op, k: Any, tangents: Sequence[Any], out: Any, *operands: Any, pull: Any, push: Push) -> Any:
    """The user's function on tangents; those that are zero are filled in."""
    if out.__class__ is Tensor:
        return push([_gradient(t, x) for t, x in zip(tangents, operands, strict=True)])
    filled = [
        _gradient(None if t is None else wrap(Tensor, t, k, k.dtype(t), None), wrap(Tensor, x, k, k.dtype(x), None))
        for t, x in zip(tangents, operands, strict=True)
    ]
    for t in filled:
        storage(t).tracked = True  # it may be the memory of other tangents: whoever writes to it gets a copy
    with recording(False, k.depth):
        return settled(push(filled), k.depth)._handle


# ── a gradient found by computing again ──────────────────────────────────────────────────────────────────────

CHECKPOINT = Op(
    "checkpoint", "A function that is computed again for its gradient.", gradient=_rule, gradient_aliases=True
)
computing_again: ContextVar[bool] = ContextVar("micrograd_computing_again", default=False)
"""Whether a checkpoint is running its function once more, and what that does besides was done before."""

CHANGED = (
    "checkpoint: computing the function again for its gradient, a tensor that it uses besides its arguments is no "
    "longer what it was: its numbers were replaced, or its graph was freed. Write to it after backward(), and pass to "
    "checkpoint(f, ...) as arguments what was computed outside"
)


def checkpoint(f: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """``f(*args, **kwargs)``, of which only arguments and result are kept: for its gradient it is computed once more.

    Saves the memory of what `f` computes on the way, at the price of its time. Random numbers are the same the second
    time, whichever generators they come from, and running averages of `nn.BatchNorm` move the first time only. May be
    nested, and differentiated to any order.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them, and anything else, returning one tensor. It must compute the
        same the second time. Parameters that it uses without getting them as arguments receive their gradients, too;
        what was computed outside should be an argument. Called inside `vmap`, it saves no memory.

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
    leaves, rebuild = trees.flatten((args, kwargs))
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
        value = _one_tensor("checkpoint", f(*again, **named))
        return variables, value, *_ends(value, {id(x._record) for x in variables})

    def record_again(operands: Sequence[Tensor]) -> Any:
        computing_again.set(True)  # in a context that nobody enters again: there is nothing to set back
        random.rewind(states)
        return record(operands)

    context = copy_context()  # grad mode, default device and generator, the level of vmap
    states: dict[random.Generator, random.State] = {}
    with random.watch(states):
        _, value, others, versions = record(list(map(unrecorded, inputs)))
    if value._record is None:
        return value
    identities = [id(x._record) for x in others]

    def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
        variables, value, found, _ = context.copy().run(record_again, operands[: len(places)])
        saved = operands[len(places) :]  # and what stands for versions
        if [id(x._record) for x in found] != identities or any(
            x._handle is not before._handle for x, before in zip(found, saved, strict=False)
        ):
            raise GraphError(CHANGED)
        create = records_at(value._kernels.depth)
        again = Linearized("checkpoint", [value], [*variables, *found], create)
        again.larger = create
        return again.pull([g])

    out = _node(CHECKPOINT, value, [*inputs, *others], pull)
    for version in versions:  # a write to what the function used shows at the start of the sweep
        out._record += (version, out._handle)
    return out


def _ends(value: Tensor, own: set[int]) -> tuple[list[Tensor], list[Version]]:
    """What a tensor was computed from besides its `own` nodes.

    That is leaves, and variables of transforms around this one; and the states of memory that records nothing.
    """
    tensors, versions, seen = [], [], set(own)
    stack = [[None] * 4 + [value._record]]
    while stack:
        record = stack.pop()
        if not record:
            raise GraphError(CHANGED)
        for parent in record[4::2]:
            if parent is None or id(parent) in seen:
                continue
            seen.add(id(parent))
            if parent.__class__ is Version:
                versions.append(parent)
                continue
            owner = _owner(parent)
            if owner is not None and owner._record is parent:
                tensors.append(owner)
            elif parent.__class__ is list:
                stack.append(parent)
    return tensors, versions


def _owner(node: Any) -> Tensor | None:
    """The tensor that a leaf, or the identity of a variable, stands for, if it is still there."""
    if node.__class__ is Leaf:
        return node.owner()
    if node and node[0].name == HOOKED.name:
        node = node[4]
    return node[2]["variable"]() if node and node[0].name == IDENTITY.name else None


__all__ = ["checkpoint", "custom_gradient", "custom_jvp"]
