"""One style for all commands: examples, settings from a file, and `python -m`."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from micrograd_core.tools import arguments, cli
from micrograd_core.tools.cli import main
from micrograd_train.learning import commands as training
from micrograd_train.learning.settings import Settings
from micrograd_train.options import as_toml
from tests.tools.flowers import QUICK, table

COMMANDS: dict[str, Any] = cli._parser()[1].choices


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_are_understood(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown
    for example in COMMANDS[name].examples:
        assert example in shown
        words = shlex.split(re.sub(r"^mpiexec -n \d+ ", "", example.partition(" #")[0]))
        assert words[:2] == ["micrograd", name]
        COMMANDS[name].parse_args([each for each in words[2:] if not each.startswith(("--config", "runs/my/config"))])


def test_what_is_learned_from_is_listed_for_completion() -> None:
    from micrograd_train import sets

    assert training.BUILT_IN == sets.NAMES


def test_python_m_is_the_command() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "micrograd_core", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("micrograd-core ")


# ── settings from a file ─────────────────────────────────────────────────────────────────────────────────────


def options(*given: str) -> argparse.Namespace:
    return cli.parsed(["train", *given])


def test_a_file_gives_options_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('data = "iris"\nhidden = [8, 4]\nbatch-size = 7\nlr = 0.1\nweight_decay = 0.5\nmodel = "mlp"\n')
    found = options("--config", str(file), "--lr", "0.2")
    assert (found.data, found.hidden, found.batch_size, found.lr) == ("iris", [8, 4], 7, 0.2)
    assert (found.weight_decay, found.seed) == (0.5, 0)
    assert options(f"--config={file}", "wine").data == "wine"
    assert options("wine", "--lr", "0.3", "--config", str(file)).lr == 0.3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epohcs = 3", "there is no option 'epohcs'. Did you mean 'epochs'?"),
        ("zzz = 3", "there is no option 'zzz'. There are: data, target, task"),
        ("resume = true", "there is no option 'resume'"),
        ("epochs = 0", "epochs must be a whole number of at least 1"),
        ('lr = "fast"', "lr must be a number above 0; got 'fast'"),
        ("lr = [1]", "lr is one number or text; got [1]"),
        ("hidden = 8", "hidden is a list, such as [64, 64]; got 8"),
        ("hidden = [8, 0]", "hidden must be a whole number of at least 1"),
        ('optimizer = "lbfgs"', "optimizer is one of adam, adamw, sgd; got 'lbfgs'"),
        ("epochs = ", "the file is no TOML"),
    ],
)
def test_what_a_file_gets_wrong_is_said(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    assert main(["train", "--config", str(file)]) == 2
    assert words in capsys.readouterr().err
    assert main(["train", "--config", str(tmp_path / "none.toml")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("name", [None, "plain", 'a "quoted" \\ name', "ünï\n\tcode", "\x7f"])
def test_settings_are_written_as_they_are_read(name: str | None) -> None:
    settings = Settings("d.csv", target=name, hidden=(3, 4), lr=1e-5, seed=2**40)
    found = tomllib.loads(as_toml(settings.as_config(), "comment"))
    for key, value in settings.as_config().items():
        assert found.get(key.replace("_", "-")) == (list(value) if isinstance(value, tuple) else value)


# ── results as JSON ──────────────────────────────────────────────────────────────────────────────────────────


def test_json_is_all_of_stdout_and_null_where_there_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    for words in (
        ["train", "my.csv", "--target", "species", *QUICK],
        ["predict", "runs/my", "my.csv"],
        ["evaluate", "runs/my", "my.csv"],
        ["inspect", "runs/my"],
        ["compare", "runs/my", "--devices", "cpu"],
        ["draw", "a * b", "a=2", "b=3"],
    ):
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)
    assert json.loads(arguments.json_text({"x": [float("nan"), float("inf"), 1.0], "y": (2,)})) == {
        "x": [None, None, 1.0],
        "y": [2],
    }
