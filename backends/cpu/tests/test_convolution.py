"""Convolutions and poolings of the cpu, compiled and not, against their definitions over generated sizes."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.conformance.cases import DEFINITIONS
from micrograd_core.interpreters.raw import compose
from micrograd_cpu import convolution, pooling
from micrograd_cpu.kernels import KERNELS

ROUNDS = 2000 if os.environ.get("MICROGRAD_EXHAUSTIVE") else 40
ROUNDING = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-13}


@pytest.fixture(params=["compiled", "products"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With the loops that llvmlite makes, and without."""
    if request.param == "products":
        monkeypatch.setattr(convolution, "_loops", lambda dtype: None)
        monkeypatch.setattr(pooling, "_loops", lambda *window: None)
    elif find_spec("llvmlite") is None:
        pytest.skip("llvmlite is not installed")
    return request.param == "compiled"


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """In any layout."""
    x = rng.normal(size=shape).astype(dtype)
    return np.asfortranarray(x) if rng.random() < 0.3 else x


def computed(name: str) -> Any:
    """The kernel of an operation, and the composition for what it declines."""

    def either(*operands: Any, **params: Any) -> Any:
        found = KERNELS[name](*operands, **params)
        return (
            found if found is not NotImplemented else compose(name, Device("cpu").kernels.backend)(*operands, **params)
        )

    return either


def close(found: Any, expected: Any, dtype: str, about: Any) -> None:
    assert found.shape == expected.shape, about
    assert found.dtype == dtype, about
    assert np.abs(found - expected).max(initial=0) <= ROUNDING[dtype] * max(np.abs(expected).max(initial=0), 1), about


@pytest.mark.parametrize("rank", [1, 2])
def test_convolutions_of_all_sizes(loops: bool, rank: int) -> None:
    for seed in range(ROUNDS):
        rng = np.random.default_rng([seed, rank])
        kernel, stride, dilation, padding = (
            tuple(rng.integers(low, high, rank).tolist()) for low, high in ((1, 5), (1, 4), (1, 4), (0, 5))
        )
        groups, count = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 4))
        inputs, outputs = groups * int(rng.integers(1, 5)), groups * int(rng.integers(1, 7))
        reach = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
        size = tuple(max(each, 1) + int(rng.integers(0, 11)) for each in reach)
        dtype = str(rng.choice(["float32", "float64"]))
        x = numbers(rng, (count, inputs, *size), dtype)
        weight = numbers(rng, (outputs, inputs // groups, *kernel), dtype)
        bias = numbers(rng, (outputs,), dtype)
        windows = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        about = seed, x.shape, weight.shape, windows

        wide = [each.astype("float64") for each in (x, weight, bias)]
        expected = getattr(DEFINITIONS, f"conv{rank}d")(*wide, **windows)
        close(computed(f"conv{rank}d")(x, weight, bias, **windows), expected, dtype, about)

        # The others are its transposes.
        g = numbers(rng, expected.shape, dtype)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in zip(
            expected.shape[2:], stride, padding, dilation, kernel, strict=True)]  # fmt: skip
        more = tuple(n - m for n, m in zip(size, least, strict=True))
        by_x = computed(f"conv_transpose{rank}d")(g, weight, 0.0, output_padding=more, **windows)
        by_weight = computed(f"conv{rank}d_weight_gradient")(g, x, kernel_size=kernel, **windows)
        adjoint = getattr(DEFINITIONS, f"conv_transpose{rank}d")
        if all(m < s for m, s in zip(more, stride, strict=True)):
            reference = adjoint(g.astype("float64"), wide[1], 0.0, output_padding=more, **windows)
            close(by_x, reference, dtype, about)
        reference = getattr(DEFINITIONS, f"conv{rank}d_weight_gradient")(
            g.astype("float64"), wide[0], kernel_size=kernel, **windows
        )
        close(by_weight, reference, dtype, about)


def test_float16_is_rounded_once(loops: bool) -> None:
    rng = np.random.default_rng(0)
    from micrograd_cpu.half import as_half

    x, weight = (as_half(rng.normal(size=shape).astype("float16")) for shape in ((2, 3, 6, 5), (4, 3, 3, 3)))
    windows = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    wide = [np.asarray(each, "float64") for each in (x, weight)]
    found = computed("conv2d")(x, weight, 0.0, **windows)
    expected = DEFINITIONS.conv2d(*wide, 0.0, **windows)
    close(np.asarray(found), expected, "float16", "")


def test_what_no_position_sees_is_not_multiplied(loops: bool) -> None:
    """Infinities and NaN stay where they are: zeros beside what is seen are no operands."""
    x, g = np.ones((1, 1, 2, 5), "float32"), np.ones((1, 1, 2, 3), "float32")
    x[0, 0, 0, 4] = np.inf
    windows = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    found = computed("conv2d_weight_gradient")(g, x, kernel_size=(1, 3), **windows)
    assert found.tolist() == [[[[6.0, 6.0, np.inf]]]]
    weight = np.array([[[[1.0, np.inf]]]], "float32")
    found = computed("conv_transpose2d")(g, weight, 0.0, output_padding=(0, 0), **windows)
    assert found[0, 0].tolist() == [[1.0, np.inf, np.inf, np.inf]] * 2


def test_two_threads_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("llvmlite") is None:
        pytest.skip("llvmlite is not installed")
    rng = np.random.default_rng(0)
    x, weight = numbers(rng, (5, 4, 9, 9), "float32"), numbers(rng, (6, 2, 3, 3), "float32")
    g = numbers(rng, (5, 6, 9, 9), "float32")
    windows = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 2}

    def all_of_them() -> list[Any]:
        return [
            computed("conv2d")(x, weight, 0.0, **windows),
            computed("conv_transpose2d")(g, weight, 0.0, output_padding=(0, 0), **windows),
            computed("conv2d_weight_gradient")(g, x, kernel_size=(3, 3), **windows),
        ]

    from micrograd_cpu import threads

    usual = all_of_them()
    monkeypatch.setattr(convolution, "SHARED", 0)
    with_two = all_of_them()
    monkeypatch.setattr(threads.Threads, "count", 1)
    for one, two, whole in zip(all_of_them(), with_two, usual, strict=True):
        assert np.array_equal(one, two)
        close(one, whole, "float32", "in parts")


@pytest.mark.parametrize("rank", [1, 2])
def test_poolings_of_all_sizes(loops: bool, rank: int) -> None:
    for seed in range(ROUNDS):
        rng = np.random.default_rng([seed % (ROUNDS // 8), rank])  # windows of few shapes: each is compiled
        kernel, stride, dilation = (tuple(rng.integers(1, high, rank).tolist()) for high in (4, 4, 3))
        dtype = str(rng.choice(["float32", "float64"]))
        rng = np.random.default_rng([seed, rank])
        padding = tuple(int(rng.integers(0, n // 2 + 1)) for n in kernel)
        size = tuple(d * (k - 1) + 1 + int(rng.integers(0, 9)) for k, d in zip(kernel, dilation, strict=True))
        x = rng.integers(0, 9, (2, 3, *size)).astype(dtype)  # some of them tied
        windows = {"kernel_size": kernel, "stride": stride, "padding": padding}
        about = seed, x.shape, windows, dilation
        wide = x.astype("float64")

        expected = getattr(DEFINITIONS, f"max_pool{rank}d")(wide, **windows, dilation=dilation)
        close(computed(f"max_pool{rank}d")(x, **windows, dilation=dilation), expected, dtype, about)
        expected_mean = getattr(DEFINITIONS, f"avg_pool{rank}d")(wide, **windows)
        close(computed(f"avg_pool{rank}d")(x, **windows), expected_mean, dtype, about)
        g = numbers(rng, expected.shape, dtype)
        found = computed(f"max_pool{rank}d_gradient")(g, x, **windows, dilation=dilation)
        reference = getattr(DEFINITIONS, f"max_pool{rank}d_gradient")
        close(found, reference(g.astype("float64"), wide, **windows, dilation=dilation), dtype, about)


def test_nan_is_the_maximum_and_nothing_equals_it(loops: bool) -> None:
    x = np.array([[[1.0, np.nan, 3.0, 3.0]]], "float32")
    windows = {"kernel_size": (2,), "stride": (2,), "padding": (0,), "dilation": (1,)}
    assert np.array_equal(computed("max_pool1d")(x, **windows), [[[np.nan, 3.0]]], equal_nan=True)
    if loops:
        found = computed("max_pool1d_gradient")(np.ones((1, 1, 2), "float32"), x, **windows)
        assert np.array_equal(found, [[[np.nan, np.nan, 0.5, 0.5]]], equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 1, 9, 9), (3, 1, 2, 2), (1, 1, 2)])
def test_cotangents_of_another_shape_are_not_written_beyond_the_result(loops: bool, shape: tuple[int, ...]) -> None:
    given: Any = {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    g, x = np.ones(shape, np.float32), np.ones((1, 1, 4, 4), np.float32)
    assert pooling.max_pool_gradient(g, x, **given) is NotImplemented
