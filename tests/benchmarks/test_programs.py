"""The rows beside programs in C and LeNet: who has the programs gets the same numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import benchmark_programs

SIZES: dict[str, dict[str, int]] = {
    "gpt2": {"rows": 2, "length": 8, "words": 50, "layers": 2, "heads": 2, "width": 16},
    "llama": {"width": 32, "inner": 48, "layers": 2, "heads": 4, "words": 60, "length": 12},
}


@pytest.mark.parametrize("name", SIZES)
def test_a_program_and_its_model_give_the_same_numbers(name: str, tmp_path: Path) -> None:
    path, _, make = benchmark_programs.PROGRAMS[name]
    source = benchmark_programs.ported(path)
    if source is None or shutil.which("cc") is None:
        pytest.skip(f"{path} is not in the folder that MICROGRAD_PORTS names, or there is no compiler")
    made: Any = make
    theirs, ours = made(source, tmp_path, **SIZES[name]).values()
    for _ in range(3):
        assert theirs() == pytest.approx(ours(), rel=1e-4)


def test_lenet_learns_what_it_learns_with_torch() -> None:
    pytest.importorskip("torch")
    theirs, ours = (run() for run in benchmark_programs.lenet(count=60, batch=20, epochs=2).values())
    assert theirs == pytest.approx(ours, rel=1e-3)


def test_what_is_not_there_is_left_out_by_name_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MICROGRAD_PORTS", raising=False)
    small = {"a": lambda: 1.0, "b": lambda: 1.0}
    monkeypatch.setattr(
        benchmark_programs, "runs_of", lambda name, folder: small if name == "lenet" else kept(name, folder)
    )
    assert benchmark_programs.main(["--cases", "gpt2", "lenet", "--out", str(tmp_path)]) == 0
    assert "gpt2 is left out: karpathy/llm.c/train_gpt2.c is not in the folder" in capsys.readouterr().err
    (written,) = tmp_path.glob("*.json")
    assert list(json.loads(written.read_text(encoding="utf-8"))["cases"]) == ["lenet"]


kept = benchmark_programs.runs_of


@pytest.mark.parametrize("name", ["mingpt", "dopri5"])
def test_a_program_for_torch_takes_the_same_steps_here(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    runs = benchmark_programs.port(name, tmp_path)
    if isinstance(runs, str):
        pytest.skip(runs)
    theirs, *ours = ([run() for _ in range(3)] for run in runs.values())
    assert len(ours) == (1 if name in benchmark_programs.UNTRACED else 2)
    for losses in ours:
        assert losses == pytest.approx(theirs, rel=1e-3)


def test_the_table_has_a_row_for_each_program_in_the_order_of_the_list() -> None:
    seconds = {"seconds": 0.002, "cpu_seconds": 0.001}
    cases = {
        "llama": {"about": "a Llama", "program": seconds, "micrograd-jit": seconds, "micrograd-jit by program": 1.25},
        "vae": {"about": "a VAE", "torch": seconds, "micrograd": seconds, "micrograd by torch": 0.5},
    }
    assert benchmark_programs.table(cases).splitlines()[2:] == [
        "| a VAE | torch | 1.0 | 0.50 | – |",
        "| a Llama | C | 1.0 | – | 1.25 |",
    ]
