"""What a tensor is to the engine: its slots, and the memory that several tensors share.

Results are made of the class that the operands have (`T`): nothing here knows of `Tensor`, which has the methods.

A view remembers its origin, one flat tuple::

    (weak reference to its base, op, params, the base's own origin, replaced, depth)

The base's own origin leads further where nobody holds the base any more. The op is ``None`` for a detached tensor.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import ref

from micrograd_core.dtypes import DType
from micrograd_core.engine.graph import Leaf, Version
from micrograd_core.engine.modes import records_at
from micrograd_core.errors import GraphError
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import during, stand_ins
from micrograd_core.support.ownership import has_gil

DEEPEST = 32  # so many origins are kept behind each other
new = object.__new__


class BaseTensor:
    """The slots of a tensor, and what they say."""

    __slots__ = ("__weakref__", "_frozen", "_grad", "_handle", "_kernels", "_origin", "_record", "_storage", "dtype")

    _frozen: bool  # set where gradients were switched off: a parameter that does not learn now
    _grad: Any  # set on leaves only
    _handle: Any
    _kernels: Any
    _origin: Any  # set on views only
    _record: Any
    _storage: Storage | None
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes, as a tuple of int."""
        return tuple(self._handle.shape)

    @property
    def ndim(self) -> int:
        """The number of axes, as an int."""
        return len(self._handle.shape)

    @property
    def device(self) -> Any:
        """The `Device` that the elements are on."""
        return self._kernels.device


T = TypeVar("T", bound=BaseTensor)


def wrap(kind: type[T], handle: Any, kernels: Any, dtype: DType, record: Any) -> T:
    """A tensor of class `kind` around a handle."""
    out = new(kind)
    out._handle = handle  # one by one: packing them into a tuple costs more
    out._kernels = kernels
    out.dtype = dtype
    out._record = record
    out._storage = None
    return out


def unrecorded(x: T) -> T:
    """The same memory outside the graph of its own depth of `vmap`; the graphs below still lead to it."""
    out = wrap(x.__class__, x._handle, x._kernels, x.dtype, None)
    share(x, out)
    return out


def detach(x: T) -> T:
    """Share memory with a tensor outside the graph; inside `vmap`, outside the graphs around it, too.

    Returns
    -------
    Tensor
        A view of this tensor, of its shape and dtype, that records nothing.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, 2.0])
    >>> (x * x).detach().requires_grad
    False
    """
    handle = x._handle if not x._kernels.depth else x._kernels.detach(x._handle)
    out = wrap(x.__class__, handle, x._kernels, x.dtype, None)
    share_view(x, out, None, {})
    return out


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────


class Storage:
    """A piece of memory that several tensors share: each holds the one `Storage`, and nothing else does.

    Made when a tensor is first viewed, or first saved by a record although it records nothing itself.
    """

    __slots__ = ("__weakref__", "_version", "cast", "exported", "replaced", "saved", "tracked")

    def __init__(self, tracked: bool, version: Version | None = None, replaced: int = 0) -> None:
        self.tracked = tracked  # some tensor that shares the memory records gradients
        self.saved = False  # it is a copy in a `state_dict`, where a write would not reach the parameter
        self.replaced = replaced  # how often it became a tensor's data: it may be the base of views no more
        self._version = version  # what records of its present state keep
        self.cast: Any = None  # see `keep_cast`
        self.exported = False  # it is another library's, too, and nobody is told when that writes

    def version(self) -> Version:
        """What a record keeps to notice a write."""
        if self._version is None:
            self._version = Version()
        return self._version

    def written(self) -> None:
        """Tell all records that saved this memory that it has changed."""
        if self._version is not None:
            self._version.stale = True
            self._version = None
        self.cast = None


def storage(tensor: BaseTensor) -> Storage:
    """The storage of a tensor, made if nobody needed it so far."""
    found = tensor._storage
    if found is None:
        found = tensor._storage = Storage(tensor._record is not None)
    return found


def keep_cast(tensor: BaseTensor, handle: Any, dtype: DType, cast: Any, version: Version) -> None:
    """Keep what the handle of a tensor was cast to until its memory is written, unless it was since that version."""
    common = storage(tensor)
    if not common.exported:
        common.cast = handle, dtype, cast
        if version.stale:  # after, and not before: another thread may write meanwhile
            common.cast = None


def cast_of(tensor: BaseTensor, handle: Any, dtype: DType) -> Any:
    """What the handle of a tensor was cast to, if that was kept."""
    common = tensor._storage
    found = None if common is None or common.exported else common.cast
    return found[2] if found and found[0] is handle and found[1] is dtype else None


def share(tensor: BaseTensor, view: BaseTensor) -> None:
    """Let `view` share the memory of `tensor`."""
    common = view._storage = storage(tensor)
    if view._record is not None:
        common.tracked = True


def share_view(base: BaseTensor, view: BaseTensor, op: Any, params: dict[str, Any]) -> None:
    """Let `view`, which `op` made of `base`, share its memory, and remember that."""
    common = base._storage
    if common is None:
        common = base._storage = Storage(base._record is not None)
        before = base._origin = None
    else:
        try:
            before = base._origin
        except AttributeError:  # most tensors are nobody's view: only who is viewed again pays for the slot
            before = base._origin = None
    view._storage = common
    if view._record is not None:
        common.tracked = True
    if before is None or before[5] == DEEPEST:
        view._origin = ref(base), op, params, None, common.replaced, 0
    else:
        view._origin = ref(base), op, params, before, common.replaced, before[5] + 1


def shared_beyond(*tensors: Any) -> bool:
    """Whether a living tensor other than these (or numbers) looks at the memory of the first.

    Each that does holds the storage. These let go of it, for a twin: if it dies, nobody else held it.
    """
    common = tensors[0]._storage
    if common is None:
        return False
    holders = [x for x in tensors if getattr(x, "_storage", None) is common]
    held, twin = ref(common), Storage(common.tracked, common._version, common.replaced)
    twin.exported, twin.saved, twin.cast = common.exported, common.saved, common.cast
    try:
        del common
        for x in holders:
            x._storage = twin
        # without the GIL, what another thread made dies a while later: the garbage collector says who holds it
        return held() is not None and (has_gil() or any(isinstance(x, BaseTensor) for x in gc.get_referrers(held())))
    finally:
        if (common := held()) is not None:
            assign_all([(x, "_storage", common) for x in holders])


def refuse_leaf(x: BaseTensor) -> None:
    """Refuse to write to a leaf that records, while what is computed is recorded."""
    if x._record.__class__ is Leaf and records_at(x._kernels.depth):
        raise GraphError(
            "this tensor is a leaf that records gradients: writing into it would lose what its gradient refers to; "
            "use `with no_grad():` to change its numbers, or write into x.copy(), or make a new tensor (x = x + 1)"
        )


# ── tensors in the place of others ───────────────────────────────────────────────────────────────────────────

HELD = ("_handle", "_kernels", "dtype", "_record", "_storage", "_origin")
"""What a tensor is made of, beside its gradient."""
UNSET = object()


def call_with(tensors: Sequence[Any], others: Sequence[Any], f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function while tensors are what others are; afterwards they are as before, also after an error.

    What computes the function once more, as `checkpoint` does, finds in `stand_ins` which were in whose place.
    """
    for x in others:
        storage(x)  # so that whoever stands for it shares it
    before, new = ([[getattr(x, name, UNSET) for name in HELD] for x in each] for each in (tensors, others))
    with during(stand_ins, (*stand_ins.get(), *zip(tensors, others, strict=True))):
        try:
            _become(tensors, new)
            return f(*args, **kwargs)
        finally:
            _become(tensors, before)


def _become(tensors: Sequence[Any], held: Sequence[list[Any]]) -> None:
    for x, values in zip(tensors, held, strict=True):
        for name, value in zip(HELD, values, strict=True):
            if value is not UNSET:
                object.__setattr__(x, name, value)
            elif hasattr(x, name):
                object.__delattr__(x, name)
