"""Reverse-mode differentiation: the recorded graph, and the sweep over it.

A tensor's record is the graph node that made it, one flat list::

    [op, kernels, params, out, parent, operand, parent, operand, ...]

`out` and the operands are handles (or Python scalars), so a node never refers to a `Tensor`, and reference counting
alone frees a graph. A parent is

- ``None``: a scalar, or nothing to differentiate;
- a `Version`: an operand that records nothing, which must not be written to before the sweep;
- a `Leaf`: where a gradient ends up;
- a list: the record that made the operand.

An operation with several results has one record, whose `out` is a `Parts` of handles; each result is a record over it
that says which part it is. The cotangent of such a record is a `Parts` too, with ``None`` for what nobody used.

A record that a sweep has consumed is emptied, which frees what it held even while the user keeps its tensor.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from micrograd_core.amp import autocast_dtype, suspended
from micrograd_core.amp import contexts as autocasts
from micrograd_core.errors import GraphError, MicrogradError, OutOfMemory, caused
from micrograd_core.modes import during
from micrograd_core.ops import unbroadcast

if TYPE_CHECKING:
    from micrograd_core.tensor import Tensor

Record = list[Any]

# ── grad mode ────────────────────────────────────────────────────────────────────────────────────────────────

_mode: ContextVar[Any] = ContextVar("micrograd_grad_mode", default=True)
"""Whether operations record: True or False everywhere, or a tuple with one bool for each depth of `vmap`; what is
deeper is as the last. A sweep inside `vmap` is not to be recorded at its own depth, and is to be at those below, whose
graphs go through it."""
grad_mode = _mode.get


def is_grad_enabled() -> bool:
    """Whether what is computed from tensors that record is recorded, in this context."""
    mode = grad_mode()
    return mode if mode.__class__ is bool else mode[-1]


def records_at(depth: int) -> bool:
    """Whether operations on tensors of this depth of `vmap` are recorded."""
    mode = grad_mode()
    return mode if mode.__class__ is bool else mode[min(depth, len(mode) - 1)]


def recording(enabled: bool, depth: int) -> during:
    """Within ``with recording(enabled, depth):`` operations of that depth are recorded or not; below it as before."""
    mode = grad_mode()
    modes = (mode,) if mode.__class__ is bool else mode
    modes += modes[-1:] * (depth + 1 - len(modes))
    modes = (*modes[:depth], enabled, *modes[depth + 1 :])
    return during(_mode, enabled if all(each is enabled for each in modes) else modes)


_SUSPENDS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class _GradMode(during):
    """Sets the grad mode of this context, at all depths; threads and asyncio tasks do not see each other's."""

    enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()  # type: ignore[misc]
        return mode(function)  # used as a decorator without parentheses

    def __init__(self) -> None:
        super().__init__(_mode, self.enabled)

    def __call__(self, function: Any) -> Any:
        """Decorate a function."""
        if function.__code__.co_flags & _SUSPENDS:
            raise TypeError(
                f"{type(self).__name__}: {function.__name__} is a generator or a coroutine, which a decorator does not "
                f"cover; write `with {type(self).__name__}():` inside it"
            )
        return super().__call__(function)


class no_grad(_GradMode):  # noqa: N801
    """Within ``with no_grad():`` (or a function decorated by ``@no_grad``) nothing is recorded."""

    enabled = False


class enable_grad(_GradMode):  # noqa: N801
    """The opposite of `no_grad`, for use inside it."""

    enabled = True


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


class Leaf:
    """Where a gradient ends up: a tensor that records and was not computed.

    The tensor holds its leaf and its gradient, the leaf refers back weakly: a gradient that records (`create_graph`)
    leads to the leaf, and must not keep itself alive.
    """

    __slots__ = ("hooks", "kernels", "owner", "values")

    def __init__(self, owner: Tensor) -> None:
        self.kernels = owner._kernels
        self.hooks: dict[object, Any] | None = None  # see `micrograd_core.hooks`
        self.owner: Callable[[], Tensor | None] = weakref.ref(owner)
        self.values: Any = None

    @classmethod
    def of_values(cls, kernels: Any, values: Any) -> Leaf:
        """Where a gradient leaves the tensors, and goes on through scalar Values."""
        leaf = object.__new__(cls)
        leaf.kernels, leaf.hooks, leaf.owner, leaf.values = kernels, None, _nobody, values
        return leaf


def _nobody() -> None:
    """The owner of a leaf of Values."""


class Version:
    """The state of a piece of memory between two writes. A write makes it stale, and hands out a new one."""

    __slots__ = ("stale",)

    def __init__(self) -> None:
        self.stale = False


class Parts(tuple[Any, ...]):
    """The results of one operation, or their cotangents, as the sweep carries them: like one array with a shape."""

    shape: tuple[Any, ...]

    def __new__(cls, parts: Iterable[Any], shape: tuple[Any, ...] | None = None) -> Parts:
        """From handles or tensors; cotangents, some of them ``None``, are given the `shape` of what they belong to."""
        made = super().__new__(cls, parts)
        made.shape = tuple(tuple(part.shape) for part in made) if shape is None else shape
        return made

    def plus(self, other: Parts, add: Callable[[Any, Any], Any]) -> Parts:
        """The sum, part by part."""
        pairs = zip(self, other, strict=True)
        return Parts((y if x is None else x if y is None else add(x, y) for x, y in pairs), self.shape)


FREED = (
    "this graph was already swept, and freed; to call backward() on it more than once, "
    "pass retain_graph=True to all calls but the last"
)


def count_consumers(root: Record, ends: Container[int] = ()) -> dict[int, int]:
    """How many records that lead to `root` use the result of each, by identity. Nobody looks beyond `ends`.

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
                    if key not in ends:
                        stack.append(parent)
                else:
                    raise GraphError(FREED)
            elif kind is Version and parent.stale:
                raise GraphError(
                    f"an operand of {record[0].name} (result of shape {tuple(record[3].shape)} on {record[1].device}) "
                    "was written in place after it was used, so its gradient can no longer be computed; "
                    "write to a .copy(), or write after backward()"
                )
    return consumers


def in_order(root: Record, consumers: dict[int, int], ends: Container[int] = ()) -> list[Record]:
    """The records that lead to `root`, each before those that made its operands; not beyond `ends`."""
    waiting = dict(consumers)
    order, ready = [], [root]
    while ready:
        record = ready.pop()
        order.append(record)
        if id(record) in ends:
            continue
        for parent in record[4::2]:
            if parent.__class__ is list:
                left = waiting[id(parent)] = waiting.get(id(parent), 1) - 1
                if not left:
                    ready.append(parent)
    return order


def _leading_to(targets: set[int], order: list[Record]) -> set[int]:
    """Identities of the nodes from which a gradient can reach a target."""
    needed = set(targets)
    for record in reversed(order):
        if any(id(parent) in needed for parent in record[4::2]):
            needed.add(id(record))
    return needed


def sweep(
    root: Record,
    cotangent: Any,
    retain: bool,
    recorded: Callable[[Any], Any] | None = None,
    targets: set[int] | None = None,
) -> list[tuple[Any, Any]]:
    """Carry `cotangent` from `root` back to the leaves. Every record is visited once, after all that used its result.

    Parameters
    ----------
    root : record
    cotangent : handle, or Tensor with `recorded`
        Of the result of `root`.
    retain : bool
        Leave the records as they are; otherwise each is emptied as soon as it is done with.
    recorded : function, optional
        From kernels to the recorded operations on them: the sweep then computes on tensors and can be differentiated.
    targets : set of int, optional
        Identities of the nodes whose cotangents are wanted; by default those of all leaves.

    Returns
    -------
    list of (node, cotangent)
        The cotangents own their memory.

    Raises
    ------
    GraphError
        From `count_consumers`, before anything was computed or freed.
    """
    if autocasts and autocast_dtype() is not None:  # rules compute in the dtypes of what was recorded
        with suspended():
            return sweep(root, cotangent, retain, recorded, targets)
    if targets is None:
        waiting, needed = count_consumers(root), None
    else:
        waiting = count_consumers(root, targets)
        needed = _leading_to(targets, in_order(root, waiting, targets))
    cotangents = {id(root): cotangent}
    ends: dict[int, Any] = {}  # leaves and targets reached, by identity
    aliased: set[int] = set()  # those of them whose cotangent is, or views, that of another node
    ready = [root]
    while ready:
        record = ready.pop()
        if not record:  # by a hook or a signal handler, meanwhile
            raise GraphError(FREED)
        if targets is not None and id(record) in targets:
            ends[id(record)] = record
            aliased.add(id(record))
            continue
        g = cotangents.pop(id(record), None)
        op, k, params, out, *links = record  # at once: a hook that is registered meanwhile moves the node
        parents, saved = links[::2], links[1::2]
        operands = saved
        if recorded is not None:
            k = recorded(k)
            out = k.lift(out, record)
            operands = list(map(k.lift, saved, parents))
        rules = op.gradient if op.gradient.__class__ is tuple else map(op.gradient, range(len(operands)))
        position = -1
        for rule in rules:
            position += 1
            parent = parents[position]
            kind = parent.__class__
            if kind is list:
                key = id(parent)
                if key not in waiting:  # a hook was registered meanwhile, and its node moved one place back
                    waiting[key] = 1
                    if needed is not None:
                        needed.add(key)
                if waiting[key] == 1:
                    ready.append(parent)
                else:
                    waiting[key] -= 1
            elif kind is Leaf:
                key = id(parent)
            else:
                continue
            if g is None or rule is None or (needed is not None and key not in needed):
                continue
            try:
                d = rule(k, g, out, *operands, **params) if params else rule(k, g, out, *operands)
            except Exception as error:
                raise _explain(error, op, record[1])
            if kind is Leaf and key not in ends:
                ends[key] = parent
                if op.gradient_aliases and position in op.gradient_aliases:
                    aliased.add(key)
            if d.shape != saved[position].shape:
                d = unbroadcast(k, d, saved[position].shape)
                aliased.discard(key)
            if key in cotangents:
                owner = parent[1] if kind is list else parent.kernels
                add = (owner if recorded is None else recorded(owner)).add
                d = cotangents[key].plus(d, add) if d.__class__ is Parts else add(cotangents[key], d)
                aliased.discard(key)
            cotangents[key] = d
        if not retain:
            record.clear()
    found = []
    for key, end in ends.items():
        g = cotangents.get(key)
        if g is not None:
            found.append((end, _owned(end, g, recorded) if key in aliased else g))
    return found


def push(
    root: Record, tangents: dict[int, Any], transposed: Callable[..., Any], recorded: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Carry tangents forward to the operands of `root`. Every record is visited once, after those before it.

    Parameters
    ----------
    root : record
        Its operands are what is wanted; it is not computed itself.
    tangents : dict of int to handle, or to Tensor with `recorded`
        Identity of a node to its tangent.
    transposed : function
        Does what `Op.tangent` does, for operations that have only a gradient.
    recorded : function, optional
        As for `sweep`.

    Returns
    -------
    list
        The tangents, ``None`` for zero; they own their memory. Records are left as they are.

    Raises
    ------
    GraphError
        From `count_consumers`.
    """
    if autocasts and autocast_dtype() is not None:
        with suspended():
            return push(root, tangents, transposed, recorded)
    starts = set(tangents)
    waiting = count_consumers(root, starts)
    order = in_order(root, waiting, starts)
    needed, carried = _leading_to(starts, order), dict(tangents)
    fresh: set[int] = set()  # nodes whose tangent is nobody else's memory
    for record in reversed(order[1:]):
        key = id(record)
        if key in starts or key not in needed:
            continue
        op, k, params, out = record[0], record[1], record[2], record[3]
        parents, operands = record[4::2], record[5::2]
        given = [carried.get(id(parent)) for parent in parents]
        for parent in parents:
            if parent.__class__ is list:
                waiting[id(parent)] -= 1
                if not waiting[id(parent)]:  # nobody else asks for its tangent
                    carried.pop(id(parent), None)
        if all(t is None for t in given):
            continue
        if recorded is not None:
            k = recorded(k)
            out = k.lift(out, record)
            operands = list(map(k.lift, operands, parents))
        rule = op.tangent or transposed
        try:
            d = rule(op, k, given, out, *operands, **params)
        except Exception as error:
            raise _explain(error, op, record[1])
        if d is None:
            continue
        if d.shape != out.shape:
            d = k.broadcast_to(d, shape=out.shape)
        elif not op.view and not op.gradient_aliases:
            fresh.add(key)
        carried[key] = d
    found = []
    for end in root[4::2]:
        t = carried.get(id(end))
        found.append(t if t is None or id(end) in fresh else _owned(end, t, recorded))
        fresh.discard(id(end))  # it may be there twice
    return found


def _explain(error: Exception, op: Any, kernels: Any) -> Exception:
    """The error to raise when a rule's kernel refused; it names its cause itself, see `dispatch.explain`."""
    if OutOfMemory.meant_by(error) and not isinstance(error, MicrogradError):
        error = caused(OutOfMemory.on(kernels), error)
    error.add_note(f"in the gradient of {op.name} on {kernels.device}; the graph is partly consumed: compute it again")
    return error


def _owned(end: Any, g: Any, recorded: Callable[[Any], Any] | None) -> Any:
    """A copy of a cotangent that may share memory with another."""
    kernels = end.kernels if end.__class__ is Leaf else end[1]
    return (kernels if recorded is None else recorded(kernels)).copy(g)
