"""Derivatives of functions, beyond `grad`: products with Jacobians from either side, whole Jacobians, Hessians.

All of them run the function once and sweep over what it recorded: backward (`vjp`, `jacobian`) or forward (`jvp`,
`linearize`, `jacfwd`). A Jacobian is the products with the rows of an identity matrix, as one batch (`vmap`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.dtypes import int64
from micrograd_core.engine.array import wrap
from micrograd_core.errors import DTypeError
from micrograd_core.ground import trees
from micrograd_core.transforms.grad import as_gradient, grad
from micrograd_core.transforms.linearized import Linearized, linearized
from micrograd_core.transforms.vmap import vmap


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
    point, rebuilds, rebuild_output, aux = linearized("vjp", f, args, range(len(args)), has_aux)
    value = rebuild_output(point.values())

    def pull(cotangent: Any) -> tuple[Any, ...]:
        return _placed(point.pull(trees.like(value, cotangent, "vjp: the cotangent")), rebuilds)

    return (value, pull, aux) if has_aux else (value, pull)


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `f`, and the function that multiplies its Jacobian by tangents from the right.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them; returning the same. It is run once.
    *primals : tensors, and dicts, lists and tuples of them
        Where.
    has_aux : bool
        `f` returns a pair: the value, and anything else, which is passed on as a third result.

    Returns
    -------
    value, function
        The function takes one tangent per argument, of its structure and shapes, any number of times, and gives one
        like the value. Each call is a forward sweep over what was recorded.

    Raises
    ------
    TypeError, DTypeError, ShapeError
        When arguments or results are not floating-point tensors, or a tangent does not fit.

    Examples
    --------
    >>> from micrograd_core import Tensor, linearize
    >>> value, push = linearize(lambda x, y: x * y, Tensor(2.0), Tensor(3.0))
    >>> push(Tensor(1.0), Tensor(0.0)).item(), push(Tensor(0.0), Tensor(1.0)).item()
    (3.0, 2.0)
    """
    value, push, aux = _linearized("linearize", f, primals, has_aux)
    return (value, push, aux) if has_aux else (value, push)


def _linearized(name: str, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, Any, Any]:
    point, _, rebuild_output, aux = linearized(name, f, primals, range(len(primals)), has_aux)

    def push(*tangents: Any) -> Any:
        return rebuild_output(point.push(trees.like(primals, tangents, f"{name}: the tangents")))

    return rebuild_output(point.values()), push, aux


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `f`, and its derivative along a direction: its Jacobian times `tangents`. Forward mode.

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
    value, push, aux = _linearized("jvp", f, tuple(primals), has_aux)
    return (value, push(*tangents), aux) if has_aux else (value, push(*tangents))


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
    return _jacobians("jacobian", _rows, f, argnums, has_aux)


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """`jacobian` by forward mode: the better one where there are fewer inputs than outputs.

    Parameters, results and errors as of `jacobian`. `f` runs once; then a batch of as many tangents as an argument has
    elements is pushed forward, once for each tensor among the arguments.

    Examples
    --------
    >>> from micrograd_core import Tensor, jacfwd
    >>> jacfwd(lambda x: x[0] * x)(Tensor([2.0, 3.0])).tolist()
    [[4.0, 0.0], [3.0, 2.0]]
    """
    return _jacobians("jacfwd", _columns, f, argnums, has_aux)


def _jacobians(name: str, blocks_of: Any, f: Any, argnums: int | Sequence[int], has_aux: bool) -> Callable[..., Any]:
    """`blocks_of` gives the Jacobian of each output by each variable."""
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def jacobians(*args: Any, **kwargs: Any) -> Any:
        def bound(*given: Any) -> Any:
            return f(*given, **kwargs)

        point, rebuilds, rebuild_output, aux = linearized(name, bound, args, positions, has_aux)
        if any(x.dtype.is_complex for x in (*point.outputs, *point.variables)):
            raise DTypeError(f"{name}: a complex function has no single matrix of derivatives; use vjp or jvp")
        found = []
        for blocks in blocks_of(point):
            placed = _placed(blocks, rebuilds)
            found.append(placed[0] if isinstance(argnums, int) else placed)
        result = rebuild_output(found)
        return (result, aux) if has_aux else result

    return jacobians


def _rows(point: Linearized) -> list[list[Tensor]]:
    """A block of a Jacobian for each output and variable, row by row."""
    found = []
    for row, y in enumerate(point.outputs):

        def pull(cotangent: Tensor, row: int = row) -> list[Tensor]:
            return point.pull([cotangent if i == row else None for i in range(len(point.outputs))])

        blocks = vmap(pull, randomness="same")(_identity(y)) if y.size else [None] * len(point.variables)
        found.append([_block(g, y, x) for g, x in zip(blocks, point.variables, strict=True)])
    return found


def _columns(point: Linearized) -> list[list[Tensor]]:
    """The same, column by column."""
    columns = []
    for column, x in enumerate(point.variables):

        def push(tangent: Tensor, column: int = column) -> list[Tensor]:
            return point.push([tangent if i == column else None for i in range(len(point.variables))])

        blocks = vmap(push, out_axes=-1, randomness="same")(_identity(x)) if x.size else [None] * len(point.outputs)
        columns.append([_block(t, y, x) for t, y in zip(blocks, point.outputs, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def _block(found: Tensor | None, y: Tensor, x: Tensor) -> Tensor:
    shape = (*y.shape, *x.shape)
    return as_gradient(None, x).broadcast_to(shape) if found is None else found.reshape(shape)


def _identity(y: Tensor) -> Tensor:
    """A cotangent or tangent of `y` for each of its elements: 1 there, else 0."""
    numbers = wrap(Tensor, y._kernels.arange(int(y.size), dtype=int64), y._kernels, int64, None)
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


jacrev = jacobian

__all__ = ["hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "vjp"]
