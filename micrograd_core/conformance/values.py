"""Values: special numbers, long and many axes, and conversions; what small samples of ordinary numbers don't show."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance.base import Suite, since
from micrograd_core.conformance.cases import rounded, upload
from micrograd_core.conformance.extremes import (
    LENGTHS,
    MOVED,
    REDUCTIONS,
    SHAPES,
    at,
    check,
    defined,
    ended,
    lacks,
    marked,
    numbers,
    pairs,
    plain,
    rows,
)  # fmt: skip
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import TABLE, Op


class Values(Suite):
    """What samples of a few ordinary numbers don't show."""

    @since(1)
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
            if not expected.shape and DTYPES[dtype].is_complex:
                continue
            if lacks(op, dtype, opened):
                continue
            if DTYPES[dtype].is_complex and op.name not in REDUCTIONS:
                finite = np.isfinite(expected)
                arrays, expected = [x[finite] for x in arrays], expected[finite]
            operands = [upload(x, opened, dtype) for x in arrays]
            with np.errstate(all="ignore"):
                found = FUNCTIONS[op.name](*operands, **params)
            check(found, expected, dtype, about, inputs=partial(at, arrays))

    @since(1)
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

    @since(1)
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

    @since(1)
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
                plain = x.astype("float64") if dtype == "bfloat16" else x
                expected = rounded(plain, target)
                found = upload(x, opened, dtype).astype(target)
            assert str(found.dtype) == target, f"astype from {dtype} to {target}: became {found.dtype}"
            check(found, expected, target, f"astype from {dtype} to {target}", inputs=partial(at, [x]))
