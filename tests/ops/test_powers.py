"""Small powers, which are products and roots: the numbers of `pow`, without and with `jit`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from micrograd_core import asarray, jit
from micrograd_core.support.powers import POWERS

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-30, -1e-30, 1e30, 2.0, -3.0]


@pytest.mark.parametrize("exponent", [*POWERS, 5, 6.0, -5, -6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_powers_are_within_four_ulps_and_right_at_the_edges(exponent: float, dtype: str, compiled: bool) -> None:
    x = np.concatenate([EDGES, np.random.default_rng(0).normal(scale=3.0, size=2000)]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype("longdouble"), exponent).astype(dtype)
    power = jit(lambda x: x**exponent) if compiled else lambda x: x**exponent
    found = power(asarray(x)).numpy()
    assert found.dtype == expected.dtype
    inside = np.isfinite(expected) & np.isfinite(found)
    np.testing.assert_array_equal(found[~inside], expected[~inside])
    np.testing.assert_array_equal(np.signbit(found), np.where(np.isnan(found), np.signbit(found), np.signbit(expected)))
    distance = np.abs(found - expected)[inside] / np.spacing(np.abs(expected[inside]))
    assert distance.max() <= 4


@pytest.mark.parametrize("x", [np.arange(1, 6), np.array([1 + 2j, -1j]), np.float16([0.1, -3.0])])
def test_others_are_numpys(x: np.ndarray) -> None:
    np.testing.assert_array_equal((asarray(x) ** 3).numpy(), x**3)
