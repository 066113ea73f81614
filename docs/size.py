"""Count the lines of code of each distribution (no comments, docstrings, blank lines), and compare with the limits.

::

    python docs/size.py            # a line for each distribution
    python docs/size.py --folders  # and one for each folder of the core
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"micrograd_core": 29_635, "backends/cpu/micrograd_cpu": 4_171, "backends/cuda/micrograd_cuda": 2_999}
"""The most lines that each distribution may have: lower them with each deletion."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SKIPPED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Lines of a module on which code stands: neither blank, nor only a comment, nor part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def by_file(folder: Path) -> dict[Path, int]:
    """The lines of code of each Python file below a folder; stubs are made from these and do not count."""
    return {path.relative_to(folder): code_lines(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}


def main(arguments: list[str]) -> int:
    """Print the sizes; return 1 if one is above its limit."""
    status = 0
    for name, limit in LIMITS.items():
        sizes = by_file(ROOT / name)
        total = sum(sizes.values())
        print(f"{name}  {total} of {limit}" + ("" if total <= limit else "  too many"))
        status |= total > limit
        if "--folders" in arguments:
            folders = Counter[str]()
            for path, lines in sizes.items():
                folders["/".join(path.parts[:-1]) or "."] += lines
            print(*(f"  {lines:6}  {folder}" for folder, lines in sorted(folders.items())), sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
