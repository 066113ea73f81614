"""What users call to differentiate: `backward`, `grad` and `value_and_grad`, on top of `autograd.sweep`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any

from micrograd_core import dispatch, hooks, trees
from micrograd_core.autograd import Leaf, Record, count_consumers, in_order, recording, records_at, sweep
from micrograd_core.dispatch import Recorded, unrecorded, wrap
from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, ShapeError, TransformError
from micrograd_core.locks import lock
from micrograd_core.modes import depth
from micrograd_core.ops import Op
from micrograd_core.writing import share

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor

# What a tensor is at the innermost level of `vmap`; `micrograd_core.batching` replaces it.
innermost: Callable[[Tensor], Tensor] = lambda x: x  # noqa: E731

_deposit = lock()  # two threads may sweep graphs that share leaves
_GRADIENT, _gradient_of = repeat("_grad"), attrgetter("_grad")


def backward(tensor: Tensor, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """Do the work of `Tensor.backward`; see there."""
    record = tensor._record
    if tensor._kernels.depth:
        raise TransformError(
            "backward() inside vmap would add nothing to .grad of tensors from outside; inside the function take "
            "grad(f) or vjp(f, ...), or call backward() on what vmap returns"
        )
    if record is None:
        raise GraphError(_nothing_recorded(tensor))
    retain = create_graph if retain_graph is None else retain_graph
    seed = _seed(tensor, gradient)
    if create_graph:
        leaves_of(record)  # refuses Values
        with recording(True, tensor._kernels.depth):
            found = [(record, seed.copy())] if record.__class__ is Leaf else sweep(record, seed, retain, Recorded.of)
    elif record.__class__ is Leaf:
        found = [(record, tensor._kernels.copy(seed._handle))]
    else:
        found = sweep(record, seed._handle, retain)
    onward = deposit(found, create_graph)
    if onward:
        from micrograd_core.bridge import carry_on

        carry_on(onward)


def leaves_of(record: Any) -> list[Leaf]:
    """The leaves of a graph, for what only tensors can do: a graph that leads into scalar Values is refused."""
    order = in_order(record, count_consumers(record)) if record.__class__ is list else []
    leaves = [parent for each in order for parent in each[4::2] if parent.__class__ is Leaf]
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
        onward: list[tuple[Leaf, Any]] = []
        owners: list[Tensor] = []
        before: list[Tensor | None] = []
        after: dict[Leaf, Tensor] = {}
        for leaf, g in found:
            if leaf.values is not None:
                onward.append((leaf, g))
                continue
            owner = leaf.owner()
            if owner is None or owner._record is not leaf:  # nobody is left to ask for this gradient
                continue
            total = after.get(leaf)  # not None for a layer that was used twice
            if total is None:
                total = owner._grad
                owners.append(owner)
                before.append(total)
            kernels, dtype = leaf.kernels, owner.dtype
            if dtype.is_complex:
                g = (Recorded.of(kernels) if recorded else kernels).conj(g)
            if recorded:
                after[leaf] = g if total is None else total + g
            else:
                after[leaf] = wrap(g if total is None else kernels.add(total._handle, g), kernels, dtype, None)
        with _deposit:
            # One call of a function in C, which nothing interrupts: if no gradient has changed, all are assigned.
            changed = map(is_not, map(_gradient_of, owners), before)
            if not any(chain(changed, map(setattr, owners, _GRADIENT, after.values()))):
                return onward


def _seed(tensor: Tensor, gradient: Any) -> Any:
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
        return wrap(kernels.one(dtype), kernels, dtype, None)
    if not isinstance(gradient, dispatch.Tensor):
        gradient = dispatch.asarray(gradient, dtype=dtype, device=kernels.device)
    if gradient.shape != shape:
        raise ShapeError(
            f"backward: gradient has shape {gradient.shape}, the tensor {tuple(shape)}; they must be equal"
        )
    if gradient._kernels is not kernels:
        raise DeviceMismatch("backward", [(tensor.device, shape), (gradient.device, shape)])
    gradient = gradient if gradient.dtype is dtype else gradient.astype(dtype)
    return Recorded.of(kernels).conj(gradient) if dtype.is_complex else gradient


def _nothing_recorded(tensor: Tensor) -> str:
    if not tensor.dtype.is_floating:
        return f"a {tensor.dtype} tensor has no gradient; only floating-point tensors record"
    return (
        "nothing was recorded for this tensor: none of its operands required a gradient, or it was made under "
        "no_grad(); make the operands with Tensor(data) or set x.requires_grad = True before computing"
    )


# ── functional ───────────────────────────────────────────────────────────────────────────────────────────────

IDENTITY = Op(
    "identity",
    "The same tensor, as a new node that stands for a variable.",
    tangent=lambda op, k, tangents, out, x, *, variable: tangents[0],
    gradient=(lambda k, g, out, x, *, variable: g,),
    gradient_aliases=True,
)


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """The function ``(*args) -> (f(*args), gradient of f with respect to args[argnums])``.

    Parameters
    ----------
    f : function
        Of tensors, returning a tensor of shape ``()``.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; a sequence gives a tuple of gradients. They are tensors, or
        dicts, lists and tuples of tensors, and so are the gradients.
    has_aux : bool
        `f` returns a pair: the value, and anything else, which is passed on: the function gives
        ``((value, other), gradient)``.

    Returns
    -------
    function
        Leaves ``.grad`` of all tensors alone. Where grad mode is on and an argument, or a tensor that `f` closes over,
        records, the results record too, so that nesting gives higher derivatives, and a loss may contain a gradient.
        Where that is not wanted, as in a loop ``x = x - lr * grad(f)(x)``, pass ``x.detach()`` or call under `no_grad`.

    Raises
    ------
    GraphError, DTypeError, TypeError
        When `f` does not return a scalar tensor, or an argument is not a floating-point tensor.
    """
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if len(set(positions)) != len(positions):
        raise ValueError(f"grad: argnums {positions} name the same argument twice")

    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        outer = records_at(depth())
        variables, rebuilds, replaced = [], [], list(args)
        for position in positions:
            found, rebuild = variables_of("grad", args, position)
            replaced[position] = rebuild(found)
            variables.append(found)
            rebuilds.append(rebuild)
        with recording(True, depth()):
            value, aux = with_aux("grad", f(*replaced, **kwargs), has_aux)
            if not isinstance(value, dispatch.Tensor):
                raise TypeError(f"grad: the function must return a Tensor; it returned {type(value).__name__}")
            wanted = {id(x._record) for found in variables for x in found}
            aux, kept = out_of_graph(aux, wanted, outer)
            cotangents, recorded = _gradients(value, wanted, outer, kept)
            gradients = tuple(
                rebuild(as_gradient(cotangents.get(id(x._record)), x) for x in found)
                for found, rebuild in zip(variables, rebuilds, strict=True)
            )
        value = value if recorded else unrecorded(value)
        return (value, aux) if has_aux else value, gradients[0] if isinstance(argnums, int) else gradients

    return differentiated


def with_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """What a function returned, as its value and what else there is."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{name}: with has_aux=True the function must return a pair; it returned {result!r}")
    return result


def out_of_graph(aux: Any, wanted: set[int], outer: bool) -> tuple[Any, bool]:
    """What a function returned beside its value, outside the graph of a transform; whether the caller's needs it whole.

    A tensor that was computed from the `wanted` variables alone would lead into a graph that is nobody else's.
    """
    leaves, rebuild = trees.flatten(aux)
    inner = [x.__class__ is dispatch.Tensor and x._record is not None for x in leaves]
    kept = [here and outer and _leads_beyond(x._record, wanted) for x, here in zip(leaves, inner, strict=True)]
    if inner == kept:
        return aux, any(kept)
    stripped = zip(leaves, inner, kept, strict=True)
    return rebuild(unrecorded(x) if here and not keep else x for x, here, keep in stripped), any(kept)


def _leads_beyond(node: Any, wanted: set[int]) -> bool:
    """Whether a leaf that is not `wanted` can be reached; what was freed is passed over."""
    seen, stack = set[int](), [node]
    while stack:
        node = stack.pop()
        if node.__class__ is Leaf and id(node) not in wanted:
            return True
        if node.__class__ is list and id(node) not in seen:
            seen.add(id(node))
            stack += node[4::2]
    return False


def _gradients(value: Tensor, wanted: set[int], outer: bool, keep: bool) -> tuple[dict[int, Any], bool]:
    """Cotangents of the nodes `wanted` by identity; and whether they record, being part of a larger graph."""
    seed, record = _seed(value, None), value._record
    if record.__class__ is Leaf:  # the function returned its argument
        return {id(record): seed.copy()}, False
    if record is None:
        return {}, False
    larger = reaches_beyond(record, wanted)  # the graph is part of the caller's: leave it whole
    create = outer and larger
    start, recorded = (seed, Recorded.of) if create else (seed._handle, None)
    keep = keep or larger or value._kernels.depth > 0  # graphs around a vmap may lead back into it
    return {id(node): g for node, g in sweep(record, start, keep, recorded, wanted)}, create


def reaches_beyond(record: Record, wanted: set[int]) -> bool:
    """Whether a graph has leaves other than those wanted."""
    return any(id(leaf) not in wanted for leaf in leaves_of(record))


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of `f`, as a function of the same arguments; with `has_aux`, a pair of it and what else `f` gave.

    See `value_and_grad`.

    Examples
    --------
    >>> from micrograd_core import Tensor, grad
    >>> cube = lambda x: x**3
    >>> grad(grad(cube))(Tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(f, argnums, has_aux)
    if not has_aux:
        return lambda *args, **kwargs: both(*args, **kwargs)[1]

    def gradient_and_aux(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        (_, aux), gradient = both(*args, **kwargs)
        return gradient, aux

    return gradient_and_aux


def variables_of(name: str, args: tuple[Any, ...], position: int) -> tuple[list[Tensor], Any]:
    """New nodes for the tensors in one argument, and what puts them in their places."""
    if not -len(args) <= position < len(args):
        raise TypeError(f"{name}: argnums={position} but the function was called with {len(args)} positional arguments")
    leaves, rebuild = trees.flatten(args[position])
    return [variable(name, x, f"argument {position}") for x in leaves], rebuild


def variable(name: str, x: Any, place: str) -> Tensor:
    """A new node for a tensor: a leaf, or an identity in the graph that it is already part of."""
    if not isinstance(x, dispatch.Tensor):
        raise TypeError(f"{name}: {place} must be a Tensor to differentiate by; got {type(x).__name__}")
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: {place} is {x.dtype}; only floating-point tensors have gradients")
    x = innermost(x)
    new = wrap(x._handle, x._kernels, x.dtype, None)
    if x._record is not None and records_at(x._kernels.depth):
        new._record = [IDENTITY, x._kernels, {"variable": weakref.ref(new)}, x._handle, x._record, x._handle]
    else:
        new._record, new._grad = Leaf(new), None
    share(x, new)
    return new


def as_gradient(g: Any, like: Tensor) -> Tensor:
    """A cotangent of `like` as the user's gradient; ``None``, because the value does not depend on it, is zero."""
    kernels = like._kernels
    if not isinstance(g, dispatch.Tensor):
        if g is None:
            g = kernels.full(shape=like.shape, fill_value=0, dtype=like.dtype)
        g = wrap(g, kernels, like.dtype, None)
    return Recorded.of(kernels).conj(g) if like.dtype.is_complex else g
