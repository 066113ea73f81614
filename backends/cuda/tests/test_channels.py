"""Statistics over axes that are not the last ones: on a GPU, or played on the host, against NumPy in float64."""

from __future__ import annotations

import math
import os
from itertools import product
from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)

TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-13}
# Columns and planes; in one part and in several; packs of all widths, and columns that fill no block.
SHAPES = [
    (5, 3),
    (300, 36),
    (1030, 128),
    (130, 258),
    (4, 3, 5),
    (3, 2, 8, 8),
    (2, 3, 4, 2, 2),
    (70, 5, 7, 7),
    (40, 2, 32, 32),
]
AXES = [
    ((3, 4, 5), (0,)), ((3, 4, 5), (1,)), ((3, 4, 5), (0, 1)), ((3, 4, 5), (0, 2)), ((2, 130, 8), (1,)),
    ((2, 3, 4, 4), (0, 2)), ((1, 6, 1, 5), (1,)), ((6, 1, 5), (0, 1)), ((3, 4, 5), (2,)), ((3, 4), (0, 1)),
]  # fmt: skip
LAYOUTS = ("contiguous", "transposed", "apart", "odd")
MANY = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")


def launched() -> list[str]:
    """Families since the last time; only the played device keeps a list."""
    if DEVICE != "played":
        return []
    runtime = Device(DEVICE).kernels.backend.runtime
    found, runtime.launched[:] = [unit.family for unit in runtime.launched], []
    return found


def laid(a: Any, layout: str) -> Tensor:
    """The same numbers, lying in memory in several ways."""
    made = {"device": DEVICE, "requires_grad": False}
    if layout == "transposed":
        order = tuple(reversed(range(a.ndim)))
        return Tensor(a.transpose(order).copy(), **made).permute(*order)
    if layout == "apart":
        apart = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        apart[..., ::2] = a
        return Tensor(apart, **made)[..., ::2]
    if layout == "odd":
        return Tensor(np.concatenate([np.zeros(1, a.dtype), a.ravel()]), **made)[1:].reshape(a.shape)
    return Tensor(a, **made)


def near(found: Any, expected: Any, dtype: str, scale: float = 1.0, about: str = "") -> None:
    assert str(found.dtype) == dtype
    size = max(1.0, float(np.abs(expected).max()))
    found = np.asarray(found.tolist())
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * scale * size, err_msg=about)


def standardized(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    deviation = np.sqrt(x.var(axes, keepdims=True) + eps)
    return (x - x.mean(axes, keepdims=True)) / deviation, deviation


def gradient(g: Any, x: Any, axes: tuple[int, ...], eps: float) -> Any:
    h, deviation = standardized(x, axes, eps)
    return (g - g.mean(axes, keepdims=True) - h * (g * h).mean(axes, keepdims=True)) / deviation


def test_batch_norm_and_its_gradients() -> None:
    compared = 0
    for i, (shape, dtype, layout) in enumerate(product(SHAPES, TOLERANCE, LAYOUTS)):
        if not MANY and i % 5:
            continue
        rng, axes, by = np.random.default_rng(i), (0, *range(2, len(shape))), (-1, *(1,) * (len(shape) - 2))
        x, g = (rng.normal(3, 2, shape).astype(dtype), rng.normal(size=shape).astype(dtype))
        weight, bias = (rng.uniform(0.5, 2, shape[1]).astype(dtype) for _ in range(2))
        ours, w, b = laid(x, layout), laid(weight, "contiguous"), laid(bias, "odd")
        for each in (ours, w, b):
            each.requires_grad = True
        out = FUNCTIONS["batch_norm"](ours, weight=w, bias=b, training=True, eps=1e-3)
        out.backward(laid(g, layout))
        wx, wg, ww, wb = (each.astype("float64") for each in (x, g, weight, bias))
        h, _ = standardized(wx, axes, 1e-3)
        about = f"{shape} {layout}"
        near(out, h * ww.reshape(by) + wb.reshape(by), dtype, 4, about)
        near(ours.grad, gradient(wg, wx, axes, 1e-3) * ww.reshape(by), dtype, 4, about)
        near(w.grad, (wg * h).sum(axes), dtype, 4, about)
        near(b.grad, wg.sum(axes), dtype, 4, about)
        compared += 1
    assert compared >= 20


def test_batch_norm_by_given_statistics_is_one_launch() -> None:
    rng = np.random.default_rng(0)
    for shape, dtype in product([(40, 12), (3, 4, 5, 2)], TOLERANCE):
        x = rng.normal(size=shape).astype(dtype)
        mean, var, weight, bias = (rng.uniform(0.5, 2, shape[1]).astype(dtype) for _ in range(4))
        given = [laid(each, "contiguous") for each in (x, mean, var, weight, bias)]
        launched()
        found = FUNCTIONS["batch_norm"](*given, eps=1e-3)
        if DEVICE == "played" and dtype != "float16":
            assert launched() == ["channel_norm"]
        m, v, w, b = (
            each.astype("float64").reshape(-1, *(1,) * (len(shape) - 2)) for each in (mean, var, weight, bias)
        )
        near(found, (x.astype("float64") - m) / np.sqrt(v + 1e-3) * w + b, dtype, 4)


def test_axes_that_are_not_the_last() -> None:
    """Standardised numbers, their gradient, sums and their like, means and variances."""
    for i, ((shape, axes), dtype, layout) in enumerate(product(AXES, TOLERANCE, LAYOUTS)):
        if not MANY and i % 7:
            continue
        rng, about = np.random.default_rng(i), f"{shape} {axes} {layout}"
        x, g = rng.normal(3, 2, shape).astype(dtype), rng.normal(size=shape).astype(dtype)
        wx, wg, ours = x.astype("float64"), g.astype("float64"), laid(x, layout)
        near(FUNCTIONS["standardize"](ours, axis=axes, eps=1e-3), standardized(wx, axes, 1e-3)[0], dtype, 4, about)
        found = FUNCTIONS["standardize_gradient"](laid(g, layout), ours, axis=axes, eps=1e-3)
        near(found, gradient(wg, wx, axes, 1e-3), dtype, 4, about)
        near(ours.var(axis=axes, correction=1.0), wx.var(axes, ddof=1), dtype, 4, about)
        near(ours.mean(axis=axes, keepdims=True), wx.mean(axes, keepdims=True), dtype, 4, about)
        near(ours.std(axis=axes), wx.std(axes), dtype, 4, about)
        for name in ("sum", "max", "min", *["prod"] * (dtype == "float64")):
            near(getattr(laid(x, layout), name)(axis=axes), getattr(wx, name)(axes), dtype, 8, f"{name} {about}")


@pytest.mark.parametrize("shape", [(2000, 8), (50, 3, 8, 8)])
def test_small_deviations_from_a_large_mean_are_not_lost(shape: tuple[int, ...]) -> None:
    """As the difference of two sums of squares they would be."""
    x = (np.random.default_rng(0).normal(size=shape) + 4096).astype("float32")
    axes = (0, *range(2, len(shape)))
    near(laid(x, "contiguous").var(axis=axes), x.astype("float64").var(axes), "float32", 20)
    near(
        FUNCTIONS["batch_norm"](laid(x, "contiguous"), training=True),
        standardized(x.astype("float64"), axes, 1e-5)[0],
        "float32",
        200,
    )


def test_what_is_not_finite_stays_in_its_channel() -> None:
    x = np.random.default_rng(0).normal(size=(6, 5, 4)).astype("float32")
    x[2, 1, 3], x[0, 3, 0] = np.nan, np.inf
    found = np.asarray(FUNCTIONS["batch_norm"](laid(x, "contiguous"), training=True).tolist())
    assert np.isnan(found[:, [1, 3]]).all()
    assert np.isfinite(found[:, [0, 2, 4]]).all()


@pytest.mark.skipif(DEVICE != "played", reason="only the played device keeps a list of launches")
@pytest.mark.parametrize(("shape", "parts"), [((64, 128), 1), ((4, 8, 4, 4), 1), ((600, 128), 2), ((40, 2, 32, 32), 2)])
def test_a_step_reads_each_array_twice_and_transposes_none(shape: tuple[int, ...], parts: int) -> None:
    rng, axes, merged = np.random.default_rng(0), (0, *range(2, len(shape))), ["merge_moments"] * (parts > 1)
    arrays = [rng.normal(size=shape).astype("float32") for _ in range(2)]
    results = []
    for _ in range(2):
        x, g, weight, bias = (laid(a, "contiguous") for a in (*arrays, *[np.ones(shape[1], "float32")] * 2))
        for each in (x, weight, bias):
            each.requires_grad = True
        launched()
        var, mean = x.detach().var(axis=axes), x.detach().mean(axis=axes)
        out = FUNCTIONS["batch_norm"](x, weight=weight, bias=bias, training=True)
        assert launched() == ["channel_moments", *merged, "binary", "channel_norm"]
        out.backward(g)
        assert launched() == ["channel_sums", *["reduce_channels"] * (parts > 1), "channel_norm_gradient"]
        results.append([each.tolist() for each in (var, mean, out, x.grad, weight.grad, bias.grad)])
    assert results[0] == results[1]
    total = g.sum(axis=axes)  # as the bias of a convolution
    assert launched()[0] == "reduce_channels"
    assert math.isclose(total.sum().item(), g.sum().item(), abs_tol=1e-2)
