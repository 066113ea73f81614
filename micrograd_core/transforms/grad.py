"""`grad` and `value_and_grad`: the derivative of a function as a function."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import share, unrecorded, wrap
from micrograd_core.engine.backward import leaves_of, seed_of
from micrograd_core.engine.graph import Leaf, Record, new_record, parents_of
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.engine.sweep import sweep
from micrograd_core.errors import DTypeError
from micrograd_core.ground import trees
from micrograd_core.ground.context import depth
from micrograd_core.ops import Op
from micrograd_core.transforms.batching import lifted

P = ParamSpec("P")
Q = ParamSpec("Q")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Gradient(Protocol[P]):
    """For type checkers: a gradient, which is a tensor where the first argument is one."""

    @overload
    def __call__(self: Gradient[Concatenate[Tensor, Q]], x: Tensor, /, *args: Q.args, **kwargs: Q.kwargs) -> Tensor: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
        """The gradient at these arguments."""


class ValueAndGradient(Protocol[P, V_co]):
    """For type checkers: likewise, after the value."""

    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[Tensor, Q], V], x: Tensor, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[V, Tensor]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[V_co, Any]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
        """The value, and the gradient at these arguments."""


recorded_on = partial(Recorded.of, Tensor)
"""The recorded operations on a device, from its kernels."""

IDENTITY = Op(
    "identity",
    "The same tensor, as a new node that stands for a variable.",
    tangent=lambda op, k, tangents, out, x, *, variable: tangents[0],
    gradient=(lambda k, g, out, x, *, variable: g,),
    gradient_aliases=True,
)


@overload
def value_and_grad(
    f: Callable[P, V], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> ValueAndGradient[P, V]: ...
@overload
def value_and_grad(
    f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, tuple[Any, Any]]: ...
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
            if not isinstance(value, Tensor):
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
    inner = [x.__class__ is Tensor and x._record is not None for x in leaves]
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
        if id(node) not in seen:
            seen.add(id(node))
            stack += parents_of(node)
    return False


def _gradients(value: Tensor, wanted: set[int], outer: bool, keep: bool) -> tuple[dict[int, Any], bool]:
    """Cotangents of the nodes `wanted` by identity; and whether they record, being part of a larger graph."""
    seed, record = seed_of(value, None), value._record
    if record.__class__ is Leaf:  # the function returned its argument
        return {id(record): seed.copy()}, False
    if record is None:
        return {}, False
    larger = reaches_beyond(record, wanted)  # the graph is part of the caller's: leave it whole
    create = outer and larger
    start, recorded = (seed, recorded_on) if create else (seed._handle, None)
    keep = keep or larger or value._kernels.depth > 0  # graphs around a vmap may lead back into it
    return {id(node): g for node, g in sweep(record, start, keep, recorded, wanted)}, create


def reaches_beyond(record: Record, wanted: set[int]) -> bool:
    """Whether a graph has leaves other than those wanted."""
    return any(id(leaf) not in wanted for leaf in leaves_of(record))


@overload
def grad(f: Callable[P, V], argnums: Literal[0] = 0, has_aux: Literal[False] = False) -> Gradient[P]: ...
@overload
def grad(f: Callable[P, V], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]: ...
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
    both: Callable[..., tuple[Any, Any]] = value_and_grad(f, argnums, has_aux)
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


def as_gradient(g: Any, like: Tensor) -> Tensor:
    """A cotangent of `like` as the user's gradient; ``None``, because the value does not depend on it, is zero."""
    kernels = like._kernels
    if not isinstance(g, Tensor):
        if g is None:
            g = kernels.full(shape=like.shape, fill_value=0, dtype=like.dtype)
        g = wrap(Tensor, g, kernels, like.dtype, None)
    return recorded_on(kernels).conj(g) if like.dtype.is_complex else g
