"""Reverse-mode differentiation: the recorded graph, and the sweep over it.

A tensor's record is the graph node that made it, one flat list::

    [op, kernels, params, out, parent, operand, parent, operand, ...]

`out` and the operands are handles (or Python scalars), so a node never refers to a `Tensor`, and reference counting
alone frees a graph. A parent is

- ``None``: a scalar, or nothing to differentiate;
- a `Version`: an operand that records nothing, which must not be written to before the sweep;
- a `Leaf`: where a gradient ends up;
- a list: the record that made the operand.

A record that a sweep has consumed is emptied, which frees what it held even while the user keeps its tensor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, ShapeError
from micrograd_core.ops import Op, unbroadcast

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor

Record = list[Any]

# ── grad mode ────────────────────────────────────────────────────────────────────────────────────────────────

_mode: ContextVar[bool] = ContextVar("micrograd_grad_mode", default=True)
is_grad_enabled = _mode.get


class _GradMode(ContextDecorator):
    """Sets the grad mode of this context; threads and asyncio tasks do not see each other's."""

    enabled: bool

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def _recreate_cm(self) -> _GradMode:  # a decorated function enters a fresh one at each call
        return type(self)()

    def __enter__(self) -> _GradMode:
        self._tokens.append(_mode.set(self.enabled))
        return self

    def __exit__(self, *exception: object) -> None:
        _mode.reset(self._tokens.pop())


class no_grad(_GradMode):  # noqa: N801
    """Within ``with no_grad():`` (or a function decorated by ``@no_grad()``) nothing is recorded."""

    enabled = False


class enable_grad(_GradMode):  # noqa: N801
    """The opposite of `no_grad`, for use inside it."""

    enabled = True


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


class Leaf:
    """Where a gradient ends up: a tensor that records and was not computed."""

    __slots__ = ("grad", "kernels")

    def __init__(self, kernels: Any) -> None:
        self.kernels = kernels
        self.grad: Tensor | None = None


class Version:
    """The state of a piece of memory between two writes. A write makes it stale, and hands out a new one."""

    __slots__ = ("stale",)

    def __init__(self) -> None:
        self.stale = False


def topological(root: Record) -> list[Record]:
    """The records that lead to `root`, every one before those that made its operands.

    Raises
    ------
    GraphError
        When one was consumed by an earlier sweep, or an operand was written to since.
    """
    if not root:
        raise GraphError(FREED)
    consumers = {id(root): 0}
    stack = [root]
    while stack:
        record = stack.pop()
        for parent in record[4::2]:
            kind = parent.__class__
            if kind is list:
                key = id(parent)
                if key in consumers:
                    consumers[key] += 1
                elif parent:
                    consumers[key] = 1
                    stack.append(parent)
                else:
                    raise GraphError(FREED)
            elif kind is Version and parent.stale:
                raise GraphError(
                    f"an operand of {record[0].name} (result of shape {tuple(record[3].shape)} on {record[1].device}) "
                    "was written in place after it was used, so its gradient can no longer be computed; "
                    "write to a .copy(), or write after backward()"
                )
    order = []
    ready = [root]
    while ready:
        record = ready.pop()
        order.append(record)
        for parent in record[4::2]:
            if parent.__class__ is list:
                key = id(parent)
                consumers[key] -= 1
                if not consumers[key]:
                    ready.append(parent)
    return order


FREED = (
    "this graph was already swept, and freed; to call backward() on it more than once, "
    "pass retain_graph=True to all calls but the last"
)


def _leads_to(order: list[Record], targets: set[int]) -> set[int]:
    """Identities of the records in `order` from which a gradient can reach a target."""
    needed = set(targets)
    for record in reversed(order):
        if any(id(parent) in needed for parent in record[4::2]):
            needed.add(id(record))
    return needed


def sweep(
    order: list[Record],
    cotangent: Any,
    *,
    retain: bool,
    recorded: Callable[[Any], Any] | None = None,
    only: set[int] | None = None,
) -> list[tuple[Any, Any]]:
    """Carry `cotangent` from the first record of `order` back to the leaves.

    Parameters
    ----------
    order : list of records
        From `topological`; consumed.
    cotangent : handle, or Tensor with `recorded`
        Of the first record's result.
    retain : bool
        Leave the records as they are; otherwise each is emptied as soon as it is done with.
    recorded : function, optional
        From kernels to the recorded operations on them: the sweep then computes on tensors and can be differentiated.
    only : set of int, optional
        Identities of the nodes whose cotangents are wanted; by default those of all leaves.

    Returns
    -------
    list of (node, cotangent)
        The cotangents own their memory.
    """
    needed = None if only is None else _leads_to(order, only)
    cotangents = {id(order[0]): cotangent}
    results: dict[int, list[Any]] = {}
    order.reverse()
    while order:
        record = order.pop()
        g = cotangents.pop(id(record), None)
        if g is None:
            if not retain:
                record.clear()
            continue
        if only is not None and id(record) in only:
            results[id(record)] = [record, g, True, record[1] if recorded is None else recorded(record[1])]
            continue
        op, k, params, out = record[:4]
        parents, operands = record[4::2], record[5::2]
        if recorded is not None:
            k = recorded(k)
            out = k.lift(out, record)
            operands = [k.lift(operand, parent) for operand, parent in zip(operands, parents, strict=True)]
        rules = op.gradient
        if rules.__class__ is not tuple:
            rules = [rules(position) for position in range(len(parents))]
        for parent, rule, operand in zip(parents, rules, operands, strict=True):
            kind = parent.__class__
            if (
                (kind is not list and kind is not Leaf)
                or rule is None
                or (needed is not None and id(parent) not in needed)
            ):
                continue
            d = rule(k, g, out, *operands, **params)
            aliased = op.gradient_aliases
            if d.shape != operand.shape:
                d = unbroadcast(k, d, operand.shape)
                aliased = False
            key = id(parent)
            if kind is list:
                before = cotangents.get(key)
                cotangents[key] = d if before is None else _add(before, d, parent[1], recorded)
            elif key in results:
                results[key][1:3] = _add(results[key][1], d, parent.kernels, recorded), False
            else:
                results[key] = [parent, d, aliased, parent.kernels if recorded is None else recorded(parent.kernels)]
        if not retain:
            record.clear()
    return [(node, k.copy(g) if aliased else g) for node, g, aliased, k in results.values()]


def _add(a: Any, b: Any, kernels: Any, recorded: Callable[[Any], Any] | None) -> Any:
    return (kernels if recorded is None else recorded(kernels)).add(a, b)


# ── backward ─────────────────────────────────────────────────────────────────────────────────────────────────

_deposit = threading.Lock()  # two threads may sweep graphs that share leaves


def backward(
    tensor: Tensor, gradient: Any = None, *, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """The body of `Tensor.backward`; see there."""
    from micrograd_core.dispatch import Recorded, wrap

    record = tensor._record
    if record is None:
        raise GraphError(_nothing_recorded(tensor))
    kernels = tensor._kernels
    recorded = Recorded.of if create_graph else None
    seed: Any = _seed(tensor, gradient)
    if recorded is None:
        seed = seed._handle
    if record.__class__ is Leaf:
        found = [(record, kernels.copy(seed) if recorded is None else seed)]
    else:
        found = sweep(
            topological(record), seed, retain=create_graph if retain_graph is None else retain_graph, recorded=recorded
        )
    with _deposit:
        for leaf, g in found:
            before = leaf.grad
            if recorded is not None:
                leaf.grad = g if before is None else before + g
            else:
                k = leaf.kernels
                handle = g if before is None else k.add(before._handle, g)
                leaf.grad = wrap(handle, k, k.dtype(handle), None)


def _seed(tensor: Tensor, gradient: Any) -> Any:
    from micrograd_core.dispatch import wrap
    from micrograd_core.tensor import Tensor, asarray

    kernels, shape = tensor._kernels, tensor.shape
    if gradient is None:
        if shape:
            raise GraphError(
                f"backward() starts from a scalar; this tensor has shape {shape}. "
                "Reduce it first, for example with .sum(), or pass gradient= of the same shape"
            )
        return wrap(kernels.one(tensor.dtype), kernels, tensor.dtype, None)
    if not isinstance(gradient, Tensor):
        gradient = asarray(gradient, dtype=tensor.dtype, device=kernels.device)
    if gradient.shape != shape:
        raise ShapeError(f"backward: gradient has shape {gradient.shape}, the tensor has {shape}; they must be equal")
    if gradient._kernels is not kernels:
        raise DeviceMismatch("backward", [(tensor.device, shape), (gradient.device, shape)])
    return gradient if gradient.dtype is tensor.dtype else gradient.astype(tensor.dtype)


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
        from micrograd_core.dispatch import Recorded
        from micrograd_core.tensor import Tensor

        outer = is_grad_enabled()
        variables = [_variable(f, args, position) for position in positions]
        replaced = list(args)
        for position, variable in zip(positions, variables, strict=True):
            replaced[position] = variable
        with enable_grad():
            value = f(*replaced, **kwargs)
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: the function must return a Tensor; it returned {type(value).__name__}")
            nodes = [variable._record for variable in variables]
            found: dict[int, Any] = {}
            create = False
            if value._record.__class__ is list:
                order = topological(value._record)
                wanted = set(map(id, nodes))
                create = outer and any(
                    parent.__class__ is Leaf and id(parent) not in wanted for record in order for parent in record[4::2]
                )
                seed: Any = _seed(value, None)
                recorded = Recorded.of if create else None
                results = sweep(order, seed if create else seed._handle, retain=create, recorded=recorded, only=wanted)
                found = {id(node): g for node, g in results}
            elif value._record is not None:  # the function returned its argument
                found = {id(value._record): _seed(value, None)._handle}
        gradients = tuple(_as_tensor(found.get(id(variable._record)), variable) for variable in variables)
        return value if create else value.detach(), gradients[0] if isinstance(argnums, int) else gradients

    return differentiated


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


def _variable(f: Any, args: tuple[Any, ...], position: int) -> Tensor:
    """A new node for one argument: a leaf, or an identity in the graph the argument is already part of."""
    from micrograd_core.dispatch import wrap
    from micrograd_core.tensor import Tensor

    if not -len(args) <= position < len(args):
        raise TypeError(f"grad: argnums={position} but the function was called with {len(args)} positional arguments")
    x = args[position]
    if not isinstance(x, Tensor):
        raise TypeError(f"grad: argument {position} must be a Tensor to differentiate by; got {type(x).__name__}")
    if not x.dtype.is_floating:
        raise DTypeError(f"grad: argument {position} is {x.dtype}; only floating-point tensors have gradients")
    k = x._kernels
    record: Any = (
        Leaf(k) if x._record is None or not is_grad_enabled() else [IDENTITY, k, {}, x._handle, x._record, x._handle]
    )
    return wrap(x._handle, k, x.dtype, record)


def _as_tensor(g: Any, variable: Tensor) -> Tensor:
    from micrograd_core.dispatch import wrap
    from micrograd_core.tensor import Tensor

    if isinstance(g, Tensor):
        return g
    k = variable._kernels
    if g is None:  # the value does not depend on it
        g = k.full(shape=variable.shape, fill_value=0, dtype=variable.dtype)
    return wrap(g, k, variable.dtype, None)
