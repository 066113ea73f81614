"""Extremes: special numbers and great lengths, for the operations that go through any numbers and any lengths."""

from __future__ import annotations

from collections.abc import Callable, Collection
from inspect import signature
from typing import Any, Final

import numpy as np

from micrograd_core.array.tensor import Tensor
from micrograd_core.conformance.cases import DEFINITIONS, ROUNDING, WIDE, Case, contiguous, download, rounded
from micrograd_core.conformance.forms import HOST
from micrograd_core.device import Device
from micrograd_core.dtypes import COMPLEX_OF, DTYPES, FORMATS, greatest, integer_range
from micrograd_core.ops import SAME, TABLE, Array, Op

FACTOR: Final = 64
"""How many roundings a device may be off, relative to the answer."""

ELEMENTWISE: Final = [
    op.name for op in TABLE.values() if op.kind == "elementwise" and op.parameters is None and op.operands < 3
]
"""Operations of one or two operands without parameters, which go element by element."""

IN_DTYPE: Final = frozenset({"nextafter"})
"""Operations that give another number in a wider dtype."""

REDUCTIONS: Final = [
    op.name
    for op in TABLE.values()
    if op.kind == "reduction" and op.standard and op.parameters is not None
    if "correction" not in signature(op.parameters).parameters
]
"""Reductions that one axis, or all, is all there is to say about."""

LENGTHS: Final = (33, 257, 1025, 4097, 66_049)
"""Beyond a warp, a row of threads, a block, a page, and what 16 bits count."""

SHAPES: Final = ((66_049,), (257, 257), (65_537, 2), (2, 65_537))
"""Shapes to reduce, each as a whole and along each axis."""


# ── which operations in which dtypes ─────────────────────────────────────────────────────────────────────────


def special(dtypes: Collection[str], capabilities: Collection[str]) -> dict[str, tuple[Op, str]]:
    """Elementwise operations and reductions in every dtype that they accept, such as ``maximum-float32``."""
    return {
        f"{name}-{dtype}": (TABLE[name], dtype)
        for name in (*ELEMENTWISE, *REDUCTIONS)
        for dtype in DTYPES
        if _has(TABLE[name], dtype, dtypes, capabilities)
    }


def large(dtypes: Collection[str], capabilities: Collection[str]) -> dict[str, tuple[Op, str]]:
    """Elementwise operations, reductions and `MOVED`, in one dtype of each kind: see `usual`."""
    found: dict[str, tuple[Op, str]] = {}
    for name in (*ELEMENTWISE, *REDUCTIONS, *MOVED):
        for dtype in usual(dtypes):
            if _has(TABLE[name], dtype, dtypes, capabilities):
                found[f"{name}-{dtype}"] = (TABLE[name], dtype)
    return found


def usual(dtypes: Collection[str]) -> list[str]:
    """One dtype of each kind: the one that kernels are most often written for."""
    kinds: dict[str, str] = {}
    for dtype in ("float32", "int32", "complex64", "bool", "uint8", *DTYPES):
        if dtype in dtypes:
            kinds.setdefault(DTYPES[dtype].kind, dtype)
    return list(kinds.values())


def _has(op: Op, dtype: str, dtypes: Collection[str], capabilities: Collection[str]) -> bool:
    kind = DTYPES[dtype].kind
    return (
        dtype in dtypes
        and not (dtype in HOST and op.name in IN_DTYPE)
        and (not op.capability or op.capability in capabilities)
        and (kind != "complex floating" or "complex" in capabilities)
        and all(kind in op.accepted(i) for i in range(op.operands) if i not in op.separate)
    )


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


def numbers(dtype: str) -> Any:
    """What goes wrong first: zeros of both signs, the ends of the range, infinities and NaN, and ordinary numbers."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return np.array([False, True])
    if kind == "complex floating":
        return np.array([0, 1, -1, 1j, -1j, 1 + 1j, -2 - 0.5j, 3 - 4j, 0.5, -2.5, 30 + 40j], dtype)
    if kind != "real floating":
        low, high = integer_range(DTYPES[dtype])
        return np.array([x for x in (0, 1, 2, 3, 7, 100, high - 1, high, low + 1, low, -1, -2, -7) if x >= low], dtype)
    largest, smallest = limits(dtype)
    finite = [0.5, 1.0, 1.5, 2.0, 3.0, 20.0, 100.0, 1000.0, largest, smallest]
    return rounded([0.0, -0.0, *finite, *(-x for x in finite), np.inf, -np.inf, np.nan], dtype)


def limits(dtype: str) -> tuple[float, float]:
    """The largest number of a real floating dtype, and the smallest with all its digits."""
    return greatest(DTYPES[dtype]), 2.0 ** FORMATS[dtype][1]


def pairs(op: Op, dtype: str) -> list[Any]:
    """Operands for one operation: each number, or each with each, but those that the operation leaves undefined."""
    x = numbers(dtype)
    if op.name in ("signbit", "copysign"):  # the sign of NaN is nobody's promise
        x = x[~np.isnan(x)]
    if op.operands == 1:
        return [x]
    x, y = np.repeat(x, len(x)), np.tile(x, len(x))
    if not DTYPES[dtype].is_integer:
        if op.name == "complex":  # made by arithmetic where there is no kernel, which spoils infinities
            keep = np.isfinite(x) & np.isfinite(y)
            return [x[keep], y[keep]]
        if op.name == "pow" and DTYPES[dtype].is_complex:  # greater exponents magnify the rounding of the logarithm
            return [x[np.abs(y) <= 5], y[np.abs(y) <= 5]]
        if op.name == "times_normal":  # a rounding of y counts y * y times far in the tail, which also underflows
            keep = ~(np.abs(y) > 5) | np.isinf(y)
            x, y = x[keep], y[keep]
        if op.name not in ("floor_divide", "remainder", "fmod"):
            return [x, y]
        with np.errstate(all="ignore"):  # a quotient of more digits than the dtype has need not be exact
            quotient = np.abs(x.astype("float64") / y)
        keep = (quotient < 1 / ROUNDING.get(dtype, 2.0**-52)) | ~np.isfinite(x) | ~np.isfinite(y) | (y == 0)
        if op.name == "floor_divide":  # libraries follow the standard or Python: 1 // -inf is -0 or -1
            keep &= ~(np.isinf(x) | np.isinf(y))
        return [x[keep], y[keep]]
    bits, keep = DTYPES[dtype].bits, np.ones(x.shape, "bool")
    if op.name in ("floor_divide", "remainder", "fmod"):
        keep = ~((x == integer_range(DTYPES[dtype])[0]) & (y.astype("float64") == -1))
    if op.name in ("bitwise_left_shift", "bitwise_right_shift"):
        keep = (y >= 0) & (y < bits)
    if op.name == "pow":
        keep = (y >= 0) & (y <= 7)
    return [x[keep], y[keep]]


def rows(dtype: str) -> Any:
    """A row for each special number, which comes first, last or between others; one of all zeros, one of ones."""
    found = []
    for i, x in enumerate(numbers(dtype)):
        row = np.ones(5, numbers(dtype).dtype)
        row[i % 5] = x
        found.append(row)
    return np.stack([*found, np.zeros_like(row), np.ones_like(row)])


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────


def defined(op: Op, dtype: str, arrays: list[Any], **params: Any) -> Any:
    """What the definition gives, computed in float64 and rounded to the dtype of the result."""
    real = dtype if DTYPES[dtype].kind == "real floating" else "float32" if dtype == "complex64" else "float64"
    if op.name not in IN_DTYPE:
        arrays = [x.astype(WIDE.get(str(x.dtype), "float64")) if x.dtype.kind in "fc" else x for x in arrays]
    with np.errstate(all="ignore"):
        result = np.asarray(op.reference(DEFINITIONS, *arrays, **params))
        if result.dtype.kind == "f":
            return rounded(result, real).astype("float64")
        return result.astype(COMPLEX_OF[DTYPES[real]].name).astype("complex128") if result.dtype.kind == "c" else result


def check(found: Tensor, expected: Any, dtype: str, about: str, *, inputs: Any, scale: float = 0.0) -> None:
    """Equal integers; floats within some roundings of each (or of `scale`), NaN and infinities where expected."""
    exact = expected.dtype.kind in "biu"
    assert found.shape == expected.shape, f"{about}: shape {found.shape}, expected {expected.shape}"
    held = expected.dtype if exact else "complex128" if expected.dtype.kind == "c" else "float64"
    numbers = download(found).astype(held)
    with np.errstate(all="ignore"):
        same = (numbers == expected) | ((numbers != numbers) & (expected != expected))
        if not exact:
            name = HOST.get(dtype, dtype)
            tiny = float(np.finfo(name).smallest_normal) if np.dtype(name).kind in "fc" else 0.0
            near = FACTOR * (ROUNDING.get(dtype, 2.0**-52) * np.maximum(np.abs(expected), scale) + tiny)
            same |= np.isfinite(numbers) & np.isfinite(expected) & (np.abs(numbers - expected) <= near)
    if same.all():
        return
    first = tuple(np.argwhere(~same)[0].tolist())
    raise AssertionError(
        f"{about}: {np.count_nonzero(~same)} of {same.size} numbers are wrong; at {first}, of {inputs(first)}, "
        f"got {numbers[first]}, expected {expected[first]}"
    )


def lacks(op: Op, dtype: str, device: Device) -> bool:
    """Whether the result would be of a dtype that the device does not have."""
    common = DTYPES[dtype] if op.cast is None else op.cast(DTYPES[dtype])
    told: Any = op.result
    wanted = common if told is SAME else told(common, {"dtype": None})
    return not {wanted.name, common.name} <= set(device.kernels.backend.dtypes)


def at(arrays: list[Any], place: tuple[int, ...]) -> str:
    """The operands of one element of the result."""
    return " and ".join(str(x[place].tolist()) if len(place) <= x.ndim and place else str(x.tolist()) for x in arrays)


def plain(op: Op, dtype: str, device: Device) -> list[Case]:
    """The cases of an operation in a dtype whose operands are all arrays, laid out as they come."""
    return [
        case
        for case in contiguous(op, dtype, device)
        if case.sample.params == {} and all(isinstance(x, Array) for x in case.sample.operands)
    ]


def ended(shape: tuple[int, ...], dtype: str) -> Any:
    """Ones between a 2 and a 3: no part of their product leaves a dtype's range, in whatever order it is made."""
    x = np.ones(shape, "int64")
    x.ravel()[[0, -1]] = 2, 3
    return x.astype(dtype)


def marked(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers of which the last, and before it the last but one, along every axis decide what is greatest and least."""
    x = np.arange(np.prod(shape)).reshape(shape) % 7 - 3
    for axis in range(len(shape)):
        last = np.moveaxis(x, axis, 0)
        last[-2], last[-1] = -50, 50
    kind = DTYPES[dtype].kind
    return (x == 50 if kind == "bool" else np.abs(x) if kind == "unsigned integer" else x).astype(dtype)


def _counted(*shape: int, dtype: str) -> Any:
    """Different numbers side by side, few enough that all sums of products are exact."""
    return (np.arange(np.prod(shape)) % 13 % (2 if dtype == "bool" else 13)).astype(dtype).reshape(shape)


def _moved(*calls: tuple[tuple[tuple[int, ...], ...], dict[str, Any]]) -> Callable[[str], Any]:
    return lambda dtype: [([_counted(*shape, dtype=dtype) for shape in shapes], params) for shapes, params in calls]


MOVED: Final[dict[str, Callable[[str], list[tuple[list[Any], dict[str, Any]]]]]] = {
    "matmul": _moved(
        (((33, 257), (257, 17)), {}),
        (((1, 66_049), (66_049, 1)), {}),
        (((65_537, 2), (2, 1)), {}),
        (((1, 2), (2, 65_537)), {}),
        (((257, 2, 3), (257, 3, 2)), {}),
    ),
    "permute_dims": _moved((((257, 257),), {"axes": (1, 0)}), (((2, 65_537),), {"axes": (1, 0)})),
    "reshape": _moved((((257, 257),), {"shape": (66_049,)})),
    "broadcast_to": _moved((((257, 1),), {"shape": (257, 257)}), (((1, 2),), {"shape": (65_537, 2)})),
    "flip": _moved((((257, 257),), {"axis": (0, 1)})),
    "roll": _moved((((257, 257),), {"shift": 5, "axis": 1})),
    "getitem": _moved(
        (((66_049,),), {"key": slice(None, None, -1)}), (((257, 257),), {"key": (slice(1, None), slice(None, None, 2))})
    ),
    "scatter": _moved((((66_049,), (66_049,)), {"key": slice(None, None, -1)})),
    "where": lambda dtype: [
        ([_counted(66_049, dtype="bool"), *(_counted(66_049, dtype=dtype)[::step] for step in (1, -1))], {})
    ],
    "sort": _moved((((66_049,),), {}), (((3, 4097),), {"axis": 1})),
    "cumulative_sum": _moved((((66_049,),), {}), (((65_537, 2),), {"axis": 1}), (((3, 4097),), {"axis": 1})),
}
"""Calls of operations that move elements, or that combine them along an axis."""
