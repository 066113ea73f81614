"""What records share: constructors that supply samples, small rules, precision, axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any

from micrograd_core.dtypes import COMPLEX_OF, DTYPES, REAL_OF, DType, bool_, float32, int64, integer_range
from micrograd_core.errors import one_of
from micrograd_core.layout import Shape, broadcast_shapes, resolve_axes
from micrograd_core.ops.arguments import Function, advising
from micrograd_core.ops.record import CALL, FLOATING, NEST, Array, Handle, Op, Operand, Sample, Table, TypeIs
from micrograd_core.ops.tangents import symmetric, zero


def zero_rule(k: Table, g: Handle, out: Handle, x: Operand) -> Any:
    """Steps have derivative zero wherever they have one; at the jumps zero is the convention."""
    return zero(k, x)


def whole(op: str, what: str, x: Any) -> int:
    """An argument that is one integer, of Python's own class: kernels know no other."""
    try:
        return int(index(x))
    except TypeError:
        raise TypeError(f"{op}: {what} is an integer; got {x!r}") from None


def chosen(op: str, what: str, x: Any, possible: Iterable[Any]) -> Any:
    """An argument that is one of some words."""
    if x not in possible:
        raise ValueError(f"{op}: {what} is {one_of(map(repr, possible))}; got {x!r}")
    return x


def is_scalar(x: Any) -> TypeIs[int | float | complex]:
    """Whether an operand is a Python number; exactly, because a handle may be a subclass, as NumPy's float64 is."""
    return type(x) in (bool, int, float, complex)


def arrays(k: Table, *operands: Operand) -> tuple[Handle, ...]:
    """Operands of which some may be scalars, all as arrays."""
    dtype = next(x.dtype for x in operands if not is_scalar(x))
    return tuple(k.full(shape=(), fill_value=x, dtype=dtype) if is_scalar(x) else x for x in operands)


def wrapped(number: Any, dtype: DType) -> Any:
    """A Python number that stands for `number` beside a tensor: of integers the one that it wraps to in `dtype`."""
    if not dtype.is_integer or not isinstance(number, int):
        return number
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def mirror(k: Table, x: Handle) -> Handle:
    """The same elements in the opposite order, without overflow: ``-x`` of floats, ``~x`` of integers and bools."""
    return k.negative(x) if k.dtype(x).is_floating else k.bitwise_invert(x)


def ends_of(dtype: DType) -> tuple[float, float]:
    """The ends of the order of a dtype's numbers."""
    return (-math.inf, math.inf) if dtype.is_floating else integer_range(dtype)


def in_dtype_of(k: Table, real: Handle, x: Handle) -> Handle:
    """Real numbers in the dtype of `x`."""
    return real if real.dtype == x.dtype else k.astype(real, dtype=x.dtype)


def at_least_single(dtype: DType, params: Any = None) -> DType:
    """float32 in the place of half precision, in which nobody factorises, transforms or adds up."""
    return float32 if dtype.bits == 16 and dtype.is_floating else dtype


def to_bool(dtype: DType, params: dict[str, Any]) -> DType:
    """The result is true or false."""
    return bool_


def to_int64(dtype: DType, params: dict[str, Any]) -> DType:
    """The result is a position or a count."""
    return int64


def real_dtype(dtype: DType, params: dict[str, Any]) -> DType:
    """That of a part of a number: of real ones their own."""
    return REAL_OF.get(dtype, dtype)


def complex_dtype(dtype: DType, params: Any = None) -> DType:
    """The one whose parts are of a real dtype; a complex one itself."""
    return COMPLEX_OF.get(dtype, dtype)


elementwise = functools.partial(Op, kind="elementwise", check=broadcast_shapes, tangent=symmetric)
"""An operation of several operands, which broadcast."""


locating = functools.partial(Op, result=to_int64, gradient="positions are not differentiable")
"""An operation that says where something is."""


def binary(name: str, doc: str = "", *, low: float = -2.0, **facts: Any) -> Op:
    """An elementwise operation of the standard, with samples for equal shapes, broadcasting, 0-d, scalars beside."""
    a, b, c, one, none = (Array(shape, low) for shape in ((2, 3), (3,), (2, 1), (), (0, 3)))
    pairs = ((a, a), (a, b), (c, b), (a, one), (one, one), (a, 1.5), (0.5, b), (none, b))
    samples = tuple(Sample(*pair) for pair in pairs)
    return elementwise(name, doc, operands=2, **{"samples": samples, "standard": True, **facts})


def calls(*ops: Op) -> tuple[Op, ...]:
    """Operations whose `lowering` is a call, but for those that say another."""
    for op in ops:
        op.lowering = op.lowering or CALL
    return ops


def by_position(rule: Callable[[int], Any]) -> Callable[[Sequence[bool]], Any]:
    """The gradient of an operation of any number of operands: `rule` gives that of each."""
    return lambda asked: map(rule, range(len(asked)))


def unary(name: str, doc: str = "", *, low: float = -2.0, high: float = 2.0, **facts: Any) -> Op:
    """An elementwise operation of the standard, with samples drawn from its domain."""
    samples = tuple(Sample(Array(shape, low, high)) for shape in ((2, 3), (), (0, 2)))
    return Op(name, doc, **{"samples": samples, "tangent": symmetric, "kind": "elementwise", "standard": True, **facts})


# ── of networks ──────────────────────────────────────────────────────────────────────────────────────────────

network = functools.partial(Op, accepts=FLOATING)
"""An operation of floating-point numbers, as most of networks are."""
nest = functools.partial(network, lowering=NEST)
"""One whose composition is a nest or two, and takes array libraries several passes."""


def at_once(name: str, rules: tuple[Any, ...], weight: int, bias: int) -> Any:
    """Rules by which the operation `name` makes the gradients of input, weight and bias, where all three are wanted."""

    def gradient(asked: Sequence[bool]) -> tuple[Any, ...]:
        if not (asked[0] and asked[weight] and asked[bias]):
            return rules
        made: list[Any] = []

        def part(i: int, position: int, k: Table, g: Handle, out: Any, x: Handle, *others: Any, **params: Any) -> Any:
            if not params.pop("training", True):  # statistics that are given do not depend on the input
                return rules[position](k, g, out, x, *others, training=False, **params)
            if not made:
                made.extend(getattr(k, name)(g, x, others[weight - 1], **params))
            return made[i]

        found = list(rules)
        for i, position in enumerate((0, weight, bias)):
            found[position] = functools.partial(part, i, position)
        return tuple(found)

    return gradient


NARROW = tuple(each for each in DTYPES.values() if each.is_floating and each.bits == 16)


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A composition or rule that adds up float16 and bfloat16 numbers as float32, and rounds once, at the end."""

    @functools.wraps(function)
    def widened(k: Table, *operands: Handle, **params: Any) -> Any:
        dtypes = [None if is_scalar(x) else k.dtype(x) for x in operands]
        narrow = next(filter(NARROW.__contains__, dtypes), None)
        if narrow is None:
            return function(k, *operands, **params)
        wide = (k.astype(x, dtype=float32) if dtype in NARROW else x for x, dtype in zip(operands, dtypes, strict=True))
        return k.astype(function(k, *wide, **params), dtype=narrow)

    return widened


SPELLINGS = {
    "axis": ("dim", "dims"), "axes": ("dims", "dim"), "axis1": ("dim1",), "axis2": ("dim2",), "keepdims": ("keepdim",),
    "dim": ("axis",), "keepdim": ("keepdims",),
}  # fmt: skip
"""What else an argument may be called, by its own name: PyTorch's words beside those of NumPy and the standard."""


def other_spellings(names: Iterable[str]) -> dict[str, str]:
    """What else the parameters of a function may be called, and their own names."""
    own = set(names)
    return {other: name for name in own for other in SPELLINGS.get(name, ()) if other not in own}


def respelled(name: str, given: dict[str, Any], others: Mapping[str, str]) -> dict[str, Any]:
    """Named arguments by their own names."""
    found = {}
    for each, value in given.items():
        own = others.get(each, each)
        if own in found or (own != each and own in given):
            raise TypeError(f"{name}: {each} and {own} are the same argument; give one of them")
        found[own] = value
    return found


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Those of a Python function."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def both_spellings(function: Function) -> Function:
    """The function, which takes `dim` and `keepdim` for `axis` and `keepdims` too, or the other way round."""
    others = other_spellings(parameter_names(function))
    return advising(function, lambda named: respelled(function.__name__, named, others))


OF_REDUCTIONS = other_spellings(("axis", "keepdims"))


def stays(name: str, keepdims: Any) -> bool:
    """Whether reduced axes stay; an integer in that place is refused, as it is meant for another axis."""
    if type(keepdims) is int:
        raise TypeError(
            f"{name}: keepdims is True or False; got {keepdims}. Several axes are a tuple: x.{name}((0, 1))"
        )
    return bool(keepdims)


def reduction_arguments(name: str, axis: Any, keepdims: bool, others: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a reduction's method: by position, and named as the standard, PyTorch or ``np.sum(x)`` name them."""
    if "out" in others:
        if others["out"] is not None:
            raise TypeError(f"{name}: there is no out=; write x[...] = mg.{name}(...), with mg for micrograd_core")
        raise TypeError(
            f"np.{name} is NumPy's, and takes its arrays; write mg.{name}(x), with mg for micrograd_core, or "
            f"np.{name}(x.detach().numpy())"
        )
    others = respelled(name, others, OF_REDUCTIONS)
    for each in others.keys() & {"where", "initial", "unbiased", "ddof"}:  # no reduction takes them
        from micrograd_core.suggestions import table

        raise TypeError(f"{name}() got an unexpected keyword argument {each!r}; {table('argument')[each]}")
    if (axis is not None and "axis" in others) or (keepdims and "keepdims" in others):
        raise TypeError(f"{name}: axis (dim) or keepdims (keepdim) was given twice")
    return {"axis": axis, "keepdims": keepdims, **others}


def axes_of(op: str, x: Any, axis: int | tuple[int, ...] | None) -> Shape:
    """Axes to reduce over as a sorted tuple; ``None`` means all of them."""
    ndim = len(x.shape)
    axes = resolve_axes(op, axis, ndim)
    return tuple(range(ndim)) if axes is None else tuple(sorted(axes))


def along_axis(x: Any, axis: int, ndim: int) -> Shape:
    """The shape that lays a vector along one of `ndim` axes."""
    return tuple(x.shape[0] if each == axis else 1 for each in range(ndim))


def positions(k: Table, x: Handle, axis: int) -> Handle:
    """0, 1, 2, … along an axis of `x`, with axes of length 1 for those behind it."""
    length, behind = x.shape[axis], len(x.shape) - axis - 1
    counted = k.arange(length, dtype=int64)
    return k.reshape(counted, shape=(length,) + (1,) * behind) if behind else counted


def times(k: Table, x: Handle, weight: Operand) -> Handle:
    """``x * weight``, and just `x` for a weight left out."""
    return x if is_scalar(weight) and weight == 1 else k.multiply(x, weight)


def plus(k: Table, x: Handle, bias: Operand) -> Handle:
    """``x + bias``, and just `x` for a bias left out."""
    return x if is_scalar(bias) and bias == 0 else k.add(x, bias)


def by_channel(k: Table, parameter: Operand, ndim: int, axis: int = 1) -> Any:
    """One number for each channel, laid along axis 1 of `ndim`, or another one; a number for all as it is."""
    if is_scalar(parameter) or not parameter.shape:
        return parameter
    return k.reshape(parameter, shape=along_axis(parameter, axis, ndim))


def check_reduction(name: str, reduction: str, *more: str) -> None:
    """Refuse a reduction that a loss does not know."""
    chosen(name, "reduction", reduction, ("mean", "sum", *more, "none"))


def span(shape: Shape, axis: int, start: int, stop: int) -> tuple[slice, ...]:
    """The key of ``[..., start:stop, ...]`` along an axis, by bounds within it."""
    key = [slice(0, n, 1) for n in shape]
    key[axis] = slice(start, stop, 1) if start < stop else slice(0, 0, 1)
    return tuple(key)


def cut(k: Table, x: Handle, axis: int, start: int, stop: int) -> Handle:
    """``x[..., start:stop, ...]`` along an axis, by bounds within it."""
    return k.getitem(x, key=span(x.shape, axis, start, stop))
