"""`vmap`: a function of single examples as a function of batches, and what operations do to batches: one more axis.

Inside a function under `vmap` a tensor's handle is a `Batched`: a tensor of the level below with the batch in front, of
which only the shape without it shows. Its kernel table, a `BatchTable`, says what each operation does to such handles.
Everything else (promotion, recording, sweeps, writes) works as on any device: gradients inside and outside `vmap`
compose.

What an operation does, its record says, or it follows from that (see `_rule`); otherwise the operation's composition is
run on batches, and where there is none, a loop, with one warning that names the operation.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import DType
from micrograd_core.engine.apply import Recorded, apply_single, create
from micrograd_core.engine.array import wrap
from micrograd_core.errors import ShapeError, TransformError
from micrograd_core.layout import Layout, Shape, resolve_axis
from micrograd_core.ops import TABLE, Op, batching as rules
from micrograd_core.ops.arguments import advising
from micrograd_core.ops.batching import along_axis, elementwise
from micrograd_core.ops.shared import chosen
from micrograd_core.support import pytrees
from micrograd_core.support.context import depth, during, levels
from micrograd_core.support.warning import warn


class Level:
    """One call of a function under `vmap`: the length of its batch, and what random numbers do in it."""

    __slots__ = ("randomness", "size")

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size, self.randomness = size, randomness

    def table(self, root: Any, depth: int) -> BatchTable:
        """The kernel table of tensors at the depth that this call is at."""
        return BatchTable.over(root, depth)


class Batched:
    """A handle: `value` with the batch of `level` as its first axis, or without one (``None``): the same for all."""

    __slots__ = ("dtype", "level", "shape", "value")

    def __init__(self, value: Tensor, level: Level | None) -> None:
        self.value, self.level, self.dtype = value, level, value.dtype
        self.shape: Shape = value.shape if level is None else value.shape[1:]


class BatchTable:
    """What `Kernels` is to a device, for the tensors of one depth of `vmap` on it."""

    def __init__(self, root: Any, depth: int) -> None:
        self.root, self.depth, self.device, self.backend = root, depth, root.device, root.backend

    @classmethod
    def over(cls, root: Any, depth: int) -> BatchTable:
        """The table of a device's kernels, made once for each depth."""
        tables: dict[int, BatchTable] = root.__dict__.setdefault("batched", {})
        if depth not in tables:
            tables[depth] = cls(root, depth)
        return tables[depth]

    def __getattr__(self, name: str) -> Any:
        op = TABLE.get(name)
        if name in ("constant", "upload", "one"):  # the same for the whole batch
            function = lambda *given: self.plain(getattr(self.root, name)(*given))  # noqa: E731
        elif op is None:
            return getattr(self.root, name)
        else:
            function = partial(_run, op, _rule(op), self)
        setattr(self, name, function)
        return function

    @property
    def below(self) -> Any:
        """The table of the tensors that these handles hold."""
        return self.root if self.depth == 1 else BatchTable.over(self.root, self.depth - 1)

    def lift(self, x: Tensor) -> Tensor:
        """A tensor of a lower level as one of this level, the same for the whole batch.

        A call of `vmap` that a derivative goes back into may be at a greater depth than it was: see `reentered`.
        """
        level = x._handle.level if x._kernels.depth else None
        place = x._kernels.depth if level is None else _place_of(level, "vmap")
        if place != x._kernels.depth:
            x = inside(x._handle.value, level, BatchTable.over(self.root, place))
        return x if place == self.depth else inside(x, None, self)

    def beside(self, kernels: Any) -> BatchTable:
        """The table of this depth on the device of `kernels`."""
        return BatchTable.over(kernels.root, self.depth)

    def plain(self, handle: Any) -> Batched:
        """A handle of the device itself, the same for the whole batch."""
        return Batched(wrap(Tensor, handle, self.root, self.root.dtype(handle), None), None)

    # what `Kernels` has beside the table: see there

    def dtype(self, x: Batched) -> DType:  # noqa: D102
        return x.dtype

    def native(self, dtype: Any) -> Any:  # noqa: D102
        self.root.native(dtype)
        return dtype

    def transfer(self, x: Batched, *, source: Any, target: Any) -> Batched:  # noqa: D102
        return Batched(x.value.to(target.device), x.level)

    def layout(self, x: Batched) -> Layout:  # noqa: D102
        return Layout.contiguous(x.shape)

    def shares_memory(self, x: Any, y: Any) -> bool:  # noqa: D102
        return x is y

    def assign(self, x: Any, values: Any, key: Any) -> bool:  # noqa: D102
        return False

    def detach(self, x: Batched) -> Batched:
        """The same numbers outside the graphs of all depths."""
        return Batched(x.value.detach(), x.level)

    def to_host(self, x: Batched) -> Any:  # noqa: D102
        raise TransformError(
            "inside vmap a tensor stands for the whole batch, so its numbers cannot be read by bool(), item(), "
            "tolist() or numpy(); choose with where(condition, a, b), or read them outside"
        )


def inside(x: Tensor, level: Level | None, table: BatchTable) -> Tensor:
    """A tensor of the level below as one inside `vmap`: its first axis is the batch of `level`, or it has none."""
    return wrap(Tensor, Batched(x, level), table, x.dtype, None)


def _place_of(level: Level, name: str) -> int:
    """The depth that a call of `vmap` is at in this context."""
    around = levels.get()
    if level not in around:
        raise TransformError(
            f"{name}: a tensor has left the function under vmap that it was made in, where it stood for "
            f"{level.size} examples; return it from that function instead of storing it"
        )
    return around.index(level) + 1


def lifted(x: Tensor) -> Tensor:
    """A tensor as one of the innermost level."""
    deeper = depth()
    return x if x._kernels.depth == deeper else BatchTable.over(x._kernels.root, deeper).lift(x)


# ── an operation on batches ──────────────────────────────────────────────────────────────────────────────────

RANDOMNESS = ("error", "different", "same")
Rule = Callable[..., Any]


def _run(op: Op, rule: Rule | None, table: BatchTable, *operands: Any, **params: Any) -> Any:
    """One kernel of a `BatchTable`."""
    level = None
    values, batched = [], []
    for x in operands:
        if x.__class__ is not Batched:  # a scalar
            values.append(x)
            batched.append(False)
            continue
        if x.level is not None and x.level is not level:
            if level is not None:
                raise TransformError(f"{op.name}: its operands are of different calls of vmap")
            level = x.level
            _place_of(level, op.name)
        values.append(x.value)
        batched.append(x.level is not None)
    if "block" in params:  # random numbers: each level between here and the device has a say
        values = [x if x._kernels.depth == table.depth - 1 else table.below.lift(x) for x in values]
        if levels.get()[table.depth - 1].randomness == "different":
            return _drawn(op, table, values, batched, params)
    if not op.operands:
        return Batched(create(Tensor, op, table.below, *operands, **params), None)
    k = Recorded.of(Tensor, table.below)
    if level is None:
        return _handles(getattr(k, op.name)(*values, **params), None)
    made = NotImplemented if rule is None else rule(op, k, batched, level.size, *values, **params)
    if made is NotImplemented and op.compose is not None:
        try:
            return _with_batch(op.compose(table, *operands, **params), level)
        except TransformError:  # it looks at numbers
            pass
    if made is NotImplemented:
        warn(f"vmap: there is no batching rule for {op.name!r}; it runs once for each of the {level.size} examples")
        made = rules.one_by_one(op, k, batched, level.size, *values, **params)
    return _handles(made, level)


def _drawn(op: Op, table: BatchTable, values: list[Any], batched: list[bool], params: dict[str, Any]) -> Batched:
    """Random numbers of which each example has its own: the first axis of a greater draw."""
    level = levels.get()[table.depth - 1]
    k = Recorded.of(Tensor, table.below)
    if values:
        return Batched(getattr(k, op.name)(materialized(values[0], batched[0], level.size), **params), level)
    if op.name != "random_permutation":
        return Batched(create(Tensor, op, table.below, **{**params, "shape": (level.size, *params["shape"])}), level)
    inner = math.prod(each.size for each in levels.get()[: table.depth - 1] if each.randomness == "different")
    blocks = inner * -(-params["shape"][0] // 4)
    rows = [
        create(Tensor, op, table.below, **{**params, "block": params["block"] + i * blocks}) for i in range(level.size)
    ]
    return Batched(k.stack(*rows, axis=0), level)


def _handles(made: Any, level: Level | None) -> Any:
    return Batched(made, level) if made.__class__ is Tensor else tuple(Batched(each, level) for each in made)


def materialized(x: Tensor, batched: bool, size: int) -> Any:
    """A tensor of the level below with a batch, even if the same for all."""
    return rules.materialized(Recorded.of(Tensor, x._kernels), x, batched, size)


def _with_batch(made: Any, level: Level) -> Any:
    """A handle, or several, that have the batch, even if they are the same for all examples."""
    if made.__class__ is not Batched:
        return tuple(_with_batch(each, level) for each in made)
    return Batched(materialized(made.value, made.level is not None, level.size), level)


def _rule(op: Op) -> Rule | None:
    """How an operation treats batches, by its record."""
    if op.batching is not None:
        return op.batching
    if op.kind == "elementwise":
        return elementwise
    names = () if op.parameters is None else inspect.signature(op.parameters).parameters
    return along_axis if op.operands == 1 and "axis" in names else None


# ── derivatives of a whole batch ─────────────────────────────────────────────────────────────────────────────


def reentered(level: Level) -> during:
    """Within ``with``, a derivative is computed inside a call of `vmap` that has returned.

    It may be computed for a batch itself by now, as the rows of a Jacobian are: the call goes on top of what is there.
    """
    return during(levels, (*levels.get(), level))


def joining(x: Tensor, level: Level | None) -> Tensor:
    """A tensor whose first axis is the batch of the innermost `level`, as one inside it; ``None``: it has no such."""
    return x if level is None else inside(x, level, BatchTable.over(x._kernels.root, depth()))


def settled(x: Tensor, at: int) -> Tensor:
    """A tensor that is the same for all examples of the levels above a depth, as one of that depth."""
    while x._kernels.depth > at:
        if x._handle.level is not None:
            raise TransformError("a derivative depends on the examples of a vmap that it was not computed for")
        x = beneath(x)
    return x


def beneath(x: Tensor) -> Tensor:
    """A tensor inside `vmap` as one of the level below, with the batch as its first axis if it has one."""
    value, table = x._handle.value, x._kernels.below
    return value if value._kernels.depth == table.depth else table.lift(value)  # type: ignore[no-any-return]


def batch_of(x: Tensor, level: Level) -> Tensor:
    """A tensor inside `vmap` that has the batch, even if it is the same for all examples."""
    return x if x._handle.level is not None else wrap(Tensor, _with_batch(x._handle, level), x._kernels, x.dtype, None)


def of_batch(x: Tensor, operand: Level | None, result: Level | None) -> Tensor:
    """A derivative inside the innermost level as that of the whole batch, from the levels of operand and result.

    It is summed over the batch for an operand without, which all examples of a result with one share.
    """
    x, level = lifted(x), levels.get()[-1]
    if operand is not None or result is not None:
        x = batch_of(x, level)
    value = x._handle.value
    if x._handle.level is not None and operand is None:
        value = Recorded.of(Tensor, value._kernels).sum(value, axis=(0,), keepdims=False)
    return value  # type: ignore[no-any-return]


# ── the transform ────────────────────────────────────────────────────────────────────────────────────────────

P = ParamSpec("P")
R = TypeVar("R")


@advising
def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0, *, randomness: str = "error") -> Callable[P, R]:
    """The function that applies `f` to each example of a batch, and stacks what it returns.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them; returning the same. It sees one example: shapes without the
        batch axis. Tensors that it closes over are the same for all examples.
    in_axes : int, None, or a tuple of them, one per positional argument
        Along which axis the batch lies; ``None`` for what is the same for all examples. In place of an entry there may
        be a dict, list or tuple like the argument. Keyword arguments are batched along axis 0.
    out_axes : int, or a structure like the result
        Where the batch goes.
    randomness : str
        What random numbers (dropout, `micrograd_core.random`) that `f` draws are: ``"different"`` for each example,
        the ``"same"`` for all, or an ``"error"``.

    Returns
    -------
    function

    Raises
    ------
    ShapeError, TypeError, TransformError
        When batches differ in length, nothing is batched, `f` reads the numbers of its arguments, or draws random ones
        although `randomness` does not say which.
    ValueError
        For another word for `randomness`.

    Warns
    -----
    RuntimeWarning
        When an operation has no batching rule and is run once per example.

    Examples
    --------
    >>> from micrograd_core import Tensor, grad, vmap
    >>> per_example = vmap(grad(lambda w, x: (w * x).sum() ** 2), in_axes=(None, 0))
    >>> per_example(Tensor([1.0, 2.0]), Tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 4.0], [6.0, 6.0]]
    """
    chosen("vmap", "randomness", randomness, RANDOMNESS)

    if not all(axis is None or isinstance(axis, int) for axis in pytrees.flatten(in_axes)[0]):
        raise TypeError(f"vmap(f) is a function: write vmap(f)(x); in_axes holds integers and None; got {in_axes!r}")

    @wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise TypeError(f"vmap: in_axes has {len(axes)} entries, but the function was called with {len(args)}")
        wanted = [axis for entry, arg in zip(axes, args, strict=True) for axis in pytrees.prefix(entry, arg, "in_axes")]
        leaves, rebuild = pytrees.flatten((args, kwargs))
        wanted += [0] * (len(leaves) - len(wanted))
        leaves, level = _batch(leaves, wanted, randomness)
        deeper = depth() + 1
        with during(levels, (*levels.get(), level)):
            args, kwargs = rebuild(
                x if axis is None else inside(_moved(x, axis, 0), level, BatchTable.over(x._kernels.root, deeper))
                for x, axis in zip(leaves, wanted, strict=True)
            )
            result = f(*args, **kwargs)
        found, rebuild = pytrees.flatten(result)
        places = pytrees.prefix(out_axes, result, "out_axes")
        return rebuild(_leave(x, axis, level, deeper) for x, axis in zip(found, places, strict=True))

    return mapped


def _batch(leaves: list[Any], axes: list[Any], randomness: str) -> tuple[list[Any], Level]:
    """The leaves, batched ones as tensors, and the length they agree on."""
    sizes: dict[int, str] = {}
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            continue
        if not isinstance(x, Tensor):
            if not hasattr(x, "__array__"):
                raise TypeError(f"vmap: only tensors have a batch; got {type(x).__name__}. Give it None in in_axes")
            leaves[i] = x = asarray(x)
        if not x.ndim:
            raise ShapeError("vmap: a tensor of shape () has no axis for the batch; give it None in in_axes")
        sizes.setdefault(x.shape[resolve_axis("vmap", axis, x.ndim)], f"shape {x.shape} along axis {axis}")
    if len(sizes) != 1:
        told = " and ".join(f"{size} examples ({place})" for size, place in sizes.items())
        raise ShapeError(f"vmap: batches differ in length: {told}" if sizes else "vmap: nothing is batched")
    return leaves, Level(next(iter(sizes)), randomness)


def _leave(x: Any, axis: Any, level: Level, deeper: int) -> Tensor:
    """A result, with the batch along `axis`."""
    if not isinstance(x, Tensor):
        if not isinstance(x, (bool, int, float, complex)):
            raise TypeError(f"vmap: the function must return tensors; it returned {type(x).__name__}")
        x = asarray(x)
    value, batched = x, False
    if x._kernels.depth == deeper:
        handle = x._handle
        if handle.level not in (None, level):
            raise TransformError("vmap: the function returned a tensor of another call of vmap")
        value, batched = handle.value, handle.level is not None
    value = materialized(value, batched, level.size)
    return _moved(value, 0, axis)


def _moved(x: Tensor, source: int, place: int) -> Tensor:
    """One axis in another place."""
    source, place = resolve_axis("vmap", source, x.ndim), resolve_axis("vmap", place, x.ndim)
    if source == place:
        return x
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(place, source)
    return apply_single(TABLE["permute_dims"], x, {"axes": tuple(order)})
