"""`backward`: a sweep from one tensor, and what it found added to the gradients of the leaves.

The way goes down and comes back: the sweep asks the kernel table for everything that it computes, and gives cotangents.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, repeat
from operator import attrgetter, is_not
from typing import Any

from micrograd_core.engine import hooks
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import BaseTensor, T, wrap
from micrograd_core.engine.graph import Leaf, ancestors
from micrograd_core.engine.ingest import as_array
from micrograd_core.engine.modes import recording
from micrograd_core.engine.sweep import sweep
from micrograd_core.errors import DeviceMismatch, GraphError, ShapeError, TransformError
from micrograd_core.support.locks import lock

NOTHING_RECORDED = (
    "nothing was recorded for this tensor: none of its operands required a gradient, or it was made under "
    "no_grad(); make the operands with Tensor(data) or set x.requires_grad = True before computing"
)
_deposit = lock()  # two threads may sweep graphs that share leaves
_GRADIENT, _gradient_of = repeat("_grad"), attrgetter("_grad")


def backward(
    tensor: BaseTensor, gradient: Any = None, *, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add the gradient of this tensor to ``.grad`` of every leaf it was computed from.

    Parameters
    ----------
    gradient : Tensor of this shape, optional
        The cotangent to start from; 1 for a tensor of shape ``()``, required for any other.
    retain_graph : bool, optional
        Keep the graph for another sweep; by default it is freed, unless `create_graph`.
    create_graph : bool, default False
        Record the sweep itself, so that the gradients can be differentiated again.

    Raises
    ------
    GraphError
        When nothing was recorded, the graph was freed, or a saved operand was written to.
    TransformError
        Inside `vmap`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, 2.0])
    >>> (x * x).sum().backward()
    >>> x.grad
    Tensor([2., 4.])
    """
    record = tensor._record
    if tensor._kernels.depth:
        raise TransformError(
            "backward() inside vmap would add nothing to .grad of tensors from outside; inside the function take "
            "grad(f) or vjp(f, ...), or call backward() on what vmap returns"
        )
    if record is None:
        integral = f"a {tensor.dtype} tensor has no gradient; only floating-point tensors record"
        raise GraphError(NOTHING_RECORDED if tensor.dtype.is_floating else integral)
    retain = create_graph if retain_graph is None else retain_graph
    seed = seed_of(tensor, gradient)
    if create_graph:
        leaves_of(record)  # refuses Values
        with recording(True, tensor._kernels.depth):
            found = sweep(record, seed, retain, partial(Recorded.of, tensor.__class__))
    else:
        found = sweep(record, seed._handle, retain)
    onward = deposit(found, create_graph)
    if onward:
        onward[0][0].carry_on(onward)  # the same of all


def leaves_of(record: Any) -> list[Leaf]:
    """The leaves of a graph, for what only tensors can do: a graph that leads into scalar Values is refused."""
    leaves = [each for each in ancestors(record) if each.__class__ is Leaf]
    if any(leaf.values is not None for leaf in leaves):
        raise GraphError(
            "this graph leads into Values (through Value.stack), which only a plain backward() follows: "
            "call backward() without create_graph, or compute with tensors throughout"
        )
    return leaves


def deposit(found: list[tuple[Any, Any]], recorded: bool) -> list[tuple[Leaf, Any]]:
    """Add cotangents to the gradients of the leaves they were found at; those at leaves of Values are handed back.

    An interrupt leaves either all these leaves as they were or none: everything is computed before anything is
    assigned. Where another thread or a signal handler has assigned a gradient meanwhile, it is computed again.
    """
    if hooks.on_leaves:
        found = [(leaf, hooks.of_leaf(leaf, g) if leaf.hooks else g) for leaf, g in found]
    while True:
        onward, owners, before = [], [], []
        after: dict[Leaf, Any] = {}
        for leaf, g in found:
            owner = leaf.owner()
            if leaf.values is not None:
                onward.append((leaf, g))
            elif owner is not None and owner._record is leaf:  # else nobody is left to ask for this gradient
                if leaf not in after:  # as it is for a layer that was used twice
                    owners.append(owner)
                    before.append(owner._grad)
                after[leaf] = _plus(owner, after.get(leaf, before[-1]), leaf.kernels, g, recorded)
        with _deposit:
            # One call of a function in C, which nothing interrupts: if no gradient has changed, all are assigned.
            changed = map(is_not, map(_gradient_of, owners), before)
            if not any(chain(changed, map(setattr, owners, _GRADIENT, after.values()))):
                return onward


def _plus(owner: T, total: T | None, kernels: Any, g: Any, recorded: bool) -> T:
    """The gradient of `owner` once a cotangent is added to it."""
    k = Recorded.of(owner.__class__, kernels) if recorded else kernels
    g = k.conj(g) if owner.dtype.is_complex else g
    g = g if total is None else k.add(total if recorded else total._handle, g)
    return g if recorded else wrap(owner.__class__, g, kernels, owner.dtype, None)


def seed_of(tensor: BaseTensor, gradient: Any) -> Any:
    """The cotangent to start from."""
    kernels, dtype, shape = tensor._kernels, tensor.dtype, tensor._handle.shape
    if gradient is None:
        if shape:
            raise GraphError(
                f"backward() starts from a scalar; this tensor has shape {tuple(shape)}. "
                "Reduce it first, for example with .sum(), or pass gradient= of the same shape"
            )
        if dtype.is_complex:
            raise GraphError(
                f"backward() starts from a real number; this tensor is {dtype}. Make it real first, for example with "
                "abs(x) or real(x), or pass gradient="
            )
        return wrap(tensor.__class__, kernels.one(dtype), kernels, dtype, None)
    if not isinstance(gradient, BaseTensor):
        gradient = as_array(tensor.__class__, gradient, dtype=dtype, device=kernels.device)
    if gradient.shape != shape:
        raise ShapeError(
            f"backward: gradient has shape {gradient.shape}, the tensor {tuple(shape)}; they must be equal"
        )
    if gradient._kernels is not kernels:
        raise DeviceMismatch("backward", [(tensor.device, shape), (gradient.device, shape)])
    k = Recorded.of(tensor.__class__, kernels)
    gradient = gradient if gradient.dtype is dtype else k.astype(gradient, dtype=dtype)
    return k.conj(gradient) if dtype.is_complex else gradient
