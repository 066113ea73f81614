"""Infinities, NaN and zeros of either sign, as the array API has them; rests without rounding."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest

import host
from micrograd_core import Device, asarray
from micrograd_core.array.functions import FUNCTIONS

DEVICES = [
    pytest.param("played", marks=pytest.mark.skipif(host.COMPILER is None, reason="there is no g++")),
    pytest.param("cuda", marks=pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no CUDA device")),
]
INF, NAN, PI = math.inf, math.nan, math.pi

COMPLEX = [  # function, operand, real part of the result, and imaginary part but for its sign
    ("log", complex(INF, NAN), INF, NAN),
    ("log", complex(NAN, INF), INF, NAN),
    ("log", complex(0.0, 0.0), -INF, 0.0),
    ("log1p", complex(-INF, NAN), INF, NAN),
    ("log1p", complex(-1.0, 0.0), -INF, 0.0),
    ("tanh", complex(0.0, INF), 0.0, NAN),
    ("tanh", complex(0.0, NAN), 0.0, NAN),
    ("tanh", complex(INF, 1.0), 1.0, 0.0),
    ("acosh", complex(0.0, NAN), NAN, PI / 2),
    ("acosh", complex(-INF, INF), INF, 3 * PI / 4),
    ("expm1", complex(-0.0, 0.0), 0.0, 0.0),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("name", "x", "real", "imag"), COMPLEX)
def test_complex_numbers(name: str, x: complex, real: float, imag: float, dtype: str, device: str) -> None:
    with np.errstate(all="ignore"):
        (found,) = FUNCTIONS[name](asarray([x], dtype=dtype, device=device)).tolist()
    np.testing.assert_allclose([found.real, abs(found.imag)], [real, abs(imag)], rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_complex_numbers_keep_to_themselves(device: str) -> None:
    parts = [0.0, -0.0, INF, -INF, NAN]
    x, y = (each.ravel() for each in np.meshgrid(parts, parts))
    made = FUNCTIONS["complex"](asarray(x, device=device), asarray(y, device=device)).tolist()
    for z, real, imag in zip(made, x, y, strict=True):
        assert repr(z) == repr(complex(real, imag))
    (half,) = FUNCTIONS["complex"](1.0, asarray([NAN], dtype="float32", device=device)).tolist()
    assert half.real == 1.0
    assert cmath.isnan(half)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rests_are_exact(dtype: str, device: str) -> None:
    rng = np.random.default_rng(0)
    scale = 100 if dtype == "float16" else 1e6
    x, y = (rng.normal(size=500) * scale).astype(dtype), rng.normal(size=500).astype(dtype)
    a, b = asarray(x, device=device), asarray(y, device=device)
    np.testing.assert_array_equal(FUNCTIONS["remainder"](a, b).detach().numpy(), np.remainder(x, y))
    np.testing.assert_array_equal(FUNCTIONS["floor_divide"](a, b).detach().numpy(), np.floor_divide(x, y))
    tenth = asarray([1.0], dtype=dtype, device=device)
    assert FUNCTIONS["floor_divide"](tenth, 0.1).item() == np.floor_divide(np.array(1.0, dtype), np.array(0.1, dtype))


RESTS: list[tuple[float, float, float, float]] = [  # x, y, quotient, rest
    (0.0, -1.0, -0.0, -0.0),
    (-0.0, 1.0, -0.0, 0.0),
    (1.0, INF, 0.0, 1.0),
    (1.0, -INF, -0.0, -INF),
    (-1.0, INF, -0.0, INF),
    (INF, 2.0, INF, NAN),
    (-INF, 2.0, -INF, NAN),
    (INF, INF, NAN, NAN),
    (1.0, 0.0, INF, NAN),
    (0.0, 0.0, NAN, NAN),
    (NAN, 1.0, NAN, NAN),
    (-7.0, 2.0, -4.0, 1.0),
    (7.0, -2.0, -4.0, -1.0),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quotients_and_rests_at_the_ends(dtype: str, device: str) -> None:
    x, y, quotient, rest = zip(*RESTS, strict=True)
    operands: tuple[Any, ...] = tuple(asarray(each, dtype=dtype, device=device) for each in (x, y))
    assert list(map(repr, FUNCTIONS["floor_divide"](*operands).tolist())) == list(map(repr, quotient))
    assert list(map(repr, FUNCTIONS["remainder"](*operands).tolist())) == list(map(repr, rest))
