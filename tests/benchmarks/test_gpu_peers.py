"""The comparison on a GPU, on the host and with small arrays: that what it calls a copy is one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks import benchmark_gpu, benchmark_gpu_networks
from benchmarks.gpu import activity


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
    found = activity.summary([("a", 1.0), ("a", 2.0), ("b", 4.0), ("b", 4.0)], 2)
    assert found == {"launches": 2.0, "device_seconds": 5.5, "longest": {"b": [1.0, 4.0], "a": [1.0, 1.5]}}
    figures = {
        "copy_bytes_per_second": 1e12,
        "left_out": {},
        "cases": {"MLP": {"seconds": {"micrograd": 1.0}, "activity": {"micrograd": found, "torch": {}}}},
    }
    assert "    1 × b, 4,000,000.0" in benchmark_gpu.table(figures).splitlines()
    figures["cases"]["MLP"]["activity"] = {"micrograd": {}}
    assert "µs on the device" in benchmark_gpu.table(figures)


def test_networks_are_timed_and_agree(tmp_path):
    peers = ["micrograd", "micrograd-jit", "torch"]
    small = ["--device", "cpu", "--small", "--seconds", "0.001", "--cases", "cross-entropy", "mlp"]
    benchmark_gpu_networks.main([*small, "--peers", *peers, "--out", str(tmp_path)])
    (found,) = (json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir())
    assert [case.rpartition(", ")[2] for case in found["cases"]] == ["float32"] * 2 + ["bfloat16"] * 2
    for name in set(peers) - set(found["left_out"]):
        assert all(row["seconds"][name] > 0 for row in found["cases"].values())
    assert not [why for why in found["left_out"] if why not in peers]


def test_networks_that_disagree_say_so(monkeypatch):
    program = benchmark_gpu_networks.cases.perceptron
    wrong = lambda p, *operands: program(p, *operands) * (2.0 if "Jit" in str(p) else 1.0)  # noqa: E731
    monkeypatch.setattr(benchmark_gpu_networks.cases, "perceptron", wrong)
    monkeypatch.setattr(benchmark_gpu_networks.MicrogradJit, "functions", property(lambda self: self))
    small = ["--device", "cpu", "--small", "--seconds", "0.001", "--cases", "mlp"]
    parsed = benchmark_gpu_networks.parser().parse_args([*small, "--peers", "micrograd", "micrograd-jit"])
    assert any("disagree about loss" in why for why in benchmark_gpu_networks.measure(parsed)["left_out"].values())
