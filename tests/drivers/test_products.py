"""Products that go through memory of workgroups, as on GPUs, also where the driver is one for the processor."""

from typing import Any

import numpy as np
import pytest

import micrograd_core as mg

SHAPES = [
    ((64, 64), (64, 64)),
    ((65, 33), (33, 70)),
    ((130, 300), (300, 70)),
    ((3, 2, 70, 9), (2, 9, 66)),
    ((9, 1), (1, 8)),
]


@pytest.mark.parametrize("threads", [1, 64, 1 << 14])
@pytest.mark.parametrize("shared", [0, 1 << 14])
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_products_by_every_tile(
    first: Any, second: Any, shared: int, threads: int, driver: mg.Device, monkeypatch: Any
) -> None:
    backend: Any = driver.kernels.backend
    for name, value in (("group_memory", shared), ("threads", threads), ("lanes", backend.group)):
        monkeypatch.setattr(backend, name, value)
    rng = np.random.default_rng(0)
    for turned in (False, True):
        x, y = (rng.normal(size=shape[:-2] + shape[-2:][:: -1 if turned else 1]) for shape in (first, second))
        x, y = x.astype(np.float32), y.astype(np.float32)
        a, b = mg.asarray(x, device=driver), mg.asarray(y, device=driver)
        if turned:
            x, y, a, b = x.swapaxes(-1, -2), y.swapaxes(-1, -2), a.mT, b.mT
        exact = x.astype(np.float64) @ y.astype(np.float64)
        np.testing.assert_allclose(np.asarray((a @ b).to("cpu")), exact, rtol=1e-5, atol=1e-6 * x.shape[-1] ** 0.5)
