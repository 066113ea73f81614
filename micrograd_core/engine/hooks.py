"""Functions that see a gradient on its way, and may replace it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from micrograd_core.engine.apply import apply_single
from micrograd_core.engine.array import BaseTensor, T, storage, wrap
from micrograd_core.engine.graph import FREED, Leaf, made_by, put_before
from micrograd_core.errors import GraphError, ShapeError, TransformError
from micrograd_core.ops import TABLE, Op

Hook = Callable[[Any], Any]
on_leaves = False  # whether any leaf ever had a hook, so that without any nobody has to look


class HookHandle:
    """Adds a function to hooks; `remove`, or the end of a ``with`` block over the handle, takes it away again."""

    __slots__ = ("_hooks", "_key")

    def __init__(self, hooks: dict[object, Any], hook: Callable[..., Any]) -> None:
        self._hooks, self._key = hooks, object()  # a key of its own in every process that a pickle comes to
        hooks[self._key] = hook

    def remove(self) -> None:
        """From now on the hook is not called. Removing it twice is no error."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _seen(k: Any, g: Any, out: Any, x: Any, *, hooks: dict[object, Hook], kind: type[BaseTensor]) -> Any:
    """The cotangent after all hooks."""
    return run(hooks, g) if g.__class__ is kind else run(hooks, wrap(kind, g, k, k.dtype(g), None))._handle


HOOKED = Op(
    "hook",
    "The same tensor; functions see its gradient.",
    tangent=lambda op, k, tangents, out, x, *, hooks, kind: tangents[0],
    gradient=(_seen,),
    gradient_aliases=True,
)


def register_hook(x: BaseTensor, hook: Hook) -> HookHandle:
    """Call `hook` with the gradient of this tensor whenever a sweep has computed it, before it goes on.

    Parameters
    ----------
    hook : function
        Of the gradient, a tensor like this one. What it returns, unless ``None``, takes the gradient's place. For a
        computed tensor that is the sum over all its uses, those before the registration, too; for a leaf, what one
        `backward` adds to ``.grad``.

    Returns
    -------
    HookHandle
        With the method ``remove()``.

    Raises
    ------
    GraphError
        When the tensor does not record, or its graph was freed.

    Examples
    --------
    >>> from micrograd_core import Tensor
    >>> x = Tensor([1.0, 2.0])
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [20.0, 40.0]
    """
    record = x._record
    if record is None and x._kernels.depth:
        raise TransformError(
            "a hook inside vmap sees gradients of a grad(f) that is inside it, too, and this tensor is in no such; "
            "register the hook on what goes into vmap or comes out of it"
        )
    if record is None:
        raise GraphError("a hook is called with gradients, and this tensor records none; set x.requires_grad = True")
    if not record:
        raise GraphError(FREED)
    if record.__class__ is Leaf:
        hooks = {} if record.hooks is None else record.hooks
        hook_leaf(record, hooks)
    else:
        op, _, params, _ = made_by(record)
        hooks = params["hooks"] if op.name == HOOKED.name else {}
        if op.name != HOOKED.name:
            put_before(record, HOOKED, x._kernels, {"hooks": hooks, "kind": x.__class__}, x._handle)
    return HookHandle(hooks, hook)


def hook_leaf(leaf: Leaf, hooks: dict[object, Hook]) -> None:
    """Let a leaf have these hooks, and sweeps look for hooks of leaves."""
    global on_leaves
    on_leaves, leaf.hooks = True, hooks


def conjugate(g: T) -> T:
    """Between cotangents as the sweep carries them and as users see them: the same if real."""
    return apply_single(TABLE["conj"], g) if g.dtype.is_complex else g


def shown(g: T) -> T:
    """A gradient or tangent for users, whose memory may be that of others: whoever writes to it gets a copy."""
    out = wrap(g.__class__, g._handle, g._kernels, g.dtype, g._record)
    storage(out).tracked = True
    return out


def run(hooks: dict[object, Hook], cotangent: T) -> T:
    """What hooks make of a cotangent."""
    g = conjugate(cotangent)
    for hook in tuple(hooks.values()):
        found = hook(shown(g))
        if found is None:
            continue
        if found.__class__ is not g.__class__:
            raise TypeError(f"a hook must return a Tensor or None; it returned {type(found).__name__}")
        if found.shape != g.shape or found.dtype is not g.dtype or found._kernels.root is not g._kernels.root:
            raise ShapeError(
                f"a hook was given a gradient of shape {g.shape}, dtype {g.dtype}, on {g.device}; it returned one of "
                f"shape {found.shape}, dtype {found.dtype}, on {found.device}"
            )
        g = found
    return conjugate(g)


def of_leaf(leaf: Leaf, g: Any) -> Any:
    """What the hooks of a leaf make of its gradient, a tensor that records or a handle: fresh memory again."""
    assert leaf.hooks is not None
    seen = _seen(leaf.kernels, g, None, None, hooks=leaf.hooks, kind=leaf.kind)
    return seen if g.__class__ is leaf.kind else leaf.kernels.copy(seen)
