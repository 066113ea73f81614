"""Values: special numbers, long and many axes, and conversions; what small samples of ordinary numbers don't show."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.conformance.base import Suite
from micrograd_core.conformance.cases import DEFINITIONS, ROUNDING, Case, apart, contiguous, held, rounded, upload, wide
from micrograd_core.conformance.forms import HOST, IN_DTYPE, MOVED, REDUCTIONS
from micrograd_core.device import Device
from micrograd_core.dtypes import COMPLEX_OF, DTYPES, FORMATS, greatest, integer_range
from micrograd_core.ops import SAME, TABLE, Array, Op

FACTOR: Final = 64
"""How many roundings a device may be off, relative to the answer."""

LENGTHS: Final = (33, 257, 1025, 4097, 66_049)
"""Beyond a warp, a row of threads, a block, a page, and what 16 bits count."""

SHAPES: Final = ((66_049,), (257, 257), (65_537, 2), (2, 65_537))
"""Shapes to reduce, each as a whole and along each axis."""


class Values(Suite):
    """What samples of a few ordinary numbers don't show."""

    def test_special_values(self, special: tuple[Op, str], opened: Device) -> None:
        """Zeros, NaN, infinities and the ends of the range, alone, in pairs, and among others in a reduction."""
        op, dtype = special
        about = f"{op.name} in {dtype}"
        if op.name in REDUCTIONS:
            x = rows(dtype)
            if op.name in ("argmax", "argmin"):
                x = x[~np.isnan(x).any(axis=1)]
            calls: list[tuple[list[Any], dict[str, Any]]] = [([x], {"axis": 1}), ([x[-1:]], {}), ([x[:1]], {})]
        else:
            calls = [(pairs(op, dtype), {})]
        for arrays, params in calls:
            expected = defined(op, dtype, arrays, **params)
            if (not expected.shape and DTYPES[dtype].is_complex) or lacks(op, dtype, opened):
                continue
            if DTYPES[dtype].is_complex and op.name not in REDUCTIONS:
                finite = np.isfinite(expected)
                arrays, expected = [x[finite] for x in arrays], expected[finite]
            operands = [upload(x, opened, dtype) for x in arrays]
            with np.errstate(all="ignore"):
                found = FUNCTIONS[op.name](*operands, **params)
            check(found, expected, dtype, about, inputs=partial(at, arrays))

    def test_sizes(self, large: tuple[Op, str], opened: Device) -> None:
        """Kernels of the device's own go to the end, however many elements there are; compositions are made of them."""
        op, dtype = large
        if not opened.kernels.is_native(op.name) or lacks(op, dtype, opened):
            return
        if op.name in MOVED:
            calls: list[tuple[list[Any], dict[str, Any]]] = MOVED[op.name](dtype)
        elif op.name in REDUCTIONS:
            calls = [
                ([(ended if op.name == "prod" else marked)(shape, dtype)], {} if axis is None else {"axis": axis})
                for shape in SHAPES
                for axis in (None, *range(len(shape)))
                if not (axis is not None and op.name == "prod")
            ]
        else:
            calls = [
                (case._replace(shape=(length,)).arrays(), {})
                for case in plain(op, dtype, opened)[:1]
                for length in LENGTHS
            ]
        for arrays, params in calls:
            expected = defined(op, dtype, arrays, **params)
            with np.errstate(all="ignore"):
                got = FUNCTIONS[op.name](*(upload(x, opened, dtype) for x in arrays), **params)
            shapes = " and ".join(str(x.shape) for x in arrays)
            about = f"{op.name} in {dtype} of {shapes}" + "".join(f", {key}={value}" for key, value in params.items())
            check(got, expected, dtype, about, inputs=lambda place: "these", scale=1.0)

    def test_many_axes(self, dtype: str, opened: Device) -> None:
        """Thirteen axes that no order of them merges, because two operands are repeated along every other one each."""
        shapes = (tuple(1 + (axis + turn) % 2 for axis in range(13)) for turn in (0, 1))
        x, y = (rounded((np.arange(np.prod(shape)) % 5 > 1) + 1.0, dtype).reshape(shape) for shape in shapes)
        if dtype == "bool":
            x, y = x.astype("int8") > 0, np.arange(y.size).reshape(y.shape) % 3 == 0
        name = "bitwise_xor" if dtype == "bool" else "add"
        expected = defined(TABLE[name], dtype, [x, y])
        found = FUNCTIONS[name](upload(x, opened, dtype), upload(y, opened, dtype))
        check(found, expected, dtype, f"{name} in {dtype} of 13 axes", inputs=str)
        every_other = (slice(None, None, -1), slice(None)) * 6
        found, array = found[every_other].transpose(), rounded(expected[every_other].T, dtype)
        about = f"{name} in {dtype} of 13 axes, every other one reversed, in the opposite order"
        again = defined(TABLE[name], dtype, [array, x])
        check(FUNCTIONS[name](found, upload(x, opened, dtype)), again, dtype, about, inputs=str)

    def test_astype(self, dtype: str, opened: Device) -> None:
        """To every other dtype of the device: what is not 0 is true, fractions are dropped, integers wrap."""
        for target in opened.kernels.backend.dtypes:
            if target not in DTYPES or (DTYPES[dtype].is_complex and not DTYPES[target].is_complex):
                continue
            x = numbers(dtype)
            if DTYPES[target].is_integer and DTYPES[dtype].kind == "real floating":
                low, high = (-100, 100) if DTYPES[target].kind == "signed integer" else (0, 100)
                x = x[(x >= low) & (x <= high)]
            with np.errstate(all="ignore"):
                expected = rounded(x.astype("float64") if dtype == "bfloat16" else x, target)
                found = upload(x, opened, dtype).astype(target)
            assert str(found.dtype) == target, f"astype from {dtype} to {target}: became {found.dtype}"
            check(found, expected, target, f"astype from {dtype} to {target}", inputs=partial(at, [x]))


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
    largest, smallest = greatest(DTYPES[dtype]), 2.0 ** FORMATS[dtype][1]  # that has all its digits
    finite = [0.5, 1.0, 1.5, 2.0, 3.0, 20.0, 100.0, 1000.0, largest, smallest]
    return rounded([0.0, -0.0, *finite, *(-x for x in finite), np.inf, -np.inf, np.nan], dtype)


def pairs(op: Op, dtype: str) -> list[Any]:
    """Operands for one operation: each number, or each with each, but those that the operation leaves undefined."""
    x = numbers(dtype)
    if op.name in ("signbit", "copysign"):  # the sign of NaN is nobody's promise
        x = x[~np.isnan(x)]
    if op.operands == 1:
        return [x]
    x, y = np.repeat(x, len(x)), np.tile(x, len(x))
    keep, finite = np.ones(x.shape, "bool"), np.isfinite(x) & np.isfinite(y)
    if op.name == "complex":  # made by arithmetic where there is no kernel, which spoils infinities
        keep = finite
    elif op.name == "times_normal":  # a rounding of y counts y * y times far in the tail, which also underflows
        keep = ~(np.abs(y) > 5) | np.isinf(y)
    elif op.name == "pow" and DTYPES[dtype].is_complex:  # greater exponents magnify the rounding of the logarithm
        keep = np.abs(y) <= 5
    elif op.name == "pow" and DTYPES[dtype].is_integer:
        keep = (y >= 0) & (y <= 7)
    elif op.name in ("bitwise_left_shift", "bitwise_right_shift"):
        keep = (y >= 0) & (y < DTYPES[dtype].bits)
    elif op.name in ("floor_divide", "remainder", "fmod") and DTYPES[dtype].is_integer:
        keep = ~((x == integer_range(DTYPES[dtype])[0]) & (y.astype("float64") == -1))
    elif op.name in ("floor_divide", "remainder", "fmod"):
        with np.errstate(all="ignore"):  # a quotient of more digits than the dtype has need not be exact
            keep = (np.abs(x.astype("float64") / y) < 1 / ROUNDING.get(dtype, 2.0**-52)) | ~finite | (y == 0)
        if op.name == "floor_divide":  # libraries follow the standard or Python: 1 // -inf is -0 or -1
            keep &= ~(np.isinf(x) | np.isinf(y))
    return [x[keep], y[keep]]


def rows(dtype: str) -> Any:
    """A row for each special number, which comes first, last or between others; one of all zeros, one of ones."""
    x = numbers(dtype)
    found = np.ones((len(x) + 2, 5), x.dtype)
    found[range(len(x)), np.arange(len(x)) % 5] = x
    found[-2] = 0
    return found


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────


def defined(op: Op, dtype: str, arrays: list[Any], **params: Any) -> Any:
    """What the definition gives, computed in float64 and rounded to the dtype of the result."""
    real = dtype if DTYPES[dtype].kind == "real floating" else "float32" if dtype == "complex64" else "float64"
    if op.name not in IN_DTYPE:
        arrays = [*map(wide, arrays)]
    with np.errstate(all="ignore"):
        result = np.asarray(op.reference(DEFINITIONS, *arrays, **params))
        if result.dtype.kind == "f":
            return rounded(result, real).astype("float64")
        return result.astype(COMPLEX_OF[DTYPES[real]].name).astype("complex128") if result.dtype.kind == "c" else result


def check(found: Tensor, expected: Any, dtype: str, about: str, *, inputs: Any, scale: float = 0.0) -> None:
    """Equal integers; floats within some roundings of each (or of `scale`), NaN and infinities where expected."""
    assert found.shape == expected.shape, f"{about}: shape {found.shape}, expected {expected.shape}"
    numbers, name = held(found, expected), HOST.get(dtype, dtype)
    near: Any = 0
    if expected.dtype.kind in "fc":
        tiny = float(np.finfo(name).smallest_normal) if np.dtype(name).kind in "fc" else 0.0
        size = np.maximum(np.where(np.isfinite(expected), np.abs(expected), 0), scale)
        near = FACTOR * (ROUNDING.get(dtype, 2.0**-52) * size + tiny)
    wrong = apart(numbers, expected, near)
    if not wrong.any():
        return
    first = tuple(np.argwhere(wrong)[0].tolist())
    raise AssertionError(
        f"{about}: {np.count_nonzero(wrong)} of {wrong.size} numbers are wrong; at {first}, of {inputs(first)}, "
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
