"""Levels: each word of `Backend.capabilities` is a promise, and a claimed promise is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from micrograd_core.conformance.base import Suite, claim, since
from micrograd_core.device import Device
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


LEVELS: Final[dict[str, Callable[[Device], None]]] = {"strided": strided, "dlpack": dlpack}
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
