"""Kernels of rows, of columns and of elements, in sizes that samples do not have: on a GPU, or played on the host."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)

TOLERANCE = {"float16": 2e-3, "float32": 5e-6, "float64": 1e-12}


class Launches:
    """Those of the device from now on; only the played one keeps a list."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        if DEVICE == "played":
            self.found = Device(DEVICE).kernels.backend.runtime.launched
            del self.found[:]

    def are(self, *families: str, leaving_out: str = "") -> bool:
        return DEVICE != "played" or [x.family for x in self.found if x.family != leaving_out] == list(families)


def near(found: Tensor, expected: Any, dtype: str, scale: float = 1.0) -> None:
    assert str(found.dtype) == dtype
    tolerance = TOLERANCE[dtype] * scale
    np.testing.assert_allclose(np.asarray(found.tolist()), expected, rtol=tolerance, atol=tolerance)


# ── elements anywhere in memory ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("length", [1, 3, 8, 29])
def test_packs_start_and_end_anywhere(length: int, dtype: str) -> None:
    base = np.random.default_rng(0).uniform(1, 2, 64).astype(dtype)
    x = Tensor(base, device=DEVICE, requires_grad=False)
    for first in range(9):
        for second in (0, first, 3):
            a, b = base[first : first + length], base[second : second + length]
            ours = x[first : first + length], x[second : second + length]
            assert (ours[0] + ours[1]).tolist() == (a + b).tolist()
        assert (ours[0] * 2.0).tolist() == (a * 2).tolist()
        assert (-ours[0]).tolist() == (-a).tolist()


@pytest.mark.parametrize("offset", range(5))
@pytest.mark.parametrize("columns", [4, 6, 7])
def test_rows_of_a_larger_matrix_may_start_anywhere(columns: int, offset: int) -> None:
    base = np.arange(5 * 12, dtype="float32").reshape(5, 12)
    view = base[1:, offset : offset + columns]
    x = Tensor(base, device=DEVICE, requires_grad=False)[1:, offset : offset + columns]
    bias = Tensor(base[0, 1 : 1 + columns], device=DEVICE, requires_grad=False)
    assert (x + bias).tolist() == (view + base[0, 1 : 1 + columns]).tolist()
    assert (bias - x).tolist() == (base[0, 1 : 1 + columns] - view).tolist()


@pytest.mark.parametrize("first", [0, 1, 4])
@pytest.mark.parametrize(("source", "target"), [("float32", "float16"), ("float16", "float32")])
def test_casts_are_one_launch_and_round_as_numpy_does(source: str, target: str, first: int) -> None:
    with np.errstate(over="ignore"):
        base = np.concatenate([np.random.default_rng(0).normal(size=50), [1e6, -np.inf, np.nan, 1e-7]]).astype(source)
    x = Tensor(base, device=DEVICE, requires_grad=False)[first:]
    launched = Launches()
    found = x.astype(target)
    assert launched.are("unary")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.asarray(found.tolist()), base[first:].astype(target).astype("float64"))


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (3, 128), (257, 7), (1030, 36), (600, 258)])
def test_sums_over_rows_in_one_launch_or_two(rows: int, columns: int, dtype: str) -> None:
    a = np.random.default_rng(0).normal(size=(rows, columns)).astype(dtype)
    x = Tensor(a, device=DEVICE, requires_grad=False)
    launched = Launches()
    near(x.sum(axis=0), a.astype("float64").sum(axis=0), dtype, 40)
    assert launched.are(*["reduce_rows" if rows == 1 else "reduce_channels"] * (1 if rows <= 256 else 2))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (3, 128), (257, 7), (1030, 36)])
def test_the_gradient_of_relu_is_added_up_as_it_is_computed(rows: int, columns: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    g, out = (rng.normal(size=(rows, columns)).astype(dtype) for _ in range(2))
    handles = [Tensor(each, device=DEVICE, requires_grad=False)._handle for each in (g, out)]
    launched = Launches()
    kernel = Device(DEVICE).kernels.backend.kernel
    kept = kernel("relu_gradient")(*handles)
    total = kernel("sum")(kept, axis=(0,), keepdims=False)
    kept, total = (each.get() if hasattr(each, "get") else np.asarray(each) for each in (kept, total))
    expected = np.where(out > 0, g, 0)
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_allclose(
        total.astype("float64"), expected.sum(axis=0, dtype="float64"), rtol=TOLERANCE[dtype] * 40, atol=1e-2
    )
    assert launched.are("gradient_columns", *["reduce_channels"] * (rows > 256))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 150, 130), (2, 3, 4, 5)])
def test_the_gradient_of_gelu_is_added_up_as_it_is_computed(
    shape: tuple[int, ...], approximate: str, dtype: str
) -> None:
    """Over all axes but the last; of images nobody asks for that."""
    rng = np.random.default_rng(0)
    g, x = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    handles = [Tensor(each, device=DEVICE, requires_grad=False)._handle for each in (g, x)]
    launched, kernel = Launches(), Device(DEVICE).kernels.backend.kernel
    axes = tuple(range(len(shape) - 1))
    kept = kernel("gelu_gradient")(*handles, approximate=approximate)
    total = kernel("sum")(kept, axis=axes, keepdims=False)
    if len(shape) < 4:
        assert launched.are("gradient_columns", *["reduce_channels"] * (math.prod(shape[:-1]) > 256))
    kept, total = (each.get() if hasattr(each, "get") else np.asarray(each) for each in (kept, total))
    wide = [Tensor(each.astype("float64"), device="cpu", requires_grad=False)._handle for each in (g, x)]
    expected = np.asarray(Device("cpu").kernels.gelu_gradient(*wide, approximate=approximate))
    np.testing.assert_allclose(kept.astype("float64"), expected, rtol=TOLERANCE[dtype] * 8, atol=TOLERANCE[dtype] * 8)
    first = kernel("sum")(kernel("gelu_gradient")(*handles, approximate=approximate), axis=(0,), keepdims=False)
    first = first.get() if hasattr(first, "get") else np.asarray(first)
    np.testing.assert_allclose(first, kept.sum(axis=0, dtype="float64"), rtol=TOLERANCE[dtype] * 8, atol=1e-2)
    summed = kept.astype("float64").sum(axis=axes)
    np.testing.assert_allclose(total.astype("float64"), summed, rtol=TOLERANCE[dtype] * 40, atol=1e-2)


# ── normalisation ────────────────────────────────────────────────────────────────────────────────────────────


def weight_gradient(name: str, g: Any, x: Any, eps: float) -> Any:
    x = x - x.mean(axis=1, keepdims=True) if name == "layer_norm" else x
    return (g * x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)).sum(axis=0)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(3, 1), (70, 10), (300, 33), (5, 60, 256), (3, 12_000), (3, 40_000)])
def test_all_gradients_of_a_norm_are_one_read_of_each_operand(shape: tuple[int, ...], dtype: str, name: str) -> None:
    """That of the input, and on the way those of weight and bias."""
    rng, columns = np.random.default_rng(0), shape[-1]
    drawn = [rng.normal(size=each).astype(dtype) for each in (shape, shape, (columns,), (columns,))]

    def gradients(device: str, dtype: str) -> list[Any]:
        g, *given = (Tensor(each.astype(dtype), device=device) for each in drawn)
        x, *parameters = given if name == "layer_norm" else given[:2]
        out = FUNCTIONS[name](x, *parameters, eps=1e-3)
        launched = Launches()
        out.backward(g.detach())
        assert device == "cpu" or launched.are("norm_gradients", "reduce_channels")
        return [each.grad for each in (x, *parameters)]

    for found, expected in zip(gradients(DEVICE, dtype), gradients("cpu", "float64"), strict=True):
        near(found, np.asarray(expected.tolist()), dtype, 80)


@pytest.mark.parametrize("shape", [(), (1,), (7, 1), (7, 9)])
def test_a_norms_gradient_by_weights_of_other_shapes(shape: tuple[int, ...]) -> None:
    """Of a number for all, as an array; of rows with weights of their own, which kernels leave to the op table."""
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=n).astype("float32") for n in ((7, 9), (7, 9), shape)]
    g, x, weight = (Tensor(each, device=DEVICE, requires_grad=False)._handle for each in drawn)
    wide = [Tensor(each.astype("float64"), device="cpu", requires_grad=False)._handle for each in drawn]
    for name in ("standardize_gradient", "rms_norm_gradient"):
        found = getattr(Device(DEVICE).kernels, name)(g, x, weight, axis=(1,), eps=1e-3)
        found = found.get() if hasattr(found, "get") else np.asarray(found)
        expected = np.asarray(getattr(Device("cpu").kernels, name)(*wide, axis=(1,), eps=1e-3))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize(("adds", "halves"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(3, 1), (70, 10), (5, 60, 256), (700, 260), (3, 12_000)])
def test_a_norms_gradient_is_added_cast_and_summed_on_the_way(
    shape: tuple[int, ...], adds: bool, halves: bool, name: str
) -> None:
    """As programs ask for it: one launch, and one for each kind of sums."""
    rng, columns, kernel = np.random.default_rng(0), shape[-1:], Device(DEVICE).kernels.backend.kernel
    drawn = [rng.normal(size=n).astype(t) for n, t in ((shape, "float16"), (shape, "float32"), (columns, "float32"))]
    more = rng.normal(size=shape).astype("float32")
    g, x, weight, added = (Tensor(each, device=DEVICE, requires_grad=False)._handle for each in (*drawn, more))
    family, axes = "standardize" if name == "layer_norm" else name, tuple(range(len(shape) - 1))
    params = {"axis": (len(shape) - 1,), "eps": 1e-3}
    launched = Launches()
    asked = {"dtype": x.dtype, "half": g.dtype} if halves else {"dtype": x.dtype}
    out = kernel(f"{family}_gradient")(g, x, weight, *[added] * adds, **params, **asked)
    read = kernel("astype")(out, dtype=g.dtype) if halves else out
    total = kernel("sum")(read, axis=axes, keepdims=False)
    of_weight = kernel(f"{name}_weight_gradient")(g, x, **params, dtype=x.dtype)
    assert launched.are("norm_gradients", "reduce_channels", "reduce_channels")
    again = kernel("astype")(out, dtype=g.dtype)
    assert again is not read
    out, read, total, of_weight, again = (
        each.get() if hasattr(each, "get") else np.asarray(each) for each in (out, read, total, of_weight, again)
    )
    wide = [each.astype("float64") for each in drawn]
    given = [Tensor(each, device="cpu", requires_grad=False)._handle for each in wide]
    expected = np.asarray(Device("cpu").kernels.backend.kernel(f"{family}_gradient")(*given, **params)) + more * adds
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(again, out.astype("float16"))
    np.testing.assert_array_equal(read, again if halves else out)
    summed, scale = read.sum(axis=axes, dtype="float64"), 2e-3 if halves else 1e-5
    np.testing.assert_allclose(total.astype("float64"), summed, rtol=scale, atol=1e-3)
    by_weight = weight_gradient(name, *(x.reshape(-1, *columns) for x in wide[:2]), 1e-3)
    np.testing.assert_allclose(of_weight, by_weight, rtol=1e-4, atol=1e-3)


def test_sums_for_a_norms_weight_are_those_of_that_norm() -> None:
    """What one norm's gradient found on its way is not another's: of another kind, or with another `eps`."""
    rng, kernel = np.random.default_rng(0), Device(DEVICE).kernels.backend.kernel
    g, x, weight = (Tensor(rng.normal(size=n).astype("float32"), device=DEVICE, requires_grad=False)._handle
                    for n in ((7, 9), (7, 9), (9,)))  # fmt: skip
    a, b = (np.asarray(each.get() if hasattr(each, "get") else each, "float64") for each in (g, x))
    for before, name, eps in itertools.product(("standardize", "rms_norm"), ("layer_norm", "rms_norm"), (1e-3, 1.0)):
        kernel(f"{before}_gradient")(g, x, weight, axis=(1,), eps=1e-3)
        found = kernel(f"{name}_weight_gradient")(g, x, axis=(1,), eps=eps)
        found = found.get() if hasattr(found, "get") else np.asarray(found)
        np.testing.assert_allclose(found, weight_gradient(name, a, b, eps), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [*((*shape, dtype) for shape in ((3, 1), (70, 10), (300, 33), (3, 12_000)) for dtype in TOLERANCE),
     (700, 260, "float32")],
)  # fmt: skip
def test_gradients_of_a_norms_weight_and_bias_are_one_read_of_each_operand(
    rows: int, columns: int, name: str, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    g, a = (rng.normal(size=(rows, columns)).astype(dtype) for _ in range(2))
    x = Tensor(a, device=DEVICE, requires_grad=False)
    weight, bias = (Tensor(np.ones(columns, dtype), device=DEVICE) for _ in range(2))
    out = FUNCTIONS[name](x, *((weight, bias) if name == "layer_norm" else (weight,)), eps=1e-3)
    cotangent = Tensor(g, device=DEVICE, requires_grad=False)
    launched = Launches()
    out.backward(cotangent)
    assert launched.are("norm_gradients", "reduce_channels")
    assert weight.grad is not None
    near(weight.grad, weight_gradient(name, g.astype("float64"), a.astype("float64"), 1e-3), dtype, 40)
    if name == "layer_norm":
        assert bias.grad is not None
        near(bias.grad, g.astype("float64").sum(axis=0), dtype, 40)
        bias.grad[...] = 7.0
        assert cotangent.sum(axis=0).tolist() != bias.grad.tolist()


@pytest.mark.parametrize("leading", [(6,), (3, 2)])
def test_a_norms_bias_is_the_sum_over_all_other_axes(leading: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).integers(-3, 4, (*leading, 4, 5)).astype("float32")
    x = Tensor(a, device=DEVICE, requires_grad=False)
    weight, bias = (Tensor(np.ones((4, 5), "float32"), device=DEVICE) for _ in range(2))
    g = Tensor(a[::-1].copy(), device=DEVICE, requires_grad=False)
    FUNCTIONS["layer_norm"](x, weight, bias, axis=(-2, -1)).backward(g)
    assert bias.grad is not None
    assert bias.grad.tolist() == a.reshape(6, 4, 5).sum(axis=0).tolist()
    assert g.sum(axis=0).tolist() == a.sum(axis=0).tolist()


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_a_norm_and_its_gradients_are_those_of_the_composition(name: str) -> None:
    rng = np.random.default_rng(0)
    numbers = [rng.normal(size=shape) for shape in ((4, 6, 20), (6, 20), (6, 20))]
    given = numbers if name == "layer_norm" else numbers[:2]
    found = []
    for device in (DEVICE, "cpu"):
        operands = [Tensor(each, device=device) for each in given]
        out = FUNCTIONS[name](*operands, axis=(-2, -1))
        (out * out * out).sum().backward()
        found.append([out, *(each.grad for each in operands)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(ours.tolist()), np.asarray(theirs.tolist()), rtol=1e-10, atol=1e-10)


# ── cross-entropy ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_is_one_launch_forwards_and_one_backwards(reduction: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, numbers = rng.normal(size=(1500, 10)).astype(dtype), rng.integers(10, size=1500)
    numbers[::3] = -100
    x, targets = Tensor(a, device=DEVICE), Tensor(numbers, device=DEVICE)
    launched = Launches()
    loss = FUNCTIONS["cross_entropy"](x, targets, reduction=reduction)
    assert launched.are("cross_entropy")
    launched = Launches()
    loss.backward()
    assert launched.are("cross_entropy_gradient")
    wide, kept, numbers = a.astype("float64"), numbers >= 0, np.maximum(numbers, 0)
    p = np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)
    losses = -np.log(p[np.arange(1500), numbers])[kept]
    gradient = (p - np.eye(10)[numbers]) * kept[:, None] / (kept.sum() if reduction == "mean" else 1)
    near(loss, getattr(losses, reduction)(), dtype, 10)
    assert x.grad is not None
    near(x.grad, gradient, dtype)


def test_the_mean_of_no_losses_is_nan_and_moves_nothing() -> None:
    x, targets = Tensor(np.ones((3, 4), "float32"), device=DEVICE), Tensor([-100] * 3, device=DEVICE)
    loss = FUNCTIONS["cross_entropy"](x, targets)
    assert np.isnan(loss.item())
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0] * 4] * 3


# ── optimisers ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_an_optimiser_steps_tensors_that_start_and_end_anywhere(offset: int, dtype: str) -> None:
    from micrograd_core import optim

    start = np.random.default_rng(0).normal(size=4200).astype(dtype)
    for size in (1, 5, 4099):
        found = []
        for device in (DEVICE, "cpu"):
            base = Tensor(start, device=device, requires_grad=False)
            p = base[offset : offset + size].detach()
            p.requires_grad = True
            rule = optim.Adam([p], lr=0.5, weight_decay=0.1)
            for step in range(3):
                p.grad = base[offset + step : offset + step + size].detach()
                rule.step()
            found.append(np.asarray(p.tolist()))
        np.testing.assert_allclose(found[0], found[1], rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype] * 3)
