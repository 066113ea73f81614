"""The plugin `rawbuffer`, the reference for `StridedBackend`: its devices, its memory, its numbers at the edges."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, functions, plugins, use_device, zeros
from micrograd_core.adapters.strided import MAPS, REDUCTIONS
from micrograd_core.errors import DeviceMismatch, DeviceUnavailable, OutOfMemory
from micrograd_rawbuffer import kernels
from micrograd_rawbuffer.storage import DTYPES, RawBufferBackend

F = functions.FUNCTIONS
FLOATS = ["float16", "float32", "float64"]
INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer]
INF, NAN = math.inf, math.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e4, -1e4, INF, -INF, NAN]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with use_device("rawbuffer"):
        yield


def same(found: Tensor, expected: Any, tolerance: float = 0) -> None:
    """Equal numbers, NaN at the same places, zeros of the same sign."""
    result, expected = found.numpy(), np.asarray(expected)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0)
    if result.dtype.kind == "f":
        zero = (result == 0) & (expected == 0)
        np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_devices_that_do_not_mix() -> None:
    assert Device("rawbuffer") is Device("rawbuffer:0") is not Device("rawbuffer:1")
    assert plugins.call("rawbuffer", "micrograd_addresses") == ["0", "1"]
    with pytest.raises(DeviceMismatch):
        zeros(2) + zeros(2, device="rawbuffer:1")
    assert (zeros(2) + zeros(2, device="rawbuffer:1").to("rawbuffer")).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("address", ["2", "-1", "00", "gpu"])
def test_an_address_that_is_not_there(address: str) -> None:
    with pytest.raises(
        DeviceUnavailable, match=f"'rawbuffer:{address}' is unavailable: its addresses are 0 and 1; write"
    ):
        Device(f"rawbuffer:{address}")


def test_auto_never_picks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Device("auto").is_cpu()
    monkeypatch.setenv("MICROGRAD_DISABLE_PLUGINS", "cpu")
    with pytest.raises(LookupError):
        Device("auto")


def test_the_kernels_are_those_the_adapter_asks_for() -> None:
    assert set(kernels.MAPS) == MAPS | {"copy"}
    assert set(kernels.REDUCTIONS) == REDUCTIONS


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_counts_what_is_alive() -> None:
    backend = RawBufferBackend("rawbuffer:0")
    gc.disable()  # reference counts alone give memory back
    try:
        x = backend.from_host(bytes(24), (2, 3), DTYPES["float32"])
        view = backend.kernels["permute_dims"](x, axes=(1, 0))
        assert backend.memory() == {"in_use": 24, "peak": 24}
        y = backend.kernels["exp"](view)
        assert backend.memory() == {"in_use": 48, "peak": 48}
        del x, y
        assert backend.memory() == {"in_use": 24, "peak": 48}  # the view holds its memory
        del view
        assert backend.memory() == {"in_use": 0, "peak": 48}
    finally:
        gc.enable()


def test_a_step_of_training_leaves_nothing_behind() -> None:
    device = Device("rawbuffer")
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    gc.disable()
    try:
        for step in range(3):
            (x.softmax() * x).sum().backward()
            x.zero_grad()
            if step == 0:  # constants are cached at their first use
                before = device.memory()["in_use"]
        assert device.memory()["in_use"] == before
    finally:
        gc.enable()


def test_more_than_there_is() -> None:
    with pytest.raises(OutOfMemory, match="out of memory on rawbuffer:0: asked 4,503,599,627,370,496 bytes, in use"):
        asarray(1.0).broadcast_to((1 << 50,)).exp()


def test_what_was_read_does_not_change_with_a_later_write() -> None:
    backend = RawBufferBackend("rawbuffer:0")
    x = backend.from_host(b"\1\2", (2,), DTYPES["int8"])
    before = backend.to_host(x)
    assert backend.assign(x, 5, (0,))
    assert (bytes(before), bytes(backend.to_host(x))) == (b"\1\2", b"\5\2")


def test_an_array_without_elements_comes_from_the_host() -> None:
    x = RawBufferBackend("rawbuffer:0").from_host(np.empty((0, 3), "int8"), (0, 3), DTYPES["int8"])
    assert x.shape == (0, 3)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["exp", "log", "sin", "sqrt", "floor"])
def test_functions_at_the_edges(name: str, dtype: str) -> None:
    x = np.array([*EDGES, 1e-7, 11.0, 88.8, 709.8, -104.0, -746.0], dtype)
    same(F[name](asarray(x)), getattr(np, name)(x.astype("float64")).astype(dtype), 2 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "pow", "maximum", "less", "equal"])
def test_pairs_at_the_edges(name: str, dtype: str) -> None:
    x, y = np.array(list(product(EDGES, EDGES)), dtype).T
    expected = getattr(np, name)(x.astype("float64"), y.astype("float64"))
    expected = expected if expected.dtype == bool else expected.astype(dtype)
    if name == "maximum":  # of zeros, either is right
        x, y, expected = x + 0.0, y + 0.0, expected + 0.0
    same(F[name](asarray(x), asarray(y)), expected, float(np.finfo(dtype).eps))


def test_powers_too_large_keep_their_sign() -> None:
    x = asarray([-10.0, -10.0, -0.0, -0.0, 0.0], dtype="float64")
    same(x ** asarray([309.0, 310.0, -3.0, -2.0, -3.0], dtype="float64"), [-INF, INF, -INF, INF, INF])


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_round_once_and_overflow_to_infinity(dtype: str) -> None:
    most = float(np.finfo(dtype).max)
    x = asarray([most, -most, 1.0], dtype=dtype)
    same(x * 2, np.array([INF, -INF, 2.0], dtype))
    same(x + x, np.array([INF, -INF, 2.0], dtype))
    wide = np.array([most, 65519.0, 65520.0, 1e39, -1e39, 1e-46, -1e-46, 0.1, NAN, INF])
    same(asarray(wide, dtype="float64").astype(dtype), wide.astype(dtype))


def test_numbers_take_the_dtype_of_the_array_beside_them() -> None:
    tenth = asarray([0.1], dtype="float32")
    assert (tenth == 0.1).tolist() == [True]
    assert (tenth < 0.1).tolist() == [False]
    same(tenth * 0.1, np.array([0.1], "float32") * np.float32(0.1))
    same(F["where"](asarray([True, False]), tenth, 0.1), np.array([0.1, 0.1], "float32"))
    same(F["maximum"](0, asarray([-1, 2])), np.array([0, 2]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, info.max // 2 + 1, 3], dtype)
    same(asarray(x) + 1, x + np.ones((), dtype))
    same(asarray(x) * asarray(x), x * x)
    same(asarray(x) ** 5, x**5)
    same(F["maximum"](asarray(x), 4), np.maximum(x, np.array(4, dtype)))
    same(asarray(x) ^ 1, x ^ np.ones((), dtype))
    same(F["floor"](asarray(x)), x)
    same(asarray(x) < asarray(x[::-1].copy()), x < x[::-1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_between_all_dtypes(dtype: str) -> None:
    x = np.array([0, 1, 3, 100, 127], "int8").astype(dtype)
    for target in DTYPES:
        same(asarray(x).astype(target), x.astype(target))
        if np.dtype(dtype).kind in "iu" and np.dtype(target).kind in "iu":
            extremes = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
            same(asarray(extremes).astype(target), extremes.astype(target))


def test_what_no_integer_can_be() -> None:
    x = asarray([NAN, INF, -INF, 2.9, -2.9, -0.0], dtype="float64")
    assert x.astype("int32").tolist() == [0, 0, 0, 2, -2, 0]
    assert x.astype("bool").tolist() == [True, True, True, True, True, False]
    with pytest.raises(ValueError, match="3 to the power of -1 is not an integer"):
        asarray([3]) ** -1


def test_where_at_the_edges() -> None:
    x, y = np.array([NAN, -0.0, INF], "float32"), np.array([1.0, NAN, -INF], "float32")
    condition = np.array([False, True, True])
    same(F["where"](asarray(condition), asarray(x), asarray(y)), np.where(condition, x, y))
    assert F["where"](asarray(condition[:, None]), asarray(x), 0.0).shape == (3, 3)


def test_sums_are_rounded_once() -> None:
    x = np.array([1e100, 1.0, -1e100, 1e-3] * 5)
    assert asarray(x, dtype="float64").sum().item() == math.fsum(x)
    tenths = asarray([0.1] * 1000, dtype="float32")
    assert tenths.sum().item() == float(np.float32(1000 * float(np.float32(0.1))))
    for row, expected in (
        ([1e308, 1e308, -1e308], 1e308),
        ([1e308, 1e308], INF),
        ([-1e308, -1e308], -INF),
        ([INF, 1.0, 1e308, 1e308], INF),
        ([INF, -INF], NAN),
        ([1e308, 1e308, -INF], -INF),
        ([1.0, NAN, INF], NAN),
        ([], 0.0),
    ):
        same(asarray(row, dtype="float64").sum(), np.float64(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1, 1)])
def test_empty_and_0d(shape: tuple[int, ...], dtype: str) -> None:
    x = np.ones(shape, dtype)
    same(asarray(x), x)
    same(asarray(x).copy(), x)
    same(F["equal"](asarray(x), asarray(x)), x == x)
    same(F["where"](asarray(x == x), asarray(x), asarray(x)), x)
    if dtype != "bool":
        same(asarray(x) + asarray(x), x + x)
        for axis in (None, *range(len(shape))):
            total = asarray(x).sum(axis=axis, keepdims=True)
            assert total.numpy().tolist() == x.sum(axis=axis, keepdims=True).tolist()


def test_maxima_of_rows_with_nan_and_infinities() -> None:
    x = np.array([[1.0, NAN, 3.0], [-INF, -INF, -INF], [INF, 0.0, -1.0]], "float32")
    same(asarray(x).max(axis=1), x.max(axis=1))
    same(asarray(x).max(axis=0), x.max(axis=0))
