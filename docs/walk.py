"""Follow a page as its reader would: write the files it shows, run the commands it shows, compare what they print.

::

    python docs/walk.py docs/backends.md FOLDER

does it in an empty folder with what the shell finds (CI: an environment with nothing but the wheels). The tests do it
with stand-ins that need no network. A page says what a fenced block is by the line before it:

- a line that starts with a path of folder and file in backquotes and ends in a colon: the contents of that file;
- a line that starts with "From", links to a file here and ends in a colon: a passage of that file;
- ``console`` blocks are commands after ``$``, each with what it prints, where ``...`` stands for anything; of a command
  without output only the exit status counts;
- ``python`` blocks with ``>>>`` are doctests.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_FILE = re.compile(r"`([\w.-]+/[\w./-]+)`.*:")
_PASSAGE = re.compile(r"From .*\]\(([^)]+)\).*:")
_RUN = re.compile(r"^ *- run: (.*)$", re.M)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """One fenced block: `kind` is file, passage, console, doctest, or empty where the page does not say."""

    line: int
    kind: str
    target: str  # of a file or a passage
    text: str


class Step(NamedTuple):
    """A file to write at `path`, or a command to run and what it prints."""

    line: int
    path: str
    text: str
    output: str = ""


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks of a page."""
    for fence in _FENCE.finditer(page):
        before = page[: fence.start()].rstrip().rpartition("\n")[2]
        line, language, text = page.count("\n", 0, fence.start()) + 1, fence[1], fence[2]
        for kind, pattern in (("file", _FILE), ("passage", _PASSAGE)):
            if found := pattern.fullmatch(before):
                yield Block(line, kind, found[1], text)
                break
        else:
            kind = "console" if language == "console" else "doctest" if text.startswith(">>> ") else ""
            yield Block(line, kind, "", text)


def steps(page: str) -> Iterator[Step]:
    """What the reader of a page does, in order. The commands of a workflow are run where its repository is."""
    for block in blocks(page):
        if block.kind == "file":
            yield Step(block.line, block.target, block.text)
            repository = block.target.partition("/.github/")[0]
            for command in _RUN.findall(block.text) if repository != block.target else ():
                yield Step(block.line, "", f"( cd {repository} && {command} )")
        elif block.kind == "console":
            for part in block.text.removeprefix("$ ").split("\n$ "):
                command, _, output = part.partition("\n")
                yield Step(block.line, "", command, output)


def script(todo: list[Step], preamble: str = "") -> str:
    """One bash script for all steps; a marker with the number of the step follows what it printed."""
    lines = ["exec 2>&1 </dev/null", preamble]
    for number, step in enumerate(todo):
        if step.path:
            lines += [
                f"mkdir -p $(dirname {step.path}) && cat > {step.path} <<'END_OF_FILE'",
                f"{step.text}END_OF_FILE",
            ]
        else:
            lines += [step.text]
        lines += [f'printf "@@@%d %d\\n" {number} $?']
    return "\n".join(lines)


def follow(page: Path, folder: Path, preamble: str = "") -> list[str]:
    """Do what `page` says in `folder`; a sentence for each step that fails or prints something else."""
    todo = list(steps(page.read_text(encoding="utf-8")))
    run = subprocess.run(
        ["bash", "-c", script(todo, preamble)], cwd=folder, capture_output=True, text=True, check=False
    )
    wrong, printed = [], run.stdout
    for number, step in enumerate(todo):
        got, mark, rest = printed.partition(f"@@@{number} ")
        status, _, printed = rest.partition("\n")
        as_said = not step.output or doctest.OutputChecker().check_output(step.output, got, FLAGS)
        if not mark or status != "0" or not as_said:
            wrong.append(
                f"{page.name}, line {step.line}: `{step.path or step.text}` ended with status {status or 'none'}"
                f" and printed\n{got}\nwhere the page says\n{step.output}"
            )
    return wrong


if __name__ == "__main__":
    sentences = follow(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(sentences) or f"{sys.argv[1]} holds")
    sys.exit(bool(sentences))
