"""The plugin `rawbuffer`, the reference for `StridedBackend`: its devices, its memory, its numbers at the edges."""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, errors, plugins, use_device, zeros
from micrograd_core.adapters.strided import MAPS, REDUCTIONS, Strided, StridedBackend
from micrograd_core.array import functions
from micrograd_core.conformance import Conformance
from micrograd_core.conformance.cases import cases
from micrograd_core.errors import DeviceMismatch, DeviceUnavailable, OutOfMemory
from micrograd_core.layout import Layout
from micrograd_core.plugins import hookimpl
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
    result, expected = found.detach().numpy(), np.asarray(expected)
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
            assert total.detach().numpy().tolist() == x.sum(axis=axis, keepdims=True).tolist()


def test_maxima_of_rows_with_nan_and_infinities() -> None:
    x = np.array([[1.0, NAN, 3.0], [-INF, -INF, -INF], [INF, 0.0, -1.0]], "float32")
    same(asarray(x).max(axis=1), x.max(axis=1))
    same(asarray(x).max(axis=0), x.max(axis=0))


# ── what the adapter promises to the five functions ──────────────────────────────────────────────────────────


class Watched(RawBufferBackend):
    """Checks each call of the author's functions."""

    def __init__(self) -> None:
        super().__init__("watched:0")
        self.complaints: set[str] = set()
        self.freed: list[int] = []
        self.parts: list[int] = []

    def alloc(self, count: int, dtype: Any) -> bytearray:
        self.require(count > 0, f"alloc({count})")
        return super().alloc(count, dtype)

    def free(self, buffer: bytearray) -> None:
        self.freed.append(len(buffer))
        super().free(buffer)

    def write(self, buffer: bytearray, data: Any) -> None:
        self.require(memoryview(data).nbytes > 0, "an empty write")
        super().write(buffer, data)

    def read(self, buffer: bytearray) -> bytes:
        self.complaints.add("read, where a part would do")
        return super().read(buffer)

    def read_range(self, buffer: bytearray, start: int, end: int) -> bytes:
        self.parts.append(end - start)
        return super().read_range(buffer, start, end)

    def map(self, op: str, out: Strided, *operands: Any) -> None:
        self.check(op, out, *operands)
        self.require(op == "copy" or out.layout == Layout.contiguous(out.shape), f"{op} into a view")
        self.require(all(not isinstance(x, Strided) or x.shape == out.shape for x in operands), f"shapes of {op}")
        super().map(op, out, *operands)

    def reduce(self, op: str, out: Strided, x: Strided) -> None:
        self.check(op, out, x)
        self.require(out.layout == Layout.contiguous(out.shape), f"{op} into a view")
        self.require(x.shape[: len(out.shape)] == out.shape, f"shapes of {op}")
        super().reduce(op, out, x)

    def check(self, op: str, out: Strided, *operands: Any) -> None:
        handles = [x for x in (out, *operands) if isinstance(x, Strided)]
        self.require(all(x.layout.size and x.buffer is not None for x in handles), f"{op} of nothing")
        self.require(not any(self.shares_memory(out, x) for x in handles[1:]), f"{op} overlaps")

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            self.complaints.add(what)


@pytest.fixture
def watched() -> Iterator[Device]:
    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return Watched()

    plugins.register("watched", Plugin())
    yield Device("watched")
    plugins.unregister("watched")


def test_empties_and_overlaps_never_reach_the_device(watched: Device) -> None:
    backend = watched.kernels.backend
    for case in cases(("bool", "int64", "float32"), watched.capabilities):
        if case.layout == "contiguous" or (0 in [n for x in case.sample.operands for n in getattr(x, "shape", ())]):
            result = case.call(case.tensors(watched))
            result.detach().numpy()
    for key, source in product((np.s_[1:], np.s_[::-1], np.s_[:0], np.s_[::2]), (np.s_[:-1], np.s_[:], np.s_[:0], 0)):
        x = np.arange(5.0)
        y = asarray(x, device=watched)
        if np.shape(x[source]) in ((), x[key].shape):
            x[key] = x[source].copy()
            y[key] = y[source]
        assert y.tolist() == x.tolist()
    assert not backend.complaints


def test_the_watch_notices(watched: Device) -> None:
    backend = watched.kernels.backend
    x = backend.from_host(bytes(8), (2,), DTYPES["float32"])
    backend.map("copy", x, x)
    backend.map("exp", x.view(x.layout.index(np.s_[::-1])), 1.0)
    backend.alloc(0, DTYPES["int8"])
    assert backend.complaints >= {"copy overlaps", "exp into a view", "alloc(0)"}


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_reductions_of_nothing(shape: tuple[int, ...], watched: Device) -> None:
    x = zeros(shape, dtype="float32", device=watched)
    for axis in (None, *range(len(shape))):
        assert x.sum(axis=axis).tolist() == np.zeros(shape).sum(axis=axis).tolist()
    with pytest.raises(ValueError, match="max of no elements"):
        watched.kernels.backend.reduction("max", x._handle, axis=None)
    assert not watched.kernels.backend.complaints


def test_one_element_of_many_is_read_alone(watched: Device) -> None:
    x = zeros(1000, dtype="float64", device=watched)
    backend = watched.kernels.backend
    backend.parts.clear()
    assert x[3].item() == 0.0
    assert x[10:12].tolist() == [0.0, 0.0]
    assert backend.parts == [8, 16]


def test_reading_one_element_copies_no_others() -> None:
    backend = RawBufferBackend("rawbuffer:0")
    x = backend.from_host(bytes(1 << 20), (1 << 20,), DTYPES["int8"])
    one = x.view(x.layout.index(5))
    backend.to_host(one)
    tracemalloc.start()
    try:
        backend.to_host(one)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_without_a_range_a_part_is_cut_out_of_all() -> None:
    class Plain(RawBufferBackend):
        read_range = StridedBackend.read_range

    backend = Plain("rawbuffer:0")
    x = backend.from_host(bytes(range(8)), (4,), DTYPES["int16"])
    assert bytes(backend.to_host(x.view(x.layout.index(np.s_[1:3])))) == bytes([2, 3, 4, 5])


def test_a_buffer_is_freed_once_when_its_last_view_goes(watched: Device) -> None:
    backend = watched.kernels.backend
    gc.disable()
    try:
        backend.freed.clear()
        x = backend.from_host(bytes(24), (2, 3), DTYPES["float32"])
        views = [x.view(x.layout.permute((1, 0))), x.view(x.layout.index(0))]
        views.append(views[0].view(views[0].layout.index(1)))
        del x
        views.pop()
        assert backend.freed == []
        del views
        assert backend.freed == [24]
        backend.empty((0, 3), DTYPES["float32"])
        assert backend.freed == [24]
    finally:
        gc.enable()


# ── kernels over names of the author's own ───────────────────────────────────────────────────────────────────


class Extended(RawBufferBackend):
    """Knows more names than it has to."""

    def __init__(self) -> None:
        super().__init__("mine:0")
        for name in ("tanh", "less_equal", "logical_and", "isnan"):
            self.kernels[name] = partial(self.elementwise, name)
        for name in ("prod", "argmax", "any", "mean", "min"):
            self.kernels[name] = partial(self.reduction, name)
        for name in ("cumulative_sum", "cumulative_prod"):
            self.kernels[name] = partial(self.scanned, name)

    own: ClassVar[dict[str, Any]] = {
        "tanh": math.tanh, "less_equal": lambda x, y: x <= y, "logical_and": lambda x, y: x and y,
        "isnan": lambda x: x != x, "prod": math.prod, "argmax": lambda row: row.index(max(row)), "any": any,
        "mean": lambda row: math.fsum(row) / len(row), "min": min,
    }  # fmt: skip

    def map(self, op: str, out: Strided, *operands: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if op in self.own:
                patch.setitem(kernels.MAPS, op, self.own[op])
            super().map(op, out, *operands)

    def reduce(self, op: str, out: Strided, x: Strided) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if op in self.own:
                patch.setitem(kernels.REDUCTIONS, op, self.own[op])
            super().reduce(op, out, x)

    def scan(self, op: str, out: Strided, x: Strided) -> None:
        function = np.cumsum if op == "cumulative_sum" else np.cumprod
        values = np.array(asarray_of(self, x)).reshape(x.shape)
        numbers = function(values, axis=-1, dtype=values.dtype)
        positions = list(out.layout.indices())
        for position, value in zip(positions, numbers.ravel().tolist(), strict=True):
            one = Strided(out.buffer, Layout((), (), position), out.dtype)
            self.map("copy", one, value)


def asarray_of(backend: Any, x: Strided) -> Any:
    return np.frombuffer(backend.to_host(x), x.dtype.name)


def test_names_of_ones_own_are_kernels() -> None:
    """Every sample of those operations, in the layouts of the suite, with the result's dtype from the op table."""

    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return Extended()

    plugins.register("mine", Plugin())
    try:
        device, tried = Device("mine"), 0
        core = set(RawBufferBackend("rawbuffer:0").kernels)
        for name in sorted(set(device.kernels.backend.kernels) - core):
            assert device.kernels.is_native(name)
            for case in cases(("bool", "int64", "float64"), device.capabilities, only=name):
                if name == "min" and 0 in case.sample.operands[0].shape:
                    continue
                result, expected = case.call(case.tensors(device)).detach().numpy(), case.expected()
                tried += 1
                assert result.shape == expected.shape, case.id
                np.testing.assert_allclose(result, expected.astype(result.dtype), rtol=1e-12, err_msg=case.id)
                assert result.dtype.kind == expected.dtype.kind or case.dtype != "float64", case.id
        assert tried > 200
    finally:
        plugins.unregister("mine")


class StorageOnly(RawBufferBackend):
    """Keeps and converts int64, and computes nothing in it; nor exponentials, which it should."""

    def __init__(self) -> None:
        super().__init__("storage:0")
        self.declined: set[str] = set()

    def map(self, op: str, out: Strided, *operands: Any) -> Any:
        if op == "exp" or (op != "copy" and self.is_wide(out, *operands)):
            self.declined.add(op)
            return NotImplemented
        return super().map(op, out, *operands)

    def reduce(self, op: str, out: Strided, x: Strided) -> Any:
        if self.is_wide(out, x):
            self.declined.add(op)
            return NotImplemented
        return super().reduce(op, out, x)

    def is_wide(self, *operands: Any) -> bool:
        return any(isinstance(x, Strided) and x.dtype == self.dtypes["int64"] for x in operands)


@pytest.fixture
def storage() -> Iterator[Device]:
    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return StorageOnly()

    plugins.register("storage", Plugin())
    yield Device("storage")
    plugins.unregister("storage")


def test_what_a_device_does_not_compute_in_the_host_does(storage: Device) -> None:
    for case in cases(("bool", "int64"), storage.capabilities):
        if case.layout == "contiguous":
            Conformance().test_value(case, storage)
    numbers = np.array([2**63 - 1, -(2**63), 2**62, 3, -7, 0])
    x = asarray(numbers, device=storage)
    same(x + 2, numbers + 2)
    same(x * x, numbers * numbers)
    same(x**5, numbers**5)
    same(x.sum(), numbers.sum())
    declined = storage.kernels.backend.declined
    assert declined >= {"add", "multiply", "pow", "maximum", "less", "equal", "bitwise_xor", "where", "sum", "max"}


def test_floats_a_device_computes_itself(storage: Device) -> None:
    with pytest.raises(
        errors.KernelBroken, match="'exp' returned NotImplemented from map in float32; .* may decline i"
    ):
        asarray([1.0], device=storage).exp()
    with pytest.raises(ValueError, match="3 to the power of -1 is not an integer"):
        asarray([3], device=storage) ** -1
