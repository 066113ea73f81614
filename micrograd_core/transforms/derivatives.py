"""Derivatives of functions: `grad`, products with Jacobians from either side, whole Jacobians, Hessians.

All of them run the function once and sweep over what it recorded: backward (`grad`, `vjp`, `jacobian`) or forward
(`jvp`, `linearize`, `jacfwd`). A Jacobian is the products with the rows of an identity matrix, as one batch (`vmap`).

`gradcheck` and `gradgradcheck` are the definition of a correct gradient, as a test. The derivative of a random
projection of ``f`` along every input coordinate, by central differences, must equal what reverse mode says; a complex
input has two, its real and its imaginary part. The error of a central difference is O(eps**2) truncation plus O(u /
eps) rounding (u = 2**-53), least near ``eps = u**(1/3)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import complex128, float64, int64
from micrograd_core.engine.apply import apply
from micrograd_core.engine.array import wrap
from micrograd_core.engine.backward import seed_of
from micrograd_core.engine.modes import enable_grad
from micrograd_core.errors import DTypeError, GradcheckError
from micrograd_core.layout import nest
from micrograd_core.ops import TABLE
from micrograd_core.support import pytrees
from micrograd_core.transforms.linearized import as_gradient, linearized
from micrograd_core.transforms.vmap import vmap

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


def positions_of(name: str, argnums: Any) -> tuple[int, ...]:
    """Which arguments to differentiate by. Arguments themselves in that place are refused: they come in a second call.

    Raises
    ------
    TypeError
        For anything but an int, or ints.
    """
    if isinstance(argnums, int):
        return (argnums,)
    if not isinstance(argnums, (tuple, list, range)) or not all(isinstance(each, int) for each in argnums):
        raise TypeError(
            f"{name}(f) is a function: write {name}(f)(x); argnums= are places of arguments; got {argnums!r}"
        )
    return tuple(argnums)


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

    Examples
    --------
    >>> import micrograd_core as mg
    >>> value, gradient = mg.value_and_grad(lambda x: (x**2).sum())(mg.asarray([1.0, 3.0]))
    >>> value, gradient
    (Tensor(10.), Tensor([2., 6.]))
    """
    positions = positions_of("grad", argnums)
    if len(set(positions)) != len(positions):
        raise ValueError(f"grad: argnums {positions} name the same argument twice")

    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        point = linearized("grad", f, args, kwargs, positions, has_aux)
        if not isinstance(point.returned, Tensor):
            raise TypeError(f"grad: the function must return a Tensor; it returned {type(point.returned).__name__}")
        gradients = point.placed(point.pull([seed_of(point.returned, None)], keep=point.aux_in_graph))
        (value,) = point.values()
        return (value, point.aux) if has_aux else value, gradients[0] if isinstance(argnums, int) else gradients

    return differentiated


@overload
def grad(f: Callable[P, V], argnums: Literal[0] = 0, has_aux: Literal[False] = False) -> Gradient[P]: ...
@overload
def grad(f: Callable[P, V], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]: ...
def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of `f`, as a function of the same arguments.

    Parameters
    ----------
    f : function
        Of tensors, returning a tensor of shape ``()``; with `has_aux` a pair of it and anything else.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; a sequence gives a tuple of gradients. They are tensors, or
        dicts, lists and tuples of tensors, and so are the gradients.
    has_aux : bool
        Whether `f` returns a pair.

    Returns
    -------
    function
        Of the same arguments, returning the gradient, or ``(gradient, other)`` with `has_aux`. It records as
        `value_and_grad` describes.

    Raises
    ------
    GraphError, DTypeError, TypeError
        When `f` does not return a scalar tensor, or an argument is not a floating-point tensor.

    Examples
    --------
    >>> from micrograd_core import Tensor, grad
    >>> cube = lambda x: x**3
    >>> grad(grad(cube))(Tensor(2.0)).item()
    12.0
    """
    both: Callable[..., tuple[Any, Any]] = value_and_grad(f, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


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
    point = linearized("vjp", f, args, {}, range(len(args)), has_aux)
    value = point.tree(point.values())

    def pull(cotangent: Any) -> tuple[Any, ...]:
        return point.placed(point.pull(pytrees.like(value, cotangent, "vjp: the cotangent")))

    return (value, pull, point.aux) if has_aux else (value, pull)


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
    return _linearized("linearize", f, primals, has_aux)


def _linearized(name: str, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    point = linearized(name, f, primals, {}, range(len(primals)), has_aux)

    def push(*tangents: Any) -> Any:
        return point.tree(point.push(pytrees.like(primals, tangents, f"{name}: the tangents")))

    value = point.tree(point.values())
    return (value, push, point.aux) if has_aux else (value, push)


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
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "jvp: primals and tangents have an entry for each argument; of a single one write jvp(f, (x,), (v,))"
        )
    value, push, *aux = _linearized("jvp", f, tuple(primals), has_aux)
    return value, push(*tangents), *aux


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
    return _jacobians("jacobian", f, argnums, has_aux, forward=False)


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """`jacobian` by forward mode, which is better where there are fewer inputs than outputs.

    `f` runs once; then a batch of as many tangents as an argument has elements is pushed forward, once for each tensor
    among the arguments.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them, returning the like.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; a sequence gives a tuple of results.
    has_aux : bool
        Whether `f` returns a pair, of which the second part is passed on.

    Returns
    -------
    function
        Of the same arguments. The Jacobian of a result of shape `s` by an argument of shape `t` has shape ``(*s, *t)``.

    Raises
    ------
    GraphError, DTypeError, TypeError
        As `jacobian` raises them; complex functions are refused.

    Examples
    --------
    >>> from micrograd_core import Tensor, jacfwd
    >>> jacfwd(lambda x: x[0] * x)(Tensor([2.0, 3.0])).tolist()
    [[4.0, 0.0], [3.0, 2.0]]
    """
    return _jacobians("jacfwd", f, argnums, has_aux, forward=True)


def _jacobians(name: str, f: Any, argnums: int | Sequence[int], has_aux: bool, forward: bool) -> Callable[..., Any]:
    """Products with all rows of an identity matrix: row by row, or `forward` column by column."""
    positions = positions_of(name, argnums)

    def jacobians(*args: Any, **kwargs: Any) -> Any:
        point = linearized(name, f, args, kwargs, positions, has_aux)
        outputs, variables = point.outputs, point.variables
        if any(x.dtype.is_complex for x in (*outputs, *variables)):
            raise DTypeError(f"{name}: a complex function has no single matrix of derivatives; use vjp or jvp")
        if forward:
            rows: Any = zip(*_products(point.push, variables, len(outputs), -1), strict=True)
        else:
            rows = _products(point.pull, outputs, len(variables), 0)
        blocks = [
            [_block(each, y, x) for each, x in zip(row, variables, strict=True)]
            for row, y in zip(rows, outputs, strict=False)
        ]
        found = map(point.placed, blocks)
        result = point.tree([placed[0] for placed in found] if isinstance(argnums, int) else found)
        return (result, point.aux) if has_aux else result

    return jacobians


def _products(multiply: Any, given: Sequence[Tensor], width: int, out_axes: int) -> list[Any]:
    """For each tensor that is given: the products, `width` tensors, with an identity matrix in its place."""
    found = []
    for place, x in enumerate(given):

        def product(row: Tensor, place: int = place) -> list[Tensor]:
            return multiply([row if i == place else None for i in range(len(given))])  # type: ignore[no-any-return]

        batched = vmap(product, out_axes=out_axes, randomness="same")
        found.append(batched(_identity(x)) if x.size else [None] * width)
    return found


def _block(found: Tensor | None, y: Tensor, x: Tensor) -> Tensor:
    shape = (*y.shape, *x.shape)
    return as_gradient(None, x).broadcast_to(shape) if found is None else found.reshape(shape)


def _identity(y: Tensor) -> Tensor:
    """A cotangent or tangent of `y` for each of its elements: 1 there, else 0."""
    numbers = wrap(Tensor, y._kernels.arange(int(y.size), dtype=int64), y._kernels, int64, None)
    diagonal: Tensor = numbers.reshape(-1, 1) == numbers
    return diagonal.astype(y.dtype).reshape(y.size, *y.shape)


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The second derivatives of `f`: the Jacobian of its gradient.

    Parameters
    ----------
    f : function
        Of tensors, returning a tensor of shape ``()``.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; a sequence gives a tuple of tuples of results.
    has_aux : bool
        Whether `f` returns a pair, of which the second part is passed on.

    Returns
    -------
    function
        Of the same arguments. The Hessian by an argument of shape `t` has shape ``(*t, *t)``.

    Raises
    ------
    GraphError, DTypeError, TypeError
        As `jacobian` raises them.

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
        As `vjp` raises them.

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


# ── checked by differences ────────────────────────────────────────────────────────────────────────────────────────


def gradcheck(
    f: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-5, atol: float = 1e-6, rtol: float = 1e-5
) -> bool:
    """Compare the gradients of `f` with finite differences, at every element of every float64 or complex128 input.

    Parameters
    ----------
    f : function
        Of the inputs, returning a floating tensor of any shape.
    inputs : Tensor, or sequence
        Those that are float64 or complex128 tensors and require gradients are varied; the others are passed on as
        they are.
    eps : float
        Half the step of the central difference.
    atol, rtol : float
        ``|analytic - numeric| <= atol + rtol |numeric|``.

    Returns
    -------
    bool
        ``True``.

    Raises
    ------
    GradcheckError
        At the first element that differs; ``.facts`` holds input, element, both numbers.
    DTypeError
        When no input is a float64 or complex128 tensor that requires a gradient: finite differences need the precision.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.gradcheck(lambda x: x.sin(), mg.Tensor([0.5, 1.0], dtype="float64"))
    True
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    varied = _varied(inputs)
    if not varied:
        raise DTypeError(
            "gradcheck varies float64 and complex128 tensors that require gradients; make one with "
            "Tensor(data, dtype='float64')"
        )
    projected = _projected(f)
    with enable_grad():
        start = [x.detach() if i in varied else x for i, x in enumerate(inputs)]
        _, gradients = value_and_grad(projected, varied)(*start)
    for i, gradient in zip(varied, gradients, strict=True):
        x = inputs[i]
        values, expected = x.reshape((-1,)).tolist(), gradient.reshape((-1,)).tolist()
        for position, analytic in enumerate(expected):
            numeric = 0.0
            for direction in (1, 1j) if x.dtype.is_complex else (1,):
                after, before = (
                    projected(*_moved(inputs, i, values, position, step * direction)).item() for step in (eps, -eps)
                )
                numeric += direction * (after - before) / (2 * eps)
            if not abs(analytic - numeric) <= atol + rtol * abs(numeric):
                facts = {"input": i, "shape": x.shape, "element": position, "analytic": analytic, "numeric": numeric}
                raise GradcheckError(**facts, eps=eps, atol=atol, rtol=rtol)
    return True


def gradgradcheck(
    f: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-5, atol: float = 1e-5, rtol: float = 1e-4
) -> bool:
    """Compare the second derivatives of `f` with finite differences: `gradcheck` of its gradient.

    Parameters
    ----------
    f : function
        Of the inputs, returning a floating tensor of any shape.
    inputs : Tensor, or sequence
        Those that are float64 or complex128 tensors and require gradients are varied.
    eps : float
        Half the step of the central difference.
    atol, rtol : float
        ``|analytic - numeric| <= atol + rtol |numeric|``.

    Returns
    -------
    bool
        ``True``.

    Raises
    ------
    GradcheckError
        At the first element that differs.
    DTypeError
        When no input is a float64 or complex128 tensor that requires a gradient.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.gradgradcheck(lambda x: x**3, mg.Tensor([0.5, 1.0], dtype="float64"))
    True
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    varied = _varied(inputs)

    def gradient(*args: Any) -> Tensor:
        fresh = [x * 1.0 if i in varied else x for i, x in enumerate(args)]
        _, gradients = value_and_grad(_projected(f), varied)(*fresh)
        return sum(_real((g * _random(g, seed=i)).sum()) for i, g in enumerate(gradients, 1))  # type: ignore[return-value]

    return gradcheck(gradient, inputs, eps=eps, atol=atol, rtol=rtol)


def _projected(f: Callable[..., Any]) -> Callable[..., Any]:
    """A random projection of the result of `f`: a real number."""
    projection: list[Tensor] = []

    def projected(*args: Any) -> Any:
        out = f(*args)
        if not isinstance(out, Tensor) or not out.dtype.is_floating:
            raise DTypeError(f"gradcheck: the function must return a floating-point tensor; it returned {out!r}")
        if not projection:
            projection.append(_random(out))
        return _real((out * projection[0]).sum())

    return projected


def _varied(inputs: Sequence[Any]) -> list[int]:
    """Positions of the inputs to differentiate by."""
    precise = (float64, complex128)
    return [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad and x.dtype in precise]


def _real(x: Tensor) -> Tensor:
    return apply(TABLE["real"], (x,)) if x.dtype.is_complex else x


def _random(like: Tensor, seed: int = 0) -> Tensor:
    import random

    rng = random.Random(seed)
    values: list[complex] = [rng.uniform(0.5, 1.5) for _ in range(math.prod(like.shape))]
    if like.dtype.is_complex:
        values = [complex(value, rng.uniform(-1.5, -0.5)) for value in values]
    return asarray(values, dtype=like.dtype, device=like.device).reshape(like.shape)


def _moved(inputs: Sequence[Any], which: int, values: list[Any], position: int, step: complex) -> list[Any]:
    """The inputs with one element of one of them moved by `step`; layout and device stay those of contiguous data."""
    moved = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    changed = [*values]
    changed[position] += step
    x = inputs[which]
    moved[which] = asarray(nest(changed, x.shape), dtype=x.dtype, device=x.device)
    return moved
