"""The public functions, generated from the op table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final

from micrograd_core.array.documentation import docstring
from micrograd_core.array.manners import say_which
from micrograd_core.array.methods import MADE, by_words
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import DType, bool_, check_scalar, float32, float64, int64, integer_range
from micrograd_core.engine.apply import SCALARS, accumulated, apply, apply_single, recorded
from micrograd_core.errors import DTypeError
from micrograd_core.ops import TABLE, Op, family
from micrograd_core.ops.arguments import advising, unbound
from micrograd_core.ops.core.reductions import accumulator
from micrograd_core.ops.record import BOOLEAN
from micrograd_core.ops.shared import other_spellings, parameter_names, respelled, to_bool

_READY: Final = frozenset((Tensor, float))
"""What an operand is nearly always."""


def _function(op: Op) -> Callable[..., Tensor]:
    """The function of one record: tensors by position, parameters as its `parameters` function takes them."""
    parameters = op.parameters
    others = {} if parameters is None else other_spellings(parameter_names(parameters))
    count = op.operands
    run, lenient = recorded(Tensor, op), is_lenient(op)
    ambiguous = op.name in (*MADE[by_words].split(), "median", "sort")

    def simple(*operands: Any, **named: Any) -> Tensor:
        if named:
            word = next(iter(named))
            raise unbound(function, operands, named, TypeError(f"{op.name}() got an unexpected argument {word!r}"))
        if len(operands) != count:
            instead = "; for the places where it is true, nonzero(condition)" if op.name == "where" else ""
            raise TypeError(f"{op.name} takes {count} operand{'s' * (count > 1)}; got {len(operands)}{instead}")
        try:
            return run(*operands)
        except TypeError as error:
            refused = lenient and isinstance(error, DTypeError)
            if not refused and not any(isinstance(x, (list, tuple)) for x in operands):
                raise
        operands = tuple(_listed(x, operands) if isinstance(x, (list, tuple)) else x for x in operands)
        return run(*(_converted(op, operands) if lenient else operands))

    def parametrized(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs and not others.keys().isdisjoint(kwargs):
            if "dim" in kwargs and ambiguous:  # PyTorch's word: its result
                return getattr(asarray(args[0]), op.name)(*args[1:], **kwargs)
            kwargs = respelled(op.name, kwargs, others)
        if ambiguous and len(args) > 1 and not kwargs:
            say_which(op.name, asarray(args[0]), *args[1:])
        if op.optional:
            args = _completed(op, args, kwargs)
        operands = args[:count]
        if not args or args[0].__class__ is not Tensor or not _READY.issuperset(map(type, operands)):
            operands = tuple(
                (x if isinstance(x, (Tensor, *SCALARS)) else _listed(x, args)) if i else _first(op, args)
                for i, x in enumerate(operands)
            )
        if len(operands) < count:
            got = f"; got {next(iter(kwargs))}" if kwargs else ""
            raise unbound(function, args, kwargs, TypeError(f"{op.name}() takes its operands by position{got}"))
        if op.cast is accumulator and "dtype" in kwargs:
            return accumulated(op, asarray(args[0]), *args[1:], **kwargs)
        try:
            params = parameters(*operands, *args[count:], **kwargs)
        except TypeError as error:
            raise unbound(function, args, kwargs, error) from None
        return apply(op, operands, params)

    def variadic(arrays: Any = None, /, *axis: int, **kwargs: Any) -> Tensor:
        if arrays is None or (axis and op.name in OF_LISTS):
            raise unbound(function, (), kwargs, TypeError(f"{op.name}() takes a list of tensors by position"))
        operands = tuple(map(asarray, arrays))
        if axis or kwargs:
            kwargs = respelled(op.name, {**dict(zip(("axis",), axis, strict=False)), **kwargs}, others)
        try:
            params = parameters(*operands, **kwargs)
        except TypeError as error:
            raise unbound(function, (arrays,), kwargs, error) from None
        return apply(op, operands, params)

    function: Any = simple if parameters is None else variadic if count == -1 else parametrized
    function.__name__ = function.__qualname__ = op.name
    if parameters is not None and parameters.__qualname__ not in TABLE:
        parameters.__qualname__ = op.name  # by which Python's own errors call it
    function.__wrapped__ = shape_of(op)  # where `inspect` finds the signature
    function.__doc__ = docstring(op, function)
    return function


def _first(op: Op, args: tuple[Any, ...]) -> Tensor:
    """The first operand as a tensor; a Python number takes dtype and device from one that it promotes with."""
    x = args[0]
    if isinstance(x, SCALARS) and 0 not in op.separate:
        for i, other in enumerate(args[1 : op.operands], 1):
            if isinstance(other, Tensor) and i not in op.separate:
                check_scalar(op.name, x, other.dtype)
                return asarray(x, dtype=other.dtype, device=other.device)
    return asarray(x)


def _listed(data: Any, operands: Any) -> Tensor:
    """Data that are not on a device go to that of the first tensor; beside float64 Python floats keep their digits."""
    beside = next((x for x in operands if isinstance(x, Tensor)), None)
    made = asarray(data, device=None if beside is None else beside.device)
    if beside is not None and beside.dtype is float64 and made.dtype is float32 and isinstance(data, (list, tuple)):
        return asarray(data, dtype=float64, device=beside.device)
    return made


def _completed(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments with all operands in their places: named ones taken out of `kwargs`, missing ones as scalars."""
    required = op.operands - len(op.optional)
    if len(args) < required:
        raise TypeError(f"{op.name} takes at least {required} operand{'s' * (required > 1)}; got {len(args)}")
    names, given = op.parameters.__code__.co_varnames, list(args)
    for i, scalar in enumerate(op.optional, required):
        if i >= len(args):
            given.append(kwargs.pop(names[i], None))
        if given[i] is None:
            given[i] = scalar
    return tuple(given)


def _one(x: Tensor | complex, /) -> Tensor: ...  # type: ignore[empty-body]
def _two(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor: ...  # type: ignore[empty-body]
def _choice(condition: Tensor, x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor: ...  # type: ignore[empty-body]
def _three(x1: Tensor | complex, x2: Tensor | complex, x3: Tensor | complex, /) -> Tensor: ...  # type: ignore[empty-body]
def _total(  # type: ignore[empty-body]
    x: Tensor, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, dtype: Any = None
) -> Tensor: ...
def _running(  # type: ignore[empty-body]
    x: Tensor, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor: ...
def _many(arrays: Sequence[Tensor], /, axis: int | None = 0) -> Tensor: ...  # type: ignore[empty-body]
def _together(arrays: Sequence[Tensor], /) -> Tensor: ...  # type: ignore[empty-body]
def _positions(arrays: Sequence[Tensor], /, *, shape: tuple[int, ...]) -> Tensor: ...  # type: ignore[empty-body]


OF_LISTS: Final[dict[str, Callable[..., Any]]] = {"linear_index": _positions, "global_norm": _together}
"""Operations of lists, but for those along an axis."""


def shape_of(op: Op) -> Callable[..., Any]:
    """A function that has the signature of an operation."""
    if op.operands == -1:
        return OF_LISTS.get(op.name, _many)
    if op.parameters is None:
        return (_one, _two, _choice if op.name == "where" else _three)[op.operands - 1]
    if op.cast is accumulator:
        return _running if "include_initial" in op.parameters.__code__.co_varnames else _total
    op.parameters.__annotations__["return"] = "Tensor"
    return op.parameters


@advising
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """As the record says; a bound that is left out is the dtype's own."""
    x = asarray(x)
    low, high = integer_range(x.dtype) if x.dtype.is_integer else (-math.inf, math.inf)
    return apply(TABLE["clip"], (x, low if min is None else min, high if max is None else max))


@advising
def dropout(x: Any, /, p: float = 0.5, *, training: bool = True, generator: Any = None) -> Tensor:
    """As the record says; without a generator the default one is drawn from."""
    if training and not isinstance(generator, int):
        from micrograd_core.random import chosen_generator  # not before somebody draws

        generator = chosen_generator(generator)
    x, op = asarray(x), TABLE["dropout"]
    return apply_single(op, x, op.parameters(x, p, training=training, generator=generator))


@advising
def linear(x: Any, weight: Any, bias: Any = None, /) -> Tensor:
    """As the record says; without a bias nothing is added."""
    return apply(TABLE["linear"], (asarray(x), weight, 0.0 if bias is None else bias))


# ── bools and numbers, where NumPy takes either ──────────────────────────────────────────────────────────────


def _truth(x: Any) -> Any:
    """Bools as they are, numbers by whether they are not 0."""
    if isinstance(x, SCALARS):
        return bool(x)
    x = asarray(x)
    return x if x.dtype is bool_ else x != 0


def _number(x: Any, dtype: DType) -> Any:
    """False as 0 and true as 1."""
    return int(x) if isinstance(x, bool) else x.astype(dtype) if isinstance(x, Tensor) else x


def is_lenient(op: Op) -> bool:
    """Whether it takes more than the standard's: numbers, as a logical function, or bools, as a comparison."""
    plain = op.kind == "elementwise" and op.parameters is None
    return plain and (op.accepts == BOOLEAN or (op.result is to_bool and op.operands == 2))


def _converted(op: Op, operands: tuple[Any, ...]) -> Iterable[Any]:
    """Operands that such a function takes, from some that it refuses."""
    given = [x if isinstance(x, SCALARS) else asarray(x) for x in operands]
    if op.accepts == BOOLEAN:
        return map(_truth, given)
    kinds = [x.dtype for x in given if isinstance(x, Tensor)]
    if bool_ not in kinds and not any(isinstance(x, bool) for x in given):
        return operands  # which are refused again
    floats = float32 if any(isinstance(x, float) for x in given) else int64
    dtype = next((each for each in kinds if each is not bool_), floats)
    return (_number(x, dtype) for x in given)


def _with_an_axis(function: Callable[..., Any], ndim: int) -> Callable[..., Any]:
    """A function that takes tensors of `ndim` axes, too: with one of length 1 before them, which results lack."""

    def either(x: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        if x is None:
            return function(*args, **kwargs)  # refuses
        x = x if isinstance(x, Tensor) else asarray(x)
        if x.ndim != ndim:
            return function(x, *args, **kwargs)
        found = function(x.expand_dims(0), *args, **kwargs)
        if isinstance(found, Tensor):
            return found.reshape(found.shape[1:])
        return type(found)(*(each.reshape(each.shape[1:]) for each in found))

    return wraps(function)(either)


class Functions(Mapping[str, Callable[..., Tensor]]):
    """The public functions by name, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Callable[..., Tensor]] = {}

    def __getitem__(self, name: str) -> Callable[..., Tensor]:
        if name not in self._made:
            self._made.setdefault(name, self._make(TABLE[name]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, op in TABLE.items() if op.operands)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in TABLE and bool(TABLE[str(name)].operands)

    def _make(self, op: Op) -> Callable[..., Tensor]:
        if not op.operands:
            raise KeyError(op.name)
        for written in (clip, dropout, linear):
            if written.__name__ == op.name:
                written.__doc__ = docstring(op, written)
                return written
        function = _function(op)
        if op.name.endswith(("softmax", "softmin", "kthvalue")) or op in family("standard.scans").OPS:
            function = _with_an_axis(function, 0)
        if op.name.endswith(("1d", "2d", "3d")):
            from micrograd_core.array.images import widened  # imports families of networks

            function = _with_an_axis(widened(op.name, function, self), int(op.name[-2]) + 1)
        return function


FUNCTIONS: Final = Functions()
