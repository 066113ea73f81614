"""Convolutions in their own dtype, played on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases import played_only
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS
from micrograd_cuda.units import ELEMENT

pytestmark = played_only
RNG = np.random.default_rng(0)

# function, shapes of input, weight and bias, parameters
CASES: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any]]] = {
    "plain": ("conv2d", [(3, 2, 6, 5), (4, 2, 3, 2), (4,)], {}),
    "strided": ("conv2d", [(2, 4, 7, 6), (4, 2, 3, 3), (4,)], {"groups": 2, "stride": 2, "padding": 1}),
    "depthwise": ("conv2d", [(2, 3, 5, 5), (6, 1, 2, 2), (6,)], {"groups": 3, "dilation": 2}),
    "line": ("conv1d", [(2, 3, 9), (5, 3, 4), (5,)], {"stride": 2, "padding": 2}),
    "transposed": (
        "conv_transpose2d",
        [(2, 4, 3, 4), (4, 3, 3, 2), (6,)],
        {"groups": 2, "stride": 2, "padding": 1, "output_padding": 1},
    ),
    "three by three": ("conv2d", [(2, 4, 6, 7), (4, 2, 3, 3), (4,)], {"groups": 2, "padding": 1}),
    "far apart": ("conv2d", [(2, 2, 9, 8), (3, 2, 3, 3), (3,)], {"stride": 2, "dilation": 2, "padding": 3}),
    "in threes": ("conv2d", [(1, 2, 11, 10), (2, 2, 2, 4), (2,)], {"stride": (3, 2), "dilation": (1, 3), "padding": 2}),
    "five by five": ("conv2d", [(2, 1, 7, 6), (2, 1, 5, 5), (2,)], {"stride": 2, "padding": 2}),
    "one by one": ("conv2d", [(3, 4, 3, 2), (6, 2, 1, 1), (6,)], {"groups": 2}),
    "one by one, in twos": ("conv2d", [(3, 4, 5, 4), (6, 4, 1, 1), (6,)], {"stride": 2}),
    "one by one, around": ("conv2d", [(2, 2, 3, 3), (2, 2, 1, 1), (2,)], {"padding": 1}),
    "one by one, transposed": ("conv_transpose1d", [(2, 4, 5), (4, 3, 1), (3,)], {}),
    "one by one, transposed and longer": (
        "conv_transpose1d",
        [(2, 4, 5), (4, 3, 1), (3,)],
        {"stride": 2, "output_padding": 1},
    ),
    "one bias": ("conv2d", [(1, 1, 4, 4), (2, 1, 2, 2), ()], {}),
    "in space": ("conv3d", [(2, 2, 4, 5, 6), (4, 1, 2, 3, 2), (4,)], {"groups": 2, "stride": (1, 2, 1), "padding": 1}),
    "in space, flat": ("conv3d", [(2, 2, 3, 5, 5), (3, 2, 1, 3, 3), (3,)], {"padding": (0, 1, 1)}),
    "in space, transposed": ("conv_transpose3d", [(2, 4, 2, 3, 2), (4, 3, 1, 3, 2), (3,)], {"stride": (1, 2, 2)}),
    "no image": ("conv2d", [(0, 2, 4, 4), (2, 2, 2, 2), (2,)], {}),
}


def run(name: str, arrays: list[Any], device: str, dtype: str) -> list[Any]:
    function, _, params = CASES[name]
    tensors = [Tensor(array.astype(dtype), device=device) for array in arrays]
    out = FUNCTIONS[function](*tensors, **params)
    (out * out).sum().backward()
    return [out.tolist(), *(tensor.grad.tolist() for tensor in tensors if tensor.grad is not None)]


OF_ALL_DTYPES = ("plain", "strided", "depthwise", "line", "transposed", "one bias", "no image")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in CASES
        for dtype in ("float16", "bfloat16", "float32", "float64")
        if dtype == "float32" or name in OF_ALL_DTYPES
    ],
)
def test_results_and_gradients_are_those_of_float64(name: str, dtype: str) -> None:
    if dtype not in Device("played").kernels.backend.dtypes:
        pytest.skip(f"there is no {dtype} here")
    if dtype == "bfloat16":
        import ml_dtypes  # noqa: F401  so that NumPy knows the name
    arrays = [RNG.integers(-2, 3, shape).astype("float64") / 4 for shape in CASES[name][1]]  # exact in every dtype
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-13}[dtype]
    for ours, exact in zip(run(name, arrays, "played", dtype), run(name, arrays, "cpu", "float64"), strict=True):
        scale = float(np.max(np.abs(exact), initial=1.0))
        np.testing.assert_allclose(ours, exact, rtol=tolerance, atol=tolerance * scale)


def test_a_kernel_of_one_reads_pixels_where_they_lie() -> None:
    """The weight's gradient alone takes patches, in which images come last."""
    runtime = Device("played").kernels.backend.runtime
    for name in ("one by one", "one by one, transposed"):
        del runtime.launched[:]
        run(name, [RNG.normal(size=shape) for shape in CASES[name][1]], "played", "float32")
        assert [unit.family for unit in runtime.launched if "PATCHES" in unit.arguments] == ["windows"]


@pytest.mark.parametrize("windows", [{}, {"stride": 2, "dilation": 2}])
def test_patches_of_a_kernel_of_one_are_memory_of_their_own(windows: dict[str, int]) -> None:
    x = Tensor(np.ones((1, 1, 2, 2), "float32"), device="played", requires_grad=False)
    found = FUNCTIONS["patches"](x, kernel_size=1, **windows)
    found[...] = 5.0
    assert x.tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]


@pytest.mark.parametrize("groups", [1, 2])
def test_half_types_stay_half_types(groups: int) -> None:
    """Patches and products in float16, and no copy of the weight but for groups; sums in float32 by the product."""
    runtime = Device("played").kernels.backend.runtime
    arrays = [RNG.normal(size=shape).astype("float16") for shape in [(3, 2, 6, 5), (4, 2 // groups, 3, 2), (4,)]]
    x, weight, bias = (Tensor(array, device="played") for array in arrays)
    del runtime.launched[:], runtime.products[:]
    y = FUNCTIONS["conv2d"](x, weight, bias, groups=groups)
    y.backward(y)
    assert {each for unit in runtime.launched for each in unit.arguments if each in ELEMENT.values()} == {"Half"}
    assert len(runtime.products) == 3  # forward, by the input, by the weight
    assert runtime.products[0].second.batch == (0 if groups == 1 else 4 // groups * 6 * 2 // groups)
    assert runtime.products[2].k == 3 * 4 * 4 or runtime.products[1].k == 3 * 4 * 4  # over all images at once
