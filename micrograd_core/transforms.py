"""Derivatives of functions, beyond `grad`: products with Jacobians from either side, whole Jacobians, Hessians.

All of them are reverse mode. A product from the right, `jvp`, is the derivative of a product from the left, which is
linear in the cotangent; a Jacobian is the products with the rows of an identity matrix, as one batch (`vmap`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core import trees
from micrograd_core.autograd import recording, records_at, sweep
from micrograd_core.batching import vmap
from micrograd_core.differentiate import as_gradient, grad, reaches_beyond, variable, variables_of, with_aux
from micrograd_core.dispatch import Recorded, unrecorded, wrap
from micrograd_core.dtypes import int64
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.modes import depth
from micrograd_core.ops import Op
from micrograd_core.tensor import Tensor, asarray

# The root of a sweep that starts from several tensors: its cotangent is the list of theirs.
JOIN = Op("join", "Several tensors.", gradient=lambda i: lambda k, g, out, *xs: g[i], gradient_aliases=True)


class Pullback:
    """A recorded function: from cotangents of its outputs to those of its variables, as often as wanted."""

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
        links = [(self.outputs[i]._record, self.outputs[i]._handle) for i in rows if self.outputs[i].requires_grad]
        if not links:
            return []
        first = next(self.outputs[i] for i in rows if self.outputs[i].requires_grad)
        return [JOIN, first._kernels, {}, first._handle, *(part for link in links for part in link)]

    def __call__(self, cotangents: Sequence[Any]) -> list[Tensor]:
        """One gradient per variable. ``None`` stands for the cotangent zero."""
        rows = [i for i, g in enumerate(cotangents) if g is not None and self.outputs[i].requires_grad]
        root = self._root(rows)
        if not root:
            return [as_gradient(None, x) for x in self.variables]
        seeds = [_fitting(self.name, cotangents[i], self.outputs[i]) for i in rows]
        at = root[1].depth
        create = records_at(at) and (self.larger or any(g.requires_grad for g in seeds))
        if create or any(g._kernels is not self.outputs[i]._kernels for g, i in zip(seeds, rows, strict=True)):
            with recording(create, at):
                return self._placed(sweep(root, seeds, True, Recorded.of, self.wanted))
        return self._placed(sweep(root, [g._handle for g in seeds], True, None, self.wanted))

    def _placed(self, found: list[tuple[Any, Any]]) -> list[Tensor]:
        by_node = {id(node): g for node, g in found}
        return [as_gradient(by_node.get(id(x._record)), x) for x in self.variables]


def _fitting(name: str, g: Any, y: Tensor) -> Tensor:
    """A cotangent of `y`, or the sentence that says why it is none."""
    if not isinstance(g, Tensor):
        g = asarray(g, dtype=y.dtype, device=y.device)
    if g.shape != y.shape:
        raise ShapeError(f"{name}: the cotangent has shape {g.shape}, the function returned {y.shape}")
    fitting: Tensor = g if g.dtype is y.dtype else g.astype(y.dtype)
    return Recorded.of(y._kernels).conj(fitting) if y.dtype.is_complex else fitting


def _recorded(
    name: str, f: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int], has_aux: bool
) -> tuple[Pullback, list[Any], Any, Any]:
    """`f` run once: its pullback, what puts gradients and outputs in their places, and what else it returned."""
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
    return Pullback(name, outputs, variables, outer), rebuilds, rebuild_output, aux


def _placed(gradients: Sequence[Any], rebuilds: list[Any]) -> tuple[Any, ...]:
    """A flat list of gradients as one structure per argument."""
    rest = iter(gradients)
    return tuple(rebuild([next(rest) for _ in range(count)]) for count, rebuild in rebuilds)


def vjp(f: Callable[..., Any], *args: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `f`, and the function that multiplies its Jacobian by a cotangent from the left.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them; returning the same.
    *args : tensors, and dicts, lists and tuples of them
        Where; all are differentiated by. `f` may close over other arguments.
    has_aux : bool
        `f` returns a pair: the value, and anything else, which is passed on.

    Returns
    -------
    value, function
        The function takes a cotangent like the value, any number of times, and gives a tuple: one gradient per
        argument. With `has_aux` there is a third thing, what else `f` returned.

    Raises
    ------
    TypeError, DTypeError, ShapeError
        When arguments or results are not floating-point tensors, or a cotangent does not fit.

    Examples
    --------
    >>> from micrograd_core import Tensor, vjp
    >>> value, pull = vjp(lambda x, y: x * y, Tensor([1.0, 2.0]), Tensor([3.0, 4.0]))
    >>> [g.tolist() for g in pull(Tensor([1.0, 10.0]))]
    [[3.0, 40.0], [1.0, 20.0]]
    """
    pullback, rebuilds, rebuild_output, aux = _recorded("vjp", f, args, range(len(args)), has_aux)
    value = rebuild_output(pullback.values())

    def pull(cotangent: Any) -> tuple[Any, ...]:
        return _placed(pullback(trees.like(value, cotangent, "vjp: the cotangent")), rebuilds)

    return (value, pull, aux) if has_aux else (value, pull)


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `f`, and its derivative along a direction: its Jacobian times `tangents`.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them; returning the same.
    primals, tangents : sequence
        The arguments, and the direction, which has the same structure and shapes.
    has_aux : bool
        `f` returns a pair: the value, and anything else, which is passed on as a third result.

    Returns
    -------
    value, tangent
        Computed by reverse mode twice (J. Townsend, "A new trick for calculating Jacobian vector products", 2017): it
        takes about the time of three gradients, and the memory of one.

    Raises
    ------
    TypeError, DTypeError, ShapeError
        When arguments or results are not floating-point tensors, or a tangent does not fit.

    Examples
    --------
    >>> from micrograd_core import Tensor, jvp
    >>> jvp(lambda x: x**3, [Tensor(2.0)], [Tensor(1.0)])[1].item()
    12.0
    """
    primals, tangents = tuple(primals), tuple(tangents)
    outer = records_at(depth())
    pullback, _, rebuild_output, aux = _recorded("jvp", f, primals, range(len(primals)), has_aux)
    directions = trees.like(primals, tangents, "jvp: the tangents")
    for x, v in zip(pullback.variables, directions, strict=True):
        if not isinstance(v, Tensor) or v.shape != x.shape:
            raise ShapeError(f"jvp: a tangent must be a tensor of shape {x.shape}, as its primal; got {v!r}")
    with recording(True, depth()):
        dummies = [variable("jvp", unrecorded(y) * 0, "output") for y in pullback.outputs]
        transposed = Pullback("jvp", pullback(dummies), dummies, outer)
    records = outer and (pullback.larger or any(v.requires_grad for v in directions))
    with recording(records, depth()):
        tangent = rebuild_output(transposed(directions))
    value = rebuild_output(pullback.values())
    return (value, tangent, aux) if has_aux else (value, tangent)


def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function ``(*args) -> all derivatives of f(*args) by all elements of args[argnums]``.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them; returning the same.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; a sequence gives a tuple of Jacobians.
    has_aux : bool
        `f` returns a pair: the value, and anything else; the function then gives ``(Jacobian, other)``.

    Returns
    -------
    function
        A Jacobian has the shape of the output followed by that of the input. For dicts, lists and tuples it has the
        structure of the output, in each place of which there is the structure of the argument. The sweep runs once
        over the graph for each tensor of the output, on a batch of as many cotangents as that has elements.

    Raises
    ------
    TypeError, DTypeError
        When arguments or results are not real floating-point tensors.

    Examples
    --------
    >>> from micrograd_core import Tensor, jacobian
    >>> jacobian(lambda x: x[0] * x)(Tensor([2.0, 3.0])).tolist()
    [[4.0, 0.0], [3.0, 2.0]]
    """
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def jacobians(*args: Any, **kwargs: Any) -> Any:
        def bound(*given: Any) -> Any:
            return f(*given, **kwargs)

        pullback, rebuilds, rebuild_output, aux = _recorded("jacobian", bound, args, positions, has_aux)
        if any(x.dtype.is_complex for x in (*pullback.outputs, *pullback.variables)):
            raise DTypeError("jacobian: a complex function has no single matrix of derivatives; use vjp or jvp")
        found = []
        for row, y in enumerate(pullback.outputs):
            blocks = _placed(_rows(pullback, row, y), rebuilds)
            found.append(blocks[0] if isinstance(argnums, int) else blocks)
        result = rebuild_output(found)
        return (result, aux) if has_aux else result

    return jacobians


def _rows(pullback: Pullback, row: int, y: Tensor) -> list[Tensor]:
    """The Jacobian of one output by each variable."""
    if not y.size:
        return [as_gradient(None, x).broadcast_to(*y.shape, *x.shape) for x in pullback.variables]

    def pull(cotangent: Tensor) -> list[Tensor]:
        return pullback([cotangent if i == row else None for i in range(len(pullback.outputs))])

    found = vmap(pull)(_identity(y))
    return [g.reshape(*y.shape, *x.shape) for g, x in zip(found, pullback.variables, strict=True)]


def _identity(y: Tensor) -> Tensor:
    """A cotangent of `y` for each of its elements: 1 there, else 0."""
    numbers = wrap(y._kernels.arange(y.size, dtype=int64), y._kernels, int64, None)
    diagonal: Tensor = numbers.reshape(-1, 1) == numbers
    return diagonal.astype(y.dtype).reshape(y.size, *y.shape)


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The second derivatives of `f`, which returns a tensor of shape ``()``: the Jacobian of its gradient.

    Parameters, results and errors as of `jacobian`; several arguments give a tuple of tuples.

    Examples
    --------
    >>> from micrograd_core import Tensor, hessian
    >>> hessian(lambda x: (x**3).sum())(Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(f, argnums, has_aux), argnums, has_aux)


def hvp(f: Callable[..., Any], primals: Any, vectors: Any) -> Any:
    """The Hessian of `f` times a vector, in the time of a few gradients: no Hessian is made.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them, returning a tensor of shape ``()``.
    primals, vectors : tuple, or a single argument
        The arguments, and what to multiply by, which has the same structure and shapes.

    Returns
    -------
    tuple, or what a single argument is like

    Raises
    ------
    TypeError, DTypeError, ShapeError
        As of `vjp`.

    Examples
    --------
    >>> from micrograd_core import Tensor, hvp
    >>> hvp(lambda x: (x**3).sum(), Tensor([1.0, 2.0]), Tensor([1.0, 1.0])).tolist()
    [6.0, 12.0]
    """
    several = isinstance(primals, tuple)
    args, given = (primals, vectors) if several else ((primals,), (vectors,))
    _, pull = vjp(grad(f, range(len(args))), *args)
    found = pull(given)  # the Hessian is its own transpose
    return found if several else found[0]


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vjp"]
