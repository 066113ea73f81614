"""The plugin over array API namespaces, on every library that is installed: moves, views, writes, and opening."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from micrograd_array_api.namespaces import NAMESPACES
from micrograd_core import Device, Tensor, asarray, gradcheck, plugins, shares_memory
from micrograd_core.adapters.array_api import ArrayAPIBackend, respelled
from micrograd_core.errors import DeviceUnavailable, GraphError, UnsupportedDType
from micrograd_core.layout import resolve_key
from micrograd_core.plugins import hookimpl

INSTALLED = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(find_spec(namespace.library) is None, reason=f"{namespace.library} is not installed"),
    )
    for name, namespace in NAMESPACES.items()
]


@pytest.fixture(params=INSTALLED)
def device(request: pytest.FixtureRequest) -> Device:
    """Each installed library's first device. That its operations are right is for the suite to say."""
    return Device(request.param)


# ── moves, views, writes ─────────────────────────────────────────────────────────────────────────────────────


def test_every_dtype_survives_the_round_trip_and_computes(device: Device) -> None:
    assert {"bool", "int64", "float32", "float64"} <= set(device.kernels.backend.dtypes)
    for name in device.kernels.backend.dtypes:
        for data in (3, [[1, 0, 2], [3, 4, 5]], np.zeros((0, 3)).tolist()):
            x = asarray(data, dtype="int64").astype("float32" if name == "bfloat16" else name)
            if name == "bfloat16":
                there = x.to(device).astype("bfloat16")
                assert there.astype("float32").cpu().tolist() == x.tolist()
            else:
                there = x.to(device)
                assert (there.dtype, there.device, there.shape) == (x.dtype, device, x.shape)
                assert there.cpu().tolist() == there.tolist() == x.tolist()
            if name != "bool":
                assert (there + there).astype("float64" if "complex" not in name else name).tolist() == (x + x).astype(
                    "float64" if "complex" not in name else name
                ).tolist()


def test_moves_stay_in_the_graph(device: Device) -> None:
    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype="float64")
    y = (x.to(device)[::-1, ::2] ** 2).to("cpu") * x[:, :2]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.device.is_cpu()
    assert gradcheck(lambda x: (x.to(device).mT[::-1] ** 2).to("cpu") + x.mT, x)


def test_reversed_and_new_axes_in_keys(device: Device) -> None:
    data = np.arange(12.0).reshape(3, 4)
    x = asarray(data, device=device)
    for key in (
        np.s_[::-1], np.s_[..., ::-1], np.s_[::-2, 3:0:-1], np.s_[None, 1, ::-1], np.s_[0:0], np.s_[2, None, 1],
    ):  # fmt: skip
        np.testing.assert_array_equal(x[key].detach().numpy(), data[key])


def test_writes(device: Device) -> None:
    for key, values in (
        (np.s_[1], 7.0), (np.s_[::-1], np.arange(4.0)), (np.s_[::-1, ::-2], np.arange(6.0).reshape(3, 2)),
        (np.s_[None, 2:0:-1, 0], np.array([[5.0, 6.0]])), (np.s_[...], -1.0), (np.s_[:, None, 1], np.ones((3, 1))),
    ):  # fmt: skip
        expected = np.arange(12.0).reshape(3, 4)
        x = asarray(expected, device=device)
        x[key] = asarray(values, device=device) if isinstance(values, np.ndarray) else values
        expected[key] = values
        np.testing.assert_array_equal(x.detach().numpy(), expected)
    broadcast = asarray([1.0, 2.0], device=device).broadcast_to((2, 2)).copy()
    broadcast[0] = 5.0
    assert broadcast.tolist() == [[5.0, 5.0], [1.0, 2.0]]


def test_a_write_to_a_view_is_seen_or_refused(device: Device) -> None:
    x = asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    view = x[1]
    if device.type in ("strict", "torch"):
        assert shares_memory(x, view)
        assert not shares_memory(x, x.copy())
        assert not shares_memory(x[0], x[1])
    else:
        assert not shares_memory(x, view)
        other = x.reshape(-1)
        with pytest.raises(GraphError, match="shares memory"):
            view[0] = 9.0
        assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        del other
    view[0] = 9.0  # where arrays cannot be written, x becomes another one
    view += 1.0
    assert view.tolist() == [10.0, 5.0]
    del view
    x[0] += 1.0
    assert x.tolist() == [[2.0, 3.0], [10.0, 5.0]]


def test_a_write_into_what_was_recorded_gives_no_wrong_gradient(device: Device) -> None:
    w = Tensor([1.0, 2.0], device=device)
    x = asarray([3.0, 4.0], device=device)
    y = (w * x).sum()
    x[0] = 10.0
    try:
        y.backward()
    except GraphError:
        return  # noticed
    assert w.grad is not None
    assert w.grad.tolist() == [3.0, 4.0]  # or the numbers were never overwritten


# ── what is particular ───────────────────────────────────────────────────────────────────────────────────────


def test_names_and_priority(device: Device) -> None:
    assert str(device) == f"{device.type}:{NAMESPACES[device.type].addresses[0]}"
    assert Device(str(device)) is device
    assert plugins.call(device.type, "micrograd_priority") < 0
    with pytest.raises(DeviceUnavailable, match=f"{device.type}:nowhere"):
        Device(f"{device.type}:nowhere")


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_missing_library_is_named_with_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = NAMESPACES[name]
    monkeypatch.setitem(sys.modules, namespace.library, None)
    monkeypatch.delitem(sys.modules, namespace.module, raising=False) if namespace.module != namespace.library else None
    Device.forget(name)
    with pytest.raises(DeviceUnavailable, match=rf"not installed; pip install 'micrograd-array-api\[{name}\]'"):
        Device(name)
    assert plugins.call(name, "micrograd_addresses") == [namespace.addresses[0]]
    assert not Device.is_available(name)
    Device.forget(name)


def test_finding_the_devices_imports_no_array_library() -> None:
    code = (
        "import sys\nfrom micrograd_core import plugins\n"
        f"for name in {list(NAMESPACES)}: plugins.call(name, 'micrograd_addresses')\n"
        "heavy = {'numpy', 'array_api_strict', 'array_api_compat', 'torch', 'jax', 'dask'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_tells_its_strides() -> None:
    pytest.importorskip("torch")
    x = asarray(np.zeros((3, 4)), device="torch:cpu")
    assert (x.mT.strides, x[1:, ::2].strides, x[1:, ::2].offset) == ((1, 4), (4, 2), 4)
    assert not shares_memory(x, x[::-1])  # torch has no negative strides: a copy
    with pytest.raises(UnsupportedDType, match="uint16"):
        asarray([1], dtype="uint16", device="torch:cpu")


def test_jax_computes_in_64_bits_here_and_as_it_was_told_elsewhere() -> None:
    pytest.importorskip("jax")
    import jax.numpy as jnp

    x = Tensor([1.0], dtype="float64", device="jax:cpu")
    assert (x + 2.0**-40).item() == 1.0 + 2.0**-40
    assert jnp.ones(1).dtype == "float32"


def test_compositions_that_sum_small_integers_keep_their_dtype() -> None:
    """As where a namespace has no `matmul`: the standard's own sum would widen."""

    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> ArrayAPIBackend:
            return ArrayAPIBackend(np, "mine:0", kernels={"matmul": None})

    plugins.register("mine", Plugin())
    try:
        x = asarray(np.array([[1, 2], [3, 4]], "int8"), device="mine")
        assert (x @ x).tolist() == [[7, 10], [15, 22]]
        assert str(x.sum().dtype) == "int64"
    finally:
        plugins.unregister("mine")


# ── libraries that differ ────────────────────────────────────────────────────────────────────────────────────


def entries(length: int) -> list[Any]:
    """Kinds of entry of a key, for an axis of that length."""
    return [0, length - 1, np.s_[:], np.s_[1:], np.s_[:-1], np.s_[::-1], np.s_[::2], np.s_[-2::-2], np.s_[1:1]]


KEYS = [(a, b) for a, b in itertools.product(entries(3), entries(4))]
KEYS += [(None, a, None, b) for a, b in itertools.product(entries(3)[::3], entries(4)[::2])]


@pytest.mark.parametrize("sizes", [(3, 4), (40, 50)], ids=str)
def test_values_that_overlap_are_written_as_they_were(device: Device, sizes: tuple[int, int]) -> None:
    if device.type not in ("strict", "torch"):
        pytest.skip("a write makes another array")
    pairs = [
        (np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[::-1], np.s_[:]), (np.s_[:, 1:], np.s_[:, :-1]),
        (np.s_[:, ::-1], np.s_[:]), (np.s_[1:, 1:], np.s_[:-1, :-1]), (np.s_[...], np.s_[0]), (np.s_[:2], np.s_[1]),
    ]  # fmt: skip
    for to, source in pairs:
        expected = np.arange(float(np.prod(sizes))).reshape(sizes)
        x = asarray(expected, device=device)
        x[to] = x[source]
        expected[to] = expected[source].copy()
        np.testing.assert_array_equal(x.detach().numpy(), expected, err_msg=f"{to} from {source}")


class Frozen:
    """NumPy as a namespace of immutable arrays; with `at`, as some have without a `set`."""

    def __init__(self, *, at: bool = False) -> None:
        class Array(np.ndarray):
            def __setitem__(self, key: Any, value: Any) -> None:
                raise TypeError("arrays are immutable")

        if at:
            Array.at = property(lambda x: x)  # type: ignore[attr-defined]
        self.kind = Array

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *operands, **params: np.asarray(found(*operands, **params)).view(self.kind)


@pytest.mark.parametrize("at", [False, True])
def test_immutable_arrays_need_nothing(at: bool) -> None:
    xp = Frozen(at=at)
    backend = ArrayAPIBackend(xp, "mine:0")
    scatter: Any = backend.kernel("scatter")
    data = np.arange(12.0).reshape(3, 4)
    x = xp.asarray(data)
    with pytest.raises(TypeError, match="immutable"):
        x[0] = 1.0
    for key in KEYS:
        expected = data.copy()
        shape = expected[key].shape
        for values in (-1.0, -np.arange(float(np.prod(shape))).reshape(shape), -np.ones(shape[-1:])):
            expected = data.copy()
            expected[key] = values
            given = values if isinstance(values, float) else xp.asarray(values)
            result = scatter(x, given, key=resolve_key(key, (3, 4)))
            np.testing.assert_array_equal(result, expected, err_msg=f"{key}")
            assert result.dtype == data.dtype
    assert scatter(xp.asarray(2.0), 5.0, key=()).tolist() == 5.0
    assert scatter(xp.asarray(np.ones((0, 2))), 5.0, key=(slice(0, 0, 1), 1)).shape == (0, 2)
    assert not np.shares_memory(scatter(x, xp.asarray(np.ones((0, 4))), key=resolve_key(np.s_[:0], (3, 4))), x)
    np.testing.assert_array_equal(x, data)


@pytest.fixture
def opened() -> Iterator[Any]:
    """Opens a backend under the name `mine`."""

    def use(backend: Any) -> Device:
        class Plugin:
            @hookimpl
            def micrograd_open(self, address: str) -> Any:
                return backend

        plugins.register("mine", Plugin())
        return Device("mine")

    yield use
    plugins.unregister("mine")


def test_training_on_immutable_arrays(opened: Any) -> None:
    device = opened(ArrayAPIBackend(Frozen(), "mine:0"))
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    (x[0] * x[:, ::-1]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[8.0, 5.0], [2.0, 1.0]]
    y = asarray([1.0, 2.0, 3.0], device=device)
    y[1:] = y[:-1]
    assert y.tolist() == [1.0, 1.0, 2.0]


class Peculiar:
    """NumPy as a library that has its own words, and takes by position what the standard does."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def reshape(x: Any, size: Any, /) -> Any:
        return np.reshape(x, size)

    @staticmethod
    def full(size: Any, value: Any, /, *, dtype: Any) -> Any:
        return np.full(size, value, dtype=dtype)

    @staticmethod
    def sum(x: Any, *, dim: Any, keep_dims: bool) -> Any:
        return np.sum(x, axis=dim, keepdims=keep_dims)

    @staticmethod
    def max(x: Any, *, dim: Any, keep_dims: bool) -> Any:
        return np.max(x, axis=dim, keepdims=keep_dims)


def test_a_keyword_that_differs_is_a_line(opened: Any) -> None:
    words = {"sum": {"dtype": None}, "*": {"keepdims": "keep_dims"}} | {"max": {"axis": "dim"}}
    words["sum"] |= {"axis": "dim"}
    of_numpy = dict.fromkeys(("mean", "min", "var", "std", "any", "all", "argmax", "argmin", "prod"))
    device = opened(ArrayAPIBackend(Peculiar(), "mine:0", keywords=words, kernels=of_numpy))
    x = asarray([[1.0, 2.0], [3.0, 5.0]], device=device)
    assert x.sum(axis=1).tolist() == [3.0, 8.0]
    assert x.max(axis=0, keepdims=True).tolist() == [[3.0, 5.0]]
    assert x.reshape(4).tolist() == [1.0, 2.0, 3.0, 5.0]
    assert device.kernels.full(shape=(2,), fill_value=3, dtype=x.dtype).tolist() == [3.0, 3.0]


def test_parameters_go_where_the_table_says() -> None:
    def told(*operands: Any, **params: Any) -> Any:
        return operands, params

    call = respelled(told, {"b": 1, "a": 0, "c": "see", "d": None})
    assert call("x", a=1, b=2, c=3, d=4, e=5) == (("x", 1, 2), {"see": 3, "e": 5})
    assert call("x", b=2) == (("x", 2), {})


class Promise(np.ndarray):
    """An array of a lazy library: there when it was evaluated."""

    computed = False


class Lazy:
    """NumPy as a lazy library that remembers its promises weakly."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *operands, **params: np.array(found(*operands, **params)).view(Promise)


def test_a_lazy_library_is_evaluated_before_its_promises_pile_up(opened: Any) -> None:
    evaluated: list[int] = []

    def evaluate(arrays: list[Any]) -> None:
        evaluated.append(len(arrays))
        for each in arrays:
            each.computed = True

    device = opened(ArrayAPIBackend(Lazy(), "mine:0", evaluate=evaluate, promises=50))
    x = asarray([1.0, 2.0], device=device)
    evaluated.clear()
    kept = [x + float(i) for i in range(120)]
    assert len(evaluated) == 2
    assert sum(not each._handle.computed for each in kept) < 50
    device.synchronize()
    assert all(each._handle.computed for each in kept)
    evaluated.clear()
    for _ in range(120):
        x = x * 1.0  # what nobody holds any more is not computed for itself
    gc.collect()
    assert evaluated
    assert max(evaluated) <= 2
    evaluated.clear()
    device.synchronize()
    device.synchronize()
    assert len(evaluated) <= 1
