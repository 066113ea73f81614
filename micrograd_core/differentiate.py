"""What users call to differentiate: `backward`, `grad` and `value_and_grad`, on top of `autograd.sweep`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from micrograd_core import dispatch
from micrograd_core.autograd import Leaf, count_consumers, enable_grad, in_order, is_grad_enabled, sweep
from micrograd_core.dispatch import Recorded, wrap
from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, ShapeError
from micrograd_core.ops import Op

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor

_deposit = threading.Lock()  # two threads may sweep graphs that share leaves


def backward(tensor: Tensor, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """Do the work of `Tensor.backward`; see there."""
    record = tensor._record
    if record is None:
        raise GraphError(_nothing_recorded(tensor))
    seed = (
        _seed(tensor, gradient) if gradient is not None or tensor._handle.shape else tensor._kernels.one(tensor.dtype)
    )
    if create_graph:  # a cotangent that records stays in the graph
        seed = gradient if isinstance(gradient, dispatch.Tensor) else _as_tensor(seed, tensor)
    if record.__class__ is Leaf:
        found = [(record, seed if create_graph else tensor._kernels.copy(seed))]
    else:
        retain = create_graph if retain_graph is None else retain_graph
        found = sweep(record, seed, retain, Recorded.of if create_graph else None)
    with _deposit:
        for leaf, g in found:
            before = leaf.grad
            if create_graph:
                leaf.grad = g if before is None else before + g
            else:
                handle = g if before is None else leaf.kernels.add(before._handle, g)
                leaf.grad = wrap(handle, leaf.kernels, leaf.dtype, None)


def _seed(tensor: Tensor, gradient: Any) -> Any:
    """The handle of the cotangent to start from."""
    kernels, shape = tensor._kernels, tensor._handle.shape
    if gradient is None:
        if shape:
            raise GraphError(
                f"backward() starts from a scalar; this tensor has shape {tuple(shape)}. "
                "Reduce it first, for example with .sum(), or pass gradient= of the same shape"
            )
        return kernels.one(tensor.dtype)
    if not isinstance(gradient, dispatch.Tensor):
        gradient = dispatch.asarray(gradient, dtype=tensor.dtype, device=kernels.device)
    if gradient.shape != shape:
        raise ShapeError(
            f"backward: gradient has shape {gradient.shape}, the tensor {tuple(shape)}; they must be equal"
        )
    if gradient._kernels is not kernels:
        raise DeviceMismatch("backward", [(tensor.device, shape), (gradient.device, shape)])
    return (gradient if gradient.dtype is tensor.dtype else gradient.astype(tensor.dtype))._handle


def _nothing_recorded(tensor: Tensor) -> str:
    if not tensor.dtype.is_floating:
        return f"a {tensor.dtype} tensor has no gradient; only floating-point tensors record"
    return (
        "nothing was recorded for this tensor: none of its operands required a gradient, or it was made under "
        "no_grad(); make the operands with Tensor(data) or set x.requires_grad = True before computing"
    )


# ── functional ───────────────────────────────────────────────────────────────────────────────────────────────

IDENTITY = Op("identity", "The same tensor, as a new node.", gradient=(lambda k, g, out, x: g,), gradient_aliases=True)


def value_and_grad(f: Callable[..., Tensor], argnums: int | Sequence[int] = 0) -> Callable[..., tuple[Tensor, Any]]:
    """The function ``(*args) -> (f(*args), gradient of f with respect to args[argnums])``.

    Parameters
    ----------
    f : function
        Of tensors, returning a tensor of shape ``()``.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; a sequence gives a tuple of gradients.

    Returns
    -------
    function
        Leaves ``.grad`` of all tensors alone. Its results record themselves where grad mode is on and they depend on
        tensors that do, so that nesting gives higher derivatives.

    Raises
    ------
    GraphError, DTypeError, TypeError
        When `f` does not return a scalar tensor, or an argument is not a floating-point tensor.
    """
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def differentiated(*args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        outer = is_grad_enabled()
        variables = [_variable(args, position) for position in positions]
        replaced = list(args)
        for position, variable in zip(positions, variables, strict=True):
            replaced[position] = variable
        with enable_grad():
            value = f(*replaced, **kwargs)
            if not isinstance(value, dispatch.Tensor):
                raise TypeError(f"grad: the function must return a Tensor; it returned {type(value).__name__}")
            found, recorded = _gradients(value, {id(variable._record) for variable in variables}, outer)
        gradients = tuple(_as_tensor(found.get(id(variable._record)), variable) for variable in variables)
        return value if recorded else value.detach(), gradients[0] if isinstance(argnums, int) else gradients

    return differentiated


def _gradients(value: Tensor, wanted: set[int], outer: bool) -> tuple[dict[int, Any], bool]:
    """Cotangents of the nodes `wanted` by identity; and whether they record, being part of a larger graph."""
    seed, record = _seed(value, None), value._record
    if record.__class__ is Leaf:  # the function returned its argument
        return {id(record): value._kernels.copy(seed)}, False
    if record is None:
        return {}, False
    order = in_order(record, count_consumers(record))
    leaves = (parent for each in order for parent in each[4::2] if parent.__class__ is Leaf)
    create = outer and any(id(leaf) not in wanted for leaf in leaves)
    if create:
        results = sweep(record, _as_tensor(seed, value), retain=True, recorded=Recorded.of, targets=wanted)
    else:
        results = sweep(record, seed, retain=False, targets=wanted)
    return {id(node): g for node, g in results}, create


def grad(f: Callable[..., Tensor], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The gradient of `f`, as a function of the same arguments. See `value_and_grad`.

    Examples
    --------
    >>> from micrograd_core import Tensor, grad
    >>> cube = lambda x: x**3
    >>> grad(grad(cube))(Tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(f, argnums)
    return lambda *args, **kwargs: both(*args, **kwargs)[1]


def _variable(args: tuple[Any, ...], position: int) -> Tensor:
    """A new node for one argument: a leaf, or an identity in the graph the argument is already part of."""
    if not -len(args) <= position < len(args):
        raise TypeError(f"grad: argnums={position} but the function was called with {len(args)} positional arguments")
    x = args[position]
    if not isinstance(x, dispatch.Tensor):
        raise TypeError(f"grad: argument {position} must be a Tensor to differentiate by; got {type(x).__name__}")
    if not x.dtype.is_floating:
        raise DTypeError(f"grad: argument {position} is {x.dtype}; only floating-point tensors have gradients")
    kernels, handle = x._kernels, x._handle
    record: Any = Leaf(kernels, x.dtype)
    if x._record is not None and is_grad_enabled():
        record = [IDENTITY, kernels, {}, handle, x._record, handle]
    return wrap(handle, kernels, x.dtype, record)


def _as_tensor(g: Any, like: Tensor) -> Tensor:
    """A cotangent of `like` as a tensor; ``None``, because the value does not depend on it, is zero."""
    if isinstance(g, dispatch.Tensor):
        return g
    kernels = like._kernels
    if g is None:
        g = kernels.full(shape=like.shape, fill_value=0, dtype=like.dtype)
    return wrap(g, kernels, like.dtype, None)
