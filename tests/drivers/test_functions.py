"""Functions of float32 against float64 on the processor; drivers' own have few digits."""

import numpy as np
import pytest

import micrograd_core as mg

WITHIN_2 = "exp expm1 exp2 log log1p log2 log10 sin cos tan tanh erf erfc erfinv asinh atanh softplus rsqrt".split()
OWN = "exp expm1 log log1p sin cos tan tanh erf erfc exp2 softplus".split()
"""Of these, what OpenCL computes by programs of its own; the others are its driver's, of which it promises 5 units."""
SMALLEST = 2.0**-126
"""Devices may take numbers below it for 0."""


def numbers() -> np.ndarray:
    """Of all sizes, and many of ordinary size."""
    rng = np.random.default_rng(0)
    any_bits = rng.integers(0, 1 << 32, 200_000).astype(np.uint32).view(np.float32)
    usual = [scale * rng.uniform(-1, 1, 200_000).astype(np.float32) for scale in (1, 1.5, 10, 100)]
    x = np.concatenate([any_bits, *usual])
    return x[np.isfinite(x) & (np.abs(x) >= SMALLEST)]


def apart(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance in units in the last place, of results that float32 has with all their digits."""
    there = (np.abs(exact) >= SMALLEST) & (np.abs(exact) <= np.finfo(np.float32).max)
    assert np.isfinite(found[there]).all()
    assert (np.isnan(found) == np.isnan(exact)).all()
    unit = np.spacing(np.abs(exact[there]).astype(np.float32)).astype(np.float64)
    return float((np.abs(found[there] - exact[there]) / unit).max())


@pytest.mark.parametrize("name", WITHIN_2)
def test_functions_are_within_a_few_units_in_the_last_place(name: str, driver: mg.Device) -> None:
    x, function = numbers(), getattr(mg, name)
    with np.errstate(all="ignore"):
        exact = np.asarray(function(mg.asarray(x.astype(np.float64), device="cpu")))
        found = np.asarray(function(mg.asarray(x, device=driver)).to("cpu")).astype(np.float64)
        assert apart(found, exact) <= (2 if name in OWN or "wgpu" in str(driver) else 5)


def test_powers_are_within_two_units_in_the_last_place(driver: mg.Device) -> None:
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-80, 80, 400_000)).astype(np.float32)
    n = (rng.uniform(-87, 88, x.size) / np.log(x.astype(np.float64))).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64) ** n.astype(np.float64)
    found = np.asarray((mg.asarray(x, device=driver) ** mg.asarray(n, device=driver)).to("cpu")).astype(np.float64)
    assert apart(found, exact) <= 2


def test_numbers_keep_what_compilers_think_they_may_forget(driver: mg.Device) -> None:
    x = mg.asarray(np.float32([1.5, -2.0, np.inf, np.nan]), device=driver)
    assert np.signbit(np.asarray((x[:2] * -0.0).to("cpu"))).tolist() == [True, False]
    assert np.isnan(np.asarray((x * 0.0).to("cpu"))).tolist() == [False, False, True, True]
    assert mg.isfinite(x).tolist() == [True, True, False, False]
    assert x.astype("bool").tolist() == [True] * 4
    assert mg.logsumexp(x[:3], axis=0).tolist() == np.inf
    assert mg.asarray([-1], dtype="int32", device=driver).astype("uint64").tolist() == [2**64 - 1]
    for name in ("expm1", "tanh", "sin", "tan", "log1p", "erf"):
        assert np.signbit(np.asarray(getattr(mg, name)(mg.asarray(np.float32([-0.0]), device=driver)).to("cpu")))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sines_and_cosines_of_each_other_are_one_kernel(dtype: str, driver: mg.Device) -> None:
    """Intel's compiler joins a sine and a cosine of one number, and ends the process where these are nested."""
    if dtype not in driver.kernels.dtypes:
        pytest.skip(f"{driver} has no {dtype}")
    x = np.linspace(-9, 9, 1000).astype(dtype)

    def f(x: mg.Tensor) -> tuple[mg.Tensor, ...]:
        sine, cosine = x.sin(), x.cos()
        return sine, cosine, sine.sin(), sine.cos(), cosine.sin(), cosine.cos(), cosine.cos().cos().sin()

    found = mg.jit(f)(mg.asarray(x, device=driver))
    for one, exact in zip(found, f(mg.asarray(x.astype("float64"))), strict=True):
        np.testing.assert_allclose(np.asarray(one.to("cpu")), np.asarray(exact), atol=4 * np.finfo(dtype).eps)
