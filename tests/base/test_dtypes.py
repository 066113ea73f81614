"""The dtype table: names, promotion as the standard's tables say, bytes in and out."""

from __future__ import annotations

import math
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from micrograd_core.dtypes import DTYPES, bfloat16, dtype, float16, float32, infer, pack, promote, unpack
from micrograd_core.errors import DTypeError


def test_dtypes_compare_by_identity_and_pickle() -> None:
    assert dtype("float32") is dtype(np.float32) is dtype(np.dtype("float32")) is float32
    assert dtype(float) is float32
    assert dtype("bool") is dtype(bool)
    assert pickle.loads(pickle.dumps(float32)) is float32
    assert str(float32) == "float32"
    assert repr(float32) == "micrograd_core.float32"
    assert [DTYPES[name].itemsize for name in ("bool", "bfloat16", "complex128")] == [1, 2, 16]


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_promotion_is_the_standards(a: str, b: str) -> None:
    """NumPy agrees wherever the standard defines a result; across kinds the higher one decides, as in PyTorch."""
    order = ["bool", "integer", "floating"]
    ranks = [order.index(DTYPES[each].kind.split()[-1]) for each in (a, b)]
    if {a, b} in ({"uint64", f"int{n}"} for n in (8, 16, 32, 64)):
        with pytest.raises(DTypeError, match="do not promote"):
            promote("add", DTYPES[a], DTYPES[b])
    elif ranks[0] != ranks[1]:
        assert promote("add", DTYPES[a], DTYPES[b]).name == (a if ranks[0] > ranks[1] else b)
    elif "bfloat16" in (a, b):
        assert promote("add", DTYPES[a], DTYPES[b]) is promote("add", DTYPES[b], DTYPES[a])
    else:
        assert promote("add", DTYPES[a], DTYPES[b]).name == np.promote_types(a, b).name


def test_half_types_meet_in_float32() -> None:
    assert promote("add", float16, bfloat16) is float32
    assert promote("add", bfloat16, DTYPES["complex64"]).name == "complex64"


@pytest.mark.parametrize("name", DTYPES)
def test_bytes_there_and_back(name: str) -> None:
    values = {"bool": [True, False], "unsigned integer": [0, 7, 255]}.get(DTYPES[name].kind, [0, 1, -2])
    assert unpack(pack(values, DTYPES[name]), DTYPES[name]) == values
    if name != "bfloat16":
        assert pack(values, DTYPES[name]) == np.array(values, name).tobytes()


@given(st.floats(width=32))
def test_bfloat16_rounds_to_nearest_even(value: float) -> None:
    (found,) = unpack(pack([value], bfloat16), bfloat16)
    if math.isnan(value):
        assert math.isnan(found)
        return
    bits = struct.unpack("I", struct.pack("f", value))[0]
    below, above = (struct.unpack("f", struct.pack("I", (bits >> 16) + up << 16))[0] for up in (0, 1))
    if math.isfinite(value) and math.isfinite(above):
        assert abs(found - value) == min(abs(below - value), abs(above - value))


def test_numbers_too_large_for_bfloat16_are_infinite() -> None:
    assert unpack(pack([1e300, -1e300], bfloat16), bfloat16) == [math.inf, -math.inf]


def test_infer_takes_the_highest_kind() -> None:
    assert [infer(values).name for values in ([], [True], [True, 2], [1, 2.0], [1, 1j])] == [
        "float32", "bool", "int64", "float32", "complex64",
    ]  # fmt: skip
