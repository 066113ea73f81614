"""On a GPU: own kernels against NumPy, streams, DLPack, memory. All of it is left out where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, from_dlpack, no_grad, set_matmul_precision
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.errors import OutOfMemory

pytestmark = pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no CUDA device")
FLOATS = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}
LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.mT if isinstance(a, Tensor) else a.swapaxes(-1, -2),
    "step 2": lambda a: a[:, ::2],
    "step -1": lambda a: a[::-1, ::-1],
    "offset": lambda a: a[1:, 3:],
    "row": lambda a: a[:1],
    "column": lambda a: a[:, :1],
}


@pytest.fixture
def gpu() -> Device:
    return Device("cuda")


def near(found: Tensor, expected: Any, tolerance: float) -> None:
    result = np.asarray(found.detach().numpy(), "float64")
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=tolerance * 8, atol=tolerance * 8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elementwise_kernels_in_all_layouts(layout: str, dtype: str, gpu: Device) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 2, (66, 66)).astype(dtype) for _ in range(2))
    x, y = asarray(a, device=gpu), asarray(b, device=gpu)
    view = LAYOUTS[layout]
    wide = view(a.astype("float64"))
    other = b.astype("float64")[: wide.shape[0], : wide.shape[1]]
    near(view(x) + y[: wide.shape[0], : wide.shape[1]], wide + other, FLOATS[dtype])
    near(view(x) * 2.5, wide * 2.5, FLOATS[dtype])
    near(1.5 - view(x), 1.5 - wide, FLOATS[dtype])
    for name in ("exp", "log", "sqrt", "tanh", "sin", "square", "relu"):
        reference = np.maximum(wide, 0) if name == "relu" else getattr(np, name)(wide)
        near(FUNCTIONS[name](view(x)), reference, FLOATS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("columns", [1, 7, 32, 100, 1024, 4096, 40_000, 100_001])
def test_functions_of_rows(columns: int, dtype: str, gpu: Device) -> None:
    a = np.random.default_rng(0).normal(size=(5, columns)).astype(dtype)
    x, wide = asarray(a, device=gpu), a.astype("float64")
    shifted = wide - wide.max(axis=1, keepdims=True)
    expected = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    near(x.softmax(), expected, FLOATS[dtype])
    near(x.log_softmax(), np.log(expected), FLOATS[dtype])
    near(FUNCTIONS["logsumexp"](x, axis=1), np.log(np.exp(wide).sum(axis=1)), FLOATS[dtype])
    near(x.sum(axis=0), wide.sum(axis=0), FLOATS[dtype] * 10)
    near(x.mT.softmax(axis=0), expected.T, FLOATS[dtype])


@pytest.mark.parametrize("dtype", ["float16", "float64"])  # float32 has no subnormal numbers on a GPU
def test_neighbours_of_infinities(dtype: str, gpu: Device) -> None:
    numbers = [0.0, 1.0, -1.0, float(np.finfo(dtype).max), np.inf, -np.inf, np.nan]
    x, y = (each.ravel() for each in np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype)))
    with np.errstate(over="ignore"):
        expected = np.nextafter(x, y)
    found = FUNCTIONS["nextafter"](asarray(x, device=gpu), asarray(y, device=gpu)).detach().numpy()
    np.testing.assert_array_equal(found, expected)


def test_more_elements_than_an_int_counts(gpu: Device) -> None:
    size = 2**31 + 8
    if gpu.kernels.backend.cupy.cuda.runtime.memGetInfo()[0] < 12 * 2**30:
        pytest.skip("this takes 12 GiB of free memory")
    with no_grad():
        x = FUNCTIONS["astype"](asarray([1.0], device=gpu), "float16")
        large = FUNCTIONS["copy"](FUNCTIONS["broadcast_to"](x, (size,)))
        doubled = large + large
        assert [doubled[i].item() for i in (0, 2**31 - 1, 2**31, size - 1)] == [2.0] * 4
    del large, doubled
    gpu.release_memory()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_in_all_orders(dtype: str, gpu: Device) -> None:
    if dtype not in gpu.kernels.backend.dtypes:
        pytest.skip("bfloat16 needs ml_dtypes")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (6, 64, 48)).astype("float64"), rng.integers(-3, 4, (6, 48, 32)).astype("float64")
    x, y = (asarray(each, device=gpu).astype(dtype) for each in (a, b))  # small integers: exact in every dtype
    for left, right, exact in (
        (x, y, a @ b),
        (x[0], y[0], a[0] @ b[0]),
        (y.mT, x.mT, b.swapaxes(1, 2) @ a.swapaxes(1, 2)),
        (x, y[0], a @ b[0]),
        (x[:, ::2], y, a[:, ::2] @ b),
        (x[:, :, ::2], y[:, ::2], a[:, :, ::2] @ b[:, ::2]),
        (x[0, 0], y[0], a[0, 0] @ b[0]),
    ):
        product = left @ right
        assert str(product.dtype) == dtype
        assert product.astype("float64").tolist() == exact.tolist()


def test_precision_of_products(gpu: Device) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(512, 512)).astype("float32") for _ in range(2))
    x, y, exact = asarray(a, device=gpu), asarray(b, device=gpu), a.astype("float64") @ b
    errors = {}
    for precision in ("highest", "high", "medium"):
        set_matmul_precision(precision)
        try:
            errors[precision] = np.abs((x @ y).detach().numpy() - exact).max() / np.abs(exact).max()
        finally:
            set_matmul_precision("highest")
    assert errors["highest"] < 1e-6
    assert errors["high"] < 2e-3
    assert errors["medium"] < 2e-2


def test_work_in_a_stream_is_in_order_with_what_is_around_it(gpu: Device) -> None:
    x = asarray(np.ones(1 << 22, "float32"), device=gpu)
    for _ in range(20):
        y = x * 2.0
        with gpu.stream() as stream:
            assert gpu.kernels.backend.cupy.cuda.get_current_stream() == stream
            z = y + 1.0
        assert (z + x).sum().item() == 4.0 * (1 << 22)


def test_what_a_stream_reads_is_freed_when_the_stream_around_it_waits(gpu: Device) -> None:
    """Else another thread may be given its memory, and write there before it is read."""
    gpu.synchronize()
    with no_grad():
        x = asarray(np.ones(1 << 20, "float32"), device=gpu)
        before = gpu.memory()["in_use"]
        if not before:
            pytest.skip("memory is not CuPy's pool's")
        with gpu.stream():
            y = x * 2.0
            with gpu.stream():
                z = x.sum()
            del x
            assert gpu.memory()["in_use"] >= before + y.size * 4
        assert gpu.memory()["in_use"] <= before + 4096
        assert (y.sum() + z).item() == 3.0 * (1 << 20)
        with gpu.stream():
            for _ in range(600):
                y = y * 1.0
            assert gpu.memory()["in_use"] < before + (300 << 22)  # what is held is bounded
    assert gpu.memory()["in_use"] <= before + 4096


def test_an_assignment_is_made_on_the_device_of_its_tensor(gpu: Device) -> None:
    cupy = gpu.kernels.backend.cupy
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")
    x = asarray(np.arange(1 << 20, dtype="float32"), device="cuda:1")
    allocated = []

    class Hook(cupy.cuda.memory_hook.MemoryHook):
        name = "devices"

        def malloc_preprocess(self, **facts: Any) -> None:
            allocated.append(cupy.cuda.runtime.getDevice())

    with Hook():
        x[1:] = x[:-1]  # overlapping, and therefore copied first
        x[4::2] = x[3:-1:2]  # not contiguous: by kernels, which the other device has no memory for
        x[2:4] = 7.0
    assert set(allocated) <= {1}  # without CuPy's pool nothing is told
    assert x[:7].tolist() == [0.0, 0.0, 7.0, 7.0, 2.0, 4.0, 4.0]


def test_dlpack_shares_memory_with_torch(gpu: Device) -> None:
    torch = pytest.importorskip("torch")
    backend = gpu.kernels.backend
    theirs = torch.arange(6.0, device="cuda").reshape(2, 3)
    ours = backend.from_dlpack(theirs)
    assert ours.data.ptr == theirs.data_ptr()
    back = torch.from_dlpack(asarray([1.0, 2.0], device=gpu)._handle)
    assert back.tolist() == [1.0, 2.0]


def test_arrays_of_cupy_are_taken_where_they_are(gpu: Device) -> None:
    theirs = gpu.kernels.backend.cupy.arange(6.0).reshape(2, 3)
    shared, copied = from_dlpack(theirs.T), Tensor(theirs)
    theirs[0, 1] = 7.0
    assert shared.device is gpu
    assert shared.tolist() == [[0.0, 3.0], [7.0, 4.0], [2.0, 5.0]]
    assert copied.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert asarray(theirs)[0].tolist() == [0.0, 7.0, 2.0]
    assert asarray(theirs, device="cpu", dtype="float32").tolist() == shared.mT.tolist()
    ours = asarray([1.0, 2.0], device=gpu)
    gpu.kernels.backend.cupy.from_dlpack(ours)[0] = 5.0
    assert ours.tolist() == [5.0, 2.0]
    again = gpu.kernels.backend.cupy.from_dlpack(ours, copy=True)
    again[0] = 6.0
    assert ours.tolist() == [5.0, 2.0]
    assert np.from_dlpack(ours, device="cpu").tolist() == [5.0, 2.0]
    with pytest.raises(BufferError, match="without a copy"):
        ours.__dlpack__(dl_device=(1, 0), copy=False)


def test_large_copies_to_the_gpu_and_back(gpu: Device) -> None:
    a = np.random.default_rng(0).normal(size=(1000, 1000)).astype("float32")
    xs = [asarray(a + i, device=gpu) for i in range(8)]  # each staged while the one before may still be read
    for i, x in enumerate(xs):
        assert np.array_equal(x.detach().numpy(), a + np.float32(i))
    assert np.array_equal(xs[0].mT[::2].detach().numpy(), a.T[::2])


def test_a_lack_of_memory_has_figures(gpu: Device) -> None:
    pool = gpu.kernels.backend.pool
    gpu.release_memory()  # what other tests left would be enough
    limit = pool.get_limit()
    pool.set_limit(size=gpu.memory()["reserved"] + (1 << 24))
    try:
        x = asarray(np.ones(1 << 20, "float32"), device=gpu)
        with pytest.raises(OutOfMemory) as caught:
            FUNCTIONS["copy"](FUNCTIONS["broadcast_to"](x, (100, 1 << 20)))
    finally:
        pool.set_limit(size=limit)
    assert caught.value.asked == 100 << 22
    assert caught.value.in_use
    assert caught.value.reserved
