"""A newcomer with a table follows the README, and the page of the commands says what they have."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

from micrograd_core.tools import cli
from tests.tools.flowers import rows, table

ROOT = Path(__file__).parents[2]


def test_three_commands_of_the_readme_lead_from_a_table_to_predictions(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## From my.csv to predictions in three commands")[2]
    commands = section.split("```")[1].strip().splitlines()
    assert len(commands) == 3
    table(tmp_path)
    new = [line.rpartition(",")[0] for line in rows(30, seed=1)]
    (tmp_path / "new.csv").write_text("\n".join(new) + "\n")
    for command in commands:
        words = shlex.split(command)
        if words[0] == "xdg-open":
            assert "<!doctype html>" in (tmp_path / words[1]).read_text(encoding="utf-8")
            continue
        assert words[0] == "micrograd"
        run = subprocess.run(
            [sys.executable, "-m", "micrograd_core", *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    with (tmp_path / "predictions.csv").open() as file:
        said = [row["predicted species"] for row in csv.DictReader(file)]
    true = [line.rpartition(",")[2] for line in rows(30, seed=1)[1:]]
    assert sum(a == b for a, b in zip(said, true, strict=True)) >= 27


def test_the_page_has_every_command_and_every_option_of_train() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    commands = cli._parser()[1].choices
    assert set(re.findall(r"^\| `([a-z-]+)[` ]", page.partition("## Exit statuses")[0], re.M)) == set(commands)
    options = {each for action in commands["train"]._actions for each in action.option_strings if each.startswith("--")}
    assert {each for each in options if f"`{each}" not in page} <= {"--help"}


def test_the_page_has_every_exit_status() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    section = page.partition("## Exit statuses")[2].partition("##")[0]
    found = {int(each) for each in re.findall(r"^\| (\d+) \|", section, re.M)}
    assert found == {0, cli.WRONG, cli.MENDABLE, cli.INTERRUPTED, cli.GONE}
