"""`DataParallel`: each rank computes with its part of a batch, and gradients are averaged while the sweep still runs.

A call puts two operations between parameters and network, both the identity. Going back, the sweep meets the second,
`ready`, as soon as all uses of a parameter have given their part of its gradient. Gradients that are ready fill a
bucket, and a full one is sent. The sweep meets the first, `joined`, when it has been everywhere else: that is where it
waits for what the other ranks send.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from micrograd_core import Tensor, full
from micrograd_core.dtypes import DTYPES
from micrograd_core.engine.apply import apply, apply_single
from micrograd_core.engine.array import wrap
from micrograd_core.nn import Module, functional_call
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.record import CALL, INEXACT, NEST
from micrograd_core.support.context import is_traced
from micrograd_mpi.collectives import added_up, all_reduce, broadcast, by_rank, finish
from micrograd_mpi.errors import WorldError
from micrograd_mpi.job import World, world
from micrograd_mpi.transport import Call, begin

MIB = 1 << 20


class DataParallel:
    """A model whose gradients are the means over all ranks.

    Parameters
    ----------
    model : Module
        All ranks have one of the same structure; that of rank 0 gives the parameters and buffers.
    group : World, optional
        The ranks, by default all of the job.
    bucket_mib : float
        So many MiB of gradients are sent together.
    overlap : bool
        Whether a bucket is sent as soon as it is full; else all are sent after the sweep.
    reduce_dtype : str, optional
        ``"bfloat16"`` or ``"float16"``: gradients are rounded to it, sent, and added in float32.
    check_finite : bool
        Whether a gradient that is not finite is an error, which names the rank that it comes from; functions under
        `jit` read no numbers, and do not look. False for those who look themselves, as `amp.GradScaler`.

    Raises
    ------
    WorldError
        When models differ; from a backward, when a rank does not come, or its gradient is not finite.
    ValueError
        For a bucket without room, or another dtype.

    Warns
    -----
    RuntimeWarning
        When ranks start with other parameters than rank 0, as from other seeds, or when there is one rank only.

    Notes
    -----
    Everything else that is asked for (``parameters()``, ``state_dict()``, ``train()``) is the model's own.

    A gradient is the mean of those that ranks compute, so each rank takes the mean loss of its part, and parts have the
    same number of examples; where they do not, `weighted` gives each rank's loss its weight.

    A parameter that a call does not use counts with a gradient of zero, as another rank may use it. What was added to
    ``.grad`` within `no_sync` goes into the next mean.

    Examples
    --------
    >>> import warnings
    >>> import micrograd_core as mg
    >>> with warnings.catch_warnings(action="ignore"):  # this example has one rank
    ...     model = DataParallel(mg.nn.Linear(2, 1))
    >>> model(mg.ones((3, 2))).sum().backward()
    >>> model.weight.grad.tolist()
    [[3.0, 3.0]]
    """

    def __init__(
        self, model: Module, group: World | None = None, *, bucket_mib: float = 25.0, overlap: bool = True,
        reduce_dtype: str | None = None, check_finite: bool = True,
    ) -> None:  # fmt: skip
        if not bucket_mib > 0:
            raise ValueError(f"DataParallel: bucket_mib is a size above 0; got {bucket_mib}")
        if reduce_dtype not in (None, "bfloat16", "float16"):
            raise ValueError(f"DataParallel: reduce_dtype is 'bfloat16', 'float16' or None; got {reduce_dtype!r}")
        self.module, self.group = model, world() if group is None else group
        self.bucket_mib, self.overlap, self.check_finite = bucket_mib, overlap, check_finite
        self.reduce_dtype = reduce_dtype
        self.synchronizes = True
        start_alike(model, self.group)
        self.ready_order: dict[str, int] = {}  # of parameters, as the first sweep of rank 0 had them ready

    def __getattr__(self, name: str) -> Any:
        if name == "module":  # before it is set, as in an unpickled one
            raise AttributeError(name)
        return getattr(self.module, name)

    def __repr__(self) -> str:
        return f"DataParallel({self.module!r}, {self.group!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model. Gradients of what it returns are averaged over the ranks, within `no_sync` not."""
        named = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        if not self.synchronizes or not named:
            return self.module(*args, **kwargs)
        groups: dict[Any, list[tuple[str, Tensor]]] = {}
        for name, p in named:
            groups.setdefault((p.dtype, p.device), []).append((name, p))
        marked: dict[str, Tensor] = {}
        for group in groups.values():
            reduction = Reduction(self, group)
            joined = apply(joined_op(len(group)), tuple(p for _, p in group), {"reduction": reduction})
            for place, ((name, _), x) in enumerate(zip(group, joined, strict=True)):
                marked[name] = apply_single(READY, x, {"reduction": reduction, "place": place})
        return functional_call(self.module, marked, *args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, gradients stay those of this rank, and add up in ``.grad``, until the next call outside."""
        before, self.synchronizes = self.synchronizes, False
        try:
            yield
        finally:
            self.synchronizes = before


def weighted(loss: Tensor, examples: int, group: World | None = None) -> Tensor:
    """The mean loss of a rank's examples with the weight that it has among all ranks.

    The mean over the ranks of what this gives is the mean over all examples.

    Parameters
    ----------
    loss : Tensor
        The mean over the examples of this rank.
    examples : int
        How many those are.
    group : World, optional
        The ranks, by default all.

    Returns
    -------
    Tensor
        ``loss * examples * ranks / examples of all ranks``.

    Raises
    ------
    WorldError
        When a rank does not come.
    """
    group = world() if group is None else group
    examples_of_all = all_reduce(full((), examples, dtype=loss.dtype, device=loss.device), "mean", group)
    made: Tensor = loss * (examples / examples_of_all)
    return made


def start_alike(model: Module, group: World) -> None:
    """Give all ranks the parameters and buffers of rank 0.

    Raises
    ------
    WorldError
        When their models have other names, shapes or dtypes.

    Warns
    -----
    RuntimeWarning
        When their numbers differ before, or there is one rank only.
    """
    if group.size == 1:
        warnings.warn(
            "DataParallel: there is one rank only; start several processes, as with mpiexec -n 2 python ...",
            RuntimeWarning, stacklevel=3,
        )  # fmt: skip
        return
    tensors = dict(model.named_tensors())
    structure = [(name, tuple(x.shape), str(x.dtype), x.requires_grad) for name, x in tensors.items()]
    digest = hashlib.blake2b(digest_size=16)
    for x in tensors.values():
        digest.update(x._kernels.to_host(x._handle))
    found = group.gather((structure, digest.hexdigest()))
    for rank, (other, _) in enumerate(found):
        for own, its in zip([*found[0][0], None], [*other, None], strict=False):
            if own != its:
                raise WorldError(
                    f"DataParallel: rank {rank} has another model than rank 0: {_told(its)}, where rank 0 has "
                    f"{_told(own)}. Build the same model on every rank"
                )
    different = [str(rank) for rank, (_, numbers) in enumerate(found) if numbers != found[0][1]]
    if different:
        warnings.warn(
            f"DataParallel: rank {', '.join(different)} started with other numbers than rank 0, as from another seed; "
            "all go on with those of rank 0",
            RuntimeWarning, stacklevel=3,
        )  # fmt: skip
        for x in tensors.values():
            x.data = broadcast(x.detach(), group=group)


def _told(entry: Any) -> str:
    if entry is None:
        return "nothing more"
    name, shape, dtype, trained = entry
    return f"{name!r} of shape {shape}, {dtype}{'' if trained else ', not trained'}"


# ── what happens in the sweep ────────────────────────────────────────────────────────────────────────────────


class Reduction:
    """The gradients of one call, of parameters of one dtype on one device: which are ready, and what was sent."""

    def __init__(self, parallel: DataParallel, named: Sequence[tuple[str, Tensor]]) -> None:
        self.parallel, self.named = parallel, named
        self.key = object()  # of what it begins, in a program
        self.buckets = self._buckets()
        self._clear()

    def __repr__(self) -> str:
        return f"<{len(self.named)} gradients in {len(self.buckets)} buckets>"

    def _clear(self) -> None:
        self.given: dict[int, Any] = {}
        self.sent: list[tuple[list[int], Any]] = []
        self.of: Any = None  # the cotangents that results are for
        self.results: list[Any] = []

    def _buckets(self) -> list[list[int]]:
        """Which gradients are sent together, in the order in which they were ready at first."""
        ready = self.parallel.ready_order
        order = sorted(range(len(self.named)), key=lambda i: (ready.get(self.named[i][0], 0), -i))
        found, room = list[list[int]](), 0.0
        for i in order:
            p = self.named[i][1]
            size = p.size * p.dtype.itemsize
            if not found or size > room:
                found.append([])
                room = self.parallel.bucket_mib * MIB
            found[-1].append(i)
            room -= size
        return found

    def ready(self, k: Any, g: Any, place: int) -> None:
        """A gradient is complete. Buckets go in one order on all ranks, each when it and those before it are full."""
        if g.__class__ is Tensor:  # the sweep is recorded: `joined` computes on tensors
            return
        grad = self.named[place][1].grad
        self.given[place] = g if grad is None else k.add(grad._handle, g)
        if self.parallel.overlap:
            while len(self.sent) < len(self.buckets) and all(i in self.given for i in self.buckets[len(self.sent)]):
                self._send(k)
            if not is_traced():
                self.parallel.group.poll()

    def _send(self, k: Any) -> None:
        """Send the next bucket; a gradient that this rank does not have is zero."""
        bucket = self.buckets[len(self.sent)]
        for i in bucket:
            if i not in self.given:
                p = self.named[i][1]
                zeros = k.full(shape=tuple(p.shape), fill_value=0, dtype=p.dtype)
                self.given[i] = zeros if p.grad is None else p.grad._handle
        flat = _flat(k, [self.given[i] for i in bucket])
        half = self.parallel.reduce_dtype
        if half is not None:
            flat = k.astype(flat, dtype=DTYPES[half])
        token = k.begin_all_reduce(flat, key=self.key, number=len(self.sent), group=self.parallel.group)
        self.sent.append((bucket, (token, flat)))

    def result(self, k: Any, g: Any, place: int) -> Any:
        """The mean gradient of a parameter; with the first that is asked for, all are waited for."""
        if self.of is not g:
            self.of, self.results = g, self._recorded(k, g) if _is_recorded(g) else self._received(k)
        return self.results[place]

    def _received(self, k: Any) -> list[Any]:
        group, check = self.parallel.group, self.parallel.check_finite and not is_traced()
        while len(self.sent) < len(self.buckets):
            self._send(k)
        found: list[Any] = [None] * len(self.named)
        for number, (bucket, (token, flat)) in enumerate(self.sent):
            total = k.end_all_reduce(
                token, key=self.key, number=number, shape=tuple(flat.shape), dtype=k.dtype(flat), group=group
            )
            if self.parallel.reduce_dtype is not None:
                total = k.astype(total, dtype=self.named[0][1].dtype)
            mean = k.multiply(total, 1 / group.size) if group.size > 1 else total
            if check and not math.isfinite(_number(k, k.sum(k.real(mean), axis=(0,), keepdims=False))):
                self._refuse_infinite(k, number)
            for i, part in zip(bucket, _parted(k, mean, [self.named[i][1].shape for i in bucket]), strict=True):
                found[i] = part
        if not self.parallel.ready_order and not is_traced():
            names = [name for name, _ in self.named]
            first = group.gather([names[i] for i in self.given])[0]
            self.parallel.ready_order = {name: i + 1 for i, name in enumerate(first)}
        for _, p in self.named:
            if p.grad is not None:
                p.grad = None  # it is part of the result
        of = self.of
        self._clear()
        self.of = of
        return found

    def _recorded(self, k: Any, g: Any) -> list[Any]:
        """The means on tensors, to be differentiated again."""
        group = self.parallel.group
        return [None if x is None else k.all_reduce(x, reduction="mean", group=group) for x in g]

    def _refuse_infinite(self, k: Any, number: int) -> None:
        """Say whose gradient it is, where a sum of finite numbers is not merely too large for its dtype."""
        group = self.parallel.group
        own = [
            self.named[i][0] for i in self.sent[number][0]
            if not _number(k, k.all(k.isfinite(_flat(k, [self.given[i]])), axis=(0,), keepdims=False))
        ]  # fmt: skip
        wrong = [f"of {names[0]!r} on rank {rank}" for rank, names in enumerate(group.gather(own)) if names]
        if wrong:
            for later in range(number + 1, len(self.sent)):  # what is under way has memory
                finish(group, group.state.pending.pop((self.key, later)))
            raise WorldError(
                f"DataParallel: the gradient {' and '.join(wrong)} of {group.size} is not finite; look at the data of "
                "that rank, lower the learning rate, or write check_finite=False"
            )


def _is_recorded(g: Any) -> bool:
    return any(x.__class__ is Tensor for x in g)


def _number(k: Any, x: Any) -> float:
    """The number of a handle of one element."""
    return float(wrap(Tensor, x, k, k.dtype(x), None).item())


def _flat(k: Any, handles: Sequence[Any]) -> Any:
    rows = [k.reshape(x, shape=(math.prod(x.shape),)) for x in handles]
    return rows[0] if len(rows) == 1 else k.concat(*rows, axis=0)


def _parted(k: Any, flat: Any, shapes: Sequence[tuple[int, ...]]) -> Iterator[Any]:
    start = 0
    for shape in shapes:
        end = start + math.prod(shape)
        part = flat if len(shapes) == 1 else k.getitem(flat, key=(slice(start, end, 1),))
        yield k.reshape(part, shape=tuple(shape))
        start = end


def _ready_rule(k: Any, g: Any, out: Any, x: Any, *, reduction: Reduction, place: int) -> Any:
    reduction.ready(k, g, place)
    return g


READY = Op(
    "ready",
    "The same tensor; its gradient is complete when the sweep comes here.",
    accepts=INEXACT,
    view=True,
    compose=lambda k, x, *, reduction, place: x,
    shape=lambda x, **params: tuple(x.shape),
    tangent=lambda op, k, tangents, out, x, **params: tangents[0],
    gradient=(_ready_rule,),
    gradient_aliases=True,
)


@cache
def joined_op(count: int) -> Op:
    """The operation of so many parameters that waits for their mean gradients."""
    parts = namedtuple(f"Joined{count}", [f"p{i}" for i in range(count)])  # type: ignore[misc]

    def rule(place: int) -> Callable[..., Any]:
        return lambda k, g, out, *operands, reduction: reduction.result(k, g, place)

    op = Op(
        f"joined_{count}",
        "The same tensors; their gradients are the means over all ranks.",
        operands=count,
        accepts=INEXACT,
        lowering=NEST,
        parts=parts,
        view=True,
        compose=lambda k, *operands, reduction: operands,
        shape=lambda *operands, reduction: tuple(tuple(x.shape) for x in operands),
        tangent=lambda op, k, tangents, out, *operands, reduction: tuple(tangents),
        gradient=tuple(map(rule, range(count))),
    )
    TABLE[op.name] = op
    return op


def _begun(k: Any, x: Any, *, key: object, number: int, group: World) -> Any:
    if not is_traced():
        pending = group.state.pending
        kind = "all_to_all" if k.dtype(x).itemsize == 2 else "all_reduce"
        x = by_rank(k, x, group) if kind == "all_to_all" else x
        reduction = "" if kind == "all_to_all" else "sum"
        pending[key, number] = begin(group, k, x, Call(kind, tuple(x.shape), reduction))
    return k.full(shape=(), fill_value=0, dtype=DTYPES["int64"])


def _ended(k: Any, token: Any, *, key: object, number: int, shape: Any, dtype: Any, group: World) -> Any:
    if is_traced():
        return k.full(shape=shape, fill_value=1, dtype=dtype)
    found = finish(group, group.state.pending.pop((key, number)))
    return added_up(k, found, shape, "sum", group) if dtype.itemsize == 2 else found


for op in (
    READY,
    Op(
        "begin_all_reduce", "Begin the sum over all ranks: what `end_all_reduce` takes.", operands=1, accepts=INEXACT,
        lowering=CALL, collective=True, compose=_begun, shape=lambda x, **params: (),
        result=lambda dtype, params: DTYPES["int64"], gradient="it is part of a gradient",
    ),
    Op(
        "end_all_reduce", "The sum over all ranks, once it is there.", operands=1, lowering=CALL, collective=True,
        compose=_ended, shape=lambda token, *, shape, **params: shape, result=lambda dtype, params: params["dtype"],
        gradient="it is part of a gradient",
    ),
):  # fmt: skip
    TABLE[op.name] = op
