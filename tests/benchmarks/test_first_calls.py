"""The first calls that the README shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import benchmark_first_calls, gpt


def test_first_calls_are_timed_with_an_empty_and_a_filled_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    main = benchmark_first_calls.main
    assert main(["--repeat", "1", "--cases", "relu-sum", "--out", str(tmp_path), "--markdown"]) == 0
    (path,) = tmp_path.iterdir()
    figures = json.loads(path.read_text())["cases"]["relu-sum"]
    assert figures.keys() == {"about", "cold_s", "cold_cpu_s", "kept_s", "kept_cpu_s"}
    assert "| from the disk |" in capsys.readouterr().out
    assert benchmark_first_calls.GPT in benchmark_first_calls.names()


def test_a_gpt_on_values_learns() -> None:
    step = gpt.training(3)
    losses = [step() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
