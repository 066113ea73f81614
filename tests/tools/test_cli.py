"""The command: the main job end to end, and the sentences it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import micrograd_core as mg
from micrograd_core import Device, asarray
from micrograd_core.checkpoints import load_model
from micrograd_core.tools import arguments
from micrograd_core.tools.cli import main
from micrograd_train import train
from micrograd_train.learning import loop
from micrograd_train.learning.problems import problem
from micrograd_train.learning.settings import Settings


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The main job with its defaults."""
    out = tmp_path_factory.mktemp("digits")
    assert main(["train", "digits", "--out", str(out)]) == 0
    return out, json.loads((out / "metrics.json").read_text())


def test_digits_reach_97_percent(trained: tuple[Path, dict[str, Any]]) -> None:
    _, metrics = trained
    assert metrics["test"]["accuracy"] >= 0.97
    assert metrics["epochs"] == len(metrics["loss"]) == len(metrics["validation_accuracy"]) <= 80
    assert metrics["loss"][-1] < metrics["loss"][0]


def test_the_weights_are_those_of_the_network_and_load_anywhere(trained: tuple[Path, dict[str, Any]]) -> None:
    from safetensors.numpy import load_file

    out, metrics = trained
    model = train.mlp([64, *metrics["hidden"], 10], mg.random.Generator(1), Device("cpu"), dropout=0.3)
    model.load_state_dict(load_file(out / "model.safetensors"))
    found = problem(Settings("digits"))
    x, y = found.parts["test"]
    assert loop.judged(model, "classification", x.reshape(-1, 64), y, Device("cpu")) == {
        name: metrics["test"][name] for name in ("loss", "accuracy")
    }
    again = load_model(out / "model.safetensors")
    assert again(asarray(x.reshape(-1, 64))).tolist() == model(asarray(x.reshape(-1, 64))).tolist()


def test_the_curves_are_a_picture(trained: tuple[Path, dict[str, Any]]) -> None:
    assert (trained[0] / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_seed_gives_the_same_numbers_and_options_matter(tmp_path: Path) -> None:
    options = {"epochs": 2, "hidden": [8, 8], "optimizer": "sgd", "lr": 0.1, "batch_size": 100, "out": tmp_path}
    first, again, other = (train.train_digits(seed=seed, **options) for seed in (3, 3, 4))  # type: ignore[arg-type]
    assert first["loss"] == again["loss"]
    assert first["loss"] != other["loss"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "digits", "--epochs", "0"], "whole number of at least 1 and at most 18 digits; got '0'"),
        (["train", "digits", "--lr", "fast"], "number above 0; got 'fast'"),
        (["train", "digits", "--optimizer", "lbfgs"], "invalid choice: 'lbfgs'"),
        (["train", "digits", "--device", "cuda"], "no installed backend provides the CUDA device 'cuda'"),
        (["train", "cats"], "no file, folder or built-in set 'cats'; built in are digits, iris"),
        (["train"], "train needs DATA"),
        ([], "COMMAND"),
    ],
)
def test_bad_options_get_a_sentence(arguments: list[str], words: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "micrograd_core.tools.cli", *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr


def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(arguments, "entry_points", lambda group: [])
    assert main(["train", "digits", "--out", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert "micrograd train needs micrograd-train; install it with: pip install 'micrograd-core[train]'" in error
    assert not (tmp_path / "new").exists()


def test_a_distribution_adds_commands_and_a_broken_one_disturbs_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(commands: Any) -> None:
        commands.add_parser("greet").set_defaults(run=lambda options: print("hello") or 0)

    class Point(NamedTuple):
        name: str
        value: str
        found: Any

        def load(self) -> Any:
            return self.found

    points = [Point("a", "theirs:add", None), Point("b", "ours:add", add)]
    monkeypatch.setattr(arguments, "entry_points", lambda group: points if group == "micrograd.commands" else [])
    assert main(["greet"]) == 0
    told = capsys.readouterr()
    assert told.out == "hello\n"
    assert told.err.startswith("micrograd: the commands of 'theirs:add' are left out: TypeError(")


def test_a_folder_that_cannot_be_written_gets_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["train", "digits", "--out", str(tmp_path / "file")]) == 2
    error = capsys.readouterr().err
    assert f"cannot write '{tmp_path / 'file'}': it is not a folder. Nothing there was changed" in error


def test_the_doctor_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["device", "status"]
    assert any(line.startswith("cpu ") and "works" in line for line in lines)
    assert main(["devices", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["device"] for row in rows} >= {"cpu", "rawbuffer:0"}
