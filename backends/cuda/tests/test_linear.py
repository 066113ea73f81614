"""Linear layers: the bias on the way of the product, and its gradient on the way of relu's. On a GPU, or played."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor, nn
from micrograd_core.array.functions import FUNCTIONS

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 5e-6, "float64": 1e-12}


def families(work: Any) -> list[str]:
    """What is launched meanwhile, where it is played."""
    if DEVICE != "played":
        work()
        return []
    launched = Device(DEVICE).kernels.backend.runtime.launched
    del launched[:]
    work()
    return [unit.family for unit in launched]


def tensor(a: Any, dtype: str, laid: str = "plain") -> Tensor:
    """The same numbers in memory that starts anywhere, or in another order."""
    if laid == "anywhere":
        flat = Tensor(np.concatenate([np.zeros(1), a.ravel()]), device=DEVICE, requires_grad=False).astype(dtype)
        return flat[1:].reshape(*a.shape)
    if laid == "turned" and a.ndim > 1:
        return Tensor(np.ascontiguousarray(a.swapaxes(-1, -2)), device=DEVICE, requires_grad=False).astype(dtype).mT
    if laid == "apart":
        return Tensor(np.repeat(a, 2, axis=-1), device=DEVICE, requires_grad=False).astype(dtype)[..., ::2]
    return Tensor(a, device=DEVICE, requires_grad=False).astype(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "laid"),
    [*(((5,), 7, 3, laid) for laid in ("plain", "anywhere", "turned", "apart")), ((2, 3), 4, 8, "plain"),
     ((2, 3), 4, 8, "anywhere"), ((), 6, 2, "apart"), ((1,), 1, 1, "turned"), ((0,), 3, 2, "plain"),
     ((2,), 0, 3, "plain")],
)  # fmt: skip
def test_a_linear_layer_is_that_of_float64(
    rows: tuple[int, ...], inputs: int, outputs: int, laid: str, dtype: str
) -> None:
    if dtype not in Device(DEVICE).kernels.backend.dtypes:
        pytest.skip(f"there is no {dtype} here")
    rng = np.random.default_rng(0)
    a, w, b = (rng.integers(-4, 5, shape) / 4 for shape in ((*rows, inputs), (outputs, inputs), (outputs,)))
    found = FUNCTIONS["linear"](*(tensor(each, dtype, laid) for each in (a, w, b)))
    assert str(found.dtype) == dtype
    np.testing.assert_allclose(
        np.asarray(found.tolist()).reshape(*rows, outputs), a @ w.T + b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_bias_takes_no_launch_where_the_product_adds_it(dtype: str) -> None:
    if DEVICE != "played":
        pytest.skip("launches are counted where they are played, and on an emulated GPU")
    x, w, b = (tensor(np.ones(shape), dtype) for shape in ((5, 4), (3, 4), (3,)))
    assert families(lambda: FUNCTIONS["linear"](x, w, b)) == (["binary"] if dtype == "float64" else [])
    assert families(lambda: FUNCTIONS["linear"](x, w, 2.0)) == ["binary"]


# ── relu's gradient, and the sum of it ───────────────────────────────────────────────────────────────────────


def handles(*shape: int) -> tuple[Any, Any, Any]:
    """A cotangent, what relu gave, and the gradient."""
    rng = np.random.default_rng(0)
    g, out = (rng.integers(-3, 4, shape).astype("float32") for _ in range(2))
    return *(Tensor(each, device=DEVICE, requires_grad=False)._handle for each in (g, out)), np.where(out > 0, g, 0)


def fetched(x: Any) -> Any:
    return x.get() if hasattr(x, "get") else np.asarray(x)


@pytest.mark.parametrize("rows", [1, 40, 700])
def test_the_sum_of_relus_gradient_is_there_before_it_is_asked_for(rows: int) -> None:
    kernels = Device(DEVICE).kernels
    g, out, expected = handles(rows, 36)
    kept: list[Any] = []
    assert families(lambda: kept.append(kernels.relu_gradient(g, out))) in (["gradient_columns"], [])
    np.testing.assert_array_equal(fetched(kept[0]), expected)
    last = ["reduce_channels"] * (rows > 256)
    assert families(lambda: kept.append(kernels.sum(kept[0], axis=(0,), keepdims=True))) in (last, [])
    np.testing.assert_array_equal(fetched(kept[1]), expected.sum(axis=0, keepdims=True))
    again = kernels.sum(kept[0], axis=(0,), keepdims=False)  # memory of its own: a result is its owner's
    assert not kernels.shares_memory(again, kept[1])
    np.testing.assert_array_equal(fetched(again), expected.sum(axis=0))


def test_other_sums_are_computed() -> None:
    kernels = Device(DEVICE).kernels
    g, out, expected = handles(6, 8)
    kept = kernels.relu_gradient(g, out)
    np.testing.assert_array_equal(fetched(kernels.sum(kept, axis=(1,), keepdims=False)), expected.sum(axis=1))
    np.testing.assert_array_equal(fetched(kernels.sum(kept, axis=(0, 1), keepdims=False)), expected.sum())
    np.testing.assert_array_equal(fetched(kernels.max(kept, axis=(0,), keepdims=False)), expected.max(axis=0))
    np.testing.assert_array_equal(fetched(kernels.mean(kept, axis=(0,), keepdims=False)), expected.mean(axis=0))
    np.testing.assert_array_equal(fetched(kernels.sum(kept[1:], axis=(0,), keepdims=False)), expected[1:].sum(axis=0))


def test_what_is_written_meanwhile_is_added_up_as_it_is() -> None:
    kernels = Device(DEVICE).kernels
    g, out, expected = handles(6, 8)
    kept = kernels.relu_gradient(g, out)
    assert kernels.assign(kept, 2.0, (slice(0, 1),))
    expected[0] = 2.0
    np.testing.assert_array_equal(fetched(kernels.sum(kept, axis=(0,), keepdims=False)), expected.sum(axis=0))


@pytest.mark.parametrize("hooked", [False, True])
def test_a_hook_that_changes_the_gradient_changes_that_of_the_bias(hooked: bool) -> None:
    rng = np.random.default_rng(0)
    numbers = [rng.integers(-3, 4, shape).astype("float32") for shape in ((6, 5), (4, 5), (4,))]
    found = []
    for device in (DEVICE, "cpu"):
        x, w, b = (Tensor(each, device=device) for each in numbers)
        y = nn.functional.linear(x, w, b)
        if hooked:
            y.register_hook(lambda g: g * 3.0)
        z = y.relu()
        (z * z).sum().backward()
        found.append([each.grad.tolist() for each in (x, w, b) if each.grad is not None])
    assert found[0] == found[1]
