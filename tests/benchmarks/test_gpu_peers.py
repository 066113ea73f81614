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
