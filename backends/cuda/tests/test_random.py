"""Random kernels, played on the host, against the specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases import played_only
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance.levels import HOST_BYTES, RANDOM
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import TABLE
from micrograd_core.random import Generator, normal

pytestmark = played_only

CASES = [*RANDOM, ("random_uniform", "bfloat16", {}), ("random_integers", "uint64", {"low": 0, "high": 1 << 64})]
PLACES = {"two carries": (3 << 64 | 5, (1 << 128) - 3), "all ones": ((1 << 128) - 1, (1 << 256) - 2)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 37, 3000])
@pytest.mark.parametrize(("name", "dtype", "params"), CASES)
def test_the_bits_are_those_of_the_specification(
    name: str, dtype: str, params: dict[str, int], size: int, place: str
) -> None:
    kernels = Device("played").kernels
    if dtype not in kernels.backend.dtypes:
        pytest.skip(f"there is no {dtype} here")
    key, block = PLACES[place]
    asked: dict[str, Any] = {"shape": (size,), "dtype": DTYPES[dtype], "key": key, "block": block, **params}
    found = bytes(kernels.to_host(getattr(kernels, name)(**asked)))
    assert found == TABLE[name].compose(HOST_BYTES, **asked)  # type: ignore[misc]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_normal_numbers_are_those_of_the_host(dtype: str) -> None:
    ours, theirs = (normal((3, 7), dtype=dtype, device=device, generator=Generator(5)) for device in ("played", "cpu"))
    tolerance = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dropout_is_one_launch_forwards_and_one_backwards(dtype: str) -> None:
    device = Device("played")
    launched = device.kernels.backend.runtime.launched
    x = Tensor(np.ones((5, 26), dtype), device=device)
    del launched[:]
    y = FUNCTIONS["dropout"](x.mT, 0.25, generator=7)
    assert [unit.family for unit in launched] == ["unary", "dropout"]  # what lies across is copied first
    theirs = FUNCTIONS["dropout"](Tensor(np.ones((26, 5), dtype), device="cpu"), 0.25, generator=7)
    assert y.tolist() == theirs.tolist()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.mT.tolist() == y.tolist()
