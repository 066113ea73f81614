"""What each shell itself offers for a line, where it is installed."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from micrograd_core.tools import cli
from micrograd_core.tools.cli import main
from micrograd_train import completion

SCRIPTS = {shell: completion.script(shell, cli._parser()[1]) for shell in completion.SHELLS}
PATIENCE = 20
"""Seconds for a shell to answer."""


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_script_knows_commands_options_and_values(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in [*cli._parser()[1].choices, "weight-decay", "breast_cancer", "adamw", "transformer"]:
        assert word in script


def bash(folder: Path, *lines: str) -> list[set[str]]:
    """What bash offers for the last word of each line; files are offered where this is nothing."""
    found = []
    for line in lines:
        words = [*line.split(" ")]
        typed = " ".join(map(shlex.quote, words))
        code = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _micrograd; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        run = subprocess.run(
            ["bash", "-c", SCRIPTS["bash"] + code], cwd=folder, capture_output=True, text=True, check=True
        )
        files = [each.name for each in folder.iterdir() if each.name.startswith(words[-1])]
        found.append(set(run.stdout.split()) or set(files))
    return found


def fish(folder: Path, *lines: str) -> list[set[str]]:
    """What fish offers."""
    asked = "\n".join(f"complete -C {shlex.quote(line)} | string split -f1 \\t; echo ==" for line in lines)
    run = subprocess.run(
        ["fish", "--no-config", "-c", SCRIPTS["fish"] + asked], cwd=folder, capture_output=True, text=True, check=True
    )
    assert not run.stderr
    return [set(part.split()) for part in run.stdout.split("==")[:-1]]


ZSH = r"""
compadd() { # what completion adds is written down, too
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -rl -- $hits >> $FOUND
  builtin compadd "$@"
}
next-line() { print '==' >> $FOUND; BUFFER= }
zle -N next-line
bindkey '^I' complete-word '^X' next-line
"""


def zsh(folder: Path, *lines: str) -> list[set[str]]:
    """What zsh offers, which it does only where somebody types."""
    return typed_into_zsh(folder, SCRIPTS["zsh"], *lines)


def typed_into_zsh(folder: Path, start: str, *lines: str) -> list[set[str]]:
    """The same, of a zsh that starts with other commands."""
    import pty

    found = folder.with_name("found")
    begin = folder.with_name("start")
    begin.write_text(f"compinit() {{ unfunction compinit; autoload -Uz compinit; compinit -u -D }}\n{start}\n{ZSH}")
    found.write_text("")
    ours, its = pty.openpty()
    environment = {**os.environ, "FOUND": str(found), "TERM": "dumb"}
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, cwd=folder, env=environment, start_new_session=True
    )
    os.close(its)
    try:
        os.write(ours, f"source {shlex.quote(str(begin))}; print '==' >> $FOUND\n".encode())
        said, ends = b"", time.monotonic() + PATIENCE
        for count, line in enumerate([*lines, ""], 1):
            while found.read_text().count("==") < count:
                assert time.monotonic() < ends, said.decode(errors="replace")
                if select.select([ours], [], [], 0.02)[0]:
                    said += os.read(ours, 1 << 16)
            if line:
                os.write(ours, f"{line}\t\x18".encode())
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
    assert b"not found" not in said
    return [set(part.split()) for part in found.read_text().split("==")[1:-1]]


@pytest.mark.parametrize("offers", [bash, zsh, fish])
def test_the_shell_completes(offers: Callable[..., list[set[str]]], tmp_path: Path) -> None:
    if shutil.which(offers.__name__) is None:
        pytest.skip(f"there is no {offers.__name__}")
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "my.csv").touch()
    expected = {
        "micrograd pre": {"predict"},
        "micrograd --v": {"--version"},
        "micrograd train mo": {"moons"},
        "micrograd train --opt": {"--optimizer"},
        "micrograd train iris --optimizer a": {"adam", "adamw"},
        "micrograd train iris --lr ": {"my.csv"},
        "micrograd train my": {"my.csv"},
        "micrograd train iris --config my": {"my.csv"},
        "micrograd completion z": {"zsh"},
        "micrograd predict train --un": {"--unseen"},
        "micrograd predict train --unseen ": {"error", "missing"},
        "micrograd predict train --hid": set(),
    }
    assert dict(zip(expected, offers(folder, *expected), strict=True)) == expected


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize("way", ["before compinit", "a file of fpath"])
def test_zsh_completes_from_the_first_time_on(way: str, tmp_path: Path) -> None:
    folder, functions = tmp_path / "here", tmp_path / "functions"
    folder.mkdir()
    functions.mkdir()
    start = SCRIPTS["zsh"]
    if way == "a file of fpath":
        (functions / "_micrograd").write_text(start)
        start = f"fpath=({shlex.quote(str(functions))} $fpath)\ncompinit\n"
    assert typed_into_zsh(folder, start, "micrograd pre", "micrograd pre") == [{"predict"}, {"predict"}]
