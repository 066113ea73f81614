"""A function recorded at a point: its derivative there, as a linear function in either direction.

Both directions are sweeps over one graph, so they nest and compose alike: backward by the gradients of the op table,
forward by its tangents. An operation that has a gradient only is pushed through by transposing that: the gradient is
linear in the cotangent, and the gradient of *it* maps tangents (J. Townsend, "A new trick for calculating Jacobian
vector products", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import unrecorded, wrap
from micrograd_core.engine.graph import Leaf, Parts, new_record
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.engine.sweep import push, sweep
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.ground import trees
from micrograd_core.ground.context import depth
from micrograd_core.ops import Op, unbroadcast
from micrograd_core.ops.shared import by_position
from micrograd_core.transforms.batching import settled
from micrograd_core.transforms.grad import (
    as_gradient,
    out_of_graph,
    reaches_beyond,
    recorded_on,
    variables_of,
    with_aux,
)

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

# The root of a sweep that starts from several tensors: its cotangent is the list of theirs.
JOIN = Op(
    "join", "Several tensors.", gradient=by_position(lambda i: lambda k, g, out, *xs: g[i]), gradient_aliases=True
)


class Linearized:
    """A recorded function: cotangents of its outputs are pulled back to its variables, tangents pushed forward."""

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
        root = self._root(range(len(outputs)))
        # Part of the caller's graph, so that gradients record as well.
        self.larger = outer and bool(root) and reaches_beyond(root, self.wanted)

    def values(self) -> list[Tensor]:
        """The outputs, which record if the caller's graph goes through them."""
        return self.outputs if self.larger else list(map(unrecorded, self.outputs))

    def _root(self, rows: Sequence[int]) -> list[Any]:
        recorded = [self.outputs[i] for i in rows if self.outputs[i].requires_grad]
        return joined(recorded) if recorded else []

    def pull(self, cotangents: Sequence[Any]) -> list[Tensor]:
        """One gradient per variable. ``None`` stands for the cotangent zero."""
        rows = [i for i, g in enumerate(cotangents) if g is not None and self.outputs[i].requires_grad]
        root = self._root(rows)
        if not root:
            return [as_gradient(None, x) for x in self.variables]
        seeds = [_fitting(self.name, "cotangent", cotangents[i], self.outputs[i]) for i in rows]
        seeds = [recorded_on(g._kernels).conj(g) if g.dtype.is_complex else g for g in seeds]
        with recording(create := self._records(seeds), root[1].depth):
            if create or any(g._kernels is not self.outputs[i]._kernels for g, i in zip(seeds, rows, strict=True)):
                found = sweep(root, seeds, True, recorded_on, self.wanted)
            else:
                found = sweep(root, [g._handle for g in seeds], True, None, self.wanted)
            by_node = {id(node): g for node, g in found}
            return [as_gradient(by_node.get(id(x._record)), x) for x in self.variables]

    def push(self, tangents: Sequence[Any]) -> list[Tensor]:
        """One tangent per output, for one per variable. ``None`` stands for the tangent zero."""
        given = {
            id(x._record): _fitting(self.name, "tangent", t, x)
            for x, t in zip(self.variables, tangents, strict=True)
            if t is not None
        }
        rows = [i for i, y in enumerate(self.outputs) if y.requires_grad]
        found: dict[int, Any] = {}
        if rows and given:
            root = self._root(rows)
            places = {id(x._record): x._kernels for x in self.variables}
            with recording(create := self._records(list(given.values())), root[1].depth):
                if create or any(t._kernels is not places[key] for key, t in given.items()):
                    pushed = push(root, given, transposed, recorded_on)
                else:
                    pushed = push(root, {key: t._handle for key, t in given.items()}, transposed)
            found = dict(zip(rows, pushed, strict=True))
        return [as_tangent(found.get(i), y) for i, y in enumerate(self.outputs)]

    def _records(self, given: list[Tensor]) -> bool:
        """Whether a product with the derivative is recorded, at the depth of the function."""
        at = self.outputs[0]._kernels.depth
        return records_at(at) and (self.larger or any(g.requires_grad for g in given))


def joined(outputs: Sequence[Tensor]) -> list[Any]:
    """The root of a sweep from all of them."""
    first = outputs[0]
    records, handles = [y._record for y in outputs], [y._handle for y in outputs]
    return new_record(JOIN, first._kernels, {}, first._handle, records, handles)


def _fitting(name: str, what: str, g: Any, like: Tensor) -> Tensor:
    """A cotangent or a tangent of a tensor, or the sentence that says why it is none."""
    if not isinstance(g, Tensor):
        g = asarray(g, dtype=like.dtype, device=like.device)
    if g.shape != like.shape:
        raise ShapeError(
            f"{name}: the {what} has shape {g.shape}, but what it belongs to has shape {like.shape}; they must be equal"
        )
    return g if g.dtype is like.dtype else g.astype(like.dtype)  # type: ignore[no-any-return]


def as_tangent(t: Any, like: Tensor) -> Tensor:
    """A tangent as the user's; ``None`` is zero. It owns its memory."""
    kernels = like._kernels
    if t is None:
        t = kernels.full(shape=like.shape, fill_value=0, dtype=like.dtype)
    return t if t.__class__ is Tensor else wrap(Tensor, t, kernels, like.dtype, None)


def linearized(
    name: str, f: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int], has_aux: bool
) -> tuple[Linearized, list[Any], Any, Any]:
    """`f` run once: its derivative, what puts gradients and outputs in their places, and what else it returned."""
    outer = records_at(depth())
    variables, rebuilds, replaced = [], [], list(args)
    for position in positions:
        found, rebuild = variables_of(name, args, position)
        replaced[position] = rebuild(found)
        variables += found
        rebuilds.append((len(found), rebuild))
    with recording(True, depth()):
        value, aux = with_aux(name, f(*replaced), has_aux)
    outputs, rebuild_output = trees.flatten(value)
    point = Linearized(name, outputs, variables, outer)
    return point, rebuilds, rebuild_output, out_of_graph(aux, point.wanted, outer)[0]


def transposed(op: Op, k: Table, tangents: Sequence[Any], out: Any, *operands: Any, **params: Any) -> Any:
    """What `Op.tangent` does, from the gradient rules alone: they are transposed in the cotangent."""
    if not isinstance(k, Recorded):
        given, result, xs = (_tensors(k, each) for each in (list(tangents), out, operands))
        return _handles(_transposed(op, recorded_on(k), given, result, xs, params))
    return _transposed(op, k, tangents, out, operands, params)


def _transposed(op: Op, k: Table, tangents: Any, out: Any, operands: Any, params: dict[str, Any]) -> Any:
    rules = op.gradient if isinstance(op.gradient, tuple) else op.gradient([t is not None for t in tangents])  # type: ignore
    parts = list(out) if isinstance(out, tuple) else [out]
    kernels = parts[0]._kernels
    with recording(True, kernels.depth):
        dummies = [zero_leaf(y) for y in parts]
        g = Parts(dummies) if isinstance(out, tuple) else dummies[0]
        pulled, seeds = [], []
        for rule, t, x in zip(rules, tangents, operands, strict=True):
            if t is None or rule is None:
                continue
            d = settled(rule(k, g, out, *operands, **params), kernels.depth)
            d = d if d.shape == x.shape else unbroadcast(k, d, x.shape)
            if d.requires_grad:
                pulled.append(d)
                seeds.append(t)
        if not pulled:
            return None
        ends = {id(y._record) for y in dummies}
        found = {id(node): t for node, t in sweep(joined(pulled), seeds, True, recorded_on, ends)}
        made = [as_tangent(found.get(id(y._record)), y) for y in dummies]
    return Parts(made) if isinstance(out, tuple) else made[0]


def zero_leaf(y: Tensor) -> Tensor:
    """A new variable like `y`, for a cotangent or a tangent."""
    zero = wrap(Tensor, y._kernels.full(shape=y.shape, fill_value=0, dtype=y.dtype), y._kernels, y.dtype, None)
    if y.dtype.is_floating:
        zero._record, zero._grad = Leaf(zero), None
    return zero


def _tensors(k: Table, x: Any) -> Any:
    """Handles as tensors that record nothing; numbers, and ``None``, as they are."""
    if isinstance(x, (list, tuple)):
        return type(x)(_tensors(k, each) for each in x)
    return wrap(Tensor, x, k, k.dtype(x), None) if hasattr(x, "shape") else x


def _handles(x: Any) -> Any:
    return Parts(each._handle for each in x) if isinstance(x, tuple) else x if x is None else x._handle
