"""The boundary: moves, writes, memory, threads, deep graphs, and what the backend says of itself."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from micrograd_core import random
from micrograd_core.array.creation import arange, full, zeros
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.backend import CAPABILITIES, PROTOCOL
from micrograd_core.conformance.base import Suite, kept, others
from micrograd_core.conformance.cases import LAYOUTS, rounded, upload
from micrograd_core.conformance.kernels import at_once
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.engine.modes import enable_grad


class Boundary(Suite):
    """The device as a whole."""

    def test_protocol_and_capabilities(self, opened: Device) -> None:
        """The version this core speaks; words of the vocabulary."""
        assert opened.kernels.backend.protocol <= PROTOCOL
        assert opened.capabilities <= set(CAPABILITIES)

    def test_round_trip(self, dtype: str, opened: Device) -> None:
        """Host to device and back, for every layout, 0-d and empty."""
        for shape in ((3, 4), (5,), (), (0, 3)):
            size = int(np.prod(shape))
            numbers = np.arange(size) % 2 == 1 if dtype == "bool" else np.arange(size)
            array = rounded(numbers, dtype).reshape(shape)
            for name, layout in LAYOUTS.items():
                if name == "broadcast" or (0 in shape and name == "offset"):
                    continue
                up = partial(upload, device=opened, dtype=dtype)
                x = layout(array, up) if shape else up(array)
                assert x.tolist() == array.tolist(), f"{dtype} {shape} {name}: came back as {x.tolist()}"
                assert str(x.dtype) == dtype, f"{dtype}: became {x.dtype}"

    def test_moves_between_devices_keep_numbers_and_gradients(self, dtype: str, opened: Device) -> None:
        """To each other device at hand and back, inside the graph."""
        elsewhere = [device for device in others(opened) if dtype in device.kernels.backend.dtypes]
        if not elsewhere:
            pytest.skip("there is no other device with this dtype to move to")
        for other in elsewhere:
            x = upload(rounded(np.arange(6).reshape(2, 3).T, dtype), opened, dtype)
            there = x.mT.to(other)
            assert there.device is other
            assert there.tolist() == x.mT.tolist(), f"{dtype}: arrived on {other} as {there.tolist()}"
            assert there.to(opened).tolist() == x.mT.tolist(), f"{dtype}: came back from {other} as something else"
            if DTYPES[dtype].kind == "real floating":
                x = Tensor(x)
                (x.to(other) * 3).to(opened).sum().backward()
                assert x.grad is not None
                assert x.grad.device is opened
                assert x.grad.tolist() == [[3.0, 3.0]] * 3

    def test_writing(self, opened: Device) -> None:
        """In place, and seen by views, or not at all: then the core copies."""
        x = zeros((3, 4), device=opened)
        x[1, ::2] = 5.0
        x[:, -1] = asarray([1.0, 2.0, 3.0], device=opened)
        assert x.tolist() == [[0.0, 0.0, 0.0, 1.0], [5.0, 0.0, 5.0, 2.0], [0.0, 0.0, 0.0, 3.0]]

    def test_memory_returns_after_use(self, opened: Device) -> None:
        """What a graph held is given back when it dies, if the device tells."""
        opened.synchronize()
        if "in_use" not in opened.memory():
            pytest.skip("memory() does not tell 'in_use'")

        def work() -> None:
            x = Tensor(np.ones((64, 64), "float32"), device=opened)
            (x.exp() * x).sum().backward()
            del x
            full((64, 64), 0.5, device=opened), arange(64, device=opened)
            if "random" in opened.capabilities:
                with random.use_generator(7):
                    random.uniform((64,), device=opened), random.permutation(64, device=opened)
                    random.randint((64,), 0, 9, device=opened)

        leaked = kept(opened, work)
        assert leaked <= 0, f"{leaked} bytes stay in use after a graph has died"

    def test_deep_graphs(self, opened: Device) -> None:
        """A chain of 10⁵ operations builds, sweeps and dies."""
        x = Tensor(1.0, device=opened)
        y = x
        for _ in range(100_000):
            y = -y
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 1.0

    def test_threads(self, opened: Device) -> None:
        """Four threads compute at the same time, each its own graph."""

        def work() -> Tensor:
            x = Tensor(np.arange(1.0, 9.0, dtype="float32"), device=opened)
            with enable_grad():
                for _ in range(20):
                    x.zero_grad()
                    (x * x).sum().backward()
            assert x.grad is not None
            total: Tensor = x.grad.sum()
            return total

        assert work().item() == 72.0
        at_once({f"thread {n}": work for n in range(4)})

    def test_results_repeat(self, opened: Device) -> None:
        """The same inputs give the same bits."""
        x = asarray(np.random.default_rng(0).normal(size=(33, 17)).astype("float32"), device=opened)
        first, second = ((x @ x.mT).softmax().sum(axis=0).tolist() for _ in range(2))
        assert first == second
