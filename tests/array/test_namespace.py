"""`micrograd_core` as an array API namespace: creation, dtypes, inspection, DLPack, and what converts to NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray
from micrograd_core.errors import DeviceUnavailable, DTypeError, GraphError, ShapeError, UnsupportedOp

# ── the namespace ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tensor_tells_its_namespace() -> None:
    x = asarray([1.0])
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is mg
    with pytest.raises(ValueError, match="follows the array API 2021.12"):
        x.__array_namespace__(api_version="1999.01")
    assert mg.__array_api_version__ == "2025.12"
    assert (mg.e, mg.pi, mg.newaxis) == (math.e, math.pi, None)
    assert math.isinf(mg.inf)
    assert math.isnan(mg.nan)


def test_everything_public_is_there() -> None:
    for name in mg.__all__:
        assert hasattr(mg, name), name


def test_inspection() -> None:
    info = mg.__array_namespace_info__()
    assert info.default_device() is Device("cpu")
    assert Device("cpu") in info.devices()
    assert info.default_dtypes()["real floating"] is mg.float32
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert "complex64" not in info.dtypes(device="rawbuffer")
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}


# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128"])
def test_limits_of_floats_are_numpys(name: str) -> None:
    ours, theirs = mg.finfo(mg.zeros(1, dtype=name)), np.finfo(name)
    for field in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(ours, field) == getattr(theirs, field)
    assert ours.dtype.name == theirs.dtype.name
    with pytest.raises(DTypeError, match="Use finfo"):
        mg.iinfo(name)


def test_limits_of_bfloat16_and_integers() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    ours, theirs = mg.finfo("bfloat16"), ml_dtypes.finfo("bfloat16")
    assert (ours.eps, ours.max, ours.smallest_normal) == tuple(
        map(float, (theirs.eps, theirs.max, theirs.smallest_normal))
    )
    assert (mg.iinfo("int8").min, mg.iinfo("uint64").max) == (-128, 2**64 - 1)
    with pytest.raises(DTypeError, match="Use iinfo"):
        mg.finfo("int32")


def test_kinds() -> None:
    assert mg.isdtype(mg.int8, "integral")
    assert mg.isdtype("complex64", ("real floating", "complex floating"))
    assert mg.isdtype(mg.float32, mg.float32)
    assert not mg.isdtype(mg.bool, "numeric")
    with pytest.raises(ValueError, match="'float' is not a kind of dtype; kinds are bool"):
        mg.isdtype(mg.float32, "float")


def test_result_types() -> None:
    assert mg.result_type(mg.int8, asarray([1], dtype="uint8")) is mg.int16
    assert mg.result_type("float32", 1.0, 2) is mg.float32
    assert mg.result_type("float64", 1j) is mg.complex128
    for wrong in ((mg.uint64, mg.int8), (mg.int8, True), (1.0, 2)):
        with pytest.raises(DTypeError, match="result_type"):
            mg.result_type(*wrong)
    assert mg.result_type(mg.int8, 1.0) is mg.result_type(mg.float32, mg.int8) is mg.float32
    assert mg.can_cast("int8", "int16")
    assert not mg.can_cast("int8", "float32")
    assert not mg.can_cast(asarray([1.0]), "int16")
    assert not mg.can_cast("int16", "int8")


def test_astype() -> None:
    x = asarray([1.0, 2.0])
    assert mg.astype(x, "float32", copy=False) is x
    assert not mg.shares_memory(mg.astype(x, "float32"), x)
    assert mg.astype(x, mg.int8, device="rawbuffer").device is Device("rawbuffer")


def test_reshape_copies_when_asked_to() -> None:
    x = asarray([[1.0, 2.0], [3.0, 4.0]])
    assert mg.shares_memory(mg.reshape(x, (4,)), x)
    assert not mg.shares_memory(mg.reshape(x, [-1], copy=True), x)
    assert mg.reshape(x.mT, -1).tolist() == [1.0, 3.0, 2.0, 4.0]
    with pytest.raises(ValueError, match=r"\(2, 2\) with strides \(1, 2\) does not become \(4,\) without a copy"):
        mg.reshape(x.mT, (4,), copy=False)
    assert mg.expand_dims(x, [0, -1]).shape == (1, 2, 2, 1)


# ── creation ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [(5,), (2, 7), (2, 7, 3), (7, 2, -2), (0,), (3, 1), (1.5,), (0, 1, 0.25), (1.0, -1.0, -0.5), (2**53, 2**53 + 3)],
)
def test_arange_is_numpys(arguments: Any, device: Device) -> None:
    expected = np.arange(*arguments)
    x = mg.arange(*arguments, device=device)
    np.testing.assert_array_equal(x.numpy(), expected.astype(x.dtype.name))
    assert x.dtype is (mg.int64 if expected.dtype.kind == "i" else mg.float32)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("ends", [(0, 1), (-2.5, 7.0), (3, 3), (1e308, -1e308), (5, -5)])
@pytest.mark.parametrize("num", [0, 1, 2, 5, 50])
def test_linspace_is_numpys(ends: tuple[float, float], num: int, endpoint: bool, device: Device) -> None:
    x = mg.linspace(*ends, num, dtype="float64", endpoint=endpoint, device=device)
    if ends[0] == 1e308:  # too far apart for NumPy
        assert np.abs(x.numpy()).max(initial=0) <= 1e308
        assert num < 5 or x[1].item() == pytest.approx(1e308 * (1 - 2 / (num - endpoint)))
        return
    np.testing.assert_allclose(x.numpy(), np.linspace(*ends, num, endpoint=endpoint), rtol=1e-14, atol=1e-14)
    assert num < 2 or not endpoint or x[-1].item() == ends[1]


def test_complex_and_integer_linspaces() -> None:
    np.testing.assert_allclose(mg.linspace(0, 1 + 2j, 5).numpy(), np.linspace(0, 1 + 2j, 5))
    assert mg.linspace(2**60, 2**60 + 4, 5, dtype="int64").tolist() == [2**60 + i for i in range(5)]
    assert mg.linspace(0, 1.5, 4, dtype="int32").tolist() == [0, 0, 1, 1]
    with pytest.raises(ShapeError, match="num cannot be negative"):
        mg.linspace(0, 1, -1)


@pytest.mark.parametrize("k", [-5, -1, 0, 2])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (0, 2), (1, 1)])
def test_eye_and_triangles_are_numpys(shape: tuple[int, int], k: int, device: Device) -> None:
    np.testing.assert_array_equal(mg.eye(*shape, k=k, device=device).numpy(), np.eye(*shape, k=k))
    x = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    for name in ("tril", "triu"):
        np.testing.assert_array_equal(
            getattr(mg, name)(asarray(x, device=device), k=k).numpy(), getattr(np, name)(x, k)
        )
    with pytest.raises(ShapeError, match="tril is for matrices"):
        mg.tril(asarray([1.0], device=device))


def test_likes_and_fills(device: Device) -> None:
    x = asarray([[1, 2]], dtype="int16", device=device)
    for like, value in ((mg.zeros_like, 0), (mg.ones_like, 1), (mg.empty_like, 0)):
        y = like(x)
        assert (y.dtype, y.shape, y.device, y.tolist()) == (x.dtype, x.shape, device, [[value] * 2])
        assert like(x, dtype="float32").dtype is mg.float32
    assert mg.full_like(x, asarray(7)).tolist() == [[7, 7]]
    assert mg.full([2], asarray(2.5, dtype="float64")).dtype is mg.float64
    assert mg.full(2, True).tolist() == [True, True]
    assert mg.empty((2, 0)).shape == (2, 0)
    assert mg.ones(2, requires_grad=True).requires_grad
    with pytest.raises(DTypeError, match="does not go with a int32"):
        mg.full(2, 1.5, dtype="int32")


def test_meshgrids_stay_in_the_graph() -> None:
    x, y = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 5.0])
    for indexing in ("xy", "ij"):
        grids = mg.meshgrid(x, y, indexing=indexing)
        for ours, theirs in zip(grids, np.meshgrid([1, 2, 3], [4, 5], indexing=indexing), strict=True):
            np.testing.assert_array_equal(ours.detach().numpy(), theirs)
    (grids[0] * grids[1]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [9.0] * 3
    with pytest.raises(ShapeError, match="arrays must be 1-d"):
        mg.meshgrid(asarray([[1.0]]))
    with pytest.raises(ValueError, match="'xy' or 'ij'"):
        mg.meshgrid(x, indexing="yx")
    with pytest.raises(DTypeError, match="dtypes must be equal"):
        mg.meshgrid(x, asarray([1]))


# ── DLPack and NumPy ─────────────────────────────────────────────────────────────────────────────────────────


def test_dlpack_shares_memory_both_ways() -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = mg.from_dlpack(a)
    a[0, 0] = 7.0
    assert x[0, 0].item() == 7.0
    seen = np.from_dlpack(x.mT)
    x[1, 1] = -1.0
    assert seen[1, 1] == -1.0
    assert x.__dlpack_device__() == (1, 0)
    assert not np.shares_memory(np.from_dlpack(mg.from_dlpack(a, copy=True)), a)
    assert mg.from_dlpack(x).tolist() == x.tolist()
    assert np.from_dlpack(x.sum()).shape == ()
    copied = np.from_dlpack(x, copy=True)
    copied[0, 0] = -2.0
    assert x[0, 0].item() != -2.0


def test_dlpack_with_torch() -> None:
    torch = pytest.importorskip("torch")
    t = torch.ones(3)
    x = mg.from_dlpack(t)
    t[1] = 5.0
    assert x.tolist() == [1.0, 5.0, 1.0]
    assert torch.from_dlpack(x * 2).tolist() == [2.0, 10.0, 2.0]


def test_what_dlpack_cannot_carry() -> None:
    with pytest.raises(GraphError, match=r"export x.detach\(\)"):
        Tensor([1.0]).__dlpack__()
    raw = asarray([1.0], device="rawbuffer")
    with pytest.raises(BufferError, match="memory of cpu cannot be seen from another device without a copy"):
        asarray([1.0]).__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(UnsupportedOp, match="DLPack is not supported on rawbuffer:0"):
        raw.__dlpack__()
    assert mg.from_dlpack(raw).device is raw.device
    assert mg.from_dlpack(np.ones(2), device="rawbuffer").device is raw.device
    with pytest.raises(ValueError, match="without a copy"):
        mg.from_dlpack(np.ones(2), device="rawbuffer", copy=False)

    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 99, 0

    with pytest.raises((DeviceUnavailable, LookupError), match="dlpack type 99"):
        mg.from_dlpack(Elsewhere())
    with pytest.raises((DeviceUnavailable, LookupError), match="dlpack type 99"):
        asarray(Elsewhere())

    class Pinned:
        """Memory that a GPU reads too: the host can."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 3, 0

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.arange(3.0)

    assert asarray(Pinned()).tolist() == [0.0, 1.0, 2.0]


def test_conversion_to_numpy_says_what_to_do() -> None:
    assert np.asarray(asarray([1.0, 2.0])).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="detach"):
        np.asarray(Tensor([1.0]))
    with pytest.raises(TypeError, match="nothing is moved implicitly"):
        np.asarray(asarray([1.0], device="rawbuffer"))


def test_hasattr_never_raises_anything_else() -> None:
    for x in (asarray(1.0), asarray([1.0]), asarray([[1.0]]), Tensor([1.0]), asarray([1], device="rawbuffer")):
        for name in (*dir(Tensor), "__cuda_array_interface__", "nonsense", "T", "mT"):
            hasattr(x, name)
    assert not hasattr(asarray([1.0]), "T")
    with pytest.raises(ShapeError, match="T is for matrices"):
        asarray([1.0]).T  # noqa: B018


def test_devices_by_the_standards_name() -> None:
    x = asarray([1.0])
    assert x.to_device("cpu") is x
    assert x.to_device(Device("rawbuffer")).device is Device("rawbuffer")
    with pytest.raises(ValueError, match="no streams"):
        x.to_device("cpu", stream=1)


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────


def test_operators_of_whole_numbers(device: Device) -> None:
    x, y = asarray([7, -7, 12], device=device), asarray([2, 2, -5], device=device)
    assert (x // y).tolist() == [3, -4, -3]
    assert (x % y).tolist() == [1, 1, -3]
    assert (100 // y).tolist() == [50, 50, -20]
    assert (100 % y).tolist() == [0, 0, 0]
    assert (x << 2).tolist() == [28, -28, 48]
    assert (x >> 1).tolist() == [3, -4, 6]
    assert (1 << asarray([0, 5], device=device)).tolist() == [1, 32]
    x //= 2
    x <<= 3
    x %= 5
    x >>= 1
    assert x.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64"])
def test_division_of_all_integers_by_composition(dtype: str, device: Device) -> None:
    info = np.iinfo(dtype)
    numbers = np.array([info.min, info.min + 1, 0, 1, 2, 3, 100, info.max // 3, info.max - 1, info.max], dtype)
    x, y = (each.ravel() for each in np.meshgrid(numbers, numbers[numbers != 0]))
    kept = ~((x == info.min) & (y == np.array(-1 if info.min else 1, y.dtype))) if info.min else np.ones(x.shape, bool)
    x, y = x[kept], y[kept]
    assert (asarray(x, device=device) // asarray(y, device=device)).tolist() == (x // y).tolist()
    assert (asarray(x, device=device) % asarray(y, device=device)).tolist() == (x % y).tolist()


def test_sums_and_products_in_a_dtype(device: Device) -> None:
    x = asarray([100, 100, 100], dtype="int8", device=device)
    assert (x.sum().dtype, x.sum().item()) == (mg.int64, 300)
    assert (mg.sum(x, dtype="int8").dtype, mg.sum(x, dtype="int8").item()) == (mg.int8, 44)
    assert mg.prod(x, dtype=mg.float64).item() == 1e6
    assert x.sum(dtype="float32").dtype is mg.float32
    assert mg.cumulative_sum(x, dtype="int16").tolist() == [100, 200, 300]
    y = Tensor([1.0, 2.0], device=device)
    mg.sum(y, dtype="float64").backward()
    assert y.grad is not None
    assert y.grad.dtype is mg.float32


def test_products_with_zeros_have_right_gradients_to_second_order(device: Device) -> None:
    for data in ([2.0, 0.0, 3.0, 5.0, 7.0], [0.0, 0.0, 3.0], [1.0]):
        for function in (mg.prod, mg.cumulative_prod):
            assert mg.gradcheck(function, Tensor(data, dtype="float64", device=device))
            assert mg.gradgradcheck(function, Tensor(data, dtype="float64", device=device))
    with pytest.raises(ShapeError, match="cumulative_sum: say along which axis"):
        mg.cumulative_sum(mg.ones((2, 2), device=device))


@pytest.mark.parametrize("k", [2**63, -(2**70), 3, -3])
def test_diagonals_beyond_the_matrix_are_empty(k: int) -> None:
    x = mg.ones((2, 3))
    assert mg.eye(2, 3, k=k).tolist() == [[0.0] * 3] * 2
    kept, dropped = (mg.tril, mg.triu) if k > 0 else (mg.triu, mg.tril)
    assert kept(x, k=k).tolist() == x.tolist()
    assert dropped(x, k=k).tolist() == mg.zeros((2, 3)).tolist()
    assert mg.eye(0, k=k).shape == (0, 0)


def test_an_axis_that_is_not_there_is_an_index_error_and_a_value_error() -> None:
    x = mg.ones((2, 3))
    for call in (lambda: mg.expand_dims(x, axis=3), lambda: mg.expand_dims(x, axis=-4), lambda: mg.sum(x, axis=2)):
        for kind in (IndexError, ValueError):
            with pytest.raises(kind, match=r"(expand_dims|sum): axis -?\d is out of range"):
                call()
