"""The comparison on a GPU, on the host and with small arrays: that what it calls a copy is one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import benchmark_gpu


@pytest.mark.parametrize("name", benchmark_gpu.PEERS)
def test_the_ceiling_is_a_copy_that_is_made_at_each_call(name):
    try:
        peer = benchmark_gpu.PEERS[name]("cpu")
    except ImportError:
        pytest.skip(f"{name} is not installed")
    numbers = np.arange(1000, dtype="float32")
    x = peer.array(numbers, "float32")
    copy = peer.copying(x)
    first = copy()
    assert first is not x
    peer.wait(first)
    assert np.abs(np.asarray(first)).tolist() == numbers.tolist()
    if name == "jax":
        return  # nothing can be written to
    x[...] = 7.0
    assert np.abs(np.asarray(copy())).tolist() == [7.0] * 1000


def test_the_ceiling_grows_no_faster_than_memory():
    peers = {"micrograd": benchmark_gpu.Micrograd("cpu")}
    small, large = (benchmark_gpu._copy_ceiling(peers, np.zeros(n, "float32"), 0.02) for n in (2**10, 2**22))
    assert math.isfinite(small)
    assert large < 1e12  # bytes per second: no host's memory is as fast


def test_what_the_device_did_is_counted_by_call_and_by_kernel():
    found = benchmark_gpu.summary({"a": [1.0, 2.0], "b": [4.0, 4.0]}, 2)
    assert found == {"launches": 2.0, "device_seconds": 5.5, "longest": {"b": [1.0, 4.0], "a": [1.0, 1.5]}}
    figures = {
        "copy_bytes_per_second": 1e12,
        "left_out": {},
        "cases": {"MLP": {"seconds": {"micrograd": 1.0}, "activity": {"micrograd": found, "torch": {}}}},
    }
    assert "    micrograd: 1 × b, 4,000,000.0" in benchmark_gpu.table(figures).splitlines()
    figures["cases"]["MLP"]["activity"] = {"micrograd": {}}
    assert "µs on the device" in benchmark_gpu.table(figures)
