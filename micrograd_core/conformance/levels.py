"""Levels: each word of `Backend.capabilities` is a promise, and a claimed promise is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from micrograd_core.conformance.base import Suite, claim, since
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES, DType
from micrograd_core.ops import TABLE
from micrograd_core.tensor import asarray, shares_memory


def strided(device: Device) -> None:
    """Layouts are told as they are; views share memory, and see what is written to their base."""
    x = asarray(np.arange(12.0).astype("float32").reshape(3, 4), device=device)
    for view, strides, offset in ((x.mT, (1, 4), 0), (x[::2, 1:], (8, 1), 1), (x[::-1], (-4, 1), 8), (x[1], (1,), 4)):
        told = (view.strides, view.offset)
        assert told == (strides, offset), f"layout() tells {view.layout}, not {strides} from {offset}"
        assert shares_memory(view, x), f"a view with strides {strides} does not share memory with its base"
    row = x[1]
    x[1, 0] = 100.0
    assert row.tolist()[0] == 100.0, "a write to the base is not seen by its view"


def dlpack(device: Device) -> None:
    """Handles export their memory, of any layout, without a copy."""
    x = asarray(np.arange(12.0).astype("float32").reshape(3, 4), device=device)
    for view in (x, x.mT, x[1:, ::2]):
        kind, index = view._handle.__dlpack_device__()
        assert isinstance(index, int)
        if kind == 1:  # kDLCPU: NumPy can look at it
            seen = np.from_dlpack(view._handle)
            assert seen.tolist() == view.tolist(), f"DLPack shows {seen.tolist()}, not {view.tolist()}"
            again = np.from_dlpack(view._handle)
            assert np.shares_memory(seen, again), "two exports of one handle are two copies"


# Kernels of random numbers whose results are the same bits everywhere: names, dtypes, parameters.
RANDOM: Final[tuple[tuple[str, str, dict[str, int]], ...]] = (
    *(("random_uniform", dtype, {}) for dtype in ("float16", "float32", "float64")),
    ("random_integers", "int64", {"low": -(1 << 63), "high": 1 << 63}),
    ("random_integers", "int64", {"low": -5, "high": (1 << 40) - 5}),
    ("random_integers", "int32", {"low": -7, "high": 1000}),
    ("random_integers", "uint8", {"low": 0, "high": 256}),
    ("random_permutation", "int64", {}),
)


class _HostBytes:
    """A kernel table for the compositions of random numbers, which only upload."""

    @staticmethod
    def upload(data: bytes, shape: tuple[int, ...], dtype: DType) -> bytes:
        return data


def random(device: Device) -> None:
    """The device has kernels of its own for random numbers; `Levels.test_random_numbers` says which numbers."""
    missing = [name for name, _, _ in RANDOM if not device.kernels.is_native(name)]
    assert not missing, f"'random' is claimed, but there is no kernel for {', '.join(dict.fromkeys(missing))}"


LEVELS: Final[dict[str, Callable[[Device], None]]] = {"strided": strided, "dlpack": dlpack, "random": random}
"""Word to test. A word that is not here is a promise that nothing in this core relies on yet."""


class Levels(Suite):
    """One test a word."""

    @since(1)
    def test_level(self, word: str, opened: Device) -> None:
        """What `CAPABILITIES` promises for the word, if it is claimed."""
        claim(opened, word)
        if word not in LEVELS:
            pytest.skip(f"this core asks nothing of {word!r}")
        LEVELS[word](opened)

    @since(1)
    def test_random_numbers(self, opened: Device) -> None:
        """Bit by bit those of `micrograd_core.ops.random`, whoever makes them."""
        for name, dtype, params in RANDOM:
            if dtype not in opened.kernels.backend.dtypes:
                continue
            place = {"shape": (5,), "dtype": DTYPES[dtype], "key": 3 << 64 | 5, "block": (1 << 64) - 1, **params}
            found = bytes(opened.kernels.to_host(getattr(opened.kernels, name)(**place)))
            expected = TABLE[name].compose(_HostBytes, **place)  # type: ignore[misc]
            assert found == expected, f"{name} gives other {dtype} numbers than the specification: {found.hex()}"
