"""Compositions: how many kernel calls they take where a device has the core kernels only, and that they are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, nn, optim
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance.profile import counted_device
from micrograd_core.ops import TABLE
from micrograd_core.ops.standard import sorting
from tests.ops.definitions import defined


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, "float32"), device=DEVICE)


DEVICE = counted_device("rawbuffer:0")
ROWS, IMAGE, WEIGHT = (5, 4), (2, 3, 6, 6), (4, 3, 3, 3)
TARGETS = asarray([0, 1, 2, 3, 0], device=DEVICE)

CEILINGS: dict[str, tuple[int, Callable[[], Any]]] = {
    "abs": (3, lambda: abs(ones(3))),
    "sigmoid": (7, lambda: mg.sigmoid(ones(3))),
    "tanh": (32, lambda: mg.tanh(ones(3))),
    "erf": (35, lambda: mg.erf(ones(3))),
    "erf of float64": (42, lambda: mg.erf(ones(3).astype("float64"))),
    "erfc": (30, lambda: mg.erfc(ones(3))),
    "gelu": (33, lambda: FUNCTIONS["gelu"](ones(3))),
    "matmul": (3, lambda: ones(*ROWS) @ ones(4, 2)),
    "softmax": (7, lambda: FUNCTIONS["softmax"](ones(*ROWS))),
    "standardize": (11, lambda: FUNCTIONS["standardize"](ones(*ROWS))),
    "layer_norm": (13, lambda: FUNCTIONS["layer_norm"](ones(*ROWS), ones(4), ones(4))),
    "layer_norm and gradients": (53, lambda: FUNCTIONS["layer_norm"](ones(*ROWS), ones(4), ones(4)).sum().backward()),
    "conv2d": (17, lambda: FUNCTIONS["conv2d"](ones(*IMAGE), ones(*WEIGHT), padding=1)),
    "conv2d and gradients": (55, lambda: FUNCTIONS["conv2d"](ones(*IMAGE), ones(*WEIGHT), padding=1).sum().backward()),
    "max_pool2d": (9, lambda: FUNCTIONS["max_pool2d"](ones(*IMAGE), 2)),
    "cross_entropy": (30, lambda: nn.cross_entropy(ones(*ROWS), TARGETS)),
    "cross_entropy and gradient": (60, lambda: nn.cross_entropy(ones(*ROWS), TARGETS).backward()),
    "sort of 100": (33, lambda: mg.sort(ones(100))),
    "argsort of 100": (33, lambda: mg.argsort(ones(100))),
    "take": (16, lambda: mg.take(ones(5, 4), TARGETS, axis=0)),
    "SGD": (2, lambda: optim.SGD([moving()], 0.1).step()),
    "AdamW": (9, lambda: optim.AdamW([moving()]).step()),
}


def moving() -> Tensor:
    x = ones(3)
    x.grad = asarray([1.0] * 3, device=DEVICE)
    return x


@pytest.mark.parametrize("name", CEILINGS)
def test_a_composition_takes_no_more_calls(name: str) -> None:
    """Fewer are welcome: write the number here."""
    ceiling, call = CEILINGS[name]
    call()
    root = DEVICE.kernels.open[0]
    root.parts.clear()
    call()
    assert sum(each.cost() for each in root.parts) <= ceiling


@pytest.mark.parametrize(("dtype", "roundings"), [("float32", 8), ("float64", 10)])
def test_the_error_function_keeps_its_digits(dtype: str, roundings: int) -> None:
    """To the end of either tail and near 0, of the numbers that are not subnormal."""
    ends = 9.0 if dtype == "float32" else 26.0
    rng = np.random.default_rng(0)
    parts = (np.linspace(-ends, ends, 402), rng.uniform(-1.5, 1.5, 300), 10.0 ** rng.uniform(-30, 0, 60))
    numbers = np.concatenate(parts).astype(dtype)
    for name in ("erf", "erfc"):
        found = np.array(getattr(mg, name)(asarray(numbers, device="rawbuffer")).tolist())
        expected = np.array([getattr(math, name)(x) for x in numbers.tolist()])
        errors = np.abs(found - expected) / np.abs(expected) / np.finfo(dtype).eps
        assert errors.max() <= roundings, f"{name} of {numbers[errors.argmax()]}: {errors.max():.1f} roundings"
        ends_of_it = getattr(mg, name)(asarray([-math.inf, math.inf, 0.0, math.nan], dtype=dtype, device="rawbuffer"))
        assert str(ends_of_it.tolist()) == str(
            [float(getattr(math, name)(x)) for x in (-math.inf, math.inf, 0, math.nan)]
        )


@pytest.mark.parametrize("many", [0, 40, 1 << 9, 1 << 22])
def test_sorting_by_blocks_of_any_length(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From pairs to whole rows compared at once, the order is the same: NaN last, equal elements in theirs."""
    monkeypatch.setattr(sorting, "COMPARISONS", many)
    rng = np.random.default_rng(many)
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]
    for length, dtype, descending in product((0, 1, 2, 3, 5, 8, 13), ("float32", "int8", "uint8", "bool"), (0, 1)):
        drawn = rng.choice(special, (2, length)) if dtype == "float32" else rng.integers(0, 5, (2, length))
        x = drawn.astype(dtype)
        if length and dtype in ("int8", "uint8"):
            x[0, 0], x[1, -1] = np.iinfo(dtype).min, np.iinfo(dtype).max
        there = asarray(x, device="rawbuffer")
        expected = TABLE["argsort"].reference(np, x, descending=bool(descending))
        about = f"{length} {dtype}"
        assert mg.argsort(there, descending=bool(descending)).tolist() == expected.tolist(), about
        found = mg.sort(there, descending=bool(descending)).tolist()
        assert str(found) == str(np.take_along_axis(x, expected, -1).tolist()), about


@pytest.mark.parametrize("device", ["rawbuffer", "strict"])
def test_windows_of_any_shape(device: str) -> None:
    """Kernels, steps, paddings and dilations that fit, and the transpose of each: as a strided read, and composed."""
    rng = np.random.default_rng(0)
    every = list(product((1, 2, 3), (1, 2, 4), (0, 1), (1, 2, 3), (3, 5, 7)))
    lines = [each for each in every if each[4] + 2 * each[2] > each[3] * (each[0] - 1)]
    pairs = zip(lines, [lines[i] for i in rng.permutation(len(lines))], strict=True)
    for first, second in list(pairs)[::3]:
        names = ("kernel_size", "stride", "padding", "dilation")
        *windows, size = zip(first, second, strict=True)
        params = dict(zip(names, windows, strict=True))
        x = rng.standard_normal((2, 1, *size)).astype("float32")
        there = Tensor(x, device=device)
        patches = FUNCTIONS["patches"](there, **params)
        expected = defined(TABLE["patches"], x, **params)
        assert np.array_equal(np.array(patches.tolist(), "float32"), expected.astype("float32")), params
        cotangent = rng.integers(-3, 4, expected.shape).astype("float32")
        patches.backward(asarray(cotangent, device=device))
        unit = np.zeros_like(x)
        unit[1, 0, size[0] // 2, size[1] - 1] = 1
        whole = defined(TABLE["patches"], unit, **params)
        assert there.grad is not None
        assert there.grad.tolist()[1][0][size[0] // 2][size[1] - 1] == (whole * cotangent).sum(), params


def test_windows_are_written_one_by_one() -> None:
    """On a device whose patches are a strided read of the input."""
    x = asarray(np.arange(6, dtype=np.float32).reshape(1, 1, 6), device="rawbuffer")
    for padding in (0, 1):
        patches = FUNCTIONS["patches"](x, kernel_size=3, padding=padding)
        expected = np.array(patches.tolist())
        patches[0, 0, 1] += 10
        expected[0, 0, 1] += 10
        assert patches.tolist() == expected.tolist()
    assert x.tolist() == [[[0, 1, 2, 3, 4, 5]]]
