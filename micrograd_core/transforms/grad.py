"""`grad` and `value_and_grad`: the derivative of a function as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.backward import seed_of
from micrograd_core.transforms.linearized import linearized

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
