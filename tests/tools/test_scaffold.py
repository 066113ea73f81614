"""``micrograd new-backend``: what it writes is a package that conforms."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from micrograd_core import __version__
from micrograd_core.tools.cli import main
from micrograd_core.tools.scaffold import ScaffoldError, new_backend


def test_what_it_writes_conforms(tmp_path: Path) -> None:
    target = new_backend("spare_part", tmp_path)
    assert target.name == "micrograd-spare-part"
    project = tomllib.loads((target / "pyproject.toml").read_text())["project"]
    assert project["name"] == "micrograd-spare-part"
    assert project["entry-points"]["micrograd.backends"] == {"spare_part": "micrograd_spare_part.plugin"}
    assert f"micrograd-core>={__version__},<0.2" in project["dependencies"]
    assert project["license"] == "MIT"
    assert "the authors of micrograd-spare-part" in (target / "LICENSE").read_text()
    (target / "conftest.py").write_text(  # stands for the installation
        "from micrograd_core import plugins\nfrom micrograd_spare_part import plugin\n"
        "plugins.register('spare_part', plugin)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "add or matmul or std or strided"]
    run = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "spare_part:0 passed what was run" in run.stdout
    assert not any("NAME" in path.read_text() for path in target.rglob("*.*") if path.suffix in (".py", ".md", ".toml"))


def test_names_and_folders_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("9x", "my-device", "Mine", "", "a b"):
        with pytest.raises(ScaffoldError, match="lower-case letters"):
            new_backend(name, tmp_path)
    assert main(["new-backend", "mine", "--folder", str(tmp_path)]) == 0
    assert "pip install -e" in capsys.readouterr().out
    assert main(["new-backend", "mine", "--folder", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
