"""The files that an evening's reading takes, in order, and how many lines of code they have: at most `LIMIT` together.

Blank lines, comments and docstrings do not count. ``python docs/evening.py`` prints the table.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

LIMIT = 4000
CORE = Path(__file__).parents[1] / "micrograd_core"
READING = (
    "errors.py dtypes.py layout.py ops/record.py ops/core/elementwise.py ops/core/movement.py ops/core/reductions.py "
    "ops/core/matmul.py backend.py tables/table.py tables/raw.py engine/apply.py engine/array.py engine/graph.py "
    "engine/sweep.py engine/backward.py engine/modes.py engine/autocast.py engine/explain.py engine/ingest.py "
    "engine/hooks.py engine/keys.py engine/write.py array/operators.py array/tensor.py"
).split()
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def lines_of_code(source: str) -> int:
    """How many lines have code on them.

    >>> lines_of_code('''# a comment
    ... def f():
    ...     "Its docstring."
    ...
    ...     return (1 +
    ...             2)
    ... ''')
    3
    """
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            code |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def table() -> tuple[str, int]:
    """The files with their lines, and the sum."""
    counts = {name: lines_of_code((CORE / name).read_text(encoding="utf-8")) for name in READING}
    total = sum(counts.values())
    rows = [f"{count:6,}  {name}" for name, count in counts.items()]
    return "\n".join([*rows, f"{total:6,}  of at most {LIMIT:,}"]), total


if __name__ == "__main__":
    printed, found = table()
    print(printed)
    sys.exit(found > LIMIT)
