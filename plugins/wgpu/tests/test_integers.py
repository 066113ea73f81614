"""64-bit integers on the first WebGPU device, where they are two words: shaders need not have them. Against NumPy."""

from typing import Any

import numpy as np
import pytest

import micrograd_core as mg

EDGES = [10**12, -(10**12), *range(-2, 4)]
EDGES += [sign * (1 << bits) + more for bits in (24, 31, 32, 63) for sign in (1, -1) for more in (-1, 0, 1)]
BINARY = (
    "add subtract multiply maximum minimum less less_equal greater greater_equal equal not_equal bitwise_and "
    "bitwise_or bitwise_xor"
).split()
DTYPES = ("int64", "uint64")


def pairs(dtype: str) -> tuple[Any, Any]:
    """Every edge with every other, and numbers of all sizes."""
    rng = np.random.default_rng(0)
    edges = np.array([x % 2**64 for x in EDGES], np.uint64)
    drawn = rng.integers(0, 1 << 64, 400, np.uint64) >> rng.integers(0, 64, 400).astype(np.uint64)
    x = np.concatenate([np.repeat(edges, edges.size), drawn]).view(dtype)
    y = np.concatenate([np.tile(edges, edges.size), rng.permutation(drawn)]).view(dtype)
    return x, y


def there(x: Any, device: mg.Device) -> Any:
    return mg.asarray(x, device=device)


def same(found: Any, expected: Any) -> None:
    back = np.asarray(found.to("cpu"))
    assert back.dtype == expected.dtype
    np.testing.assert_array_equal(back, expected)


def test_the_device_was_asked_for_nothing_that_adapters_need_not_have(device: mg.Device) -> None:
    assert "shader-int64" not in device.kernels.backend._gpu.features  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_comparisons(dtype: str, device: mg.Device) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        for name in BINARY:
            same(getattr(mg, name)(there(x, device), there(y, device)), getattr(np, name)(x, y))
        for name in ("abs", "bitwise_invert", "square", "sign"):
            same(getattr(mg, name)(there(x, device)), getattr(np, name)(x))
        if dtype == "int64":
            same(-there(x, device), -x)
        for exponent in (0, 1, 2, 3, 7):
            same(there(x, device) ** exponent, x ** np.array(exponent, dtype))
        places = (y.view(np.uint64) % np.uint64(64)).astype(dtype)
        for name in ("bitwise_left_shift", "bitwise_right_shift"):
            same(getattr(mg, name)(there(x, device), there(places, device)), getattr(np, name)(x, places))
        some = (y != 0) & ~((x == x.min()) & (y == -1 % 2**64 if dtype == "uint64" else y == -1))
        for name in ("floor_divide", "remainder"):
            same(getattr(mg, name)(there(x[some], device), there(y[some], device)), getattr(np, name)(x[some], y[some]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: str, device: mg.Device) -> None:
    x, _ = pairs(dtype)
    for other in ("bool", "int32", "uint32", "int64", "uint64", "float32"):
        same(there(x, device).astype(other), x.astype(other))  # to float32 it is rounded once
        if other != "float32":
            same(there(x.astype(other), device).astype(dtype), x.astype(other).astype(dtype))
    rng = np.random.default_rng(1)
    whole = np.exp(rng.uniform(-3, 50, 2000)) * rng.choice([-1, 1], 2000)
    special = [np.inf, -np.inf, np.nan, *(s * 2.0**n for n in (-1, 23, 24, 31, 32, 54, 55, 63, 64) for s in (1, -1))]
    floats = np.concatenate([whole, special]).astype(np.float32)
    same(there(floats, device).astype(dtype), np.asarray(mg.asarray(floats, device="cpu").astype(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_products_and_order(dtype: str, device: mg.Device) -> None:
    x, _ = pairs(dtype)
    odd, large = x | np.array(1, dtype), x[-390:].reshape(30, 13)
    for name in ("sum", "max", "min"):
        same(getattr(mg, name)(there(x, device)), np.asarray(getattr(np, name)(x)))
    same(mg.prod(there(odd, device)), np.asarray(np.prod(odd)))
    same(mg.sum(there(np.tile(x, 30), device)), np.asarray(np.tile(x, 30).sum()))
    same(mg.cumulative_sum(there(x, device)), np.cumsum(x))
    same(mg.cumulative_prod(there(odd, device)), np.cumprod(odd))
    same(there(large, device) @ there(large.T, device), large @ large.T)
    same(there(np.tile(large, (3, 1)), device) @ there(large.T, device), np.tile(large, (3, 1)) @ large.T)
    same(mg.sort(there(x, device)), np.sort(x))
    same(mg.argsort(there(x, device), descending=True), x.size - 1 - np.argsort(x[::-1], kind="stable")[::-1])
    same(mg.where(there(x > 0, device), there(x, device), 7), np.where(x > 0, x, np.array(7, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices_beyond_32_bits_name_nothing(dtype: str, device: mg.Device) -> None:
    x, places = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, 0, 1 << 32, 1 << 63], np.uint64).view(dtype)
    take = device.kernels.backend.kernel("take")
    assert take is not None
    backend: Any = device.kernels.backend
    found = take(*(there(each, device)._handle for each in (x, places)), axis=0)
    rows = np.frombuffer(bytes(backend.to_host(found)), np.float32).reshape(4, 3)
    np.testing.assert_array_equal(rows, np.concatenate([x[[2, 0]], np.full((2, 3), np.nan, np.float32)]))


def test_counters_and_random_numbers(device: mg.Device) -> None:
    same(mg.arange(2**31, 2**31 + 50, device=device), np.arange(2**31, 2**31 + 50))
    same(mg.full((3,), -(2**63), dtype="int64", device=device), np.full(3, -(2**63)))
    draws = (
        lambda on: mg.random.uniform((1003,), device=on),
        lambda on: mg.random.randint((1003,), -(2**40), 2**62, device=on),
        lambda on: mg.random.permutation(1003, device=on),
        lambda on: mg.jit(lambda: mg.random.uniform((1003,), device=on))(),
    )
    for draw in draws:
        for more in (0, 1):  # the stream goes on
            mg.random.manual_seed(7)
            expected = [np.asarray(draw("cpu")) for _ in range(more + 1)]
            mg.random.manual_seed(7)
            found = [draw(device) for _ in range(more + 1)]
            same(found[-1], expected[-1])
