"""The programs that compare on a GPU, in small sizes on the emulated one: they compute, and say what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import benchmark_device, benchmark_gpu, benchmark_gpu_networks
from micrograd_core import Device

if find_spec("micrograd_cuda"):
    from benchmarks.gpu import convolutions
    from micrograd_cuda.cudnn import CuDNN
    from micrograd_cuda.runtime import CuPyRuntime

pytestmark = pytest.mark.skipif(
    find_spec("emulated_cuda") is None, reason="there is no emulated GPU: python backends/cuda/tests/emulated/build.py"
)


def kept(folder: Path) -> Any:
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_launches_and_time_between_events_are_told_of_every_case(tmp_path: Path) -> None:
    assert benchmark_gpu.main(["--small", "--seconds", "0", "--out", str(tmp_path)]) == 0
    found = kept(tmp_path)["cases"]
    for name, row in found.items():
        facts = row["activity"]["micrograd"]
        assert facts["launches"] >= 1
        assert 0 < facts["seconds_between_events"] < 10, name
    assert found["softmax, bfloat16"]["activity"]["micrograd"]["launches"] == 1
    assert sum("bfloat16" in name for name in found) == 12


PROGRAMS: dict[str, Callable[[], int]] = {
    "peers": lambda: len(benchmark_gpu.disagreements("cuda:0")),
    "networks": lambda: benchmark_gpu_networks.main(["--small", "--seconds", "0", "--cases", "cross-entropy"]),
    "devices": lambda: benchmark_device.main(["--devices", "cpu", "cuda", "--size", "100", "--seconds", "0"]),
}


@pytest.mark.parametrize("factor", [2.0, float("nan")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_fails_where_the_gpu_has_other_numbers(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Device("cuda").kernels.backend
    kernel = backend.kernel("cross_entropy")
    assert PROGRAMS[name]() == 0
    for table in (Device("cuda").kernels,):
        monkeypatch.setattr(table, "cross_entropy", lambda *a, **b: kernel(*a, **b) * factor)
    assert PROGRAMS[name]() > 0


CASES = len(convolutions.SMALL) * len(convolutions.KINDS) if find_spec("micrograd_cuda") else 0


@pytest.mark.parametrize("there", [True, False])
def test_convolutions_are_told_in_both_ways(
    there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not there:
        monkeypatch.setattr(CuDNN, "_known", {(CuDNN, 0): None})
    elif CuDNN.of(0) is None:
        pytest.skip("there is no cuDNN here")
    assert convolutions.main(["--small"]) == 0
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.startswith("(")]
    assert len(lines) == CASES
    assert all(line.count("–") == (0 if there else 6) for line in lines)
    assert ("cuDNN is left out" in said) == (not there)


def test_convolutions_of_which_both_ways_have_other_numbers_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    convolve = CuPyRuntime.convolve

    def doubled(self: Any, call: Any) -> Any:
        run = convolve(self, call)

        def twice(x: Any, y: Any, out: Any) -> bool:
            done = run(x, y, out)
            out *= 2
            return done

        return run and twice

    monkeypatch.setattr(CuPyRuntime, "convolve", doubled)
    if CuDNN.of(0) is None:
        pytest.skip("there is no cuDNN here")
    assert convolutions.main(["--small"]) == 3 * CASES
    assert "bfloat16, filter: the two ways are" in capsys.readouterr().out
