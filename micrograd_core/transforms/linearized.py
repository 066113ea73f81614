"""A function recorded at a point: its derivative there, as a linear function in either direction.

Both directions are sweeps over one graph, so they nest and compose alike: backward by the gradients of the op table,
forward by its tangents. An operation that has a gradient only is pushed through by transposing that: the gradient is
linear in the cotangent, and the gradient of *it* maps tangents (J. Townsend, "A new trick for calculating Jacobian
vector products", 2017).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import share, unrecorded, wrap
from micrograd_core.engine.backward import leaves_of
from micrograd_core.engine.explain import explain_rule
from micrograd_core.engine.graph import Leaf, Parts, ancestors, is_node, links_of, made_by, new_record, parents_of
from micrograd_core.engine.hooks import conjugate
from micrograd_core.engine.modes import autocast_dtype, contexts as autocasts, recording, records_at, suspended
from micrograd_core.engine.sweep import count_consumers, in_order, leading_to, owned, sweep
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.ops import Op
from micrograd_core.ops.core.movement import unbroadcast
from micrograd_core.ops.record import Table
from micrograd_core.ops.shared import by_position
from micrograd_core.support import pytrees
from micrograd_core.support.context import depth
from micrograd_core.transforms.vmap import lifted, settled

recorded_on = partial(Recorded.of, Tensor)
"""The recorded operations on a device, from its kernels."""

IDENTITY = Op(
    "identity",
    "The same tensor, as a new node that stands for a variable.",
    tangent=lambda op, k, tangents, out, x, *, variable: tangents[0],
    gradient=(lambda k, g, out, x, *, variable: g,),
    gradient_aliases=True,
)


# The root of a sweep that starts from several tensors: its cotangent is the list of theirs.
JOIN = Op(
    "join", "Several tensors.", gradient=by_position(lambda i: lambda k, g, out, *xs: g[i]), gradient_aliases=True
)


UNLIKE = "has shape {}, but what it belongs to has shape {}; they must be equal"


class Linearized:
    """A recorded function: cotangents of its outputs are pulled back to its variables, tangents pushed forward.

    Where the graph around the function records (`outer`), and the function leads to leaves `beyond` its variables, its
    graph is part of that `larger` one.
    """

    def __init__(self, name: str, outputs: list[Any], variables: list[Tensor], outer: bool) -> None:
        for y in outputs:
            if not isinstance(y, Tensor):
                raise TypeError(f"{name}: the function must return tensors; it returned {type(y).__name__}")
            if not y.dtype.is_floating:
                raise DTypeError(
                    f"{name}: the function returned a {y.dtype} tensor; only floating-point ones have gradients"
                )
        self.name, self.outputs, self.variables = name, outputs, variables
        self.wanted = {id(x._record) for x in variables}
        self.larger = outer and self.beyond

    @classmethod
    def of_result(cls, name: str, value: Tensor, variables: list[Tensor]) -> Linearized:
        """What was recorded in the middle of a sweep: it is part of the sweep's graph where that records."""
        point = cls(name, [value], variables, False)
        point.larger = records_at(value._kernels.depth)
        return point

    @cached_property
    def beyond(self) -> bool:
        """Whether the graph has leaves other than the variables."""
        leaves = leaves_of(joined(self.outputs)) if self.outputs else []
        return any(id(leaf) not in self.wanted for leaf in leaves)

    def values(self) -> list[Tensor]:
        """The outputs, which record if the caller's graph goes through them."""
        return self.outputs if self.larger else list(map(unrecorded, self.outputs))

    def pull(self, cotangents: Sequence[Any], keep: bool = True) -> list[Tensor]:
        """One gradient per variable. ``None`` stands for the cotangent zero. `keep` says that there is a next time."""
        pairs = zip(self.outputs, cotangents, strict=True)
        ends = [(y, g) for y, g in pairs if g is not None and y._record is not None]
        if not ends:
            return [as_gradient(None, x) for x in self.variables]
        first, root = ends[0][0], _root([y for y, _ in ends])
        seeds = [conjugate(fitting(g, y, f"{self.name}: the cotangent {UNLIKE}")) for y, g in ends]
        depth = first._kernels.depth
        keep = keep or depth > 0 or self.beyond  # graphs around a vmap may lead back into it
        create = self._records(seeds)
        recorded = create or [g._kernels for g in seeds] != [y._kernels for y, _ in ends]
        start: Any = seeds if recorded else [g._handle for g in seeds]
        start = start[0] if root is first._record else start
        with recording(create, depth) if recorded else nullcontext():
            found = sweep(root, start, keep, recorded_on if recorded else None, self.wanted)
        by_node = {id(node): g for node, g in found}
        return [as_gradient(by_node.get(id(x._record)), x) for x in self.variables]

    def push(self, tangents: Sequence[Any]) -> list[Tensor]:
        """One tangent per output, for one per variable. ``None`` stands for the tangent zero."""
        given = {
            id(x._record): fitting(t, x, f"{self.name}: the tangent {UNLIKE}")
            for x, t in zip(self.variables, tangents, strict=True)
            if t is not None
        }
        rows = [i for i, y in enumerate(self.outputs) if y.requires_grad]
        found: dict[int, Any] = {}
        if rows and given:
            root = joined([self.outputs[i] for i in rows])
            with recording(self._records(list(given.values())), root[1].depth):
                found = dict(zip(rows, push(root, given), strict=True))
        return [as_tensor(found.get(i), y) for i, y in enumerate(self.outputs)]

    def _records(self, given: list[Tensor]) -> bool:
        """Whether a product with the derivative is recorded, at the depth of the function."""
        recorded = self.larger or [g for g in given if g._record is not None]
        return bool(recorded) and records_at(self.outputs[0]._kernels.depth)


def joined(outputs: Sequence[Tensor]) -> Any:
    """The root of a sweep from several outputs that record."""
    first = outputs[0]
    records, handles = [y._record for y in outputs], [y._handle for y in outputs]
    return new_record(JOIN, first._kernels, {}, first._handle, records, handles)


def _root(outputs: list[Tensor]) -> Any:
    """The root of a sweep from these outputs, which is the only one's own node, if it has one."""
    return outputs[0]._record if len(outputs) == 1 and is_node(outputs[0]._record) else joined(outputs)


class Point(Linearized):
    """A function of the user's, run once: its derivative, and what else it gave."""

    returned: Any
    tree: Callable[[Any], Any]  # outputs in their places
    aux: Any
    aux_in_graph: bool  # whether it needs the caller's graph whole
    _rebuilds: list[tuple[int, Any]]

    def placed(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """A flat list of gradients as one structure per argument."""
        rest = iter(gradients)
        return tuple(rebuild([next(rest) for _ in range(count)]) for count, rebuild in self._rebuilds)


def linearized(
    name: str, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], positions: Any, has_aux: bool
) -> Point:
    """`f` run once, recorded from the arguments at some positions."""
    outer = records_at(depth())
    variables, rebuilds, replaced = [], [], list(args)
    for position in positions:
        if not -len(args) <= position < len(args):
            raise TypeError(
                f"{name}: argnums={position} but the function was called with {len(args)} positional arguments"
            )
        leaves, rebuild = pytrees.flatten(args[position])
        found = [variable(name, x, f"argument {position}") for x in leaves]
        replaced[position] = rebuild(found)
        variables += found
        rebuilds.append((len(found), rebuild))
    with recording(True, depth()):
        value, aux = f(*replaced, **kwargs), None
    if has_aux:
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError(f"{name}: with has_aux=True the function must return a pair; it returned {value!r}")
        value, aux = value
    outputs, tree = pytrees.flatten(value)
    point = Point(name, outputs, variables, outer)
    point.returned, point.tree, point._rebuilds = value, tree, rebuilds
    point.aux, point.aux_in_graph = out_of_graph(aux, point.wanted, outer)
    return point


def out_of_graph(aux: Any, wanted: set[int], outer: bool) -> tuple[Any, bool]:
    """What a function returned beside its value, outside the graph of a transform; whether the caller's needs it whole.

    A tensor that was computed from the `wanted` variables alone would lead into a graph that is nobody else's.
    """
    if aux is None:
        return aux, False
    leaves, rebuild = pytrees.flatten(aux)
    inner = [x.__class__ is Tensor and x._record is not None for x in leaves]
    kept = [here and outer and _leads_beyond(x._record, wanted) for x, here in zip(leaves, inner, strict=True)]
    if inner == kept:
        return aux, any(kept)
    stripped = zip(leaves, inner, kept, strict=True)
    return rebuild(unrecorded(x) if here and not keep else x for x, here, keep in stripped), any(kept)


def _leads_beyond(node: Any, wanted: set[int]) -> bool:
    """Whether a leaf that is not `wanted` can be reached."""
    return any(each.__class__ is Leaf and id(each) not in wanted for each in ancestors(node))


def variable(name: str, x: Any, place: str) -> Tensor:
    """A new node for a tensor: a leaf, or an identity in the graph that it is already part of."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: {place} must be a Tensor to differentiate by; got {type(x).__name__}")
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: {place} is {x.dtype}; only floating-point tensors have gradients")
    x = lifted(x)
    new = wrap(Tensor, x._handle, x._kernels, x.dtype, None)
    if x._record is not None and records_at(x._kernels.depth):
        params = {"variable": weakref.ref(new)}
        new._record = new_record(IDENTITY, x._kernels, params, x._handle, [x._record], [x._handle])
    else:
        new._record, new._grad = Leaf(new), None
    share(x, new)
    return new


def as_tensor(x: Any, like: Tensor) -> Tensor:
    """A cotangent or tangent of `like`, a handle or a tensor, as a tensor; ``None`` is zero."""
    if x is None:
        x = like._kernels.full(shape=like.shape, fill_value=0, dtype=like.dtype)
    return x if x.__class__ is Tensor else wrap(Tensor, x, like._kernels, like.dtype, None)


def as_gradient(g: Any, like: Tensor) -> Tensor:
    """A cotangent of `like` as the user's gradient."""
    g = as_tensor(g, like)
    return recorded_on(like._kernels).conj(g) if like.dtype.is_complex else g  # type: ignore[no-any-return]


def fitting(g: Any, like: Tensor, told: str) -> Tensor:
    """A cotangent or a tangent of a tensor; `told` says with both shapes why it is none."""
    if not isinstance(g, Tensor):
        g = asarray(g, dtype=like.dtype, device=like.device)
    if g.shape != like.shape:
        raise ShapeError(told.format(g.shape, like.shape))
    return g if g.dtype is like.dtype else g.astype(like.dtype)  # type: ignore[no-any-return]


def push(root: Any, tangents: dict[int, Any]) -> list[Any]:
    """Carry tangents forward to the operands of `root`. Every record is visited once, after those before it.

    Parameters
    ----------
    root : record
        Its operands are what is wanted; it is not computed itself.
    tangents : dict of int to Tensor
        Identity of a node to its tangent.

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
            return push(root, tangents)
    starts = set(tangents)
    waiting = count_consumers(root, starts)
    order = in_order(root, waiting, starts)
    needed, carried = leading_to(starts, order), dict(tangents)
    fresh: set[int] = set()  # nodes whose tangent is nobody else's memory
    for record in reversed(order[1:]):
        key = id(record)
        if key in starts or key not in needed:
            continue
        op, kernels, params, handle = made_by(record)
        parents, operands = zip(*links_of(record), strict=True)
        given = [carried.get(id(parent)) for parent in parents]
        for parent in parents:
            if parent.__class__ is list:
                waiting[id(parent)] -= 1
                if not waiting[id(parent)]:  # nobody else asks for its tangent
                    carried.pop(id(parent), None)
        if all(t is None for t in given):
            continue
        k: Any = recorded_on(kernels)
        out, rule = k.lift(handle, record), op.tangent or transposed
        try:
            d = rule(op, k, given, out, *map(k.lift, operands, parents), **params)
        except Exception as error:
            raise explain_rule(op, kernels, error)  # noqa: B904  # see `explain`
        if d is None:
            continue
        if d.shape != out.shape:
            d = k.broadcast_to(d, shape=out.shape)
        elif not op.view and not op.gradient_aliases:
            fresh.add(key)
        carried[key] = d
    found = []
    for end in parents_of(root):
        t = carried.get(id(end))
        found.append(t if t is None or id(end) in fresh else owned(end, t, recorded_on))
        fresh.discard(id(end))  # it may be there twice
    return found


def transposed(op: Op, k: Table, tangents: Sequence[Any], out: Any, *operands: Any, **params: Any) -> Any:
    """What `Op.tangent` does, from the gradient rules alone: they are transposed in the cotangent."""
    rules = op.gradient if isinstance(op.gradient, tuple) else op.gradient([t is not None for t in tangents])
    parts = list(out) if isinstance(out, tuple) else [out]
    kernels = parts[0]._kernels
    with recording(True, kernels.depth):
        dummies = [zero_leaf(y) for y in parts]
        g = Parts(dummies) if isinstance(out, tuple) else dummies[0]
        pulled, seeds = [], []
        for rule, t, x in zip(rules, tangents, operands, strict=True):
            if t is None or rule is None:
                continue
            d: Any = settled(rule(k, g, out, *operands, **params), kernels.depth)
            d = d if d.shape == x.shape else unbroadcast(k, d, x.shape)
            if d.requires_grad:
                pulled.append(d)
                seeds.append(t)
        if not pulled:
            return None
        ends = {id(y._record) for y in dummies}
        found = {id(node): t for node, t in sweep(joined(pulled), seeds, True, recorded_on, ends)}
        made = [as_tensor(found.get(id(y._record)), y) for y in dummies]
    return Parts(made) if isinstance(out, tuple) else made[0]


def zero_leaf(y: Tensor) -> Tensor:
    """A new variable like `y`, for a cotangent or a tangent."""
    zero = as_tensor(None, y)
    if y.dtype.is_floating:
        zero._record, zero._grad = Leaf(zero), None
    return zero
