"""The path of every operation: check, promote, call the kernel, record.

To follow one ``x * y``: `binary` below calls the device's kernel and makes the record; `micrograd_core.ops` holds the
gradient rule; `sweep` applies it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from micrograd_core.dtypes import COMPLEX_OF, DTYPES, RANKS, DType, beside, check_scalar, float32, promote, rank_of
from micrograd_core.engine.array import BaseTensor, Storage, T, share_view, storage, wrap
from micrograd_core.engine.explain import explain, refusal
from micrograd_core.engine.graph import Parts, Record, Version, kernels_of
from micrograd_core.engine.ingest import as_array, ingest
from micrograd_core.engine.modes import autocast_dtype, cast_to, contexts as autocasts, grad_mode, records_at, suspended
from micrograd_core.errors import DeviceMismatch
from micrograd_core.ops import SAME, TABLE, Op
from micrograd_core.ops.core.reductions import accumulator
from micrograd_core.ops.record import BITS
from micrograd_core.ops.shared import reduction_arguments, to_bool
from micrograd_core.ops.tangents import linear
from micrograd_core.support.size import Size

new = object.__new__
NO_PARAMS: dict[str, Any] = {}
ALL_AXES: dict[str, Any] = {"axis": None, "keepdims": False}
SCALARS = tuple(RANKS)
NUMBERS = frozenset((float, int, Size))  # beside which an operator needs no preparation
ASTYPE, SQUARE = TABLE["astype"], TABLE["square"]


def apply(op: Op, operands: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS) -> Any:
    """Run `op` on tensors and Python scalars: check, promote, call the kernel, record.

    The result is a tensor, or a named tuple of tensors where the operation has several results.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError, UnsupportedOp, OutOfMemory
    """
    if autocasts and op.parts is None and autocast_dtype() is not None:
        cast_operands = _cast(op, operands)
        with suspended():  # what it is composed of is no business of the policy
            return apply(op, cast_operands, params)
    kind, kernels, dtype, operands = prepare(op, operands)
    recorded = [x for x in operands if x.__class__ is kind and x._record is not None]
    records = bool(recorded) and op.differentiable and records_at(kernels.depth)
    if (op.gradient is None or op.fused) and op.compose is not None and records:
        made = _fused(op, kernels, dtype, operands, params) if op.fused else None
        made = op.compose(Recorded.of(kind, kernels), *operands, **params) if made is None else made
        return made if op.parts is None else op.parts(*made)
    handles = [x._handle if x.__class__ is kind else x for x in operands]
    try:
        handle = getattr(kernels, op.name)(*handles, **params)
    except Exception as error:
        raise explain(op, kernels, operands, params, error)
    if op.parts is not None:
        made = Parts(handle)
        record = _record(op, kernels, params, made, operands, handles) if records else None
        return op.parts(*_taken_apart(kind, made, kernels, record))
    result_dtype = dtype if op.result is SAME else op.result(dtype, params)  # type: ignore[operator]
    out = wrap(kind, handle, kernels.beside(params["target"]) if "target" in params else kernels, result_dtype, None)
    if records and result_dtype.is_floating:
        out._record = _record(op, out._kernels, params, handle, operands, handles)
    if op.view:
        share_view(operands[0], out, op, params)
    return out


def _fused(op: Op, kernels: Any, dtype: DType, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """What the device's own kernel gives, recorded; ``None`` where it declines the call, or an operand has no rule."""
    kind = operands[0].__class__
    if kernels.depth or any(operands[i].__class__ is kind and operands[i]._record is not None for i in op.separate):
        return None
    handles = [x._handle if x.__class__ is kind else x for x in operands]
    handle = kernels.attempt(op.name, *handles, **params)
    if handle is NotImplemented:
        return None
    return wrap(kind, handle, kernels, dtype, _record(op, kernels, params, handle, operands, handles))


def _taken_apart(kind: type[BaseTensor], made: Parts, kernels: Any, record: Record | None) -> Parts:
    """The results of one record as tensors, each with a record of its own that says which part it is."""
    parts = []
    for index, handle in enumerate(made):
        part = wrap(kind, handle, kernels, kernels.dtype(handle), None)
        if record is not None and part.dtype.is_floating:
            part._record = [PART, kernels, {"index": index}, handle, record, made]
        parts.append(part)
    return Parts(parts, made.shape)


def _record(
    op: Op, kernels: Any, params: dict[str, Any], out: Any, operands: tuple[Any, ...], handles: list[Any]
) -> Record:
    record = [op, kernels, params, out]
    for x, saved in zip(operands, handles, strict=True):
        parent = None if x is saved else x._record  # a number is its own handle
        record += (storage(x).version() if parent is None and x is not saved else parent, saved)
    return record


def apply_single(op: Op, x: T, params: dict[str, Any] = NO_PARAMS) -> T:
    """`apply` for operations of one tensor, which need no promotion."""
    dtype = x.dtype
    if autocasts and autocast_dtype() is not None:
        return apply(op, (x,), params)
    if dtype.kind not in op.accepts or (op.cast is not None and op.cast(dtype) is not dtype):
        return apply(op, (x,), params)
    kernels, a, p = x._kernels, x._handle, x._record
    try:
        handle = getattr(kernels, op.name)(a, **params) if params else getattr(kernels, op.name)(a)
    except Exception as error:
        raise explain(op, kernels, (x,), params, error)
    if op.result is not SAME:
        dtype = op.result(dtype, params)  # type: ignore[operator]
    record = None
    if p is not None and op.differentiable and dtype.is_floating and (grad_mode() is True or records_at(kernels.depth)):
        record = [op, kernels, params, handle, p, a]
    out = wrap(x.__class__, handle, kernels, dtype, record)
    if op.view:
        share_view(x, out, op, params)
    return out


def prepare(op: Op, operands: tuple[Any, ...]) -> tuple[type[BaseTensor], Any, DType, tuple[Any, ...]]:
    """The class of tensors, kernels, the common dtype, and operands: tensors of that dtype or scalars that fit it."""
    first: Any = operands[0]
    first = first if isinstance(first, BaseTensor) else next(x for x in operands if isinstance(x, BaseTensor))
    kind, kernels, dtype = first.__class__, first._kernels, first.dtype
    if first is operands[0] and _as_they_are(op, kernels, dtype, operands):
        return kind, kernels, dtype, operands
    if op.capability:
        getattr(kernels, op.name)  # refuses in the name of what was asked for, not of what it would be made of
    kernels, prepared = _brought_together(op, first, operands)
    dtype = _common_dtype(op, kind, kernels.device, prepared)
    for position, x in enumerate(prepared):
        if not isinstance(x, BaseTensor):
            check_scalar(op.name, x, dtype)
            if type(x) not in SCALARS:  # a NumPy scalar is a float too, but not a weak one
                prepared[position] = SCALARS[rank_of(type(x))](x)
        elif position not in op.separate and x.dtype is not dtype:
            prepared[position] = converted(x, dtype)
    return kind, kernels, dtype, tuple(prepared)


def _as_they_are(op: Op, kernels: Any, dtype: DType, operands: tuple[Any, ...]) -> bool:
    """Whether operands need nothing: tensors of these kernels and the first one's dtype, and floats that go with it."""
    for i, x in enumerate(operands):
        apart = i in op.separate
        if x.__class__ is float and dtype.is_floating and not apart:
            continue
        if not isinstance(x, BaseTensor) or x._kernels is not kernels or not (apart or x.dtype is dtype):
            return False
        if x.dtype.kind not in op.accepted(i):
            return False
    return 0 not in op.separate and op.cast is None and not op.capability


def _brought_together(op: Op, first: BaseTensor, operands: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """The kernels that all operands are for, and the operands: tensors of these kernels, and numbers."""
    kernels, prepared, apart = first._kernels, list(operands), False
    for position, x in enumerate(operands):
        if not isinstance(x, BaseTensor):
            if position in op.separate and position < len(operands) - len(op.optional):
                x = prepared[position] = as_array(first.__class__, x, device=kernels.device)
            elif not isinstance(x, SCALARS):
                x = prepared[position] = _host_operand(op, x, first)
        apart |= isinstance(x, BaseTensor) and x._kernels is not kernels
    return _meet(op, prepared) if apart else (kernels, prepared)


def _common_dtype(op: Op, kind: type[BaseTensor], device: Any, operands: list[Any]) -> DType:
    """What the operands are promoted to. Where all that take part are numbers, the first becomes a tensor."""
    dtype, numbers, refused = None, [], None
    for position, x in enumerate(operands):
        if isinstance(x, BaseTensor):
            if x.dtype.kind not in op.accepted(position):
                if position in op.separate or x.dtype.is_floating:
                    raise refusal(op, position, x)
                refused = position if refused is None else refused  # unless it becomes a float
            if position not in op.separate and x.dtype is not dtype:
                dtype = x.dtype if dtype is None else promote(op.name, dtype, x.dtype)
        elif position not in op.separate:
            numbers.append(position)
    if dtype is None:  # where(condition, 1.0, 0.0)
        dtype = ingest(max((operands[each] for each in numbers), key=lambda x: rank_of(type(x))), None)[2]
        operands[numbers[0]] = as_array(kind, operands[numbers[0]], dtype=dtype, device=device)
    together = op.accepts[numbers[0]] if numbers and isinstance(op.accepts, tuple) else op.accepts
    for each in numbers:
        dtype = met if (met := beside(operands[each], dtype)).kind in together else dtype
    if refused is not None and dtype.kind not in (accepted := op.accepted(refused)):
        if "real floating" not in accepted or BITS & accepted:
            raise refusal(op, refused, operands[refused])
        dtype = float32
    if dtype in COMPLEX_OF and any(isinstance(operands[each], complex) for each in numbers) and _takes_complex(op):
        dtype = COMPLEX_OF[dtype]
    return dtype if op.cast is None else op.cast(dtype)


def _takes_complex(op: Op) -> bool:
    """Whether a Python complex number beside real tensors makes them complex."""
    together = [op.accepted(position) for position in range(op.operands) if position not in op.separate]
    return op.parameters is None and all("complex floating" in accepted for accepted in together)


def _cast(op: Op, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands as `autocast` wants them in this context; float64, integers, numbers as they are."""
    wanted = cast_to(op)
    if wanted is None:
        return operands
    narrow = [isinstance(x, BaseTensor) and x.dtype.kind == "real floating" and x.dtype.bits < 64 for x in operands]
    return tuple(converted(x, wanted) if cast else x for x, cast in zip(operands, narrow, strict=True))


def converted(x: Any, dtype: DType) -> Any:
    """A tensor of `dtype` with the numbers of `x`: itself if it has that dtype."""
    return x if x.dtype is dtype else apply_single(ASTYPE, x, {"dtype": dtype})


def _meet(op: Op, operands: list[Any]) -> tuple[Any, list[Any]]:
    """Operands of different tables: inside `vmap` all go to the innermost level; otherwise devices differ."""
    tensors = [x for x in operands if isinstance(x, BaseTensor)]
    table = max((x._kernels for x in tensors), key=lambda kernels: kernels.depth)
    if not table.depth or any(x._kernels.root is not table.root for x in tensors):
        raise DeviceMismatch(op.name, [(x.device, x.shape) for x in tensors])
    return table, [table.lift(x) if isinstance(x, BaseTensor) and x._kernels is not table else x for x in operands]


def _host_operand(op: Op, x: Any, beside: BaseTensor) -> Any:
    """A number or an array of another library: the first is a scalar, the second welcome where nothing has to move."""
    if getattr(x, "shape", None) == () and hasattr(x, "item"):
        return x.item()
    if not hasattr(x, "__array__") and not hasattr(x, "__array_interface__"):
        raise TypeError(
            f"{op.name}: operands are tensors and numbers; got {type(x).__name__}. Wrap it with asarray(...)"
        )
    if not beside.device.is_cpu():
        raise DeviceMismatch(op.name, [(beside.device, beside.shape), ("the host", tuple(x.shape))])
    return as_array(beside.__class__, x, device=beside.device)


class Recorded:
    """A kernel table whose functions take and give tensors, and record: what makes a sweep differentiable."""

    def __init__(self, kind: type[BaseTensor], kernels: Any) -> None:
        self._kind, self._kernels = kind, kernels

    @staticmethod
    def of(kind: type[BaseTensor], kernels: Any) -> Recorded:
        """The recorded table of a device for a class of tensors, made once."""
        tables: dict[Any, Recorded] = kernels.__dict__.setdefault("recorded", {})
        if kind not in tables:
            tables[kind] = Recorded(kind, kernels)
        return tables[kind]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = TRANSFER if name == "transfer" else TABLE.get(name)
        if op is None:
            raise AttributeError(name)
        if op.operands == 0:
            function: Callable[..., Any] = partial(create, self._kind, op, self._kernels)
        else:
            function = recorded(self._kind, op, self._kernels)
        setattr(self, name, function)
        return function

    def lift(self, handle: Any, parent: Any) -> Any:
        """A saved operand as the tensor it was; scalars as they are."""
        if parent is None:
            return handle
        if handle.__class__ is Parts:
            return _taken_apart(self._kind, handle, kernels_of(parent), parent)
        if parent.__class__ is Version:  # what is recorded now must notice a write as well
            plain = wrap(self._kind, handle, self._kernels, self._kernels.dtype(handle), None)
            plain._storage = Storage(False, parent)
            return plain
        kernels = kernels_of(parent)
        return wrap(self._kind, handle, kernels, kernels.dtype(handle), parent)

    def dtype(self, x: BaseTensor) -> DType:
        """The dtype of an operand, as `Kernels.dtype`."""
        return x.dtype


def recorded(kind: type[BaseTensor], op: Op, kernels: Any = None) -> Callable[..., Any]:
    """An operation as a function of tensors and canonical parameters.

    Where all operands are numbers, the first becomes a tensor on the device of `kernels`, by default the default one.
    """
    device = None if kernels is None else kernels.device

    def general(*operands: Any, **params: Any) -> Any:
        if operands[0].__class__ is not kind and not any(x.__class__ is kind for x in operands):
            operands = (as_array(kind, operands[0], device=device), *operands[1:])
        return apply(op, operands, params)

    if op.gradient is None or op.parts is not None:  # only `apply` differentiates compositions, and takes parts apart
        return general
    if op.operands == 1 and op is not TRANSFER:
        return lambda x, **params: apply_single(
            op, x if x.__class__ is kind else as_array(kind, x, device=device), params
        )
    if op.operands != 2 or op.parameters is not None or op.separate or op.result not in (SAME, to_bool):
        return general
    operator, plain = binary(op.name)[0], (kind, float, int)
    return lambda x, y: operator(x, y) if x.__class__ is kind and y.__class__ in plain else general(x, y)


def create(kind: type[T], op: Op, kernels: Any, *args: Any, dtype: DType, **params: Any) -> T:
    """Run an operation without operands on a device."""
    kernels.native(dtype)
    try:
        handle = getattr(kernels, op.name)(*args, dtype=dtype, **params)
    except Exception as error:
        raise explain(op, kernels, (), {"dtype": dtype, **params}, error)
    return wrap(kind, handle, kernels, dtype, None)


TRANSFER = Op(
    "transfer",
    "The same numbers on another device.",
    accepts=TABLE["copy"].accepts,
    tangent=linear,
    gradient=(lambda k, g, out, x, *, source, target: k.transfer(g, source=target, target=source),),
    gradient_aliases=True,
)

PART = Op(
    "part",
    "One of the results of an operation that has several.",
    tangent=lambda op, k, tangents, out, parts, *, index: k.copy(tangents[0][index]),
    gradient=(
        lambda k, g, out, parts, *, index: Parts((g if i == index else None for i in range(len(parts))), parts.shape),
    ),
)


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────


def binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflection."""
    op = TABLE[name]
    differentiable = op.differentiable
    dtypes = frozenset(x for x in DTYPES.values() if x.kind in op.accepts)
    result: DType | None = None if op.result is SAME else op.result(None, NO_PARAMS)  # type: ignore[operator]

    def with_number(x: BaseTensor, y: Any, swapped: bool = False) -> Any:
        """For a tensor and a Python number, on either side."""
        y = int(y) if y.__class__ is Size else y
        if not x.dtype.is_floating or x.dtype not in dtypes:
            return _general(op, y, x) if swapped else _general(op, x, y)
        kernels, a, p = x._kernels, x._handle, x._record
        try:
            handle = getattr(kernels, name)(y, a) if swapped else getattr(kernels, name)(a, y)
        except Exception as error:
            raise explain(op, kernels, (y, x) if swapped else (x, y), NO_PARAMS, error)
        record: Record | None = None
        if p is not None and differentiable and (grad_mode() is True or records_at(kernels.depth)):
            record = [op, kernels, NO_PARAMS, handle, *((None, y, p, a) if swapped else (p, a, None, y))]
        return wrap(x.__class__, handle, kernels, result or x.dtype, record)

    def operator(x: BaseTensor, y: Any) -> Any:
        """The hot path: two tensors of one device and one dtype need no preparation."""
        kind = x.__class__
        kernels = x._kernels
        dtype = x.dtype
        if y.__class__ is not kind or y._kernels is not kernels or y.dtype is not dtype or dtype not in dtypes:
            return with_number(x, y) if y.__class__ in NUMBERS else _general(op, x, y)
        a, b = x._handle, y._handle
        try:
            handle = getattr(kernels, name)(a, b)
        except Exception as error:
            raise explain(op, kernels, (x, y), NO_PARAMS, error)
        p, q = x._record, y._record
        out = new(kind)  # as `wrap`, whose call would cost more
        out._handle = handle
        out._kernels = kernels
        out.dtype = result or dtype
        out._storage = None
        if (p is None and q is None) or not differentiable or not (grad_mode() is True or records_at(kernels.depth)):
            out._record = None
        elif x is y and name == "multiply":  # one cotangent, instead of two and their sum
            out._record = [SQUARE, kernels, NO_PARAMS, handle, p, a]
        else:
            p = storage(x).version() if p is None else p
            q = storage(y).version() if q is None else q
            out._record = [op, kernels, NO_PARAMS, handle, p, a, q, b]
        return out

    def reflected(x: BaseTensor, y: Any) -> Any:
        return with_number(x, y, True) if y.__class__ in NUMBERS else _general(op, y, x)

    def looking(x: BaseTensor, y: Any) -> Any:
        """For what `autocast` does something with: this alone looks whether there is any."""
        return operator(x, y) if not autocasts or autocast_dtype() is None else _general(op, x, y)

    operator.__doc__ = reflected.__doc__ = looking.__doc__ = op.doc
    return (looking if op.autocast else operator), reflected


def _general(op: Op, x: Any, y: Any) -> Any:
    """An operator's operands that the hot path does not know."""
    for operand in (x, y):
        if not isinstance(operand, (BaseTensor, *SCALARS)) and not hasattr(operand, "__array__"):
            return NotImplemented
    return apply(op, (x, y))


def accumulated(op: Op, x: BaseTensor, *axis: Any, dtype: Any, **params: Any) -> Any:
    """A sum or a product of the elements of `x` as numbers of `dtype`; by default of the op's own choice."""
    if dtype is not None:
        x = apply_single(ASTYPE, x, ASTYPE.parameters(x, dtype))
    out = apply(op, (x,), op.parameters(x, *axis, **params))
    return out if dtype is None else converted(out, x.dtype)


def reduction(name: str) -> Callable[..., Any]:
    """A method that reduces over axes; over all of them by default."""
    op = TABLE[name]
    parameters = op.parameters
    always_defined = name in ("sum", "mean")  # the others have a word to say about empty tensors

    def method(x: T, axis: Any = None, keepdims: bool = False, **others: Any) -> T:
        if axis is None and not keepdims and not others and always_defined:
            return apply_single(op, x, ALL_AXES)
        if not others:
            return apply_single(op, x, parameters(x, axis, keepdims=keepdims))
        given = reduction_arguments(name, axis, keepdims, others)
        if op.cast is accumulator and "dtype" in given:
            return accumulated(op, x, **given)
        return apply_single(op, x, parameters(x, **given))

    method.__name__, method.__doc__ = name, op.doc
    return method
